//! Commands with a key: claimed, sent once, settled. The engine of `samekey` decides; here is what the
//! call is, and what its end proves.

use crate::ask::{Asking, is_of_credential, tell_of_credential};
use crate::config::{Mark, OnRepeat, Outbound, RouteSettings};
use crate::headers;
use crate::pace::{Data, Paced};
use crate::refusal::Refusal;
use crate::service::Front;
use crate::upstream::Failed;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Version, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use samekey::{
    BoxError, Call, Caller, External, Outcome, Problem, Reason, Response, header as keys,
};
use samekey_core::fingerprint::json::Canonical;
use samekey_core::key::{Key, Org};
use samekey_store::Ledger;
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a problem document of another samekey may be. Ours have about 700 bytes.
const PROBLEM_BYTES_MAX: usize = 16 * 1024;
/// How every code of ours begins.
const OUR_CODES: &str = "samekey.";
/// The header that tells of the same command under another key, where the settings want it told.
const NOTICE: HeaderName = HeaderName::from_static("samekey-notice");

/// Runs a command of a route.
pub(crate) async fn run<S: Ledger>(
    front: &Arc<Front>,
    route: &RouteSettings,
    external: &External<S>,
    caller: Caller,
    request: Request<Incoming>,
) -> Response {
    // The library has a bound of its own for whole bodies; a client that stands still is let go sooner.
    let request = request.map(|body| Paced::new(body, front.limits.stall_time_max));
    let (front, route) = (Arc::clone(front), route.clone());
    let org = caller.org.clone();
    let call = async move |call: Call| -> Result<Outcome, BoxError> {
        let key = key_of(&call);
        let repeats = match (&key, call.request_sha(), front.on_repeat) {
            (_, _, OnRepeat::Off) | (None, _, _) | (_, None, _) => false,
            (Some(key), Some(sha), OnRepeat::Observe | OnRepeat::Header) => {
                front.repeats.notice(&org, key, &sha, Instant::now())
            }
        };
        if repeats {
            tell_of_repeat(route.route.name());
        }
        let mut outcome = send(&front, &route, &org, call, key.as_ref()).await;
        if let (true, OnRepeat::Header, Ok(answer)) = (repeats, front.on_repeat, &mut outcome) {
            let notice = HeaderValue::from_static("same-command-other-key");
            answer.headers_mut().insert(NOTICE, notice);
        }
        judged(outcome, &route).await
    };
    external.run(&caller, request, call).await
}

fn key_of(call: &Call) -> Option<Key> {
    let lines = call.request().headers().get_all(keys::IDEMPOTENCY_KEY);
    Key::from_header_lines(lines.iter().map(HeaderValue::as_bytes)).ok().flatten()
}

fn tell_of_repeat(route: &str) {
    metrics::counter!("samekey_gateway_repeats_total", "route" => route.to_owned()).increment(1);
    tracing::warn!(
        route,
        "the same command ran a moment ago under another key; if this is one action, its client must keep one key through all attempts"
    );
}

/// An answer whose body is given up when its time is over.
type Answer = http::Response<Until>;

/// Sends the command, once.
async fn send(
    front: &Front,
    route: &RouteSettings,
    org: &Org,
    call: Call,
    key: Option<&Key>,
) -> Result<Answer, Failed> {
    let outbound = outbound_key(route.outbound, &call, key);
    let lease = call.lease();
    let (mut head, body) = call.into_request().into_parts();
    if let Asking::Again(request) = &route.asking {
        if !request.prepare(&mut head.headers, route).await {
            return Err(Failed::NeverReached);
        }
        front.identity.mark(&mut head.headers, org);
    }
    headers::for_command(&mut head.headers, head.version, front.upstream.host(), &outbound);
    head.version = Version::HTTP_11;
    let deadline = Instant::now() + route.timeout;
    let request = Request::from_parts(head, Full::new(body));
    let answer = front.upstream.send(request, route.timeout, lease).await?;
    let kept_bytes_max = route.route.keep().body_bytes_max();
    let mut answer =
        answer.map(|body| Until::new(Data(body).boxed_unsync(), deadline, kept_bytes_max));
    headers::for_client(&mut answer);
    Ok(answer)
}

fn outbound_key(outbound: Outbound, call: &Call, key: Option<&Key>) -> String {
    match (outbound, key) {
        (Outbound::Same, Some(key)) => bare(key),
        (Outbound::Hmac, _) | (Outbound::Same, None) => call.outbound_key().to_string(),
    }
}

/// A key as nearly every API reads it, or as a structured string where it cannot stand alone.
fn bare(key: &Key) -> String {
    let text = key.as_str();
    let alone = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte));
    if alone { text.to_owned() } else { key.to_field() }
}

/// What the end of the call proves.
async fn judged(sent: Result<Answer, Failed>, route: &RouteSettings) -> Result<Outcome, BoxError> {
    let name = route.route.name();
    let failed = match sent {
        // It speaks of the gateway, and a caller would take it for its own.
        Ok(answer) if is_of_us(&answer, route) => {
            tell_of_credential(name, answer.status().as_u16());
            return Ok(Outcome::not_started(Refusal::CredentialRefused.into_response()));
        }
        Ok(answer) if may_be_pending(&answer, route) => {
            return pending_or_final(answer, route.in_progress.as_ref()).await;
        }
        Ok(answer) => return Ok(Outcome::finished(answer)),
        Err(failed) => failed,
    };
    tracing::warn!(route = name, phase = failed.name(), "the upstream gave no answer");
    metrics::counter!("samekey_gateway_upstream_failures_total", "route" => name.to_owned(), "phase" => failed.name())
        .increment(1);
    Ok(match failed {
        Failed::NeverReached | Failed::NoTls | Failed::NotProcessed => {
            Outcome::not_started(Problem::UpstreamUnreached.into_response(None))
        }
        Failed::Slow => Outcome::Unknown(Reason::TimedOut),
        Failed::Broke => Outcome::Unknown(Reason::ConnectionLost),
    })
}

/// Whether the upstream refuses the credential that the gateway has put in place of the caller's.
fn is_of_us(answer: &Answer, route: &RouteSettings) -> bool {
    match &route.asking {
        Asking::Again(_) => is_of_credential(answer.status().as_u16()),
        Asking::Nobody | Asking::Status(_) => false,
    }
}

/// Whether this could say that the key is open at the upstream: by a 409 of another samekey, or by the
/// mark that the route declares.
fn may_be_pending(answer: &Answer, route: &RouteSettings) -> bool {
    (answer.status() == StatusCode::CONFLICT && is_problem(answer.headers()))
        || may_be_marked(route.in_progress.as_ref(), answer.status())
}

/// Whether an answer of this status could have the mark.
pub(crate) fn may_be_marked(mark: Option<&Mark>, status: StatusCode) -> bool {
    mark.is_some_and(|mark| mark.status == status)
}

async fn pending_or_final(answer: Answer, mark: Option<&Mark>) -> Result<Outcome, BoxError> {
    let (head, body) = answer.into_parts();
    let Ok(collected) = Limited::new(body, PROBLEM_BYTES_MAX).collect().await else {
        return Ok(Outcome::Unknown(Reason::ConnectionLost));
    };
    let bytes = collected.to_bytes();
    Ok(match pending(&bytes, &head, mark) {
        Some(Pending::AtWork | Pending::NotKept { .. } | Pending::Unclear) => {
            Outcome::Unknown(Reason::ServerError)
        }
        Some(Pending::OtherContent) | None => {
            Outcome::finished(http::Response::from_parts(head, Full::new(bytes)))
        }
    })
}

/// What an answer says that is none, of the key alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// The upstream is at work on it, or looks it up.
    AtWork,
    /// It ended with this status, and the answer was not kept.
    NotKept { status: u16, location: Option<String> },
    /// The key belongs to other content there.
    OtherContent,
    /// Nobody knows there either.
    Unclear,
}

/// What another samekey says by its codes, or the upstream by the mark that the route declares.
pub(crate) fn pending(
    document: &[u8],
    head: &http::response::Parts,
    mark: Option<&Mark>,
) -> Option<Pending> {
    let said = said(document, head, mark);
    if Canonical::read(document).is_some() {
        return said;
    }
    // What may be the mark and cannot be read is no answer either. Nor is what has a member twice: readers
    // disagree on which one counts.
    (said.is_some() || may_be_marked(mark, head.status)).then_some(Pending::Unclear)
}

fn said(document: &[u8], head: &http::response::Parts, mark: Option<&Mark>) -> Option<Pending> {
    let document: Value = serde_json::from_slice(document).ok()?;
    let is_marked = mark.filter(|mark| mark.status == head.status).is_some_and(|mark| {
        let found = document.pointer(&mark.pointer);
        found.is_some_and(|found| {
            mark.value.as_ref().is_none_or(|value| found.as_str() == Some(value.as_str()))
        })
    });
    if is_marked {
        return Some(Pending::AtWork);
    }
    if !is_problem(&head.headers) {
        return None;
    }
    let code = document.get("code").and_then(Value::as_str)?.strip_prefix(OUR_CODES)?;
    match (head.status.as_u16(), code) {
        (409, "in-progress" | "outcome-pending") => Some(Pending::AtWork),
        (409, "response-not-kept") => {
            let status = document.get("stored_status").and_then(Value::as_u64);
            let location = document.get("stored_location").and_then(Value::as_str);
            Some(Pending::NotKept {
                status: status.and_then(|status| u16::try_from(status).ok()).unwrap_or(0),
                location: location.map(str::to_owned),
            })
        }
        (400 | 422, "key-reused") => Some(Pending::OtherContent),
        (409, _) => Some(Pending::Unclear),
        _ => None,
    }
}

fn is_problem(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/problem+json"))
}

/// An answer's body that has to be here in time, as far as it is kept. What is longer is only passed on,
/// and takes the time that its reader takes.
pub(crate) struct Until {
    body: crate::upstream::Passing,
    timer: Option<Pin<Box<Sleep>>>,
    left: usize,
}

impl Until {
    fn new(body: crate::upstream::Passing, deadline: Instant, kept_bytes_max: usize) -> Until {
        Until { body, timer: Some(Box::pin(sleep_until(deadline))), left: kept_bytes_max }
    }
}

impl Body for Until {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                match self.left.checked_sub(bytes) {
                    Some(left) => self.left = left,
                    None => self.timer = None,
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(other) => Poll::Ready(other),
            Poll::Pending => match &mut self.timer {
                Some(timer) => timer
                    .as_mut()
                    .poll(context)
                    .map(|()| Some(Err(BoxError::from("the upstream's answer took too long")))),
                None => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_key_travels_bare_where_it_can() {
        for (key, expected) in [("a-b_c", "a-b_c"), ("a b", "\"a b\""), ("a,b", "\"a,b\"")] {
            assert_eq!(bare(&Key::new(key).unwrap()), expected);
        }
    }

    #[test]
    fn b56_only_our_codes_are_ours() {
        let problem = "application/problem+json; charset=utf-8";
        let said = |status: u16, kind: &str, document: &str| {
            let answer = http::Response::builder().status(status).header("content-type", kind);
            pending(document.as_bytes(), &answer.body(()).unwrap().into_parts().0, None)
        };
        for (status, document, expected) in [
            (409, r#"{"code":"samekey.in-progress"}"#, Some(Pending::AtWork)),
            (409, r#"{"code":"samekey.outcome-pending"}"#, Some(Pending::AtWork)),
            (409, r#"{"code":"samekey.outcome-unknown"}"#, Some(Pending::Unclear)),
            (422, r#"{"code":"samekey.key-reused"}"#, Some(Pending::OtherContent)),
            (422, r#"{"code":"samekey.in-progress"}"#, None),
            (409, r#"{"code":"card_declined"}"#, None),
            (409, r#"{"status":409}"#, None),
            // Which of the two counts is nobody's to say.
            (
                409,
                r#"{"code":"card_declined","code":"samekey.in-progress"}"#,
                Some(Pending::Unclear),
            ),
            (409, r#"{"code":"card_declined","code":"card_expired"}"#, None),
            (409, "[]", None),
            (409, "", None),
        ] {
            assert_eq!(said(status, problem, document), expected, "{status} {document}");
            assert_eq!(said(status, "application/json", document), None);
        }
        let not_kept =
            r#"{"code":"samekey.response-not-kept","stored_status":201,"stored_location":"/1"}"#;
        let location = Some("/1".to_owned());
        assert_eq!(said(409, problem, not_kept), Some(Pending::NotKept { status: 201, location }));
    }
}
