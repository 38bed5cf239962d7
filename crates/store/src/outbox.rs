//! The port of the outbox: commands that have to be executed once at a counterparty.
//!
//! A command lies in three places. What it asks for is written once, with the caller's business row. Where
//! it stands is a narrow row that goes when the command has ended. How it ended is kept apart, so that a
//! million finished commands do not slow the open ones. What became of each attempt is only ever added.
//!
//! As for keys, a store only stores: `samekey_core::plan` decides what a row becomes.
//!
//! Read next: [`row`] (how a delivery lies in columns), then `memory/outbox.rs`, which says in the fewest
//! words what all three adapters do.

pub(crate) mod check;
pub mod row;

use crate::{Decided, OutboundKey, StoreError, SweepPass};
use bytes::Bytes;
use samekey_core::delivery::Delivery;
use samekey_core::key::Org;
use samekey_core::lease::Fence;
use samekey_core::time::Time;
use std::fmt;
use std::future::Future;
use std::time::Duration;

/// The longest name of a destination or an operation, in bytes: it is read by people in tables.
pub const NAME_BYTES_MAX: usize = 64;
/// The longest business reference or order key, in bytes: an id, and part of an index.
pub const REFERENCE_BYTES_MAX: usize = 255;
/// The largest request, in bytes, its head included: what an API takes as a command is far smaller, and
/// all of it is held in memory while it is sent.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// How many commands are taken at a time at the most; it bounds memory.
pub const TAKE_MAX: u32 = 256;

/// The id of one command; a UUID of version 7, so that neighbours in time are neighbours in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId([u8; 16]);

impl CommandId {
    /// The id of these bits.
    pub const fn from_bytes(bytes: [u8; 16]) -> CommandId {
        CommandId(bytes)
    }

    /// The bits, for a column.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&OutboundKey::from_bytes(self.0), f)
    }
}

/// The text is no id of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCommandId;

impl std::str::FromStr for CommandId {
    type Err = NoCommandId;

    /// Reads what `Display` writes: 32 hexadecimal digits, with or without hyphens.
    fn from_str(text: &str) -> Result<CommandId, NoCommandId> {
        let mut bytes = [0; 16];
        let mut digits = text.chars().filter(|character| *character != '-');
        for byte in &mut bytes {
            let mut digit =
                || digits.next().and_then(|digit| digit.to_digit(16)).ok_or(NoCommandId);
            let value = digit()? * 16 + digit()?;
            *byte = u8::try_from(value).map_err(|_| NoCommandId)?;
        }
        if digits.next().is_some() { Err(NoCommandId) } else { Ok(CommandId(bytes)) }
    }
}

/// The business action that a command is: one of it is executed, however often it is enqueued.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action {
    /// Whose it is.
    pub org: Org,
    /// The name of the counterparty's configuration, at most [`NAME_BYTES_MAX`].
    pub destination: String,
    /// What is done, such as `charge` or `refund`, at most [`NAME_BYTES_MAX`].
    pub operation: String,
    /// What it is done for: the id of the order, invoice or refund, at most [`REFERENCE_BYTES_MAX`].
    pub business_ref: String,
}

/// A command as it was enqueued. It never changes.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    /// Its id.
    pub id: CommandId,
    /// Which business action it is.
    pub action: Action,
    /// The how-manieth command for that action, from 1. A new one only follows one that was refused or has
    /// failed.
    pub generation: u32,
    /// Commands of one organisation, destination and order key are sent one after the other, each when the
    /// one before it is finished.
    pub order_key: Option<String>,
    /// The key under which the counterparty knows it.
    pub key: OutboundKey,
    /// The request, encoded by whoever enqueued it, at most [`REQUEST_BYTES_MAX`]. Sent as it is, every
    /// time.
    pub request: Bytes,
}

impl fmt::Debug for Command {
    /// Requests are other people's data, and keys are in no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("id", &self.id)
            .field("destination", &self.action.destination)
            .field("operation", &self.action.operation)
            .field("generation", &self.generation)
            .field("request_bytes", &self.request.len())
            .finish_non_exhaustive()
    }
}

/// What became of an offered command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It is in the outbox now.
    New,
    /// The latest command of the action. It has this generation already, or a later one; or it has an earlier
    /// one and may not be followed ([`Delivery::may_be_followed`]). Nothing was written; whether it is the
    /// same command is for the caller to see.
    Found(Box<Command>, Box<Delivery>),
}

/// A delivery as it stood in the store, and the store's clock at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenDelivery {
    /// The delivery.
    pub delivery: Delivery,
    /// The database's clock.
    pub now: Time,
}

/// A command that was taken: written as what the caller of [`Outbox::take`] made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The command.
    pub command: Command,
    /// The delivery as it stood before.
    pub before: Delivery,
    /// The delivery as it stands now, and the clock by which that was decided.
    pub seen: SeenDelivery,
}

/// What became of a compare-and-set.
#[allow(clippy::large_enum_variant, reason = "it is looked at once and dropped")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The row was as it had been seen, and is the next one now.
    Written,
    /// It is another one by now; nothing was written.
    Changed(SeenDelivery),
    /// It had failed, and a later command of the same action has taken its place: it is never tried again.
    /// Nothing was written. Evidence that it was executed after all is a matter for a person.
    Followed(SeenDelivery),
    /// There is no such command any more.
    Gone,
}

impl Moved {
    /// What is said about a row that has left the hot ones.
    pub(crate) fn past(seen: SeenDelivery) -> Moved {
        if seen.delivery.is_finished() { Moved::Changed(seen) } else { Moved::Followed(seen) }
    }
}

/// What became of one attempt or question. Only ever added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptNote {
    /// Whether it was a `send`, a `question`, or `news` that nobody asked for.
    pub kind: String,
    /// The number of the attempt among all of the command; of a question, how many attempts were made
    /// before it.
    pub number: u32,
    /// The fence under which it was made.
    pub fence: Fence,
    /// When it began, by the database's clock.
    pub began: Time,
    /// When it was noted, by the database's clock; what the caller puts here is not written.
    pub noted: Time,
    /// What it came to, in one word such as `timed-out` or `done`.
    pub came_to: String,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
}

/// Which commands a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Show {
    /// Only of this organisation.
    pub org: Option<Org>,
    /// Only to this destination.
    pub destination: Option<String>,
    /// Only in one of these states, by their names; all of them where it is empty. A command that has failed
    /// and was followed by another one waits for nobody: it is shown only where all are.
    pub states: Vec<String>,
}

impl Show {
    /// Which of them can be among those that are not finished; nothing where all of them can.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn unfinished(&self) -> Option<Vec<&str>> {
        self.of(&["waiting", "sending", "unknown", "failed", "undecided"])
    }

    /// As [`Show::unfinished`], among the finished.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn finished(&self) -> Option<Vec<&str>> {
        self.of(&["succeeded", "refused", "cancelled", "resolved"])
    }

    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn of(&self, names: &[&str]) -> Option<Vec<&str>> {
        if self.states.is_empty() {
            return None;
        }
        let states = self.states.iter().map(String::as_str);
        Some(states.filter(|state| names.contains(state)).collect())
    }
}

/// One line of a list. It has no request and no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The command's id.
    pub id: CommandId,
    /// Which action it is.
    pub action: Action,
    /// Its generation.
    pub generation: u32,
    /// Where it stands.
    pub seen: SeenDelivery,
}

/// How many commands of a destination are in one state. Finished ones are not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCount {
    /// The destination.
    pub destination: String,
    /// The name of the state.
    pub state: String,
    /// How many.
    pub count: u64,
}

/// The port of the outbox. Every method is one transaction of its own, committed when it returns; none
/// waits for a person or a counterparty. Enqueuing within a caller's own transaction is each adapter's own
/// function, since the transaction is the driver's.
///
/// Errors are failures of the world, see [`StoreError`]. After one whose
/// [`StoreError::may_have_committed`] is true, the write may or may not stand; loading the row tells,
/// because it names its owner and fence.
pub trait Outbox: Send + Sync + 'static {
    /// The database's clock.
    fn now(&self) -> impl Future<Output = Result<Time, StoreError>> + Send;

    /// Inserts a command, or finds the latest one of its action. The delivery is counted from
    /// [`Time::EPOCH`]; the store adds its own now to every moment in it.
    ///
    /// The first generation is inserted where the action has no command. A later one is inserted where the
    /// latest is of the generation before it and may be followed; that one, if it has failed, leaves the inbox
    /// in the same transaction, so that nobody can try it again beside its successor.
    fn enqueue(
        &self,
        command: &Command,
        delivery: &Delivery,
    ) -> impl Future<Output = Result<Enqueued, StoreError>> + Send;

    /// A command, if the store has it.
    fn command(
        &self,
        org: &Org,
        id: CommandId,
    ) -> impl Future<Output = Result<Option<Command>, StoreError>> + Send;

    /// The latest command of an action.
    fn latest(
        &self,
        action: &Action,
    ) -> impl Future<Output = Result<Option<(Command, SeenDelivery)>, StoreError>> + Send;

    /// Where a command stands, finished or not.
    fn delivery(
        &self,
        org: &Org,
        id: CommandId,
    ) -> impl Future<Output = Result<Option<SeenDelivery>, StoreError>> + Send;

    /// Organisations after `after`, in their order, that have something due for this destination which waits
    /// behind no other command, at most `limit` (and [`crate::LIST_PAGE_MAX`]). It reads without locks.
    fn orgs_with_due(
        &self,
        destination: &str,
        after: Option<&Org>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Org>, StoreError>> + Send;

    /// When something of this destination is due next, and the store's now; nothing where nothing goes on
    /// by itself. A moment in the past means now. What waits behind another command is not looked at: it goes
    /// on when that one is finished.
    fn next_due(
        &self,
        destination: &str,
    ) -> impl Future<Output = Result<Option<(Time, Time)>, StoreError>> + Send;

    /// Takes what is due of one organisation for one destination, the longest due first, at most `limit`
    /// (and [`TAKE_MAX`]), and writes each as what `decide` makes of it; what `decide` leaves out stays as it
    /// is, and so does what comes back with an unchanged revision. What another worker is taking at the moment
    /// is passed over, and so is what waits behind another command of its order key. Of those that are not
    /// finished it is the turn of the one with the lowest id, from when it is first found due until it is
    /// finished: one with a lower id that is committed later waits behind it.
    ///
    /// `decide` runs while the rows are locked: it must be quick and touch nothing else. It may be asked about
    /// a row again where what it decided could not be written; what was taken is what is returned.
    fn take<F>(
        &self,
        org: &Org,
        destination: &str,
        limit: u32,
        decide: F,
    ) -> impl Future<Output = Result<Vec<Taken>, StoreError>> + Send
    where
        F: FnMut(Delivery, Time) -> Option<Delivery> + Send + 'static;

    /// Replaces `seen` by `next` if the row still has its owner, fence and revision, and adds the note of
    /// what led to it. A finished `next` leaves the hot rows. A finished `seen` is never changed: it is
    /// refused as misused, and so is a `next` whose revision does not grow.
    fn advance(
        &self,
        org: &Org,
        id: CommandId,
        seen: &Delivery,
        next: &Delivery,
        note: Option<&AttemptNote>,
    ) -> impl Future<Output = Result<Moved, StoreError>> + Send;

    /// As [`Outbox::advance`], for what a person decided: row and account are written together or not at
    /// all.
    fn advance_decided(
        &self,
        org: &Org,
        id: CommandId,
        seen: &Delivery,
        next: &Delivery,
        decided: &Decided,
    ) -> impl Future<Output = Result<Moved, StoreError>> + Send;

    /// Adds a note without a move; nothing where there is no such command any more.
    fn note(
        &self,
        org: &Org,
        id: CommandId,
        note: &AttemptNote,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// What became of the attempts of a command, the oldest first, at most [`crate::LIST_PAGE_MAX`].
    fn attempts(
        &self,
        org: &Org,
        id: CommandId,
    ) -> impl Future<Output = Result<Vec<AttemptNote>, StoreError>> + Send;

    /// What persons decided about a command, the oldest first, at most [`crate::LIST_PAGE_MAX`].
    fn accounts(
        &self,
        org: &Org,
        id: CommandId,
    ) -> impl Future<Output = Result<Vec<Decided>, StoreError>> + Send;

    /// Commands in the order of organisation and id, those after `after`, at most `limit` (and
    /// [`crate::LIST_PAGE_MAX`]).
    fn list(
        &self,
        show: &Show,
        after: Option<(&Org, CommandId)>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Listed>, StoreError>> + Send;

    /// How many commands are not finished, by destination and state. It reads them all; not for every
    /// second.
    fn count_commands(&self) -> impl Future<Output = Result<Vec<CommandCount>, StoreError>> + Send;

    /// Removes commands that finished longer than `retention` ago, at most `batch` of them (and
    /// [`crate::SWEEP_BATCH_MAX`]), with their attempts and accounts. Others are never removed, and those that
    /// wait for a person are not finished. An action whose commands were all removed can be enqueued as if it
    /// were new.
    fn sweep_commands(
        &self,
        retention: Duration,
        batch: u32,
    ) -> impl Future<Output = Result<SweepPass, StoreError>> + Send;
}
