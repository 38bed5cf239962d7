//! Bodies on their way through: data alone, and a request's no slower than from a client that means it.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use samekey::BoxError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// So many bytes have to come within the time that a body may stand still. A byte every ten seconds would
/// hold a connection to the upstream for days.
const PACE_BYTES_MIN: usize = 1_024;

/// A body that is given up where its sender stands still. Only waiting for the sender counts, not what
/// the upstream takes; trailers are left out.
pub(crate) struct Paced<B> {
    body: Pin<Box<B>>,
    stall_time_max: Duration,
    /// Runs from the first wait until enough has come.
    timer: Option<Pin<Box<Sleep>>>,
    come: usize,
}

impl<B> Paced<B> {
    pub(crate) fn new(body: B, stall_time_max: Duration) -> Paced<B> {
        Paced { body: Box::pin(body), stall_time_max, timer: None, come: 0 }
    }

    fn came(&mut self, bytes: usize) {
        self.come = self.come.saturating_add(bytes);
        if self.come >= PACE_BYTES_MIN {
            self.timer = None;
            self.come = 0;
        }
    }

    fn waits(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let time = self.stall_time_max;
        self.timer.get_or_insert_with(|| Box::pin(sleep(time))).as_mut().poll(context)
    }
}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            match self.body.as_mut().poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.came(data.len());
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    return self.waits(context).map(|()| {
                        Some(Err(BoxError::from("the sender of the body stood still for too long")))
                    });
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body without its trailers, which belong to the connection on which they came.
pub(crate) struct Data<B>(pub(crate) B);

impl<B: Body<Data = Bytes> + Unpin> Body for Data<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        loop {
            match ready!(Pin::new(&mut self.0).poll_frame(context)) {
                Some(Ok(frame)) if !frame.is_data() => {}
                other => return Poll::Ready(other),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
