//! The flags of `samekey forensics`, and the options that they choose.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use samekey_forensics::{
    AmountUnit, Breadth, Currency, DateOrder, Decimal, Field, Header, Options,
};

use super::Failure;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// For programs: one JSON document
    Json,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum DecimalArg {
    /// 1,234.50
    Point,
    /// 1.234,50
    Comma,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum UnitArg {
    /// 12.50 is twelve and a half
    Major,
    /// 1250 is twelve and a half
    Minor,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum DateOrderArg {
    /// 03/04/2026 is the third of April
    Dmy,
    /// 03/04/2026 is the fourth of March
    Mdy,
}

#[derive(Debug, clap::Args)]
pub(super) struct Examine {
    /// CSV files; - is standard input
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Read the rows of --query from this PostgreSQL or SQLite database instead, read-only
    #[arg(long, value_name = "URL", requires = "query", conflicts_with = "files")]
    pub(super) database: Option<String>,
    /// The query for --database: one SELECT with at least a reference and a time
    #[arg(long, value_name = "SQL", requires = "database")]
    pub(super) query: Option<String>,
    /// What to print
    #[arg(long, value_enum, default_value = "text")]
    pub(super) format: Format,
    /// Also write the report as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Purchases listed in the text and the page (JSON lists all)
    #[arg(long, default_value_t = 20)]
    pub(super) limit: usize,
    #[command(flatten)]
    pub(super) columns: ColumnArgs,
    #[command(flatten)]
    pub(super) reading: ReadingArgs,
    #[command(flatten)]
    pub(super) search: SearchArgs,
}

/// Columns, each by its name or its number from 1; the usual names are found without.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Columns (by name, or by number from 1)")]
pub(super) struct ColumnArgs {
    /// Id of the payment
    #[arg(long, value_name = "COLUMN")]
    pub(super) id: Option<String>,
    /// Order, invoice or cart that payments of one purchase share
    #[arg(long, value_name = "COLUMN")]
    pub(super) reference: Option<String>,
    /// When it happened
    #[arg(long, value_name = "COLUMN")]
    pub(super) time: Option<String>,
    /// How much
    #[arg(long, value_name = "COLUMN")]
    pub(super) amount: Option<String>,
    /// In which currency
    #[arg(long, value_name = "COLUMN")]
    pub(super) currency: Option<String>,
    /// Who paid
    #[arg(long, value_name = "COLUMN")]
    pub(super) payer: Option<String>,
    /// Who was paid
    #[arg(long, value_name = "COLUMN")]
    pub(super) payee: Option<String>,
    /// Idempotency key
    #[arg(long, value_name = "COLUMN")]
    pub(super) key: Option<String>,
    /// How it ended
    #[arg(long, value_name = "COLUMN")]
    pub(super) status: Option<String>,
    /// Charge, authorisation, capture, refund, void
    #[arg(long, value_name = "COLUMN")]
    pub(super) operation: Option<String>,
    /// Client or service that sent it
    #[arg(long, value_name = "COLUMN")]
    pub(super) source: Option<String>,
    /// Id of the payment that this record continues
    #[arg(long, value_name = "COLUMN")]
    pub(super) parent: Option<String>,
    /// How much was given back
    #[arg(long, value_name = "COLUMN")]
    pub(super) refunded: Option<String>,
    /// Whether it is one of a declared series
    #[arg(long, value_name = "COLUMN")]
    pub(super) recurring: Option<String>,
    /// The first line is a record, not names
    #[arg(long)]
    pub(super) no_header: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Reading")]
pub(super) struct ReadingArgs {
    /// Between fields: one character, or tab
    #[arg(long, value_name = "CHAR")]
    pub(super) separator: Option<String>,
    /// Text encoding, such as utf-8, utf-16le or windows-1252
    #[arg(long, value_name = "NAME")]
    pub(super) encoding: Option<String>,
    /// Decimal sign of amounts
    #[arg(long, value_enum)]
    pub(super) decimal: Option<DecimalArg>,
    /// Unit of amounts
    #[arg(long, value_enum)]
    pub(super) amount_unit: Option<UnitArg>,
    /// Order of day and month
    #[arg(long, value_enum)]
    pub(super) date_order: Option<DateOrderArg>,
    /// Zone of times without an offset, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    pub(super) timezone: Option<String>,
    /// Currency of records that name none
    #[arg(long, value_name = "CODE", value_parser = currency)]
    pub(super) default_currency: Option<Currency>,
    /// A further status word that means: nothing happened (repeatable)
    #[arg(long, value_name = "WORD")]
    pub(super) failed_status: Vec<String>,
    /// A further status word that means: it happened (repeatable)
    #[arg(long, value_name = "WORD")]
    pub(super) moved_status: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Searching")]
pub(super) struct SearchArgs {
    /// Payments of one reference further apart are separate, such as 3d or 12h
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "3d")]
    pub(super) pause: Duration,
    /// Without a shared reference, compare payments within this span
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "2m")]
    pub(super) window: Duration,
    /// How long the server remembers a key
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "24h")]
    pub(super) key_life: Duration,
    /// Also compare payments with different references by payer and amount
    #[arg(long)]
    pub(super) fuzzy: bool,
    /// Memory for packed records in MiB; beyond it they go to a temporary file
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    pub(super) memory: usize,
    /// Threads; the machine's cores if not given
    #[arg(long, value_name = "COUNT")]
    pub(super) threads: Option<usize>,
}

#[derive(Debug, clap::Args)]
pub(super) struct GenerateArgs {
    /// Where to write the payments; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(super) out: PathBuf,
    /// Where to write the truth: reference, cause, payments
    #[arg(long, value_name = "FILE")]
    pub(super) truth: Option<PathBuf>,
    /// Rows, about
    #[arg(long, default_value_t = 10_000)]
    pub(super) rows: u64,
    /// The same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Duplicated purchases in a thousand
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) duplicates: u32,
}

#[derive(Debug, clap::Args)]
pub(super) struct EvaluateArgs {
    /// The seed of the made-up payments
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Rows, about
    #[arg(long, default_value_t = 200_000)]
    pub(super) rows: u64,
    /// Put the tables into this document, between its markers
    #[arg(long, value_name = "FILE")]
    pub(super) update: Option<PathBuf>,
}

/// The options that these flags choose.
pub(super) fn options(args: &Examine) -> Result<Options, Failure> {
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
pub(super) fn span(text: &str) -> Result<Duration, String> {
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
