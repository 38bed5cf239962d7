//! Payments of one purchase into bursts: a subscription's rhythm and a long pause part them, a
//! shared key never does.

use super::Explained;
use super::assemble::Payment;
use crate::value::time::{DAY_NS, SECOND_NS};

/// Payments further apart than this cannot be of one day's rhythm.
const NIGHT_NS: i64 = 20 * 3600 * SECOND_NS;

/// A rhythm has at least three equal gaps; two are a coincidence.
const SERIES_MIN: usize = 4;

/// Parts the payments of one purchase, given by time.
pub(crate) fn divide(
    payments: Vec<Payment>,
    pause_ns: i64,
    explained: &mut Explained,
) -> Vec<Vec<Payment>> {
    let mut groups: Vec<Vec<Payment>> = Vec::new();
    for payment in payments {
        let fits = |group: &&mut Vec<Payment>| {
            group.iter().any(|other| {
                other.row.currency == payment.row.currency
                    && (other.amount == payment.amount
                        || other.amount.is_none()
                        || payment.amount.is_none())
                    || (other.row.key.is_some() && other.row.key == payment.row.key)
            })
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(payment),
            None => groups.push(vec![payment]),
        }
    }
    if groups.len() > 1 {
        explained.paid_in_parts += 1;
    }
    groups.into_iter().flat_map(|group| bursts(group, pause_ns, explained)).collect()
}

fn bursts(payments: Vec<Payment>, pause_ns: i64, explained: &mut Explained) -> Vec<Vec<Payment>> {
    let declared = payments.iter().any(|payment| payment.row.recurring);
    let nights = split_at(payments, NIGHT_NS.min(pause_ns));
    let starts: Vec<i64> =
        nights.iter().filter_map(|night| night.first()).map(|payment| payment.row.ns).collect();
    if is_rhythm(&starts) || (declared && nights.len() > 1) {
        explained.periodic_series += 1;
        return join_by_key(nights);
    }
    let apart = split_at(nights.into_iter().flatten().collect(), pause_ns);
    let before = apart.len();
    let joined = join_by_key(apart);
    if joined.len() > 1 && before > 1 {
        explained.paid_again_later += 1;
    }
    joined
}

pub(crate) fn split_at(payments: Vec<Payment>, gap_ns: i64) -> Vec<Vec<Payment>> {
    let mut parts: Vec<Vec<Payment>> = Vec::new();
    for payment in payments {
        match parts.last_mut() {
            Some(part)
                if part.last().is_some_and(|last| payment.row.ns - last.row.ns <= gap_ns) =>
            {
                part.push(payment);
            }
            Some(_) | None => parts.push(vec![payment]),
        }
    }
    parts
}

/// One key is one request, however late it comes again.
fn join_by_key(parts: Vec<Vec<Payment>>) -> Vec<Vec<Payment>> {
    let mut joined: Vec<Vec<Payment>> = Vec::new();
    for part in parts {
        let shared = joined.iter_mut().find(|other| {
            other.iter().any(|a| a.row.key.is_some() && part.iter().any(|b| a.row.key == b.row.key))
        });
        match shared {
            Some(other) => other.extend(part),
            None => joined.push(part),
        }
    }
    joined
}

/// Whether these instants come in the rhythm of a calendar: every day, week, fortnight, month,
/// quarter, half or whole year. An hour of slack lets summer time pass, months differ by days.
pub(crate) fn is_rhythm(starts_ns: &[i64]) -> bool {
    const RHYTHMS_DAYS: [(i64, i64); 7] =
        [(1, 1), (7, 7), (14, 14), (28, 31), (89, 92), (181, 184), (365, 366)];
    const SLACK_NS: i64 = 2 * 3600 * SECOND_NS;
    starts_ns.len() >= SERIES_MIN
        && RHYTHMS_DAYS.iter().any(|(shortest, longest)| {
            let allowed = shortest * DAY_NS - SLACK_NS..=longest * DAY_NS + SLACK_NS;
            starts_ns.iter().zip(starts_ns.iter().skip(1)).all(|(a, b)| allowed.contains(&(b - a)))
        })
}
