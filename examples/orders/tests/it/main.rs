//! The reference service as its users meet it: the built program, over HTTP, on both databases.

// Helpers beside the tests may panic as the tests do.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod carts;
mod chaos;
mod client;
mod first_write;
mod mistakes;
mod paid;
mod payments;
mod processes;
mod program;
mod provider;
mod slow;
mod storm;
mod text;

/// Makes a test on SQLite and one on PostgreSQL of one async function that takes a `Which`.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use super::super::program::Which;
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() { super::$name(Which::Sqlite).await }
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() { super::$name(Which::Postgres).await }
        }
    )+};
}
pub(crate) use on_both;
