//! The other side of `bench/lab`: an axum handler that takes a body and gives back a fixed answer of the lab.
//!
//! `bare_axum ANSWER-FILE` listens on a free port of 127.0.0.1 and prints the address.

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use std::error::Error;
use std::io::Write;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("name a file with the answer")?;
    let answer = Bytes::from(std::fs::read(file)?);
    let pay = move |_body: Bytes| {
        let answer = answer.clone();
        async move { (StatusCode::CREATED, [(CONTENT_TYPE, "application/json")], answer) }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    axum::serve(listener, Router::new().route("/payments", post(pay))).await?;
    Ok(())
}
