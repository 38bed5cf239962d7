//! The world around one key: its row, who works on it, what is on its way, and the counterparty.

use samekey_core::fingerprint::{Digest, Version};
use samekey_core::lease::{Hold, Owner};
use samekey_core::policy::Policy;
use samekey_core::receipt::Receipt;
use samekey_core::record::{Identity, Record};
use samekey_core::step::Finding;
use samekey_core::time::Time;

/// How long one tick of the model's clock is: the longest lease, and the shortest retention.
pub(super) const TICK_S: i64 = 3_600;
/// A lease, and the whole run, in ticks. There are no renewals in the model.
pub(super) const LEASE: u8 = 1;
/// How long a request may still arrive after it was sent, where that is declared, in ticks.
pub(super) const NOT_FOUND_AFTER: u8 = 2;
/// How long a counterparty that deduplicates remembers a key, in ticks.
pub(super) const KEY_LIFE: u8 = 3;

/// What the database's clock says at a tick.
pub(super) fn at(tick: u8) -> Time {
    Time::from_micros((1_000_000 + i64::from(tick) * TICK_S) * 1_000_000)
}

/// The tick of a moment.
pub(super) fn tick(time: Time) -> u8 {
    u8::try_from((time.micros() / 1_000_000 - 1_000_000) / TICK_S).unwrap()
}

/// What a command asks for: the key's own content, or another one.
pub(super) fn content(other: bool) -> Identity {
    let digest = Digest { request_sha: [u8::from(other); 32], frame_sha: [7; 32] };
    Identity { version: Version(1), digest, principal_sha: None }
}

/// The answer of the counterparty to whoever had it executed.
pub(super) const EXECUTED: Receipt = Receipt::Fact { status: 201, location: None };
/// The answer that a person puts in.
pub(super) const BY_PERSON: Receipt = Receipt::Fact { status: 299, location: None };

/// What can be found out from the one on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// Nothing. It executes whatever arrives.
    Opaque,
    /// Whether it executed. It executes whatever arrives.
    Answers,
    /// It executes a key once for as long as it remembers it.
    Dedups,
    /// There is none: the effect is in the key's own transaction.
    Atomic,
}

/// One world to look through.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) other: Other,
    pub(super) policy: Policy,
    /// For every client, whether its command has the other content. Each runs at most once.
    pub(super) clients: Vec<bool>,
    pub(super) recoverers: usize,
    /// The last tick.
    pub(super) ticks: u8,
    pub(super) sweeps: bool,
    /// Whether there is a person who decides.
    pub(super) person: bool,
    /// Whether time passes between a look at the row and the write that follows. Where not, the
    /// two are one event: a compare-and-set that fails has changed nothing.
    pub(super) races: bool,
    pub(super) mutant: super::mutant::Mutant,
    /// What has to happen in this world at least once.
    pub(super) sometimes: Vec<&'static str>,
}

/// Everything that is, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) tick: u8,
    pub(super) row: Record,
    /// How often the row was swept: the number of the key's present life in the store.
    pub(super) epoch: u8,
    pub(super) clients: Vec<Client>,
    pub(super) recoverers: Vec<Recoverer>,
    /// The hold of the record that the person has on the screen.
    pub(super) person: Option<Hold>,
    /// Requests that were sent and have neither arrived nor been lost, sorted.
    pub(super) flight: Vec<Request>,
    /// Owners whose request was executed, or answered from memory; they may get the answer.
    pub(super) answered: Vec<Owner>,
    /// When the counterparty first saw the key.
    pub(super) first_seen: Option<u8>,
    /// Effects in each epoch.
    pub(super) effects: [u8; 3],
    /// Epochs in which a person, or a declaration that was not true, answers for a second effect.
    pub(super) excused: [bool; 3],
    /// Whether the next grant of a run has a reason: nothing ran before, or proof was given.
    pub(super) may_run: bool,
    /// The first law that a write broke.
    pub(super) broken: Option<Broken>,
}

/// Laws about single writes. They are noticed where the write happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Broken {
    DoneChanged,
    StaleWrite,
    GrantedTwice,
    OpenSwept,
    FenceFell,
}

/// A request on its way, with whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) hold: Hold,
    pub(super) epoch: u8,
    pub(super) sent: u8,
    /// When its sender was given the right to send.
    pub(super) given: u8,
}

/// A look at the row that a write will be based on.
pub(super) type Look = Option<(Record, u8)>;

/// A caller's process, from its claim to its settlement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) stage: Stage,
    pub(super) look: Look,
    /// Whether the acknowledgement of a write was lost.
    pub(super) lost: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// It wants to claim.
    Waiting,
    /// The claim is its own, and nothing is sent.
    Working(Right),
    /// It has given up before it sent anything, and says so.
    Releasing(Right),
    /// It has sent its request.
    Sent(Right),
    /// It has no answer and will have none, and says so.
    Doubting(Right),
    /// It has the answer, and settles.
    Answered(Right),
    /// Its answer is on record, in this epoch.
    Settled(u8),
    /// Its answer is on record as evidence.
    Evidence,
    /// Its write was refused: somebody else has the fence.
    FencedOut,
    /// It ended otherwise.
    Over,
}

/// What a granted hold is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Right {
    pub(super) hold: Hold,
    pub(super) epoch: u8,
    pub(super) given: u8,
}

/// A process that asks about unknown outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Recoverer {
    pub(super) stage: Asking,
    pub(super) look: Look,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asking {
    Idle,
    /// It may ask now.
    Turn(Right),
    /// It was told something, and reports.
    Told(Right, Finding),
}

/// Everything that may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Tick,
    Sweep,
    /// A client looks at the row, to write what its stage wants.
    Look(usize),
    /// It writes, and learns what became of it.
    Write(usize),
    /// It writes, and the acknowledgement is lost.
    WriteUnheard(usize),
    /// Its write does not arrive, and it learns that it may or may not stand.
    WriteLost(usize),
    Send(usize),
    GiveUpUnsent(usize),
    GetAnswer(usize),
    TimeOut(usize),
    Crash(usize),
    /// Claim, effect and answer in one transaction.
    Commit(usize),
    CommitUnheard(usize),
    /// A request arrives and is executed, or answered from memory.
    Arrive(usize),
    LookToAsk(usize),
    WriteAsk(usize),
    WriteAskUnheard(usize),
    /// The question is answered at once.
    Question(usize),
    /// Nothing can be told. Where the question is the command again, that stays on its way.
    QuestionSlow(usize),
    AskerCrash(usize),
    PersonLooks,
    PersonSaysExecuted,
    PersonSaysNotExecuted,
    PersonCloses,
}
