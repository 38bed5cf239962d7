//! What went wrong, from gap and key together, and what to change.

use serde::Serialize;

use super::{CLEAR_MIN, Cause, Diagnosis};
use crate::cluster::Cluster;

/// Whether the export could show idempotency keys at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyColumn {
    Present,
    Absent,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// One key, requests at the same time: the server did not claim the key before it worked.
    RaceInServer,
    /// One key, but later than its life.
    KeyExpired,
    /// One key, within its life, several effects: the server does not hold on to it.
    KeyNotHonoured,
    /// A key for each attempt of one purchase.
    NewKeyPerAttempt,
    /// Two requests at once, each with its own key.
    KeyPerRequest,
    /// A person paid again, with a new key.
    PaidAgain,
    /// Different keys; what sent them is not clear.
    DifferentKeys,
    /// Some attempts bore a key, others none.
    KeyNotAlwaysSent,
    /// No attempt bore a key.
    NoKeySent,
    /// The export has no column for keys.
    KeyUnknown,
}

impl Verdict {
    /// In a few words.
    pub fn label(self) -> &'static str {
        match self {
            Self::RaceInServer => "race in the server",
            Self::KeyExpired => "key expired",
            Self::KeyNotHonoured => "key not honoured",
            Self::NewKeyPerAttempt => "a new key per attempt",
            Self::KeyPerRequest => "a key per request",
            Self::PaidAgain => "paid again by a person",
            Self::DifferentKeys => "different keys",
            Self::KeyNotAlwaysSent => "key not always sent",
            Self::NoKeySent => "no key was sent",
            Self::KeyUnknown => "keys not in this export",
        }
    }

    /// What happened, in one sentence.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::RaceInServer => {
                "The same key arrived twice at the same moment and both requests were carried out."
            }
            Self::KeyExpired => {
                "The same key came back after the server had forgotten it, and was carried out as new."
            }
            Self::KeyNotHonoured => "The same key was carried out more than once within its life.",
            Self::NewKeyPerAttempt => {
                "A program tried one purchase several times and made a new key for every try, so the \
                 server took each for a new purchase."
            }
            Self::KeyPerRequest => {
                "Two requests for one purchase were sent at the same moment, each with its own key."
            }
            Self::PaidAgain => {
                "A person started the purchase again, and the second start made a new key."
            }
            Self::DifferentKeys => "One purchase was paid under several keys.",
            Self::KeyNotAlwaysSent => "Some requests for the purchase bore a key and others none.",
            Self::NoKeySent => {
                "None of the requests bore a key, so the server could not tell a retry."
            }
            Self::KeyUnknown => {
                "The export does not say which keys were sent; with that column the fault could be \
                 named."
            }
        }
    }

    /// What to change.
    pub fn change(self) -> &'static str {
        match self {
            Self::RaceInServer => {
                "Claim the key in the database before any work, under a unique constraint, and let \
                 the second request wait for or be told of the first."
            }
            Self::KeyExpired => {
                "Stop retrying before the key's life ends, or keep keys longer; after that, ask what \
                 became of the payment instead of sending it again."
            }
            Self::KeyNotHonoured => {
                "Store the answer under the key in the same transaction as the effect, also for \
                 errors after which the effect may stand, and check that scope and storage of keys \
                 are shared by all servers."
            }
            Self::NewKeyPerAttempt => {
                "Make the key once for each purchase, store it with the order before the first send, \
                 and send the same key with every retry."
            }
            Self::KeyPerRequest => {
                "Make the key from the purchase (the cart, the order), not from the click or the \
                 message, and put a unique constraint on paid orders: a key does not replace it."
            }
            Self::PaidAgain => {
                "Show that a payment is under way or done before taking another, keep the key with \
                 the cart over reloads, and put a unique constraint on paid orders."
            }
            Self::DifferentKeys => {
                "Make one key for each purchase and store it with the order; put a unique constraint \
                 on paid orders."
            }
            Self::KeyNotAlwaysSent => {
                "Send the key on every path: find the caller or the fallback that leaves it out, and \
                 refuse payments without one."
            }
            Self::NoKeySent => {
                "Send an idempotency key made once for each purchase, and have the server require it."
            }
            Self::KeyUnknown => {
                "Export the idempotency key with each payment, and check that it is made once for \
                 each purchase and sent with every retry."
            }
        }
    }
}

impl Cause {
    /// What the cause itself asks for, beside the key.
    pub fn change(self) -> &'static str {
        match self {
            Self::Concurrent => {
                "Look for a button that can be pressed twice and for two consumers of one message."
            }
            Self::Backoff => {
                "The client took a lost answer for a failure: after a timeout the outcome is \
                 unknown, and only the same key, or a question, is safe."
            }
            Self::Fixed => {
                "The client retries blindly at a fixed pace: keep the key, add backoff and jitter, \
                 and give up at a deadline."
            }
            Self::Queue => {
                "The message came again because it was not confirmed in time: renew its lock while \
                 working, and make the consumer idempotent with a key from the message's own id."
            }
            Self::Cron => {
                "A scheduled job picked up what was already under way: claim each item before \
                 working on it, and leave unknown outcomes to a question."
            }
            Self::Human => {
                "Nobody told the person that the payment was under way or done: show it, and make a \
                 second start lead to the first payment."
            }
            Self::Undetermined => {
                "The gaps show no schedule: look at the evidence rows and the logs around them."
            }
        }
    }
}

/// Judges one cluster.
pub(crate) fn judge(
    cluster: &Cluster,
    diagnosis: &Diagnosis,
    column: KeyColumn,
    key_life_ns: i64,
) -> Verdict {
    if column == KeyColumn::Absent {
        return Verdict::KeyUnknown;
    }
    let keys: Vec<Option<&str>> = cluster.payments().map(|member| member.key.as_deref()).collect();
    if keys.iter().all(Option::is_none) {
        return Verdict::NoKeySent;
    }
    if repeated_key(&keys) {
        return same_key(cluster, diagnosis, key_life_ns);
    }
    if keys.iter().any(Option::is_none) {
        return Verdict::KeyNotAlwaysSent;
    }
    if diagnosis.program_share() >= CLEAR_MIN {
        return Verdict::NewKeyPerAttempt;
    }
    match diagnosis.cause() {
        _ if diagnosis.is_ambiguous() => Verdict::DifferentKeys,
        Cause::Concurrent => Verdict::KeyPerRequest,
        Cause::Human => Verdict::PaidAgain,
        Cause::Backoff | Cause::Fixed | Cause::Queue | Cause::Cron => Verdict::NewKeyPerAttempt,
        Cause::Undetermined => Verdict::DifferentKeys,
    }
}

/// Whether all payments bear one key.
fn repeated_key(keys: &[Option<&str>]) -> bool {
    keys.first().is_some_and(|first| first.is_some() && keys.iter().all(|key| key == first))
}

fn same_key(cluster: &Cluster, diagnosis: &Diagnosis, key_life_ns: i64) -> Verdict {
    let times: Vec<i64> = cluster.payments().map(|member| member.ns).collect();
    // A key's life is counted from its first use.
    let age = times.last().zip(times.first()).map_or(0, |(last, first)| last - first);
    let within =
        times.iter().filter(|ns| times.first().is_some_and(|first| *ns - first < key_life_ns));
    if age >= key_life_ns && within.count() == 1 {
        Verdict::KeyExpired
    } else if diagnosis.cause() == Cause::Concurrent {
        Verdict::RaceInServer
    } else {
        Verdict::KeyNotHonoured
    }
}
