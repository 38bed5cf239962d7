//! From settings to a gateway that serves: the ledger, the routes on it, the listeners.

use crate::admin::{Admin, Metrics};
use crate::ask::{Asker, Asking};
use crate::config::{Limits, Settings};
use crate::error::{Error, Kind};
use crate::serve::{Door, Handler, listen, serve};
use crate::service::{Front, Service};
use crate::tls::ServerTls;
use http::Request;
use hyper::body::Incoming;
use samekey::{Engine, External, Recovery, RecoveryPlan, Response, Setup, SweepPlan, Sweeper};
use samekey_store::address::Address;
use samekey_store::postgres::{self, PostgresLedger};
use samekey_store::sqlite::SqliteLedger;
use samekey_store::{Ledger, StoreError};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A gateway before it is opened.
///
/// ```no_run
/// # async fn example() -> Result<(), samekey_gateway::Error> {
/// use samekey_gateway::{Gateway, Overrides, Settings};
///
/// let file = "upstream = \"http://127.0.0.1:9000\"";
/// let settings = Settings::read(Some(("samekey.toml", file)), &Overrides::default())?;
/// let ready = Gateway::new(settings).open().await?;
/// ready.serve(std::future::pending()).await;
/// # Ok(())
/// # }
/// ```
pub struct Gateway {
    settings: Settings,
    outbound_secret: Option<Vec<u8>>,
    metrics: Option<Metrics>,
}

impl Gateway {
    /// A gateway with these settings.
    pub fn new(settings: Settings) -> Gateway {
        Gateway { settings, outbound_secret: None, metrics: None }
    }

    /// Makes outbound keys with this secret instead of the one in the ledger. All gateways on one ledger
    /// need the same.
    #[must_use]
    pub fn outbound_secret(mut self, secret: &[u8]) -> Gateway {
        self.outbound_secret = Some(secret.to_vec());
        self
    }

    /// Shows this text as `/metrics` of the admin listener: what the recorder that the program installed
    /// has counted.
    #[must_use]
    pub fn metrics(mut self, text: impl Fn() -> String + Send + Sync + 'static) -> Gateway {
        self.metrics = Some(Arc::new(text));
        self
    }

    /// Opens the ledger, creates its tables where they are missing, and listens.
    ///
    /// # Errors
    /// A ledger or an address that cannot be used, or a credential that is not to be had.
    pub async fn open(self) -> Result<Ready, Error> {
        for settings in &self.settings.routes {
            settings.check_credential().await?;
        }
        let address = Address::parse(&self.settings.database).map_err(|error| store(&error))?;
        let running = match address {
            Address::Postgres(url) => {
                let pool = postgres::connect(&url).map_err(|error| store(&error))?;
                postgres::migrate(&pool).await.map_err(|error| store(&error))?;
                let ledger = PostgresLedger::open(pool, postgres::Options::default()).await;
                Running::Postgres(self.start(ledger.map_err(|error| store(&error))?).await?)
            }
            Address::Sqlite(address) => {
                SqliteLedger::migrate(&address).map_err(|error| store(&error))?;
                let ledger = SqliteLedger::open(&address).map_err(|error| store(&error))?;
                Running::Sqlite(self.start(ledger).await?)
            }
        };
        let listener = bound(self.settings.listen, "listen")?;
        let admin = match self.settings.admin {
            Some(address) => Some(bound(address, "admin")?),
            None => None,
        };
        let Settings { limits, tls, .. } = self.settings;
        Ok(Ready { running, listener, tls, admin, limits, metrics: self.metrics })
    }

    async fn start<S: Ledger>(&self, ledger: S) -> Result<Started<S>, Error> {
        let mut setup = Setup::default();
        if let Some(secret) = &self.outbound_secret {
            setup = setup.outbound_secret(secret);
        }
        let engine = Engine::with(ledger, setup);
        let front = Front::new(&self.settings)
            .map_err(|error| Error::new(Kind::Settings, error.to_string()))?;
        let front = Arc::new(front);
        let mut externals = Vec::new();
        for settings in &self.settings.routes {
            let route = settings.route.clone();
            let external = match &settings.asking {
                Asking::Nobody => External::opaque(&engine, route).await,
                Asking::Status(_) | Asking::Again(_) => {
                    let asker = Asker { front: Arc::clone(&front), settings: settings.clone() };
                    External::asking(&engine, route, asker).await
                }
            };
            externals.push(external.map_err(|fault| Error::new(Kind::Store, fault.to_string()))?);
        }
        let recoveries =
            externals.iter().map(|it| it.spawn_recovery(RecoveryPlan::default())).collect();
        let sweeper = engine.spawn_sweeper(SweepPlan::default());
        let routes = self.settings.routes.clone();
        let service = Arc::new(Service { front, routes, externals });
        Ok(Started { engine, service, _recoveries: recoveries, _sweeper: sweeper })
    }
}

fn store(error: &StoreError) -> Error {
    let is_address = error.kind() == samekey_store::Kind::Address;
    let kind = if is_address { Kind::Settings } else { Kind::Store };
    Error::new(kind, format!("the ledger cannot be used: {error}"))
}

/// Listens on this address, which a flag of this name can change.
pub(crate) fn bound(address: SocketAddr, flag: &str) -> Result<TcpListener, Error> {
    listen(address).map_err(|error| {
        let sentence =
            format!("{address} cannot be listened on: {error}; choose another with --{flag}");
        Error::new(Kind::Address, sentence)
    })
}

/// A gateway on one kind of ledger.
struct Started<S> {
    engine: Engine<S>,
    service: Arc<Service<S>>,
    /// Whatever runs beside the requests ends with the gateway.
    _recoveries: Vec<Recovery>,
    _sweeper: Sweeper,
}

enum Running {
    Postgres(Started<PostgresLedger>),
    Sqlite(Started<SqliteLedger>),
}

/// A gateway that listens already and has not answered yet.
pub struct Ready {
    running: Running,
    listener: TcpListener,
    tls: Option<ServerTls>,
    admin: Option<TcpListener>,
    limits: Limits,
    metrics: Option<Metrics>,
}

impl Ready {
    /// Where it listens; of port 0 the port that it was given.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// How clients come here: `https` or `http`. The admin listener is always `http`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Where health, readiness and metrics are, if anywhere.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Serves until `stop` ends. Then it accepts nothing more, lets open requests and commands end, and
    /// says whether all did within the grace; commands that did not are asked about or wait for a person.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> bool {
        let Ready { running, listener, tls, admin, limits, metrics } = self;
        let door = Door { listener, tls };
        match running {
            Running::Postgres(started) => started.serve((door, admin), limits, metrics, stop).await,
            Running::Sqlite(started) => started.serve((door, admin), limits, metrics, stop).await,
        }
    }
}

impl<S: Ledger> Started<S> {
    async fn serve(
        self,
        (door, admin): (Door, Option<TcpListener>),
        limits: Limits,
        metrics: Option<Metrics>,
        stop: impl Future<Output = ()>,
    ) -> bool {
        let (stopper, stopping) = watch::channel(false);
        let serving =
            tokio::spawn(serve(door, Arc::clone(&self.service), limits, stopping.clone()));
        // The admin listener goes on while requests end, so that a balancer reads "stopping".
        let (_admin_stopper, admin_stopping) = watch::channel(false);
        let admin = admin.map(|listener| {
            let pages = Arc::new(Admin::of(self.engine.clone(), metrics, stopping));
            tokio::spawn(serve(Door { listener, tls: None }, pages, limits, admin_stopping))
        });
        stop.await;
        stopper.send_replace(true);
        let all_answered = serving.await.unwrap_or(false);
        let all_settled = self.engine.drain(limits.grace).await;
        if let Some(admin) = admin {
            admin.abort();
        }
        all_answered && all_settled
    }
}

impl<S: Ledger> Handler for Service<S> {
    async fn handle(&self, peer: SocketAddr, request: Request<Incoming>) -> Response {
        self.answer(peer, request).await
    }
}
