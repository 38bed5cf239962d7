//! A gateway in this process, on a ledger of its own, before a backend that the test plays.

use crate::backend::Backend;
use samekey_gateway::{Gateway, Overrides, Settings};
use samekey_sim::FreshDatabase;
use std::net::SocketAddr;
use tokio::sync::oneshot;

/// On which ledger.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Sqlite,
    Postgres,
}

/// Where the ledger lies; it goes with this.
enum Place {
    Sqlite(tempfile::TempDir),
    Postgres(FreshDatabase),
    /// The test has it, and the way there.
    At(String),
}

impl Place {
    async fn of(kind: Kind) -> Place {
        match kind {
            Kind::Sqlite => Place::Sqlite(tempfile::tempdir().unwrap()),
            Kind::Postgres => Place::Postgres(samekey_sim::fresh_database().await),
        }
    }

    fn url(&self) -> String {
        match self {
            Place::Sqlite(folder) => {
                format!("sqlite:{}", folder.path().join("ledger.db").display())
            }
            Place::Postgres(database) => database.url().to_owned(),
            Place::At(url) => url.clone(),
        }
    }
}

/// A gateway that serves until this is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub admin: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<bool>>,
}

impl Running {
    /// Stops it as an operator does; says whether everything on its way ended.
    pub async fn stop(mut self) -> bool {
        drop(self.stop.take());
        self.served.take().unwrap().await.unwrap()
    }

    /// Says that it has to stop.
    pub fn begin_to_stop(&mut self) {
        drop(self.stop.take());
    }
}

/// One ledger, one backend, and gateways between them.
pub struct World {
    place: Place,
    pub backend: Backend,
    upstream: String,
    settings: String,
    pub gateway: Running,
}

impl World {
    /// A gateway with these settings, besides addresses and ledger.
    pub async fn with(kind: Kind, backend: Backend, settings: &str) -> World {
        let upstream = format!("http://{}", backend.address);
        World::before(kind, &upstream, backend, settings).await
    }

    /// The same with an upstream that is called so.
    pub async fn before(kind: Kind, upstream: &str, backend: Backend, settings: &str) -> World {
        let place = Place::of(kind).await;
        let gateway = start(&place, upstream, settings).await;
        let upstream = upstream.to_owned();
        World { place, backend, upstream, settings: settings.to_owned(), gateway }
    }

    /// A gateway on the ledger of this address.
    pub async fn at(url: &str, backend: Backend, settings: &str) -> World {
        let place = Place::At(url.to_owned());
        let upstream = format!("http://{}", backend.address);
        let gateway = start(&place, &upstream, settings).await;
        World { place, backend, upstream, settings: settings.to_owned(), gateway }
    }

    /// A gateway that was told nothing but where its upstream is.
    pub async fn plain(kind: Kind, backend: Backend) -> World {
        World::with(kind, backend, "").await
    }

    /// A second gateway on the same ledger.
    pub async fn another(&self) -> Running {
        start(&self.place, &self.upstream, &self.settings).await
    }

    /// Sends this request and reads the answer to its end.
    pub async fn send(&self, request: &crate::client::Ask) -> crate::client::Answer {
        request.send(self.gateway.address).await
    }
}

async fn start(place: &Place, upstream: &str, settings: &str) -> Running {
    let text = format!(
        "upstream = \"{upstream}\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ndatabase = {:?}\n{settings}",
        place.url()
    );
    let settings = Settings::read(Some(("test.toml", &text)), &Overrides::default()).unwrap();
    let gateway = Gateway::new(settings).metrics(|| "counted 1\n".to_owned());
    let ready = gateway.open().await.unwrap();
    let (address, admin) = (ready.address().unwrap(), ready.admin_address());
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(ready.serve(async move {
        let _ = stopped.await;
    }));
    Running { address, admin, stop: Some(stop), served: Some(served) }
}

/// Runs each case on both kinds of ledger.
macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::world::Kind::Sqlite).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::world::Kind::Postgres).await;
            })+
        }
    };
}
pub(crate) use on_both;
