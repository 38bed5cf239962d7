//! One request over HTTP/1.1.

use super::carried::Sending;
use super::connect::Stream;
use super::{ANSWER_HEAD_BYTES_MAX, Failed};
use bytes::Bytes;
use http::Request;
use http_body::Body;
use hyper::client::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use samekey::BoxError;

/// Begins to send it. Opening HTTP/1.1 sends nothing.
pub(super) async fn begin<B>(
    stream: Box<dyn Stream>,
    request: Request<B>,
) -> Result<Sending, Failed>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut builder = Builder::new();
    builder.max_buf_size(ANSWER_HEAD_BYTES_MAX);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|_| Failed::NeverReached)?;
    let carrier = async move {
        let _ = connection.await;
    };
    let answer = async move {
        sender.try_send_request(request).await.map_err(|mut error| match error.take_message() {
            // No byte of it was written, or it would not come back.
            Some(_) => Failed::NeverReached,
            None => Failed::Broke,
        })
    };
    Ok(Sending::new(Box::pin(carrier), Box::pin(answer)))
}
