//! The world around one command: its row, who works on it, what is on its way, and the counterparty.

use super::mutant::Mutant;
use samekey_core::delivery::Delivery;
use samekey_core::lease::Hold;
use samekey_core::outcome::{Heard, Outcome};
use samekey_core::profile::Profile;
use samekey_core::receipt::Receipt;
use samekey_core::time::Time;

/// How long one tick of the model's clock is.
pub(super) const TICK_S: i64 = 3_600;
/// A lease, in ticks.
pub(super) const LEASE: u8 = 1;
/// How long a request may still arrive after it was sent, where that is declared, in ticks.
pub(super) const NOT_FOUND_AFTER: u8 = 1;
/// How long a counterparty that deduplicates remembers a key, in ticks.
pub(super) const KEY_LIFE: u8 = 3;

/// What the database's clock says at a tick.
pub(super) fn at(tick: u8) -> Time {
    Time::from_micros((1_000_000 + i64::from(tick) * TICK_S) * 1_000_000)
}

/// The answer to whoever had it executed, and to whoever asks.
pub(super) const EXECUTED: Receipt = Receipt::Fact { status: 201, location: None };
/// The answer to whoever was refused.
pub(super) const REFUSED: Receipt = Receipt::Fact { status: 402, location: None };

/// What can be found out from the one on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// Nothing. It executes or refuses whatever arrives.
    Opaque,
    /// Whether it executed. It executes whatever arrives.
    Answers,
    /// It executes a key once for as long as it remembers it, and may refuse what it has not executed.
    Dedups,
}

/// One world to look through.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) other: Other,
    pub(super) profile: Profile,
    pub(super) workers: usize,
    /// The last tick.
    pub(super) ticks: u8,
    /// How often a person does something.
    pub(super) acts: u8,
    /// How often somebody tells, unasked, that it was executed.
    pub(super) callbacks: u8,
    /// How many acknowledgements are lost.
    pub(super) losses: u8,
    pub(super) mutant: Mutant,
    /// What has to happen in this world at least once.
    pub(super) sometimes: Vec<&'static str>,
}

/// Everything that is, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) tick: u8,
    pub(super) row: Delivery,
    pub(super) workers: Vec<Worker>,
    /// The hold of the delivery that the person has on the screen.
    pub(super) person: Option<Hold>,
    pub(super) acts: u8,
    pub(super) callbacks: u8,
    /// Requests that were sent and have neither arrived nor been lost, sorted.
    pub(super) flight: Vec<Request>,
    /// Whose request was executed, or answered from memory (true), or refused, while they still wait for
    /// the answer.
    pub(super) answered: Vec<(Hold, bool)>,
    /// When the counterparty last executed the key.
    pub(super) first_seen: Option<u8>,
    /// Requests that left.
    pub(super) left: u32,
    /// Effects for which nobody but us answers.
    pub(super) effects: u8,
    /// Effects of requests that came when, by what was declared, none could come.
    pub(super) late_effects: u8,
    /// A person said that nothing ran, and answers for what comes of it.
    pub(super) vouched: bool,
    /// A worker was told that its *done* is on record.
    pub(super) acknowledged: bool,
    /// Acknowledgements that may still be lost.
    pub(super) losses: u8,
    /// What the write that led here was told, where that has left no other trace.
    pub(super) told: Option<Traceless>,
    /// The first law that a write broke.
    pub(super) broken: Option<Broken>,
}

/// Laws about single writes. They are noticed where the write happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Broken {
    FinishedChanged,
    StaleWrite,
    CountedTwice,
    FenceFell,
}

/// Verdicts after which the row is as it was, or nearly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Traceless {
    Recorded,
    Contradicts,
    Stale,
    StaleView,
}

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) hold: Hold,
    pub(super) sent: u8,
    /// When its sender was given the right to send.
    pub(super) given: u8,
}

/// A process that takes what is due.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Worker {
    pub(super) stage: Stage,
    /// Whether the acknowledgement of its write was lost.
    pub(super) lost: bool,
}

/// What a granted hold is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Right {
    pub(super) hold: Hold,
    pub(super) given: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Idle,
    /// An attempt is on record, and nothing is sent.
    Attempt(Right),
    /// It has sent its request.
    Sent(Right),
    /// It knows what its attempt came to, and reports.
    Told(Right, Outcome),
    /// It may ask now.
    Turn(Right),
    /// It was told something, and reports.
    Heard(Right, Heard),
}

/// Everything that may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Tick,
    Take(usize),
    Send(usize),
    /// Nothing could be sent.
    FindNoWay(usize),
    GetAnswer(usize),
    TimeOut(usize),
    Crash(usize),
    /// The question is answered at once.
    Question(usize),
    QuestionFails(usize),
    /// It writes, and learns what became of it.
    Write(usize),
    /// It writes, and the acknowledgement is lost.
    WriteUnheard(usize),
    /// A request arrives and is executed, or answered from memory.
    Arrive(usize),
    /// A request arrives and is refused.
    ArriveRefused(usize),
    /// Somebody tells, unasked, that it was executed.
    Callback,
    PersonLooks,
    PersonSaysExecuted,
    PersonSaysNotExecuted,
    PersonRetries,
}
