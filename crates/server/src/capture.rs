//! Reading a command to its end, and an answer as far as it is kept.

use crate::body::{Body, Response, whole};
use bytes::{Bytes, BytesMut};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;

/// Why a body could not be read.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It is longer than the limit, in bytes.
    TooLarge(usize),
    /// The other side went away.
    Lost,
}

/// Reads a request's body to its end, up to the limit.
pub(crate) async fn read_request<B>(body: B, limit: usize) -> Result<Bytes, Broken>
where
    B: HttpBody<Data = Bytes>,
{
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(Broken::TooLarge(limit));
    }
    let mut body = std::pin::pin!(body);
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    let mut read = 0usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Broken::Lost)?.into_data() else { continue };
        read = read.saturating_add(data.len());
        if read > limit {
            return Err(Broken::TooLarge(limit));
        }
        #[cfg(samekey_bugs)]
        if first.is_some() && crate::bugs::planted("body-not-read") {
            break;
        }
        // Most commands come in one frame, which is passed on as it is.
        match &first {
            None => first = Some(data),
            Some(_) => rest.extend_from_slice(&data),
        }
    }
    let first = first.unwrap_or_default();
    if rest.is_empty() {
        return Ok(first);
    }
    let mut all = BytesMut::with_capacity(read);
    all.extend_from_slice(&first);
    all.extend_from_slice(&rest);
    Ok(all.freeze())
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

/// An empty body, for answers that have none.
pub(crate) fn empty() -> Body {
    whole(Bytes::new())
}
