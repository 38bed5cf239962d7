//! External commands, recovery, middleware, a person's decisions and the restored store, on every store.

mod calls;
mod decisions;
mod home;
mod middleware;
mod outbound;
mod provider;
mod recovery;
mod restored;
mod turns;
mod wire;
mod world;

/// Makes each of these tests one for memory, one for SQLite and one for PostgreSQL.
macro_rules! on_every_store {
    ($($name:ident),+ $(,)?) => {
        mod memory { $(#[tokio::test] async fn $name() { super::$name::<crate::external::home::Memory>().await })+ }
        mod sqlite { $(#[tokio::test] async fn $name() { super::$name::<crate::external::home::Sqlite>().await })+ }
        mod postgres { $(#[tokio::test] async fn $name() { super::$name::<crate::external::home::Postgres>().await })+ }
    };
}
pub(crate) use on_every_store;
