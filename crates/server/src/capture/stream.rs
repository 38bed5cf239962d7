//! Answers that a handler streams: read as far as they are kept, and passed on beyond.

use crate::body::BoxError;
use crate::capture::Captured;
use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Reads an answer's body up to `limit` bytes. An error of the body is an error of the handler: a
/// broken stream is never stored as a success.
pub(crate) async fn capture<B>(
    response: http::Response<B>,
    limit: usize,
) -> Result<Captured, BoxError>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (head, body) = response.into_parts();
    let mut body = Box::pin(body);
    let mut frames = VecDeque::new();
    let mut read = 0usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Into::into)?.into_data() else { continue };
        read = read.saturating_add(data.len());
        frames.push_back(data);
        if read > limit {
            let long = Resumed { frames, rest: body };
            return Ok(Captured::Long(http::Response::from_parts(
                head,
                long.map_err(Into::into).boxed_unsync(),
            )));
        }
    }
    let only = (frames.len() == 1).then(|| frames.pop_front()).flatten();
    let body = only.unwrap_or_else(|| {
        let mut all = BytesMut::with_capacity(read);
        frames.iter().for_each(|frame| all.extend_from_slice(frame));
        all.freeze()
    });
    Ok(Captured::Whole { head, body })
}

/// A body whose first frames were read already.
struct Resumed<B> {
    frames: VecDeque<Bytes>,
    rest: Pin<Box<B>>,
}

impl<B> HttpBody for Resumed<B>
where
    B: HttpBody<Data = Bytes>,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.frames.pop_front() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => self.rest.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.rest.is_end_stream()
    }

    /// What is left, so that an answer of a known length keeps its `Content-Length`.
    fn size_hint(&self) -> SizeHint {
        let read = self.frames.iter().map(|data| u64::try_from(data.len()).unwrap_or(u64::MAX));
        let read = read.fold(0u64, u64::saturating_add);
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint.set_lower(rest.lower().saturating_add(read));
        hint
    }
}
