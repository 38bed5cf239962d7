//! One connection of a client: request by request to the service, and the answers back.

use super::message::{Message, Side, first_line};
use super::{Cut, Shared};
use crate::proxy::pump::{CHUNK_BYTES, POLL};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// A longer request is refused by ending its connection: it is read whole before it is handed on.
pub(super) const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How much of an answer is read that nobody gets, such as one without an end.
const UNTOLD_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A first line is looked for within so many bytes.
const FIRST_LINE_BYTES: usize = 4 * 1024;

pub(super) async fn serve(shared: Arc<Shared>, client: TcpStream) {
    let mut cuts = shared.switches.cuts();
    let silent = AtomicBool::new(false);
    let _ = client.set_nodelay(true);
    let line = Line {
        shared: &shared,
        silent: &silent,
        client: Some(client),
        service: None,
        ahead: Vec::new(),
    };
    tokio::select! {
        () = line.run() => {}
        () = cut(&silent, &mut cuts) => {}
    }
}

/// Waits until all connections are to be cut. One whose client is cut already keeps its service, which
/// has still to get or to answer its last request.
async fn cut(silent: &AtomicBool, cuts: &mut watch::Receiver<u64>) {
    while cuts.changed().await.is_ok() && silent.load(Ordering::SeqCst) {}
}

struct Line<'a> {
    shared: &'a Shared,
    /// Nothing more reaches the client.
    silent: &'a AtomicBool,
    client: Option<TcpStream>,
    service: Option<TcpStream>,
    /// What the client sent beyond the request that is being served.
    ahead: Vec<u8>,
}

/// A request with its bytes as they came.
struct Whole {
    message: Message,
    bytes: Vec<u8>,
}

impl Line<'_> {
    async fn run(mut self) {
        // The bound only says that the count cannot run over.
        for number in 1..u64::MAX {
            if self.serve_one(number).await.is_none() {
                return;
            }
        }
    }

    /// Nothing where the connection ends with this request.
    async fn serve_one(&mut self, number: u64) -> Option<()> {
        self.begins().await?;
        if number > 1 && self.is_cut_as_written(number).await? {
            return None;
        }
        let request = self.read_request().await?;
        let (place, cut) = self.shared.pass_request(&request.message, number);
        match cut {
            None | Some(Cut::Answer { .. } | Cut::AsWritten) => {}
            Some(Cut::Before) => return None,
            Some(Cut::After) => self.silent.store(true, Ordering::SeqCst),
            Some(Cut::Held) => {
                self.silent.store(true, Ordering::SeqCst);
                drop(self.client.take());
                if !self.shared.switches.delivered().await {
                    return None;
                }
            }
        }
        self.shared.switches.thawed().await;
        let mut service = match self.service.take() {
            Some(service) => service,
            None => {
                let service = TcpStream::connect(self.shared.switches.upstream).await.ok()?;
                let _ = service.set_nodelay(true);
                service
            }
        };
        let began = self.shared.moment();
        self.shared.change(place, |exchange| exchange.sent = Some(began));
        service.write_all(&request.bytes).await.ok()?;
        let goes_on = self.relay(&mut service, &request.message, place, cut).await?;
        self.service = Some(service);
        (goes_on && !self.silent.load(Ordering::SeqCst)).then_some(())
    }

    /// Waits for the first bytes of a request; nothing where one of the two sides goes instead.
    async fn begins(&self) -> Option<()> {
        if !self.ahead.is_empty() {
            return Some(());
        }
        let mut byte = [0];
        tokio::select! {
            peeked = self.client.as_ref()?.peek(&mut byte) => matches!(peeked, Ok(1..)).then_some(()),
            // Whatever an idle service does, even sending, ends the connection.
            () = touched(self.service.as_ref()) => None,
        }
    }

    /// Whether this connection is closed with its next request unread; the system then resets it.
    async fn is_cut_as_written(&self, number: u64) -> Option<bool> {
        if !self.ahead.is_empty() || !self.shared.may_cut_as_written() {
            return Some(false);
        }
        let client = self.client.as_ref()?;
        let mut bytes = vec![0; FIRST_LINE_BYTES];
        loop {
            let count = client.peek(&mut bytes).await.ok().filter(|count| *count > 0)?;
            if let Some((method, path)) = first_line(bytes.get(..count)?) {
                return Some(self.shared.pass_first_line(&method, &path, number));
            }
            if count == FIRST_LINE_BYTES {
                return Some(false);
            }
            // The rest of the line follows at once.
            tokio::time::sleep(POLL).await;
        }
    }

    async fn read_request(&mut self) -> Option<Whole> {
        let mut message = Message::of(Side::Request);
        let mut bytes = Vec::new();
        let mut told_to_continue = false;
        let client = self.client.as_mut()?;
        loop {
            let used = message.take(&self.ahead).ok()?;
            let rest = self.ahead.split_off(used);
            bytes.append(&mut std::mem::replace(&mut self.ahead, rest));
            if message.is_whole() {
                return Some(Whole { message, bytes });
            }
            if bytes.len() > REQUEST_BYTES_MAX {
                return None;
            }
            let waits = message.head().is_some_and(|head| head.header("expect").is_some());
            if waits && !told_to_continue {
                told_to_continue = true;
                client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
            }
            self.ahead = vec![0; CHUNK_BYTES];
            let count = client.read(&mut self.ahead).await.ok()?;
            self.ahead.truncate(count);
            if count == 0 {
                return None;
            }
        }
    }

    /// Brings the answer back; says whether the connection can go on. Nothing where it broke.
    async fn relay(
        &mut self,
        service: &mut TcpStream,
        request: &Message,
        place: usize,
        cut: Option<Cut>,
    ) -> Option<bool> {
        let asked = request.head()?;
        let side = Side::Answer { is_to_head: asked.method == "HEAD" };
        let mut told_max = match cut {
            Some(Cut::Answer { after_bytes }) => after_bytes,
            Some(Cut::Before | Cut::After | Cut::Held | Cut::AsWritten) | None => u64::MAX,
        };
        let mut answer = Message::of(side);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = tokio::select! {
                read = service.read(&mut chunk) => read.ok()?,
                // The service learns that its client has gone.
                () = gone(self.client.as_ref()) => return None,
            };
            if count == 0 {
                if answer.ends_with_connection() {
                    self.note_end(&answer, place);
                }
                return None;
            }
            let mut rest = chunk.get(..count)?;
            let mut is_over = false;
            while !rest.is_empty() {
                let used = answer.take(rest).ok()?;
                rest = rest.get(used..)?;
                if !answer.is_whole() {
                    continue;
                }
                if answer.head().is_some_and(|head| head.is_interim()) {
                    answer = Message::of(side);
                    continue;
                }
                is_over = true;
                break;
            }
            let is_unasked = is_over && !rest.is_empty();
            self.shared.switches.delayed().await;
            self.shared.switches.thawed().await;
            if is_over {
                // For the client the call lasts until here.
                self.note_end(&answer, place);
            }
            self.tell(chunk.get(..count)?, &mut told_max).await?;
            if is_over {
                if cut.is_some() {
                    return None;
                }
                let closes = asked.closes() || answer.head().is_some_and(|head| head.closes());
                return Some(!closes && !is_unasked);
            }
            if self.silent.load(Ordering::SeqCst) && answer.body().bytes > UNTOLD_BYTES_MAX {
                return None;
            }
        }
    }

    /// Hands on what the client may get.
    async fn tell(&mut self, bytes: &[u8], told_max: &mut u64) -> Option<()> {
        if self.silent.load(Ordering::SeqCst) {
            return Some(());
        }
        let count = usize::try_from(*told_max).unwrap_or(usize::MAX).min(bytes.len());
        self.client.as_mut()?.write_all(bytes.get(..count)?).await.ok()?;
        *told_max -= u64::try_from(count).unwrap_or(0);
        if *told_max == 0 {
            // The client is cut here, and the service answers to the end.
            self.silent.store(true, Ordering::SeqCst);
            drop(self.client.take());
        }
        Some(())
    }

    fn note_end(&self, answer: &Message, place: usize) {
        let now = self.shared.moment();
        let head = answer.head().cloned().unwrap_or_default();
        let seconds = head.header("retry-after").and_then(|value| value.trim().parse().ok());
        self.shared.change(place, |exchange| {
            exchange.answered = Some(now);
            exchange.status = Some(head.status);
            exchange.retry_after = seconds.map(Duration::from_secs);
        });
    }
}

/// Ends when an idle peer sends or goes; never where there is none.
async fn touched(peer: Option<&TcpStream>) {
    match peer {
        Some(peer) => drop(peer.peek(&mut [0]).await),
        None => std::future::pending().await,
    }
}

/// Ends when this peer goes; never where there is none, or where it has sent more meanwhile.
async fn gone(peer: Option<&TcpStream>) {
    if let Some(peer) = peer
        && matches!(peer.peek(&mut [0]).await, Ok(0) | Err(_))
    {
        return;
    }
    std::future::pending().await
}
