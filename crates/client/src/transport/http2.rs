//! One exchange over HTTP/2.
//!
//! It is spoken with `h2` itself, whose errors tell the two cases apart in which a server says that it
//! processed nothing: a stream that was refused, and a stream above the last one of a GOAWAY.

use super::connect::Stream;
use super::{
    ANSWER_BYTES_MAX, ANSWER_HEAD_BYTES_MAX, Exchange, Incoming, IncomingBody, NotSent, Outgoing,
    Phase, by,
};
use crate::address::{Base, Scheme};
use bytes::{Bytes, BytesMut};
use h2::client::{Builder, SendRequest};
use h2::{Reason as Code, RecvStream};
use http::{Request, Uri, Version};
use samekey_core::delivery::Reason;
use std::pin::pin;
use tokio::time::Instant;

pub(super) async fn exchange(
    stream: Box<dyn Stream>,
    base: &Base,
    outgoing: Outgoing,
    connected_by: Instant,
    ends: Instant,
) -> Exchange {
    let not_sent = |why| Exchange::NotSent(Phase::Handshake, why);
    let Some((request, body)) = request(base, outgoing) else {
        return not_sent(NotSent::NotConnected);
    };
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .max_header_list_size(u32::try_from(ANSWER_HEAD_BYTES_MAX).unwrap_or(u32::MAX));
    let (sender, connection) = match by(connected_by, builder.handshake(stream)).await {
        None => return not_sent(NotSent::ConnectTimedOut),
        Some(Err(_)) => return not_sent(NotSent::NotConnected),
        Some(Ok(pair)) => pair,
    };
    let (mut connection, mut heard) = (pin!(connection), pin!(hear(sender, request, body, ends)));
    tokio::select! {
        biased;
        heard = &mut heard => heard,
        _ = &mut connection => heard.await,
    }
}

fn request(base: &Base, outgoing: Outgoing) -> Option<(Request<()>, Bytes)> {
    let Outgoing { method, target, headers, body } = outgoing;
    let scheme = match base.scheme() {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(base.authority().clone())
        .path_and_query(target)
        .build()
        .ok()?;
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = headers;
    let length = http::HeaderValue::from(body.len());
    if !body.is_empty() {
        request.headers_mut().insert(http::header::CONTENT_LENGTH, length);
    }
    Some((request, body))
}

async fn hear(
    mut sender: SendRequest<Bytes>,
    request: Request<()>,
    body: Bytes,
    ends: Instant,
) -> Exchange {
    let sent = sender.send_request(request, body.is_empty());
    let Ok((answer, mut stream)) = sent else {
        // It was not taken, so nothing of it can have been sent.
        return Exchange::NotSent(Phase::Handshake, NotSent::NotConnected);
    };
    // It waits in memory for the window of the other side, and is sent as the connection is driven.
    if !body.is_empty()
        && let Err(error) = stream.send_data(body, true)
    {
        return lost(&error);
    }
    let answer = match by(ends, answer).await {
        None => return Exchange::Lost(Reason::TimedOut),
        Some(Err(error)) => return lost(&error),
        Some(Ok(answer)) => answer,
    };
    let (head, body) = answer.into_parts();
    let body = by(ends, read(body)).await.unwrap_or(IncomingBody::Lost);
    Exchange::Answered(Incoming { status: head.status.as_u16(), headers: head.headers, body })
}

fn lost(error: &h2::Error) -> Exchange {
    if is_not_processed(error) {
        return Exchange::NotProcessed;
    }
    Exchange::Lost(Reason::ConnectionLost)
}

/// Whether the error of a stream says that the server processed nothing of it (RFC 9113, section 8.7). A
/// stream gets the error of a GOAWAY only where its number is above the last one that was processed.
pub(crate) fn is_not_processed(error: &h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(Code::REFUSED_STREAM);
    error.is_remote() && (refused || error.is_go_away())
}

async fn read(mut body: RecvStream) -> IncomingBody {
    let mut bytes = BytesMut::new();
    while let Some(data) = body.data().await {
        let Ok(data) = data else { return IncomingBody::Lost };
        if bytes.len().saturating_add(data.len()) > ANSWER_BYTES_MAX {
            return IncomingBody::TooLarge;
        }
        bytes.extend_from_slice(&data);
        if body.flow_control().release_capacity(data.len()).is_err() {
            return IncomingBody::Lost;
        }
    }
    IncomingBody::Whole(bytes.freeze())
}
