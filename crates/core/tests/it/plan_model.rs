//! The calling side's machine among others: every order of events around one command, up to a bound.
//!
//! What is covered. Workers, a person, a callback and a counterparty share the row of one command; a
//! checker tries every order in which their steps can fall. The row is only ever changed by the real
//! `plan`. A worker may crash at any point, sleep over its lease before it sends, before it asks, or with
//! an answer in its hands, find that nothing could be sent, time out, and lose the acknowledgement of a
//! write that landed and repeat it. A request may arrive any time later, or never. The counterparty
//! executes blindly and answers questions, with a bound for *not found* or without; or deduplicates for a
//! limited time, and may refuse what it has not executed; or can be asked nothing. A person may look, wait,
//! and then decide or have it tried again.
//!
//! What is not. There are two workers at most, a few ticks of time, two attempts, no in-flight and no
//! pending answer, one or two acts of a person and one callback; looks and writes are one step, since a compare-and-set
//! that fails has changed nothing. A second effect is excused where a person said *not executed*, and where
//! a declaration was not true: a request that arrives after `not_found_after`, or after its lease at a
//! counterparty that has forgotten the key by then.

mod mutant;
mod next;
mod properties;
mod world;

use mutant::Mutant;
use properties::{
    ALARM, ALWAYS, DECIDED, EVIDENCE, FAILED, LATE_EFFECT, LATE_PERSON, LATE_TRUTH, REFUSED,
    REFUSED_IN_DOUBT, REPEATED, SECOND_SEND, SOMETIMES, STALE, TAKE_OVER,
};
use samekey_core::backoff::Backoff;
use samekey_core::plan::enqueued;
use samekey_core::profile::{Answers, Declared, Limits};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;
use std::time::Duration;
use world::{
    Event, KEY_LIFE, LEASE, NOT_FOUND_AFTER, Other, Setting, Stage, TICK_S, Worker, World, at,
};

impl Model for Setting {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            tick: 0,
            row: enqueued(at(0), Duration::ZERO, &self.profile),
            workers: vec![Worker { stage: Stage::Idle, lost: false }; self.workers],
            person: None,
            acts: self.acts,
            callbacks: self.callbacks,
            flight: Vec::new(),
            answered: Vec::new(),
            first_seen: None,
            left: 0,
            effects: 0,
            late_effects: 0,
            vouched: false,
            acknowledged: false,
            losses: self.losses,
            told: None,
            broken: None,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Event>) {
        next::events(self, world, actions);
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        self.next(world, event)
    }

    fn properties(&self) -> Vec<Property<Setting>> {
        let always = ALWAYS.iter().map(|(name, holds)| Property::always(name, *holds));
        let wanted = SOMETIMES.iter().filter(|(name, _)| self.sometimes.contains(name));
        always.chain(wanted.map(|(name, is)| Property::sometimes(name, *is))).collect()
    }
}

fn ticks(count: u8) -> Duration {
    Duration::from_secs(u64::from(count) * u64::try_from(TICK_S).unwrap())
}

fn world_with(other: Other, declared: Declared, time_max: u8, questions_max: u32) -> Setting {
    // Waits are far below a tick: what is tried again is due at the next one.
    let wait = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(1) };
    let limits = Limits {
        attempt_time_max: Duration::from_secs(60),
        backoff: wait,
        attempts_max: 2,
        time_max: ticks(time_max),
        lease: ticks(LEASE),
        questions_max,
        questions: wait,
    };
    Setting {
        other,
        profile: limits.check(declared).unwrap(),
        workers: 2,
        ticks: 3,
        acts: 0,
        callbacks: 0,
        losses: 1,
        mutant: Mutant::None,
        sometimes: Vec::new(),
    }
}

fn answers() -> Setting {
    let bound = Answers { not_found_after: Some(ticks(NOT_FOUND_AFTER)), by_reference: false };
    let declared = Declared { answers: Some(bound), ..Declared::OPAQUE };
    world_with(Other::Answers, declared, 5, 2)
}

fn answers_without_bound() -> Setting {
    let declared = Declared { answers: Some(Answers::default()), ..Declared::OPAQUE };
    Setting { ticks: 2, acts: 1, ..world_with(Other::Answers, declared, 5, 2) }
}

fn dedups() -> Setting {
    let declared = Declared { dedups: Some(ticks(KEY_LIFE)), answers: None };
    Setting { ticks: 2, losses: 0, ..world_with(Other::Dedups, declared, 2, 1) }
}

/// As [`dedups`], until the key is forgotten: one worker, and a person who has it tried again.
fn forgets() -> Setting {
    Setting { workers: 1, ticks: 4, acts: 1, ..dedups() }
}

fn opaque() -> Setting {
    let one = world_with(Other::Opaque, Declared::OPAQUE, 4, 1);
    Setting { acts: 2, callbacks: 1, ticks: 2, ..one }
}

/// The bound of one look; it ends long before on any machine that builds this.
const TIME_MAX: Duration = Duration::from_secs(120);

/// Looks through a whole world, and gives the number of its states. The number is pinned: a change
/// of the machine or of this model that changes what can happen shows here, and is to be explained.
fn look_through(setting: Setting, sometimes: &[&'static str]) -> usize {
    let setting = Setting { sometimes: sometimes.to_vec(), ..setting };
    let checker = setting.checker().timeout(TIME_MAX).spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

#[test]
fn a_counterparty_that_answers_with_a_bound() {
    let sometimes =
        [TAKE_OVER, STALE, LATE_TRUTH, LATE_EFFECT, SECOND_SEND, REPEATED, FAILED, ALARM];
    assert_eq!(look_through(answers(), &sometimes), 44_736);
}

#[test]
fn a_counterparty_that_answers_without_a_bound() {
    let sometimes = [TAKE_OVER, STALE, LATE_TRUTH, REPEATED, FAILED, DECIDED, LATE_PERSON];
    assert_eq!(look_through(answers_without_bound(), &sometimes), 21_236);
}

#[test]
fn a_counterparty_that_deduplicates_and_may_refuse() {
    let sometimes =
        [TAKE_OVER, STALE, EVIDENCE, LATE_TRUTH, SECOND_SEND, REFUSED, REFUSED_IN_DOUBT, FAILED];
    assert_eq!(look_through(dedups(), &sometimes), 2_874);
}

#[test]
fn a_counterparty_that_forgets_its_keys() {
    let sometimes = [LATE_EFFECT, SECOND_SEND, REFUSED_IN_DOUBT, DECIDED];
    assert_eq!(look_through(forgets(), &sometimes), 85_454);
}

#[test]
fn a_counterparty_that_nobody_can_ask() {
    let sometimes = [LATE_TRUTH, REPEATED, REFUSED, FAILED, DECIDED, LATE_PERSON, SECOND_SEND];
    assert_eq!(look_through(opaque(), &sometimes), 54_130);
}

/// The tests are tested: every mutant is found out, and by the property that is meant for it.
#[test]
fn every_mutant_is_found_out() {
    let effect = "S1: at most one effect, unless somebody answers for it";
    let failed = "failed means that nothing ran";
    let stale = "S10: no write by a stale hold but certain news";
    let mutants = [
        (Mutant::LapseIsUnrun, opaque(), effect),
        (Mutant::DoubtIsUnrun, answers(), effect),
        (Mutant::DoubtFails, opaque(), failed),
        (Mutant::OneNotFoundIsProof, answers(), effect),
        (Mutant::NotFoundWithoutBound, answers_without_bound(), effect),
        (Mutant::AnyRefusalIsFinal, dedups(), "refused means that nothing ran"),
        (Mutant::MemoryIsEndless, forgets(), effect),
        (Mutant::AnyHoldReports, dedups(), stale),
        (Mutant::FenceIsForgotten, answers(), "S10: the fence never falls"),
        (Mutant::LateNewsOverwrites, dedups(), "what is finished never changes"),
        (Mutant::EvidenceIsDropped, dedups(), "S3: what was acknowledged stays on record"),
        (Mutant::FenceIsKept, answers(), "what was said twice counts once"),
        (Mutant::SendIsNotRecorded, opaque(), "every attempt is on record before it leaves"),
        (Mutant::DecisionOnAnything, opaque(), "what is finished never changes"),
        (Mutant::NothingMeansSuccess, opaque(), "succeeded means that it ran"),
    ];
    for (mutant, setting, name) in mutants {
        let found = HasDiscoveries::AnyOf(BTreeSet::from([name]));
        let setting = Setting { mutant, ..setting };
        let checker = setting.checker().finish_when(found).timeout(TIME_MAX).spawn_bfs().join();
        assert!(checker.discovery(name).is_some(), "{mutant:?} was not found out");
    }
}
