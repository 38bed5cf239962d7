//! One exchange over HTTP/1.1.

use super::connect::Stream;
use super::{
    ANSWER_HEAD_BYTES_MAX, Exchange, Incoming, IncomingBody, NotSent, Outgoing, Phase, by,
};
use crate::address::Base;
use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use samekey_core::delivery::Reason;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

pub(super) async fn exchange(
    stream: Box<dyn Stream>,
    base: &Base,
    outgoing: Outgoing,
    ends: Instant,
) -> Exchange {
    let not_sent = Exchange::NotSent(Phase::Connect, NotSent::NotConnected);
    // Made before anything is sent, so that what cannot be made was not sent.
    let Some(request) = request(base, outgoing) else { return not_sent };
    let wrote = Arc::new(AtomicBool::new(false));
    let stream = Watched { stream, wrote: Arc::clone(&wrote) };
    // The handshake of HTTP/1 sends nothing.
    let builder = http1::Builder::new().max_buf_size(ANSWER_HEAD_BYTES_MAX).to_owned();
    let Ok((sender, connection)) = builder.handshake(TokioIo::new(stream)).await else {
        return not_sent;
    };
    let (mut connection, mut heard) = (pin!(connection), pin!(hear(sender, request, ends)));
    let heard = tokio::select! {
        biased;
        heard = &mut heard => heard,
        // The other side has ended it; what it had said before is still to be read.
        _ = &mut connection => heard.await,
    };
    if matches!(heard, Exchange::Lost(_)) && !wrote.load(Ordering::SeqCst) {
        return not_sent;
    }
    heard
}

fn request(base: &Base, outgoing: Outgoing) -> Option<Request<Full<Bytes>>> {
    let Outgoing { method, target, headers, body } = outgoing;
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = target.into();
    *request.headers_mut() = headers;
    let host = HeaderValue::from_str(base.authority().as_str()).ok()?;
    request.headers_mut().insert(header::HOST, host);
    request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    Some(request)
}

async fn hear(
    mut sender: SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
    ends: Instant,
) -> Exchange {
    let answer = match by(ends, sender.send_request(request)).await {
        None => return Exchange::Lost(Reason::TimedOut),
        Some(Err(error)) => return Exchange::Lost(why(&error)),
        Some(Ok(answer)) => answer,
    };
    let (head, body) = answer.into_parts();
    let body = by(ends, IncomingBody::read(body)).await.unwrap_or(IncomingBody::Lost);
    Exchange::Answered(Incoming { status: head.status.as_u16(), headers: head.headers, body })
}

/// What cannot be read as an answer is an answer that cannot be understood; the rest is a lost connection.
fn why(error: &hyper::Error) -> Reason {
    if error.is_parse() { Reason::AnswerUnclear } else { Reason::ConnectionLost }
}

/// Notes whether a byte of the request was handed on. Over TLS that is before it is on the wire: then it is
/// taken for sent although it may not have been.
struct Watched {
    stream: Box<dyn Stream>,
    wrote: Arc<AtomicBool>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        // A write that failed may have failed half-way.
        if written.is_ready() && !bytes.is_empty() {
            self.wrote.store(true, Ordering::SeqCst);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
