//! Whose request is it? One organisation for all, a table of bearer tokens, tokens that somebody else has
//! signed, or a header that only a trusted proxy may set.

use crate::headers::remove_alike;
use crate::jwt::Verifier;
use crate::refusal::Refusal;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use ipnet::IpNet;
use samekey::Caller;
use samekey_core::key::Org;
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// The header that names an organisation towards the upstream, where the settings name no other.
pub(crate) const ORG_HEADER: HeaderName = HeaderName::from_static("x-org");
/// The organisation of a gateway that has only one.
pub(crate) const ONLY_ORG: &str = "default";

/// A bearer token, known by its hash alone.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) sha256: [u8; 32],
    pub(crate) caller: Caller,
}

/// How callers are told apart.
#[derive(Clone)]
pub(crate) enum Way {
    /// Everybody belongs to one organisation.
    One(Org),
    /// By a bearer token.
    Tokens(Vec<Token>),
    /// By a JSON Web Token.
    Jwt(Verifier),
    /// By the organisation header, from these addresses alone.
    Proxy(Vec<IpNet>),
}

/// Who calls, and the header that says so to the upstream.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) way: Way,
    pub(crate) org_header: HeaderName,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.way {
            Way::One(_) => "Identity(one organisation)",
            Way::Tokens(_) => "Identity(tokens)",
            Way::Jwt(_) => "Identity(signed tokens)",
            Way::Proxy(_) => "Identity(trusted proxy)",
        })
    }
}

impl Identity {
    /// Everybody belongs to one organisation.
    pub(crate) fn one(org: Org) -> Identity {
        Identity { way: Way::One(org), org_header: ORG_HEADER }
    }

    /// Whether a proxy at this address is trusted to say where a request came from.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        match &self.way {
            Way::Proxy(networks) => {
                // A socket for both families shows IPv4 callers in IPv6.
                let peer = peer.to_canonical();
                networks.iter().any(|network| network.contains(&peer))
            }
            Way::One(_) | Way::Tokens(_) | Way::Jwt(_) => false,
        }
    }

    /// Who sent a request with these headers from this address.
    pub(crate) fn caller(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Caller, Refusal> {
        match &self.way {
            Way::One(org) => Ok(Caller::of(org.clone())),
            Way::Tokens(tokens) => bearer(headers)
                .and_then(|token| find(tokens, token))
                .ok_or(Refusal::Unauthenticated),
            Way::Jwt(verifier) => {
                let token = bearer(headers).ok_or(Refusal::Unauthenticated)?;
                verifier.caller(token).ok_or(Refusal::TokenInvalid)
            }
            Way::Proxy(_) if !self.trusts(peer) => Err(Refusal::Unidentified),
            Way::Proxy(_) => only(headers, &self.org_header)
                .and_then(|org| Org::new(org).ok())
                .map(Caller::of)
                .ok_or(Refusal::Unidentified),
        }
    }

    /// Replaces what a client says about its organisation by what was verified.
    pub(crate) fn mark(&self, headers: &mut HeaderMap, org: &Org) {
        remove_alike(headers, &self.org_header);
        match self.way {
            Way::One(_) => {}
            Way::Tokens(_) | Way::Jwt(_) | Way::Proxy(_) => {
                if let Ok(value) = HeaderValue::from_str(org.as_str()) {
                    headers.insert(self.org_header.clone(), value);
                }
            }
        }
    }
}

/// Looks at every token, so that the time taken says nothing about which one it was.
fn find(tokens: &[Token], token: &str) -> Option<Caller> {
    let given: [u8; 32] = Sha256::digest(token.as_bytes()).into();
    let mut found = None;
    for token in tokens {
        if bool::from(token.sha256.ct_eq(&given)) {
            found = Some(token.caller.clone());
        }
    }
    found
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only(headers, &header::AUTHORIZATION)?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The value of a header that stands there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => line.to_str().ok(),
        (Some(_) | None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str, org: &str) -> Token {
        Token {
            sha256: Sha256::digest(text.as_bytes()).into(),
            caller: Caller::of(Org::new(org).unwrap()),
        }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let lines = lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, value);
        }
        headers
    }

    const PEER: &str = "10.1.2.3";

    fn org_of(identity: &Identity, lines: &[(&'static str, &str)], peer: &str) -> Option<String> {
        let caller = identity.caller(&headers(lines), peer.parse().unwrap()).ok()?;
        Some(caller.org.as_str().to_owned())
    }

    #[test]
    fn b14_only_a_known_token_speaks_for_an_organisation() {
        let tokens = vec![token("one", "alpha"), token("two", "beta"), token("", "nobody")];
        let identity = Identity { way: Way::Tokens(tokens), org_header: ORG_HEADER };
        let of = |lines: &[(&'static str, &str)]| org_of(&identity, lines, PEER);
        assert_eq!(of(&[("authorization", "Bearer one")]).as_deref(), Some("alpha"));
        assert_eq!(of(&[("authorization", "bearer  two ")]).as_deref(), Some("beta"));
        for bad in
            ["Bearer three", "Bearer", "Bearer ", "Bearer  ", "bearer \t", "Basic one", "one", ""]
        {
            assert_eq!(of(&[("authorization", bad)]), None, "{bad}");
        }
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("authorization", "Bearer one"), ("authorization", "Bearer two")]), None);
    }

    #[test]
    fn b49_t90_only_a_trusted_proxy_names_an_organisation() {
        let networks = vec!["10.0.0.0/8".parse().unwrap()];
        let identity = Identity { way: Way::Proxy(networks), org_header: ORG_HEADER };
        let named = [("x-org", "alpha")];
        assert_eq!(org_of(&identity, &named, PEER).as_deref(), Some("alpha"));
        assert_eq!(org_of(&identity, &named, "::ffff:10.1.2.3").as_deref(), Some("alpha"));
        assert_eq!(org_of(&identity, &named, "11.1.2.3"), None);
        assert_eq!(org_of(&identity, &[], PEER), None);
        assert_eq!(org_of(&identity, &[("x-org", "a"), ("x-org", "b")], PEER), None);
    }

    #[test]
    fn t90_what_a_client_says_about_its_organisation_is_replaced() {
        let org = Org::new("alpha").unwrap();
        let mut given = headers(&[("x-org", "b"), ("x-org", "c")]);
        let tokens = Identity { way: Way::Tokens(Vec::new()), org_header: ORG_HEADER };
        tokens.mark(&mut given, &org);
        assert_eq!(given.get_all("x-org").iter().collect::<Vec<_>>(), ["alpha"]);
        Identity::one(org.clone()).mark(&mut given, &org);
        assert!(given.is_empty());
    }
}
