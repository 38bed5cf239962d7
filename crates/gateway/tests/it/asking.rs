//! Questions: an upstream that lost an answer is asked what became of the command.

use crate::backend::{Backend, Reply, Seen, answer};
use crate::client::{Answer, Ask};
use crate::world::{Kind, World, on_both};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a question may take to bring a key to its end, with two pauses between questions.
const PATIENCE: Duration = Duration::from_secs(30);
const JSON: &str = "Content-Type: application/json";
const BODY: &str = r#"{"order_id":"A-1","amount":1200}"#;
const FOUND: &str = r#"{"payment":{"id":"P/1","amount":1200.00,"order_id":"A-1"},"status":"paid"}"#;

/// How every route here begins. `{FILE}` is where its credential lies.
const ROUTE: &str = r#"
[[token]]
sha256 = "f55ff16f66f43360266b95db6f8fec01d76031054306ae4a4b380598f6cfd114"
org = "alpha"

[[route]]
name = "payments"
path = "/shops/{shop}/payments"
credential = { file = "{FILE}" }
timeout_ms = 400
lease_ms = 900
run_max_ms = 1000
"#;

/// A route whose upstream is asked at a status URL.
const ANSWERS: &str = r#"
counterparty = "answers"

[route.ask]
by_key = "/shops/{shop}/by-key/{key}"
not_found = { pointer = "/error", value = "nothing" }
{MORE}

[route.answer]
status = "/status"
succeeded = ["paid"]
refused = ["declined"]
pending = ["working"]
amount = { ours = "/amount", theirs = "/payment/amount" }
reference = { ours = "/order_id", theirs = "/payment/order_id" }
"#;

const RECOVERED: &str = r#"
[route.recovered]
status = 201
refused_status = 402
body = "/payment"
location = "/payments/{/payment/id}"
"#;

/// A world with a credential in a file, which goes with it.
struct Asked {
    world: World,
    _file: tempfile::NamedTempFile,
}

impl Asked {
    async fn new(kind: Kind, backend: Backend, settings: &str, more: &str) -> Asked {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "OURS").unwrap();
        let settings =
            format!("{ROUTE}{settings}").replace("{FILE}", &file.path().display().to_string());
        let world = World::with(kind, backend, &settings.replace("{MORE}", more)).await;
        Asked { world, _file: file }
    }

    async fn pay(&self) -> Answer {
        let ask = Ask::post("/shops/s%201/payments", "k", BODY)
            .header("Authorization: Bearer a1")
            .header("Cookie: theirs=1")
            .header("X-Account: acct-7");
        self.world.send(&ask).await
    }

    /// Sends again until something else than "pending" comes.
    async fn until_it_ends(&self) -> Answer {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.pay().await;
            let is_open = answer.status == 409
                && ["samekey.in-progress", "samekey.outcome-pending"]
                    .contains(&answer.code().as_str());
            if !is_open {
                return answer;
            }
            assert!(answer.one("retry-after").is_some(), "{answer:?}");
            assert_eq!(answer.one("stripe-should-retry"), Some("true"));
            assert!(Instant::now() < until, "it is open for ever");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn payments(&self) -> Vec<Seen> {
        let mut seen = self.world.backend.seen();
        seen.retain(|seen| seen.method == "POST");
        seen
    }

    fn questions(&self) -> Vec<Seen> {
        let mut seen = self.world.backend.seen();
        seen.retain(|seen| seen.method == "GET");
        seen
    }
}

/// Loses the answer of every payment, and tells this when it is asked.
async fn losing(told: impl Fn(usize) -> (&'static str, String) + Send + Sync + 'static) -> Backend {
    let asked = AtomicUsize::new(0);
    Backend::playing(move |seen, _| {
        if seen.method == "POST" {
            return Reply::Last(Vec::new());
        }
        let (status, body) = told(asked.fetch_add(1, Ordering::SeqCst) + 1);
        Reply::Bytes(answer(status, &[JSON], body.as_bytes()))
    })
    .await
}

async fn t61_a_lost_answer_is_found_at_the_status_url(kind: Kind) {
    let backend = losing(|_| ("200 OK", FOUND.to_owned())).await;
    let settings = format!("{ANSWERS}{RECOVERED}");
    let asked = Asked::new(kind, backend, &settings, "").await;
    let first = asked.pay().await;
    assert_eq!((first.status, first.code().as_str()), (409, "samekey.outcome-pending"));
    assert_eq!(first.one("retry-after"), Some("1"));
    let found = asked.until_it_ends().await;
    assert_eq!((found.status, found.is_replay()), (201, true));
    assert_eq!(found.text(), r#"{"id":"P/1","amount":1200.00,"order_id":"A-1"}"#);
    assert_eq!(found.one("location"), Some("/payments/P%2F1"));
    assert_eq!(found.one("content-type"), Some("application/json"));
    assert_eq!(asked.pay().await.kept(), found.kept());
    let (payments, questions) = (asked.payments(), asked.questions());
    assert_eq!((payments.len(), questions.len()), (1, 1));
    // The question names the key and the shop, and carries nothing of the caller's.
    let key = payments[0].one("idempotency-key").unwrap();
    assert_eq!(questions[0].target, format!("/shops/s%201/by-key/{key}"));
    assert_eq!(questions[0].one("authorization"), Some("Bearer OURS"));
    assert_eq!(questions[0].one("x-org"), Some("alpha"));
    assert_eq!((questions[0].one("cookie"), questions[0].one("idempotency-key")), (None, None));
    // A command of such a route goes as it came.
    assert_eq!(payments[0].one("authorization"), Some("Bearer a1"));
    assert_eq!(payments[0].one("x-account"), Some("acct-7"));
}

async fn t64_what_is_asked_ends_as_it_was_found(kind: Kind) {
    let other = FOUND.replace("1200.00", "1201");
    let refused = FOUND.replace("paid", "declined");
    for (told, recovered, status, code) in [
        (FOUND.to_owned(), "", 409, "samekey.response-not-kept"),
        (refused.clone(), RECOVERED, 402, ""),
        (refused, "", 409, "samekey.response-not-kept"),
        (other, RECOVERED, 409, "samekey.outcome-unknown"),
        (r#"{"error":"nothing"}"#.to_owned(), RECOVERED, 409, "samekey.outcome-unknown"),
    ] {
        let line = if told.contains("nothing") { "404 Not Found" } else { "200 OK" };
        let body = told.clone();
        // Its 500 is no answer either, and the next request runs nothing.
        let backend = Backend::playing(move |seen, _| {
            if seen.method == "POST" {
                return Reply::Bytes(answer("500 Oops", &[], b"oops"));
            }
            Reply::Bytes(answer(line, &[JSON], body.as_bytes()))
        });
        let settings = format!("{ANSWERS}{recovered}");
        let asked = Asked::new(kind, backend.await, &settings, "").await;
        let first = asked.pay().await;
        assert_eq!((first.status, first.one("stripe-should-retry")), (500, Some("true")));
        let ended = asked.until_it_ends().await;
        assert_eq!((ended.status, ended.code().as_str()), (status, code), "{told}");
        if code.ends_with("not-kept") {
            let stored = if told.contains("declined") { 422 } else { 200 };
            assert!(ended.text().contains(&format!("\"stored_status\":{stored}")));
        }
        assert_eq!(asked.payments().len(), 1);
    }
}

async fn t63_not_found_is_proof_after_its_time_and_twice(kind: Kind) {
    let began: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let asked_at = Arc::clone(&began);
    let payments = AtomicUsize::new(0);
    let backend = Backend::playing(move |seen, _| {
        if seen.method == "GET" {
            asked_at.lock().unwrap().push(Instant::now());
            return Reply::Bytes(answer("404 Not Found", &[JSON], br#"{"error":"nothing"}"#));
        }
        match payments.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::Last(Vec::new()),
            _ => Reply::Bytes(answer("201 Created", &[JSON], b"{}")),
        }
    });
    let backend = backend.await;
    let settings = format!("{ANSWERS}{RECOVERED}");
    let asked = Asked::new(kind, backend, &settings, "not_found_after_s = 2").await;
    let first = Instant::now();
    assert_eq!(asked.pay().await.code(), "samekey.outcome-pending");
    let ended = asked.until_it_ends().await;
    assert_eq!((ended.status, ended.is_replay()), (201, false), "it ran anew");
    let keys: Vec<_> =
        asked.payments().iter().map(|it| it.all("idempotency-key").concat()).collect();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]), "one action has one key there");
    let times = began.lock().unwrap().clone();
    let late = times.iter().filter(|at| **at - first >= Duration::from_secs(2)).count();
    assert!(late >= 2, "of {} questions {late} count", times.len());
}

async fn a_404_of_somebody_on_the_way_is_no_not_found(kind: Kind) {
    let backend = losing(|number| match number {
        1 => ("404 Not Found", "<html>".to_owned()),
        2 => ("200 OK", FOUND.replace("paid", "working")),
        _ => ("200 OK", FOUND.to_owned()),
    })
    .await;
    let settings = format!("{ANSWERS}{RECOVERED}");
    let asked = Asked::new(kind, backend, &settings, "").await;
    asked.pay().await;
    let ended = asked.until_it_ends().await;
    assert_eq!((ended.status, ended.is_replay()), (201, true));
    assert_eq!((asked.payments().len(), asked.questions().len()), (1, 3));
}

/// A route whose upstream deduplicates.
const DEDUPS: &str = r#"
counterparty = "dedups"
key_life_s = 86400
semantic_headers = ["X-Account"]
in_progress = { status = 409, pointer = "/error", value = "busy" }
stored_refusals = [402]
"#;

/// Status, a header, and a body, for each question; the last one again and again.
type Told = &'static [(&'static str, &'static str, &'static str)];

/// Loses the first answer, and gives these to the questions.
async fn again(told: Told) -> Backend {
    Backend::playing(move |_, number| match number.checked_sub(2) {
        None => Reply::Last(Vec::new()),
        Some(place) => {
            let (status, header, body) = told[place.min(told.len() - 1)];
            let kind = if header.starts_with("Content-Type") { "X-Kind: problem" } else { JSON };
            Reply::Bytes(answer(status, &[kind, header], body.as_bytes()))
        }
    })
    .await
}

const PAID: (&str, &str, &str) = ("201 Created", "Location: /p/1", r#"{"id":"P-1"}"#);

async fn s13_b34_the_question_to_one_that_deduplicates_is_the_same_request(kind: Kind) {
    const BUSY: (&str, &str, &str) = ("409 Conflict", "X: 1", r#"{"error":"busy"}"#);
    let backend = again(const { &[BUSY, PAID] }).await;
    let asked = Asked::new(kind, backend, DEDUPS, "").await;
    let first = asked.pay().await;
    assert_eq!((first.status, first.code().as_str()), (409, "samekey.outcome-pending"));
    let found = asked.until_it_ends().await;
    assert_eq!((found.status, found.is_replay()), (201, true));
    assert_eq!((found.text().as_str(), found.one("location")), (PAID.2, Some("/p/1")));
    let sent = asked.payments();
    assert_eq!(sent.len(), 3);
    for seen in &sent {
        assert_eq!((seen.target.as_str(), &seen.body), ("/shops/s%201/payments", &sent[0].body));
        for (name, value) in [
            ("authorization", Some("Bearer OURS")),
            ("x-account", Some("acct-7")),
            ("x-org", Some("alpha")),
            ("content-type", Some("application/json")),
            ("accept-encoding", Some("identity")),
            ("cookie", None),
            ("idempotency-key", sent[0].one("idempotency-key")),
        ] {
            assert_eq!(seen.one(name), value, "{name}");
        }
    }
}

async fn b35_a_refusal_counts_where_it_speaks_for_the_key(kind: Kind) {
    const NO: &str = r#"{"error":"no"}"#;
    for (told, status, code) in [
        (const { &[("402 Payment Required", "X: 1", NO)] as Told }, 402, ""),
        (&[("422 No", "Idempotent-Replayed: true", NO)], 422, ""),
        // What was refused before the upstream looked for the key says nothing of an earlier attempt.
        (const { &[("400 Bad", "X: 1", NO), ("401 No", "X: 1", NO), PAID] }, 201, ""),
        (const { &[("302 Found", "Location: /in", ""), ("500 No", "X: 1", ""), PAID] }, 201, ""),
        (
            &[(
                "422 No",
                "Content-Type: application/problem+json",
                r#"{"code":"samekey.key-reused"}"#,
            )],
            409,
            "samekey.outcome-unknown",
        ),
    ] {
        let backend = again(told).await;
        let asked = Asked::new(kind, backend, DEDUPS, "").await;
        asked.pay().await;
        let ended = asked.until_it_ends().await;
        assert_eq!((ended.status, ended.code().as_str()), (status, code), "{told:?}");
        assert_eq!(asked.payments().len(), 1 + told.len());
    }
}

async fn without_its_credential_nothing_is_sent(kind: Kind) {
    let asked = Asked::new(kind, Backend::creating().await, DEDUPS, "").await;
    std::fs::write(asked._file.path(), "").unwrap();
    let told = asked.pay().await;
    assert_eq!((told.status, told.code().as_str()), (502, "samekey.upstream-unreached"));
    assert_eq!(asked.world.backend.connections(), 0);
    std::fs::write(asked._file.path(), "NEWER").unwrap();
    assert_eq!(asked.pay().await.status, 201);
    let sent = asked.payments();
    assert_eq!(sent[0].one("authorization"), Some("Bearer NEWER"), "looked up when it is sent");
}

async fn t78_a_credential_that_is_not_accepted_is_no_fault_of_the_caller(kind: Kind) {
    let backend = Backend::playing(|_, number| {
        Reply::Bytes(match number {
            1 => answer("401 No", &["WWW-Authenticate: Bearer"], b"who are you"),
            2 => answer("403 No", &[], b"not for this shop"),
            _ => answer("201 Created", &[JSON], b"{}"),
        })
    });
    let asked = Asked::new(kind, backend.await, DEDUPS, "").await;
    let told = asked.pay().await;
    assert_eq!((told.status, told.code().as_str()), (502, "samekey.credential-refused"));
    assert_eq!((told.one("www-authenticate"), told.text().contains("who are you")), (None, false));
    let told = asked.pay().await;
    assert_eq!((told.status, told.text().as_str()), (403, "not for this shop"));
    let ran = asked.pay().await;
    assert_eq!((ran.status, ran.is_replay()), (201, false), "neither has used up the key");
}

on_both!(
    t78_a_credential_that_is_not_accepted_is_no_fault_of_the_caller,
    t61_a_lost_answer_is_found_at_the_status_url,
    t64_what_is_asked_ends_as_it_was_found,
    t63_not_found_is_proof_after_its_time_and_twice,
    a_404_of_somebody_on_the_way_is_no_not_found,
    s13_b34_the_question_to_one_that_deduplicates_is_the_same_request,
    b35_a_refusal_counts_where_it_speaks_for_the_key,
    without_its_credential_nothing_is_sent,
);
