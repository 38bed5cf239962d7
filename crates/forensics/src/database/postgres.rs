//! PostgreSQL: one read-only transaction, copied out as CSV by the server itself.

use std::io::{Seek, SeekFrom, Write};

use futures_util::TryStreamExt;
use tokio_postgres::{Config, NoTls};

use crate::error::Error;
use crate::read::source::Input;

pub(super) fn rows(url: &str, query: &str, shown: &str) -> Result<Input, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Error::machine("the network cannot be used", &cause))?;
    runtime.block_on(copied(url, query, shown))
}

async fn copied(url: &str, query: &str, shown: &str) -> Result<Input, Error> {
    let lost = |error: &tokio_postgres::Error| {
        Error::unreachable(format!("{shown}: the database does not answer: {}", reason(error)))
    };
    let config: Config = url.parse().map_err(|_| {
        Error::usage(
            "the address of the database cannot be understood; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        )
    })?;
    let (client, connection) = config.connect(NoTls).await.map_err(|error| lost(&error))?;
    let driver = tokio::spawn(connection);
    // The server refuses every write from here on; times come out in one form.
    client
        .batch_execute(
            "set session characteristics as transaction read only;\
             set timezone to 'UTC';\
             set datestyle to 'ISO';\
             set application_name to 'samekey forensics';\
             begin transaction isolation level repeatable read read only",
        )
        .await
        .map_err(|error| lost(&error))?;
    let refused = |error: &tokio_postgres::Error| {
        if error.as_db_error().is_some() {
            Error::usage(format!("the query is refused: {}", reason(error)))
        } else {
            lost(error)
        }
    };
    let command = format!("copy (\n{query}\n) to stdout (format csv, header)");
    let stream = client.copy_out(command.as_str()).await.map_err(|error| refused(&error))?;
    let broken = |cause| Error::machine("a temporary file cannot be written", &cause);
    let mut copy = tempfile::tempfile().map_err(broken)?;
    let mut stream = std::pin::pin!(stream);
    while let Some(bytes) = stream.try_next().await.map_err(|error| refused(&error))? {
        copy.write_all(&bytes).map_err(broken)?;
    }
    client.batch_execute("rollback").await.map_err(|error| lost(&error))?;
    drop(client);
    // The connection ends by itself when its client is gone.
    let _ = driver.await;
    copy.seek(SeekFrom::Start(0)).map_err(broken)?;
    Ok(Input::Stream { name: format!("{shown} (query)"), bytes: Box::new(copy) })
}

/// What the server said, or what the network did, without the wrapping.
fn reason(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => std::error::Error::source(error).map_or(error.to_string(), ToString::to_string),
    }
}
