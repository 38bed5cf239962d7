//! `samekey man`: the help as manual pages.

use crate::exit::{Code, Stopped};
use crate::output::say;
use clap::CommandFactory;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print the manual page, or write a page for every subcommand
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    samekey man | man -l -\n  \
    samekey man ~/.local/share/man/man1")]
pub struct Arguments {
    /// Write samekey.1, samekey-gateway.1 and so on into this folder; it is made where it is missing
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let command = crate::Arguments::command();
    match &arguments.dir {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page).map_err(|error| {
                Stopped::new(Code::Unreachable, format!("no page could be made: {error}"))
            })?;
            say(&String::from_utf8_lossy(&page))?;
        }
        Some(dir) => {
            let written =
                std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command, dir));
            written.map_err(|error| unwritable(dir, &error))?;
            say(&format!("the pages are in {}\n", dir.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn unwritable(dir: &Path, error: &std::io::Error) -> Stopped {
    let sentence = format!("{} cannot be written to: {error}; name another folder", dir.display());
    Stopped::new(Code::Usage, sentence)
}
