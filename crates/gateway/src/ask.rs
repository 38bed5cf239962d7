//! Asking the upstream what became of a command whose answer is lost: at a status URL, or, where the operator
//! declared that it deduplicates, by sending the same request under the same key.
//!
//! When to ask, how often, and what an answer means to the key is decided by `samekey`; here is how the
//! question travels and what its answer says. A question carries the gateway's own credential, looked up at
//! that moment, and nothing that a caller sent but what was stored with the claim: method, target, content
//! headers, the route's semantic headers, and body.
//!
//! Read next: `ask/status.rs` and `ask/again.rs`.

pub(crate) mod again;
mod place;
mod recovered;
mod status;

pub(crate) use place::Place;
pub(crate) use recovered::{Location, Recovered};
pub(crate) use status::StatusUrl;

use crate::config::RouteSettings;
use crate::service::Front;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use samekey::{Ask, BoxError, Finding, Question};
use samekey_client::http_counterparty::Credential;
use std::sync::Arc;

/// What stays as it is in a filled blank: the unreserved characters of RFC 3986.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Who is asked on a route.
#[derive(Clone, Debug)]
pub(crate) enum Asking {
    /// Nobody: a person decides.
    Nobody,
    /// A status URL.
    Status(Box<StatusUrl>),
    /// The upstream, by the same request.
    Again(again::SameRequest),
}

impl Asking {
    /// Who the gateway is when it asks.
    pub(crate) fn credential(&self) -> Option<&Credential> {
        match self {
            Asking::Nobody => None,
            Asking::Status(url) => url.credential.as_ref(),
            Asking::Again(request) => Some(&request.credential),
        }
    }
}

/// Whether a status speaks of the credential that came with a request, and not of the request.
pub(crate) fn is_of_credential(status: u16) -> bool {
    matches!(status, 401 | 407)
}

/// Tells operators that the gateway is not let in, which no caller can mend.
pub(crate) fn tell_of_credential(route: &str, status: u16) {
    tracing::error!(
        route,
        status,
        "the upstream does not accept the gateway's own credential, so nothing can be asked or sent; renew it"
    );
}

/// Asks about the commands of one route.
pub(crate) struct Asker {
    pub(crate) front: Arc<Front>,
    pub(crate) settings: RouteSettings,
}

impl Ask for Asker {
    async fn ask(&self, question: Question) -> Result<Finding, BoxError> {
        Ok(match &self.settings.asking {
            Asking::Nobody => Finding::CannotTell,
            Asking::Status(url) => status::ask(url, &self.front, &self.settings, question).await,
            Asking::Again(request) => {
                again::ask(request, &self.front, &self.settings, question).await
            }
        })
    }
}
