//! Bodies on their way in and out.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// Any error of somebody else's.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer: whole, or still streaming.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
/// An answer.
pub type Response = http::Response<Body>;
/// A command with its body, read to its end.
pub type Request = http::Request<Bytes>;

/// A body that is there already.
pub fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An answer whose body is there already: what most handlers give.
pub type Answer = http::Response<Full<Bytes>>;

/// An answer with a JSON body: status and value.
///
/// A value that cannot be written as JSON is an error of the handler.
pub fn json<T: serde::Serialize>(status: http::StatusCode, value: &T) -> Result<Answer, BoxError> {
    let mut answer = Answer::new(Full::new(Bytes::from(serde_json::to_vec(value)?)));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok(answer)
}
