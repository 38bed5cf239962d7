//! The rules as a layer of tower, around a service that fails as it is told.

use crate::support::{DAY, QUICK};
use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use samekey_client::Kind;
use samekey_client::retrying::layer::{Proves, Retrying, RetryingLayer};
use samekey_client::retrying::{End, RetryingOptions};
use samekey_core::delivery::Reason;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Answers(u16),
    Refuses,
    Breaks,
    Hangs,
    IsNeverReady,
}

/// Acts for the n-th attempt as it is told, and notes the key and the bytes of each.
#[derive(Clone)]
struct Below {
    acts: Arc<Mutex<Vec<Act>>>,
    seen: Arc<Mutex<Vec<(String, Bytes)>>>,
}

impl Service<Request<Full<Bytes>>> for Below {
    type Response = Response<Full<Bytes>>;
    type Error = Act;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Act>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Act>> {
        match self.acts.lock().unwrap().first() {
            Some(Act::IsNeverReady) => Poll::Ready(Err(Act::IsNeverReady)),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let key = request.headers()["idempotency-key"].to_str().unwrap().to_owned();
        let body = request.into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
        self.seen.lock().unwrap().push((key, body));
        let act = self.acts.lock().unwrap().remove(0);
        Box::pin(async move {
            match act {
                Act::Answers(status) => {
                    let answer = Response::builder().status(status);
                    Ok(answer.body(Full::from("{}")).unwrap())
                }
                Act::Hangs => std::future::pending().await,
                Act::Refuses | Act::Breaks | Act::IsNeverReady => Err(act),
            }
        })
    }
}

fn proves(error: &Act) -> Proves {
    if *error == Act::Refuses { Proves::NotSent } else { Proves::Nothing }
}

fn layered(acts: &[Act], key_life: Option<Duration>) -> (Retrying<Below, Act>, Below) {
    let below = Below { acts: Arc::new(Mutex::new(acts.to_vec())), seen: Arc::default() };
    let options = RetryingOptions { limits: QUICK, key_life, ..RetryingOptions::default() };
    let layer = RetryingLayer::new(options).unwrap().errors(proves);
    (layer.layer(below.clone()), below)
}

fn pay() -> Request<Bytes> {
    Request::post("https://pay.test/payments").body(Bytes::from("{\"amount\":1200}")).unwrap()
}

#[tokio::test]
async fn p68_b34_a_layer_keeps_one_key_and_the_same_bytes() {
    let acts = [Act::Refuses, Act::Answers(429), Act::Breaks, Act::Hangs, Act::Answers(201)];
    let (mut client, below) = layered(&acts, DAY);
    let called = client.call(pay()).await.unwrap();
    assert!(matches!(called.end, End::Succeeded(_)), "{called}");
    let seen = below.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 5);
    let alike: BTreeSet<_> = seen.into_iter().collect();
    assert_eq!(alike.len(), 1, "{alike:?}");
    // Another call has another key.
    let before = called.key;
    below.acts.lock().unwrap().push(Act::Answers(201));
    assert_ne!(client.call(pay()).await.unwrap().key, before);
}

#[tokio::test]
async fn p68_b07_a_layer_sends_nothing_again_that_may_have_run() {
    for (act, reason) in [
        (Act::Breaks, Reason::ConnectionLost),
        (Act::Hangs, Reason::TimedOut),
        (Act::Answers(500), Reason::ServerError),
    ] {
        let (mut client, below) = layered(&[act, Act::Answers(201)], None);
        let called = client.call(pay()).await.unwrap();
        assert_eq!(called.end, End::Unknown(reason), "{act:?}: {called}");
        assert_eq!(below.seen.lock().unwrap().len(), 1, "{act:?}");
    }
    let (mut client, below) = layered(&[Act::IsNeverReady], None);
    let called = client.call(pay()).await.unwrap();
    assert_eq!(called.end, End::Failed(Reason::AttemptsUsedUp), "{called}");
    assert!(below.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn b23_a_layer_refuses_what_is_no_key() {
    let (mut client, below) = layered(&[Act::Answers(201)], None);
    let mut request = pay();
    request.headers_mut().insert("idempotency-key", "a,b".parse().unwrap());
    assert_eq!(client.call(request).await.unwrap_err().kind(), Kind::Request);
    assert!(below.seen.lock().unwrap().is_empty());
    let mut request = pay();
    request.headers_mut().insert("idempotency-key", "\"mine\"".parse().unwrap());
    assert_eq!(client.call(request).await.unwrap().key.as_str(), "mine");
}
