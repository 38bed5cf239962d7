//! The upstream of the tests: raw sockets, so that it sees bytes and may answer as badly as a case wants.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// What bytes go through.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A request as the backend saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The head as it came.
    pub raw_head: Vec<u8>,
}

impl Seen {
    /// The values of a header.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.headers.iter().filter(|(it, _)| it.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.as_str()).collect()
    }

    /// The one value of a header.
    pub fn one(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name}: {all:?}");
        all.first().copied()
    }
}

/// What it does with a request that it has read.
#[derive(Clone)]
pub enum Reply {
    /// These bytes, and the connection may be used again.
    Bytes(Vec<u8>),
    /// These bytes, and the connection ends.
    Last(Vec<u8>),
    /// These bytes, once there is a permit.
    When(Arc<Semaphore>, Vec<u8>),
    /// Nothing, for ever.
    Nothing,
    /// These bytes, and then nothing until there is a permit.
    Stalls(Vec<u8>, Arc<Semaphore>),
    /// These bytes again and again, that many times.
    Flood(Vec<u8>, Vec<u8>, usize),
}

/// A whole answer with a body.
pub fn answer(status: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for header in headers {
        bytes.extend_from_slice(format!("{header}\r\n").as_bytes());
    }
    bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// A JSON answer of a new thing, numbered.
pub fn created(number: usize) -> Vec<u8> {
    let body = format!("{{\"id\":\"thing-{number}\",\"canary\":\"stored-answer\"}}");
    let location = format!("Location: /things/{number}");
    answer("201 Created", &["Content-Type: application/json", &location], body.as_bytes())
}

type Script = Arc<dyn Fn(&Seen, usize) -> Reply + Send + Sync>;

/// The backend, with everything that it was asked.
#[derive(Clone)]
pub struct Backend {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<Mutex<usize>>,
    broken: Arc<Mutex<usize>>,
    answered: Arc<Mutex<usize>>,
}

impl Backend {
    /// Answers each request as the script says; it is told the request's number, from 1.
    pub async fn playing(
        script: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
    ) -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Backend::on(listener, None, script)
    }

    /// The same behind TLS.
    pub async fn secure(
        tls: TlsAcceptor,
        script: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
    ) -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Backend::on(listener, Some(tls), script)
    }

    fn on(
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        script: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
    ) -> Backend {
        let backend = Backend {
            address: listener.local_addr().unwrap(),
            seen: Arc::default(),
            connections: Arc::default(),
            broken: Arc::default(),
            answered: Arc::default(),
        };
        let script: Script = Arc::new(script);
        let own = backend.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *own.connections.lock().unwrap() += 1;
                let (own, script, tls) = (own.clone(), Arc::clone(&script), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => own.serve(stream, script).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                own.serve(stream, script).await;
                            }
                        }
                    }
                });
            }
        });
        backend
    }

    /// Creates a thing for every request.
    pub async fn creating() -> Backend {
        Backend::playing(|_, number| Reply::Bytes(created(number))).await
    }

    /// The same at an address where nobody listens any more.
    pub async fn creating_at(address: SocketAddr) -> Backend {
        let listener = TcpListener::bind(address).await.unwrap();
        Backend::on(listener, None, |_, number| Reply::Bytes(created(number)))
    }

    /// An address where nobody listens.
    pub async fn nowhere() -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        Backend {
            address,
            seen: Arc::default(),
            connections: Arc::default(),
            broken: Arc::default(),
            answered: Arc::default(),
        }
    }

    /// What it was asked so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// How many requests it read to their end: the effects.
    pub fn effects(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// How many effects there are for each body.
    pub fn by_body(&self) -> HashMap<Vec<u8>, usize> {
        let mut counts = HashMap::new();
        for seen in self.seen() {
            *counts.entry(seen.body).or_default() += 1;
        }
        counts
    }

    /// How many requests broke off before their end.
    pub fn broken(&self) -> usize {
        *self.broken.lock().unwrap()
    }

    /// How many connections came.
    pub fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    /// Waits until it was asked so often.
    pub async fn wait_for(&self, effects: usize) {
        until(|| self.effects() >= effects).await;
    }

    /// Waits until so many answers were written to the end.
    pub async fn wait_for_answers(&self, answers: usize) {
        until(|| *self.answered.lock().unwrap() >= answers).await;
    }

    async fn serve(self, mut stream: impl Stream, script: Script) {
        let mut buffer = Vec::new();
        loop {
            let request = match read_request(&mut stream, &mut buffer).await {
                Ok(Some(request)) => request,
                Ok(None) => return,
                Err(()) => {
                    *self.broken.lock().unwrap() += 1;
                    return;
                }
            };
            let number = {
                let mut seen = self.seen.lock().unwrap();
                seen.push(request.clone());
                seen.len()
            };
            let (bytes, last) = match script(&request, number) {
                Reply::Bytes(bytes) => (bytes, false),
                Reply::Last(bytes) => (bytes, true),
                Reply::When(gate, bytes) => {
                    gate.acquire().await.unwrap().forget();
                    (bytes, false)
                }
                Reply::Nothing => {
                    std::future::pending::<()>().await;
                    return;
                }
                Reply::Stalls(bytes, gate) => {
                    if stream.write_all(&bytes).await.is_ok() {
                        gate.acquire().await.unwrap().forget();
                    }
                    return;
                }
                Reply::Flood(head, piece, times) => {
                    if stream.write_all(&head).await.is_err() {
                        return;
                    }
                    for _ in 0..times {
                        if stream.write_all(&piece).await.is_err() {
                            return;
                        }
                    }
                    return;
                }
            };
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
            *self.answered.lock().unwrap() += 1;
            if last {
                return;
            }
        }
    }
}

/// Polls until this is so; ten seconds at the most.
pub async fn until(mut so: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come to be within ten seconds");
}

async fn read_request(stream: &mut impl Stream, buffer: &mut Vec<u8>) -> Result<Option<Seen>, ()> {
    let (mut seen, head_bytes) = loop {
        let mut headers = [httparse::EMPTY_HEADER; 256];
        let mut request = httparse::Request::new(&mut headers);
        if let httparse::Status::Complete(length) = request.parse(buffer).map_err(|_| ())? {
            let headers = request.headers.iter().map(|header| {
                let value = String::from_utf8_lossy(header.value).into_owned();
                (header.name.to_owned(), value)
            });
            let seen = Seen {
                method: request.method.unwrap().to_owned(),
                target: request.path.unwrap().to_owned(),
                headers: headers.collect(),
                body: Vec::new(),
                raw_head: buffer[..length].to_vec(),
            };
            break (seen, length);
        }
        if !more(stream, buffer).await {
            return if buffer.is_empty() { Ok(None) } else { Err(()) };
        }
    };
    buffer.drain(..head_bytes);
    let length = seen.one("content-length").map(|text| text.parse::<usize>().unwrap());
    let chunked = seen.one("transfer-encoding").is_some();
    assert!(length.is_none() || !chunked, "both framings came: {seen:?}");
    if chunked {
        loop {
            let (size, line) = loop {
                match httparse::parse_chunk_size(buffer) {
                    Ok(httparse::Status::Complete((line, size))) => break (size as usize, line),
                    Ok(httparse::Status::Partial) => {}
                    Err(_) => return Err(()),
                }
                if !more(stream, buffer).await {
                    return Err(());
                }
            };
            buffer.drain(..line);
            while buffer.len() < size + 2 {
                if !more(stream, buffer).await {
                    return Err(());
                }
            }
            seen.body.extend(buffer.drain(..size));
            buffer.drain(..2);
            if size == 0 {
                return Ok(Some(seen));
            }
        }
    }
    let length = length.unwrap_or(0);
    while buffer.len() < length {
        if !more(stream, buffer).await {
            return Err(());
        }
    }
    seen.body = buffer.drain(..length).collect();
    Ok(Some(seen))
}

async fn more(stream: &mut impl Stream, buffer: &mut Vec<u8>) -> bool {
    matches!(stream.read_buf(buffer).await, Ok(read) if read > 0)
}
