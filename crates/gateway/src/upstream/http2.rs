//! One request over HTTP/2, on a connection that carries nothing else.
//!
//! The library wants to hand parts of its work to an executor. Here that is the call itself: what is not
//! polled by whoever waits for the answer does not move, and ends with it.

use super::carried::Sending;
use super::connect::Stream;
use super::{ANSWER_HEAD_BYTES_MAX, Failed};
use bytes::Bytes;
use h2::Reason;
use http::{Request, Version, header};
use http_body::Body;
use hyper::client::conn::http2::Builder;
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use samekey::BoxError;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use tokio::time::{Instant, timeout_at};
use tokio_util::io::InspectReader;

/// As much of an answer, or of a request, waits here for a side that is slower than the other. A connection
/// carries one of each.
const WAITING_BYTES_MAX: u32 = 256 * 1024;
/// The kind of the frame with which a server greets (RFC 9113, sections 3.4 and 6.5).
const SETTINGS: u8 = 4;
/// Where the kind stands in a frame.
const KIND_AT: usize = 3;

/// Begins to send it, once the upstream has greeted in HTTP/2. Until then it has not seen a byte of it, and
/// what fails so far was never reached: a service that speaks something else, too, or one that turns the
/// connection away.
pub(super) async fn begin<B>(
    stream: Box<dyn Stream>,
    mut request: Request<B>,
    by: Instant,
) -> Result<Sending, Failed>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    *request.version_mut() = Version::HTTP_2;
    // `:authority` says it.
    request.headers_mut().remove(header::HOST);
    let work = Work::default();
    let greeted = Arc::new(AtomicBool::new(false));
    let stream = InspectReader::new(stream, greeting(Arc::clone(&greeted)));
    let mut builder = Builder::new(work.executor());
    builder
        .max_header_list_size(u32::try_from(ANSWER_HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .initial_stream_window_size(WAITING_BYTES_MAX)
        .initial_connection_window_size(WAITING_BYTES_MAX)
        .max_send_buf_size(usize::try_from(WAITING_BYTES_MAX).unwrap_or(usize::MAX));
    let opening = timeout_at(by, builder.handshake(TokioIo::new(stream))).await;
    let (mut sender, connection) =
        opening.map_err(|_| Failed::NeverReached)?.map_err(|_| Failed::NeverReached)?;
    work.executor().execute(async move {
        let _ = connection.await;
    });
    let mut carrier = Box::pin(work);
    let heard = poll_fn(|context| {
        let ended = carrier.as_mut().poll(context).is_ready();
        if ended || greeted.load(Ordering::SeqCst) {
            return Poll::Ready(!ended);
        }
        Poll::Pending
    });
    match timeout_at(by, heard).await {
        Ok(true) => {}
        Ok(false) | Err(_) => return Err(Failed::NeverReached),
    }
    let answer = async move {
        sender.try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(_) => Failed::NeverReached,
            None if is_not_processed(error.error()) => Failed::NotProcessed,
            None => Failed::Broke,
        })
    };
    Ok(Sending::new(carrier, Box::pin(answer)))
}

/// Notes that the other side has greeted, by the bytes that come.
fn greeting(greeted: Arc<AtomicBool>) -> impl FnMut(&[u8]) {
    // In how many bytes the kind of the first frame comes; nothing once it came.
    let mut kind_in = Some(KIND_AT);
    move |came| {
        let Some(at) = kind_in else { return };
        kind_in = match came.get(at) {
            // Another kind is no greeting: the library ends the connection for it.
            Some(kind) => {
                greeted.store(*kind == SETTINGS, Ordering::SeqCst);
                None
            }
            None => Some(at - came.len()),
        };
    }
}

/// Whether the error of a stream says that the server processed nothing of it (RFC 9113, section 8.7). A
/// stream gets the error of a GOAWAY only where its number is above the last one that was processed.
fn is_not_processed(error: &hyper::Error) -> bool {
    let Some(error) = error.source().and_then(|source| source.downcast_ref::<h2::Error>()) else {
        return false;
    };
    let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (refused || error.is_go_away())
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
type Queue = Mutex<Vec<Task>>;

/// Everything that a connection has to do. It is a future that ends when nothing is left.
#[derive(Default)]
struct Work {
    new: Arc<Queue>,
    tasks: Vec<Task>,
}

/// Where the library puts what is to be done. It knows the work, and does not keep it: the tasks have it,
/// and would keep themselves.
#[derive(Clone)]
struct InCall(Weak<Queue>);

impl Work {
    fn executor(&self) -> InCall {
        InCall(Arc::downgrade(&self.new))
    }

    fn take_new(&mut self) -> bool {
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        let came = !new.is_empty();
        self.tasks.append(&mut new);
        came
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for InCall {
    fn execute(&self, task: F) {
        if let Some(queue) = self.0.upgrade() {
            queue.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(task));
        }
    }
}

impl Future for Work {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.take_new();
        loop {
            self.tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
            if !self.take_new() {
                break;
            }
        }
        if self.tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}
