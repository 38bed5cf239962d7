//! From records to clusters of payments that belong to one purchase.

pub(crate) mod assemble;
pub(crate) mod divide;
pub(crate) mod entry;
pub(crate) mod examine;
pub(crate) mod partition;
pub(crate) mod search;
pub(crate) mod suspect;

use serde::Serialize;

use crate::read::problem::Place;
use crate::value::amount::Currency;

/// What the payments of a cluster share; the order is that of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Signature {
    /// The idempotency key: one request, several effects.
    Key,
    /// The business reference: one purchase, paid several times.
    Reference,
    /// No reference at hand; payer, payee, amount and currency, within the window.
    Payer,
    /// Different references; payer, amount and currency, within the window.
    Fuzzy,
}

impl Signature {
    /// What it proves, for a person.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Key => "same idempotency key",
            Self::Reference => "same reference",
            Self::Payer => "same payer, payee, amount and currency",
            Self::Fuzzy => "same payer, amount and currency under different references",
        }
    }
}

/// What a record is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The payment that was wanted.
    Wanted,
    /// A payment beyond the first.
    Surplus,
    /// An attempt that moved no money: failed, still open, or a hold that was never taken.
    Attempt,
}

/// One payment or attempt of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) place: Place,
    pub(crate) id: Option<Box<str>>,
    pub(crate) id_lossy: bool,
    pub(crate) key: Option<Box<str>>,
    pub(crate) ns: i64,
    /// In minor units.
    pub(crate) amount: Option<i64>,
    /// Given back since, in minor units.
    pub(crate) returned: i64,
    pub(crate) role: Role,
}

/// Payments that belong to one purchase, at least two of which moved money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) signature: Signature,
    /// The shared reference, key, or payer.
    pub(crate) label: Box<str>,
    pub(crate) source: Option<Box<str>>,
    pub(crate) currency: Option<Currency>,
    /// By time.
    pub(crate) members: Vec<Member>,
    /// The coarsest time step of its members, in nanoseconds.
    pub(crate) grain_ns: i64,
    /// Whether a time had to be chosen because the local clock showed it twice.
    pub(crate) clock_repeated: bool,
}

impl Cluster {
    /// Payments that moved money.
    pub(crate) fn payments(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| match member.role {
            Role::Wanted | Role::Surplus => true,
            Role::Attempt => false,
        })
    }

    /// Payments beyond the first.
    pub(crate) fn surplus(&self) -> u64 {
        (self.payments().count() as u64).saturating_sub(1)
    }

    /// Between consecutive members, in nanoseconds.
    pub(crate) fn gaps(&self) -> Vec<i64> {
        self.members
            .iter()
            .zip(self.members.iter().skip(1))
            .map(|(earlier, later)| later.ns - earlier.ns)
            .collect()
    }

    /// What was taken beyond one payment, and how much of that is still not given back, in minor
    /// units; `None` where an amount is not known.
    pub(crate) fn money(&self) -> Option<Money> {
        let (mut taken, mut kept, mut wanted) = (0_i64, 0_i64, 0_i64);
        for member in self.payments() {
            let amount = member.amount?;
            taken = taken.saturating_add(amount);
            kept = kept.saturating_add(amount.saturating_sub(member.returned));
            wanted = wanted.max(amount);
        }
        Some(Money {
            surplus_minor: taken.saturating_sub(wanted).max(0),
            at_stake_minor: kept.saturating_sub(wanted).max(0),
        })
    }
}

/// Money that moved more often than it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Money {
    /// Taken beyond one payment.
    pub(crate) surplus_minor: i64,
    /// Of that, not given back.
    pub(crate) at_stake_minor: i64,
}

/// Things that look like duplicates and are none, counted so that nothing vanishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Explained {
    /// The same record a second time, as in two exports of overlapping periods.
    pub same_records: u64,
    /// Further records of a payment that has one already: a later state, a capture of a hold.
    pub later_records: u64,
    /// References whose payments come in a regular rhythm of days, weeks or months, or are
    /// declared to.
    pub periodic_series: u64,
    /// References paid again after more than the pause.
    pub paid_again_later: u64,
    /// References paid in parts of different amounts.
    pub paid_in_parts: u64,
    /// Payments given back before the next one of the same purchase was made.
    pub replaced: u64,
    /// References that stand on so many records that they name no single purchase.
    pub overloaded_references: u64,
}

impl Explained {
    pub(crate) fn add(&mut self, other: Self) {
        self.same_records += other.same_records;
        self.later_records += other.later_records;
        self.periodic_series += other.periodic_series;
        self.paid_again_later += other.paid_again_later;
        self.paid_in_parts += other.paid_in_parts;
        self.replaced += other.replaced;
        self.overloaded_references += other.overloaded_references;
    }
}
