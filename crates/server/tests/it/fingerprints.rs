//! C3: which second request is the same command, and which is not.

use super::harness::caller::Reply;
use super::harness::{Harness, Which, fresh, on_both, order};
use samekey::Setup;
use samekey_core::fingerprint::{Algorithm, Algorithms, BodyForm, Digest, Request, V1, Version};

on_both!(
    p21_t30_b89_json_is_compared_by_meaning,
    p21_t31_duplicate_members_are_compared_as_raw_bytes,
    p21_t32_numbers_are_compared_as_written,
    p21_t34_there_is_no_unicode_normalisation,
    p21_t35_b53_the_target_is_compared_as_sent,
    t36_another_spelling_of_a_path_never_replays,
    p21_t37_b68_the_media_type_counts,
    p21_t38_b68_the_encoding_counts,
    p21_t39_semantic_headers_count,
    t40_what_changes_between_retries_does_not_count,
    p21_t41_b83_the_method_counts,
    p22_t42_a_record_outlives_an_upgrade,
    p04_b91_another_amount_is_refused,
    first_write_wins_forgives_another_body_only,
);

/// Sends the same key again with these differences.
struct Pair<'a> {
    harness: &'a Harness,
    key: String,
    path: &'a str,
}

impl Pair<'_> {
    async fn send(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut all = vec![("idempotency-key", self.key.as_str())];
        all.extend_from_slice(headers);
        self.harness.send("POST", path, &all, body).await
    }

    /// The first request, which must run.
    async fn first<'a>(
        harness: &'a Harness,
        path: &'a str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Pair<'a> {
        let pair = Pair { harness, key: fresh("key"), path };
        let reply = pair.send(path, headers, body).await;
        assert_eq!((reply.status, reply.is_replay()), (201, false), "{body}");
        pair
    }

    async fn replays(&self, headers: &[(&str, &str)], body: &str) {
        let reply = self.send(self.path, headers, body).await;
        assert_eq!((reply.status, reply.is_replay()), (201, true), "{headers:?} {body}");
    }

    async fn differs(&self, headers: &[(&str, &str)], body: &str) {
        self.differs_at(self.path, headers, body).await;
    }

    async fn differs_at(&self, path: &str, headers: &[(&str, &str)], body: &str) {
        let reply = self.send(path, headers, body).await;
        let found = (reply.status, reply.code());
        let expected = (422, Some("samekey.key-reused".to_owned()));
        assert_eq!(found, expected, "{path} {headers:?} {body}");
    }
}

async fn p21_t30_b89_json_is_compared_by_meaning(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let sent = format!(r#"{{"ref":"{r}","a":{{"x":1,"y":[1,2,"A"]}},"b":null}}"#);
    let same = [
        format!(r#"{{"b":null,"a":{{"y":[1,2,"A"],"x":1}},"ref":"{r}"}}"#),
        format!(
            "{{\n  \"ref\" : \"{r}\",\n\t\"a\": {{ \"x\": 1, \"y\": [ 1, 2, \"A\" ] }},\r\n  \"b\": null\n}}\n"
        ),
        format!(r#"{{"ref":"{r}","a":{{"x":1,"y":[1,2,"\u0041"]}},"b":null}}"#),
        format!(r#"{{"ref":"{r}","\u0061":{{"x":1,"y":[1,2,"A"]}},"b":null}}"#),
    ];
    let pair = Pair::first(&harness, "/orders", &[], &sent).await;
    for body in &same {
        pair.replays(&[], body).await;
    }
    // The order of an array is content, and so is everything else.
    for (from, to) in [("[1,2,", "[2,1,"), ("null", "\"null\""), ("null", "0"), ("\"A\"", "\"a\"")]
    {
        pair.differs(&[], &sent.replace(from, to)).await;
    }
    pair.differs(&[], &sent.replace(",\"b\":null", "")).await;
    // A route that asks for it compares bytes.
    let raw = Pair::first(&harness, "/raw", &[], &sent).await;
    raw.replays(&[], &sent).await;
    for body in &same {
        raw.differs(&[], body).await;
    }
    assert_eq!(harness.effects(&r).await, 2);
}

async fn p21_t31_duplicate_members_are_compared_as_raw_bytes(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let sent = format!(r#"{{"amount":1,"amount":9,"ref":"{r}"}}"#);
    let pair = Pair::first(&harness, "/orders", &[], &sent).await;
    pair.replays(&[], &sent).await;
    pair.differs(&[], &format!(r#"{{"amount":9,"amount":1,"ref":"{r}"}}"#)).await;
    pair.differs(&[], &format!(r#"{{"amount":1,"ref":"{r}","amount":9}}"#)).await;
    pair.differs(&[], &format!(r#"{{"amount":9,"ref":"{r}"}}"#)).await;
    pair.differs(&[], &format!(r#"{{"amount":1,"ref":"{r}"}}"#)).await;
    assert_eq!(harness.effects(&r).await, 1);
}

async fn p21_t32_numbers_are_compared_as_written(which: Which) {
    let harness = Harness::start(which).await;
    for path in ["/orders", "/raw"] {
        let r = fresh("ref");
        let with = |number: &str| format!(r#"{{"ref":"{r}","amount":{number}}}"#);
        let pair = Pair::first(&harness, path, &[], &with("100")).await;
        for other in ["100.0", "1e2", "1E2", "1.00e2", "-100", "\"100\""] {
            pair.differs(&[], &with(other)).await;
        }
        pair.replays(&[], &with("100")).await;
        assert_eq!(harness.effects(&r).await, 1);
        // Two numbers that are one and the same double.
        let r = fresh("ref");
        let with = |number: &str| format!(r#"{{"ref":"{r}","amount":{number}}}"#);
        let pair = Pair::first(&harness, path, &[], &with("9007199254740992")).await;
        pair.differs(&[], &with("9007199254740993")).await;
    }
}

async fn p21_t34_there_is_no_unicode_normalisation(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let with = |name: &str| format!(r#"{{"ref":"{r}","name":"{name}"}}"#);
    let pair = Pair::first(&harness, "/orders", &[], &with("Ren\u{e9}")).await;
    pair.differs(&[], &with("Rene\u{301}")).await;
    pair.replays(&[], &with("Ren\\u00e9")).await;
    assert_eq!(harness.effects(&r).await, 1);
}

async fn p21_t35_b53_the_target_is_compared_as_sent(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let pair = Pair::first(&harness, "/transfer?a=1&b=2&to=a", &[], &order(&r)).await;
    for path in [
        "/transfer?b=2&a=1&to=a",
        "/transfer?a=1&b=2&to=b",
        "/transfer?a=1&b=2&to=%61",
        "/transfer?a=1&b=2&to=a&",
        "/transfer?a=1&b=2",
        "/transfer?",
        "/transfer",
    ] {
        pair.differs_at(path, &[], &order(&r)).await;
    }
    pair.replays(&[], &order(&r)).await;
    let bare = Pair::first(&harness, "/orders/~me", &[], &order(&r)).await;
    for path in ["/orders/%7Eme", "/orders/%7eme", "/orders/~me?"] {
        bare.differs_at(path, &[], &order(&r)).await;
    }
    assert_eq!(harness.effects(&r).await, 2);
}

async fn t36_another_spelling_of_a_path_never_replays(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let pair = Pair::first(&harness, "/orders", &[], &order(&r)).await;
    for path in ["/orders/", "//orders", "/x/../orders", "/%6frders", "/orders/.", "/Orders"] {
        let reply = pair.send(path, &[], &order(&r)).await;
        assert!([400, 404, 422].contains(&reply.status), "{path}: {}", reply.status);
        assert!(!reply.is_replay(), "{path}");
    }
    assert_eq!((harness.effects(&r).await, harness.calls()), (1, 1));
}

async fn p21_t37_b68_the_media_type_counts(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let body = order(&r);
    let json = [("content-type", "application/json")];
    let pair = Pair::first(&harness, "/orders", &json, &body).await;
    for same in [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        "application/json; charset=UTF-8",
        "application/json; Charset=\"utf-8\"",
    ] {
        pair.replays(&[("content-type", same)], &body).await;
    }
    for other in [
        "application/x-www-form-urlencoded",
        "text/plain",
        "text/plain; charset=utf-8",
        "application/json; charset=iso-8859-1",
        "application/json; version=2",
        "application/vnd.orders+json",
        "",
    ] {
        pair.differs(&[("content-type", other)], &body).await;
    }
    assert_eq!(harness.effects(&r).await, 1);
}

async fn p21_t38_b68_the_encoding_counts(which: Which) {
    let harness = Harness::start(which).await;
    let body = order("none");
    let packed = super::harness::gzip(body.as_bytes());
    let key = fresh("key");
    let send = async |headers: &[(&str, &str)], body: &[u8]| {
        let mut all = vec![("idempotency-key", key.as_str())];
        all.extend_from_slice(headers);
        harness.send("POST", "/orders", &all, body).await
    };
    let gzip = [("content-encoding", "gzip")];
    assert_eq!(send(&gzip, &packed).await.status, 201);
    assert!(send(&gzip, &packed).await.is_replay());
    assert!(send(&[("content-encoding", "GZIP")], &packed).await.is_replay());
    assert_eq!(send(&[], body.as_bytes()).await.status, 422);
    assert_eq!(send(&[], &packed).await.status, 422);
    assert_eq!(send(&gzip, body.as_bytes()).await.status, 422);
    assert_eq!(send(&[("content-encoding", "br")], &packed).await.status, 422);
    assert_eq!(harness.calls(), 1);
    // Without an encoding is the same as with the one that does nothing.
    let r = fresh("ref");
    let pair = Pair::first(&harness, "/orders", &[], &order(&r)).await;
    pair.replays(&[("content-encoding", "identity")], &order(&r)).await;
    pair.differs(&[("content-encoding", "gzip")], &order(&r)).await;
}

async fn p21_t39_semantic_headers_count(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let body = order(&r);
    let pair = Pair::first(&harness, "/semantic", &[("on-behalf-of", "anna")], &body).await;
    pair.replays(&[("On-Behalf-Of", "anna")], &body).await;
    pair.differs(&[("on-behalf-of", "bert")], &body).await;
    pair.differs(&[("on-behalf-of", "Anna")], &body).await;
    pair.differs(&[("on-behalf-of", "anna"), ("on-behalf-of", "bert")], &body).await;
    pair.differs(&[], &body).await;
    assert_eq!(harness.effects(&r).await, 1);
    // On a route that does not name it, it does not count.
    let pair = Pair::first(&harness, "/orders", &[("on-behalf-of", "anna")], &body).await;
    pair.replays(&[("on-behalf-of", "bert")], &body).await;
}

async fn t40_what_changes_between_retries_does_not_count(which: Which) {
    let harness = Harness::start(which).await;
    for path in ["/orders", "/bound"] {
        let r = fresh("ref");
        let body = order(&r);
        let one = [("user-agent", "shop/1.0"), ("traceparent", "00-1-1-01")];
        let pair = Pair::first(&harness, path, &one, &body).await;
        let other = [
            ("user-agent", "shop/1.1"),
            ("traceparent", "00-2-2-00"),
            ("accept-encoding", "gzip"),
            ("x-request-id", "2"),
            ("cookie", "a=b"),
            ("authorization", "Bearer a1-rotated"),
        ];
        pair.replays(&other, &body).await;
        assert_eq!(harness.effects(&r).await, 1);
    }
}

async fn p21_t41_b83_the_method_counts(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let headers = [("idempotency-key", key.as_str())];
    let put = harness.send("PUT", "/orders/1", &headers, order(&r)).await;
    assert_eq!((put.status, put.is_replay()), (201, false));
    for method in ["POST", "PATCH", "DELETE", "put"] {
        let other = harness.send(method, "/orders/1", &headers, order(&r)).await;
        assert_eq!((other.status, other.is_replay()), (422, false), "{method}");
    }
    assert!(harness.send("PUT", "/orders/1", &headers, order(&r)).await.is_replay());
    assert_eq!(harness.effects(&r).await, 1);
}

/// A version that sees every request otherwise than the first one did.
fn version_2() -> Algorithm {
    fn digest(request: &Request<'_>, form: BodyForm) -> Digest {
        let Digest { mut request_sha, mut frame_sha } = (V1.digest)(request, form);
        request_sha.reverse();
        frame_sha.reverse();
        Digest { request_sha, frame_sha }
    }
    Algorithm { version: Version(2), digest }
}

async fn p22_t42_a_record_outlives_an_upgrade(which: Which) {
    let old = Harness::start(which).await;
    let table = Algorithms::new(version_2(), [V1]).unwrap();
    let new = old.another_with(Setup::default().algorithms(table), |_| {}).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let first = old.post("/orders", &key, &order(&r)).await;
    assert_eq!(first.status, 201);
    let after = new.post("/orders", &key, &order(&r)).await;
    assert!(after.is_replay());
    after.assert_same(&first);
    assert_eq!(new.post("/orders", &key, "{}").await.status, 422);
    // What the new release wrote, it replays, and the old one, still running somewhere, neither
    // replays nor runs: it cannot compare.
    let (key, r) = (fresh("key"), fresh("ref"));
    assert_eq!(new.post("/orders", &key, &order(&r)).await.status, 201);
    assert!(new.post("/orders", &key, &order(&r)).await.is_replay());
    for body in [order(&r), "{}".to_owned()] {
        let reply = old.post("/orders", &key, &body).await;
        let found = (reply.status, reply.code());
        assert_eq!(found, (503, Some("samekey.store-unavailable".to_owned())));
    }
    assert_eq!(old.effects(&r).await, 1);
}

async fn p04_b91_another_amount_is_refused(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let with = |amount: u32| format!(r#"{{"ref":"{r}","amount":{amount}}}"#);
    let pair = Pair::first(&harness, "/orders", &[], &with(10)).await;
    pair.differs(&[], &with(20)).await;
    pair.replays(&[], &with(10)).await;
    assert_eq!(harness.effects(&r).await, 1);
}

async fn first_write_wins_forgives_another_body_only(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let (key, body) = (fresh("key"), order(&r));
    let headers = [("idempotency-key", key.as_str())];
    let first = harness.send("POST", "/first-wins", &headers, body.clone()).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    for other in [body.clone(), body.replace('1', "9"), "not even JSON".to_owned()] {
        let again = harness.send("POST", "/first-wins", &headers, other).await;
        assert_eq!((again.status, again.is_replay()), (200, true));
        assert_eq!(again.body, first.body);
    }
    for path in ["/first-wins?x=1", "/orders"] {
        let other = harness.send("POST", path, &headers, body.clone()).await;
        assert_eq!((other.status, other.is_replay()), (422, false), "{path}");
    }
    let typed = [("idempotency-key", key.as_str()), ("content-type", "text/plain")];
    assert_eq!(harness.send("POST", "/first-wins", &typed, body).await.status, 422);
    assert_eq!(harness.effects(&r).await, 1);
}
