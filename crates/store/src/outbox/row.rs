//! How a delivery lies in columns: one flat row, the same names in both databases, open or finished.
//!
//! A column is empty where the state has nothing to say. The answer's columns hold the answer of a
//! delivery that succeeded or was refused, and of any other the answer that proves what is known of it.

use crate::error::{Kind, StoreError};
use crate::row::ReceiptColumns;
use samekey_core::delivery::{
    AskedBy, Delivery, Ended, Grounds, Proof, Reason, Resolution, Sending, State, Unknown, Waiting,
};
use samekey_core::lease::{Fence, Owner};
use samekey_core::receipt::Receipt;
use samekey_core::time::Time;

/// The columns of a delivery. Times are microseconds since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryRow {
    /// The fence.
    pub fence: i64,
    /// The owner token, 16 bytes.
    pub holder: Vec<u8>,
    /// Grows with every write.
    pub revision: i64,
    /// When its time began.
    pub began: i64,
    /// When its time is over.
    pub gives_up: i64,
    /// Every attempt on record.
    pub sends: i32,
    /// The attempts that count.
    pub attempts: i32,
    /// The first attempt of this time.
    pub first_send: Option<i64>,
    /// The last moment at which a request may have been sent.
    pub last_send: Option<i64>,
    /// Why something may have run.
    pub doubt: Option<String>,
    /// What the last attempt or question came to.
    pub last: Option<String>,
    /// `executed` or `refused`, where something is known for sure before it has ended.
    pub proof: Option<String>,
    /// `key` or `reference`.
    pub asked_by: String,
    /// The name of the state.
    pub state: String,
    /// When something is to be done with it. Nothing for what does not go on by itself.
    pub due: Option<i64>,
    /// Waiting, sending: `unrun`, `dedups` or `in-flight`.
    pub grounds: Option<String>,
    /// Sending: when it was put on record. Ended: when.
    pub since: Option<i64>,
    /// Unknown: questions asked.
    pub asked: Option<i32>,
    /// Unknown: how often nothing was found, without a break.
    pub not_found: Option<i32>,
    /// Failed, undecided: why. Resolved: as what.
    pub reason: Option<String>,
    /// The answer's status.
    pub answer_status: Option<i16>,
    /// The answer's kept headers, encoded; of a fact, its Location.
    pub answer_headers: Option<Vec<u8>>,
    /// The answer's body.
    pub answer_body: Option<Vec<u8>>,
}

/// Grounds by their names in the column.
const GROUNDS: [(Grounds, &str); 3] =
    [(Grounds::Unrun, "unrun"), (Grounds::Dedups, "dedups"), (Grounds::InFlight, "in-flight")];

/// Resolutions by their names in the column.
const RESOLUTIONS: [(Resolution, &str); 2] =
    [(Resolution::Executed, "executed"), (Resolution::WrittenOff, "written-off")];

/// By what a counterparty is asked, by its name in the column.
const ASKED_BY: [(AskedBy, &str); 2] = [(AskedBy::Key, "key"), (AskedBy::Reference, "reference")];

impl DeliveryRow {
    /// The columns of this delivery.
    pub fn of(delivery: &Delivery) -> DeliveryRow {
        let mut row = DeliveryRow {
            fence: signed(delivery.fence.number()),
            holder: delivery.holder.bytes().to_vec(),
            revision: signed(delivery.revision),
            began: delivery.began.micros(),
            gives_up: delivery.gives_up.micros(),
            sends: count(delivery.sends),
            attempts: count(delivery.attempts),
            first_send: delivery.first_send.map(Time::micros),
            last_send: delivery.last_send.map(Time::micros),
            doubt: delivery.doubt.map(|reason| reason.code().to_owned()),
            last: delivery.last.map(|reason| reason.code().to_owned()),
            asked_by: name(&ASKED_BY, delivery.asked_by),
            state: delivery.state_name().to_owned(),
            due: delivery.due().map(Time::micros),
            ..DeliveryRow::default()
        };
        match &delivery.proof {
            Some(Proof::Executed(receipt)) => row.put_proof("executed", receipt),
            Some(Proof::Refused(receipt)) => row.put_proof("refused", receipt),
            None => {}
        }
        match &delivery.state {
            State::Waiting(waiting) => row.grounds = Some(name(&GROUNDS, waiting.grounds)),
            State::Sending(sending) => {
                row.grounds = Some(name(&GROUNDS, sending.grounds));
                row.since = Some(sending.since.micros());
            }
            State::Unknown(unknown) => {
                row.asked = Some(count(unknown.asked));
                row.not_found = Some(count(unknown.not_found));
            }
            State::Succeeded(ended) | State::Refused(ended) => {
                row.since = Some(ended.since.micros());
                row.put_receipt(&ended.with);
            }
            State::Failed(ended) | State::Undecided(ended) => {
                row.since = Some(ended.since.micros());
                row.reason = Some(ended.with.code().to_owned());
            }
            State::Cancelled(ended) => row.since = Some(ended.since.micros()),
            State::Resolved(ended) => {
                row.since = Some(ended.since.micros());
                row.reason = Some(name(&RESOLUTIONS, ended.with));
            }
        }
        row
    }

    fn put_proof(&mut self, proof: &str, receipt: &Receipt) {
        self.proof = Some(proof.to_owned());
        self.put_receipt(receipt);
    }

    fn put_receipt(&mut self, receipt: &Receipt) {
        let columns = ReceiptColumns::of(receipt);
        self.answer_status = columns.status;
        self.answer_headers = columns.headers;
        self.answer_body = columns.body;
    }

    /// The delivery that these columns hold; [`Kind::Damaged`] where they hold none.
    pub fn into_delivery(mut self) -> Result<Delivery, StoreError> {
        let receipt = self.take_receipt()?;
        let (proof, receipt) = match (self.proof.as_deref(), receipt) {
            (None, receipt) => (None, receipt),
            (Some("executed"), Some(receipt)) => (Some(Proof::Executed(receipt)), None),
            (Some("refused"), Some(receipt)) => (Some(Proof::Refused(receipt)), None),
            (Some(_), _) => return Err(damaged("proof")),
        };
        let state = self.state(receipt)?;
        let holder = self
            .holder
            .as_slice()
            .try_into()
            .map(Owner::from_bytes)
            .map_err(|_| damaged("holder"))?;
        Ok(Delivery {
            fence: Fence::new(u64::try_from(self.fence).map_err(|_| damaged("fence"))?),
            holder,
            revision: u64::try_from(self.revision).map_err(|_| damaged("revision"))?,
            began: Time::from_micros(self.began),
            gives_up: Time::from_micros(self.gives_up),
            sends: u32::try_from(self.sends).map_err(|_| damaged("sends"))?,
            attempts: u32::try_from(self.attempts).map_err(|_| damaged("attempts"))?,
            first_send: self.first_send.map(Time::from_micros),
            last_send: self.last_send.map(Time::from_micros),
            doubt: reason(self.doubt.as_deref(), "doubt")?,
            last: reason(self.last.as_deref(), "last")?,
            proof,
            asked_by: named(&ASKED_BY, Some(&self.asked_by)).ok_or_else(|| damaged("asked_by"))?,
            state,
        })
    }

    fn state(&self, receipt: Option<Receipt>) -> Result<State, StoreError> {
        let receipt = receipt.ok_or_else(|| damaged("answer_status"));
        Ok(match self.state.as_str() {
            "waiting" => {
                State::Waiting(Waiting { due: time(self.due, "due")?, grounds: self.grounds()? })
            }
            "sending" => State::Sending(Sending {
                since: time(self.since, "since")?,
                lease_ends: time(self.due, "due")?,
                grounds: self.grounds()?,
            }),
            "unknown" => State::Unknown(Unknown {
                due: time(self.due, "due")?,
                asked: unsigned(self.asked, "asked")?,
                not_found: unsigned(self.not_found, "not_found")?,
            }),
            "succeeded" => State::Succeeded(self.ended(receipt?)?),
            "refused" => State::Refused(self.ended(receipt?)?),
            "failed" => State::Failed(self.ended(self.reason()?)?),
            "undecided" => State::Undecided(self.ended(self.reason()?)?),
            "cancelled" => State::Cancelled(self.ended(())?),
            "resolved" => {
                let with = named(&RESOLUTIONS, self.reason.as_deref());
                State::Resolved(self.ended(with.ok_or_else(|| damaged("reason"))?)?)
            }
            _ => return Err(damaged("state")),
        })
    }

    fn ended<T>(&self, with: T) -> Result<Ended<T>, StoreError> {
        Ok(Ended { since: time(self.since, "since")?, with })
    }

    fn grounds(&self) -> Result<Grounds, StoreError> {
        named(&GROUNDS, self.grounds.as_deref()).ok_or_else(|| damaged("grounds"))
    }

    fn reason(&self) -> Result<Reason, StoreError> {
        reason(self.reason.as_deref(), "reason")?.ok_or_else(|| damaged("reason"))
    }

    fn take_receipt(&mut self) -> Result<Option<Receipt>, StoreError> {
        let columns = ReceiptColumns {
            status: self.answer_status.take(),
            headers: self.answer_headers.take(),
            body: self.answer_body.take(),
        };
        columns.into_receipt().map_err(damaged)
    }
}

/// The same delivery with every moment in it moved from [`Time::EPOCH`] to `start`.
pub fn counted_from(mut delivery: Delivery, start: Time) -> Delivery {
    let moved = |time: Time| start.plus(time.since(Time::EPOCH));
    delivery.began = moved(delivery.began);
    delivery.gives_up = moved(delivery.gives_up);
    delivery.first_send = delivery.first_send.map(moved);
    delivery.last_send = delivery.last_send.map(moved);
    match &mut delivery.state {
        State::Waiting(waiting) => waiting.due = moved(waiting.due),
        State::Sending(sending) => {
            sending.since = moved(sending.since);
            sending.lease_ends = moved(sending.lease_ends);
        }
        State::Unknown(unknown) => unknown.due = moved(unknown.due),
        State::Succeeded(ended) | State::Refused(ended) => ended.since = moved(ended.since),
        State::Failed(ended) | State::Undecided(ended) => ended.since = moved(ended.since),
        State::Cancelled(ended) => ended.since = moved(ended.since),
        State::Resolved(ended) => ended.since = moved(ended.since),
    }
    delivery
}

pub(crate) fn damaged(column: &'static str) -> StoreError {
    StoreError::new(
        Kind::Damaged,
        format!(
            "a row of the outbox cannot be read: column {column} holds nothing that this version knows; a newer version wrote it, or it was changed by hand"
        ),
    )
}

fn name<T: PartialEq>(names: &[(T, &str)], wanted: T) -> String {
    names
        .iter()
        .find(|(one, _)| *one == wanted)
        .map_or_else(String::new, |(_, name)| (*name).into())
}

fn named<T: Copy>(names: &[(T, &str)], wanted: Option<&str>) -> Option<T> {
    let wanted = wanted?;
    names.iter().find(|(_, name)| *name == wanted).map(|(one, _)| *one)
}

fn reason(code: Option<&str>, column: &'static str) -> Result<Option<Reason>, StoreError> {
    match code {
        Some(code) => Reason::from_code(code).map(Some).ok_or_else(|| damaged(column)),
        None => Ok(None),
    }
}

fn time(micros: Option<i64>, column: &'static str) -> Result<Time, StoreError> {
    micros.map(Time::from_micros).ok_or_else(|| damaged(column))
}

fn unsigned(number: Option<i32>, column: &'static str) -> Result<u32, StoreError> {
    number.and_then(|number| u32::try_from(number).ok()).ok_or_else(|| damaged(column))
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
