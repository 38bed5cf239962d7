//! Organisations by JSON Web Tokens (RFC 7519): whose a request is stands in a token that somebody else has signed.
//!
//! Only public keys are taken, and which algorithms may sign follows from the key, never from the token: so
//! neither `none` nor a shared secret made of the public key (RFC 8725, sections 3.1 and 3.2) is ever tried. It
//! fetches no keys: they are read when the gateway starts.

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation, decode, decode_header};
use samekey::Caller;
use samekey_core::key::Org;
use serde_json::{Map, Value};
use std::sync::Arc;

/// So far may the clocks of issuer and gateway run apart, in seconds.
const LEEWAY_S: u64 = 30;
/// How many keys one file may have: an issuer that rotates has two or three.
const KEYS_MAX: usize = 64;

/// A key, with the checks of a token that it has signed.
struct Signer {
    id: Option<String>,
    key: DecodingKey,
    validation: Validation,
}

/// Which claims say whose a request is, and which have to be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) org: String,
    pub(crate) principal: Option<String>,
    pub(crate) audience: Option<String>,
    pub(crate) issuer: Option<String>,
}

/// Verifies tokens. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Verifier(Arc<(Vec<Signer>, Claims)>);

impl Verifier {
    /// A verifier with the keys in this text, a PEM or a set of JWKs; or what is wrong with it.
    pub(crate) fn new(text: &str, claims: Claims) -> Result<Verifier, String> {
        let signers = if text.trim_start().starts_with('{') {
            of_set(text, &claims)?
        } else {
            let (key, algorithms) = of_pem(text)?;
            vec![Signer { id: None, key, validation: claims.validation(algorithms) }]
        };
        if signers.len() > KEYS_MAX {
            return Err(format!("there are more than {KEYS_MAX} keys; leave only those in use"));
        }
        Ok(Verifier(Arc::new((signers, claims))))
    }

    /// Who has this token; nothing where it proves nothing.
    pub(crate) fn caller(&self, token: &str) -> Option<Caller> {
        let (signers, claims) = &*self.0;
        let header = decode_header(token).ok()?;
        let signer = match (&header.kid, signers.as_slice()) {
            (_, [only]) if only.id.is_none() => only,
            (None, [only]) => only,
            (Some(id), signers) => signers.iter().find(|it| it.id.as_ref() == Some(id))?,
            (None, _) => return None,
        };
        let told = match decode::<Map<String, Value>>(token, &signer.key, &signer.validation) {
            Ok(told) => told.claims,
            Err(error) => {
                // The kind of the error has words of its own, and none of the token's.
                tracing::debug!(why = ?error.kind(), "a token is refused");
                return None;
            }
        };
        // An issuer is one text (RFC 7519, section 4.1.1); the library takes a list that has ours in it.
        if told.get("iss").is_some_and(|issuer| !issuer.is_string()) {
            return None;
        }
        let word = |name: &String| told.get(name).and_then(Value::as_str);
        let org = Org::new(word(&claims.org)?).ok()?;
        let principal = match &claims.principal {
            None => None,
            Some(name) => Some(word(name)?.to_owned()),
        };
        Some(Caller { org, principal })
    }
}

impl Claims {
    fn validation(&self, algorithms: Vec<Algorithm>) -> Validation {
        let mut validation = Validation { algorithms, ..Validation::new(Algorithm::EdDSA) };
        validation.leeway = LEEWAY_S;
        validation.validate_nbf = true;
        let mut required = vec!["exp"];
        if let Some(issuer) = &self.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        if let Some(audience) = &self.audience {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        validation
    }
}

/// A public key in PEM, and what may be signed with its like.
fn of_pem(text: &str) -> Result<(DecodingKey, Vec<Algorithm>), String> {
    if text.contains("PRIVATE KEY") {
        return Err(
            "it holds a private key, which belongs to the issuer alone; write its public key"
                .to_owned(),
        );
    }
    let bytes = text.as_bytes();
    if let Ok(key) = DecodingKey::from_rsa_pem(bytes) {
        return Ok((key, of_family(AlgorithmFamily::Rsa)));
    }
    if let Ok(key) = DecodingKey::from_ec_pem(bytes) {
        return Ok((key, of_family(AlgorithmFamily::Ec)));
    }
    match DecodingKey::from_ed_pem(bytes) {
        Ok(key) => Ok((key, of_family(AlgorithmFamily::Ed))),
        Err(_) => Err(
            "it holds no public key that can be read; expected a PEM with BEGIN PUBLIC KEY (RSA, P-256, P-384 or Ed25519), or a set of JWKs"
                .to_owned(),
        ),
    }
}

fn of_family(family: AlgorithmFamily) -> Vec<Algorithm> {
    family.algorithms().to_vec()
}

fn of_set(text: &str, claims: &Claims) -> Result<Vec<Signer>, String> {
    let set: JwkSet = serde_json::from_str(text).map_err(|_| {
        "it is JSON and no set of JWKs; expected {\"keys\": [{\"kty\": …}]}".to_owned()
    })?;
    let mut signers: Vec<Signer> = Vec::new();
    for jwk in &set.keys {
        let Some(algorithms) = algorithms_of(jwk)? else { continue };
        let key = DecodingKey::from_jwk(jwk).map_err(|_| {
            "one of its keys cannot be read; ask its issuer for the set as it is published"
                .to_owned()
        })?;
        let id = jwk.common.key_id.clone();
        if signers.iter().any(|other| other.id == id) {
            return Err("two of its keys have the same kid, or none; each needs its own".to_owned());
        }
        signers.push(Signer { id, key, validation: claims.validation(algorithms) });
    }
    if signers.is_empty() {
        return Err("it holds no key that signs; expected RSA, EC or OKP keys".to_owned());
    }
    Ok(signers)
}

/// What may be signed with a key of a set; nothing where it is for something else.
fn algorithms_of(jwk: &Jwk) -> Result<Option<Vec<Algorithm>>, String> {
    if jwk.common.public_key_use == Some(PublicKeyUse::Encryption) {
        return Ok(None);
    }
    let all = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => of_family(AlgorithmFamily::Rsa),
        AlgorithmParameters::EllipticCurve(_) => of_family(AlgorithmFamily::Ec),
        AlgorithmParameters::OctetKeyPair(_) => of_family(AlgorithmFamily::Ed),
        AlgorithmParameters::OctetKey(_) => {
            return Err(
                "it holds a shared secret (kty oct): whoever can check such tokens can make them; use a key pair"
                    .to_owned(),
            );
        }
        AlgorithmParameters::Other(_) => return Ok(None),
        // A later release of the library may know more.
        _ => return Ok(None),
    };
    Ok(match &jwk.common.key_algorithm {
        None => Some(all),
        Some(named) => {
            let named = Algorithm::try_from(*named).ok();
            let named: Vec<_> = all.into_iter().filter(|it| Some(*it) == named).collect();
            // A key for encryption says so here as well.
            (!named.is_empty()).then_some(named)
        }
    })
}

#[cfg(test)]
mod tests;
