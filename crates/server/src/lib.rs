//! Same key, same answer: a retry is the same command, and not a second order.
//!
//! This is the crate that a Rust service adds. A caller that gets no answer sends again; here the
//! second request finds the first one's key and gets the first one's answer, because key and effect
//! were committed together. What this crate does not do: it does not authenticate callers (hand it an
//! organisation that *you* have verified), it makes no keys, and it does not make a handler safe that
//! does things outside the transaction which it was given.
//!
//! # Quick start
//! A service on SQLite; on PostgreSQL the handler is async and is given the transaction instead.
//!
//! ```
//! # #[cfg(all(feature = "sqlite", feature = "axum"))]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), samekey::BoxError> {
//! use axum::{Router, extract::Request, routing::post};
//! use samekey::core::{key::Org, policy::Choices};
//! use samekey::store::sqlite::{AtomicEnd, SqliteLedger, rusqlite::Connection};
//! use samekey::{Caller, Engine, Route};
//! # let folder = tempfile::tempdir()?;
//! # let database = &format!("sqlite:{}", folder.path().join("shop.db").display());
//!
//! SqliteLedger::migrate(database)?;
//! let ledger = SqliteLedger::open(database)?;
//! ledger.write(|db| AtomicEnd::Commit(db.execute_batch("create table orders (body text)"))).await??;
//! let (engine, orders) = (Engine::new(ledger), Route::new("orders", Choices::default())?);
//! let service = Router::new().route("/orders", post(async move |request: Request| {
//!     let caller = Caller::of(Org::new("alpha").unwrap()); // whom *you* have authenticated
//!     engine.atomic(&orders, &caller, request, |db: &Connection, request: &samekey::Request| {
//!         db.execute("insert into orders values (?1)", [request.body().as_ref()])?;
//!         samekey::json(http::StatusCode::CREATED, &"ordered")
//!     }).await
//! }));
//!
//! // The same command twice: one order, and the first answer again.
//! # use tower::ServiceExt;
//! # let send = || http::Request::post("/orders").header("idempotency-key", "k1").body("a tea".to_owned());
//! let first = service.clone().oneshot(send()?).await?;
//! let retry = service.oneshot(send()?).await?;
//! assert_eq!((first.status(), retry.status()), (http::StatusCode::CREATED, http::StatusCode::CREATED));
//! assert_eq!(retry.headers()["idempotent-replayed"], "true");
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "sqlite", feature = "axum")))]
//! # fn main() {}
//! ```
//!
//! # Effects elsewhere
//! A handler that calls somebody else (a payment provider, an e-mail service) cannot commit that call
//! together with its key. For it there are
//! - [`External`]: writes the intent, makes the call at most once a claim, writes the answer. What ends
//!   without an answer is *unknown* ([`Outcome`] has the table from an HTTP client's results);
//! - [`Ask`]: what you write so that a counterparty can be asked what became of a command;
//! - [`Protect`]: the same as a tower layer, for handlers that know nothing of keys;
//! - [`External::spawn_recovery`]: what finds unknown keys and asks. Every external route needs one;
//! - [`keys`] and the command `samekey keys`: what a person sees and decides where nobody can be asked;
//! - [`mark_restored`]: what a restored database has to be told before the service starts again.
//!
//! Read next: [`Engine`] and its method `atomic`, then `docs/contract.md` for what callers see.

// Without a store there is nothing to run commands on; what is left then only has to compile.
#![cfg_attr(not(any(feature = "postgres", feature = "sqlite", feature = "sqlx")), allow(dead_code))]

mod atomic;
mod body;
#[cfg(samekey_bugs)]
mod bugs;
mod capture;
mod claim;
mod engine;
mod external;
mod flight;
mod front;
pub mod header;
mod hint;
pub mod keys;
mod layer;
mod problem;
mod recover;
mod restore;
mod route;
mod signal;
mod sweep;

#[cfg(feature = "sqlx")]
pub use atomic::Borrowing;
pub use body::{Answer, Body, BoxError, Request, Response, json, whole};
pub use engine::{Engine, Setup};
pub use external::{Call, CallLease, External, ExternalFault, Finished, Outcome, StoredRequest};
pub use layer::{Identify, Protect, Protected};
pub use problem::Problem;
pub use recover::{Ask, Finding, Found, Question, Recovery, RecoveryPass, RecoveryPlan};
pub use restore::{RESTORE_MARK_LASTS, RestoreReport, mark_restored};
pub use route::{Caller, Route};
pub use signal::{Listener, Signal};
pub use sweep::{SweepPlan, Sweeper};

pub use samekey_core::record::Reason;

pub use samekey_core as core;
pub use samekey_store as store;
