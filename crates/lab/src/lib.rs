//! A payments API that loses answers, an exercise about safe retries, and its grader.
//!
//! The API records payments correctly and answers badly: late, cut, never, twice, with the wrong status. What it
//! does to which request is a [fault plan](faults::Plan), seeded and repeatable. Its [ledger](Lab::ledger) and
//! [request log](Lab::requests) are the truth that tests and the grader count.
//!
//! It is a test tool: it authenticates nobody, keeps everything readable, and belongs on loopback only. A ledger
//! file survives a killed process, not a power cut.
//!
//! Read next: `payments/book.rs` (what is recorded), `faults/planner.rs` (what is decided), `api/service.rs` (how it
//! is acted out).

mod api;
mod error;
pub mod exercise;
pub mod faults;
pub mod grade;
pub mod payments;

pub use api::{Lab, Options, Request};
pub use error::{Error, Kind};
