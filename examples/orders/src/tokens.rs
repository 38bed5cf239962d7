//! Bearer tokens and the organisations that they speak for.

use http::HeaderMap;
use samekey::Caller;
use samekey::core::key::Org;
use std::collections::HashMap;

/// The tokens of the demonstration.
const DEMO: [&str; 2] = ["alpha-token=alpha", "beta-token=beta"];

/// Which token speaks for whom. A service of your own has its identity provider here.
#[derive(Clone)]
pub struct Tokens(HashMap<String, Org>);

impl Tokens {
    /// Reads `TOKEN=ORG` pairs; none at all means the demo tokens.
    pub fn parse(pairs: &[String]) -> Result<Tokens, String> {
        let demo: Vec<String> = DEMO.iter().map(|pair| (*pair).to_owned()).collect();
        let pairs = if pairs.is_empty() { &demo } else { pairs };
        // An empty list is no wish for the demo tokens, which everybody knows.
        if pairs.iter().all(|pair| pair.trim().is_empty()) {
            return Err(
                "the list of tokens is empty; expected TOKEN=ORG in --token or ORDERS_TOKENS, or neither of them for the demo tokens"
                    .to_owned(),
            );
        }
        let mut tokens = HashMap::new();
        for (number, pair) in pairs.iter().enumerate() {
            let number = number + 1;
            let Some((token, org)) = pair.split_once('=') else {
                return Err(format!("--token number {number} has no '='; expected TOKEN=ORG"));
            };
            let token = token.trim();
            if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!(
                    "--token number {number} has an empty or unprintable token; expected visible ASCII before '='"
                ));
            }
            let org = Org::new(org.trim()).map_err(|fault| {
                format!("--token number {number} names no organisation: {fault}")
            })?;
            if tokens.insert(token.to_owned(), org).is_some() {
                return Err(format!(
                    "--token number {number} gives a token a second time; each token speaks for one organisation"
                ));
            }
        }
        Ok(Tokens(tokens))
    }

    /// Who sent this request, if it carries a token that is known.
    pub fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let mut lines = headers.get_all(http::header::AUTHORIZATION).iter();
        let (Some(line), None) = (lines.next(), lines.next()) else { return None };
        let (scheme, token) = line.to_str().ok()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        self.0.get(token.trim()).cloned().map(Caller::of)
    }
}
