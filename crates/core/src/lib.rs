//! The pure core of samekey.
//!
//! Everything that can go wrong with retries is a question about a small state machine. It lives
//! here as a total function without IO, async, clock or dice, so that the code that is
//! model-checked is the code that runs. What this crate does not do: it opens no socket, reads no
//! clock, draws no random number and writes no log; shells hand it what they read and carry out
//! what it decides.
//!
//! Read next: [`record`] (what is known about a key), then [`step`] (what a request or an event
//! does to it); [`delivery`] and [`plan`] are the same for the side that calls. Then `docs/protocol.md`
//! for the numbered rules.

pub mod answer;
pub mod backoff;
pub mod budget;
pub mod delivery;
pub mod fingerprint;
pub mod key;
pub mod lease;
pub mod outcome;
pub mod plan;
pub mod policy;
pub mod profile;
pub mod receipt;
pub mod record;
pub mod request;
pub mod step;
pub mod time;
