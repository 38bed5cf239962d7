//! A reverse proxy that runs each command once per key, in front of services that know nothing of keys.
//!
//! A POST or PATCH with an `Idempotency-Key` is read whole, claimed in the ledger, sent to the upstream
//! once, and its answer stored; a retry gets the stored answer. Everything else streams through in
//! constant memory. What is decided about a key is decided by the library `samekey`; this crate is HTTP
//! around it: which requests are commands, whose they are, how they travel.
//!
//! Where the answer of a command is lost, the upstream is asked what became of it, if the settings say how;
//! else a person decides, with `samekey keys`.
//!
//! What it does not do: it never sends a command twice, but to an upstream that was declared to deduplicate;
//! it follows no redirect, and upgrades no connection. It reads no environment variable but the upstream's credential
//! and those that name the system's trusted certificates, sets up no log and no metrics recorder: `samekey gateway`
//! does.
//!
//! Read next: `service.rs`, which every request passes, then `command.rs`, `upstream.rs`, and `ask.rs`.

mod admin;
mod ask;
mod command;
mod config;
mod document;
mod error;
mod forward;
mod headers;
mod identity;
mod jwt;
mod open;
mod pace;
mod path;
mod refusal;
mod repeats;
mod routes;
mod serve;
mod service;
mod tls;
mod upstream;
mod wire;

pub use admin::AdminPages;
pub use config::{Limits, Origin, Overrides, Setting, Settings, Table};
pub use error::{Error, Kind};
pub use open::{Gateway, Ready};
