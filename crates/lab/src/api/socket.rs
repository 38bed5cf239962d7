//! A connection whose outgoing bytes can be cut, replaced or slowed down, below everything that speaks HTTP.

use crate::faults::{End, Trickle};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// The blank line that ends a head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// What is done to the bytes of the next answer.
#[derive(Debug)]
pub enum Act {
    /// So many bytes pass, then the connection ends.
    Cut {
        /// Bytes that still pass.
        left: u64,
        /// How it ends.
        then: End,
    },
    /// These bytes go out instead, then the connection ends.
    Replace {
        /// The bytes.
        bytes: Vec<u8>,
        /// How it ends.
        then: End,
    },
    /// The head goes out bit by bit, the rest at once.
    SlowHead {
        /// How slowly.
        trickle: Trickle,
        /// Bytes of the blank line seen so far.
        matched: usize,
    },
}

/// The handle through which a request's handler decides about its connection.
#[derive(Debug, Default)]
pub struct Valve {
    is_armed: AtomicBool,
    /// Counts writes, so that it can be seen whether anything still moves.
    writes: AtomicU64,
    act: Mutex<Option<Act>>,
}

impl Valve {
    /// From the next byte on, this is done.
    pub fn arm(&self, act: Act) {
        *self.act.lock().unwrap_or_else(PoisonError::into_inner) = Some(act);
        self.is_armed.store(true, Ordering::Release);
    }

    /// How often something was written.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Whatever was planned for an answer does not reach the next one on the same connection.
    pub fn disarm(&self) {
        if self.is_armed.swap(false, Ordering::AcqRel) {
            *self.act.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// A TCP stream behind a valve.
#[derive(Debug)]
pub struct Faulty {
    stream: TcpStream,
    valve: Arc<Valve>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Faulty {
    /// Puts a stream behind a valve.
    pub fn new(stream: TcpStream, valve: Arc<Valve>) -> Self {
        Self { stream, valve, pause: None }
    }

    fn end(&mut self, cx: &mut Context<'_>, then: End) -> Poll<io::Result<usize>> {
        match then {
            // The answer that hyper still holds must not follow; the error makes it drop the connection.
            End::Close => {
                let _ = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
            }
            End::Reset => self.stream.set_zero_linger()?,
        }
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::ConnectionAborted,
            "ended by the fault plan",
        )))
    }

    fn poll_act(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        act: &mut Act,
    ) -> Poll<io::Result<usize>> {
        match act {
            Act::Cut { left: 0, then } => self.end(cx, *then),
            Act::Cut { left, .. } => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                let passing = bytes.get(..length).unwrap_or(bytes);
                let written = ready!(Pin::new(&mut self.stream).poll_write(cx, passing))?;
                *left -= written as u64;
                Poll::Ready(Ok(written))
            }
            Act::Replace { bytes: other, then } => {
                while !other.is_empty() {
                    let written = ready!(Pin::new(&mut self.stream).poll_write(cx, other))?;
                    other.drain(..written);
                }
                self.end(cx, *then)
            }
            Act::SlowHead { trickle, matched } => {
                if let Some(pause) = &mut self.pause {
                    ready!(pause.as_mut().poll(cx));
                    self.pause = None;
                }
                let most = usize::try_from(trickle.bytes).unwrap_or(usize::MAX).min(bytes.len());
                let passing = bytes.get(..most).unwrap_or(bytes);
                let written = ready!(Pin::new(&mut self.stream).poll_write(cx, passing))?;
                for byte in passing.iter().take(written) {
                    let goes_on = HEAD_END.get(*matched) == Some(byte);
                    *matched = if goes_on { *matched + 1 } else { usize::from(*byte == b'\r') };
                    if *matched == HEAD_END.len() {
                        break;
                    }
                }
                self.pause =
                    Some(Box::pin(tokio::time::sleep(Duration::from_millis(trickle.every_ms))));
                Poll::Ready(Ok(written))
            }
        }
    }
}

impl AsyncRead for Faulty {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Faulty {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.valve.writes.fetch_add(1, Ordering::Relaxed);
        if !this.valve.is_armed.load(Ordering::Acquire) {
            return Pin::new(&mut this.stream).poll_write(cx, bytes);
        }
        let valve = Arc::clone(&this.valve);
        let mut act = valve.act.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(doing) = act.as_mut() else {
            return Pin::new(&mut this.stream).poll_write(cx, bytes);
        };
        let polled = this.poll_act(cx, bytes, doing);
        if let Act::SlowHead { matched, .. } = doing
            && *matched == HEAD_END.len()
        {
            *act = None;
            valve.is_armed.store(false, Ordering::Release);
        }
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.valve.is_armed.load(Ordering::Acquire) {
            self.valve.writes.fetch_add(1, Ordering::Relaxed);
            return Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices);
        }
        let first = slices.iter().find(|slice| !slice.is_empty());
        self.poll_write(cx, first.map_or(&[][..], |slice| slice))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
