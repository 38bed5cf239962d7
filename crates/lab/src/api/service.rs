//! One request from its head to its answer, faults included.

use super::answer::{self, AnswerBody};
use super::manage;
use super::socket::{Act, Valve};
use super::state::{Deferred, Received, Seen, Shared, now_ms};
use crate::faults::{AnswerPlan, Course, End, Goaway, Trickle, Wire};
use crate::payments::{Arrived, BodyHash, Fate, Fields, Op, Refusal, Reply, Target, fields};
use bytes::Bytes;
use futures_util::future::poll_immediate;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, PROXY_AUTHORIZATION};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, Uri, Version};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// The largest body that is taken. Nothing that pays is larger; tests of large bodies stay below it.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A body must be whole after this time.
const BODY_TIME_MAX: Duration = Duration::from_secs(60);
/// The longest that anything is held without a time of its own: then a forgotten test ends.
const HOLD_TIME_MAX: Duration = Duration::from_secs(3_600);
/// Hex digits of the hash that stands in the log for a credential: enough to tell two apart.
const CREDENTIAL_DIGITS: usize = 16;
/// Room made for a header line at first; most are shorter.
const HEADER_BYTES_USUAL: usize = 48;
/// The stream id that GOAWAY names when it promises nothing.
const STREAM_ID_MAX: u32 = (1 << 31) - 1;

/// The header that carries the key.
const KEY: &str = "idempotency-key";

/// What a service may fail with; hyper turns it into the end of a connection or stream.
pub type Abort = Box<dyn StdError + Send + Sync>;

/// One connection, as its requests see it.
pub struct Connection {
    /// What all connections share.
    pub shared: Arc<Shared>,
    /// Its number since the start of the process.
    pub id: u64,
    /// Requests whose head came in on it, management included.
    pub begun: AtomicU64,
    /// Those of them that are not answered yet.
    pub at_work: AtomicU64,
    /// Requests that came in on it, management aside.
    pub served: AtomicU64,
    /// Decides about its outgoing bytes.
    pub valve: Arc<Valve>,
    /// True on the control address: management only.
    pub is_control: bool,
}

/// Answers one request.
pub async fn serve(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, Abort> {
    connection.begun.fetch_add(1, Ordering::Relaxed);
    connection.at_work.fetch_add(1, Ordering::Relaxed);
    let _at_work = AtWork(&connection.at_work);
    if manage::is_management(&request) {
        return Ok(manage::serve(&connection.shared, request).await);
    }
    if connection.is_control {
        return Ok(plain(404, "not_found", "the control address knows management only"));
    }
    let on_connection = connection.served.fetch_add(1, Ordering::Relaxed) + 1;
    let is_http2 = request.version() == Version::HTTP_2;
    if !is_http2 {
        connection.valve.disarm();
    }
    let (head, body) = request.into_parts();
    let target = Target::of(head.method.as_str(), head.uri.path());
    let mut arrived = Box::new(Arrived {
        request: 0,
        number: 0,
        op: target.op(),
        method: method_of(&head.method),
        path: path_of(&head.uri),
        key: key_of(&head.headers),
        order_id: None,
        body_bytes: 0,
        body_sha256: BodyHash::NONE,
        headers: header_lines(&head.headers),
        connection: connection.id,
        on_connection,
        whole: true,
        rule: None,
        at_ms: 0,
    });
    let mut collecting = pin!(Limited::new(body, BODY_BYTES_MAX).collect());
    // Most bodies came with their heads: they need no timer.
    let collected = match poll_immediate(&mut collecting).await {
        Some(collected) => Ok(collected),
        None => timeout(BODY_TIME_MAX, collecting).await,
    };
    let body = match collected {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Ok(plain(
                413,
                "body_too_large",
                &format!("at most {BODY_BYTES_MAX} bytes are taken"),
            ));
        }
        Ok(Err(error)) => {
            // A full ledger must not hide why the request ended: the caller's error is the one to give.
            (arrived.at_ms, arrived.whole) = (now_ms(), false);
            let _ = connection.shared.receive_torn(arrived);
            return Err(error);
        }
        Err(_) => return Ok(plain(408, "body_too_slow", "the body was not whole in time")),
    };
    let seen = see(target, arrived, &head.headers, &body, is_http2);
    match connection.shared.receive(seen) {
        Ok(received) => act(&connection, received, is_http2, on_connection).await,
        Err(error) => Ok(plain(507, "ledger", &error.to_string())),
    }
}

/// A request is at work until it is answered or given up.
struct AtWork<'a>(&'a AtomicU64);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A small JSON answer that no plan has a say in.
pub fn plain(status: u16, error: &'static str, detail: &str) -> Response<AnswerBody> {
    let reply = Reply::refused(&Refusal::new(status, error, detail));
    answer::build(&AnswerPlan::default(), Some(reply), None, 0, 0)
}

fn see(
    target: Target,
    mut arrived: Box<Arrived>,
    headers: &HeaderMap,
    body: &Bytes,
    is_http2: bool,
) -> Seen {
    arrived.body_bytes = body.len() as u64;
    arrived.body_sha256 = BodyHash::of(body);
    arrived.at_ms = now_ms();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_query = arrived.op == Op::Query;
    let understood = if is_query {
        let order_id = match &target {
            Target::ByReference(order) => Some(order.clone()),
            Target::Pay
            | Target::Payment(..)
            | Target::ByKey(_)
            | Target::ById(_)
            | Target::Unknown => None,
        };
        Ok(Fields { order_id, ..Fields::default() })
    } else if text(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        Err("the body is compressed; send it as it is".to_owned())
    } else {
        fields(text(CONTENT_TYPE), body)
    };
    Seen { target, arrived, fields: understood, is_http2 }
}

/// The method; the usual ones need no memory of their own.
fn method_of(method: &Method) -> Cow<'static, str> {
    match method.as_str() {
        "POST" => Cow::Borrowed("POST"),
        "GET" => Cow::Borrowed("GET"),
        other => Cow::Owned(other.to_owned()),
    }
}

/// Path and query; the usual one needs no memory of its own.
fn path_of(uri: &Uri) -> Cow<'static, str> {
    match uri.path_and_query().map_or(uri.path(), PathAndQuery::as_str) {
        "/payments" => Cow::Borrowed("/payments"),
        other => Cow::Owned(other.to_owned()),
    }
}

/// The key as sent, blanks around it aside. An empty one is none.
fn key_of(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(KEY)?;
    let key = String::from_utf8_lossy(value.as_bytes()).trim().to_owned();
    Some(key).filter(|key| !key.is_empty())
}

fn header_lines(headers: &HeaderMap) -> String {
    let mut lines = String::with_capacity(headers.len() * HEADER_BYTES_USUAL);
    for (name, value) in headers {
        lines.push_str(name.as_str());
        lines.push_str(": ");
        if *name == AUTHORIZATION || *name == PROXY_AUTHORIZATION || *name == COOKIE {
            let hash = BodyHash::of(value.as_bytes()).to_string();
            lines.push_str("sha256:");
            lines.extend(hash.chars().take(CREDENTIAL_DIGITS));
        } else {
            lines.push_str(&String::from_utf8_lossy(value.as_bytes()));
        }
        lines.push('\n');
    }
    lines
}

/// Does with a decided request what its course says.
async fn act(
    connection: &Arc<Connection>,
    received: Received,
    is_http2: bool,
    on_connection: u64,
) -> Result<Response<AnswerBody>, Abort> {
    let Received { course, mut reply, deferred, is_logged, request, number, seed, .. } = received;
    let Course { answer: plan, wire, .. } = course;
    let mut ending = Ending { connection: Arc::clone(connection), request, is_open: !is_logged };
    let release = plan.held.then(|| connection.shared.next_release());
    if let Some(deferred) = deferred {
        // Its own task: a caller who hangs up does not stop what was sent already.
        let processed =
            connection.shared.tasks().spawn(process(Arc::clone(&connection.shared), deferred));
        if !plan.early {
            reply = processed.await?;
        }
    }
    if let Some(late_ms) = plan.late_ms {
        tokio::time::sleep(Duration::from_millis(late_ms)).await;
    }
    if let Some(release) = release {
        wait_for_release(release).await;
    }
    if wire == Wire::Hang {
        tokio::time::sleep(HOLD_TIME_MAX).await;
    }
    let status = answer::status_of(&plan, reply.as_ref());
    let replayed = reply.as_ref().is_some_and(|reply| reply.replayed);
    let fate = if wire.loses_answer() { Fate::Lost } else { Fate::Sent };
    ending.close(status, replayed, fate);
    let built = answer::build(&plan, reply, body_trickle(&wire), seed, number);
    apply(&wire, &connection.valve, is_http2, on_connection)?;
    Ok(built)
}

async fn process(shared: Arc<Shared>, deferred: Box<Deferred>) -> Option<Reply> {
    let due = async {
        match deferred.delay.ms {
            Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            None => wait_for_release(deferred.release.clone()).await,
        }
    };
    shared.stop().run_until_cancelled(due).await?;
    match shared.process(deferred) {
        Ok(reply) => Some(reply),
        Err(error) => Some(Reply::refused(&Refusal::new(507, "ledger", error.to_string()))),
    }
}

async fn wait_for_release(mut release: watch::Receiver<u64>) {
    // Neither the end of the hold time nor that of the lab is told apart: both mean that waiting is over.
    let _ = timeout(HOLD_TIME_MAX, release.changed()).await;
}

fn body_trickle(wire: &Wire) -> Option<Trickle> {
    match wire {
        Wire::SlowBody(trickle) => Some(*trickle),
        Wire::Whole
        | Wire::Close
        | Wire::Reset
        | Wire::Hang
        | Wire::Cut(_)
        | Wire::SlowHead(_)
        | Wire::Raw(_)
        | Wire::KillIdle
        | Wire::RefuseStream
        | Wire::CancelStream
        | Wire::Goaway(_) => None,
    }
}

/// Arms the valve for what is planned. On HTTP/2 a single stream ends by an error of its own.
fn apply(wire: &Wire, valve: &Valve, is_http2: bool, on_connection: u64) -> Result<(), Abort> {
    let act = match wire {
        Wire::Whole | Wire::Hang | Wire::SlowBody(_) => return Ok(()),
        Wire::Close => Act::Cut { left: 0, then: End::Close },
        Wire::Reset | Wire::KillIdle => Act::Cut { left: 0, then: End::Reset },
        Wire::Cut(cut) => Act::Cut { left: cut.after_bytes, then: cut.then },
        Wire::SlowHead(_) if is_http2 => return Ok(()),
        Wire::SlowHead(trickle) => Act::SlowHead { trickle: *trickle, matched: 0 },
        Wire::Raw(raw) => Act::Replace { bytes: raw.text.clone().into_bytes(), then: raw.then },
        Wire::RefuseStream => return Err(h2::Error::from(h2::Reason::REFUSED_STREAM).into()),
        Wire::CancelStream => return Err(h2::Error::from(h2::Reason::CANCEL).into()),
        Wire::Goaway(Goaway::Above) => {
            Act::Replace { bytes: goaway_frame(STREAM_ID_MAX), then: End::Close }
        }
        Wire::Goaway(Goaway::Below) => {
            // Clients number their streams 1, 3, 5 …; the one before the n-th request is 2n - 3.
            let before = on_connection.saturating_mul(2).saturating_sub(3);
            let last =
                if on_connection < 2 { 0 } else { u32::try_from(before).unwrap_or(STREAM_ID_MAX) };
            Act::Replace { bytes: goaway_frame(last), then: End::Close }
        }
    };
    valve.arm(act);
    Ok(())
}

/// A GOAWAY frame (RFC 9113, section 6.8) with NO_ERROR.
fn goaway_frame(last_stream_id: u32) -> Vec<u8> {
    let mut frame = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
    frame.extend_from_slice(&last_stream_id.to_be_bytes());
    frame.extend_from_slice(&0u32.to_be_bytes());
    frame
}

/// Sees to it that every request's end is logged, also when the caller hangs up and hyper drops the handler.
struct Ending {
    connection: Arc<Connection>,
    request: u64,
    is_open: bool,
}

impl Ending {
    fn close(&mut self, status: u16, replayed: bool, fate: Fate) {
        if std::mem::take(&mut self.is_open) {
            // What was to be recorded is recorded; a full disk here costs a line of the log, not an answer.
            let _ = self.connection.shared.log_answered(self.request, status, replayed, fate);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.close(0, false, Fate::CallerGone);
    }
}
