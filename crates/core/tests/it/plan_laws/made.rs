//! Deliveries, inputs and profiles by chance.

use crate::laws::made::{any_hold, any_number, any_owner, any_receipt, any_time};
use proptest::prelude::*;
use proptest::sample::select;
use samekey_core::backoff::{Backoff, Chance};
use samekey_core::delivery::{
    AskedBy, Delivery, Ended, Grounds, Proof, Reason, Resolution, Sending, State, Unknown, Waiting,
};
use samekey_core::lease::{Fence, Hold, Owner};
use samekey_core::outcome::{Heard, NotRun, Outcome, Speaks, Told};
use samekey_core::plan::{Decision, Input, Verdict, enqueued, enqueued_after_loss, plan};
use samekey_core::profile::{Answers, Declared, Limits, Profile};
use samekey_core::time::Time;
use std::collections::BTreeSet;
use std::time::Duration;

/// How many inputs a history has at the most: enough for attempts, questions, a person, and attempts again.
const HISTORY_MAX: usize = 28;

/// A delivery that a history led to, and what happens to it next.
#[derive(Clone, Debug)]
pub(super) struct Lived {
    pub(super) delivery: Delivery,
    pub(super) input: Input,
    pub(super) now: Time,
    pub(super) profile: Profile,
    /// What may have run, kept by the history itself.
    pub(super) suspects: Suspects,
    /// When the last question was granted.
    pub(super) asked: Time,
    /// Every hold under which something was sent, the first one first.
    pub(super) sent: Vec<Hold>,
}

/// Attempts of which nobody proved that they ran nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Suspects {
    /// By the fences under which they were made.
    pub(super) attempts: BTreeSet<u64>,
    /// There may be one that the store has lost.
    pub(super) lost: bool,
}

impl Suspects {
    pub(super) fn none(&self) -> bool {
        self.attempts.is_empty() && !self.lost
    }

    /// What may have run after this step. It goes by what was said, not by what the machine made of it.
    pub(super) fn after(
        mut self,
        before: &Delivery,
        input: &Input,
        next: &Delivery,
        verdict: &Verdict,
    ) -> Suspects {
        let held =
            |hold: &Hold| *hold == before.hold() && matches!(before.state, State::Sending(_));
        match input {
            Input::Take(_) => {
                if let Verdict::Send(attempt) = verdict {
                    self.attempts.insert(attempt.hold.fence.number());
                }
            }
            Input::Release(hold, _) if held(hold) => {
                self.attempts.remove(&hold.fence.number());
            }
            Input::Report(hold, told, _) if held(hold) => match told.what {
                Outcome::NotRun(_) | Outcome::NotAccepted(_) | Outcome::Refused(..) => {
                    self.attempts.remove(&hold.fence.number());
                }
                Outcome::Done(_)
                | Outcome::DoneBodyLost(_)
                | Outcome::InFlight
                | Outcome::Pending
                | Outcome::Unknown(_)
                | Outcome::Stop(_) => {}
            },
            // The second time, after the bound; that it is the second is a law of its own.
            Input::Hear(_, Told { what: Heard::NotFound, .. }, _) => {
                if let (State::Unknown(before), State::Waiting(_)) = (&before.state, &next.state)
                    && before.not_found == 1
                {
                    self = Suspects::default();
                }
            }
            Input::Decide(_, Decision::NotExecuted) if next.revision != before.revision => {
                self = Suspects::default();
            }
            Input::Restore => self.lost |= next.revision != before.revision,
            Input::Defer(_)
            | Input::Report(..)
            | Input::Hear(..)
            | Input::Release(..)
            | Input::Learn(_)
            | Input::Cancel
            | Input::Decide(..)
            | Input::Retry(_) => {}
        }
        self
    }
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
    Take,
    Defer(Duration),
    Report(Told<Outcome>, Chance),
    Hear(Told<Heard>, Chance),
    Release(Duration),
    Learn(Proof),
    Cancel,
    Decide(Decision),
    Retry,
    Restore,
}

/// Every step of a history, in order.
pub(super) fn history() -> impl Strategy<Value = Vec<Lived>> {
    let events = prop::collection::vec(any_event(), 2..HISTORY_MAX);
    (any_profile(), any_pause(), prop::bool::weighted(0.15), events).prop_map(
        |(profile, delay, after_loss, events)| {
            let mut now = Time::from_micros(1_000_000_000);
            let mut suspects = Suspects { lost: after_loss, ..Suspects::default() };
            let mut delivery = if after_loss {
                enqueued_after_loss(now, delay, &profile)
            } else {
                enqueued(now, delay, &profile)
            };
            let mut holds = Holds::default();
            let mut asked = now;
            let mut steps = Vec::with_capacity(events.len());
            for (number, event) in (1_u8..).zip(events) {
                now =
                    Time::from_micros(now.micros() + pause(event.pause, &profile, &delivery, now));
                let input = input(event, &delivery, &holds, Owner::from_bytes([number; 16]));
                let (next, verdict) = plan(delivery.clone(), input.clone(), now, &profile);
                let after = suspects.clone().after(&delivery, &input, &next, &verdict);
                let sent = holds.sent.clone();
                steps.push(Lived { delivery, input, now, profile, suspects, asked, sent });
                if let Verdict::Send(attempt) = &verdict {
                    holds.sent.push(attempt.hold);
                }
                if let Verdict::Ask(hold, _) = verdict {
                    asked = now;
                    holds.asked.push(hold);
                }
                (delivery, suspects) = (next, after);
            }
            steps
        },
    )
}

/// Pauses that matter to this profile and delivery, in microseconds; one goes back.
fn pause(choice: u8, profile: &Profile, delivery: &Delivery, now: Time) -> i64 {
    let until = |moment: Time| i64::try_from(moment.since(now).as_micros()).unwrap();
    let of = |span: Duration| i64::try_from(span.as_micros()).unwrap();
    match choice {
        0..=6 => 0,
        7 => 1_500_000,
        8 => of(profile.lease) / 2,
        9 => of(profile.lease),
        10 => -2_000_000,
        11 => until(delivery.gives_up),
        12 => 100_000_000,
        _ => delivery.due().map_or(0, until),
    }
}

/// The holds that were given: who sent reports what came of it, and who asked what was heard.
#[derive(Default)]
struct Holds {
    sent: Vec<Hold>,
    asked: Vec<Hold>,
}

fn input(event: Event, delivery: &Delivery, holds: &Holds, new: Owner) -> Input {
    let of = |given: &[Hold]| given.iter().rev().nth(event.back).or(given.first()).copied();
    let nobody = Hold { owner: new, fence: delivery.fence.next() };
    let sender = of(&holds.sent).unwrap_or(nobody);
    let asker = of(&holds.asked).unwrap_or(nobody);
    let either = if matches!(delivery.state, State::Sending(_)) { sender } else { asker };
    // A person looks at the delivery as it is, or as it was when a hold was given.
    let seen = if event.back == 0 { delivery.hold() } else { sender };
    match event.kind {
        Kind::Take => Input::Take(new),
        Kind::Defer(pause) => Input::Defer(pause),
        Kind::Report(told, chance) => Input::Report(sender, told, chance),
        Kind::Hear(told, chance) => Input::Hear(asker, told, chance),
        Kind::Release(pause) => Input::Release(either, pause),
        Kind::Learn(proof) => Input::Learn(proof),
        Kind::Cancel => Input::Cancel,
        Kind::Decide(decision) => Input::Decide(seen, decision),
        Kind::Retry => Input::Retry(seen),
        Kind::Restore => Input::Restore,
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let back = prop_oneof![6 => Just(0_usize), 1 => Just(1), 1 => 2_usize..5];
    let kind = prop_oneof![
        12 => Just(Kind::Take),
        2 => any_pause().prop_map(Kind::Defer),
        10 => (any_told(any_outcome()), any_chance()).prop_map(|(it, chance)| Kind::Report(it, chance)),
        8 => (any_told(any_heard()), any_chance()).prop_map(|(it, chance)| Kind::Hear(it, chance)),
        1 => any_pause().prop_map(Kind::Release),
        1 => any_proof().prop_map(Kind::Learn),
        1 => Just(Kind::Cancel),
        1 => any_decision().prop_map(Kind::Decide),
        1 => Just(Kind::Retry),
        1 => Just(Kind::Restore),
    ];
    (0_u8..26, back, kind).prop_map(|(pause, back, kind)| Event { pause, back, kind })
}

fn any_pause() -> impl Strategy<Value = Duration> {
    select(vec![Duration::ZERO, Duration::from_secs(5), Duration::from_secs(3_600)])
}

pub(super) fn any_chance() -> impl Strategy<Value = Chance> {
    any::<u16>().prop_map(Chance::new)
}

/// What was told, sometimes with a wait: short, long, or absurd.
pub(super) fn any_told<T: std::fmt::Debug>(
    what: impl Strategy<Value = T>,
) -> impl Strategy<Value = Told<T>> {
    let wait = prop_oneof![
        6 => Just(None),
        2 => (0_u64..200).prop_map(|seconds| Some(Duration::from_secs(seconds))),
        1 => select(vec![Some(Duration::from_secs(999_999)), Some(Duration::MAX)]),
    ];
    (what, wait).prop_map(|(what, retry_after)| Told { what, retry_after })
}

pub(super) fn any_outcome() -> impl Strategy<Value = Outcome> {
    let speaks = select(vec![Speaks::ForItself, Speaks::ForTheKey]);
    let not_run = select(vec![NotRun::NotSent, NotRun::NotProcessed, NotRun::RateLimited]);
    prop_oneof![
        1 => any_receipt().prop_map(Outcome::Done),
        2 => any_receipt().prop_map(Outcome::DoneBodyLost),
        2 => (any_receipt(), speaks).prop_map(|(it, speaks)| Outcome::Refused(it, speaks)),
        6 => not_run.prop_map(Outcome::NotRun),
        2 => Just(Outcome::NotAccepted(Reason::NotAccepted)),
        2 => Just(Outcome::InFlight),
        2 => Just(Outcome::Pending),
        6 => select(vec![Reason::TimedOut, Reason::ServerError]).prop_map(Outcome::Unknown),
        1 => select(vec![Reason::KeyReused, Reason::UnknownThere]).prop_map(Outcome::Stop),
    ]
}

pub(super) fn any_heard() -> impl Strategy<Value = Heard> {
    prop_oneof![
        1 => any_receipt().prop_map(Heard::Executed),
        1 => any_receipt().prop_map(Heard::Refused),
        8 => Just(Heard::NotFound),
        2 => Just(Heard::Pending),
        3 => Just(Heard::CannotTell),
        1 => Just(Heard::Different),
    ]
}

fn any_proof() -> impl Strategy<Value = Proof> {
    prop_oneof![any_receipt().prop_map(Proof::Executed), any_receipt().prop_map(Proof::Refused),]
}

fn any_decision() -> impl Strategy<Value = Decision> {
    select(vec![Decision::Executed, Decision::NotExecuted, Decision::WriteOff])
}

pub(super) fn any_profile() -> impl Strategy<Value = Profile> {
    let second = Duration::from_secs;
    let answers = select(vec![
        None,
        Some(Answers { not_found_after: Some(second(60)), by_reference: false }),
        Some(Answers { not_found_after: Some(second(60)), by_reference: true }),
        Some(Answers::default()),
    ]);
    (
        select(vec![None, Some(second(700))]),
        answers,
        select(vec![second(60), second(600)]),
        1_u32..6,
        2_u32..5,
        select(vec![Duration::from_millis(200), second(2)]),
    )
        .prop_map(move |(dedups, answers, time_max, attempts_max, questions_max, base)| {
            let limits = Limits {
                attempt_time_max: second(30),
                backoff: Backoff { base, cap: second(20) },
                attempts_max,
                time_max,
                lease: second(40),
                questions_max,
                questions: Backoff { base: second(4), cap: second(300) },
            };
            limits.check(Declared { dedups, answers }).unwrap()
        })
}

/// Any input at all, from holders that nobody made.
pub(super) fn any_input() -> impl Strategy<Value = Input> {
    let span = || select(vec![Duration::ZERO, Duration::from_secs(7), Duration::MAX]);
    prop_oneof![
        any_owner().prop_map(Input::Take),
        span().prop_map(Input::Defer),
        (any_hold(), any_told(any_outcome()), any_chance())
            .prop_map(|(hold, told, chance)| Input::Report(hold, told, chance)),
        (any_hold(), any_told(any_heard()), any_chance())
            .prop_map(|(hold, told, chance)| Input::Hear(hold, told, chance)),
        (any_hold(), span()).prop_map(|(hold, pause)| Input::Release(hold, pause)),
        any_proof().prop_map(Input::Learn),
        Just(Input::Cancel),
        (any_hold(), any_decision()).prop_map(|(seen, it)| Input::Decide(seen, it)),
        any_hold().prop_map(Input::Retry),
        Just(Input::Restore),
    ]
}

fn any_count() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..4, Just(u32::MAX)]
}

fn any_reason() -> impl Strategy<Value = Reason> {
    select(Reason::ALL.map(|(reason, _)| reason).to_vec())
}

fn any_ended<T: Clone + std::fmt::Debug>(
    with: impl Strategy<Value = T>,
) -> impl Strategy<Value = Ended<T>> {
    (any_time(), with).prop_map(|(since, with)| Ended { since, with })
}

fn any_state() -> impl Strategy<Value = State> {
    let grounds = || select(vec![Grounds::Unrun, Grounds::Dedups, Grounds::InFlight]);
    let resolution = select(vec![Resolution::Executed, Resolution::WrittenOff]);
    prop_oneof![
        3 => (any_time(), grounds())
            .prop_map(|(due, grounds)| State::Waiting(Waiting { due, grounds })),
        3 => (any_time(), any_time(), grounds()).prop_map(|(since, lease_ends, grounds)| {
            State::Sending(Sending { since, lease_ends, grounds })
        }),
        3 => (any_time(), any_count(), any_count()).prop_map(|(due, asked, not_found)| {
            State::Unknown(Unknown { due, asked, not_found })
        }),
        1 => any_ended(any_receipt()).prop_map(State::Succeeded),
        1 => any_ended(any_receipt()).prop_map(State::Refused),
        1 => any_ended(any_reason()).prop_map(State::Failed),
        1 => any_ended(any_reason()).prop_map(State::Undecided),
        1 => any_ended(Just(())).prop_map(State::Cancelled),
        1 => any_ended(resolution).prop_map(State::Resolved),
    ]
}

/// Any delivery at all, also one that no history leads to.
pub(super) fn any_delivery() -> impl Strategy<Value = Delivery> {
    let who = (any_number(), any_owner(), any_number());
    let times = (any_time(), any_time());
    let sent =
        (any_count(), any_count(), prop::option::of(any_time()), prop::option::of(any_time()));
    let known = (
        prop::option::of(any_reason()),
        prop::option::of(any_proof()),
        select(vec![AskedBy::Key, AskedBy::Reference]),
    );
    (who, times, sent, known, any_state()).prop_map(
        |((fence, holder, revision), (began, gives_up), sent, (doubt, proof, asked_by), state)| {
            let (sends, attempts, first_send, last_send) = sent;
            Delivery {
                fence: Fence::new(fence),
                holder,
                revision,
                began,
                gives_up,
                sends,
                attempts,
                first_send,
                last_send,
                doubt,
                last: None,
                proof,
                asked_by,
                state,
            }
        },
    )
}
