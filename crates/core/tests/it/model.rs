//! The machine among others: every order of events around one key, up to a bound.
//!
//! What is covered. Callers, processes that ask, a person, a sweep and a counterparty share the row
//! of one key; a checker tries every order in which their steps can fall. The row is only ever
//! changed by the real `step`, behind a store that compares owner, fence and revision. A caller may
//! crash at any point, sleep over its lease before it sends or before it settles, give up before it
//! sends, time out, lose the acknowledgement of a write that landed, and repeat it. A request may
//! arrive any time later, or never. The counterparty executes blindly and answers questions, or
//! deduplicates for a limited time, or can be asked nothing; or there is none, and the effect shares
//! the key's transaction. A person may look, wait, and then decide anything. In the world with the
//! sweep, looks and writes are apart, so that every write can be overtaken.
//!
//! What is not. There are two callers at most with one content (three in the atomic world, one with
//! other content), each of which runs once; one asker, four ticks of time, two or three questions,
//! no renewal, no answer "still at work" and no refusal by the counterparty, no `rerun = safe`. A caller that repeats a claim does
//! so within the retention. A second effect is excused where a person said *not executed*, and where
//! a declaration was not true: a request that arrives after `not_found_after`, or that a sleeper
//! sends to a counterparty that has forgotten the key. Whether a shell does what it is told is shown
//! by the simulation, not here.

mod mutant;
mod next;
mod note;
mod properties;
mod world;

use mutant::Mutant;
use properties::{
    ALWAYS, CLOSED, EVIDENCE, EVIDENCE_USED, FENCED_OUT, LATE, LATE_EFFECT, LATE_PERSON, RESOLVED,
    REVIEW, SECOND_LIFE, SOMETIMES, SWEEP_RACE, TAKE_OVER, TWO_ASKERS,
};
use samekey_core::policy::{Choices, Counterparty};
use samekey_core::record::Record;
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;
use std::time::Duration;
use world::{
    Asking, Client, Event, KEY_LIFE, LEASE, NOT_FOUND_AFTER, Other, Recoverer, Setting, Stage,
    TICK_S, World,
};

impl Model for Setting {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        let waiting = Client { stage: Stage::Waiting, look: None, lost: false };
        let idle = Recoverer { stage: Asking::Idle, look: None };
        vec![World {
            tick: 0,
            row: Record::ABSENT,
            epoch: 0,
            clients: vec![waiting; self.clients.len()],
            recoverers: vec![idle; self.recoverers],
            person: None,
            flight: Vec::new(),
            answered: Vec::new(),
            first_seen: None,
            effects: [0; 3],
            excused: [false; 3],
            may_run: true,
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

/// A world with this counterparty, two clients with one content, and nobody who asks.
fn world_with(other: Other, counterparty: Counterparty, questions_max: u32) -> Setting {
    let policy = Choices {
        lease: ticks(LEASE),
        run_max: ticks(LEASE),
        retention: ticks(1),
        counterparty,
        questions_max,
        ..Choices::default()
    };
    Setting {
        other,
        policy: policy.check().unwrap(),
        clients: vec![false, false],
        recoverers: 1,
        ticks: 4,
        sweeps: false,
        person: false,
        races: false,
        mutant: Mutant::None,
        sometimes: Vec::new(),
    }
}

fn answers() -> Setting {
    let bound = Some(ticks(NOT_FOUND_AFTER));
    world_with(Other::Answers, Counterparty::Answers { not_found_after: bound }, 3)
}

fn answers_without_bound() -> Setting {
    let one = world_with(Other::Answers, Counterparty::Answers { not_found_after: None }, 2);
    Setting { person: true, ticks: 2, ..one }
}

fn dedups() -> Setting {
    let one = world_with(Other::Dedups, Counterparty::Dedups { key_life: ticks(KEY_LIFE) }, 2);
    Setting { clients: vec![false], ticks: 3, ..one }
}

fn opaque() -> Setting {
    let one = world_with(Other::Opaque, Counterparty::Opaque, 1);
    Setting { sweeps: true, person: true, races: true, recoverers: 0, ticks: 2, ..one }
}

fn atomic() -> Setting {
    let one = world_with(Other::Atomic, Counterparty::Opaque, 1);
    Setting { clients: vec![false, false, true], sweeps: true, recoverers: 0, ..one }
}

/// Looks through a whole world, and gives the number of its states. The number is pinned: a change
/// of the machine or of this model that changes what can happen shows here, and is to be explained.
fn look_through(setting: Setting, sometimes: &[&'static str]) -> usize {
    let setting = Setting { sometimes: sometimes.to_vec(), ..setting };
    let checker = setting.checker().timeout(TIME_MAX).spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

/// The bound of one look; it ends long before on any machine that builds this.
const TIME_MAX: Duration = Duration::from_secs(120);

#[test]
fn a_counterparty_that_answers_with_a_bound() {
    let sometimes = [
        TAKE_OVER,
        FENCED_OUT,
        RESOLVED,
        LATE,
        LATE_EFFECT,
        EVIDENCE,
        EVIDENCE_USED,
        REVIEW,
        TWO_ASKERS,
    ];
    assert_eq!(look_through(answers(), &sometimes), 115_657);
}

#[test]
fn a_counterparty_that_answers_without_a_bound() {
    let sometimes =
        [TAKE_OVER, FENCED_OUT, LATE_EFFECT, EVIDENCE_USED, REVIEW, CLOSED, LATE_PERSON];
    assert_eq!(look_through(answers_without_bound(), &sometimes), 71_510);
}

#[test]
fn a_counterparty_that_deduplicates() {
    let sometimes = [TAKE_OVER, FENCED_OUT, RESOLVED, LATE_EFFECT, EVIDENCE_USED, REVIEW];
    assert_eq!(look_through(dedups(), &sometimes), 27_969);
}

#[test]
fn a_counterparty_that_nobody_can_ask_with_a_person_and_a_sweep() {
    let sometimes = [
        FENCED_OUT,
        RESOLVED,
        LATE,
        LATE_EFFECT,
        SWEEP_RACE,
        SECOND_LIFE,
        REVIEW,
        CLOSED,
        LATE_PERSON,
    ];
    assert_eq!(look_through(opaque(), &sometimes), 46_326);
}

#[test]
fn an_effect_in_the_keys_own_transaction() {
    assert_eq!(look_through(atomic(), &[RESOLVED]), 674);
}

/// The tests are tested: every mutant is found out, and by the property that is meant for it.
#[test]
fn every_mutant_is_found_out() {
    let once = "S1: a run is granted once in a life";
    let effect = "S1: at most one effect, unless somebody answers for it";
    let stale = "S10: no write by a stale fence";
    let done = "S10: done never changes";
    let mutants = [
        (Mutant::SettleWithoutFence, answers(), stale),
        (Mutant::ReleaseWithoutFence, answers(), stale),
        (Mutant::LapseRuns, answers(), once),
        (Mutant::SweepTakesOpen, opaque(), "S15: nothing open is swept"),
        (Mutant::NotFoundFrees, answers_without_bound(), effect),
        (Mutant::DoubtFrees, answers(), effect),
        (Mutant::AskAfterMemory, dedups(), effect),
        (Mutant::FreeForgetsFence, answers(), "S10: the fence never falls"),
        (
            Mutant::MismatchPasses,
            atomic(),
            "S7: other content is a mismatch in every state but free",
        ),
        (Mutant::DecisionOnAnything, opaque(), done),
        (Mutant::DoneIsOverwritten, answers(), stale),
        (Mutant::EvidenceFrees, answers(), once),
        (Mutant::StoreWithoutCompare, opaque(), once),
        (Mutant::LostWriteCounts, opaque(), "S4: nothing is sent without a committed claim"),
    ];
    for (mutant, setting, name) in mutants {
        let found = HasDiscoveries::AnyOf(BTreeSet::from([name]));
        let setting = Setting { mutant, ..setting };
        let checker = setting.checker().finish_when(found).timeout(TIME_MAX).spawn_bfs().join();
        assert!(checker.discovery(name).is_some(), "{mutant:?} was not found out");
    }
}
