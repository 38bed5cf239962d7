//! From the records of one purchase to its payments: the same record read twice is one, a hold and
//! its capture are one, and what was given back belongs to what was taken.

use std::collections::HashMap;

use super::Explained;
use crate::read::fetch::Row;
use crate::value::time::SECOND_NS;
use crate::value::words::{Effect, Stage};

/// One payment with all its records.
#[derive(Debug, Clone)]
pub(crate) struct Payment {
    /// The record that stands for it: its first one.
    pub(crate) row: Row,
    /// Ids of all its records.
    ids: Vec<Box<str>>,
    pub(crate) amount: Option<i64>,
    pub(crate) returned: i64,
    /// When all of it had been given back, where a record says so.
    pub(crate) returned_ns: Option<i64>,
    taken: Taken,
}

/// How far the taking of money went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// Held, not taken.
    Held,
    /// Taken.
    Taken,
}

/// The payments of one purchase.
#[derive(Debug, Default)]
pub(crate) struct Assembled {
    /// Those that moved money, by time.
    pub(crate) payments: Vec<Payment>,
    /// Attempts that moved none, by time.
    pub(crate) attempts: Vec<Row>,
    pub(crate) explained: Explained,
}

/// Whether records that no id links may still be taken for one payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linking {
    /// They share a reference or a key: a capture belongs to the hold before it.
    ByPurchase,
    /// They share only payer and amount: an unrelated equal amount must be kept apart.
    ByIdOnly,
}

/// Puts the records of one purchase together.
pub(crate) fn assemble(mut rows: Vec<Row>, linking: Linking) -> Assembled {
    let mut all = Assembled::default();
    rows.sort_by_key(|row| row.place);
    settle_repeated_clock(&mut rows);
    let rows = without_repeats(rows, &mut all.explained);
    let (mut forward, mut back): (Vec<Row>, Vec<Row>) = (Vec::new(), Vec::new());
    for row in rows {
        match (row.stage, row.effect) {
            (Stage::Other, _) => {}
            (
                Stage::Charge | Stage::Authorise | Stage::Capture,
                Effect::Moved | Effect::Returned,
            ) => {
                forward.push(row);
            }
            (Stage::Charge | Stage::Authorise | Stage::Capture, Effect::Failed | Effect::Open) => {
                all.attempts.push(row);
            }
            (Stage::Refund | Stage::Void, Effect::Moved | Effect::Returned) => back.push(row),
            (Stage::Refund | Stage::Void, Effect::Failed | Effect::Open) => {}
        }
    }
    // Holds first: a capture in the same second must find the hold it takes.
    forward.sort_by_key(|row| (row.ns, row.stage == Stage::Capture, row.place));
    back.sort_by_key(|row| (row.ns, row.place));
    for row in forward {
        take(&mut all, row, linking);
    }
    for row in back {
        give_back(&mut all, &row, linking);
    }
    // Where money was taken at all, a hold that was never taken moved none.
    if all.payments.iter().any(|payment| payment.taken == Taken::Taken) {
        let (taken, held) = std::mem::take(&mut all.payments)
            .into_iter()
            .partition(|payment| payment.taken == Taken::Taken);
        all.payments = taken;
        all.attempts.extend(held.into_iter().map(|payment: Payment| payment.row));
    }
    all.attempts.sort_by_key(|row| (row.ns, row.place));
    all.payments.sort_by_key(|payment| (payment.row.ns, payment.row.place));
    drop_replaced(&mut all);
    all
}

/// A local time that the clock showed twice is read as the instant nearer to its neighbour in the
/// file; the first pass had taken the earlier one.
fn settle_repeated_clock(rows: &mut [Row]) {
    const SET_BACK_NS: i64 = 3600 * SECOND_NS;
    let anchor = rows.iter().find(|row| !row.clock_repeated).map(|row| row.ns);
    let mut previous = None;
    for row in rows {
        if row.clock_repeated
            && let Some(near) = previous.or(anchor)
            && (row.ns + SET_BACK_NS - near).abs() < (row.ns - near).abs()
        {
            row.ns += SET_BACK_NS;
        }
        previous = Some(row.ns);
    }
}

/// One record of each payment and stage.
fn without_repeats(rows: Vec<Row>, explained: &mut Explained) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::with_capacity(rows.len());
    let mut by_id: HashMap<(Box<str>, Stage), usize> = HashMap::new();
    for row in rows {
        let same = match row.id.proof() {
            Some(id) => by_id.get(&(Box::from(id), row.stage)).copied(),
            None => None,
        }
        .or_else(|| twin_in_other_file(&kept, &row));
        let Some(twin) = same.and_then(|at| kept.get_mut(at)) else {
            if let Some(id) = row.id.proof() {
                by_id.insert((Box::from(id), row.stage), kept.len());
            }
            kept.push(row);
            continue;
        };
        if is_same_time(twin, &row) {
            explained.same_records += 1;
        } else {
            explained.later_records += 1;
        }
        merge(twin, row);
    }
    kept
}

fn is_same_time(a: &Row, b: &Row) -> bool {
    (a.ns - b.ns).abs() < a.grain.max(b.grain).ns()
}

/// Without an id that proves it, a record is the same as another only if that stands in another
/// file, agrees in all that is known, and has no twin in this file yet.
fn twin_in_other_file(kept: &[Row], row: &Row) -> Option<usize> {
    kept.iter().position(|other| {
        other.place.file != row.place.file
            && !other.twins.contains(&row.place.file)
            && (other.id.proof().is_none() || row.id.proof().is_none())
            && is_same_time(other, row)
            && (other.stage, other.amount, other.currency) == (row.stage, row.amount, row.currency)
            && other.key == row.key
    })
}

/// Takes over what the second reading of a payment knows better: a later state, a finer time.
fn merge(kept: &mut Row, other: Row) {
    let rank = |effect: Effect| match effect {
        Effect::Open => 0,
        Effect::Failed => 1,
        Effect::Moved => 2,
        Effect::Returned => 3,
    };
    let same_time = is_same_time(kept, &other);
    let wins = if same_time { rank(other.effect) > rank(kept.effect) } else { other.ns > kept.ns };
    if wins {
        kept.effect = other.effect;
    }
    if same_time && other.grain < kept.grain {
        (kept.ns, kept.grain) = (other.ns, other.grain);
    }
    kept.ns = if same_time { kept.ns } else { kept.ns.min(other.ns) };
    kept.twins.push(other.place.file);
    kept.refunded = kept.refunded.max(other.refunded);
    kept.amount = kept.amount.or(other.amount);
    kept.key = kept.key.take().or(other.key);
    kept.parent = kept.parent.take().or(other.parent);
    if kept.id.proof().is_none() {
        kept.id = other.id;
    }
}

fn names(payment: &Payment, id: &str) -> bool {
    payment.ids.iter().any(|known| **known == *id)
}

/// The payment that a record continues by its own word: it names it as parent, or bears its id.
fn continued(payments: &[Payment], row: &Row) -> Option<usize> {
    let by =
        |id: Option<&str>| id.and_then(|id| payments.iter().position(|payment| names(payment, id)));
    by(row.parent.as_deref()).or_else(|| by(row.id.proof()))
}

fn take(all: &mut Assembled, row: Row, linking: Linking) {
    let linked = continued(&all.payments, &row);
    let hold = || {
        // Without a link, a capture takes the first hold of the purchase that nobody took.
        all.payments.iter().position(|payment| {
            linking == Linking::ByPurchase
                && payment.taken == Taken::Held
                && payment.returned_ns.is_none()
        })
    };
    let target = match row.stage {
        Stage::Capture | Stage::Charge => linked.or_else(hold),
        Stage::Authorise | Stage::Refund | Stage::Void | Stage::Other => None,
    };
    let Some(payment) = target.and_then(|at| all.payments.get_mut(at)) else {
        all.payments.push(begin(row));
        return;
    };
    match payment.taken {
        Taken::Held => {
            payment.taken = Taken::Taken;
            payment.amount = row.amount.or(payment.amount);
        }
        Taken::Taken => {
            let held = payment.row.amount.filter(|_| payment.row.stage == Stage::Authorise);
            let sum = payment.amount.zip(row.amount).map(|(a, b)| a.saturating_add(b));
            let fits = held.zip(sum).is_some_and(|(held, sum)| sum <= held);
            let again = payment.amount == row.amount || row.amount.is_none();
            if !fits && again {
                // The whole amount taken a second time from one hold is a payment of its own.
                let mut second = begin(row);
                second.ids.clear();
                all.payments.push(second);
                return;
            }
            payment.amount = sum.or(payment.amount);
        }
    }
    if let Some(id) = row.id.proof() {
        payment.ids.push(Box::from(id));
    }
    if row.effect == Effect::Returned {
        payment.returned = payment.amount.unwrap_or(0);
    }
    if payment.row.key.is_none() {
        payment.row.key = row.key;
    }
    all.explained.later_records += 1;
}

fn begin(row: Row) -> Payment {
    let taken = if row.stage == Stage::Authorise { Taken::Held } else { Taken::Taken };
    let all = if row.effect == Effect::Returned { row.amount.unwrap_or(0) } else { 0 };
    let returned = row.refunded.unwrap_or(0).max(all);
    Payment {
        ids: row.id.proof().map(Box::from).into_iter().collect(),
        amount: row.amount,
        returned,
        returned_ns: None,
        taken,
        row,
    }
}

fn give_back(all: &mut Assembled, row: &Row, linking: Linking) {
    let linked = continued(&all.payments, row);
    let left = |payment: &Payment| payment.amount.map(|amount| amount - payment.returned);
    let earlier = |payment: &Payment| payment.row.ns <= row.ns && left(payment) != Some(0);
    let guessed = || {
        let exact = all.payments.iter().rposition(|payment| {
            earlier(payment) && row.amount.is_some() && payment.amount == row.amount
        });
        let partly = || {
            all.payments.iter().rposition(|payment| {
                earlier(payment)
                    && row
                        .amount
                        .is_none_or(|amount| left(payment).is_none_or(|left| amount <= left))
            })
        };
        match linking {
            Linking::ByPurchase => exact.or_else(partly),
            Linking::ByIdOnly => None,
        }
    };
    let Some(payment) = linked.or_else(guessed).and_then(|at| all.payments.get_mut(at)) else {
        return;
    };
    if let Some(id) = row.id.proof() {
        payment.ids.push(Box::from(id));
    }
    all.explained.later_records += 1;
    let whole = payment.amount.unwrap_or(0);
    let amount = match row.stage {
        Stage::Void => whole,
        Stage::Refund | Stage::Charge | Stage::Authorise | Stage::Capture | Stage::Other => {
            row.amount.unwrap_or(whole)
        }
    };
    // A "refunded" column and a refund record speak of the same money; the larger word counts.
    payment.returned = match payment.row.refunded {
        Some(said) => said.max(amount),
        None => payment.returned.saturating_add(amount),
    }
    .min(whole);
    if payment.returned == whole {
        payment.returned_ns = Some(row.ns);
    }
}

/// A payment that was wholly given back before the next one was made was replaced by it.
fn drop_replaced(all: &mut Assembled) {
    let starts: Vec<i64> = all.payments.iter().map(|payment| payment.row.ns).collect();
    let mut next = starts.into_iter().skip(1);
    all.payments.retain(|payment| {
        let replaced = match (next.next(), payment.returned_ns) {
            (Some(next), Some(returned)) => returned <= next,
            (None, _) | (_, None) => false,
        };
        all.explained.replaced += u64::from(replaced);
        !replaced
    });
}
