//! The stores against their port: one conformance suite for all, random traces that must give equal
//! answers, and what each adapter promises besides.

// Helpers beside the tests may panic as the tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod commands;
mod conformance;
mod dialogues;
mod lint;
mod memory_store;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod migrating;
mod outbox;
mod outbox_traces;
mod records;
mod recovering;
mod traces;

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(all(feature = "postgres", feature = "sqlx"))]
mod sqlx;
