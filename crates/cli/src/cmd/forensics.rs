//! `samekey forensics`: from flags to options, from the report to the terminal or a file.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use samekey_forensics::database::rows_of;
use samekey_forensics::{
    AmountUnit, Breadth, Currency, DateOrder, Decimal, ErrorKind, Evaluation, Field, Header, Input,
    Options, Plan, Progress, Report, analyse, evaluate, generate, update_section,
};

/// Exit codes of the house.
const OK: u8 = 0;
const FINDINGS: u8 = 1;
const USAGE: u8 = 2;
const UNREACHABLE: u8 = 3;

/// Find duplicate payments in records and name the cause.
///
/// Reads CSV files (also .gz), standard input (-), or the rows of a database query, and reports
/// which purchases were paid more than once, what sent the surplus payments, and what to change.
/// The source is only ever read. Exit code 0: nothing found; 1: duplicates found; 2: the input or
/// a flag cannot be used; 3: the database cannot be reached.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<More>,
    #[command(flatten)]
    examine: Examine,
}

#[derive(Debug, Subcommand)]
enum More {
    /// Write made-up payments with duplicates of every cause, and the truth about them
    Generate(GenerateArgs),
    /// Measure on made-up payments how often each cause is found and named rightly
    Evaluate(EvaluateArgs),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs: one JSON document
    Json,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DecimalArg {
    /// 1,234.50
    Point,
    /// 1.234,50
    Comma,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum UnitArg {
    /// 12.50 is twelve and a half
    Major,
    /// 1250 is twelve and a half
    Minor,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DateOrderArg {
    /// 03/04/2026 is the third of April
    Dmy,
    /// 03/04/2026 is the fourth of March
    Mdy,
}

#[derive(Debug, clap::Args)]
struct Examine {
    /// CSV files; - is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read the rows of --query from this PostgreSQL or SQLite database instead, read-only
    #[arg(long, value_name = "URL", requires = "query", conflicts_with = "files")]
    database: Option<String>,
    /// The query for --database: one SELECT with at least a reference and a time
    #[arg(long, value_name = "SQL", requires = "database")]
    query: Option<String>,
    /// What to print
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Also write the report as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Purchases listed in the text and the page (JSON lists all)
    #[arg(long, default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    columns: ColumnArgs,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    search: SearchArgs,
}

/// Columns, each by its name or its number from 1; the usual names are found without.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Columns (by name, or by number from 1)")]
struct ColumnArgs {
    /// Id of the payment
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,
    /// Order, invoice or cart that payments of one purchase share
    #[arg(long, value_name = "COLUMN")]
    reference: Option<String>,
    /// When it happened
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// How much
    #[arg(long, value_name = "COLUMN")]
    amount: Option<String>,
    /// In which currency
    #[arg(long, value_name = "COLUMN")]
    currency: Option<String>,
    /// Who paid
    #[arg(long, value_name = "COLUMN")]
    payer: Option<String>,
    /// Who was paid
    #[arg(long, value_name = "COLUMN")]
    payee: Option<String>,
    /// Idempotency key
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    /// How it ended
    #[arg(long, value_name = "COLUMN")]
    status: Option<String>,
    /// Charge, authorisation, capture, refund, void
    #[arg(long, value_name = "COLUMN")]
    operation: Option<String>,
    /// Client or service that sent it
    #[arg(long, value_name = "COLUMN")]
    source: Option<String>,
    /// Id of the payment that this record continues
    #[arg(long, value_name = "COLUMN")]
    parent: Option<String>,
    /// How much was given back
    #[arg(long, value_name = "COLUMN")]
    refunded: Option<String>,
    /// Whether it is one of a declared series
    #[arg(long, value_name = "COLUMN")]
    recurring: Option<String>,
    /// The first line is a record, not names
    #[arg(long)]
    no_header: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Reading")]
struct ReadingArgs {
    /// Between fields: one character, or tab
    #[arg(long, value_name = "CHAR")]
    separator: Option<String>,
    /// Text encoding, such as utf-8, utf-16le or windows-1252
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// Decimal sign of amounts
    #[arg(long, value_enum)]
    decimal: Option<DecimalArg>,
    /// Unit of amounts
    #[arg(long, value_enum)]
    amount_unit: Option<UnitArg>,
    /// Order of day and month
    #[arg(long, value_enum)]
    date_order: Option<DateOrderArg>,
    /// Zone of times without an offset, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// Currency of records that name none
    #[arg(long, value_name = "CODE", value_parser = currency)]
    default_currency: Option<Currency>,
    /// A further status word that means: nothing happened (repeatable)
    #[arg(long, value_name = "WORD")]
    failed_status: Vec<String>,
    /// A further status word that means: it happened (repeatable)
    #[arg(long, value_name = "WORD")]
    moved_status: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Searching")]
struct SearchArgs {
    /// Payments of one reference further apart are separate, such as 3d or 12h
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "3d")]
    pause: Duration,
    /// Without a shared reference, compare payments within this span
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "2m")]
    window: Duration,
    /// How long the server remembers a key
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "24h")]
    key_life: Duration,
    /// Also compare payments with different references by payer and amount
    #[arg(long)]
    fuzzy: bool,
    /// Memory for packed records in MiB; beyond it they go to a temporary file
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    memory: usize,
    /// Threads; the machine's cores if not given
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
}

#[derive(Debug, clap::Args)]
struct GenerateArgs {
    /// Where to write the payments; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// Where to write the truth: reference, cause, payments
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Rows, about
    #[arg(long, default_value_t = 10_000)]
    rows: u64,
    /// The same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Duplicated purchases in a thousand
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
    duplicates: u32,
}

#[derive(Debug, clap::Args)]
struct EvaluateArgs {
    /// The seed of the made-up payments
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rows, about
    #[arg(long, default_value_t = 200_000)]
    rows: u64,
    /// Put the tables into this document, between its markers
    #[arg(long, value_name = "FILE")]
    update: Option<PathBuf>,
}

/// Runs the command; the answer is its exit code.
pub fn run(args: Args, stdout: &mut dyn Write) -> u8 {
    let done = match args.command {
        Some(More::Generate(args)) => run_generate(&args, stdout),
        Some(More::Evaluate(args)) => run_evaluate(&args, stdout),
        None => run_examine(args.examine, stdout),
    };
    match done {
        Ok(code) => code,
        // A reader that has seen enough, such as `head`, is no failure.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => OK,
        Err(failure) => {
            let (text, code) = failure.told();
            eprintln!("samekey forensics: {text}");
            code
        }
    }
}

enum Failure {
    Forensics(samekey_forensics::Error),
    Output(io::Error),
    File(PathBuf, io::Error),
    Usage(String),
}

impl Failure {
    fn told(&self) -> (String, u8) {
        match self {
            Self::Forensics(error) => {
                let code = match error.kind() {
                    ErrorKind::Usage => USAGE,
                    ErrorKind::Unreachable | ErrorKind::Machine => UNREACHABLE,
                };
                (error.to_string(), code)
            }
            Self::Output(error) => (format!("standard output: {error}"), UNREACHABLE),
            Self::File(path, error) => {
                (format!("{}: cannot be written: {error}", path.display()), USAGE)
            }
            Self::Usage(text) => (text.clone(), USAGE),
        }
    }
}

impl From<samekey_forensics::Error> for Failure {
    fn from(error: samekey_forensics::Error) -> Self {
        Self::Forensics(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

fn run_examine(args: Examine, stdout: &mut dyn Write) -> Result<u8, Failure> {
    let options = options(&args)?;
    let inputs = inputs(&args)?;
    let bar = ProgressBar::hidden();
    if io::stderr().is_terminal() {
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
    }
    let told = |progress: Progress| show(&bar, progress);
    let report = analyse(inputs, &options, &told)?;
    bar.finish_and_clear();
    if let Some(path) = &args.html {
        fs::write(path, report.to_html(args.limit.max(HTML_LEAST)))
            .map_err(|error| Failure::File(path.clone(), error))?;
    }
    print(&report, &args, stdout)?;
    Ok(if report.has_findings() { FINDINGS } else { OK })
}

/// A page has room for more purchases than a terminal.
const HTML_LEAST: usize = 100;

fn print(report: &Report, args: &Examine, stdout: &mut dyn Write) -> Result<(), Failure> {
    match args.format {
        Format::Json => writeln!(stdout, "{}", report.to_json())?,
        Format::Text => {
            const WIDTH_USUAL: u16 = 120;
            let width = console_width().unwrap_or(WIDTH_USUAL);
            write!(stdout, "{}", report.to_text(width, args.limit))?;
            if let Some(path) = &args.html {
                writeln!(stdout, "\nThe report as a page: {}", path.display())?;
            }
        }
    }
    stdout.flush()?;
    Ok(())
}

fn console_width() -> Option<u16> {
    let (_, width) = console::Term::stdout().size_checked()?;
    io::stdout().is_terminal().then_some(width)
}

fn show(bar: &ProgressBar, progress: Progress) {
    if bar.length().is_none()
        && let Some(total) = progress.bytes_total
    {
        bar.set_length(total);
        if let Ok(style) = ProgressStyle::with_template(
            "reading {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        ) {
            bar.set_style(style);
        }
    }
    bar.set_position(progress.bytes);
}

fn inputs(args: &Examine) -> Result<Vec<Input>, Failure> {
    if let (Some(url), Some(query)) = (&args.database, &args.query) {
        return Ok(vec![rows_of(url, query)?]);
    }
    if args.files.is_empty() {
        return Err(Failure::Usage(
            "no input; give a CSV file, - for standard input, or --database with --query"
                .to_owned(),
        ));
    }
    let stream =
        || Input::Stream { name: "(standard input)".to_owned(), bytes: Box::new(io::stdin()) };
    let input = |path: &PathBuf| {
        if path == Path::new("-") { stream() } else { Input::File(path.clone()) }
    };
    Ok(args.files.iter().map(input).collect())
}

fn options(args: &Examine) -> Result<Options, Failure> {
    let columns = &args.columns;
    let chosen = [
        (Field::Id, &columns.id),
        (Field::Reference, &columns.reference),
        (Field::Time, &columns.time),
        (Field::Amount, &columns.amount),
        (Field::Currency, &columns.currency),
        (Field::Payer, &columns.payer),
        (Field::Payee, &columns.payee),
        (Field::Key, &columns.key),
        (Field::Status, &columns.status),
        (Field::Operation, &columns.operation),
        (Field::Source, &columns.source),
        (Field::Parent, &columns.parent),
        (Field::Refunded, &columns.refunded),
        (Field::Recurring, &columns.recurring),
    ];
    let reading = &args.reading;
    let search = &args.search;
    Ok(Options {
        columns: chosen
            .into_iter()
            .filter_map(|(field, name)| name.clone().map(|name| (field, name)))
            .collect(),
        header: if columns.no_header { Header::Absent } else { Header::Named },
        separator: reading.separator.as_deref().map(separator).transpose()?,
        encoding: reading.encoding.clone(),
        decimal: reading.decimal.map(|decimal| match decimal {
            DecimalArg::Point => Decimal::Point,
            DecimalArg::Comma => Decimal::Comma,
        }),
        amount_unit: reading.amount_unit.map(|unit| match unit {
            UnitArg::Major => AmountUnit::Major,
            UnitArg::Minor => AmountUnit::Minor,
        }),
        date_order: reading.date_order.map(|order| match order {
            DateOrderArg::Dmy => DateOrder::DayFirst,
            DateOrderArg::Mdy => DateOrder::MonthFirst,
        }),
        zone: reading.timezone.clone(),
        currency: reading.default_currency,
        pause: search.pause,
        window: search.window,
        key_life: search.key_life,
        breadth: if search.fuzzy { Breadth::Fuzzy } else { Breadth::Strict },
        memory_bytes: search.memory << 20,
        threads: search.threads,
        failed_words: reading.failed_status.clone(),
        moved_words: reading.moved_status.clone(),
    })
}

fn separator(text: &str) -> Result<u8, Failure> {
    match text.as_bytes() {
        b"tab" | b"\\t" | b"\t" => Ok(b'\t'),
        [byte] if !byte.is_ascii_alphanumeric() && *byte != b'"' => Ok(*byte),
        _ => Err(Failure::Usage(format!(
            "--separator {text}: expected one character that is no letter, digit or quote, or tab"
        ))),
    }
}

fn currency(text: &str) -> Result<Currency, String> {
    Currency::read(text.as_bytes()).ok_or_else(|| "expected three letters such as EUR".to_owned())
}

/// `90s`, `2m`, `24h`, `3d`, `500ms`; a bare number is seconds.
fn span(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number with ms, s, m, h or d, such as 90s or 3d".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| expected())?;
    let seconds =
        |each: u64| number.checked_mul(each).map(Duration::from_secs).ok_or_else(expected);
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "" | "s" => seconds(1),
        "m" | "min" => seconds(60),
        "h" => seconds(3_600),
        "d" => seconds(86_400),
        _ => Err(expected()),
    }
}

fn run_generate(args: &GenerateArgs, stdout: &mut dyn Write) -> Result<u8, Failure> {
    let plan = Plan { seed: args.seed, rows: args.rows, duplicates_per_mille: args.duplicates };
    let mut truth = match &args.truth {
        Some(path) => Box::new(create(path)?) as Box<dyn Write>,
        None => Box::new(io::sink()),
    };
    if args.out == Path::new("-") {
        generate(&plan, &mut io::BufWriter::new(stdout), &mut truth)?;
    } else {
        let mut out = create(&args.out)?;
        generate(&plan, &mut out, &mut truth)
            .and_then(|()| out.flush())
            .map_err(|error| Failure::File(args.out.clone(), error))?;
    }
    truth.flush()?;
    Ok(OK)
}

fn create(path: &Path) -> Result<io::BufWriter<fs::File>, Failure> {
    let file = fs::File::create(path).map_err(|error| Failure::File(path.to_owned(), error))?;
    Ok(io::BufWriter::new(file))
}

fn run_evaluate(args: &EvaluateArgs, stdout: &mut dyn Write) -> Result<u8, Failure> {
    let evaluation: Evaluation = evaluate(args.seed, args.rows)?;
    let tables = evaluation.to_markdown();
    if let Some(path) = &args.update {
        let text = fs::read_to_string(path).map_err(|error| Failure::File(path.clone(), error))?;
        let updated = update_section(&text, &tables).ok_or_else(|| {
            Failure::Usage(format!(
                "{}: has no markers; expected the lines <!-- evaluation --> and \
                 <!-- /evaluation --> where the tables go",
                path.display()
            ))
        })?;
        fs::write(path, updated).map_err(|error| Failure::File(path.clone(), error))?;
    }
    writeln!(stdout, "{tables}")?;
    Ok(OK)
}
