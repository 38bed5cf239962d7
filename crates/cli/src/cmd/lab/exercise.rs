//! `samekey lab new` and `samekey lab grade`: the exercise and its grader.

use super::failed;
use crate::exit::{Code, Stopped};
use crate::output::{complain, say};
use crate::stand::address;
use clap::ValueEnum;
use samekey_lab::exercise::{self, Language};
use samekey_lab::grade::{self, Options};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What the grader's scripts see of the environment: enough to find their programs and their language, no secrets.
const PASSED_ON: [&str; 8] =
    ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ", "PAY_TIMEOUT"];
/// Where a shell looks for programs when nobody says so.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// Arguments of `samekey lab new`.
#[derive(Debug, clap::Args)]
pub struct NewArgs {
    /// The folder for the task; it is made where it is missing
    dir: PathBuf,
    /// The language of the task
    #[arg(long, value_enum, default_value_t = Lang::En)]
    lang: Lang,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Lang {
    En,
    Ja,
    Ko,
}

/// Lays out the exercise.
pub fn new(args: &NewArgs) -> ExitCode {
    let language = match args.lang {
        Lang::En => Language::English,
        Lang::Ja => Language::Japanese,
        Lang::Ko => Language::Korean,
    };
    match exercise::lay_out(&args.dir, language) {
        Ok(written) => {
            let lines: String =
                written.iter().map(|path| format!("{}\n", path.display())).collect();
            told(say(&lines), ExitCode::SUCCESS)
        }
        Err(error) => failed(&error),
    }
}

/// Arguments of `samekey lab grade`.
#[derive(Debug, clap::Args)]
pub struct GradeArgs {
    /// The folder with the solved exercise
    dir: PathBuf,
    /// Check this file only; may be given several times
    #[arg(long, value_name = "FILE")]
    only: Vec<String>,
    /// How the result is written
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Where the API listens while it grades; scripts that take its address from LAB_URL work with any
    #[arg(long, default_value = "127.0.0.1:8021", value_name = "ADDRESS", value_parser = address)]
    listen: SocketAddr,
    /// How late every second answer is, in milliseconds; the scripts' own timeouts must be shorter
    #[arg(long, default_value_t = 6_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    late_ms: u64,
    /// How long one run of a script may take, in seconds
    #[arg(long, default_value_t = 60, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    limit_s: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// Grades the exercise: 0 all passed, 1 something did not.
pub async fn grade(args: GradeArgs) -> ExitCode {
    let mut environment: Vec<(String, String)> = PASSED_ON
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect();
    if environment.iter().all(|(name, _)| name != "PATH") {
        environment.push(("PATH".to_owned(), PATH_DEFAULT.to_owned()));
    }
    let options = Options {
        listen: args.listen,
        late_ms: args.late_ms,
        script_time: Duration::from_secs(args.limit_s),
        only: args.only,
        environment,
        owns_all_descendants: grade::adopt_orphans(),
    };
    let graded = tokio::select! {
        graded = grade::grade(&args.dir, &options) => graded,
        // Dropping the grader ends the script at work.
        _ = tokio::signal::ctrl_c() => {
            complain("samekey lab", "interrupted, so nothing was graded; the script at work was ended");
            return Code::NothingDecided.into();
        }
    };
    let report = match graded {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    let text = match args.format {
        Format::Table => report.table(),
        Format::Json => report.json() + "\n",
    };
    told(say(&text), if report.passed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The code, if its reason could be told.
fn told(said: Result<(), Stopped>, code: ExitCode) -> ExitCode {
    match said {
        Ok(()) => code,
        Err(Stopped { code, sentence }) => {
            complain("samekey lab", &sentence);
            code.into()
        }
    }
}
