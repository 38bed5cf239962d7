//! C2: what is a key, what is none, and what happens then.

use super::harness::wire::order_under;
use super::harness::{Harness, Which, fresh, on_both, order};

on_both!(
    p20_t17_b23_quoted_and_bare_are_one_key,
    p20_t18_to_t26_b23_what_is_not_one_key_runs_nothing,
    p20_t23_b92_a_long_key_is_never_cut,
    t27_b92_keys_are_compared_byte_by_byte,
    t28_a_key_is_opaque,
    t29_b88_a_key_elsewhere_is_no_key,
    b82_b88_wanted_repetitions_without_a_key_all_run,
);

async fn p20_t17_b23_quoted_and_bare_are_one_key(which: Which) {
    let harness = Harness::start(which).await;
    let (key, reference) = (fresh("abc-0123456789abcdef"), fresh("ref"));
    let body = order(&reference);
    let first = order_under(harness.address, &[format!("\"{key}\"").as_bytes()], &body).await;
    let first = first.unwrap();
    assert_eq!((first.status, first.is_replay()), (201, false));
    for form in [key.clone(), format!("\"{key}\""), format!("  {key}\t"), format!("\t \"{key}\"  ")]
    {
        let again = order_under(harness.address, &[form.as_bytes()], &body).await.unwrap();
        assert!(again.is_replay(), "{form:?}");
        again.assert_same(&first);
    }
    assert_eq!(harness.effects(&reference).await, 1);
    // An escape inside quotes is part of the key's spelling, not of the key.
    let (escaped, reference) = (br#""a\"b\\c""#, fresh("ref"));
    let body = order(&reference);
    assert_eq!(order_under(harness.address, &[escaped], &body).await.unwrap().status, 201);
    let again = order_under(harness.address, &[escaped], &body).await.unwrap();
    assert!(again.is_replay());
    assert_eq!(again.header("idempotency-key"), Some(r#""a\"b\\c""#));
}

async fn p20_t18_to_t26_b23_what_is_not_one_key_runs_nothing(which: Which) {
    let harness = Harness::start(which).await;
    let reference = fresh("ref");
    let too_long = "k".repeat(256);
    let too_long_quoted = format!("\"{too_long}\"");
    let lines: &[(&str, &[&[u8]])] = &[
        ("t18 empty", &[b""]),
        ("t18 empty quotes", &[b"\"\""]),
        ("t18 blanks", &[b"    "]),
        ("t18 quoted blanks", &[b"\"   \""]),
        ("t19 two lines, different", &[b"abc", b"xyz"]),
        ("t19 two lines, equal", &[b"abc", b"abc"]),
        ("t19 two lines, one empty", &[b"", b"abc"]),
        ("t20 list", &[b"a, b"]),
        ("t20 list of strings", &[b"\"a\", \"b\""]),
        ("t22 parameter", &[b"\"abc\";v=1"]),
        ("t22 bare parameter", &[b"abc;v=1"]),
        ("t23 256 characters", &[too_long.as_bytes()]),
        ("t23 256 characters quoted", &[too_long_quoted.as_bytes()]),
        ("t24 UTF-8", &["schlüssel".as_bytes()]),
        ("t24 UTF-8 quoted", &["\"schlüssel\"".as_bytes()]),
        ("t24 emoji", &["\u{1F511}".as_bytes()]),
        ("t24 0xFF", &[b"abc\xFFdef"]),
        ("t25 tab inside", &[b"abc\tdef"]),
        ("t25 tab inside quotes", &[b"\"abc\tdef\""]),
        ("t26 unterminated", &[b"\"unterminated"]),
        ("t26 bad escape", &[br#""bad\escape""#]),
        ("t26 quote inside", &[b"a\"b"]),
        ("text after the quote", &[b"\"abc\"def"]),
        ("blank inside", &[b"abc def"]),
    ];
    for (name, keys) in lines {
        let reply = order_under(harness.address, keys, &order(&reference)).await.unwrap();
        let found = (reply.status, reply.code());
        assert_eq!(found, (400, Some("samekey.key-invalid".to_owned())), "{name}");
        assert_eq!(reply.header("idempotency-key"), None, "{name}");
        let shown = String::from_utf8(reply.body.clone()).unwrap();
        assert!(!shown.contains("kkkk") && !shown.contains("xyz"), "{name}: {shown}");
    }
    // Where a key is optional, one that cannot be read is no reason to run without protection.
    for key in ["\"unterminated", "a, b", "\"abc\";v=1", "", "a b"] {
        let headers = [("idempotency-key", key)];
        let reply = harness.send("POST", "/optional", &headers, order(&reference)).await;
        assert_eq!(reply.code().as_deref(), Some("samekey.key-invalid"), "{key:?}");
    }
    // T-25: what HTTP itself does not allow in a header never reaches the library.
    for (name, key) in [
        ("t25 NUL", &b"abc\0def"[..]),
        ("t25 bare CR", b"abc\rX-Org: B"),
        ("t25 folded line", b"abc\r\n def"),
        ("t25 DEL", b"abc\x7Fdef"),
    ] {
        let reply = order_under(harness.address, &[key], &order(&reference)).await;
        assert!(reply.is_none_or(|reply| reply.status == 400), "{name}");
    }
    assert_eq!((harness.effects(&reference).await, harness.calls()), (0, 0));
    assert_eq!(harness.rows_in_state("done").await, 0);
}

async fn p20_t23_b92_a_long_key_is_never_cut(which: Which) {
    let harness = Harness::start(which).await;
    let reference = fresh("ref");
    let longest = fresh("key") + &"k".repeat(300);
    let (longest, other) = (&longest[..255], format!("{}x", &longest[..254]));
    assert_eq!(harness.post("/orders", longest, &order(&reference)).await.status, 201);
    assert!(harness.post("/orders", longest, &order(&reference)).await.is_replay());
    // Equal but for the last character: another action.
    let another = harness.post("/orders", &other, &order(&reference)).await;
    assert_eq!((another.status, another.is_replay()), (201, false));
    // Two that are equal in the first 255 characters are both refused.
    for end in ["a", "b"] {
        let reply = harness.post("/orders", &format!("{longest}{end}"), &order(&reference)).await;
        assert_eq!(reply.code().as_deref(), Some("samekey.key-invalid"));
    }
    assert_eq!(harness.effects(&reference).await, 2);
}

async fn t27_b92_keys_are_compared_byte_by_byte(which: Which) {
    let harness = Harness::start(which).await;
    let reference = fresh("ref");
    let small = fresh("k1");
    let capital = small.to_uppercase();
    let forms = [
        small.clone(),
        capital,
        format!("\"{small} \""),
        format!("\" {small}\""),
        format!("\"{small}  \""),
        format!("{small}%20"),
    ];
    for (before, key) in forms.iter().enumerate() {
        let reply = harness.post("/orders", key, &order(&reference)).await;
        assert_eq!((reply.status, reply.is_replay()), (201, false), "{key:?}");
        assert_eq!(harness.effects(&reference).await, u64::try_from(before).unwrap() + 1);
    }
    for key in &forms {
        assert!(harness.post("/orders", key, &order(&reference)).await.is_replay(), "{key:?}");
    }
}

async fn t28_a_key_is_opaque(which: Which) {
    let harness = Harness::start(which).await;
    for key in [
        "\"'; DROP TABLE effects;--\"",
        "\"'; DROP TABLE samekey_keys;--\"",
        "\"'; DROP SCHEMA samekey CASCADE;--\"",
        "\"%00\"",
        "\"../../etc\"",
        "\"<script>alert(1)</script>\"",
        "\"$1\"",
        "\"a,b;c=d\"",
        r#""\\""#,
    ] {
        let reference = fresh("ref");
        let first = harness.post("/orders", key, &order(&reference)).await;
        assert_eq!((first.status, first.is_replay()), (201, false), "{key}");
        assert!(harness.post("/orders", key, &order(&reference)).await.is_replay(), "{key}");
        assert_eq!(harness.effects(&reference).await, 1, "{key}");
    }
}

async fn t29_b88_a_key_elsewhere_is_no_key(which: Which) {
    let harness = Harness::start(which).await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    let in_body =
        format!(r#"{{"ref":"{reference}","idempotency_key":"{key}","Idempotency-Key":"{key}"}}"#);
    let in_query = format!("/orders?idempotency_key={key}&Idempotency-Key={key}");
    for (path, headers) in [
        (in_query.as_str(), vec![]),
        ("/orders", vec![]),
        ("/orders", vec![("x-idempotency-key", key.as_str())]),
    ] {
        let reply = harness.send("POST", path, &headers, in_body.clone()).await;
        assert_eq!(reply.code().as_deref(), Some("samekey.key-missing"), "{path} {headers:?}");
    }
    assert_eq!(harness.effects(&reference).await, 0);
}

async fn b82_b88_wanted_repetitions_without_a_key_all_run(which: Which) {
    let harness = Harness::start(which).await;
    let reference = fresh("ref");
    // Nobody invents a key for two equal orders, not even from a member of the body.
    let body = format!(r#"{{"ref":"{reference}","amount":1,"idempotency_key":"k"}}"#);
    for effects in 1..=2 {
        let reply = harness.send("POST", "/optional", &[], body.clone()).await;
        assert_eq!((reply.status, reply.header("idempotency-key")), (201, None));
        assert_eq!(harness.effects(&reference).await, effects);
    }
    // One with a key among them leaves nothing behind for the next one without.
    let key = fresh("key");
    assert_eq!(harness.post("/optional", &key, &body).await.status, 201);
    let reply = harness.send("POST", "/optional", &[], body.clone()).await;
    assert_eq!((reply.status, reply.is_replay()), (201, false));
    assert_eq!(harness.effects(&reference).await, 4);
}
