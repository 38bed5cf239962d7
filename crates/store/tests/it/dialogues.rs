//! Dialogues between requests and a ledger, with the machine in between as a service would have it,
//! written down line by line. Two stores on which they read differently do not keep one contract.
//!
//! Times are shown as distances from the store's now, in steps of half a minute, since databases go on
//! while a test runs.

use crate::conformance::Aging;
use crate::records::{HOUR, MINUTE, decided, identity, intent, intent_of, kept, owner, scope};
use samekey_core::key::{Key, Org, Scope};
use samekey_core::lease::{Fence, Hold};
use samekey_core::policy::{Choices, Counterparty, Policy, Rerun};
use samekey_core::receipt::Receipt;
use samekey_core::record::{Reason, Record, State};
use samekey_core::step::{Arrival, Claim, Decision, Finding, Input, Verdict, step};
use samekey_core::time::Time;
use samekey_store::row::state_name;
use samekey_store::{Arrived, Decided, Intent, Ledger, Seen, Swap};
use std::time::Duration;

/// How often one input is decided anew because somebody else wrote in between.
const TRIES_MAX: u32 = 10;

/// All dialogues, one after the other.
pub async fn all<L: Ledger, A: Aging>(ledger: &L, aging: &A) -> Vec<String> {
    let mut told = Vec::new();
    told.extend(first_and_replay(ledger).await);
    told.extend(steal_after_expiry(ledger, aging, "shorter", MINUTE / 2).await);
    told.extend(steal_after_expiry(ledger, aging, "longer", 2 * MINUTE).await);
    told.extend(fail_after_expiry(ledger, aging).await);
    told.extend(ask_after_expiry(ledger, aging).await);
    told.extend(a_person_decides(ledger, aging).await);
    told.extend(purge(ledger, aging).await);
    told.extend(recovery(ledger, aging).await);
    told
}

/// One key, and what was said about it.
struct Talk<'l, L> {
    ledger: &'l L,
    scope: Scope,
    intent: Intent,
    policy: Policy,
    told: Vec<String>,
}

fn policy(change: impl FnOnce(&mut Choices)) -> Policy {
    let mut choices = Choices { retention: 10 * HOUR, ..Choices::default() };
    change(&mut choices);
    choices.check().expect("a valid policy")
}

impl<'l, L: Ledger> Talk<'l, L> {
    fn about(ledger: &'l L, key: &str, policy: Policy) -> Talk<'l, L> {
        let (scope, told) = (scope("dialogue", key), vec![format!("== {key}")]);
        Talk { ledger, scope, intent: intent(), policy, told }
    }

    /// A request with the key: content `content`, under the token `number`.
    async fn request(&mut self, content: u8, number: u8) -> Verdict {
        let claim =
            Claim { request: identity(content), owner: owner(number), arrival: Arrival::Ordinary };
        let input = Input::Claim(claim);
        let (offer, verdict) = step(Record::ABSENT, input.clone(), Time::EPOCH, &self.policy);
        let arrived =
            self.ledger.insert_or_load(&self.scope, &offer, &self.intent).await.expect("an answer");
        let verdict = match arrived {
            Arrived::Inserted(_) => verdict,
            Arrived::Found(seen) => self.decide(seen, input).await,
        };
        self.write_down(&format!("request {content} by {number}"), &verdict).await;
        verdict
    }

    async fn event(&mut self, what: &str, input: Input) -> Verdict {
        let seen = self.ledger.load(&self.scope).await.expect("an answer");
        let verdict = self.decide(seen, input).await;
        self.write_down(what, &verdict).await;
        verdict
    }

    async fn decide(&self, mut seen: Seen, input: Input) -> Verdict {
        for _ in 0..TRIES_MAX {
            let (next, verdict) = step(seen.record.clone(), input.clone(), seen.now, &self.policy);
            if next.revision == seen.record.revision {
                return verdict;
            }
            let (ledger, scope) = (self.ledger, &self.scope);
            let swap = if let Input::Decide(hold, _) | Input::Forget(hold) = &input {
                let account = decided("anna", hold.fence);
                ledger.decide(scope, &seen.record, &next, &account).await
            } else if next.is_open() && !seen.record.is_open() {
                ledger.reclaim(scope, &seen.record, &next, &self.intent).await
            } else {
                ledger.swap(scope, &seen.record, &next).await
            };
            match swap.expect("an answer") {
                Swap::Written => return verdict,
                Swap::Changed(newer) => seen = newer,
            }
        }
        panic!("somebody else wrote each time");
    }

    async fn write_down(&mut self, what: &str, verdict: &Verdict) {
        let seen = self.ledger.load(&self.scope).await.expect("an answer");
        let verdict = show_verdict(verdict, seen.now);
        self.told.push(format!("{what}: {verdict} | {}", show_record(&seen)));
    }

    /// What recovery finds of this key's organisation and route.
    async fn look_for_open(&mut self) {
        let (ledger, route) = (self.ledger, self.intent.route.as_str());
        let orgs = ledger.orgs_with_open(route, None, 10).await.expect("an answer");
        let due = ledger.due(route, &self.scope.org, 10).await.expect("an answer");
        let intent = ledger.intent(&self.scope).await.expect("an answer");
        let counts = ledger.count_open().await.expect("an answer");
        self.told.push(format!(
            "recovery of {}: orgs {:?} due {:?} intent {} counts {:?}",
            self.scope.org.as_str(),
            orgs.iter().map(Org::as_str).collect::<Vec<_>>(),
            due.iter().map(Key::as_str).collect::<Vec<_>>(),
            show_intent(intent.as_ref()),
            counts.iter().filter(|count| count.route == route).collect::<Vec<_>>(),
        ));
    }

    async fn accounts(&mut self) {
        let seen = self.ledger.load(&self.scope).await.expect("an answer");
        let accounts = self.ledger.decisions(&self.scope).await.expect("an answer");
        self.told.extend(accounts.iter().map(|account| show_decided(account, seen.now)));
    }

    async fn sweep(&mut self) {
        let pass = self.ledger.sweep(100).await.expect("an answer");
        self.told.push(format!("sweep: {} removed, more: {}", pass.removed, pass.more));
    }
}

/// A distance from now, to the nearest half minute: up to a quarter of one may go by unseen.
pub fn distance(time: Time, now: Time) -> String {
    let micros = time.micros() - now.micros();
    let halves = (micros + 15_000_000).div_euclid(30_000_000);
    format!("{:+}s", halves * 30)
}

fn show_verdict(verdict: &Verdict, now: Time) -> String {
    match verdict {
        Verdict::Renewed(until) => format!("Renewed({})", distance(*until, now)),
        Verdict::AskAgain(after) => format!("AskAgain({})", distance(*after, now)),
        Verdict::Run(hold) => format!("Run({})", hold.fence),
        Verdict::Ask(hold) => format!("Ask({})", hold.fence),
        Verdict::Replay(receipt) => format!("Replay({})", show_receipt(receipt)),
        Verdict::Mismatch
        | Verdict::InProgress(_)
        | Verdict::OutcomePending(_)
        | Verdict::OutcomeUnknown
        | Verdict::Closed
        | Verdict::TooEarly
        | Verdict::RunOver
        | Verdict::Settled
        | Verdict::Freed
        | Verdict::Recorded
        | Verdict::Stale
        | Verdict::NotDue
        | Verdict::HandedOver
        | Verdict::Decided
        | Verdict::Forgotten
        | Verdict::StaleView
        | Verdict::Swept
        | Verdict::Kept => format!("{verdict:?}"),
    }
}

/// A receipt with its bytes; its own `Debug` shows sizes only.
pub fn show_receipt(receipt: &Receipt) -> String {
    match receipt {
        Receipt::Kept(answer) => {
            format!("{} {:?} {:?}", answer.status, answer.headers, answer.body)
        }
        Receipt::Fact { status, location } => format!("{status} fact {location:?}"),
    }
}

/// An intent with its bytes; its own `Debug` shows none.
pub fn show_intent(intent: Option<&Intent>) -> String {
    intent.map_or_else(
        || "none".to_owned(),
        |intent| format!("{} {} {:?}", intent.route, intent.outbound_key, intent.request),
    )
}

/// An account in one line, all of it.
pub fn show_decided(decided: &Decided, now: Time) -> String {
    let Decided { decision, person, note, evidence, seen, at } = decided;
    let at = distance(*at, now);
    format!("{decision} by {person} at {at}, seen {seen}: {note:?} {evidence:?}")
}

/// A record in one line, all of it.
pub fn show_record(seen: &Seen) -> String {
    let Seen { record, now } = seen;
    let at = |time: Time| distance(time, *now);
    let state = match &record.state {
        State::Free => String::new(),
        State::Running(running) => format!(
            "since {} lease {} run {}",
            at(running.since),
            at(running.lease_ends),
            at(running.run_ends)
        ),
        State::Unknown(unknown) => format!(
            "since {} life {} {} sent {} asked {} not found {} ask {} evidence {}",
            at(unknown.since),
            unknown.life,
            unknown.reason.code(),
            at(unknown.last_send),
            unknown.asked,
            unknown.not_found,
            at(unknown.ask_after),
            unknown.evidence.as_ref().map_or_else(|| "none".to_owned(), show_receipt)
        ),
        State::Review(review) => {
            format!("since {} life {} {}", at(review.since), review.life, review.reason.code())
        }
        State::Done(done) => format!("since {} {}", at(done.since), show_receipt(&done.receipt)),
        State::Closed(closed) => format!("since {}", at(closed.since)),
    };
    if *record == Record::ABSENT {
        return "absent".to_owned();
    }
    let request = record.request().map(|request| {
        (request.version.0, request.digest.request_sha[0], request.principal_sha.is_some())
    });
    format!(
        "{} fence {} holder {} revision {} keep {} request {request:?} {state}",
        state_name(&record.state),
        record.fence,
        record.holder.bytes()[0],
        record.revision,
        at(record.keep_until),
    )
}

fn hold(number: u8, fence: u64) -> Hold {
    Hold { owner: owner(number), fence: Fence::new(fence) }
}

async fn first_and_replay<L: Ledger>(ledger: &L) -> Vec<String> {
    let mut talk = Talk::about(ledger, "first and replay", policy(|_| {}));
    assert_eq!(talk.request(1, 1).await, Verdict::Run(hold(1, 1)));
    talk.request(1, 1).await;
    talk.request(2, 2).await;
    let settle = Input::Settle(hold(1, 1), kept(201, b"paid"));
    assert_eq!(talk.event("settle", settle.clone()).await, Verdict::Settled);
    assert_eq!(talk.request(1, 3).await, Verdict::Replay(kept(201, b"paid")));
    assert_eq!(talk.request(2, 4).await, Verdict::Mismatch);
    talk.event("settle again", settle).await;
    let other = Input::Settle(hold(1, 1), kept(500, b"broken"));
    assert_eq!(talk.event("settle otherwise", other).await, Verdict::Stale);
    talk.event("forget", Input::Forget(hold(1, 1))).await;
    talk.request(1, 5).await;
    talk.told
}

async fn steal_after_expiry<L: Ledger, A: Aging>(
    ledger: &L,
    aging: &A,
    how: &str,
    second: Duration,
) -> Vec<String> {
    let safe = |lease| {
        policy(|choices| {
            choices.rerun = Rerun::Safe;
            choices.lease = lease;
        })
    };
    let mut talk = Talk::about(ledger, &format!("steal, {how} lease"), safe(MINUTE));
    talk.request(1, 1).await;
    aging.age(MINUTE / 2).await;
    talk.event("renew", Input::Renew(hold(1, 1))).await;
    aging.age(2 * MINUTE).await;
    talk.policy = safe(second);
    assert_eq!(talk.request(1, 2).await, Verdict::Run(hold(2, 2)));
    talk.event("renew of the first", Input::Renew(hold(1, 1))).await;
    let late = Input::Settle(hold(1, 1), kept(201, b"first"));
    assert_eq!(talk.event("settle of the first", late).await, Verdict::Stale);
    talk.event("release of the first", Input::Release(hold(1, 1))).await;
    talk.event("settle", Input::Settle(hold(2, 2), kept(201, b"second"))).await;
    assert_eq!(talk.request(1, 3).await, Verdict::Replay(kept(201, b"second")));
    talk.told
}

/// What is freed after its lease ended is kept from now on, never already over.
async fn fail_after_expiry<L: Ledger, A: Aging>(ledger: &L, aging: &A) -> Vec<String> {
    let safe = policy(|choices| choices.rerun = Rerun::Safe);
    let mut talk = Talk::about(ledger, "fail after expiry", safe);
    talk.request(1, 1).await;
    aging.age(20 * HOUR).await;
    talk.event("doubt", Input::Doubt(hold(1, 1), Reason::HandlerFailed)).await;
    talk.sweep().await;
    let record = ledger.load(&talk.scope).await.expect("an answer");
    assert!(record.record.keep_until > record.now, "it is not swept at once");
    assert_eq!(talk.request(2, 2).await, Verdict::Run(hold(2, 2)));
    talk.event("release", Input::Release(hold(2, 2))).await;
    talk.told
}

async fn ask_after_expiry<L: Ledger, A: Aging>(ledger: &L, aging: &A) -> Vec<String> {
    let answers = policy(|choices| {
        choices.counterparty = Counterparty::Answers { not_found_after: Some(HOUR) };
    });
    let mut talk = Talk::about(ledger, "ask after expiry", answers);
    talk.request(1, 1).await;
    aging.age(2 * MINUTE).await;
    talk.request(1, 2).await;
    assert_eq!(talk.event("ask", Input::Ask(owner(3))).await, Verdict::Ask(hold(3, 2)));
    talk.event("hear", Input::Hear(hold(3, 2), Finding::Pending)).await;
    talk.event("settle of the first", Input::Settle(hold(1, 1), kept(201, b"late"))).await;
    aging.age(10 * MINUTE).await;
    assert_eq!(talk.event("ask again", Input::Ask(owner(4))).await, Verdict::Settled);
    assert_eq!(talk.request(1, 5).await, Verdict::Replay(kept(201, b"late")));
    talk.told
}

async fn a_person_decides<L: Ledger, A: Aging>(ledger: &L, aging: &A) -> Vec<String> {
    let mut talk = Talk::about(ledger, "a person decides", policy(|_| {}));
    talk.request(1, 1).await;
    aging.age(2 * MINUTE).await;
    assert_eq!(talk.request(1, 2).await, Verdict::OutcomeUnknown);
    talk.event("decide blindly", Input::Decide(hold(1, 9), Decision::Close)).await;
    talk.accounts().await;
    talk.event("decide", Input::Decide(hold(1, 1), Decision::Close)).await;
    aging.age(MINUTE).await;
    talk.event("decide again", Input::Decide(hold(1, 1), Decision::Close)).await;
    talk.accounts().await;
    assert_eq!(talk.request(1, 3).await, Verdict::Closed);
    talk.told
}

async fn purge<L: Ledger, A: Aging>(ledger: &L, aging: &A) -> Vec<String> {
    let mut talk = Talk::about(ledger, "purge", policy(|_| {}));
    aging.age(100 * HOUR).await;
    talk.sweep().await;
    talk.request(1, 1).await;
    talk.event("settle", Input::Settle(hold(1, 1), kept(201, b"paid"))).await;
    aging.age(9 * HOUR).await;
    talk.sweep().await;
    talk.request(1, 2).await;
    aging.age(2 * HOUR).await;
    talk.sweep().await;
    assert_eq!(talk.request(2, 3).await, Verdict::Run(hold(3, 1)), "it begins anew");
    talk.told
}

/// Two organisations whose calls were lost: each is found through its intent, asked about and settled,
/// and neither gets in the way of the other.
async fn recovery<L: Ledger, A: Aging>(ledger: &L, aging: &A) -> Vec<String> {
    let answers = || {
        policy(|choices| {
            choices.counterparty = Counterparty::Answers { not_found_after: Some(HOUR) };
        })
    };
    let mut left = Talk::about(ledger, "recovery", answers());
    (left.scope, left.intent) = (scope("left", "recovery"), intent_of("recovery", 2));
    let mut right = Talk::about(ledger, "recovery beside it", answers());
    (right.scope, right.intent) = (scope("right", "recovery"), intent_of("recovery", 3));
    left.request(1, 1).await;
    left.look_for_open().await;
    right.request(1, 2).await;
    right.look_for_open().await;
    aging.age(2 * MINUTE).await;
    left.look_for_open().await;
    right.look_for_open().await;
    assert_eq!(left.event("ask", Input::Ask(owner(3))).await, Verdict::Ask(hold(3, 2)));
    left.look_for_open().await;
    right.look_for_open().await;
    assert_eq!(right.event("ask", Input::Ask(owner(4))).await, Verdict::Ask(hold(4, 2)));
    right.event("hear", Input::Hear(hold(4, 2), Finding::Pending)).await;
    let executed = Finding::Executed(kept(201, b"paid"));
    let heard = left.event("hear", Input::Hear(hold(3, 2), executed)).await;
    assert_eq!(heard, Verdict::Settled);
    assert_eq!(ledger.intent(&left.scope).await, Ok(None));
    left.look_for_open().await;
    right.look_for_open().await;
    aging.age(HOUR).await;
    right.look_for_open().await;
    right.event("ask again", Input::Ask(owner(5))).await;
    right.event("hear", Input::Hear(hold(5, 4), Finding::Different)).await;
    right.look_for_open().await;
    aging.age(10 * HOUR).await;
    assert_eq!(ledger.due("recovery", &right.scope.org, 10).await, Ok(Vec::new()));
    let refund = Decision::Executed(kept(200, b"refunded"));
    right.event("decide", Input::Decide(hold(5, 4), refund)).await;
    right.accounts().await;
    right.look_for_open().await;
    assert_eq!(ledger.orgs_with_open("recovery", None, 10).await, Ok(Vec::new()));
    assert_eq!(right.request(1, 6).await, Verdict::Replay(kept(200, b"refunded")));
    left.told.extend(right.told);
    left.told
}
