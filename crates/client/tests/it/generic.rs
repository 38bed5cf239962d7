//! The counterparty that a configuration describes, against the lab and against peers with other habits.

use crate::support::{
    ATTEMPT, Act, LAB, Peer, QUICK, attempt, class, command, counterparty, counterparty_with,
    deliver, heard, lab, order, question,
};
use samekey_client::Counterparty;
use samekey_client::http_counterparty::{Credential, HttpConfig, HttpCounterparty};
use samekey_client::transport::Resolver;
use samekey_core::delivery::{AskedBy, Reason, State};
use samekey_core::profile::{Answers, Declared, Limits};
use samekey_lab::Lab;
use samekey_store::OutboundKey;
use secrecy::SecretString;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LOOPBACK: &str = "allow_networks = [\"127.0.0.0/8\"]\n";

fn described(lab: &Lab) -> HttpCounterparty {
    counterparty(&format!("http://{}", lab.addr()), LAB)
}

async fn ask(
    counterparty: &HttpCounterparty,
    command: &samekey_store::outbox::Command,
) -> [String; 2] {
    let by = async |by| heard(&counterparty.ask(question(command, by)).await.told.what);
    [by(AskedBy::Key).await, by(AskedBy::Reference).await]
}

fn ok(body: &str) -> Act {
    Act::say(&format!("HTTP/1.1 200 OK\ncontent-length: {}\n\n{body}", body.len()))
}

#[tokio::test]
async fn what_was_executed_is_found_by_key_and_by_reference() {
    let lab = lab("{}").await;
    let counterparty = described(&lab);
    let payment = command("ORD-1", 1200);
    assert_eq!(ask(&counterparty, &payment).await, ["heard: not found", "heard: not found"]);
    let reply = counterparty.send(order(&payment, ATTEMPT)).await;
    assert_eq!((class(&reply.told.what).as_str(), reply.status), ("done", Some(201)));
    assert_eq!(ask(&counterparty, &payment).await, ["heard: executed", "heard: executed"]);
}

#[tokio::test]
async fn another_amount_or_currency_is_different() {
    let lab = lab("{}").await;
    let counterparty = described(&lab);
    let _ = counterparty.send(order(&command("ORD-1", 1200), ATTEMPT)).await;
    let dearer = command("ORD-1", 1201);
    assert_eq!(ask(&counterparty, &dearer).await, ["heard: different", "heard: different"]);
    // The lab answers a key that it knows with what it stored, whatever is sent under it.
    let reply = counterparty.send(order(&dearer, ATTEMPT)).await;
    assert_eq!(class(&reply.told.what), "stop: found-different");
    let mut other_key = command("ORD-1", 1200);
    other_key.key = OutboundKey::from_bytes([8; 16]);
    assert_eq!(ask(&counterparty, &other_key).await, ["heard: not found", "heard: executed"]);
}

#[tokio::test]
async fn a_refusal_and_a_payment_at_work_are_told_apart() {
    let declining = lab(r#"{"rules":[{"process":"declined"}]}"#).await;
    let counterparty = described(&declining);
    let payment = command("ORD-1", 1200);
    let reply = counterparty.send(order(&payment, ATTEMPT)).await;
    assert_eq!(class(&reply.told.what), "refused for the key");
    assert_eq!(ask(&counterparty, &payment).await, ["heard: refused", "heard: refused"]);
    // By reference it may be an earlier command that was refused.
    let second = samekey_store::outbox::Command { generation: 2, ..payment };
    assert_eq!(ask(&counterparty, &second).await[1], "heard: cannot tell");

    let slow = lab(r#"{"rules":[{"process":{"slow":{}}}]}"#).await;
    let counterparty = described(&slow);
    let payment = command("ORD-2", 1200);
    let came_to = counterparty.send(order(&payment, Duration::from_millis(200))).await;
    assert_eq!(class(&came_to.told.what), "unknown: timed-out");
    let reply = counterparty.send(order(&payment, ATTEMPT)).await;
    assert_eq!(class(&reply.told.what), "in flight");
    assert_eq!(ask(&counterparty, &payment).await[0], "heard: pending");
}

/// A proxy on the way, or a wrong address, knows nothing of what the counterparty has done.
#[tokio::test]
async fn errors_that_are_not_the_counterpartys_own_prove_nothing() {
    for status in [400, 401, 403, 404, 407, 409, 422, 429] {
        let answer = format!("HTTP/1.1 {status} No\ncontent-length: 6\n\n<html>");
        let peer = Peer::new(move |_| Act::say(&answer)).await;
        let counterparty = counterparty(&format!("http://{}", peer.addr), LAB);
        assert_eq!(attempt(&counterparty, ATTEMPT).await, "unknown: answer-unclear", "{status}");
        let heard = ask(&counterparty, &command("ORD-1", 1200)).await;
        assert_eq!(heard, ["heard: cannot tell", "heard: cannot tell"], "{status}");
    }
    for (status, expected) in [
        (400, "refused"),
        (401, "not accepted: not-accepted"),
        (429, "rate limited"),
        (503, "unknown: server-error"),
    ] {
        let answer = format!("HTTP/1.1 {status} No\ncontent-length: 13\n\n{{\"error\":\"x\"}}");
        let peer = Peer::new(move |_| Act::say(&answer)).await;
        let counterparty = counterparty(&format!("http://{}", peer.addr), LAB);
        assert_eq!(attempt(&counterparty, ATTEMPT).await, expected, "{status}");
    }
}

#[tokio::test]
async fn a_success_is_one_only_in_the_words_of_the_counterparty() {
    let paid = r#"{"status":"succeeded","amount":1200.00,"currency":"eur","order_id":"ORD-1"}"#;
    for (body, expected) in [
        (paid.to_owned(), "done"),
        (paid.replace("succeeded", "declined"), "refused"),
        (paid.replace("succeeded", "pending"), "pending"),
        (paid.replace("succeeded", "processed"), "unknown: answer-unclear"),
        (paid.replace("1200.00", "12"), "stop: found-different"),
        (paid.replace("eur", "USD"), "stop: found-different"),
        (paid.replace("ORD-1", "ORD-2"), "stop: found-different"),
        (paid.replace("\"amount\":1200.00,", ""), "unknown: answer-unclear"),
        (paid.replace("1200.00", "null"), "unknown: answer-unclear"),
        (paid.replace("1200.00", "null").replace("eur", "USD"), "stop: found-different"),
        // Which of the two counts is nobody's to say.
        (paid.replace("{", "{\"status\":\"declined\","), "unknown: answer-unclear"),
        (paid.replace("}", ",\"amount\":1200.00}"), "unknown: answer-unclear"),
        ("<html>".to_owned(), "unknown: answer-unclear"),
        ("{}".to_owned(), "unknown: answer-unclear"),
        (String::new(), "unknown: answer-unclear"),
    ] {
        let act = ok(&body);
        let peer = Peer::new(move |_| act.clone()).await;
        let counterparty = counterparty(&format!("http://{}", peer.addr), LAB);
        assert_eq!(attempt(&counterparty, ATTEMPT).await, expected, "{body}");
    }
}

#[tokio::test]
async fn lists_are_searched_for_what_was_ordered() {
    let entry = |order: &str, amount: u64, status: &str| {
        format!(
            r#"{{"order_id":"{order}","amount":{amount},"currency":"EUR","status":"{status}"}}"#
        )
    };
    let paid = entry("ORD-1", 1200, "succeeded");
    let declined = entry("ORD-1", 1200, "declined");
    let other = entry("ORD-2", 5, "succeeded");
    for (entries, expected) in [
        (vec![], "heard: not found"),
        (vec![paid.clone()], "heard: executed"),
        (vec![declined.clone(), paid.clone()], "heard: executed"),
        (vec![other.clone(), paid.clone()], "heard: executed"),
        (vec![declined.clone()], "heard: refused"),
        (vec![declined.clone(), entry("ORD-1", 1200, "pending")], "heard: pending"),
        // A server that ignores what it is asked for: ours may be on its next page.
        (vec![other], "heard: cannot tell"),
        (vec![entry("ORD-1", 1200, "odd")], "heard: cannot tell"),
        (vec![paid.clone(), paid.clone()], "heard: different"),
        (vec![entry("ORD-1", 1201, "succeeded")], "heard: different"),
        (vec![paid, entry("ORD-1", 1201, "succeeded")], "heard: different"),
    ] {
        let act = ok(&format!(r#"{{"data":[{}]}}"#, entries.join(",")));
        let peer = Peer::new(move |_| act.clone()).await;
        let config = LAB.replace("[ask]", "[ask]\nlist = \"/data\"");
        let counterparty = counterparty(&format!("http://{}", peer.addr), &config);
        let [_, by_reference] = ask(&counterparty, &command("ORD-1", 1200)).await;
        assert_eq!(by_reference, expected, "{entries:?}");
    }
}

#[tokio::test]
async fn a_lost_answer_is_asked_about_and_nothing_is_sent_again() {
    for wire in ["\"close\"", "\"hang\"", r#"{"cut":{"after_bytes":120}}"#] {
        let lab = lab(&format!(r#"{{"rules":[{{"wire":{wire}}}]}}"#)).await;
        let counterparty = described(&lab);
        let profile = QUICK.check(counterparty.declared()).unwrap();
        let (delivery, came_to) = deliver(&counterparty, &command("ORD-1", 1200), &profile).await;
        assert!(matches!(delivery.state, State::Succeeded(_)), "{wire}: {came_to:?}");
        assert_eq!(came_to.last().unwrap(), "heard: executed", "{wire}");
        assert_eq!((lab.counts().payments, came_to.len()), (1, 2), "{wire}: {came_to:?}");
    }
}

/// The provider guesses: the same order and amount within its window is "a duplicate", whatever its key.
#[tokio::test]
async fn b79_a_providers_duplicate_after_a_doubt_is_looked_up_and_without_one_it_is_a_refusal() {
    let plan = r#"{"keys":{"dedup":false},"duplicate_window_ms":60000,"rules":[{"times":1,"wire":"close"}]}"#;
    let lab = lab(plan).await;
    let config = format!("key_life_s = 86400\n{LAB}");
    let counterparty = counterparty(&format!("http://{}", lab.addr()), &config);
    let profile = QUICK.check(counterparty.declared()).unwrap();
    let (delivery, came_to) = deliver(&counterparty, &command("ORD-1", 1200), &profile).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{came_to:?}");
    assert_eq!(came_to[..2], ["unknown: connection-lost", "refused"]);
    assert_eq!(came_to.last().unwrap(), "heard: executed", "{came_to:?}");

    let mut wanted = command("ORD-1", 1200);
    wanted.key = OutboundKey::from_bytes([9; 16]);
    let (delivery, came_to) = deliver(&counterparty, &wanted, &profile).await;
    assert!(matches!(delivery.state, State::Refused(_)), "{came_to:?}");
    assert_eq!(lab.counts().payments, 1);
}

#[tokio::test]
async fn the_credential_is_looked_up_for_every_request_and_nothing_goes_without_it() {
    let lab = lab("{}").await;
    let secret = Arc::new(Mutex::new(None::<String>));
    let looked_up = Arc::clone(&secret);
    let credential =
        Credential::lookup(move || looked_up.lock().unwrap().clone().map(SecretString::from));
    let text = format!("base_url = \"http://{}\"\n{LAB}", lab.addr());
    let config: HttpConfig = toml::from_str(&text).unwrap();
    let counterparty =
        HttpCounterparty::with(config, Some(credential), Resolver::system()).unwrap();
    let payment = command("ORD-1", 1200);
    let send = async || class(&counterparty.send(order(&payment, ATTEMPT)).await.told.what);
    assert_eq!(send().await, "not accepted: not-sendable");
    assert_eq!(ask(&counterparty, &payment).await[0], "heard: cannot tell");
    *secret.lock().unwrap() = Some("two\r\nlines".to_owned());
    assert_eq!(send().await, "not accepted: not-sendable");
    assert!(lab.requests().unwrap().is_empty());
    for token in ["first", "second"] {
        *secret.lock().unwrap() = Some(token.to_owned());
        assert_eq!(send().await, "done");
    }
    let headers: Vec<String> =
        lab.requests().unwrap().iter().map(|seen| credential_line(&seen.arrived.headers)).collect();
    assert!(headers[0] != headers[1] && headers[0].starts_with("authorization: sha256:"));
}

fn credential_line(headers: &str) -> String {
    headers.lines().find(|line| line.starts_with("authorization")).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_credential_file_is_read_anew() {
    let peer = Peer::new(|_| Act::say("HTTP/1.1 201 Created\ncontent-length: 0\n\n")).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let config = format!(
        "{LOOPBACK}credential = {{ file = {path:?}, header = \"x-api-key\", prefix = \"\" }}"
    );
    let counterparty = counterparty(&format!("http://{}", peer.addr), &config);
    for (content, expected) in
        [("", "not accepted: not-sendable"), ("k-1\n", "done"), ("k-2", "done")]
    {
        std::fs::write(path, content).unwrap();
        assert_eq!(attempt(&counterparty, ATTEMPT).await, expected, "{content:?}");
    }
    std::fs::write(path, "x".repeat(9_000)).unwrap();
    assert_eq!(attempt(&counterparty, ATTEMPT).await, "not accepted: not-sendable", "too large");
    let requests = peer.requests();
    let has = |number: usize, line: &str| String::from_utf8_lossy(&requests[number]).contains(line);
    assert!(has(0, "x-api-key: k-1\r\n") && has(1, "x-api-key: k-2\r\n") && requests.len() == 2);
}

#[tokio::test]
async fn the_key_is_sent_as_it_is_configured_and_the_request_as_it_was_kept() {
    const KEY: &str = "07070707-0707-0707-0707-070707070707";
    for (config, line) in [
        ("", format!("idempotency-key: {KEY}\r\n")),
        ("key_header = { form = \"quoted\" }", format!("idempotency-key: \"{KEY}\"\r\n")),
        ("key_header = { name = \"X-Request-Id\" }", format!("x-request-id: {KEY}\r\n")),
    ] {
        let peer = Peer::new(|_| Act::say("HTTP/1.1 201 Created\ncontent-length: 0\n\n")).await;
        let base = format!("http://{}/v1/", peer.addr);
        let counterparty = counterparty(&base, &format!("{LOOPBACK}{config}"));
        assert_eq!(attempt(&counterparty, ATTEMPT).await, "done");
        let request = String::from_utf8(peer.requests().remove(0)).unwrap();
        assert!(request.starts_with("POST /v1/payments HTTP/1.1\r\n"), "{request}");
        assert!(request.contains(&line), "{request}");
        assert!(request.ends_with(r#"{"order_id":"ORD-1","amount":1200,"currency":"EUR"}"#));
        assert_eq!(request.matches("07070707-0707").count(), 1, "{request}");
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_compared_is_not_sent() {
    let lab = lab("{}").await;
    let counterparty = described(&lab);
    for body in ["", "[]", "{\"order_id\":\"ORD-1\",\"amount\":1200}"] {
        let mut command = command("ORD-1", 1200);
        command.request =
            samekey_client::HttpRequest::post("/payments").json(body).encode().unwrap();
        let reply = counterparty.send(order(&command, ATTEMPT)).await;
        assert_eq!(class(&reply.told.what), "not accepted: not-sendable", "{body}");
    }
    let mut damaged = command("ORD-1", 1200);
    damaged.request = damaged.request.slice(..9);
    let reply = counterparty.send(order(&damaged, ATTEMPT)).await;
    assert_eq!(class(&reply.told.what), "not accepted: not-sendable");
    assert!(lab.requests().unwrap().is_empty());
}

#[test]
fn what_is_declared_is_what_is_configured() {
    let url = "https://pay.example";
    assert_eq!(counterparty(url, "").declared(), Declared::OPAQUE);
    let config =
        format!("key_life_s = 60\n{}", LAB.replace("[ask]", "[ask]\nnot_found_after_s = 900"));
    assert_eq!(
        counterparty(url, &config).declared(),
        Declared {
            dedups: Some(Duration::from_secs(60)),
            answers: Some(Answers {
                not_found_after: Some(Duration::from_secs(900)),
                by_reference: true
            }),
        }
    );
    // A memory that is shorter than the retries is refused by the profile.
    let fault = Limits::DURABLE.check(counterparty(url, &config).declared()).unwrap_err();
    assert!(fault.to_string().contains("remembers a key"));
    let _ = Reason::NotFound;
}

#[test]
fn what_cannot_be_used_is_refused_with_a_sentence() {
    let asks = "[ask]\nby_key = \"/p/{key}\"\n[answer]\n";
    let words = "status = \"/s\"\nsucceeded = [\"ok\"]\n";
    let pairs = "amount = { ours = \"/a\", theirs = \"/a\" }\nreference = { ours = \"/r\", theirs = \"/r\" }\n";
    for (config, part) in [
        (asks.to_owned(), "answer.status is missing"),
        (format!("{asks}{words}"), "answer.amount and answer.reference are missing"),
        (
            format!("{asks}{words}{pairs}").replace("[answer]", "not_found_after_s = 60\n[answer]"),
            "without ask.not_found",
        ),
        ("[ask]\nnot_found_after_s = 60".to_owned(), "there is nowhere to ask"),
        ("[ask]\nby_key = \"/p/{id}\"".to_owned(), "ask.by_key: "),
        ("[ask]\nlist = \"data\"".to_owned(), "is no JSON pointer"),
        ("[ask]\nnot_found_statuses = [200]".to_owned(), "200 is outside 400..=499"),
        ("[answer]\nstatus = \"/s\"".to_owned(), "without answer.succeeded"),
        ("[answer]\nsucceeded = [\"ok\"]".to_owned(), "answer.status is missing"),
        (
            "[answer]\nstatus = \"/s\"\nsucceeded = [\"ok\"]\nrefused = [\"ok\"]".to_owned(),
            "stands twice",
        ),
        ("[answer]\nkeep_headers = [\"set-cookie\"]".to_owned(), "answer.keep_headers"),
        ("[answer]\nstored_refusals = [503]".to_owned(), "503 is outside 200..=499"),
        ("credential = {}".to_owned(), "one of environment and file"),
        (
            "credential = { environment = \"A\", header = \"a b\" }".to_owned(),
            "no name of a header",
        ),
        ("key_header = { name = \"a b\" }".to_owned(), "key_header.name"),
        ("trust_file = \"/nowhere/at/all.pem\"".to_owned(), "cannot be read"),
    ] {
        let refused = counterparty_with("https://pay.example", &config, Resolver::system());
        let sentence = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(sentence.contains(part), "{config}: {sentence:?}");
    }
    let unknown = toml::from_str::<HttpConfig>("base_url = \"https://pay.example\"\nretries = 3");
    assert!(unknown.is_err(), "a word that is not known is refused");
}
