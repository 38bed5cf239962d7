//! What people type wrong, and the sentence that they get for it.

use super::client::{order, send};
use super::on_both;
use super::program::{Database, Which, orders};
use flate2::Compression;
use flate2::write::GzEncoder;
use samekey_sim::process::END_BOUND;
use std::io::Write;

/// Nobody reads an error that is longer.
const SENTENCE_CHARACTERS_MAX: usize = 300;

on_both!(
    a_wrong_body_gets_one_sentence_and_claims_nothing,
    t87_without_a_good_token_nothing_is_told,
    a_wrong_page_says_where_to_go,
);

async fn a_wrong_body_gets_one_sentence_and_claims_nothing(which: Which) {
    let database = Database::fresh(which).await;
    let shop = database.serve(&[]);
    for (body, part) in [
        ("", "cannot be read as an order"),
        ("amount=1200", "cannot be read as an order"),
        ("{", "cannot be read as an order"),
        ("[1200]", "cannot be read as an order"),
        ("[1200, null]", "it is a list"),
        ("{}", "missing field `amount`"),
        (r#"{"amount": "1200"}"#, "expected i64"),
        (r#"{"amount": 12.5}"#, "expected i64"),
        (r#"{"amount": null}"#, "expected i64"),
        (r#"{"amount": 99999999999999999999}"#, "expected i64"),
        (r#"{"amount": 0}"#, "the amount is 0; expected 1 to"),
        (r#"{"amount": -5}"#, "the amount is -5; expected 1 to"),
        (r#"{"amount": 1000000000001}"#, "expected 1 to 1000000000000"),
        (r#"{"amount": 1, "amount": 2}"#, "duplicate field"),
        (r#"{"amount": 1, "amounts": 2}"#, "unknown field `amounts`"),
        (r#"{"amount": 1, "cart": ""}"#, "the cart's name is empty"),
        (r#"{"amount": 1, "cart": "a\u0000b"}"#, "control character"),
        (r#"{"amount": 1, "cart": 7}"#, "expected a string"),
    ] {
        let reply = order(shop.address, "alpha-token", "k-1", body).await;
        assert_eq!(reply.status, 400, "{body}");
        let detail = reply.detail();
        assert!(detail.contains(part), "{body}: {detail}");
        assert!(detail.contains("expected") || detail.contains("name"), "{body}: {detail}");
        assert!(
            detail.chars().count() <= SENTENCE_CHARACTERS_MAX && !detail.contains('\n'),
            "{detail}"
        );
    }
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(br#"{"amount": 1}"#).unwrap();
    let headers = [
        ("authorization", "Bearer alpha-token"),
        ("idempotency-key", "k-1"),
        ("content-encoding", "gzip"),
    ];
    let packed = packer.finish().unwrap();
    let reply = send(shop.address, "POST", "/orders", &headers, packed).await;
    assert_eq!(reply.status, 415);
    assert!(reply.detail().contains("Content-Encoding"), "{}", reply.detail());
    let long = format!(r#"{{"amount": 1, "cart": "{}"}}"#, "c".repeat(101));
    assert_eq!(order(shop.address, "alpha-token", "k-1", &long).await.status, 400);
    // The key is as free as before.
    let good = order(shop.address, "alpha-token", "k-1", r#"{"amount": 1}"#).await;
    assert_eq!((good.status, good.is_replay()), (201, false));
}

async fn t87_without_a_good_token_nothing_is_told(which: Which) {
    let database = Database::fresh(which).await;
    let shop = database.serve(&[]);
    let first = order(shop.address, "alpha-token", "k-1", r#"{"amount": 1200}"#).await;
    assert_eq!(first.status, 201);
    for authorization in [
        None,
        Some(""),
        Some("alpha-token"),
        Some("Basic alpha-token"),
        Some("Bearer"),
        Some("Bearer gamma-token"),
        Some("Bearer Alpha-Token"),
    ] {
        let mut headers = vec![("idempotency-key", "k-1")];
        headers.extend(authorization.map(|value| ("authorization", value)));
        let reply = send(shop.address, "POST", "/orders", &headers, r#"{"amount": 1200}"#).await;
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")));
        assert!(reply.detail().contains("Authorization: Bearer TOKEN"), "{}", reply.detail());
        assert!(!reply.body.contains("1200") && !reply.is_replay(), "{authorization:?}");
    }
    let two = [("authorization", "Bearer alpha-token"), ("authorization", "Bearer beta-token")];
    assert_eq!(send(shop.address, "POST", "/orders", &two, "{}").await.status, 401);
}

async fn a_wrong_page_says_where_to_go(which: Which) {
    let database = Database::fresh(which).await;
    let shop = database.serve(&[]);
    let alpha = [("authorization", "Bearer alpha-token")];
    for (method, path, status) in [
        ("POST", "/order", 404),
        ("POST", "/orders/", 404),
        ("GET", "/orders", 405),
        ("PUT", "/orders", 405),
        ("DELETE", "/orders/1", 405),
        ("GET", "/orders/no-such-order", 404),
        ("GET", "/orders/%00", 404),
    ] {
        let reply = send(shop.address, method, path, &alpha, "").await;
        assert_eq!(reply.status, status, "{method} {path}");
        assert!(!reply.detail().is_empty(), "{method} {path}");
    }
    assert_eq!(send(shop.address, "GET", "/health", &[], "").await.status, 200);
}

/// Starts the program with a mistake: it must end by itself with this code and one sentence.
fn ends(arguments: &[&str], code: i32, part: &str) {
    let ended = orders().args(arguments).run(END_BOUND).unwrap();
    let said = ended.stderr.trim();
    assert_eq!(ended.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(part), "{arguments:?}: {said}");
    assert!(!said.contains("panicked") && !said.contains("SECRET"), "{arguments:?}: {said}");
    assert!(!ended.stdout.contains("listening"), "{arguments:?}: {}", ended.stdout);
    let sentence = said.lines().next().unwrap_or_default();
    assert!(sentence.starts_with("orders: ") || sentence.starts_with("error: "), "{said}");
}

#[test]
fn a_wrong_argument_ends_with_2_and_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let nowhere = path("missing/orders.db");
    let good = path("orders.db");
    let other = path("other.db");
    let text = "this is no database, and long enough to be seen as none".repeat(20);
    std::fs::write(folder.path().join("other.db"), text).unwrap();
    let a_folder = format!("sqlite:{}", folder.path().display());
    for (arguments, part) in [
        (vec!["--database", nowhere.as_str()], "the directory of the database file does not exist"),
        (vec!["--database", a_folder.as_str()], "names a directory; name a file in it"),
        (vec!["--database", other.as_str()], "not an SQLite database; name another file"),
        (vec!["--database", "orders.db"], "expected sqlite:FILE or postgres://"),
        (vec!["--database", "mysql://u:SECRET@h/d"], "expected sqlite:FILE or postgres://"),
        (vec!["--database", ""], "expected sqlite:FILE or postgres://"),
        (vec!["--database", "sqlite:"], "names no file"),
        (vec!["--database", "sqlite::memory:"], "name a file"),
        (vec!["--database", "postgres://u:SECRET@h:port/d"], "cannot be understood"),
        (vec!["--listen", "localhost:8080"], "such as 127.0.0.1:8080"),
        (vec!["--listen", "8080"], "such as 127.0.0.1:8080"),
        (vec!["--listen", "127.0.0.1:99999"], "such as 127.0.0.1:8080"),
        (vec!["--token", "SECRET"], "--token number 1 has no '='; expected TOKEN=ORG"),
        (vec!["--token", ""], "the list of tokens is empty; expected TOKEN=ORG"),
        (vec!["--token", "a=b,=SECRET"], "--token number 2 has an empty or unprintable token"),
        (vec!["--token", "SECRET="], "--token number 1 names no organisation"),
        (vec!["--token", "SECRET=a,SECRET=b"], "a second time"),
        (vec!["--headers-time-max-ms", "soon"], "--headers-time-max-ms"),
        (vec!["--databases", "x"], "--database"),
        (vec!["extra"], "extra"),
    ] {
        let mut all = arguments.clone();
        if !arguments.contains(&"--database") {
            all.extend(["--database", good.as_str()]);
        }
        ends(&all, 2, part);
    }
}

#[tokio::test]
async fn what_cannot_be_reached_ends_with_3_and_a_sentence() {
    let database = Database::fresh(Which::Sqlite).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = database.address();
    ends(&["--database", &file, "--listen", &address], 3, "choose another address with --listen");
    // Port 1 is reserved, and nobody listens on it.
    let nobody = "postgres://user:SECRET@127.0.0.1:1/orders";
    ends(&["--database", nobody], 3, "the database cannot be reached");
}
