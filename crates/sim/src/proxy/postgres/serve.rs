//! One connection: what the client sends goes to the server message by message, and back.

use super::wire::{Framer, Message, Statements, asks_for_encryption};
use super::{Cut, Shared};
use crate::proxy::pump::CHUNK_BYTES;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

/// How long a client that is cut may take to read what was sent to it before.
const GOODBYE: Duration = Duration::from_millis(200);

/// What both directions of a connection know.
#[derive(Debug, Default)]
struct Link {
    /// Requests for which the server still owes its "ready".
    owed: AtomicU64,
    /// Nothing more reaches the client.
    silent: AtomicBool,
    /// Nothing more reaches the server.
    complete: AtomicBool,
}

pub(super) async fn serve(shared: Arc<Shared>, mut client: TcpStream) {
    let shared = &shared;
    let mut cuts = shared.switches.cuts();
    if !do_without_encryption(&mut client).await {
        return;
    }
    let Ok(server) = TcpStream::connect(shared.switches.upstream).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let link = Link::default();
    let (hang_up, hung_up) = watch::channel(false);
    tokio::select! {
        () = up(shared, &link, from_client, to_server, hang_up) => {}
        () = down(shared, &link, from_server, to_client, hung_up) => {}
        () = cut(&link, &mut cuts) => {}
    }
}

/// Waits until all connections are to be cut. One whose client is cut already keeps its server, which
/// has still to get or to answer its last message.
async fn cut(link: &Link, cuts: &mut watch::Receiver<u64>) {
    loop {
        if cuts.changed().await.is_err() || !link.silent.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// Says no to whoever asks for encryption first; false when the client goes.
async fn do_without_encryption(client: &mut TcpStream) -> bool {
    let mut head = [0; 8];
    loop {
        match client.peek(&mut head).await {
            Ok(8) => {}
            // The rest of a start-up message follows at once.
            Ok(1..8) => {
                tokio::task::yield_now().await;
                continue;
            }
            Ok(_) | Err(_) => return false,
        }
        if !asks_for_encryption(head) {
            return true;
        }
        if client.read_exact(&mut head).await.is_err() || client.write_all(b"N").await.is_err() {
            return false;
        }
    }
}

/// From the client to the server, until one of them goes or the connection is cut.
async fn up(
    shared: &Shared,
    link: &Link,
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    hang_up: watch::Sender<bool>,
) {
    let mut framer = Framer::of_client();
    let mut statements = Statements::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let Ok(count @ 1..) = client.read(&mut chunk).await else { return };
        framer.push(chunk.get(..count).unwrap_or_default());
        loop {
            let message = match framer.next() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(_) => return,
            };
            shared.switches.thawed().await;
            match fate(shared, &mut statements, &message) {
                None => {
                    if !hand_on(link, &mut server, &message).await {
                        return;
                    }
                }
                Some(Cut::Before) => return,
                Some(Cut::After) => {
                    link.silent.store(true, Ordering::SeqCst);
                    let sent = hand_on(link, &mut server, &message).await;
                    return last_word(link, sent).await;
                }
                Some(Cut::Held) => {
                    link.silent.store(true, Ordering::SeqCst);
                    hang_up.send_replace(true);
                    drop(client);
                    let sent = shared.switches.delivered().await
                        && hand_on(link, &mut server, &message).await;
                    return last_word(link, sent).await;
                }
            }
        }
    }
}

/// What becomes of a message of the client.
fn fate(shared: &Shared, statements: &mut Statements, message: &Message) -> Option<Cut> {
    // The log-in and the goodbye are nobody's target.
    if matches!(message.kind, 0 | b'p' | b'X') {
        return None;
    }
    shared.pass_request(&statements.read(message))
}

/// Waits, after the last message to the server, until it has answered all that it owes; the other
/// direction sees that and ends the connection.
async fn last_word(link: &Link, sent: bool) {
    link.complete.store(true, Ordering::SeqCst);
    if sent && link.owed.load(Ordering::SeqCst) > 0 {
        std::future::pending::<()>().await;
    }
}

async fn hand_on(link: &Link, server: &mut OwnedWriteHalf, message: &Message) -> bool {
    if matches!(message.kind, b'Q' | b'S') {
        link.owed.fetch_add(1, Ordering::SeqCst);
    }
    server.write_all(&message.bytes).await.is_ok()
}

/// From the server to the client.
async fn down(
    shared: &Shared,
    link: &Link,
    mut server: OwnedReadHalf,
    client: OwnedWriteHalf,
    mut hung_up: watch::Receiver<bool>,
) {
    let mut client = Some(client);
    let mut framer = Framer::of_server();
    let mut logged_in = false;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = tokio::select! {
            read = server.read(&mut chunk) => read,
            _ = hung_up.wait_for(|hung_up| *hung_up), if client.is_some() => {
                drop(client.take());
                continue;
            }
        };
        let Ok(count @ 1..) = read else { return };
        framer.push(chunk.get(..count).unwrap_or_default());
        shared.switches.delayed().await;
        shared.switches.thawed().await;
        let mut sent = Vec::new();
        loop {
            let message = match framer.next() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(_) => return,
            };
            if logged_in && !link.silent.load(Ordering::SeqCst) && shared.pass_answer() {
                // What was sent before the cut arrives.
                if let Some(client) = &mut client {
                    let _ = tokio::time::timeout(GOODBYE, client.write_all(&sent)).await;
                }
                return;
            }
            let is_ready = message.kind == b'Z';
            if is_ready && logged_in {
                link.owed.fetch_sub(1, Ordering::SeqCst);
            }
            logged_in |= is_ready;
            if !link.silent.load(Ordering::SeqCst) {
                sent.extend_from_slice(&message.bytes);
            } else if link.complete.load(Ordering::SeqCst) && link.owed.load(Ordering::SeqCst) == 0
            {
                return;
            }
        }
        if let Some(client) = &mut client
            && client.write_all(&sent).await.is_err()
        {
            return;
        }
    }
}
