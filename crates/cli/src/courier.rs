//! The configuration of couriers, as the subcommands read it.

use crate::exit::{Code, Stopped};
use samekey_client::Setup;
use samekey_client::config::CourierConfig;
use std::path::PathBuf;

/// The largest configuration: hundreds of destinations fit in it, and a wrong file does not fill memory.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The flag that names the configuration.
#[derive(clap::Args, Debug)]
pub struct ConfigFlag {
    /// File with the environment and the destinations
    #[arg(long, env = "SAMEKEY_CONFIG", value_name = "FILE", default_value = "samekey.toml")]
    config: PathBuf,
}

impl ConfigFlag {
    /// The courier's setup.
    pub fn setup(&self) -> Result<Setup, Stopped> {
        let usage = |sentence: String| Stopped::new(Code::Usage, sentence);
        let name = self.config.display();
        let size = std::fs::metadata(&self.config).map(|file| file.len()).unwrap_or(0);
        if size > CONFIG_BYTES_MAX {
            return Err(usage(format!(
                "the configuration {name} has {size} bytes; expected at most {CONFIG_BYTES_MAX}: it is not a configuration of samekey"
            )));
        }
        let text = std::fs::read_to_string(&self.config).map_err(|error| {
            usage(format!(
                "the configuration {name} cannot be read: {error}; name one with --config, as `samekey worker --help` shows it"
            ))
        })?;
        // A configuration names no credentials but only where they are, so what is wrong may be shown.
        let config: CourierConfig = toml::from_str(&text).map_err(|error| {
            usage(format!("the configuration {name}: {}", error.to_string().trim_end()))
        })?;
        config.into_setup().map_err(|error| usage(format!("the configuration {name}: {error}")))
    }
}
