//! Requests that are no keyed commands: they stream through, in constant memory, once.

use crate::headers;
use crate::pace::{Data, Paced};
use crate::refusal::Refusal;
use crate::service::Front;
use crate::upstream::Failed;
use http::{Method, Request, Response as HttpResponse};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use samekey::{BoxError, Problem, Response};

/// What sending a request a second time may do.
enum Nature {
    /// Nothing (RFC 9110, section 9.2.1).
    Reads,
    /// The same as the first time, by the method's own promise.
    Idempotent,
    /// Another effect.
    Command,
}

fn nature(method: &Method) -> Nature {
    match *method {
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE => Nature::Reads,
        Method::PUT | Method::DELETE => Nature::Idempotent,
        _ => Nature::Command,
    }
}

/// Passes a request on and its answer back.
pub(crate) async fn pass(front: &Front, request: Request<Incoming>, route: &str) -> Response {
    let nature = nature(request.method());
    let version = request.version();
    let (mut head, body) = request.into_parts();
    head.version = http::Version::HTTP_11;
    headers::for_upstream(&mut head.headers, version);
    head.headers.insert(http::header::HOST, front.upstream.host());
    let body = Paced::new(body, front.limits.stall_time_max);
    let answer_time_max = front.limits.answer_time_max;
    let answered = match nature {
        Nature::Reads => {
            let request = Request::from_parts(head, body.boxed_unsync());
            front.upstream.read(request, answer_time_max).await.map(boxed)
        }
        Nature::Idempotent | Nature::Command => {
            let request = Request::from_parts(head, body);
            front.upstream.send(request, answer_time_max, None).await.map(boxed)
        }
    };
    let failed = match answered {
        Ok(mut answer) => {
            headers::for_client(&mut answer);
            return answer;
        }
        Err(failed) => failed,
    };
    tracing::warn!(route, phase = failed.name(), "the upstream gave no answer");
    metrics::counter!("samekey_gateway_upstream_failures_total", "route" => route.to_owned(), "phase" => failed.name())
        .increment(1);
    let refusal = match (failed, nature) {
        (Failed::NeverReached | Failed::NoTls | Failed::NotProcessed, _) => {
            return Problem::UpstreamUnreached.into_response(None);
        }
        // It may have run, and without a key nobody can ask again.
        (Failed::Slow | Failed::Broke, Nature::Command) => {
            return Problem::OutcomeUnknown.into_response(None);
        }
        (Failed::Slow, Nature::Reads | Nature::Idempotent) => Refusal::UpstreamSlow,
        (Failed::Broke, Nature::Reads | Nature::Idempotent) => Refusal::UpstreamBroke,
    };
    refusal.into_response()
}

fn boxed<B>(answer: HttpResponse<B>) -> Response
where
    B: Body<Data = bytes::Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    answer.map(|body| Data(body).map_err(Into::into).boxed_unsync())
}
