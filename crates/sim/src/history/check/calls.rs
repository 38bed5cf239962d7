//! S11 to S13: calls to the counterparty.

use super::{Scope, never_asked};
use crate::history::{Activity, Call, CallKind, Evidence, Limits, OpenTransaction, Violation};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Fewer first pauses may be alike by chance.
const JITTER_CLAIMS_MIN: usize = 8;

/// The calls of one kind within one claim.
type Claim<'a> = (Scope<'a>, u64, CallKind);

pub(super) fn check<'a>(
    evidence: &'a Evidence,
    keys: &HashMap<Scope<'a>, Scope<'a>>,
    found: &mut Vec<Violation>,
) {
    without_transaction(evidence, found);
    let mut claims: HashMap<Claim<'a>, Vec<&'a Call>> = HashMap::new();
    let mut owners: HashMap<&'a str, Scope<'a>> = HashMap::new();
    for call in &evidence.calls {
        let Some(scope) = keys.get(&(call.org.as_str(), call.reference.as_str())) else {
            found.push(never_asked("a call for", &call.org, &call.reference));
            continue;
        };
        if let Some(key) = &call.outbound_key
            && call.kind == CallKind::Command
            && owners.insert(key, *scope).is_some_and(|owner| owner != *scope)
        {
            let ((org, key), what) = (*scope, "its outbound key is another key's, too");
            found.push(Violation { rule: "S13", found: format!("org {org}, key {key}: {what}") });
        }
        if !call.by_person {
            claims.entry((*scope, call.life, call.kind)).or_default().push(call);
        }
    }
    let mut first_pauses = Vec::new();
    for (((org, key), _, kind), mut calls) in claims {
        calls.sort_by_key(|call| call.began);
        let mut wrong = |rule: &'static str, what: String| {
            found.push(Violation { rule, found: format!("org {org}, key {key}: {what}") });
        };
        spaced(&calls, &evidence.limits, &mut wrong);
        if kind == CallKind::Command {
            alike(&calls, &mut wrong);
        }
        if let [first, second, ..] = calls.as_slice() {
            first_pauses.push(pause(first, second));
        }
    }
    jittered(&first_pauses, evidence.limits.jitter_min, found);
}

/// S11: nobody holds a transaction open through a call.
///
/// Which transaction belongs to which call cannot be seen. One that has waited for its client for
/// `transaction_max`, while a call has been on its way for as long, is taken for that call's.
fn without_transaction(evidence: &Evidence, found: &mut Vec<Violation>) {
    let mut calls: Vec<(&Call, u64)> =
        evidence.calls.iter().filter_map(|call| Some((call, call.ended?.at))).collect();
    calls.sort_by_key(|(call, _)| call.began.at);
    let mut activity: Vec<&Activity> = evidence.activity.iter().collect();
    activity.sort_by_key(|activity| activity.moment.at);
    // Calls that have begun, by when; those that have ended leave as the samples pass them.
    let mut under_way: BTreeMap<(Duration, u64), u64> = BTreeMap::new();
    let mut ends: BTreeMap<u64, (Duration, u64)> = BTreeMap::new();
    let mut next = calls.into_iter().peekable();
    for sample in activity {
        let now = sample.moment;
        while let Some((call, end)) = next.next_if(|(call, _)| call.began.at < now.at) {
            let place = (call.began.when, call.began.at);
            under_way.insert(place, end);
            ends.insert(end, place);
        }
        while let Some(ended) = ends.first_entry().filter(|ended| *ended.key() < sample.until.at) {
            under_way.remove(&ended.remove());
        }
        // A call that began after this has not lasted long enough to tell.
        let Some(latest) = now.when.checked_sub(evidence.limits.transaction_max) else { continue };
        if under_way.range(..=(latest, u64::MAX)).next().is_none() {
            continue;
        }
        let long =
            |transaction: &&OpenTransaction| transaction.held >= evidence.limits.transaction_max;
        for transaction in sample.transactions.iter().filter(long) {
            let OpenTransaction { pid, age, held, state, statement } = transaction;
            found.push(Violation {
                rule: "S11",
                found: format!(
                    "a transaction of {age:?} ({state} for {held:?}) is open in process {pid} through a call: {statement}"
                ),
            });
        }
    }
}

/// The time between two calls, from the end of the first. One that was still on its way, as where it
/// was held and the claim taken over, is counted from its begin.
fn pause(first: &Call, second: &Call) -> Duration {
    let from = answered_before(first, second).unwrap_or(first.began.when);
    second.began.when.saturating_sub(from)
}

fn answered_before(first: &Call, second: &Call) -> Option<Duration> {
    first.ended.filter(|ended| *ended < second.began).map(|ended| ended.when)
}

/// S12: not too many, ever further apart, and never sooner than the counterparty asked for.
fn spaced(calls: &[&Call], limits: &Limits, wrong: &mut impl FnMut(&'static str, String)) {
    if calls.len() > limits.calls_max {
        let (count, max) = (calls.len(), limits.calls_max);
        wrong("S12", format!("{count} calls, and {max} at most were meant"));
    }
    let mut least = limits.pause_first.min(limits.pause_max);
    for pair in calls.windows(2) {
        let [first, second] = pair else { continue };
        let waited = pause(first, second);
        if waited < least {
            wrong("S12", format!("a call {waited:?} after the last one, and not {least:?}"));
        }
        let told = answered_before(first, second).and(first.retry_after);
        if let Some(asked) = told.filter(|asked| waited < *asked) {
            wrong("S12", format!("a call after {waited:?}, and Retry-After was {asked:?}"));
        }
        least = least.saturating_mul(2).min(limits.pause_max);
    }
}

/// S13: every attempt of one claim carries the same bytes and the same key.
fn alike(calls: &[&Call], wrong: &mut impl FnMut(&'static str, String)) {
    for pair in calls.windows(2) {
        let [first, second] = pair else { continue };
        if first.body_sha != second.body_sha {
            wrong("S13", "two attempts of one claim carry different bytes".to_owned());
        }
        if first.outbound_key != second.outbound_key {
            let keys = (&first.outbound_key, &second.outbound_key);
            wrong("S13", format!("two attempts of one claim carry two keys: {keys:?}"));
        }
    }
}

/// S12: callers that began together do not come back together.
fn jittered(pauses: &[Duration], jitter_min: Duration, found: &mut Vec<Violation>) {
    if pauses.len() < JITTER_CLAIMS_MIN {
        return;
    }
    let (Some(least), Some(most)) = (pauses.iter().min(), pauses.iter().max()) else { return };
    let spread = most.saturating_sub(*least);
    if spread < jitter_min {
        let count = pauses.len();
        let sentence = format!("the first pauses of {count} claims differ by {spread:?} only");
        found.push(Violation { rule: "S12", found: sentence });
    }
}
