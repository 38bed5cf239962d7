//! The configuration of couriers, as the subcommands read it.

mod fault;

use crate::exit::{Code, Stopped};
use crate::settings_file;
use samekey_client::Setup;
use samekey_client::config::CourierConfig;
use std::path::PathBuf;

/// The flag that names the configuration.
#[derive(clap::Args, Debug)]
pub struct ConfigFlag {
    /// File with the environment and the destinations; `samekey worker --help` shows one
    #[arg(
        long,
        env = "SAMEKEY_CONFIG",
        value_name = "FILE",
        default_value = "samekey.toml",
        hide_env_values = true
    )]
    config: PathBuf,
}

/// A configuration that was read.
pub struct Config {
    file: PathBuf,
    config: CourierConfig,
}

impl ConfigFlag {
    /// Reads the configuration.
    pub fn read(&self) -> Result<Config, Stopped> {
        let name = self.config.display();
        let text = settings_file::read(&self.config).map_err(|why| {
            usage(format!(
                "the configuration {name} {why}; name a file with --config or SAMEKEY_CONFIG, `samekey worker --help` shows one"
            ))
        })?;
        let config = toml::from_str(&text)
            .map_err(|error| usage(fault::sentence(&name.to_string(), &text, &error)))?;
        Ok(Config { file: self.config.clone(), config })
    }
}

impl Config {
    /// The setup of a courier for all destinations.
    pub fn setup(&self) -> Result<Setup, Stopped> {
        let config = self.config.clone();
        config
            .into_setup()
            .map_err(|error| usage(format!("the configuration {}: {error}", self.file.display())))
    }

    /// As [`Config::setup`], where every destination's credential can be found now.
    pub async fn setup_to_send(&self) -> Result<Setup, Stopped> {
        self.config.check_credentials().await.map_err(|error| {
            usage(format!("the configuration {}: {error}", self.file.display()))
        })?;
        self.setup()
    }

    /// With this destination alone.
    pub fn only(mut self, destination: &str) -> Result<Config, Stopped> {
        // What is wrong with another one is told all the same, before anybody relies on this file.
        self.setup()?;
        let names: Vec<String> = self.config.destinations.keys().cloned().collect();
        self.config.destinations.retain(|name, _| name == destination);
        if !self.config.destinations.is_empty() {
            return Ok(self);
        }
        let known = names.join(", ");
        let file = self.file.display();
        let wanted = crate::show::escaped(destination);
        Err(usage(match fault::nearest(destination, names.iter().map(String::as_str)) {
            _ if names.is_empty() => format!(
                "there is no destination `{wanted}`; the configuration {file} has none, add a [destinations.{wanted}]"
            ),
            Some(near) => format!(
                "there is no destination `{wanted}`; did you mean `{near}`? The configuration {file} has: {known}"
            ),
            None => {
                format!("there is no destination `{wanted}`; the configuration {file} has: {known}")
            }
        }))
    }
}

fn usage(sentence: String) -> Stopped {
    Stopped::new(Code::Usage, sentence)
}
