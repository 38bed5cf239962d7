//! Samekey's own problem documents, and answers that only look like them.

use crate::support::{
    ATTEMPT, Act, DAY, Peer, QUICK, attempt, bare, command, lab, order, retrying,
};
use samekey_client::Counterparty;
use samekey_client::address::Reach;
use samekey_client::http_counterparty::{AnswerConfig, InProgressConfig};
use samekey_client::retrying::{End, RetryingClient, RetryingOptions};
use samekey_core::delivery::Reason;
use samekey_core::outcome::{Outcome, Speaks};
use samekey_core::profile::Limits;
use samekey_core::receipt::Receipt;
use std::time::Duration;

/// A document as a samekey server writes it.
fn problem(status: u16, name: &str, members: &str) -> String {
    document(status, "application/problem+json", name, members)
}

fn document(status: u16, media_type: &str, name: &str, members: &str) -> String {
    let body = format!(
        r#"{{"type":"urn:samekey:{name}","title":"T","status":{status},"detail":"D","code":"samekey.{name}","retryable":false{members},"error":{{"type":"api_error","code":"samekey.{name}","message":"D"}}}}"#
    );
    format!(
        "HTTP/1.1 {status} S\ncontent-type: {media_type}\ncache-control: no-store\ncontent-length: {}\n\n{body}",
        body.len()
    )
}

async fn comes_to(answer: &str) -> String {
    let act = Act::say(answer);
    let peer = Peer::new(move |_| act.clone()).await;
    attempt(&bare(peer.addr), ATTEMPT).await
}

#[tokio::test]
async fn b56_each_document_says_what_its_code_says() {
    for (status, name, members, expected) in [
        (409, "in-progress", "", "in flight"),
        (409, "outcome-pending", "", "in flight"),
        (409, "outcome-unknown", "", "stop: unknown-there"),
        (409, "closed-by-operator", "", "stop: closed-there"),
        (409, "response-not-kept", r#","stored_status":201"#, "done"),
        (409, "response-not-kept", r#","stored_status":402"#, "refused for the key"),
        (409, "response-not-kept", r#","stored_status":500"#, "unknown: answer-unclear"),
        (409, "response-not-kept", r#","stored_status":"201""#, "unknown: answer-unclear"),
        (409, "response-not-kept", "", "unknown: answer-unclear"),
        (422, "key-reused", "", "stop: key-reused"),
        (400, "key-reused", "", "stop: key-reused"),
        (502, "upstream-unreached", "", "not processed"),
        (503, "store-unavailable", "", "not processed"),
        (425, "too-early", "", "not processed"),
        (400, "key-missing", "", "refused"),
        (400, "key-invalid", "", "refused"),
        (413, "body-too-large", "", "refused"),
        (500, "handler-failed", "", "unknown: server-error"),
    ] {
        assert_eq!(comes_to(&problem(status, name, members)).await, expected, "{status} {name}");
    }
}

#[tokio::test]
async fn b56_business_answers_and_lookalikes_are_read_by_their_status() {
    let with_charset = document(409, "Application/Problem+JSON; charset=utf-8", "in-progress", "");
    assert_eq!(comes_to(&with_charset).await, "in flight");
    let other = "HTTP/1.1 409 S\ncontent-type: application/problem+json\ncontent-length: 28\n\n{\"code\":\"other.in-progress\"}";
    for (answer, expected) in [
        ("HTTP/1.1 409 S\ncontent-length: 0\n\n", "refused"),
        ("HTTP/1.1 422 S\ncontent-length: 0\n\n", "refused"),
        (other, "refused"),
        // The same words in a document that is none, or under a status that it never has.
        (&document(409, "application/json", "in-progress", ""), "refused"),
        (&document(422, "application/json", "key-reused", ""), "refused"),
        (&document(503, "application/json", "store-unavailable", ""), "unknown: server-error"),
        (&problem(500, "store-unavailable", ""), "unknown: server-error"),
        (&problem(502, "store-unavailable", ""), "unknown: server-error"),
        (&problem(200, "in-progress", ""), "done"),
        (&problem(409, "key-reused", ""), "refused"),
        (&problem(409, "some-later-name", ""), "refused"),
    ] {
        assert_eq!(comes_to(answer).await, expected, "{answer}");
    }
}

#[tokio::test]
async fn what_was_not_kept_is_read_at_its_location() {
    let members = r#","stored_status":201,"stored_location":"/payments/7""#;
    let act = Act::say(&problem(409, "response-not-kept", members));
    let peer = Peer::new(move |_| act.clone()).await;
    let reply = bare(peer.addr).send(order(&command("ORD-1", 1200), ATTEMPT)).await;
    let location = Some("/payments/7".into());
    assert_eq!(reply.told.what, Outcome::Done(Receipt::Fact { status: 201, location }));
    assert_eq!(reply.status, Some(409));
}

#[tokio::test]
async fn a_replayed_refusal_speaks_for_its_key() {
    for (line, speaks) in [
        ("idempotent-replayed: true\n", Speaks::ForTheKey),
        ("idempotent-replayed: false\n", Speaks::ForItself),
        ("", Speaks::ForItself),
    ] {
        let act = Act::say(&format!("HTTP/1.1 402 No\n{line}content-length: 0\n\n"));
        let peer = Peer::new(move |_| act.clone()).await;
        let reply = bare(peer.addr).send(order(&command("ORD-1", 1200), ATTEMPT)).await;
        let Outcome::Refused(_, found) = reply.told.what else { panic!("{reply:?}") };
        assert_eq!(found, speaks, "{line}");
    }
}

/// The first request runs for longer than anybody waits; who asks again is told to wait, and at last gets its
/// answer.
#[tokio::test]
async fn b55_in_progress_is_waited_out_under_the_same_key() {
    let lab = lab(r#"{"rules":[{"times":1,"process":{"slow":{"ms":1200}}}]}"#).await;
    let in_progress =
        InProgressConfig { status: 409, pointer: "/error".into(), value: "in_progress".into() };
    let answer = AnswerConfig { in_progress: Some(in_progress), ..AnswerConfig::default() };
    let limits = Limits { attempts_max: 2, ..QUICK };
    let options = RetryingOptions {
        limits,
        key_life: DAY,
        answer,
        reach: Reach::PUBLIC.and_loopback(),
        ..RetryingOptions::default()
    };
    let client = RetryingClient::new(options).unwrap();
    let request = client.post(&lab.url("/payments")).body(r#"{"order_id":"ORD-1"}"#);
    let called = client.execute(request.build().unwrap()).await.unwrap();
    let End::Succeeded(Receipt::Kept(answer)) = &called.end else { panic!("{called}") };
    assert_eq!(answer.status, 201);
    let statuses: Vec<Option<u16>> = called.attempts.iter().map(|one| one.status).collect();
    assert_eq!(statuses.first(), Some(&None), "{called}");
    assert_eq!(statuses.last(), Some(&Some(201)), "{called}");
    assert!(statuses[1..statuses.len() - 1].iter().all(|status| *status == Some(409)), "{called}");
    assert!(statuses.len() >= 3, "{called}");
    assert_eq!(lab.counts().payments, 1);
}

/// The counterparty is not declared to deduplicate, and says itself that it knows the key.
#[tokio::test]
async fn b55_our_own_in_progress_costs_no_attempt() {
    let answers = [
        problem(409, "in-progress", "").replace("\ncache", "\nretry-after: 1\ncache"),
        problem(409, "outcome-pending", ""),
        "HTTP/1.1 201 Created\nidempotent-replayed: true\ncontent-length: 2\n\n{}".to_owned(),
    ];
    let peer = Peer::new(move |number| Act::say(&answers[number.min(2)])).await;
    let client = retrying(Limits { attempts_max: 1, ..QUICK }, None);
    let request = client.post(&peer.url("/payments")).body("{}").build().unwrap();
    let called = client.execute(request).await.unwrap();
    assert!(matches!(called.end, End::Succeeded(_)), "{called}");
    assert_eq!(called.attempts.len(), 3, "{called}");
    assert!(
        called.attempts[1].began - called.attempts[0].took >= Duration::from_secs(1),
        "{called}"
    );
}

#[tokio::test]
async fn b70_the_first_cause_is_kept_and_a_mismatch_after_a_doubt_is_no_failure() {
    let answers =
        ["HTTP/1.1 504 No\ncontent-length: 0\n\n".to_owned(), problem(422, "key-reused", "")];
    let peer = Peer::new(move |number| Act::say(&answers[number.min(1)])).await;
    let client = retrying(QUICK, DAY);
    let request = client.post(&peer.url("/payments")).body("{}").build().unwrap();
    let called = client.execute(request).await.unwrap();
    assert_eq!(called.end, End::Unknown(Reason::KeyReused), "{called}");
    assert_eq!(called.doubt, Some(Reason::ServerError));
    let statuses: Vec<Option<u16>> = called.attempts.iter().map(|one| one.status).collect();
    assert_eq!(statuses, [Some(504), Some(422)]);
    let text = called.to_string();
    assert!(text.contains("504, server-error") && text.contains("422, key-reused"), "{text}");
    assert!(!text.contains(called.key.as_str()), "a key is in no log");
}

/// A plain refusal after a doubt is not the end either: it speaks for its own attempt only.
#[tokio::test]
async fn b70_a_refusal_after_a_doubt_is_unknown() {
    let answers = [504, 400].map(|status| format!("HTTP/1.1 {status} No\ncontent-length: 0\n\n"));
    let peer = Peer::new(move |number| Act::say(&answers[number.min(1)])).await;
    let client = retrying(Limits { attempts_max: 3, ..QUICK }, DAY);
    let request = client.post(&peer.url("/payments")).body("{}").build().unwrap();
    let called = client.execute(request).await.unwrap();
    assert_eq!(called.end, End::Unknown(Reason::AttemptsUsedUp), "{called}");
    assert_eq!(called.doubt, Some(Reason::ServerError), "{called}");
}
