//! A small load generator for `bench/lab`: payments, each with an order and a key of its own, over kept connections.
//!
//! `load ADDRESS CONNECTIONS COUNT` sends COUNT payments in all and prints how many a second were answered with 201.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, connections, count] = arguments.as_slice() else {
        return Err("usage: load ADDRESS CONNECTIONS COUNT".into());
    };
    let (connections, count): (u64, u64) = (connections.parse()?, count.parse()?);
    // Runs must not meet each other's keys.
    let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let next = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut payers = Vec::new();
    for _ in 0..connections {
        payers.push(tokio::spawn(pay(address.clone(), run, Arc::clone(&next), count)));
    }
    for payer in payers {
        payer.await??;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{:.0}", count as f64 / seconds);
    Ok(())
}

async fn pay(address: String, run: u128, next: Arc<AtomicU64>, count: u64) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(&address).await?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(());
        }
        let body = format!("{{\"order_id\":\"ORD-{run}-{number}\",\"amount\":1500}}");
        let request = format!(
            "POST /payments HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nIdempotency-Key: {run}-{number}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut filled = 0;
        loop {
            let rest = buffer.get_mut(filled..).ok_or("the answer is too long")?;
            let read = stream.read(rest).await?;
            if read == 0 {
                return Err("the connection ended in the middle of an answer".into());
            }
            filled += read;
            if is_whole(buffer.get(..filled).unwrap_or_default())? {
                break;
            }
        }
    }
}

/// Whether an answer is there from head to end; anything but a 201 ends the run.
fn is_whole(bytes: &[u8]) -> Result<bool, Failure> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(false);
    };
    let head = std::str::from_utf8(bytes.get(..end).unwrap_or_default())?;
    if !head.starts_with("HTTP/1.1 201") {
        return Err(format!("not a 201: {head}").into());
    }
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).ok_or("no length")?;
    Ok(bytes.len() >= end + 4 + length.parse::<usize>()?)
}
