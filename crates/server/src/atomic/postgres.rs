//! Atomic commands on tokio-postgres.

use super::Led;
use super::transaction::{InTransaction, Work, Working};
use crate::body::{BoxError, Request, Response};
use crate::capture::capture;
use crate::engine::Engine;
use crate::route::{Caller, Route};
use bytes::Bytes;
use samekey_store::postgres::{Open, PostgresLedger, Tx};
use std::future::Future;

/// A handler that is given the transaction.
struct Given<H>(H);

impl<H, F, B, E> Work<Open> for Given<H>
where
    H: Fn(Tx, Request) -> F + Send + Sync + 'static,
    F: Future<Output = Result<http::Response<B>, E>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    E: Into<BoxError>,
{
    fn run<'a>(&'a self, open: &'a mut Open, request: Request, kept: usize) -> Working<'a> {
        let tx = open.tx();
        Box::pin(async move {
            // Called in here, so that a panic before the first await is caught as well.
            let response = (self.0)(tx, request).await.map_err(Into::into)?;
            capture(response, kept).await
        })
    }
}

impl Engine<PostgresLedger> {
    /// Runs a command in one transaction of PostgreSQL together with its key, at most once.
    ///
    /// `handler` is given the open transaction and the request, read to its end. It may be
    /// called again (at most three times) after a deadlock or a serialisation failure, so it
    /// must do nothing that the transaction does not hold. Its answer decides by its status:
    ///
    /// | handler's result | effects | stored |
    /// |---|---|---|
    /// | 2xx, 3xx | committed | the answer |
    /// | final 4xx | rolled back | the answer |
    /// | 401, 403, 407, 413, 421, 425, 429 | rolled back | nothing |
    /// | 408, 5xx, error, panic | rolled back | nothing |
    ///
    /// samekey logs no value at any level. The driver does: at DEBUG it writes the parameters of the
    /// handler's own statements, so keep the target `tokio_postgres` at INFO where they are secret.
    ///
    /// Whoever sends the key again gets what `docs/contract.md` says. The caller's identity
    /// must have been verified before.
    pub async fn atomic<H, F, B, E, R>(
        &self,
        route: &Route,
        caller: &Caller,
        request: http::Request<R>,
        handler: H,
    ) -> Response
    where
        H: Fn(Tx, Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<http::Response<B>, E>> + Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
        E: Into<BoxError> + 'static,
        R: http_body::Body<Data = Bytes>,
    {
        self.front(route, caller, request, Led(InTransaction(Given(handler)))).await
    }
}
