//! How a record lies in columns: one flat row, the same names in both databases.
//!
//! A column is empty where the state has nothing to say; which columns are full in which state is
//! mirrored by named check constraints on SQLite, and by `sql/postgres/row_faults.sql` on PostgreSQL. The answer's columns hold the stored
//! answer of a finished record, and the evidence of an unknown one.

use crate::error::{Kind, StoreError};
use bytes::Bytes;
use samekey_core::fingerprint::{Digest, Version};
use samekey_core::lease::{Fence, Owner};
use samekey_core::receipt::{Answer, Receipt, decode_headers, encode_headers};
use samekey_core::record::{
    Closed, Done, Identity, Reason, Record, Review, Running, State, Unknown,
};
use samekey_core::time::Time;

/// The columns of a key's row but its scope. Times are microseconds since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The fence.
    pub fence: i64,
    /// The owner token, 16 bytes.
    pub holder: Vec<u8>,
    /// Grows with every write.
    pub revision: i64,
    /// From when on the sweep may take it.
    pub keep_until: i64,
    /// `free`, `running`, `unknown`, `review`, `done` or `closed`.
    pub state: String,
    /// Since when it is in this state, or in work.
    pub since: Option<i64>,
    /// The fingerprint's algorithm.
    pub request_version: Option<i16>,
    /// The fingerprint of the whole request, 32 bytes.
    pub request_sha: Option<Vec<u8>>,
    /// The fingerprint of all but the body, 32 bytes.
    pub frame_sha: Option<Vec<u8>>,
    /// The principal's hash, 32 bytes, on routes that bind it.
    pub principal_sha: Option<Vec<u8>>,
    /// Running: the end of the lease.
    pub lease_ends: Option<i64>,
    /// Running: the end of all renewals.
    pub run_ends: Option<i64>,
    /// Unknown, review: the fence with which this life of the key began.
    pub life: Option<i64>,
    /// Unknown, review: why.
    pub reason: Option<String>,
    /// Unknown: the last moment at which something may have been sent.
    pub last_send: Option<i64>,
    /// Unknown: questions asked.
    pub asked: Option<i32>,
    /// Unknown: how often nothing was found, without a break.
    pub not_found: Option<i32>,
    /// Unknown: when the next question is due.
    pub ask_after: Option<i64>,
    /// The answer's status.
    pub answer_status: Option<i16>,
    /// The answer's kept headers, encoded; of a fact, its Location.
    pub answer_headers: Option<Vec<u8>>,
    /// The answer's body. Empty, with a status, where only the fact is kept.
    pub answer_body: Option<Vec<u8>>,
}

/// What an answer that is kept can have for a status. Another one was never written, and to replay it as
/// something else would be an answer that nobody gave.
const STATUSES: std::ops::RangeInclusive<u16> = 200..=599;

/// The state of a row whose answer is replayed, as the column `state` spells it.
pub(crate) const DONE: &str = "done";

const LOCATION: &str = "location";

impl Row {
    /// The columns of this record.
    pub fn of(record: &Record) -> Row {
        let mut row = Row {
            fence: signed(record.fence.number()),
            holder: record.holder.bytes().to_vec(),
            revision: signed(record.revision),
            keep_until: record.keep_until.micros(),
            state: state_name(&record.state).to_owned(),
            ..Row::default()
        };
        if let Some(request) = record.request() {
            row.request_version = i16::try_from(request.version.0).ok();
            row.request_sha = Some(request.digest.request_sha.to_vec());
            row.frame_sha = Some(request.digest.frame_sha.to_vec());
            row.principal_sha = request.principal_sha.map(|sha| sha.to_vec());
        }
        match &record.state {
            State::Free => {}
            State::Running(running) => {
                row.since = Some(running.since.micros());
                row.lease_ends = Some(running.lease_ends.micros());
                row.run_ends = Some(running.run_ends.micros());
            }
            State::Unknown(unknown) => {
                row.since = Some(unknown.since.micros());
                row.life = Some(signed(unknown.life.number()));
                row.reason = Some(unknown.reason.code().to_owned());
                row.last_send = Some(unknown.last_send.micros());
                row.asked = Some(count(unknown.asked));
                row.not_found = Some(count(unknown.not_found));
                row.ask_after = Some(unknown.ask_after.micros());
                if let Some(receipt) = &unknown.evidence {
                    row.put_receipt(receipt);
                }
            }
            State::Review(review) => {
                row.since = Some(review.since.micros());
                row.life = Some(signed(review.life.number()));
                row.reason = Some(review.reason.code().to_owned());
            }
            State::Done(done) => {
                row.since = Some(done.since.micros());
                row.put_receipt(&done.receipt);
            }
            State::Closed(closed) => row.since = Some(closed.since.micros()),
        }
        row
    }

    fn put_receipt(&mut self, receipt: &Receipt) {
        let columns = ReceiptColumns::of(receipt);
        self.answer_status = columns.status;
        self.answer_headers = columns.headers;
        self.answer_body = columns.body;
    }

    /// The record that these columns hold; [`Kind::Damaged`] where they hold none.
    pub fn into_record(self) -> Result<Record, StoreError> {
        let state = match self.state.as_str() {
            "free" => State::Free,
            "running" => {
                let running = Running {
                    request: self.request()?,
                    since: time(self.since, "since")?,
                    lease_ends: time(self.lease_ends, "lease_ends")?,
                    run_ends: time(self.run_ends, "run_ends")?,
                };
                if running.lease_ends <= running.since {
                    return Err(damaged("lease_ends"));
                }
                State::Running(running)
            }
            "unknown" => State::Unknown(Unknown {
                request: self.request()?,
                life: self.life()?,
                since: time(self.since, "since")?,
                reason: self.reason()?,
                last_send: time(self.last_send, "last_send")?,
                asked: unsigned_count(self.asked, "asked")?,
                not_found: unsigned_count(self.not_found, "not_found")?,
                ask_after: time(self.ask_after, "ask_after")?,
                evidence: self.receipt()?,
            }),
            "review" => State::Review(Review {
                request: self.request()?,
                life: self.life()?,
                since: time(self.since, "since")?,
                reason: self.reason()?,
            }),
            DONE => State::Done(Done {
                request: self.request()?,
                since: time(self.since, "since")?,
                receipt: self.receipt()?.ok_or_else(|| damaged("answer_status"))?,
            }),
            "closed" => State::Closed(Closed {
                request: self.request()?,
                since: time(self.since, "since")?,
            }),
            _ => return Err(damaged("state")),
        };
        let holder = self
            .holder
            .as_slice()
            .try_into()
            .map(Owner::from_bytes)
            .map_err(|_| damaged("holder"))?;
        Ok(Record {
            fence: Fence::new(u64::try_from(self.fence).map_err(|_| damaged("fence"))?),
            holder,
            revision: u64::try_from(self.revision).map_err(|_| damaged("revision"))?,
            keep_until: Time::from_micros(self.keep_until),
            state,
        })
    }

    fn request(&self) -> Result<Identity, StoreError> {
        let version = self
            .request_version
            .and_then(|version| u16::try_from(version).ok())
            .ok_or_else(|| damaged("request_version"))?;
        Ok(Identity {
            version: Version(version),
            digest: Digest {
                request_sha: sha(self.request_sha.as_deref(), "request_sha")?,
                frame_sha: sha(self.frame_sha.as_deref(), "frame_sha")?,
            },
            principal_sha: match &self.principal_sha {
                Some(bytes) => Some(sha(Some(bytes), "principal_sha")?),
                None => None,
            },
        })
    }

    fn life(&self) -> Result<Fence, StoreError> {
        self.life
            .and_then(|life| u64::try_from(life).ok())
            .map(Fence::new)
            .ok_or_else(|| damaged("life"))
    }

    fn reason(&self) -> Result<Reason, StoreError> {
        self.reason.as_deref().and_then(Reason::from_code).ok_or_else(|| damaged("reason"))
    }

    fn receipt(&self) -> Result<Option<Receipt>, StoreError> {
        let columns = ReceiptColumns {
            status: self.answer_status,
            headers: self.answer_headers.clone(),
            body: self.answer_body.clone(),
        };
        columns.into_receipt().map_err(damaged)
    }
}

/// A receipt in columns, of a key's row or of a delivery's.
pub(crate) struct ReceiptColumns {
    pub(crate) status: Option<i16>,
    pub(crate) headers: Option<Vec<u8>>,
    pub(crate) body: Option<Vec<u8>>,
}

impl ReceiptColumns {
    pub(crate) fn of(receipt: &Receipt) -> ReceiptColumns {
        match receipt {
            Receipt::Kept(answer) => ReceiptColumns {
                status: i16::try_from(answer.status).ok(),
                headers: Some(encode_headers(&answer.headers)),
                body: Some(answer.body.to_vec()),
            },
            Receipt::Fact { status, location } => ReceiptColumns {
                status: i16::try_from(*status).ok(),
                headers: location
                    .as_ref()
                    .map(|location| encode_headers(&[(Box::from(LOCATION), location.clone())])),
                body: None,
            },
        }
    }

    /// The receipt, if there is one; the name of the first column that holds none.
    pub(crate) fn into_receipt(self) -> Result<Option<Receipt>, &'static str> {
        let Some(status) = self.status else { return Ok(None) };
        let status = u16::try_from(status)
            .ok()
            .filter(|status| STATUSES.contains(status))
            .ok_or("answer_status")?;
        let headers = match &self.headers {
            Some(bytes) => decode_headers(bytes).map_err(|_| "answer_headers")?,
            None => Vec::new(),
        };
        Ok(Some(match self.body {
            Some(body) => Receipt::Kept(Answer { status, headers, body: Bytes::from(body) }),
            None => Receipt::Fact {
                status,
                location: headers.into_iter().map(|(_, value)| value).next(),
            },
        }))
    }
}

/// Refuses an offer that no store may insert, before anything is sent.
///
/// # Errors
/// [`Kind::Misused`] for [`Record::ABSENT`], or a record that was never written to: without a
/// revision, a later compare-and-set would compare nothing. And for one that runs without a lease.
pub fn check_offer(offer: &Record) -> Result<(), StoreError> {
    check_lease(offer)?;
    if offer.revision == 0 {
        return Err(StoreError::new(
            Kind::Misused,
            "an offer without a revision was to be inserted; offer what the machine says for a new claim",
        ));
    }
    Ok(())
}

/// Refuses a record that would be taken over as soon as it stands: two owners would run.
fn check_lease(record: &Record) -> Result<(), StoreError> {
    match &record.state {
        State::Running(running) if running.lease_ends <= running.since => Err(StoreError::new(
            Kind::Misused,
            "a running record was to be written whose lease ends before it begins; write what the machine says for a new claim",
        )),
        State::Running(_)
        | State::Free
        | State::Unknown(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_) => Ok(()),
    }
}

/// Refuses a swap that no store may make, before anything is sent.
///
/// # Errors
/// [`Kind::Misused`] where `next` is [`Record::ABSENT`] (only the sweep removes rows) or where its
/// revision does not grow: an equal one would let a second writer pass with the same view. And where it runs
/// without a lease.
pub fn check_swap(seen: &Record, next: &Record) -> Result<(), StoreError> {
    check_lease(next)?;
    if next.revision <= seen.revision {
        return Err(StoreError::new(
            Kind::Misused,
            "a record was to be replaced by one whose revision is not higher; swap what the machine says next, and nothing where it says the same",
        ));
    }
    Ok(())
}

/// Refuses a swap that opens a finished record: it would have no intent, and recovery would never find
/// it.
///
/// # Errors
/// [`Kind::Misused`], as [`check_swap`].
pub fn check_stays(seen: &Record, next: &Record) -> Result<(), StoreError> {
    check_swap(seen, next)?;
    if next.is_open() && !seen.is_open() {
        return Err(StoreError::new(
            Kind::Misused,
            "a finished record was to be opened by a swap; reclaim it with its intent instead",
        ));
    }
    Ok(())
}

/// When recovery has to look at an open record: when its lease ends, or when its next question is due.
/// Nothing for records that wait for a person, and for finished ones.
pub fn due_at(record: &Record) -> Option<Time> {
    match &record.state {
        State::Running(running) => Some(running.lease_ends),
        State::Unknown(unknown) => Some(unknown.ask_after),
        State::Free | State::Review(_) | State::Done(_) | State::Closed(_) => None,
    }
}

/// Refuses to settle a transaction with what no atomic command may commit: an open record (no
/// committed row of theirs is ever running), or another holder.
///
/// # Errors
/// [`Kind::Misused`], as [`check_swap`].
pub fn check_settlement(seen: &Record, next: &Record) -> Result<(), StoreError> {
    check_swap(seen, next)?;
    if next.is_open() || next.hold() != seen.hold() {
        return Err(StoreError::new(
            Kind::Misused,
            "a transaction was to be settled with an open record, or for another holder; settle it with a finished one of its own, or roll it back",
        ));
    }
    Ok(())
}

/// Refuses to settle a key that was claimed by an offer as if it had been claimed by another one.
///
/// # Errors
/// [`Kind::Misused`], as [`check_swap`].
#[cfg(any(feature = "postgres", feature = "sqlx"))]
pub(crate) fn check_claim(offer: &Record, seen: &Record) -> Result<(), StoreError> {
    if seen.hold() != offer.hold() || seen.revision != offer.revision {
        return Err(StoreError::new(
            Kind::Misused,
            "a transaction was to be settled that holds its key by another claim; settle it as it was begun, or roll it back",
        ));
    }
    Ok(())
}

/// The name of a state, as the column `state` spells it.
pub fn state_name(state: &State) -> &'static str {
    match state {
        State::Free => "free",
        State::Running(_) => "running",
        State::Unknown(_) => "unknown",
        State::Review(_) => "review",
        State::Done(_) => DONE,
        State::Closed(_) => "closed",
    }
}

fn damaged(column: &'static str) -> StoreError {
    StoreError::new(
        Kind::Damaged,
        format!(
            "a row of the ledger cannot be read: column {column} holds nothing that this version knows; a newer version wrote it, or it was changed by hand"
        ),
    )
}

fn time(micros: Option<i64>, column: &'static str) -> Result<Time, StoreError> {
    micros.map(Time::from_micros).ok_or_else(|| damaged(column))
}

fn sha(bytes: Option<&[u8]>, column: &'static str) -> Result<[u8; 32], StoreError> {
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| damaged(column))
}

fn unsigned_count(number: Option<i32>, column: &'static str) -> Result<u32, StoreError> {
    number.and_then(|number| u32::try_from(number).ok()).ok_or_else(|| damaged(column))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
