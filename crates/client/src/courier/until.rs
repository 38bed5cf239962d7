//! Work that goes no further once its time is over.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::Instant;

/// A call that stops at a moment. Every step looks at the clock: a process that stood still for a minute
/// wakes up in the middle of its call, and timers tell it later than sockets do.
pub(super) struct Until<F> {
    call: Pin<Box<F>>,
    ends: Instant,
    has_begun: bool,
}

/// Why a call was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// Before its first step: nothing was sent.
    Unbegun,
    /// On its way.
    Underway,
}

impl<F: Future> Until<F> {
    pub(super) fn new(call: F, ends: Instant) -> Until<F> {
        Until { call: Box::pin(call), ends, has_begun: false }
    }

    pub(super) async fn run(mut self) -> Result<F::Output, Stopped> {
        let ends = self.ends;
        match tokio::time::timeout_at(ends, &mut self).await {
            Ok(result) => result,
            Err(_) => Err(self.stopped()),
        }
    }

    fn stopped(&self) -> Stopped {
        if self.has_begun { Stopped::Underway } else { Stopped::Unbegun }
    }
}

impl<F: Future> Future for Until<F> {
    type Output = Result<F::Output, Stopped>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if Instant::now() >= self.ends {
            return Poll::Ready(Err(self.stopped()));
        }
        self.has_begun = true;
        self.call.as_mut().poll(context).map(Ok)
    }
}
