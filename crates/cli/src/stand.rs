//! An API that loses answers and a gateway before it, both in this process, on a database that is removed.

use crate::exit::{Code, Stopped};
use samekey_gateway::{Gateway, Overrides, Settings};
use samekey_lab::faults::{Keys, Late, Plan};
use samekey_lab::{Lab, Options};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Every so many-th answer of the API comes late.
pub const LATE_EVERY: u64 = 2;
/// The gateway's settings, apart from addresses. Whoever stops it throws away what it keeps, so nothing that
/// is on its way is worth waiting for.
const SETTINGS: &str = r#"
[[route]]
name = "payments"
path = "/payments"
key  = "required"

[limits]
grace_ms = 500
"#;

/// Where both listen.
pub struct Listen {
    /// The API.
    pub api: SocketAddr,
    /// The gateway.
    pub gateway: SocketAddr,
}

impl Default for Listen {
    /// On free ports of loopback.
    fn default() -> Listen {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Listen { api: free, gateway: free }
    }
}

/// An address to listen on, as it was typed.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected an IP address and a port, such as 127.0.0.1:8080, or 127.0.0.1:0 for a free one"
            .to_owned()
    })
}

/// A payments API which records every payment at once, knows nothing of keys, and answers every second request
/// late.
pub async fn api(listen: SocketAddr, late: Duration) -> Result<Lab, Stopped> {
    let late = Late { every: LATE_EVERY, ms: u64::try_from(late.as_millis()).unwrap_or(u64::MAX) };
    // With an API that knows keys nobody could tell whether it was the gateway that helped.
    let keys = Keys { dedup: false, ..Keys::default() };
    let plan = Plan { late: Some(late), keys, ..Plan::default() };
    Lab::start(Options { listen, plan, ..Options::default() })
        .await
        .map_err(|error| Stopped::new(crate::cmd::lab::code_of(&error), error.to_string()))
}

/// The API and the gateway before it.
pub struct Stand {
    lab: Lab,
    folder: TempDir,
    database: String,
    gateway: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<bool>,
}

impl Stand {
    /// Starts both.
    ///
    /// # Errors
    /// An address that is taken; a temporary folder that cannot be used.
    pub async fn start(listen: Listen, late: Duration) -> Result<Stand, Stopped> {
        let lab = api(listen.api, late).await?;
        // Looked at first: a ledger that was opened in vain would see its folder go.
        std::net::TcpListener::bind(listen.gateway).map_err(|error| {
            let address = listen.gateway;
            let sentence =
                format!("{address} cannot be listened on: {error}; choose another with --listen");
            Stopped::new(Code::Unreachable, sentence)
        })?;
        let folder = tempfile::Builder::new().prefix("samekey-").tempdir().map_err(|error| {
            unusable(&std::env::temp_dir(), &format!("nothing can be put there: {error}"))
        })?;
        let database = folder.path().to_str().map(|folder| format!("sqlite:{folder}/keys.db"));
        let database =
            database.ok_or_else(|| unusable(folder.path(), "a database's path has to be UTF-8"))?;
        let overrides = Overrides {
            upstream: Some(lab.url("")),
            listen: Some(listen.gateway.to_string()),
            admin: None,
            database: Some(database.clone()),
        };
        let settings = Settings::read(Some(("the built-in settings", SETTINGS)), &overrides)
            .map_err(crate::cmd::gateway::stopped)?;
        let ready = Gateway::new(settings).open().await.map_err(crate::cmd::gateway::stopped)?;
        let gateway = ready.address().ok_or_else(|| {
            Stopped::new(Code::Unreachable, "the gateway's own address cannot be found out")
        })?;
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(ready.serve(async {
            // A stand that is dropped means the same.
            let _ = stopped.await;
        }));
        Ok(Stand { lab, folder, database, gateway, stop, serving })
    }

    /// The API, whose ledger says what was recorded.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// An address of the gateway in full, for a path that begins with `/`.
    pub fn gateway_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.gateway)
    }

    /// Where the gateway keeps its keys.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Ends both, and removes what they kept.
    ///
    /// # Errors
    /// A temporary folder that cannot be removed.
    pub async fn end(self) -> Result<(), Stopped> {
        // The API first: then a command that waits for its answer ends at once, and the database is at rest
        // before it is removed.
        self.lab.stop().await;
        // Nobody left to hear it means that the gateway has ended already.
        let _ = self.stop.send(());
        let _ = self.serving.await;
        let path = self.folder.path().to_owned();
        self.folder.close().map_err(|error| {
            let sentence =
                format!("the temporary folder {} cannot be removed: {error}", path.display());
            Stopped::new(Code::Unreachable, sentence)
        })
    }
}

fn unusable(folder: &Path, why: &str) -> Stopped {
    let folder = folder.display();
    let sentence = format!(
        "the folder for temporary files {folder} cannot be used: {why}; name another in TMPDIR"
    );
    Stopped::new(Code::Unreachable, sentence)
}
