//! Organisations: each has its own keys, and nobody says which one it is without proof.

use crate::backend::{Backend, Reply, answer};
use crate::client::{Ask, exchange};
use crate::world::{Kind, World, on_both};

/// Tokens a1 and a2 of principals of alpha, b1 of beta; `printf %s a1 | sha256sum`.
const TOKENS: &str = "
[[token]]
sha256 = \"f55ff16f66f43360266b95db6f8fec01d76031054306ae4a4b380598f6cfd114\"
org = \"alpha\"
principal = \"one\"
[[token]]
sha256 = \"2c3a4249d77070058649dbd822dcaf7957586fce428cfb2ca88b94741eda8b07\"
org = \"alpha\"
principal = \"two\"
[[token]]
sha256 = \"7dc96f776c8423e57a2785489a3f9c43fb6e756876d6ad9a9cac4aa4e72ec193\"
org = \"beta\"
";

async fn telling() -> Backend {
    Backend::playing(|seen, number| {
        let org = seen.one("x-org").unwrap_or("none");
        let body = format!("canary of {org}, effect {number}");
        Reply::Bytes(answer("201 Created", &[], body.as_bytes()))
    })
    .await
}

fn by(token: &str) -> Ask {
    Ask::post("/orders", "k", r#"{"ref":"r1"}"#).header(&format!("Authorization: Bearer {token}"))
}

async fn t85_b13_two_organisations_never_meet_and_credentials_rotate(kind: Kind) {
    let world = World::with(kind, telling().await, TOKENS).await;
    let alpha = world.send(&by("a1")).await;
    assert_eq!(alpha.text(), "canary of alpha, effect 1");
    let beta = world.send(&by("b1").header("X-Org: alpha")).await;
    assert_eq!(beta.text(), "canary of beta, effect 2");
    let rotated = world.send(&by("a2")).await;
    assert!(rotated.is_replay());
    assert_eq!(rotated.text(), alpha.text());
    assert_eq!(world.send(&by("b1")).await.text(), beta.text());
    let seen = world.backend.seen();
    let keys: Vec<_> = seen.iter().map(|seen| seen.one("idempotency-key").unwrap()).collect();
    assert_ne!(keys[0], keys[1], "t108: the upstream is told two keys");
    assert!(keys.iter().all(|key| !key.contains('k')), "{keys:?}");
}

async fn t86_another_principal_is_another_request_where_the_route_says_so(kind: Kind) {
    let settings = format!("[default]\nbind_principal = true\n{TOKENS}");
    let world = World::with(kind, telling().await, &settings).await;
    assert_eq!(world.send(&by("a1")).await.status, 201);
    let other = world.send(&by("a2")).await;
    assert_eq!((other.status, other.code().as_str()), (422, "samekey.key-reused"));
    assert!(world.send(&by("a1")).await.is_replay());
    assert_eq!(world.backend.effects(), 1);
}

async fn t87_b14_without_a_known_token_nothing_is_looked_up(kind: Kind) {
    let world = World::with(kind, telling().await, TOKENS).await;
    assert_eq!(world.send(&by("a1")).await.status, 201);
    for ask in [by("other"), Ask::post("/orders", "k", r#"{"ref":"r1"}"#), Ask::new("GET", "/")] {
        let refused = world.send(&ask).await;
        assert_eq!((refused.status, refused.code().as_str()), (401, "samekey.unauthenticated"));
        assert_eq!(refused.one("www-authenticate"), Some("Bearer"));
        assert!(!refused.text().contains("canary"));
    }
    // Nor is a body asked for.
    let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let refused = exchange(world.gateway.address, head.as_bytes()).await;
    assert!(refused.starts_with(b"HTTP/1.1 401"), "{}", String::from_utf8_lossy(&refused));
    assert!(world.send(&by("a1")).await.is_replay());
    assert_eq!(world.backend.effects(), 1);
}

async fn t85_t87_b13_b14_organisations_by_signed_tokens(kind: Kind) {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pair.public_key_pem()).unwrap();
    let settings = format!(
        "[jwt]\nkey = {:?}\norg_claim = \"tenant\"\nprincipal_claim = \"sub\"\naudience = \"shop\"\n",
        file.path().display().to_string()
    );
    let world = World::with(kind, telling().await, &settings).await;
    let pem = pair.serialize_pem();
    let by = |org: &str, sub: &str, lasts: i64| {
        let now = i64::try_from(jsonwebtoken::get_current_timestamp()).unwrap();
        let claims =
            serde_json::json!({"tenant": org, "sub": sub, "aud": "shop", "exp": now + lasts});
        let key = jsonwebtoken::EncodingKey::from_ed_pem(pem.as_bytes()).unwrap();
        let header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::EdDSA);
        by(&jsonwebtoken::encode(&header, &claims, &key).unwrap())
    };
    let alpha = world.send(&by("alpha", "one", 60)).await;
    assert_eq!(alpha.text(), "canary of alpha, effect 1");
    let beta = world.send(&by("beta", "one", 60).header("X-Org: alpha")).await;
    assert_eq!(beta.text(), "canary of beta, effect 2");
    let newer = world.send(&by("alpha", "two", 600)).await;
    assert_eq!((newer.is_replay(), newer.text()), (true, alpha.text()));
    for (ask, challenge) in [
        (by("alpha", "one", -60), "Bearer error=\"invalid_token\""),
        (by("", "one", 60), "Bearer error=\"invalid_token\""),
        (self::by("a.b.c"), "Bearer error=\"invalid_token\""),
        (Ask::post("/orders", "k", r#"{"ref":"r1"}"#), "Bearer"),
    ] {
        let refused = world.send(&ask).await;
        assert_eq!((refused.status, refused.code().as_str()), (401, "samekey.unauthenticated"));
        assert_eq!(refused.one("www-authenticate"), Some(challenge));
        assert!(!refused.text().contains("canary"));
    }
    assert_eq!(world.backend.effects(), 2);
}

async fn t90_b49_a_header_names_the_organisation_only_through_a_trusted_proxy(kind: Kind) {
    let named = |org: &str| Ask::post("/orders", "k", "{}").header(&format!("X-Org: {org}"));
    let trusted = "trusted_proxies = [\"127.0.0.0/8\"]\n";
    let world = World::with(kind, telling().await, trusted).await;
    assert_eq!(world.send(&named("alpha")).await.text(), "canary of alpha, effect 1");
    let through = named("beta").header("X-Forwarded-For: 10.0.0.9");
    assert_eq!(world.send(&through).await.text(), "canary of beta, effect 2");
    assert_eq!(world.backend.seen()[1].one("x-forwarded-for"), Some("10.0.0.9, 127.0.0.1"));
    // Nobody has it taken away as a header of the connection, or says it in another spelling.
    let sly = Ask::post("/orders", "k2", "{}")
        .header("X-Org: alpha")
        .header("Connection: X-Org, X-Forwarded-For, X-Forwarded-Proto")
        .header("X_Org: beta")
        .header("X_Forwarded_Host: elsewhere");
    assert_eq!(world.send(&sly).await.text(), "canary of alpha, effect 3");
    let seen = &world.backend.seen()[2];
    assert_eq!((seen.one("x-org"), seen.one("x_org")), (Some("alpha"), None));
    assert_eq!(seen.one("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(seen.one("x-forwarded-proto"), Some("http"));
    assert_eq!(world.send(&Ask::post("/orders", "k", "{}")).await.code(), "samekey.unidentified");
    let elsewhere = "trusted_proxies = [\"10.0.0.0/8\"]\n";
    let world = World::with(kind, telling().await, elsewhere).await;
    let refused = world.send(&named("alpha").header("X-Forwarded-For: 10.0.0.1")).await;
    assert_eq!((refused.status, refused.code().as_str()), (401, "samekey.unidentified"));
    assert_eq!(world.backend.effects(), 0);
}

async fn the_callers_key_is_sent_on_only_where_a_route_says_so(kind: Kind) {
    let settings = "[default]\noutbound_key = \"same\"\n";
    let world = World::with(kind, telling().await, settings).await;
    for key in ["\"k-1\"", "\"k 2\""] {
        assert_eq!(world.send(&Ask::post("/orders", key, "{}")).await.status, 201);
    }
    let seen = world.backend.seen();
    assert_eq!(seen[0].one("idempotency-key"), Some("k-1"));
    assert_eq!(seen[1].one("idempotency-key"), Some("\"k 2\""));
}

on_both!(
    t85_b13_two_organisations_never_meet_and_credentials_rotate,
    t86_another_principal_is_another_request_where_the_route_says_so,
    t87_b14_without_a_known_token_nothing_is_looked_up,
    t85_t87_b13_b14_organisations_by_signed_tokens,
    t90_b49_a_header_names_the_organisation_only_through_a_trusted_proxy,
    the_callers_key_is_sent_on_only_where_a_route_says_so,
);
