//! Every sentence of the text that the program prints at its start is true.

use super::client::send;
use super::on_both;
use super::program::{Database, Which};
use samekey_sim::process::END_BOUND;

on_both!(
    the_text_at_the_start_is_true,
    its_lesson_in_paying_is_true,
    its_lesson_in_a_paid_order_is_true
);

/// What stands between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from} in {text}")) + from.len();
    let end = text[start..].find(to).unwrap_or_else(|| panic!("no {to} behind {from} in {text}"));
    &text[start..start + end]
}

async fn the_text_at_the_start_is_true(which: Which) {
    let database = Database::fresh(which).await;
    // Twice on one database: the first time must be the first time again.
    for start in 0..2 {
        let mut shop = database.serve(&[]);
        shop.process
            .wait_for_line("its last sentence", |line| line.contains("with 422").then_some(()))
            .unwrap();
        let whole = shop.process.stdout();
        let text = whole.split("Pay for it").next().unwrap();
        assert!(text.contains(&format!("curl -i http://{}/orders ", shop.address)), "{text}");
        let headers: Vec<(&str, &str)> = text
            .split("-H '")
            .skip(1)
            .map(|rest| rest.split('\'').next().unwrap().split_once(": ").unwrap())
            .collect();
        let body = between(text, "-d '", "'");
        assert_eq!((headers.len(), body), (3, r#"{"amount": 1200}"#), "{text}");
        let curl = async |headers: &[(&str, &str)], body: &str| {
            send(shop.address, "POST", "/orders", headers, body).await
        };
        // "The first time it answers 201, every further time 200 with the same id."
        let first = curl(&headers, body).await;
        assert_eq!(first.status, 201, "start {start}");
        for _ in 0..3 {
            let again = curl(&headers, body).await;
            assert_eq!(
                (again.status, again.json()["id"].clone()),
                (200, first.json()["id"].clone())
            );
        }
        // "Change the amount, and the first order still stands."
        let changed = curl(&headers, &body.replace("1200", "1300")).await;
        assert_eq!((changed.status, &changed.body), (200, &first.body));
        // "With beta-token the same key is another organisation's own order."
        assert!(text.contains("With beta-token the same key"), "{text}");
        let mut beta = headers.clone();
        beta[0].1 = "Bearer beta-token";
        let own = curl(&beta, body).await;
        assert_eq!(own.status, 201);
        assert_ne!(own.json()["id"], first.json()["id"]);
    }
}

async fn its_lesson_in_paying_is_true(which: Which) {
    let database = Database::fresh(which).await;
    let lab = super::provider::lab("{}").await;
    let mut shop = database.serve(&["--provider", &lab.url("")]);
    shop.process
        .wait_for_line("its last sentence", |line| line.contains("with 422").then_some(()))
        .unwrap();
    let whole = shop.process.stdout();
    let text = whole.split("Pay for it").nth(1).unwrap();
    assert!(text.contains(&format!("curl -i http://{}/payments ", shop.address)), "{text}");
    let (key, body) = (between(text, "Idempotency-Key: ", "'"), between(text, "-d '", "'"));
    let send = async |body: &str| {
        super::client::pay(shop.address, between(text, "Bearer ", "'"), key, body).await
    };
    // "The first time it answers 201, and so does every further time, without a second payment."
    let first = send(body).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    let again = send(body).await;
    assert_eq!((again.status, again.is_replay(), &again.body), (201, true, &first.body));
    // "Another amount is refused with 422."
    assert_eq!(send(&body.replace("1200", "1300")).await.status, 422);
    assert_eq!(lab.counts().payments, 1);
}

async fn its_lesson_in_a_paid_order_is_true(which: Which) {
    let database = Database::fresh(which).await;
    let lab =
        super::provider::lab(r#"{"keys": {"dedup": false}, "late": {"every": 1, "ms": 1000}}"#)
            .await;
    let flags = ["--provider", &lab.url(""), "--call-timeout-ms", "200", "--retry-wait-ms", "50"];
    let mut shop = database.serve(&flags);
    shop.process
        .wait_for_line("its last words", |line| line.contains("how it stands").then_some(()))
        .unwrap();
    let whole = shop.process.stdout();
    let text = whole.split("paid by a courier").nth(1).unwrap();
    assert!(text.contains(&format!("curl -i http://{}/orders ", shop.address)), "{text}");
    let (key, body) = (between(text, "Idempotency-Key: ", "'"), between(text, "-d '", "'"));
    let placed = super::client::order(shop.address, between(text, "Bearer ", "'"), key, body).await;
    // "It answers at once. Get what its Location names."
    assert_eq!((placed.status, placed.is_replay()), (201, false));
    let id = placed.header("location").unwrap().strip_prefix("/orders/").unwrap();
    let paid = super::paid::ended(shop.address, "alpha", id).await;
    assert_eq!((paid["state"].as_str(), lab.counts().payments), (Some("succeeded"), 1));
}

/// Whoever starts it has a terminal of 80 columns, and whoever keeps its log a file.
#[tokio::test(flavor = "multi_thread")]
async fn its_lines_fit_a_terminal_and_its_log_has_no_colours() {
    let database = Database::fresh(Which::Sqlite).await;
    for counterparty in ["answers", "dedups", "opaque"] {
        for token in [&[][..], &["--token", "SECRET-TOKEN=acme"]] {
            let flags = [&["--counterparty", counterparty][..], token].concat();
            let mut shop = database.serve(&flags);
            shop.process
                .wait_for_line("its last words", |line| {
                    line.contains("how it stands").then_some(())
                })
                .unwrap();
            let text = shop.process.stdout();
            let wide = text.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{counterparty}: {text}");
        }
    }
    // A provider that takes nothing for now is worth a warning.
    const AWAY: &str = r#"{"rules": [{"process": "never", "answer": {"status": 429,
        "body": {"text": "{\"error\": \"not_now\"}"}}}]}"#;
    let lab = super::provider::lab(AWAY).await;
    let shop = database.serve(&["--provider", &lab.url("")]);
    let body = r#"{"order_id": "ORD-1", "amount": 1}"#;
    let told = super::client::pay(shop.address, "alpha-token", "k", body).await;
    assert_eq!(told.status, 503, "{told:?}");
    shop.process.terminate().unwrap();
    let log = shop.process.wait(END_BOUND).unwrap().stderr;
    assert!(log.contains("takes no payments from this service"), "{log}");
    assert!(!log.contains('\x1b'), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chosen_token_is_not_shown_and_the_demo_ones_are_off() {
    let database = Database::fresh(Which::Sqlite).await;
    let mut shop = database.serve(&["--token", "SECRET-TOKEN=acme"]);
    shop.process
        .wait_for_line("its last sentence", |line| line.contains("with 422").then_some(()))
        .unwrap();
    let text = shop.process.stdout();
    assert!(text.contains("Bearer YOUR-TOKEN'") && !text.contains("SECRET"), "{text}");
    assert!(!text.contains("beta-token") && !text.contains("alpha-token"), "{text}");
    for (token, status) in [("SECRET-TOKEN", 201), ("alpha-token", 401)] {
        let reply = super::client::order(shop.address, token, "k", r#"{"amount": 1}"#).await;
        assert_eq!(reply.status, status);
    }
}
