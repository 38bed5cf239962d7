//! A proxy that cuts connections at a chosen moment.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const OPEN: u8 = 0;
const LOSE_ANSWERS: u8 = 1;
const LOSE_REQUESTS: u8 = 2;

/// Stands between a client and a server on loopback.
pub struct Proxy {
    pub port: u16,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    pub async fn before(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(AtomicU8::new(OPEN));
        let shared = mode.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, shared.clone()));
            }
        });
        Proxy { port, mode }
    }

    /// What the client sends still arrives; at the first answer both sides are cut.
    pub fn lose_answers(&self) {
        self.mode.store(LOSE_ANSWERS, Ordering::SeqCst);
    }

    /// At the next thing that the client sends both sides are cut.
    pub fn lose_requests(&self) {
        self.mode.store(LOSE_REQUESTS, Ordering::SeqCst);
    }

    /// New connections work.
    pub fn heal(&self) {
        self.mode.store(OPEN, Ordering::SeqCst);
    }
}

async fn forward(client: TcpStream, server: SocketAddr, mode: Arc<AtomicU8>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            if mode.load(Ordering::SeqCst) == LOSE_REQUESTS
                || to_server.write_all(&buffer[..read]).await.is_err()
            {
                return;
            }
        }
    };
    let answers = async {
        let mut buffer = vec![0; 64 * 1024];
        let mut lost = false;
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            lost = lost || mode.load(Ordering::SeqCst) == LOSE_ANSWERS;
            if lost {
                // The commit's own answer is the last one; by then it stands.
                if buffer[..read].windows(7).any(|bytes| bytes == b"COMMIT\0") {
                    return;
                }
            } else if to_client.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = answers => {}
    }
}
