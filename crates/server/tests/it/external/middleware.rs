//! Keys in front of a handler that knows nothing of them.

use super::home::Home;
use super::on_every_store;
use super::world::{Reply, SHORT, World, opaque, read};
use axum::Router;
use axum::routing::{get, post};
use http_body_util::BodyExt;
use samekey::{Caller, Protect};
use samekey_core::key::Org;
use samekey_core::policy::{Choices, Rerun};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tower::ServiceExt;

on_every_store!(
    a_handler_behind_the_layer_runs_once_a_key,
    a_failure_is_unknown_and_a_person_decides,
    with_rerun_safe_it_runs_again,
    t87_whoever_is_not_known_gets_nothing,
);

struct Site {
    router: Router,
    runs: Arc<AtomicU64>,
    fails: Arc<AtomicU64>,
}

fn site<H: Home>(world: &World<H>) -> Site {
    let (runs, fails) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, failing) = (Arc::clone(&runs), Arc::clone(&fails));
    let identify = |head: &http::request::Parts| match head.headers.get("x-who") {
        Some(who) => Ok(Caller::of(Org::new(who.to_str().unwrap()).unwrap())),
        None => {
            let mut answer =
                samekey::json(http::StatusCode::UNAUTHORIZED, &"who are you?").unwrap();
            answer.headers_mut().insert("www-authenticate", "Bearer".parse().unwrap());
            Err(answer.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
        }
    };
    let handler = move || async move {
        let run = counted.fetch_add(1, Ordering::SeqCst);
        let fails = failing.load(Ordering::SeqCst);
        if run < fails {
            return (http::StatusCode::INTERNAL_SERVER_ERROR, "failed".to_owned());
        }
        (http::StatusCode::CREATED, format!("run {run}"))
    };
    let router = Router::new()
        .route("/things", post(handler))
        .route("/read", get(|| async { "read" }))
        .layer(Protect::new(world.external.clone(), identify));
    Site { router, runs, fails }
}

impl Site {
    async fn send(&self, method: &str, path: &str, key: &str, who: Option<&str>) -> Reply {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(who) = who {
            request = request.header("x-who", who);
        }
        let request =
            request.header("idempotency-key", key).body(axum::body::Body::from("{}")).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        read(answer.map(|body| body.map_err(Into::into).boxed_unsync())).await
    }

    async fn post(&self, key: &str) -> Reply {
        self.send("POST", "/things", key, Some("alpha")).await
    }
}

async fn a_handler_behind_the_layer_runs_once_a_key<H: Home>() {
    let world = World::<H>::new(opaque()).await;
    let site = site(&world);
    let first = site.post("k").await;
    assert_eq!((first.status, &first.body[..]), (201, &b"run 0"[..]));
    let again = site.post("k").await;
    assert_eq!((again.status, again.is_replay(), again.body), (201, true, first.body));
    assert_eq!(&site.post("other").await.body[..], b"run 1");
    let beta = site.send("POST", "/things", "k", Some("beta")).await;
    assert_eq!(&beta.body[..], b"run 2");
    // A read passes through, with or without a key.
    let read = site.send("GET", "/read", "k", None).await;
    assert_eq!((read.status, &read.body[..]), (200, &b"read"[..]));
    assert_eq!(site.runs.load(Ordering::SeqCst), 3);
}

async fn a_failure_is_unknown_and_a_person_decides<H: Home>() {
    let world = World::<H>::new(opaque()).await;
    let site = site(&world);
    site.fails.store(1, Ordering::SeqCst);
    let first = site.post("k").await;
    assert_eq!((first.status, &first.body[..]), (500, &b"failed"[..]));
    assert_eq!(site.post("k").await.told(), (409, "samekey.outcome-unknown".into()));
    assert_eq!(site.runs.load(Ordering::SeqCst), 1);
}

async fn with_rerun_safe_it_runs_again<H: Home>() {
    let world = World::<H>::new(Choices { rerun: Rerun::Safe, lease: SHORT, ..opaque() }).await;
    let site = site(&world);
    site.fails.store(1, Ordering::SeqCst);
    assert_eq!(site.post("k").await.status, 500);
    let second = site.post("k").await;
    assert_eq!((second.status, &second.body[..]), (201, &b"run 1"[..]));
    assert!(site.post("k").await.is_replay());
}

async fn t87_whoever_is_not_known_gets_nothing<H: Home>() {
    let world = World::<H>::new(opaque()).await;
    let site = site(&world);
    site.post("k").await;
    let refused = site.send("POST", "/things", "k", None).await;
    assert_eq!(refused.status, 401);
    assert!(!String::from_utf8_lossy(&refused.body).contains("run"));
    assert_eq!(site.runs.load(Ordering::SeqCst), 1);
}
