//! Records, inputs, moments and policies by chance.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use samekey_core::fingerprint::{Digest, Version};
use samekey_core::lease::{Fence, Hold, Owner};
use samekey_core::policy::{Choices, Counterparty, OnMismatch, Policy, Rerun};
use samekey_core::receipt::{Answer, Receipt};
use samekey_core::record::{
    Closed, Done, Identity, Reason, Record, Review, Running, State, Unknown,
};
use samekey_core::step::{Arrival, Claim, Decision, Finding, Input, Verdict, step};
use samekey_core::time::Time;
use std::time::Duration;

/// The command that most claims bring.
pub(super) const COMMAND: Identity = Identity {
    version: Version(1),
    digest: Digest { request_sha: [1; 32], frame_sha: [2; 32] },
    principal_sha: None,
};

/// How many inputs a history has at the most: enough for a life with questions, a sweep, and a
/// second life that an owner of the first one wakes up in.
const HISTORY_MAX: usize = 24;

/// A record that a history led to, and what happens to it next.
#[derive(Clone, Debug)]
pub(super) struct Lived {
    pub(super) record: Record,
    pub(super) input: Input,
    pub(super) now: Time,
    pub(super) policy: Policy,
    /// When the last execution was granted.
    pub(super) claimed: Time,
    /// When the last question was granted.
    pub(super) asked: Time,
}

/// One event of a history, before it is known who is there to bring it.
#[derive(Clone, Debug)]
struct Event {
    /// Which pause comes first; see [`pause`].
    pause: u8,
    /// How far back in the list of holds that were given the bringer stands; most are the last.
    back: usize,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Claim(Identity, Arrival),
    ClaimAgain,
    Renew,
    Settle(Receipt),
    Release,
    Doubt(Reason),
    Ask,
    Hear(Finding),
    Decide(Decision),
    Forget,
    Restore,
    ClaimAfterLoss(Identity),
    Sweep,
}

/// Every step of a history, in order.
pub(super) fn history() -> impl Strategy<Value = Vec<Lived>> {
    let first = Event { pause: 0, back: 0, kind: Kind::Claim(COMMAND, Arrival::Ordinary) };
    let events = prop::collection::vec(any_event(), 1..HISTORY_MAX);
    (any_policy(), events).prop_map(move |(policy, events)| {
        let mut holds = Vec::new();
        let mut record = Record::ABSENT;
        let mut now = Time::from_micros(1_000_000_000);
        let (mut claimed, mut asked) = (now, now);
        let mut steps = Vec::with_capacity(events.len());
        for (number, event) in (1_u8..).zip(std::iter::once(first.clone()).chain(events)) {
            now = Time::from_micros(now.micros() + pause(event.pause, &policy, &record, now));
            let input = input(event, &record, &holds, Owner::from_bytes([number; 16]));
            let (next, verdict) = step(record.clone(), input.clone(), now, &policy);
            let known_before = record.fence == next.fence;
            steps.push(Lived { record, input, now, policy: policy.clone(), claimed, asked });
            if let Verdict::Run(hold) = verdict
                && !known_before
            {
                claimed = now;
                holds.push(hold);
            }
            if let Verdict::Ask(hold) = verdict {
                asked = now;
                holds.push(hold);
            }
            record = next;
        }
        steps
    })
}

/// Pauses that matter to this policy and record, in microseconds; one goes back.
fn pause(choice: u8, policy: &Policy, record: &Record, now: Time) -> i64 {
    let until = |moment: Time| i64::try_from(moment.since(now).as_micros()).unwrap();
    let of = |span: Duration| i64::try_from(span.as_micros()).unwrap();
    match choice {
        0..=4 => 0,
        5..=6 => 1_500_000,
        7 => of(policy.lease) / 2,
        8 => of(policy.lease),
        9 => of(policy.run_max),
        10 => -2_000_000,
        11 => until(record.keep_until),
        12 => of(policy.retention),
        13 => 600_000_000,
        _ => match &record.state {
            State::Running(running) => until(running.lease_ends),
            State::Unknown(unknown) => until(unknown.ask_after),
            State::Free | State::Review(_) | State::Done(_) | State::Closed(_) => 0,
        },
    }
}

fn input(event: Event, record: &Record, holds: &[Hold], fresh: Owner) -> Input {
    let nobody = Hold { owner: fresh, fence: Fence::new(1) };
    let back = holds.len().checked_sub(event.back + 1);
    let hold = back.and_then(|index| holds.get(index)).copied().unwrap_or(nobody);
    let seen = if event.back == 0 { record.hold() } else { hold };
    match event.kind {
        Kind::Claim(request, arrival) => Input::Claim(Claim { request, owner: fresh, arrival }),
        Kind::ClaimAgain => Input::Claim(Claim {
            request: record.request().copied().unwrap_or(COMMAND),
            owner: hold.owner,
            arrival: Arrival::Ordinary,
        }),
        Kind::Renew => Input::Renew(hold),
        Kind::Settle(receipt) => Input::Settle(hold, receipt),
        Kind::Release => Input::Release(hold),
        Kind::Doubt(reason) => Input::Doubt(hold, reason),
        Kind::Ask => Input::Ask(fresh),
        Kind::Hear(finding) => Input::Hear(hold, finding),
        Kind::Decide(decision) => Input::Decide(seen, decision),
        Kind::Forget => Input::Forget(seen),
        Kind::Restore => Input::Restore,
        Kind::ClaimAfterLoss(request) => {
            Input::ClaimAfterLoss(Claim { request, owner: fresh, arrival: Arrival::Ordinary })
        }
        Kind::Sweep => Input::Sweep,
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let back = prop_oneof![4 => Just(0_usize), 1 => Just(1), 1 => 2_usize..5];
    let kind = prop_oneof![
        6 => (any_identity(), any_arrival()).prop_map(|(it, arrival)| Kind::Claim(it, arrival)),
        1 => Just(Kind::ClaimAgain),
        2 => Just(Kind::Renew),
        2 => any_receipt().prop_map(Kind::Settle),
        1 => Just(Kind::Release),
        3 => any_reason().prop_map(Kind::Doubt),
        6 => Just(Kind::Ask),
        6 => any_finding().prop_map(Kind::Hear),
        2 => any_decision().prop_map(Kind::Decide),
        1 => Just(Kind::Forget),
        1 => Just(Kind::Restore),
        1 => any_identity().prop_map(Kind::ClaimAfterLoss),
        1 => Just(Kind::Sweep),
    ];
    (0_u8..20, back, kind).prop_map(|(pause, back, kind)| Event { pause, back, kind })
}

fn any_identity() -> impl Strategy<Value = Identity> {
    let change = |change: fn(&mut Identity)| {
        let mut identity = COMMAND;
        change(&mut identity);
        identity
    };
    prop_oneof![
        8 => Just(COMMAND),
        1 => Just(change(|it| it.digest.request_sha = [8; 32])),
        1 => Just(change(|it| it.digest.frame_sha = [8; 32])),
        1 => Just(change(|it| it.principal_sha = Some([8; 32]))),
    ]
}

fn any_arrival() -> impl Strategy<Value = Arrival> {
    prop_oneof![9 => Just(Arrival::Ordinary), 1 => Just(Arrival::Early)]
}

pub(crate) fn any_receipt() -> impl Strategy<Value = Receipt> {
    let location = (Box::from("Location"), Bytes::from_static(b"/payments/7"));
    let kept = Answer { status: 201, headers: vec![location], body: Bytes::from_static(b"ok") };
    let bare = Answer { status: 402, headers: Vec::new(), body: Bytes::new() };
    select(vec![
        Receipt::Kept(kept),
        Receipt::Kept(bare),
        Receipt::Fact { status: 201, location: None },
    ])
}

fn any_reason() -> impl Strategy<Value = Reason> {
    select(Reason::ALL.map(|(reason, _)| reason).to_vec())
}

fn any_finding() -> impl Strategy<Value = Finding> {
    prop_oneof![
        2 => any_receipt().prop_map(Finding::Executed),
        1 => any_receipt().prop_map(Finding::Refused),
        5 => Just(Finding::NotFound),
        2 => Just(Finding::Pending),
        1 => Just(Finding::CannotTell),
        1 => Just(Finding::Different),
    ]
}

fn any_decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        any_receipt().prop_map(Decision::Executed),
        Just(Decision::NotExecuted),
        Just(Decision::Close),
    ]
}

pub(super) fn any_policy() -> impl Strategy<Value = Policy> {
    let second = Duration::from_secs;
    let bounded = Some(second(600));
    let counterparty = prop_oneof![
        1 => Just(Counterparty::Opaque),
        3 => Just(Counterparty::Answers { not_found_after: bounded }),
        1 => Just(Counterparty::Answers { not_found_after: None }),
        2 => Just(Counterparty::Dedups { key_life: second(3_600) }),
    ];
    (
        select(vec![second(1), second(60)]),
        select(vec![second(60), second(300)]),
        select(vec![second(3_600), second(30 * 24 * 3_600)]),
        counterparty,
        prop_oneof![4 => Just(Rerun::Never), 1 => Just(Rerun::Safe)],
        select(vec![OnMismatch::Reject, OnMismatch::Replay]),
        any::<bool>(),
        select(vec![1_u32, 2, 5, 20]),
    )
        .prop_map(
            |(lease, run_max, retention, counterparty, rerun, on_mismatch, bind, questions)| {
                // Not found is proof only the second time, so one question is not allowed there.
                let asks_twice =
                    matches!(counterparty, Counterparty::Answers { not_found_after: Some(_) });
                let questions = if asks_twice { questions.max(2) } else { questions };
                let choices = Choices {
                    lease,
                    run_max,
                    retention,
                    counterparty,
                    rerun,
                    on_mismatch,
                    bind_principal: bind,
                    questions_max: questions,
                    ..Choices::default()
                };
                choices.check().unwrap()
            },
        )
}

pub(crate) fn any_time() -> impl Strategy<Value = Time> {
    prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), Just(0), -5_i64..5]
        .prop_map(Time::from_micros)
}

pub(crate) fn any_owner() -> impl Strategy<Value = Owner> {
    (0_u8..3).prop_map(|byte| Owner::from_bytes([byte; 16]))
}

pub(crate) fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..4, Just(u64::MAX), any::<u64>()]
}

pub(crate) fn any_hold() -> impl Strategy<Value = Hold> {
    (any_owner(), any_number()).prop_map(|(owner, fence)| Hold { owner, fence: Fence::new(fence) })
}

pub(super) fn any_claim() -> impl Strategy<Value = Claim> {
    (any_identity(), any_owner(), any_arrival()).prop_map(|(request, owner, arrival)| Claim {
        request,
        owner,
        arrival,
    })
}

/// Any input at all, from holders that nobody made.
pub(super) fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        any_claim().prop_map(Input::Claim),
        any_claim().prop_map(Input::ClaimAfterLoss),
        Just(Input::Restore),
        any_hold().prop_map(Input::Renew),
        (any_hold(), any_receipt()).prop_map(|(hold, receipt)| Input::Settle(hold, receipt)),
        any_hold().prop_map(Input::Release),
        (any_hold(), any_reason()).prop_map(|(hold, reason)| Input::Doubt(hold, reason)),
        any_owner().prop_map(Input::Ask),
        (any_hold(), any_finding()).prop_map(|(hold, finding)| Input::Hear(hold, finding)),
        (any_hold(), any_decision()).prop_map(|(seen, it)| Input::Decide(seen, it)),
        any_hold().prop_map(Input::Forget),
        Just(Input::Sweep),
    ]
}

fn any_state() -> impl Strategy<Value = State> {
    let request = any_identity;
    let fence = || any_number().prop_map(Fence::new);
    let count = || prop_oneof![0_u32..3, Just(u32::MAX)];
    let running = (request(), any_time(), any_time(), any_time()).prop_map(
        |(request, since, lease_ends, run_ends)| {
            State::Running(Running { request, since, lease_ends, run_ends })
        },
    );
    let times = (any_time(), any_time(), any_time());
    let unknown = (
        request(),
        fence(),
        times,
        any_reason(),
        (count(), count()),
        prop::option::of(any_receipt()),
    )
        .prop_map(|(request, life, times, reason, (asked, not_found), evidence)| {
            let (since, last_send, ask_after) = times;
            State::Unknown(Unknown {
                request,
                life,
                since,
                reason,
                last_send,
                asked,
                not_found,
                ask_after,
                evidence,
            })
        });
    let review = (request(), fence(), any_time(), any_reason()).prop_map(
        |(request, life, since, reason)| State::Review(Review { request, life, since, reason }),
    );
    let done = (request(), any_time(), any_receipt())
        .prop_map(|(request, since, receipt)| State::Done(Done { request, since, receipt }));
    let closed = (request(), any_time())
        .prop_map(|(request, since)| State::Closed(Closed { request, since }));
    prop_oneof![Just(State::Free), running, unknown, review, done, closed]
}

/// Any record at all, also one that no history leads to.
pub(super) fn any_record() -> impl Strategy<Value = Record> {
    (any_number(), any_owner(), any_number(), any_time(), any_state()).prop_map(
        |(fence, holder, revision, keep_until, state)| Record {
            fence: Fence::new(fence),
            holder,
            revision,
            keep_until,
            state,
        },
    )
}
