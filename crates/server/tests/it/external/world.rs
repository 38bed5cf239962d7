//! A service with one external route, its provider, and callers.

use super::home::Home;
use super::provider::Provider;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use samekey::{
    BoxError, Call, Caller, Engine, External, Outcome, RecoveryPass, RecoveryPlan, Route, Setup,
    Signal,
};
use samekey_core::key::{Key, Org, Scope};
use samekey_core::policy::{Choices, Counterparty};
use samekey_core::record::Record;
use samekey_store::Ledger;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a lease lasts in tests that wait for its end.
pub const SHORT: Duration = Duration::from_millis(300);

pub struct World<H: Home> {
    pub home: H,
    pub external: External<H::Ledger>,
    pub provider: Provider,
    signals: Arc<Mutex<Vec<Signal>>>,
}

/// An answer, read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn code(&self) -> Option<String> {
        let document: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        Some(document.get("code")?.as_str()?.to_owned())
    }

    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// Status and problem code, or nothing where it is no problem.
    pub fn told(&self) -> (u16, String) {
        (self.status, self.code().unwrap_or_default())
    }
}

pub async fn read(response: samekey::Response) -> Reply {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Reply { status: head.status.as_u16(), headers: head.headers, body }
}

pub fn scope(org: &str, key: &str) -> Scope {
    Scope { org: Org::new(org).unwrap(), key: Key::new(key).unwrap() }
}

/// A counterparty that answers questions, and the shortest times.
pub fn answers(not_found_after: Option<Duration>) -> Choices {
    Choices {
        lease: SHORT,
        run_max: SHORT * 4,
        counterparty: Counterparty::Answers { not_found_after },
        ..Choices::default()
    }
}

pub fn opaque() -> Choices {
    Choices { lease: SHORT, run_max: SHORT * 4, ..Choices::default() }
}

pub fn plan() -> RecoveryPlan {
    RecoveryPlan {
        every: Duration::from_millis(20),
        between: Duration::ZERO,
        ..RecoveryPlan::default()
    }
}

impl<H: Home> World<H> {
    pub async fn new(choices: Choices) -> World<H> {
        World::on(H::fresh().await, Provider::default(), choices, Setup::default()).await
    }

    pub async fn on(home: H, provider: Provider, choices: Choices, setup: Setup) -> World<H> {
        let signals = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&signals);
        let setup = setup.listener(Arc::new(move |_, signal| told.lock().unwrap().push(signal)));
        let engine = Engine::with(home.open().await, setup);
        let external = open(&engine, &provider, choices).await;
        World { home, external, provider, signals }
    }

    /// Another process on the same store, with the same provider.
    pub async fn another(&self, choices: Choices, setup: Setup) -> External<H::Ledger> {
        let engine = Engine::with(self.home.open().await, setup);
        open(&engine, &self.provider, choices).await
    }

    pub fn store(&self) -> &H::Ledger {
        self.external.store()
    }

    pub async fn pay(&self, key: &str) -> Reply {
        self.pay_for("alpha", key, r#"{"amount":1200}"#).await
    }

    pub async fn pay_for(&self, org: &str, key: &str, body: &'static str) -> Reply {
        pay(&self.external, &self.provider, org, key, body).await
    }

    /// The same payment by another handler.
    pub async fn run<F, Fut>(&self, key: &str, call: F) -> Reply
    where
        F: FnOnce(Call) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        run(&self.external, "alpha", key, r#"{"amount":1200}"#, call).await
    }

    pub async fn recover(&self) -> RecoveryPass {
        self.external.recover(plan()).await.unwrap()
    }

    /// Recovers until nothing is open that can still end by itself.
    pub async fn recover_all(&self) {
        for _ in 0..600 {
            self.recover().await;
            let open = self.store().list_open(None, 1000).await.unwrap();
            let waits = |record: &Record| samekey::keys::state_name(&record.state) == "review";
            if open.iter().all(|open| waits(&open.seen.record)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("something stays open");
    }

    pub async fn record(&self, key: &str) -> Record {
        self.store().load(&scope("alpha", key)).await.unwrap().record
    }

    pub async fn state(&self, key: &str) -> &'static str {
        samekey::keys::state_name(&self.record(key).await.state)
    }

    pub fn signals(&self) -> Vec<Signal> {
        self.signals.lock().unwrap().clone()
    }

    pub fn saw(&self, signal: Signal) -> bool {
        self.signals().contains(&signal)
    }

    /// Returns once this signal was given.
    pub async fn wait_for(&self, signal: Signal) {
        for _ in 0..1_200 {
            if self.saw(signal) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{signal:?} did not come: {:?}", self.signals());
    }
}

async fn open<L: Ledger>(engine: &Engine<L>, provider: &Provider, choices: Choices) -> External<L> {
    let route = Route::new("payments", choices).unwrap();
    match route.policy().counterparty {
        Counterparty::Opaque => External::opaque(engine, route).await.unwrap(),
        Counterparty::Answers { .. } | Counterparty::Dedups { .. } => {
            External::asking(engine, route, provider.clone()).await.unwrap()
        }
    }
}

pub async fn pay<L: Ledger>(
    external: &External<L>,
    provider: &Provider,
    org: &str,
    key: &str,
    body: &'static str,
) -> Reply {
    let provider = provider.clone();
    run(external, org, key, body, async move |call| provider.charge(call).await).await
}

async fn run<L, F, Fut>(
    external: &External<L>,
    org: &str,
    key: &str,
    body: &'static str,
    call: F,
) -> Reply
where
    L: Ledger,
    F: FnOnce(Call) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
{
    let request = http::Request::post("/payments")
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(Full::new(Bytes::from_static(body.as_bytes())))
        .unwrap();
    let caller = Caller::of(Org::new(org).unwrap());
    read(external.run(&caller, request, call).await).await
}
