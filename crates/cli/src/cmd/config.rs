//! `samekey config`: what a gateway is told, where from, and whether it can be kept.

use crate::cmd::gateway;
use crate::exit::{Code, Stopped};
use crate::output::{complain, say};
use crate::show::{Format, json};
use clap::parser::ValueSource;
use clap::{ArgMatches, Subcommand};
use samekey_gateway::{Origin, Setting, Settings, Table};
use serde::Serialize;
use std::process::ExitCode;

/// Look at a gateway's settings before it starts
///
/// Takes the flags, variables and file of `samekey gateway`, starts nothing and connects to nothing. A flag
/// comes before its SAMEKEY_ variable, that before the file of --config, that before the default.
#[derive(clap::Args, Debug)]
#[command(after_help = "Exit codes: 0 the settings can be used, 2 they cannot.")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Show(Show),
    Check(Check),
}

/// Show the settings in force, as they would stand in a file
///
/// Passwords, secrets and the hashes of tokens are not shown.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  samekey config show --origin --config samekey.toml")]
struct Show {
    /// Say behind each setting where it came from
    #[arg(long)]
    origin: bool,
    /// For whom they are printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    gateway: gateway::Arguments,
}

/// Say what is wrong with the settings, all of it at once
///
/// Each fault is a line on standard error: file and line, the setting, what was found, what to write. What is
/// found wrong is left out and the rest looked at, so look again when it is mended.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  samekey config check --config samekey.toml")]
struct Check {
    #[command(flatten)]
    gateway: gateway::Arguments,
}

/// A setting for programs.
#[derive(Serialize)]
struct Line {
    key: String,
    /// As it would stand in the file.
    value: Option<String>,
    origin: String,
}

#[derive(Serialize)]
struct Part {
    /// How the table is written in the file; empty before all tables.
    table: String,
    settings: Vec<Line>,
}

#[derive(Serialize)]
struct Document {
    format_version: u32,
    tables: Vec<Part>,
}

/// Runs the subcommand; `matches` are its own, and know flags from variables.
pub fn run(arguments: &Arguments, matches: Option<&ArgMatches>) -> Result<ExitCode, Stopped> {
    match &arguments.command {
        Command::Show(show) => {
            show.run(matches.and_then(|matches| matches.subcommand_matches("show")))
        }
        Command::Check(check) => check.run(),
    }
}

impl Show {
    fn run(&self, matches: Option<&ArgMatches>) -> Result<ExitCode, Stopped> {
        let file = self.gateway.file()?;
        let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        let tables = Settings::shown(file, &self.gateway.overrides()).map_err(|error| {
            let stopped = gateway::stopped(error);
            Stopped::new(
                stopped.code,
                format!("{}; samekey config check tells all", stopped.sentence),
            )
        })?;
        match self.format {
            Format::Json => {
                let document = Document {
                    format_version: 1,
                    tables: tables.into_iter().map(|table| part(table, matches)).collect(),
                };
                say(&format!("{}\n", json(&document)?))?;
            }
            Format::Text => {
                let mut text: String =
                    tables.iter().map(|table| self.text(table, matches)).collect();
                text.push_str(match matches.and_then(|it| it.value_source("outbound_secret")) {
                    Some(_) => "\n# The secret of outbound keys is given, and not shown.\n",
                    None => "\n# The secret of outbound keys is made by the first gateway, and kept in the database.\n",
                });
                say(&text)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn text(&self, table: &Table, matches: Option<&ArgMatches>) -> String {
        /// Where the origin begins, if the setting before it is not longer.
        const COLUMN: usize = 40;
        let mut text = String::new();
        if !table.header.is_empty() {
            text.push_str(&format!("\n{}\n", table.header));
        }
        for setting in &table.settings {
            let line = match &setting.value {
                Some(value) => format!("{} = {value}", setting.key),
                None => format!("# {} is not set", setting.key),
            };
            if self.origin && setting.value.is_some() {
                text.push_str(&format!("{line:<COLUMN$} # {}\n", origin(setting, matches)));
            } else {
                text.push_str(&format!("{line}\n"));
            }
        }
        text
    }
}

impl Check {
    fn run(&self) -> Result<ExitCode, Stopped> {
        let file = self.gateway.file()?;
        let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        if let Some((name, text)) = file
            && text.parse::<toml::Table>().is_ok_and(|top| top.contains_key("destinations"))
        {
            let sentence = format!(
                "{name} has destinations: it is the configuration of samekey worker and samekey send, which check it when they start; name a gateway's file with --config"
            );
            return Err(Stopped::new(Code::Usage, sentence));
        }
        let faults = Settings::faults(file, &self.gateway.overrides());
        if faults.is_empty() {
            let what = file.map_or("the settings".to_owned(), |(name, _)| name.to_owned());
            say(&format!(
                "ok: {what} can be understood; credentials, database and addresses are looked at when the gateway starts\n"
            ))?;
            return Ok(ExitCode::SUCCESS);
        }
        for fault in faults {
            complain("samekey", &fault.to_string());
        }
        Ok(Code::Usage.into())
    }
}

fn part(table: Table, matches: Option<&ArgMatches>) -> Part {
    let line = |setting: Setting| Line {
        origin: origin(&setting, matches),
        key: setting.key,
        value: setting.value,
    };
    Part { table: table.header, settings: table.settings.into_iter().map(line).collect() }
}

/// Where a setting came from, as people say it.
fn origin(setting: &Setting, matches: Option<&ArgMatches>) -> String {
    match &setting.origin {
        Origin::Default => "default".to_owned(),
        Origin::File(place) => place.clone(),
        Origin::Override => {
            let key = &setting.key;
            match matches.and_then(|matches| matches.value_source(key)) {
                Some(ValueSource::EnvVariable) => format!("SAMEKEY_{}", key.to_uppercase()),
                _ => format!("--{}", key.replace('_', "-")),
            }
        }
    }
}
