//! The process under load: one service with the same handler in every form that is compared.

mod external;
mod postgres;
mod sqlite;

use crate::load::Failure;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use samekey::Route;
use samekey::core::policy::Choices;
use samekey::store::address::Address;
use serde::Deserialize;
use tokio::net::TcpListener;

/// What a connection may buffer of a request that comes faster than it is read.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// The body that every form reads.
#[derive(Deserialize)]
struct NewOrder {
    amount: i64,
}

/// Serves on a free port and says which on the first line.
pub async fn serve(database: &str, provider: Option<&str>) -> Result<(), Failure> {
    let route = Route::new("orders", Choices::default())?;
    let router: Router = match (Address::parse(database)?, provider) {
        (Address::Postgres(url), Some(provider)) => external::router(&url, provider).await?,
        (Address::Postgres(url), None) => postgres::router(&url, route).await?,
        (Address::Sqlite(address), _) => sqlite::router(&address, route).await?,
    };
    listen(router).await
}

/// Serves as the provider of external commands: whatever it is sent, it says back.
pub async fn echo() -> Result<(), Failure> {
    let echo = |body: axum::body::Bytes| async { (http::StatusCode::CREATED, body) };
    listen(Router::new().route("/charges", axum::routing::post(echo))).await
}

async fn listen(router: Router) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let mut http = Builder::new(TokioExecutor::new()).http1_only();
    // The default lets every connection buffer several hundred kibibytes.
    http.http1().max_buf_size(BUFFER_BYTES_MAX);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service).into_owned();
        tokio::spawn(async move {
            // The load generator closes when a round is over.
            let _ = connection.await;
        });
    }
}

/// An answer of 200 bytes.
fn answer(id: &str, amount: i64) -> Result<samekey::Answer, samekey::BoxError> {
    let mut text = format!(r#"{{"id":"{id}","amount":{amount},"note":""#);
    while text.len() < 198 {
        text.push('.');
    }
    text.push_str("\"}");
    let mut answer = samekey::Answer::new(http_body_util::Full::new(text.into()));
    *answer.status_mut() = http::StatusCode::CREATED;
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok(answer)
}

/// A new id: 32 characters of randomness.
fn new_id() -> Result<String, Failure> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
