//! `samekey man`: the help as manual pages.

use crate::exit::{Code, Stopped};
use crate::output::say;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::io;
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
    let mut command = crate::Arguments::command().disable_help_subcommand(true);
    command.build();
    match &arguments.dir {
        None => {
            let page = page(&command).map_err(|error| {
                Stopped::new(Code::Unreachable, format!("no page could be made: {error}"))
            })?;
            say(&page)?;
        }
        Some(dir) => {
            let written = std::fs::create_dir_all(dir).and_then(|()| write(&command, dir));
            written.map_err(|error| unwritable(dir, &error))?;
            say(&format!("the pages are in {}\n", dir.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command, and those below it.
fn write(command: &Command, dir: &Path) -> io::Result<()> {
    std::fs::write(dir.join(format!("{}.1", name(command))), page(command)?)?;
    command.get_subcommands().try_for_each(|command| write(command, dir))
}

fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// The page of a command that was built.
fn page(command: &Command) -> io::Result<String> {
    let mut page = Vec::new();
    Man::new(command.clone().override_usage(synopsis(command))).render(&mut page)?;
    let title = concat!(" 1 \"\" \"samekey ", env!("CARGO_PKG_VERSION"), "\" \"samekey\"\n");
    let mut text = String::new();
    let mut is_set = false;
    for line in String::from_utf8_lossy(&page).split_inclusive('\n') {
        // What begins with a blank was set by hand, as examples are: its lines stay as they are.
        if line.starts_with(' ') != is_set {
            is_set = !is_set;
            text.push_str(if is_set { ".nf\n" } else { ".fi\n" });
        }
        // The generator leaves an empty date out, and the version of a subcommand: their places shift.
        if line.starts_with(".TH ") {
            text.push_str(&format!(".TH {}{title}", name(command)));
        } else {
            text.push_str(line);
        }
    }
    if is_set {
        text.push_str(".fi\n");
    }
    Ok(text.replace("\n.br\n\n.br\n", "\n.sp\n"))
}

/// How a command is called, with the values of its flags, which the generator leaves out.
fn synopsis(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut line = name.to_owned();
    let shown = command.get_arguments().filter(|it| !it.is_hide_set());
    let (places, flags): (Vec<_>, Vec<_>) = shown.partition(|it| it.is_positional());
    for flag in flags {
        let is_required = flag.is_required_set();
        line.push_str(&if is_required { format!(" {flag}") } else { format!(" [{flag}]") });
    }
    for place in places {
        line.push_str(&format!(" {place}"));
    }
    match (command.has_subcommands(), command.is_subcommand_required_set()) {
        (false, _) => line,
        (true, true) => format!("{line} <COMMAND>"),
        (true, false) => format!("{line}\n{name} <COMMAND>"),
    }
}

fn unwritable(dir: &Path, error: &std::io::Error) -> Stopped {
    let sentence = format!("{} cannot be written to: {error}; name another folder", dir.display());
    Stopped::new(Code::Usage, sentence)
}
