//! Same key, same answer: a retry is the same command, and not a second order.
//!
//! This is the crate that a Rust service adds. A caller that gets no answer sends again; here the
//! second request finds the first one's key and gets the first one's answer, because key and effect
//! were committed together. What this crate does not do: it does not authenticate callers (hand it an
//! organisation that *you* have verified), it makes no keys, and it does not make a handler safe that
//! does things outside the transaction which it was given.
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
mod flight;
pub mod header;
mod hint;
mod problem;
mod route;
mod signal;
mod sweep;

#[cfg(feature = "sqlx")]
pub use atomic::Borrowing;
pub use body::{Answer, Body, BoxError, Request, Response, json, whole};
pub use engine::{Engine, Setup};
pub use problem::Problem;
pub use route::{Caller, Route};
pub use signal::{Listener, Signal};
pub use sweep::{SweepPlan, Sweeper};

pub use samekey_core as core;
pub use samekey_store as store;
