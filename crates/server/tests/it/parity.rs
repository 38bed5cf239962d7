//! B10: one service on two databases tells one story. Every answer of a long dialogue is compared,
//! head and body.

use super::harness::{Harness, Script, Which};
use std::sync::atomic::Ordering;

/// What changes from run to run.
const CHANGING: [&str; 1] = ["date"];

struct Dialogue {
    harness: Harness,
    transcript: Vec<String>,
}

impl Dialogue {
    async fn say(&mut self, what: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let reply = self.harness.send("POST", path, headers, body).await;
        let mut lines: Vec<String> = reply
            .headers
            .iter()
            .filter(|(name, _)| !CHANGING.contains(&name.as_str()))
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        lines.sort_unstable();
        let calls = self.harness.app.calls.load(Ordering::SeqCst);
        let body = String::from_utf8_lossy(&reply.body);
        let body: String = body.chars().take(300).collect();
        self.transcript.push(format!(
            "{what}: {} after {calls} calls\n{}\n{body}",
            reply.status,
            lines.join("\n")
        ));
    }

    async fn keyed(&mut self, what: &str, path: &str, key: &str, body: &str) {
        self.say(what, path, &[("idempotency-key", key)], body).await;
    }

    /// One command and its retry, with what its handler is told to do once or always.
    async fn twice(&mut self, what: &str, script: Script) {
        self.harness.app.scripts.set(what, script);
        let body = format!(r#"{{"ref":"{what}"}}"#);
        for _ in 0..2 {
            self.keyed(what, "/orders", what, &body).await;
        }
    }
}

/// An answer that a script gives.
fn answers(status: u16) -> Script {
    Script { status: Some(status), ..Script::default() }
}

async fn transcript(which: Which) -> Vec<String> {
    let harness = Harness::start(which).await;
    let mut dialogue = Dialogue { harness, transcript: Vec::new() };
    let body = r#"{"ref":"plain","amount":1}"#;
    for what in ["first", "replay"] {
        dialogue.keyed(what, "/orders", "plain", body).await;
    }
    dialogue.keyed("quoted", "/orders", "\"plain\"", body).await;
    dialogue.keyed("other content", "/orders", "plain", r#"{"ref":"plain","amount":2}"#).await;
    dialogue.keyed("other path", "/orders/1/cancel", "plain", body).await;
    dialogue.say("no key", "/orders", &[], body).await;
    dialogue.keyed("bad key", "/orders", "a, b", body).await;
    dialogue.say("optional, none", "/optional", &[], body).await;
    let early = [("idempotency-key", "early"), ("early-data", "1")];
    dialogue.say("early data", "/orders", &early, body).await;
    let other = [("idempotency-key", "plain"), ("authorization", "Bearer b1")];
    dialogue.say("another organisation", "/orders", &other, body).await;
    for path in ["/bound", "/raw", "/first-wins"] {
        dialogue.keyed(path, path, path, body).await;
        dialogue.keyed(path, path, path, r#"{"amount":1,"ref":"plain"}"#).await;
        let second = [("idempotency-key", path), ("authorization", "Bearer a2")];
        dialogue.say(path, path, &second, body).await;
    }
    for status in [200, 202, 204, 303, 400, 402, 404, 409, 422] {
        dialogue.twice(&format!("final-{status}"), answers(status)).await;
    }
    for status in [401, 403, 408, 413, 421, 425, 429, 500, 503] {
        let script = Script { times: Some(1), ..answers(status) };
        dialogue.twice(&format!("passing-{status}"), script).await;
    }
    dialogue.twice("fails", Script { fails: true, times: Some(1), ..Script::default() }).await;
    dialogue.twice("panics", Script { panics: true, times: Some(1), ..Script::default() }).await;
    let headers = vec![
        ("location", b"/orders/7".to_vec()),
        ("etag", b"\"seven\"".to_vec()),
        ("link", b"</a>; rel=a".to_vec()),
        ("link", b"</b>; rel=b".to_vec()),
        ("set-cookie", b"secret=1".to_vec()),
        ("x-own", b"kept by nobody".to_vec()),
    ];
    dialogue.twice("headers", Script { headers, ..Script::default() }).await;
    let bytes = (0..=255).collect();
    dialogue.twice("bytes", Script { body: Some(bytes), ..Script::default() }).await;
    for (what, size) in [("at-the-limit", 65_536), ("over-the-limit", 65_537)] {
        dialogue.twice(what, Script { body: Some(vec![b'x'; size]), ..Script::default() }).await;
    }
    for state in ["running", "unknown", "review", "free", "done"] {
        let rows = dialogue.harness.rows_in_state(state).await;
        dialogue.transcript.push(format!("{rows} rows are {state}"));
    }
    dialogue.transcript
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b10_both_databases_tell_the_same() {
    let (sqlite, postgres) = (transcript(Which::Sqlite).await, transcript(Which::Postgres).await);
    assert!(sqlite.len() > 70, "{} entries", sqlite.len());
    for (one, other) in sqlite.iter().zip(&postgres) {
        assert_eq!(one, other);
    }
    assert_eq!(sqlite.len(), postgres.len());
}
