//! The command `samekey`: parse, dispatch, exit code. What it does is in the libraries.

mod cmd;
mod courier;
mod database;
mod exit;
mod output;
mod settings_file;
mod show;
mod stand;
mod stop;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use exit::Stopped;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Same key, same answer: a retry is the same command, and not a second order.
#[derive(Parser, Debug)]
#[command(
    name = "samekey",
    version,
    after_help = "Begin with: samekey demo\n\n\
                  Exit codes: 0 done, 1 findings, or nothing was decided, 2 words that cannot be understood, 3 something cannot be reached, 4 outcome unknown.\n\n\
                  Settings: a flag comes before its SAMEKEY_ variable, that before the file of --config, and that before the default."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Demo(cmd::demo::Arguments),
    Dev(cmd::dev::Arguments),
    Gateway(cmd::gateway::Arguments),
    Migrate(cmd::migrate::Arguments),
    Sweep(cmd::sweep::Arguments),
    Keys(cmd::keys::Arguments),
    Send(Box<cmd::send::Arguments>),
    Worker(cmd::worker::Arguments),
    Commands(cmd::commands::Arguments),
    RestoreMark(cmd::restore_mark::Arguments),
    /// A payments API that loses answers, and an exercise about safe retries with its grader
    Lab(cmd::lab::Args),
    Forensics(Box<cmd::forensics::Args>),
    Config(cmd::config::Arguments),
    Completions(cmd::completions::Arguments),
    Man(cmd::man::Arguments),
}

/// Who reads the log, and what of it where `SAMEKEY_LOG` says nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Log {
    /// Programs: one JSON object a line.
    Gateway,
    /// People.
    Warnings,
    /// People who look at something else; what is on its way when they stop it is no news.
    Nothing,
}

/// Sends the log to standard error.
fn log(of: Log) {
    use tracing_subscriber::EnvFilter;
    let usual = match of {
        Log::Gateway => "warn,samekey_gateway=info",
        Log::Warnings => "warn",
        Log::Nothing => "off",
    };
    let wanted = std::env::var("SAMEKEY_LOG").ok().filter(|wanted| !wanted.is_empty());
    let wanted = wanted.unwrap_or_else(|| usual.to_owned());
    // The driver of PostgreSQL writes the values of statements at DEBUG.
    let driver = if wanted.contains("tokio_postgres") { "" } else { ",tokio_postgres=info" };
    let filter = EnvFilter::builder().parse_lossy(format!("{wanted}{driver}"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false);
    if of == Log::Gateway { log.json().init() } else { log.init() }
}

/// The words of the command line, and which of them came from where.
fn understood() -> Result<(Arguments, ArgMatches), clap::Error> {
    let mut command = Arguments::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    let arguments =
        Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((arguments, matches))
}

fn main() -> ExitCode {
    let (arguments, matches) = match understood() {
        Ok(understood) => understood,
        Err(error) => return output::not_understood(&error),
    };
    log(if matches!(arguments.command, Command::Gateway(_)) {
        Log::Gateway
    } else if matches!(arguments.command, Command::Demo(_)) {
        Log::Nothing
    } else {
        Log::Warnings
    });
    let ended = match arguments.command {
        Command::Demo(arguments) => cmd::demo::run(&arguments),
        Command::Dev(arguments) => cmd::dev::run(&arguments),
        Command::Gateway(arguments) => cmd::gateway::run(&arguments),
        Command::Migrate(arguments) => cmd::migrate::run(&arguments),
        Command::Sweep(arguments) => cmd::sweep::run(&arguments),
        Command::Keys(arguments) => cmd::keys::run(&arguments),
        Command::Send(arguments) => cmd::send::run(&arguments),
        Command::Worker(arguments) => cmd::worker::run(&arguments),
        Command::Commands(arguments) => cmd::commands::run(&arguments),
        Command::RestoreMark(arguments) => cmd::restore_mark::run(&arguments),
        Command::Lab(arguments) => Ok(cmd::lab::run(arguments)),
        Command::Config(arguments) => {
            cmd::config::run(&arguments, matches.subcommand_matches("config"))
        }
        Command::Completions(arguments) => cmd::completions::run(&arguments),
        Command::Man(arguments) => cmd::man::run(&arguments),
        Command::Forensics(arguments) => {
            let mut stdout = std::io::stdout().lock();
            Ok(ExitCode::from(cmd::forensics::run(*arguments, &mut stdout)))
        }
    };
    match ended {
        Ok(code) => code,
        Err(Stopped { code, sentence }) => {
            output::complain("samekey", &sentence);
            code.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::{Command, CommandFactory};

    /// As wide as a terminal is at least.
    const WIDTH: usize = 80;
    /// A manual page begins its lines so much farther to the right.
    const INDENT: usize = 7;

    /// The lines of help texts that were broken by hand and do not fit, so that they are broken once more.
    fn broken_twice(command: &Command) -> Vec<String> {
        let texts = [
            command.get_long_about(),
            command.get_before_help(),
            command.get_after_help(),
            command.get_after_long_help(),
        ];
        let mut found = Vec::new();
        for text in texts.into_iter().flatten() {
            for paragraph in text.to_string().split("\n\n") {
                let is_broken = paragraph.lines().count() > 1 || paragraph.starts_with(' ');
                let wide = paragraph.lines().filter(|line| line.chars().count() > WIDTH - INDENT);
                found.extend(wide.filter(|_| is_broken).map(str::to_owned));
            }
        }
        found.extend(command.get_subcommands().flat_map(broken_twice));
        found
    }

    #[test]
    fn what_is_broken_by_hand_in_a_help_text_fits_a_terminal() {
        let broken = broken_twice(&Arguments::command());
        assert!(broken.is_empty(), "{broken:#?}");
        let planted =
            Command::new("x").subcommand(Command::new("y").after_help(format!("a\n{:81}", "b")));
        assert_eq!(broken_twice(&planted).len(), 1);
    }

    #[test]
    fn help_is_as_wide_as_the_terminal_and_no_wider() {
        let mut command = Arguments::command();
        let gateway = command.find_subcommand_mut("gateway").unwrap();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let wide = gateway.clone().term_width(120).render_long_help().to_string();
        for width in [60, WIDTH] {
            let help = gateway.clone().term_width(width).render_long_help().to_string();
            let widest = help.lines().map(|line| line.chars().count()).max().unwrap();
            // An address that a help text names is longer than half a line, and is not broken.
            assert!(widest <= width.max(78), "{help}");
            assert_eq!(words(&help), words(&wide));
        }
    }
}
