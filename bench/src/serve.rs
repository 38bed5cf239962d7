//! The process under load: one service with the same handler in every form that is compared.

mod postgres;
mod sqlite;

use crate::load::Failure;
use axum::Router;
use axum::serve::ListenerExt;
use samekey::Route;
use samekey::core::policy::Choices;
use samekey::store::address::Address;
use serde::Deserialize;
use tokio::net::TcpListener;

/// The body that every form reads.
#[derive(Deserialize)]
struct NewOrder {
    amount: i64,
}

/// Serves on a free port and says which on the first line.
pub async fn serve(database: &str) -> Result<(), Failure> {
    let route = Route::new("orders", Choices::default())?;
    let router: Router = match Address::parse(database)? {
        Address::Postgres(url) => postgres::router(&url, route).await?,
        Address::Sqlite(address) => sqlite::router(&address, route).await?,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
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
