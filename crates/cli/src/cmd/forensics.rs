//! `samekey forensics`: from flags to options, from the report to the terminal or a file.

mod args;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use samekey_forensics::database::rows_of;
use samekey_forensics::{
    ErrorKind, Evaluation, Input, Plan, Progress, Report, analyse, evaluate, generate,
    update_section,
};

use args::{EvaluateArgs, Examine, Format, GenerateArgs, options};

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
            crate::output::complain("samekey forensics", &text);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::args::span;
    use super::*;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        args: Args,
    }

    fn ran(arguments: &[&str]) -> (u8, String) {
        let arguments = std::iter::once("forensics").chain(arguments.iter().copied());
        let parsed = Alone::try_parse_from(arguments).unwrap();
        let mut out = Vec::new();
        let code = run(parsed.args, &mut out);
        (code, String::from_utf8(out).unwrap())
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    const TWICE: &str = "payment_id,order_id,created_at\n\
        P1,ORD-1,2026-09-07T10:00:00Z\nP2,ORD-1,2026-09-07T10:00:01Z\n";
    const ONCE: &str = "payment_id,order_id,created_at\nP1,ORD-1,2026-09-07T10:00:00Z\n";

    #[test]
    fn the_exit_code_tells_clean_found_and_unusable_apart() {
        for (text, code, part) in [
            (ONCE, OK, "No purchase was paid more than once."),
            (TWICE, FINDINGS, "1 purchase was paid more than once"),
            ("nothing\n", USAGE, ""),
        ] {
            let file = file(text);
            let (got, out) = ran(&[file.path().to_str().unwrap()]);
            assert_eq!(got, code, "{out}");
            assert!(out.contains(part), "{out}");
        }
        assert_eq!(ran(&[]).0, USAGE);
        assert_eq!(
            ran(&["--database", "sqlite:/nonexistent/x.db", "--query", "select 1"]).0,
            UNREACHABLE
        );
        assert_eq!(ran(&["--separator", "ab", "x.csv"]).0, USAGE);
    }

    #[test]
    fn json_and_the_page_are_written() {
        let file = file(TWICE);
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("report.html");
        let arguments =
            [file.path().to_str().unwrap(), "--format", "json", "--html", page.to_str().unwrap()];
        let (code, out) = ran(&arguments);
        assert_eq!(code, FINDINGS);
        assert!(out.contains("\"format_version\": 1"));
        assert!(fs::read_to_string(&page).unwrap().starts_with("<!doctype html>"));
        let (code, _) = ran(&[arguments[0], "--html", "/nonexistent/report.html"]);
        assert_eq!(code, USAGE);
    }

    #[test]
    fn made_up_payments_are_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let (out, truth) = (folder.path().join("p.csv"), folder.path().join("t.csv"));
        let (out, truth) = (out.to_str().unwrap(), truth.to_str().unwrap());
        let (code, _) =
            ran(&["generate", "--rows", "2000", "--seed", "5", "--out", out, "--truth", truth]);
        assert_eq!(code, OK);
        let known = fs::read_to_string(truth).unwrap().lines().count() - 1;
        let (code, text) = ran(&[out, "--limit", "3"]);
        assert_eq!(code, FINDINGS);
        assert!(text.contains(&format!("{known} purchases were paid more than once")), "{text}");
    }

    #[test]
    fn spans_are_read_in_their_units() {
        assert_eq!(span("90"), Ok(Duration::from_secs(90)));
        assert_eq!(span("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(span("3d"), Ok(Duration::from_secs(259_200)));
        assert!(span("soon").is_err() && span("3w").is_err() && span("-1s").is_err());
    }
}
