//! What a caller may choose; every default is a named constant with its reason.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::read::columns::Field;
use crate::value::amount::{AmountUnit, Currency, Decimal};
use crate::value::time::DateOrder;

/// Two payments of one reference that lie further apart than this are two visits, not one: long
/// enough for a key that expires after a day and for a job queue that tries for two, short enough
/// that a subscription's week never falls in.
pub const PAUSE: Duration = Duration::from_secs(3 * 24 * 3600);

/// Without a shared reference, the same payer, amount and currency within this time are suspect.
/// Payment gateways that guard against double submission use two minutes as well (Authorize.net's
/// duplicate window).
pub const WINDOW: Duration = Duration::from_secs(120);

/// How long servers usually remember an idempotency key: a day, as Stripe documents.
pub const KEY_LIFE: Duration = Duration::from_secs(24 * 3600);

/// Memory for the packed entries of records; beyond it they go to a temporary file.
pub const MEMORY_BYTES: usize = 512 << 20;

/// Whether to look where no reference is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breadth {
    /// Records that name different references are never compared.
    Strict,
    /// Records with different references but the same payer, amount and currency within the window
    /// are reported too, as possible.
    Fuzzy,
}

/// Whether the first line names the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// It does.
    Named,
    /// It is a record like the others; columns are then chosen by number.
    Absent,
}

/// What to look for and how to read; `Options::default()` suits a usual export.
#[derive(Debug, Clone)]
pub struct Options {
    /// Columns chosen by name or by number (from 1), instead of by their usual names.
    pub columns: BTreeMap<Field, String>,
    /// Whether there is a header line.
    pub header: Header,
    /// The byte between fields; found from a sample if `None`.
    pub separator: Option<u8>,
    /// The text encoding by its usual name; found from a sample if `None`.
    pub encoding: Option<String>,
    /// The decimal sign; found from a sample if `None`.
    pub decimal: Option<Decimal>,
    /// Whether amounts count whole units or the smallest ones; by the column's name if `None`.
    pub amount_unit: Option<AmountUnit>,
    /// The order of day and month in `03/04/2026`; found from a sample if `None`.
    pub date_order: Option<DateOrder>,
    /// IANA name of the zone of times without an offset; UTC if `None`.
    pub zone: Option<String>,
    /// The currency of records that name none.
    pub currency: Option<Currency>,
    /// See [`PAUSE`].
    pub pause: Duration,
    /// See [`WINDOW`].
    pub window: Duration,
    /// See [`KEY_LIFE`].
    pub key_life: Duration,
    /// Whether to look where no reference is shared.
    pub breadth: Breadth,
    /// See [`MEMORY_BYTES`].
    pub memory_bytes: usize,
    /// Threads that read and examine; the machine's cores if `None`.
    pub threads: Option<usize>,
    /// Further words of the status column that mean: nothing happened.
    pub failed_words: Vec<String>,
    /// Further words of the status column that mean: it happened.
    pub moved_words: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            columns: BTreeMap::new(),
            header: Header::Named,
            separator: None,
            encoding: None,
            decimal: None,
            amount_unit: None,
            date_order: None,
            zone: None,
            currency: None,
            pause: PAUSE,
            window: WINDOW,
            key_life: KEY_LIFE,
            breadth: Breadth::Strict,
            memory_bytes: MEMORY_BYTES,
            threads: None,
            failed_words: Vec::new(),
            moved_words: Vec::new(),
        }
    }
}

/// A span in nanoseconds, the unit in which this crate counts; longer than 292 years is that.
pub(crate) fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
