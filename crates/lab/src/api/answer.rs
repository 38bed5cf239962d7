//! From the true answer and the plan to the HTTP answer that is sent.

use crate::faults::{AnswerPlan, Body, Dice, Trickle};
use crate::payments::Reply;
use base64::Engine;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Either, Full, StreamBody};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::time::Duration;

/// The body of an answer: whole in memory, or a stream.
pub type AnswerBody = Either<Full<Bytes>, UnsyncBoxBody<Bytes, io::Error>>;

/// Bytes of a made-up body sent at a time.
const PIECE_BYTES: usize = 16 * 1024;
/// Pieces of a chunked body that is whole in memory: enough to meet a reader that expects one.
const CHUNKS: usize = 3;

/// The header by which a replay is known.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The status that will be sent.
pub fn status_of(plan: &AnswerPlan, reply: Option<&Reply>) -> u16 {
    let unprocessed = if plan.early { 504 } else { 503 };
    plan.status.or(reply.map(|reply| reply.status)).unwrap_or(unprocessed)
}

/// Builds the answer. `seed` and `number` make seeded bodies.
pub fn build(
    plan: &AnswerPlan,
    reply: Option<Reply>,
    trickle: Option<Trickle>,
    seed: u64,
    number: u64,
) -> Response<AnswerBody> {
    let status = StatusCode::from_u16(status_of(plan, reply.as_ref()))
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let is_bodiless = status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    let replayed = reply.as_ref().is_some_and(|reply| reply.replayed);
    let is_busy = reply.as_ref().is_some_and(|reply| reply.status == 409 && plan.status.is_none());
    let (bytes, content_type) = match (&plan.body, reply) {
        _ if is_bodiless => (Vec::new(), None),
        (Some(Body::Text(text)), _) => {
            (text.clone().into_bytes(), Some("text/plain; charset=utf-8"))
        }
        (Some(Body::Base64(text)), _) => {
            // The plan was checked; a body that cannot be decoded does not get here.
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
            (bytes, Some("application/octet-stream"))
        }
        (Some(Body::Seeded(_) | Body::Endless), _) => {
            (Vec::new(), Some("application/octet-stream"))
        }
        (None, Some(reply)) if plan.status.is_none_or(|status| status == reply.status) => {
            (changed(reply.into_body(), plan), Some("application/json"))
        }
        (None, _) => {
            let made_up = json!({ "error": "planned", "status": status.as_u16() });
            (changed(made_up.to_string().into_bytes(), plan), Some("application/json"))
        }
    };
    let mut answer = Response::new(Either::Left(Full::default()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    if is_busy && plan.retry_after.is_none() {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    let planned = [(RETRY_AFTER, &plan.retry_after), (LOCATION, &plan.location)];
    for (name, text) in planned {
        if let Some(value) = text.as_deref().and_then(|text| HeaderValue::from_str(text).ok()) {
            headers.insert(name, value);
        }
    }
    let mut own_type = true;
    for (name, value) in &plan.headers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value))
        {
            if name == CONTENT_TYPE && own_type {
                headers.remove(CONTENT_TYPE);
                own_type = false;
            }
            headers.append(name, value);
        }
    }
    let bytes = if plan.gzip && !is_bodiless {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        gzip(&bytes)
    } else {
        bytes
    };
    // A body that is whole in memory gets its length from hyper; a stream has to be told.
    let length = match &plan.body {
        _ if plan.chunked || is_bodiless => None,
        Some(Body::Seeded(length)) => Some(*length),
        Some(Body::Endless) => None,
        Some(Body::Text(_) | Body::Base64(_)) | None => trickle.map(|_| bytes.len() as u64),
    };
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    *answer.body_mut() = match &plan.body {
        Some(Body::Seeded(length)) if !is_bodiless => made_up(Some(*length), seed, number, trickle),
        Some(Body::Endless) if !is_bodiless => made_up(None, seed, number, trickle),
        Some(Body::Seeded(_) | Body::Endless | Body::Text(_) | Body::Base64(_)) | None => {
            match trickle {
                Some(trickle) => pieces(
                    bytes,
                    usize::try_from(trickle.bytes).unwrap_or(usize::MAX),
                    trickle.every_ms,
                ),
                None if plan.chunked => {
                    let size = bytes.len().div_ceil(CHUNKS).max(1);
                    pieces(bytes, size, 0)
                }
                None => Either::Left(Full::new(Bytes::from(bytes))),
            }
        }
    };
    answer
}

/// Puts the members of `set` over the JSON of an answer.
fn changed(body: Vec<u8>, plan: &AnswerPlan) -> Vec<u8> {
    if plan.set.is_empty() {
        return body;
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(Value::Object(mut members)) => {
            members.extend(plan.set.clone());
            Value::Object(members).to_string().into_bytes()
        }
        Ok(_) | Err(_) => Value::Object(plan.set.clone()).to_string().into_bytes(),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

fn pieces(bytes: Vec<u8>, size: usize, every_ms: u64) -> AnswerBody {
    let whole = Bytes::from(bytes);
    let stream = stream::unfold((whole, true), move |(mut rest, is_first)| async move {
        if rest.is_empty() {
            return None;
        }
        if !is_first && every_ms > 0 {
            tokio::time::sleep(Duration::from_millis(every_ms)).await;
        }
        let piece = rest.split_to(size.min(rest.len()));
        Some((Ok(Frame::data(piece)), (rest, false)))
    });
    Either::Right(StreamBody::new(stream).boxed_unsync())
}

fn made_up(length: Option<u64>, seed: u64, number: u64, trickle: Option<Trickle>) -> AnswerBody {
    let size = trickle.map_or(PIECE_BYTES, |trickle| {
        usize::try_from(trickle.bytes).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)
    });
    let every_ms = trickle.map_or(0, |trickle| trickle.every_ms);
    // Stream zero belongs to the choices of rules; bodies have the last one.
    let dice = Dice::new(seed, u64::MAX, number);
    let stream =
        stream::unfold((length, dice, Vec::new()), move |(left, mut dice, mut spare)| async move {
            let wanted = left.map_or(size, |left| usize::try_from(left).unwrap_or(size).min(size));
            if wanted == 0 {
                return None;
            }
            if every_ms > 0 {
                tokio::time::sleep(Duration::from_millis(every_ms)).await;
            }
            while spare.len() < wanted {
                spare.extend_from_slice(&dice.roll().to_be_bytes());
            }
            let rest = spare.split_off(wanted);
            let left = left.map(|left| left - wanted as u64);
            Some((Ok(Frame::data(Bytes::from(spare))), (left, dice, rest)))
        });
    Either::Right(StreamBody::new(stream).boxed_unsync())
}
