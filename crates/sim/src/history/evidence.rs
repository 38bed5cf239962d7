//! What is known of a run beside what its clients saw.

use super::samples::Sample;
use super::{Attempt, Effect, Moment, Row, Rules};
use std::time::Duration;

/// The default retention of a route.
const RETENTION_DEFAULT: Duration = Duration::from_secs(30 * 24 * 3600);

/// A claim or a settlement takes a few milliseconds, and a loaded machine multiplies that.
const TRANSACTION_MAX_DEFAULT: Duration = Duration::from_millis(500);

/// Everything that a run is judged by. What stays empty is not judged.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The counterparty's ledger, where it tells no amounts.
    pub effects: Vec<Effect>,
    /// The counterparty's ledger, where it does; each of these is an effect as well.
    pub bookings: Vec<Booking>,
    /// The ledger of keys at the end.
    pub rows: Vec<Row>,
    /// How the route differs from the defaults.
    pub rules: Rules,
    /// What this run may do.
    pub limits: Limits,
    /// The ledger of keys over time, in order.
    pub samples: Vec<Sample>,
    /// The keys that recovery would find at the end, as (organisation, key).
    pub open_claims: Vec<(String, String)>,
    /// Open transactions over time, in any order.
    pub activity: Vec<Activity>,
    /// The database after everything has healed and ended.
    pub at_rest: Option<Activity>,
    /// Calls to the counterparty, in any order.
    pub calls: Vec<Call>,
    /// How the commands of the run ended, where a courier delivers them.
    pub commands: Vec<EndedCommand>,
    /// What people did meanwhile.
    pub by_person: Vec<ByPerson>,
    /// Texts that must stand nowhere.
    pub secrets: Vec<String>,
    /// Where they are looked for, beside all answers.
    pub captured: Vec<Captured>,
    /// After healing: each key asked for once more, on each node, with its own content.
    pub last_round: Vec<LastAnswer>,
}

/// What a run may do, and how far its surroundings can be told from a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Whether an action may end with a person, as where the counterparty is opaque.
    pub may_end_in_review: bool,
    /// S11: a transaction that has waited for its client for so long, while a call has been on its way for as
    /// long, is taken for that call's. Longer than any other transaction takes; a test lets its calls last
    /// for twice as long.
    pub transaction_max: Duration,
    /// S12: calls of one kind within one claim.
    pub calls_max: usize,
    /// S12: the least pause before the second call of one kind; it doubles from one to the next.
    pub pause_first: Duration,
    /// S12: the least pause grows no further than this.
    pub pause_max: Duration,
    /// S12: first pauses of eight claims or more differ by this much, at least.
    pub jitter_min: Duration,
    /// S13: whether a command that may have been sent is asked about before it is sent again, as where its
    /// counterparty does not deduplicate.
    pub asks_first: bool,
    /// S15: the route's retention.
    pub retention: Duration,
}

impl Default for Limits {
    /// Nobody may end in review, nothing is asked of pauses, and a call is made once.
    fn default() -> Self {
        Self {
            may_end_in_review: false,
            transaction_max: TRANSACTION_MAX_DEFAULT,
            calls_max: 1,
            pause_first: Duration::ZERO,
            pause_max: Duration::MAX,
            jitter_min: Duration::ZERO,
            asks_first: false,
            retention: RETENTION_DEFAULT,
        }
    }
}

/// An effect as a ledger with amounts has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Whose it is.
    pub org: String,
    /// Which it is, in the terms of [`Effect::reference`].
    pub reference: String,
    /// How much, in the smallest unit of its currency.
    pub amount: u64,
}

/// How the command of one action stood when everything was over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedCommand {
    /// Whose it is.
    pub org: String,
    /// What it is for, in the terms of [`Effect::reference`].
    pub reference: String,
    /// Its state, such as `succeeded`; empty where there is no command.
    pub state: String,
}

/// What a person did to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByPerson {
    /// Whose key.
    pub org: String,
    /// The key.
    pub key: String,
    /// What was done.
    pub act: Act,
}

/// What people may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Had the command sent again, knowing that it may have run. Its effect does not count.
    Send,
    /// Had the stored answer removed.
    Forget,
}

/// Something that was written or said: a log, standard error, a page of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Where, for the report.
    pub place: String,
    /// All of it.
    pub bytes: Vec<u8>,
}

/// The answer of one node after healing.
#[derive(Clone, Debug)]
pub struct LastAnswer {
    /// Which node.
    pub node: String,
    /// What was asked and answered.
    pub attempt: Attempt,
}

/// Who is at work in the database at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// When the look began.
    pub moment: Moment,
    /// When it ended.
    pub until: Moment,
    /// Every open transaction but the one that asks.
    pub transactions: Vec<OpenTransaction>,
    /// Who waits for a lock.
    pub waiting: u64,
}

/// A transaction that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The server's process; 0 where there is none.
    pub pid: i32,
    /// How long ago it began, by the database's clock.
    pub age: Duration,
    /// For how long it has waited for its client to say something. Nothing while the server is at work on it: a
    /// commit on a busy disk takes its time, and whoever waits for that makes no call.
    pub held: Duration,
    /// Such as `idle in transaction`.
    pub state: String,
    /// The beginning of its last statement.
    pub statement: String,
}

/// What a call to the counterparty is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// It may have the effect.
    Command,
    /// It asks what became of one.
    Question,
}

/// One call to the counterparty that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// For whom.
    pub org: String,
    /// The effect that it asks for or about, in the terms of [`Effect::reference`].
    pub reference: String,
    /// What it is for.
    pub kind: CallKind,
    /// Tells apart the claims of one key, from 0: a key that was freed begins anew.
    pub life: u64,
    /// The key that the counterparty got.
    pub outbound_key: Option<String>,
    /// SHA-256 of the bytes that it got.
    pub body_sha: [u8; 32],
    /// When it was begun.
    pub began: Moment,
    /// When its answer was complete, where there was one.
    pub ended: Option<Moment>,
    /// How long the answer asked to wait.
    pub retry_after: Option<Duration>,
    /// Whether a person ordered it.
    pub by_person: bool,
}
