use super::{Claims, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, encode, get_current_timestamp};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use rcgen::{PKCS_RSA_SHA256, RsaKeySize, SignatureAlgorithm};
use serde_json::{Value, json};

fn claims() -> Claims {
    Claims {
        org: "https://shop.example/org".to_owned(),
        principal: Some("sub".to_owned()),
        audience: Some("payments".to_owned()),
        issuer: Some("https://id.example".to_owned()),
    }
}

fn good() -> Value {
    json!({
        "https://shop.example/org": "alpha",
        "sub": "one",
        "aud": ["other", "payments"],
        "iss": "https://id.example",
        "exp": get_current_timestamp() + 60,
        "nbf": get_current_timestamp(),
    })
}

fn pair(algorithm: &'static SignatureAlgorithm) -> KeyPair {
    if algorithm == &PKCS_RSA_SHA256 {
        return KeyPair::generate_rsa_for(algorithm, RsaKeySize::_2048).unwrap();
    }
    KeyPair::generate_for(algorithm).unwrap()
}

fn signing(pair: &KeyPair, algorithm: Algorithm) -> EncodingKey {
    let pem = pair.serialize_pem();
    let key = if algorithm == Algorithm::EdDSA {
        EncodingKey::from_ed_pem(pem.as_bytes())
    } else if [Algorithm::ES256, Algorithm::ES384].contains(&algorithm) {
        EncodingKey::from_ec_pem(pem.as_bytes())
    } else {
        EncodingKey::from_rsa_pem(pem.as_bytes())
    };
    key.unwrap()
}

fn signed(pair: &KeyPair, algorithm: Algorithm, kid: Option<&str>, claims: &Value) -> String {
    let mut header = Header::new(algorithm);
    header.kid = kid.map(str::to_owned);
    encode(&header, claims, &signing(pair, algorithm)).unwrap()
}

fn jwk(pair: &KeyPair, algorithm: Algorithm, kid: &str) -> Value {
    let pem = pair.public_key_pem();
    let key = match algorithm == Algorithm::EdDSA {
        true => DecodingKey::from_ed_pem(pem.as_bytes()),
        false => DecodingKey::from_ec_pem(pem.as_bytes()),
    };
    let mut jwk =
        jsonwebtoken::jwk::Jwk::from_decoding_key(&key.unwrap(), Some(algorithm)).unwrap();
    jwk.common.key_id = Some(kid.to_owned());
    serde_json::to_value(jwk).unwrap()
}

fn who(verifier: &Verifier, token: &str) -> Option<(String, Option<String>)> {
    let caller = verifier.caller(token)?;
    Some((caller.org.as_str().to_owned(), caller.principal))
}

#[test]
fn b14_a_token_of_the_key_speaks_for_its_organisation() {
    for (algorithm, signs) in [
        (&PKCS_ED25519, Algorithm::EdDSA),
        (&PKCS_ECDSA_P256_SHA256, Algorithm::ES256),
        (&PKCS_ECDSA_P384_SHA384, Algorithm::ES384),
        (&PKCS_RSA_SHA256, Algorithm::RS256),
        (&PKCS_RSA_SHA256, Algorithm::PS512),
    ] {
        let key = pair(algorithm);
        let verifier = Verifier::new(&key.public_key_pem(), claims()).unwrap();
        let expected = Some(("alpha".to_owned(), Some("one".to_owned())));
        assert_eq!(who(&verifier, &signed(&key, signs, None, &good())), expected, "{signs:?}");
        let other = pair(algorithm);
        assert_eq!(who(&verifier, &signed(&other, signs, None, &good())), None, "{signs:?}");
    }
}

#[test]
fn b14_no_token_chooses_how_it_is_checked() {
    let key = pair(&PKCS_RSA_SHA256);
    let pem = key.public_key_pem();
    let verifier = Verifier::new(&pem, claims()).unwrap();
    let token = signed(&key, Algorithm::RS256, None, &good());
    let (head, rest) = token.split_once('.').unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    // {"alg":"none"}, with and without a signature.
    for none in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJOT05FIiwidHlwIjoiSldUIn0"] {
        for signature in ["", signature] {
            assert_eq!(who(&verifier, &format!("{none}.{body}.{signature}")), None);
        }
    }
    // The public key taken for a shared secret, in its text and in its bytes.
    let der = DecodingKey::from_rsa_pem(pem.as_bytes()).unwrap();
    for secret in [pem.as_bytes(), der.try_get_as_bytes().unwrap_or(b"x"), key.public_key_raw()] {
        for algorithm in [Algorithm::HS256, Algorithm::HS512] {
            let key = EncodingKey::from_secret(secret).unwrap();
            let token = encode(&Header::new(algorithm), &good(), &key).unwrap();
            assert_eq!(who(&verifier, &token), None, "{algorithm:?}");
        }
    }
    for broken in [
        format!("{head}.{body}"),
        format!("{head}.{body}."),
        format!("{head}.{body}.{}", signature.chars().rev().collect::<String>()),
        format!("{head}.{}.{signature}", body.replacen('a', "b", 1)),
        String::new(),
        "..".to_owned(),
        token.replace('.', " "),
    ] {
        assert_eq!(who(&verifier, &broken), None, "{broken}");
    }
    assert!(who(&verifier, &token).is_some());
}

#[test]
fn b14_a_claim_that_is_not_true_or_not_there_is_no_proof() {
    let key = pair(&PKCS_ED25519);
    let verifier = Verifier::new(&key.public_key_pem(), claims()).unwrap();
    let now = get_current_timestamp();
    for (claim, value) in [
        ("exp", json!(now - 60)),
        ("exp", json!("tomorrow")),
        ("exp", Value::Null),
        ("nbf", json!(now + 60)),
        ("aud", json!("other")),
        ("aud", Value::Null),
        ("iss", json!("https://evil.example")),
        ("iss", Value::Null),
        ("iss", json!(["https://id.example"])),
        ("iss", json!(["https://evil.example", "https://id.example"])),
        ("sub", json!(7)),
        ("sub", Value::Null),
        ("https://shop.example/org", json!(["alpha"])),
        ("https://shop.example/org", json!("")),
        ("https://shop.example/org", Value::Null),
    ] {
        let mut claims = good();
        claims[claim] = value.clone();
        let token = signed(&key, Algorithm::EdDSA, None, &claims);
        assert_eq!(who(&verifier, &token), None, "{claim}: {value}");
    }
    // Two clocks are never quite the same.
    for (claim, value) in [("exp", now - 10), ("nbf", now + 10)] {
        let mut claims = good();
        claims[claim] = json!(value);
        assert!(who(&verifier, &signed(&key, Algorithm::EdDSA, None, &claims)).is_some());
    }
    // Who names no audience takes no token that is for somebody.
    let loose = Claims { audience: None, issuer: None, principal: None, ..claims() };
    let loose = Verifier::new(&key.public_key_pem(), loose).unwrap();
    assert_eq!(who(&loose, &signed(&key, Algorithm::EdDSA, None, &good())), None);
    let mut plain = good();
    plain["aud"] = Value::Null;
    let token = signed(&key, Algorithm::EdDSA, None, &plain);
    assert_eq!(who(&loose, &token), Some(("alpha".to_owned(), None)));
}

#[test]
fn keys_of_a_set_are_found_by_their_ids() {
    let (old, new) = (pair(&PKCS_ED25519), pair(&PKCS_ECDSA_P256_SHA256));
    let mut secret = json!({"kty": "oct", "kid": "s", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"});
    let (one, two) = (jwk(&old, Algorithm::EdDSA, "old"), jwk(&new, Algorithm::ES256, "new"));
    let set = |keys: &[&Value]| json!({ "keys": keys }).to_string();
    let verifier = Verifier::new(&set(&[&one, &two]), claims()).unwrap();
    let of =
        |pair, algorithm, kid| who(&verifier, &signed(pair, algorithm, kid, &good())).is_some();
    assert!(of(&old, Algorithm::EdDSA, Some("old")));
    assert!(of(&new, Algorithm::ES256, Some("new")));
    for kid in [None, Some("old"), Some("other")] {
        assert!(!of(&new, Algorithm::ES256, kid), "{kid:?}");
    }
    let alone = Verifier::new(&set(&[&one]), claims()).unwrap();
    assert!(who(&alone, &signed(&old, Algorithm::EdDSA, None, &good())).is_some());
    let refused = |keys: &[&Value]| Verifier::new(&set(keys), claims()).err().unwrap();
    assert!(refused(&[&one, &secret]).contains("shared secret"));
    assert!(refused(&[&one, &one]).contains("same kid"));
    assert!(refused(&[]).contains("no key that signs"));
    secret["kty"] = json!("XYZ");
    assert!(refused(&[&secret]).contains("no key that signs"));
}

#[test]
fn what_is_no_public_key_is_refused_with_a_sentence() {
    let key = pair(&PKCS_ED25519);
    for (text, part) in [
        (key.serialize_pem(), "private key"),
        ("{\"a\": 1}".to_owned(), "no set of JWKs"),
        (String::new(), "no public key"),
        ("secret".to_owned(), "no public key"),
    ] {
        let sentence = Verifier::new(&text, claims()).err().unwrap();
        assert!(sentence.contains(part), "{sentence}");
    }
}
