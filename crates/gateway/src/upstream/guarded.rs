//! A socket that takes nothing more once the lease of its call is over.
//!
//! A process that was stopped wakes up in the middle of its call. What has come meanwhile is worth hearing, and
//! nothing may leave any more: somebody else may have decided about the key.

use samekey::CallLease;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// It lies below TLS, which keeps what it could not write yet.
pub(super) struct Guarded {
    pub(super) stream: TcpStream,
    /// Nothing for what belongs to no key.
    pub(super) lease: Option<CallLease>,
}

impl Guarded {
    fn is_over(&self) -> bool {
        self.lease.as_ref().is_some_and(CallLease::is_over)
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

/// To whoever writes, a lease that is over looks like a side that takes nothing. An error would end the reading
/// as well.
impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        if self.is_over() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        if self.is_over() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
