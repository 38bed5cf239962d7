//! Atomic commands on sqlx.

use super::Led;
use super::transaction::{InTransaction, Work, Working};
use crate::body::{BoxError, Request, Response};
use crate::capture::capture;
use crate::engine::Engine;
use crate::route::{Caller, Route};
use bytes::Bytes;
use samekey_store::sqlx::{Open, SqlxLedger};
use sqlx::PgConnection;
use std::future::Future;
use std::pin::Pin;

/// The future of a handler that borrows its connection, as sqlx's own `transaction` takes it.
pub type Borrowing<'c, B, E> =
    Pin<Box<dyn Future<Output = Result<http::Response<B>, E>> + Send + 'c>>;

/// A handler that borrows the transaction's connection.
struct Lent<H>(H);

impl<H, B, E> Work<Open> for Lent<H>
where
    H: for<'c> Fn(&'c mut PgConnection, Request) -> Borrowing<'c, B, E> + Send + Sync + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    E: Into<BoxError> + 'static,
{
    fn run<'a>(&'a self, open: &'a mut Open, request: Request, kept: usize) -> Working<'a> {
        Box::pin(async move {
            let response = (self.0)(open.connection(), request).await.map_err(Into::into)?;
            capture(response, kept).await
        })
    }
}

impl Engine<SqlxLedger> {
    /// Runs a command in one transaction of PostgreSQL together with its key, at most once, by sqlx.
    ///
    /// `handler` borrows the connection that holds the open transaction; it must not end the
    /// transaction itself. What its answer means is told at the method of the same name of
    /// `Engine<PostgresLedger>`.
    pub async fn atomic<H, B, E, R>(
        &self,
        route: &Route,
        caller: &Caller,
        request: http::Request<R>,
        handler: H,
    ) -> Response
    where
        H: for<'c> Fn(&'c mut PgConnection, Request) -> Borrowing<'c, B, E> + Send + Sync + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
        E: Into<BoxError> + 'static,
        R: http_body::Body<Data = Bytes>,
    {
        self.front(route, caller, request, Led(InTransaction(Lent(handler)))).await
    }
}
