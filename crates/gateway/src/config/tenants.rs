//! The settings that say whose a request is.

use super::one_org;
use super::source::Section;
use crate::error::Error;
use crate::headers;
use crate::identity::{Identity, ORG_HEADER, Token, Way};
use crate::jwt::{Claims, Verifier};
use http::HeaderName;
use ipnet::IpNet;
use samekey::Caller;
use samekey_client::file;
use samekey_core::key::Org;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::path::Path;

const JWT_KEYS: [&str; 5] = ["key", "org_claim", "principal_claim", "audience", "issuer"];
const TOKEN_KEYS: [&str; 3] = ["sha256", "org", "principal"];
/// The largest file with public keys: a set of JWKs may carry the certificates of each.
const KEY_BYTES_MAX: u64 = 1 << 20;

/// One way of `org`, `[[token]]`, `[jwt]` and `trusted_proxies`.
pub(super) fn identity(top: &Section<'_>) -> Result<Identity, Error> {
    let tokens = top.sections("token", &TOKEN_KEYS)?;
    let proxies = top.texts("trusted_proxies")?;
    let jwt = top.section("jwt", &JWT_KEYS)?;
    let way = match (tokens.is_empty(), proxies, jwt) {
        (true, None, None) => None,
        (false, None, None) => Some(Way::Tokens(table(&tokens)?)),
        (true, Some(proxies), None) => Some(Way::Proxy(networks(top, &proxies)?)),
        (true, None, Some(jwt)) => Some(Way::Jwt(verifier(&jwt)?)),
        (_, Some(_), _) => {
            return Err(top.fault(
                "trusted_proxies",
                "and [[token]] or [jwt] both say whose a request is; keep one of them",
            ));
        }
        (false, None, Some(_)) => {
            return Err(
                top.fault("jwt", "and [[token]] both say whose a request is; keep one of them")
            );
        }
    };
    let mut identity = match way {
        None => one_org(top)?,
        Some(way) => Identity { way, org_header: ORG_HEADER },
    };
    if !matches!(identity.way, Way::One(_)) && top.text("org")?.is_some() {
        return Err(top.fault(
            "org",
            "names the one organisation, and tokens or a proxy name others; keep one of them",
        ));
    }
    if let Some(name) = top.text("org_header")? {
        let parsed = HeaderName::from_bytes(name.as_bytes());
        identity.org_header = parsed.ok().filter(|name| !is_taken(name)).ok_or_else(|| {
            top.fault(
                "org_header",
                format!("found {name:?}; expected a header name such as \"x-org\""),
            )
        })?;
    }
    Ok(identity)
}

/// Whether a header has a meaning of its own, so that it cannot name an organisation.
fn is_taken(name: &HeaderName) -> bool {
    *name == http::header::AUTHORIZATION || headers::is_ours(name)
}

fn verifier(section: &Section<'_>) -> Result<Verifier, Error> {
    let path = section.required("key")?;
    let pem = file::read(Path::new(path), KEY_BYTES_MAX).map_err(|unread| {
        section.fault("key", format!("{path} {unread}; name a file with the issuer's public key"))
    })?;
    let text = String::from_utf8_lossy(&pem);
    let word = |key: &str| -> Result<Option<String>, Error> {
        match section.text(key)? {
            Some("") => Err(section.fault(key, "found an empty text; write one, or leave it out")),
            text => Ok(text.map(str::to_owned)),
        }
    };
    let claims = Claims {
        org: section.required("org_claim")?.to_owned(),
        principal: word("principal_claim")?,
        audience: word("audience")?,
        issuer: word("issuer")?,
    };
    Verifier::new(&text, claims)
        .map_err(|sentence| section.fault("key", format!("{path}: {sentence}")))
}

fn table(sections: &[Section<'_>]) -> Result<Vec<Token>, Error> {
    let mut tokens: Vec<Token> = Vec::new();
    for section in sections {
        let sha256 = digest(section.required("sha256")?).ok_or_else(|| {
            section.fault(
                "sha256",
                "expected the SHA-256 of a token as 64 hexadecimal digits: printf %s \"$TOKEN\" | sha256sum",
            )
        })?;
        if sha256 == <[u8; 32]>::from(Sha256::digest([])) {
            return Err(section.fault(
                "sha256",
                "is the hash of nothing, as an unset $TOKEN gives it; hash a token",
            ));
        }
        if tokens.iter().any(|token| token.sha256 == sha256) {
            return Err(section.fault(
                "sha256",
                "stands here a second time; each token speaks for one organisation",
            ));
        }
        let org =
            Org::new(section.required("org")?).map_err(|fault| section.fault("org", fault))?;
        let principal = section.text("principal")?.map(str::to_owned);
        tokens.push(Token { sha256, caller: Caller { org, principal } });
    }
    Ok(tokens)
}

fn digest(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn networks(top: &Section<'_>, texts: &[&str]) -> Result<Vec<IpNet>, Error> {
    let mut networks = Vec::new();
    for text in texts {
        let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        networks.push(network.map_err(|_| {
            top.fault(
                "trusted_proxies",
                format!("found {text:?}; expected an address or network such as \"10.0.0.0/8\""),
            )
        })?);
    }
    if networks.is_empty() {
        return Err(top.fault("trusted_proxies", "is an empty list; name the proxy's address"));
    }
    Ok(networks)
}
