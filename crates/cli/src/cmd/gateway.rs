//! `samekey gateway`: the reverse proxy, on whatever the flags, variables and the file say.

use crate::exit::{Code, Stopped};
use crate::output::say;
use crate::settings_file;
use crate::stop::Stop;
use metrics_exporter_prometheus::PrometheusBuilder;
use samekey_gateway::{Error, Gateway, Kind, Overrides, Ready, Settings};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run each command once per key in front of a service that knows nothing of keys
///
/// A POST or PATCH with an Idempotency-Key is sent to the upstream once, and its answer kept: a retry gets
/// the stored answer. Everything else passes through. Where its answer is lost, the upstream is asked if the
/// settings say how; else a person decides: samekey keys list --review --help
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit codes: 0 stopped and everything had ended, 2 settings that cannot be understood, \
                  3 the database or an address cannot be used, 4 some commands had not ended when it stopped."
)]
pub struct Arguments {
    /// Where commands go: http://HOST:PORT or https://HOST:PORT
    #[arg(long, env = "SAMEKEY_UPSTREAM", value_name = "URL", hide_env_values = true)]
    upstream: Option<String>,
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, env = "SAMEKEY_LISTEN", value_name = "ADDRESS", hide_env_values = true)]
    listen: Option<String>,
    /// Address of /healthz, /readyz and /metrics; nothing is shown without one
    #[arg(long, env = "SAMEKEY_ADMIN", value_name = "ADDRESS", hide_env_values = true)]
    admin: Option<String>,
    /// Database: sqlite:FILE or postgres://USER:PASSWORD@HOST:PORT/DATABASE [default: sqlite:samekey.db]
    #[arg(long, env = "SAMEKEY_DATABASE", value_name = "URL", hide_env_values = true)]
    database: Option<String>,
    /// Settings file, such as samekey.toml; flags and variables come before it
    #[arg(long, env = "SAMEKEY_CONFIG", value_name = "FILE", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Secret for the keys that the upstream sees, the same for all gateways on one database; without one
    /// the first gateway makes one and keeps it in the database
    #[arg(
        long,
        env = "SAMEKEY_OUTBOUND_SECRET",
        value_name = "TEXT",
        hide_env_values = true,
        hide = true
    )]
    outbound_secret: Option<String>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let settings = settings(arguments)?;
    let recorder = PrometheusBuilder::new().install_recorder().map_err(|error| {
        Stopped::new(Code::Unreachable, format!("nothing can be counted: {error}"))
    })?;
    let mut gateway = Gateway::new(settings).metrics(move || recorder.render());
    if let Some(secret) = &arguments.outbound_secret {
        gateway = gateway.outbound_secret(secret.as_bytes());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Stopped::new(Code::Unreachable, format!("no runtime could be started: {error}"))
    })?;
    runtime.block_on(async {
        let ready = gateway.open().await.map_err(stopped)?;
        // Who reads that it listens may ask it to stop at once.
        let stop = Stop::listen()?;
        say(&greeting(&ready))?;
        if ready.serve(stop.asked()).await {
            return Ok(ExitCode::SUCCESS);
        }
        Err(Stopped::new(
            Code::Unknown,
            "stopped before all commands had ended; what was on its way waits under its key: samekey keys list",
        ))
    })
}

impl Arguments {
    /// What flags and variables say.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            upstream: self.upstream.clone(),
            listen: self.listen.clone(),
            admin: self.admin.clone(),
            database: self.database.clone(),
        }
    }

    /// Name and text of the file, if one is named.
    pub fn file(&self) -> Result<Option<(String, String)>, Stopped> {
        let Some(path) = &self.config else { return Ok(None) };
        let name = path.display().to_string();
        match settings_file::read(path) {
            Ok(text) => Ok(Some((name, text))),
            Err(why) => {
                let sentence = format!("{name} {why}; name a file with --config");
                Err(Stopped::new(Code::Usage, sentence))
            }
        }
    }
}

fn settings(arguments: &Arguments) -> Result<Settings, Stopped> {
    let file = arguments.file()?;
    let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    Settings::read(file, &arguments.overrides()).map_err(stopped)
}

/// Why a gateway did not start.
pub fn stopped(error: Error) -> Stopped {
    let code = match error.kind() {
        Kind::Settings => Code::Usage,
        Kind::Address | Kind::Store => Code::Unreachable,
    };
    Stopped::new(code, error.to_string())
}

/// Two lines: where it listens, and where operators look.
fn greeting(ready: &Ready) -> String {
    let address =
        ready.address().map_or_else(|| "an unknown address".to_owned(), |it| it.to_string());
    let admin = match ready.admin_address() {
        Some(address) => format!("health, readiness and metrics on http://{address}\n"),
        None => String::new(),
    };
    format!("listening on {}://{address}\n{admin}", ready.scheme())
}
