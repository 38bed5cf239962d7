//! A reverse proxy that runs each command once per key, in front of services that know nothing of keys.
//!
//! A POST or PATCH with an `Idempotency-Key` is read whole, claimed in the ledger, sent to the upstream
//! once, and its answer stored; a retry gets the stored answer. Everything else streams through in
//! constant memory. What is decided about a key is decided by the library `samekey`; this crate is HTTP
//! around it: which requests are commands, whose they are, how they travel.
//!
//! What it does not do: it never sends anything twice, follows no redirect, asks no upstream what became
//! of a command (a person decides, with `samekey keys`), speaks no TLS, and upgrades no connection. It
//! reads no environment variable, sets up no log and no metrics recorder: `samekey gateway` does.
//!
//! Read next: `service.rs`, which every request passes, then `command.rs` and `upstream.rs`.

mod admin;
mod command;
mod config;
mod document;
mod error;
mod forward;
mod headers;
mod identity;
mod open;
mod pace;
mod path;
mod refusal;
mod repeats;
mod routes;
mod serve;
mod service;
mod upstream;
mod wire;

pub use config::{Limits, Origin, Overrides, Setting, Settings, Table};
pub use error::{Error, Kind};
pub use open::{Gateway, Ready};
