//! What the bench does to its databases behind the service's back.

use crate::load::Failure;
use tokio_postgres::NoTls;

/// Runs statements.
pub async fn execute(url: &str, statements: &str) -> Result<(), Failure> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let connection = tokio::spawn(connection);
    client.batch_execute(statements).await?;
    connection.abort();
    Ok(())
}

/// Runs a query that gives one integer.
pub async fn number(url: &str, query: &str) -> Result<i64, Failure> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let connection = tokio::spawn(connection);
    let number = client.query_one(query, &[]).await?.try_get(0)?;
    connection.abort();
    Ok(number)
}
