//! The payments book: what the API records, keeps and says about it. Nothing here knows a socket or a fault.

mod amount;
mod answer;
mod book;
mod command;
mod digest;
mod entry;
mod file;
mod records;
mod standing;
mod table;

pub use amount::Amount;
pub(crate) use answer::{Reply, View, key_status, order_status, payment_status};
pub use book::Counts;
pub(crate) use book::{Book, Command, Refusal, Tally};
pub(crate) use command::{Fields, Target, fields};
pub use digest::BodyHash;
pub use entry::{Answered, Arrived, Effect, EffectKind, Entry, Fate, Op, moment};
pub(crate) use file::Journal;
pub(crate) use records::Memory;
