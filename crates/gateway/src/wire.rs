//! A client's connection with deadlines where the HTTP library has none: until it is clear which HTTP is
//! spoken, and while the client does not take what is written.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What a client of HTTP/2 sends first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

type Timer = Pin<Box<Sleep>>;

/// A connection that ends where its client keeps it waiting.
pub(crate) struct Wire<I> {
    inner: I,
    /// Runs until the first bytes have shown which HTTP it is.
    opening: Option<Timer>,
    /// How many bytes of the preface have come.
    matched: usize,
    stall_time_max: Duration,
    /// Runs while the client takes nothing.
    writing: Option<Timer>,
}

impl<I> Wire<I> {
    pub(crate) fn new(inner: I, opening: Duration, stall_time_max: Duration) -> Wire<I> {
        let opening = Some(Box::pin(sleep(opening)));
        Wire { inner, opening, matched: 0, stall_time_max, writing: None }
    }

    fn came(&mut self, bytes: &[u8]) {
        let expected = PREFACE.get(self.matched..).unwrap_or_default();
        self.matched += bytes.len();
        if !expected.starts_with(bytes) || self.matched >= PREFACE.len() {
            self.opening = None;
        }
    }

    /// What the writing came to, where a client that takes nothing for too long ends it.
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<Result<T>>,
    ) -> Poll<Result<T>> {
        if written.is_ready() {
            self.writing = None;
            return written;
        }
        let time = self.stall_time_max;
        let timer = self.writing.get_or_insert_with(|| Box::pin(sleep(time)));
        timer.as_mut().poll(context).map(|()| Err(Error::from(ErrorKind::TimedOut)))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Wire<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        let Some(opening) = &mut self.opening else { return read };
        match read {
            Poll::Ready(Ok(())) => {
                let bytes = buffer.filled().get(before..).unwrap_or_default();
                self.came(bytes);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                opening.as_mut().poll(context).map(|()| Err(Error::from(ErrorKind::TimedOut)))
            }
        }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Wire<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, pieces);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        if flushed.is_ready() { flushed } else { self.written(context, flushed) }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        // TLS has something to say at the end, and a client that takes nothing would not let it.
        let shut = Pin::new(&mut self.inner).poll_shutdown(context);
        self.written(context, shut)
    }
}
