//! Gateways before a payments API while processes, upstream and database are killed and stopped under load,
//! judged by the API's own ledger.
//!
//! Callers repeat each payment with its key until it ends. Afterwards everything that is known of the run is
//! audited: what the API recorded, every answer, the rows of the ledger over time, each call that left a
//! gateway, and the logs.

mod faults;
mod restarts;
mod upstream;
mod world;
mod zombie;

/// What kind of counterparty the gateways are told that they have, and the API is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counterparty {
    Opaque,
    Answers,
    /// It answers, and nobody knows for how long a request may still arrive.
    AnswersUnbounded,
    Dedups,
}
