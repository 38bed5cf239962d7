//! The question at a status URL.

use super::{Place, Recovered, is_of_credential, tell_of_credential};
use crate::config::RouteSettings;
use crate::service::Front;
use http::HeaderMap;
use samekey::{Finding, Question};
use samekey_client::HttpCounterparty;
use samekey_client::http_counterparty::{Credential, Inquiry};
use samekey_core::outcome::Heard;
use std::fmt;
use std::time::Duration;

/// How long a question may take; whoever asks has a shorter patience of its own.
const TIME_MAX: Duration = Duration::from_secs(30);

/// A status URL, how its answers are read, and what a caller gets of them.
#[derive(Clone)]
pub(crate) struct StatusUrl {
    pub(crate) counterparty: HttpCounterparty,
    /// The credential of its questions, which it has itself too.
    pub(crate) credential: Option<Credential>,
    pub(crate) place: Place,
    pub(crate) recovered: Recovered,
}

impl fmt::Debug for StatusUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusUrl").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Asks about one command. Without its request there is nothing to compare with what is found.
pub(super) async fn ask(
    url: &StatusUrl,
    front: &Front,
    route: &RouteSettings,
    question: Question,
) -> Finding {
    let Some(request) = &question.request else { return Finding::CannotTell };
    let segments = match &route.pattern {
        None => Some(Vec::new()),
        Some(pattern) => pattern.captured(request.uri().path()),
    };
    let key = question.outbound_key.to_string();
    // The route's path was another one when this was claimed.
    let Some(target) = segments.and_then(|segments| url.place.fill(&key, &segments)) else {
        return Finding::CannotTell;
    };
    let mut headers = HeaderMap::new();
    front.identity.mark(&mut headers, &question.org);
    let inquiry =
        Inquiry { target: &target, headers, body: request.body(), key: &key, time_max: TIME_MAX };
    let reply = url.counterparty.inquire(inquiry).await;
    if let Some(status) = reply.status.filter(|status| is_of_credential(*status)) {
        tell_of_credential(route.route.name(), status);
    }
    match reply.told.what {
        Heard::Executed(told) => Finding::Executed(url.recovered.executed(&told)),
        Heard::Refused(told) => Finding::Refused(url.recovered.refused(&told)),
        Heard::NotFound => Finding::NotFound,
        Heard::Pending => Finding::Pending,
        Heard::CannotTell => Finding::CannotTell,
        Heard::Different => Finding::Different,
    }
}
