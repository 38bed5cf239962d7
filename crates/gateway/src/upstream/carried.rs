//! A request on its way and the body of its answer, each together with the connection that carries it.

use super::Failed;
use bytes::Bytes;
use http::{Response, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use samekey::BoxError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A connection that moves when it is polled, and not otherwise.
pub(super) type Carrier = Pin<Box<dyn Future<Output = ()> + Send>>;
/// The answer, or what its absence proves.
pub(super) type Answering =
    Pin<Box<dyn Future<Output = Result<Response<Incoming>, Failed>> + Send>>;

/// A request on its way: its connection is driven here.
pub(super) struct Sending {
    connection: Option<Carrier>,
    answer: Answering,
}

impl Sending {
    pub(super) fn new(connection: Carrier, answer: Answering) -> Sending {
        Sending { connection: Some(connection), answer }
    }
}

impl Future for Sending {
    type Output = Result<Response<Driven>, Failed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Asked first: the connection wants to know that somebody waits.
        let mut answered = self.answer.as_mut().poll(context);
        if answered.is_pending() {
            drive(&mut self.connection, context);
            answered = self.answer.as_mut().poll(context);
        }
        answered.map_ok(|answer| {
            let connection = self.connection.take();
            let is_http2 = answer.version() == Version::HTTP_2;
            answer.map(|body| Driven { connection, body, is_http2 })
        })
    }
}

/// Moves the connection on.
fn drive(connection: &mut Option<Carrier>, context: &mut Context<'_>) {
    let ended = connection.as_mut().is_some_and(|it| it.as_mut().poll(context).is_ready());
    if ended {
        *connection = None;
    }
}

/// The body of an answer, together with the connection on which it comes.
pub(crate) struct Driven {
    connection: Option<Carrier>,
    body: Incoming,
    is_http2: bool,
}

impl Driven {
    /// The library takes a stream that was reset without an error for one that ended, though its end never came.
    fn checked(
        &self,
        frame: Option<Result<Frame<Bytes>, hyper::Error>>,
    ) -> Option<Result<Frame<Bytes>, BoxError>> {
        match frame {
            None if self.is_http2 && !self.body.is_end_stream() => {
                Some(Err("the answer was cut off".into()))
            }
            None => None,
            Some(frame) => Some(frame.map_err(BoxError::from)),
        }
    }
}

impl Body for Driven {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(self.checked(frame));
        }
        drive(&mut self.connection, context);
        Pin::new(&mut self.body).poll_frame(context).map(|frame| self.checked(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
