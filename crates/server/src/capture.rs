//! Reading a command to its end, and an answer as far as it is kept.

mod stream;

pub(crate) use stream::capture;

use crate::body::{Body, Response, whole};
use crate::route::Route;
use bytes::{Bytes, BytesMut};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use samekey_core::receipt::Receipt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bodies up to this size are read at once, whatever else arrives; almost every command is smaller.
const SMALL_BODY_BYTES: usize = 64 * 1024;
/// How many bytes of larger bodies a route holds at a time. A body that finds no room is left with its
/// sender until another command has ended, so that many of them cannot fill the memory.
const LARGE_BODY_BYTES_AT_ONCE: usize = 16 << 20;
/// How long a sender may take for its body. Whoever needs longer for a command is not serious, and
/// would keep room that others wait for.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// Room is counted in pieces of this size.
const PIECE_BYTES: usize = 1024;

/// Why a body could not be read.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It is longer than the limit, in bytes.
    TooLarge(usize),
    /// It took longer than [`BODY_TIME_MAX`].
    Slow,
    /// The other side went away.
    Lost,
}

/// The room that a route has for large bodies.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pieces: Arc<Semaphore>,
    limit: usize,
}

/// The room that one body takes; it travels with the request and is given back with it.
#[derive(Clone)]
pub(crate) struct Taken(#[allow(dead_code, reason = "held, not read")] Arc<OwnedSemaphorePermit>);

impl Room {
    /// Room for bodies up to `limit` bytes each.
    pub(crate) fn new(limit: usize) -> Room {
        let bytes = LARGE_BODY_BYTES_AT_ONCE.max(limit);
        Room { pieces: Arc::new(Semaphore::new(bytes.div_ceil(PIECE_BYTES))), limit }
    }

    async fn take(&self, bytes: usize) -> Option<Taken> {
        let pieces = u32::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.pieces).acquire_many_owned(pieces).await.ok()?;
        Some(Taken(Arc::new(permit)))
    }

    /// Reads a request's body to its end, up to the limit, in the room that it has or in new room.
    pub(crate) async fn read<B>(
        &self,
        body: B,
        taken: Option<Taken>,
    ) -> Result<(Bytes, Option<Taken>), Broken>
    where
        B: HttpBody<Data = Bytes>,
    {
        tokio::time::timeout(BODY_TIME_MAX, self.read_at_leisure(body, taken))
            .await
            .unwrap_or(Err(Broken::Slow))
    }

    async fn read_at_leisure<B>(
        &self,
        body: B,
        mut taken: Option<Taken>,
    ) -> Result<(Bytes, Option<Taken>), Broken>
    where
        B: HttpBody<Data = Bytes>,
    {
        let limit = self.limit;
        let declared = body.size_hint();
        if declared.lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
            return Err(Broken::TooLarge(limit));
        }
        // As large as it says, or as large as it may become.
        let most = declared.upper().and_then(|most| usize::try_from(most).ok());
        let most = most.map_or(limit, |most| most.min(limit));
        if taken.is_none() && most > SMALL_BODY_BYTES && declared.exact().is_some() {
            taken = self.take(most).await;
        }
        let mut body = std::pin::pin!(body);
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        let mut read = 0usize;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Broken::Lost)?.into_data() else { continue };
            let before = read;
            read = read.saturating_add(data.len());
            if read > limit {
                return Err(Broken::TooLarge(limit));
            }
            #[cfg(samekey_bugs)]
            if before > 0 && crate::bugs::planted("body-not-read") {
                break;
            }
            // A body that comes in one frame is passed on as it is.
            if before == 0 {
                first = data;
                continue;
            }
            if taken.is_none() && read > SMALL_BODY_BYTES {
                taken = self.take(most).await;
            }
            if all.is_empty() {
                // Once it has room, it gets its memory in one piece.
                all.reserve(if taken.is_some() { most } else { SMALL_BODY_BYTES });
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            if all.capacity() < read {
                all.reserve(most.saturating_sub(all.len()));
            }
            all.extend_from_slice(&data);
        }
        Ok((if all.is_empty() { first } else { all.freeze() }, taken))
    }
}

/// An answer, read as far as it may be kept.
pub(crate) enum Captured {
    /// All of it.
    Whole {
        /// Status and headers.
        head: http::response::Parts,
        /// The whole body.
        body: Bytes,
    },
    /// It is longer than what is kept: it can be passed on, and only its fact is stored.
    Long(Response),
}

impl Captured {
    /// The answer's status.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Captured::Whole { head, .. } => head.status.as_u16(),
            Captured::Long(response) => response.status().as_u16(),
        }
    }

    /// What of the answer is kept on this route.
    pub(crate) fn receipt(&self, route: &Route) -> Receipt {
        let keep = route.keep();
        match self {
            Captured::Whole { head, body } => {
                keep.receipt(head.status.as_u16(), lines(&head.headers), body.clone())
            }
            Captured::Long(response) => {
                keep.fact(response.status().as_u16(), lines(response.headers()))
            }
        }
    }

    #[cfg(samekey_bugs)]
    pub(crate) fn headers(&self) -> &http::HeaderMap {
        match self {
            Captured::Whole { head, .. } => &head.headers,
            Captured::Long(response) => response.headers(),
        }
    }

    /// The answer as it goes to the caller.
    pub(crate) fn into_response(self) -> Response {
        match self {
            Captured::Whole { head, body } => http::Response::from_parts(head, whole(body)),
            Captured::Long(response) => response,
        }
    }
}

fn lines(headers: &http::HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
}

/// An empty body, for answers that have none.
pub(crate) fn empty() -> Body {
    whole(Bytes::new())
}
