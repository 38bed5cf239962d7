//! The question that is the same request under the same key, to an upstream that deduplicates.
//!
//! A command of such a route is sent from its first time as it can be sent again: with the headers that are
//! stored, those that only tell of the way, and the gateway's own credential. Under another credential, or
//! without a header that says whose account it is, the upstream might know nothing of the key, and what was
//! meant as a question would be a second command.

use super::{is_of_credential, tell_of_credential};
use crate::command::{Pending, may_be_marked, pending};
use crate::config::RouteSettings;
use crate::headers;
use crate::service::Front;
use crate::upstream::Passing;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Version, header};
use http_body_util::{BodyExt, Full};
use samekey::{Finding, Found, Question, header as keys};
use samekey_client::http_counterparty::Credential;
use samekey_core::outcome::Ending;

/// Headers of a caller that tell of the way and of the form of an answer, and nothing of the command.
const OF_THE_WAY: [HeaderName; 13] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_TYPE,
    header::USER_AGENT,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-request-id"),
];

/// How the same request is sent again, and what is read from its answer.
#[derive(Clone, Debug)]
pub(crate) struct SameRequest {
    /// Who the gateway is at its upstream.
    pub(crate) credential: Credential,
    /// Statuses of refusals that the upstream stores under the key and gives to every attempt. Any other
    /// refusal speaks for its own attempt, and an earlier one may have run.
    pub(crate) stored_refusals: Vec<u16>,
}

impl SameRequest {
    /// Leaves what a question can repeat, or what does not matter, and adds the credential; says whether that
    /// was there. Nothing may be sent without it.
    pub(crate) async fn prepare(&self, headers: &mut HeaderMap, route: &RouteSettings) -> bool {
        let semantic = &route.route.policy().semantic_headers;
        let mut kept = HeaderMap::new();
        for (name, value) in &*headers {
            let is_semantic = semantic.iter().any(|known| known == name.as_str());
            if is_semantic || OF_THE_WAY.contains(name) {
                kept.append(name.clone(), value.clone());
            }
        }
        *headers = kept;
        let Some((name, value)) = self.credential.header().await else {
            tracing::error!(
                route = route.route.name(),
                "the credential for the upstream is not to be had, so nothing is sent"
            );
            return false;
        };
        headers.insert(name, value);
        true
    }
}

/// Sends the command's request again.
pub(super) async fn ask(
    same: &SameRequest,
    front: &Front,
    route: &RouteSettings,
    question: Question,
) -> Finding {
    let Some(request) = question.request else { return Finding::CannotTell };
    let (mut head, body) = request.into_parts();
    if !same.prepare(&mut head.headers, route).await {
        return Finding::CannotTell;
    }
    front.identity.mark(&mut head.headers, &question.org);
    head.version = Version::HTTP_11;
    let key = question.outbound_key.to_string();
    headers::for_command(&mut head.headers, Version::HTTP_11, front.upstream.host(), &key);
    let request = Request::from_parts(head, Full::new(body));
    // However it failed: an earlier attempt may have run.
    let Ok(answer) = front.upstream.send(request, route.timeout, None).await else {
        return Finding::CannotTell;
    };
    let mut answer = answer.map(BodyExt::boxed_unsync);
    headers::for_client(&mut answer);
    let (head, body) = answer.into_parts();
    match read(body, route.route.keep().body_bytes_max()).await {
        Some(body) => said(same, route, head, body),
        None => Finding::CannotTell,
    }
}

/// The body of an answer; nothing where it broke off.
async fn read(mut body: Passing, bytes_max: usize) -> Option<Body> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        if bytes.len().saturating_add(data.len()) > bytes_max {
            return Some(Body::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Some(Body::Whole(bytes.freeze()))
}

/// The body of an answer that came.
enum Body {
    Whole(Bytes),
    /// It is not kept, so it was not read on.
    TooLarge,
}

/// What an answer says about the command: a success is one, whether it ran now or before.
fn said(
    same: &SameRequest,
    route: &RouteSettings,
    head: http::response::Parts,
    body: Body,
) -> Finding {
    let status = head.status;
    if is_of_credential(status.as_u16()) {
        tell_of_credential(route.route.name(), status.as_u16());
    }
    let mark = route.in_progress.as_ref();
    let said = match &body {
        Body::Whole(body) => pending(body, &head, mark),
        Body::TooLarge => may_be_marked(mark, status).then_some(Pending::Unclear),
    };
    match said {
        None => {}
        Some(Pending::AtWork) => return Finding::Pending,
        Some(Pending::NotKept { status, location }) => {
            return match StatusCode::from_u16(status) {
                Ok(status) => ended(status, Found::Fact { status, location }),
                Err(_) => Finding::CannotTell,
            };
        }
        Some(Pending::OtherContent) => return Finding::Different,
        Some(Pending::Unclear) => return Finding::CannotTell,
    }
    let replayed = head.headers.get(keys::IDEMPOTENT_REPLAYED);
    let is_stored = replayed.is_some_and(|value| value == "true")
        || same.stored_refusals.contains(&status.as_u16());
    if !status.is_success() && !is_stored {
        return Finding::CannotTell;
    }
    let location = head.headers.get(header::LOCATION).map(HeaderValue::to_str);
    let found = match body {
        Body::Whole(body) => Found::Answer(http::Response::from_parts(head, body)),
        Body::TooLarge => {
            let location = location.and_then(Result::ok).map(str::to_owned);
            Found::Fact { status, location }
        }
    };
    ended(status, found)
}

fn ended(status: StatusCode, found: Found) -> Finding {
    match Ending::of_status(status.as_u16()) {
        Ending::Success => Finding::Executed(found),
        Ending::Refused => Finding::Refused(found),
        Ending::NotNow | Ending::Failed => Finding::CannotTell,
    }
}
