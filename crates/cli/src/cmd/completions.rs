//! `samekey completions`: what a shell needs to complete the words of this command.

use crate::exit::Stopped;
use crate::output::say;
use clap::CommandFactory;
use clap_complete::Shell;
use std::process::ExitCode;

/// Print what a shell needs to complete the words of this command
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    samekey completions bash > \\\n    ~/.local/share/bash-completion/completions/samekey\n  \
    samekey completions zsh > \"${fpath[1]}/_samekey\"\n  \
    samekey completions fish > ~/.config/fish/completions/samekey.fish")]
pub struct Arguments {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let mut script = Vec::new();
    let mut command = crate::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "samekey", &mut script);
    say(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
