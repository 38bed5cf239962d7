//! The full look at records that may belong together: payments put together, parted, and kept
//! where more than one moved money.

use std::collections::{BTreeMap, BTreeSet};

use super::assemble::{Linking, Payment, assemble};
use super::divide::{divide, split_at};
use super::{Cluster, Explained, Member, Role, Signature};
use crate::read::fetch::Row;

/// The spans that part payments, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spans {
    pub(crate) pause_ns: i64,
    pub(crate) window_ns: i64,
}

/// Looks at records whose signature has the same hash.
pub(crate) fn examine(
    signature: Signature,
    rows: Vec<Row>,
    spans: Spans,
    explained: &mut Explained,
) -> Vec<Cluster> {
    let mut by_text: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows {
        by_text.entry(text_of(signature, &row)).or_default().push(row);
    }
    let mut clusters = Vec::new();
    for (_, rows) in by_text {
        match signature {
            Signature::Key | Signature::Reference => {
                purchase(signature, rows, spans, explained, &mut clusters);
            }
            Signature::Payer | Signature::Fuzzy => {
                lookalikes(signature, rows, spans, &mut clusters);
            }
        }
    }
    clusters
}

/// The text behind the hash; two texts with one hash are two groups.
fn text_of(signature: Signature, row: &Row) -> String {
    let or_empty = |text: &Option<Box<str>>| text.as_deref().unwrap_or_default().to_owned();
    let money = || format!("{:?} {:?}", row.amount, row.currency);
    match signature {
        // Groups under keys were compared by text when they were joined.
        Signature::Key => String::new(),
        Signature::Reference => row.reference.proof().unwrap_or_default().to_owned(),
        Signature::Payer => {
            format!("{}\n{}\n{}", or_empty(&row.payer), or_empty(&row.payee), money())
        }
        Signature::Fuzzy => format!("{}\n{}", or_empty(&row.payer).to_ascii_lowercase(), money()),
    }
}

fn purchase(
    signature: Signature,
    rows: Vec<Row>,
    spans: Spans,
    explained: &mut Explained,
    clusters: &mut Vec<Cluster>,
) {
    let assembled = assemble(rows, Linking::ByPurchase);
    explained.add(assembled.explained);
    for burst in divide(assembled.payments, spans.pause_ns, explained) {
        clusters.extend(cluster(signature, &burst, &assembled.attempts));
    }
}

fn lookalikes(signature: Signature, rows: Vec<Row>, spans: Spans, clusters: &mut Vec<Cluster>) {
    let assembled = assemble(rows, Linking::ByIdOnly);
    for mut burst in split_at(assembled.payments, spans.window_ns) {
        if signature == Signature::Fuzzy {
            // Payments of one reference are compared under that; here only different ones count.
            let mut seen = BTreeSet::new();
            burst.retain(|payment| {
                payment
                    .row
                    .reference
                    .proof()
                    .is_none_or(|reference| seen.insert(reference.to_owned()))
            });
        }
        clusters.extend(cluster(signature, &burst, &[]));
    }
}

fn cluster(signature: Signature, burst: &[Payment], attempts: &[Row]) -> Option<Cluster> {
    let [first, second, ..] = burst else { return None };
    let last = burst.last().unwrap_or(second);
    let one_key =
        first.row.key.is_some() && burst.iter().all(|payment| payment.row.key == first.row.key);
    let signature = match signature {
        Signature::Key | Signature::Reference if one_key => Signature::Key,
        Signature::Key | Signature::Reference => Signature::Reference,
        Signature::Payer | Signature::Fuzzy => signature,
    };
    let between = attempts.iter().filter(|row| row.ns > first.row.ns && row.ns < last.row.ns);
    let mut members: Vec<Member> = burst
        .iter()
        .map(|payment| member(&payment.row, payment.amount, payment.returned, Role::Surplus))
        .chain(between.clone().map(|row| member(row, row.amount, 0, Role::Attempt)))
        .collect();
    members.sort_by_key(|member| (member.ns, member.place));
    if let Some(first) = members.first_mut() {
        first.role = Role::Wanted;
    }
    let rows = || burst.iter().map(|payment| &payment.row).chain(between.clone());
    Some(Cluster {
        signature,
        label: label(signature, burst),
        source: burst.iter().find_map(|payment| payment.row.source.clone()),
        currency: first.row.currency,
        members,
        grain_ns: rows().map(|row| row.grain.ns()).max().unwrap_or(1),
        clock_repeated: rows().any(|row| row.clock_repeated),
    })
}

fn member(row: &Row, amount: Option<i64>, returned: i64, role: Role) -> Member {
    Member {
        place: row.place,
        id: row.id.shown().map(Box::from),
        id_lossy: row.id.shown().is_some() && row.id.proof().is_none(),
        key: row.key.clone(),
        ns: row.ns,
        amount,
        returned,
        role,
    }
}

/// The shared reference; where references differ, the key; where there is none, the payer.
fn label(signature: Signature, burst: &[Payment]) -> Box<str> {
    let first = burst.first().map(|payment| &payment.row);
    let reference = first.and_then(|row| row.reference.proof()).filter(|reference| {
        burst.iter().all(|payment| payment.row.reference.proof() == Some(reference))
    });
    let other = match signature {
        Signature::Key | Signature::Reference => first.and_then(|row| row.key.as_deref()),
        Signature::Payer | Signature::Fuzzy => first.and_then(|row| row.payer.as_deref()),
    };
    Box::from(reference.or(other).unwrap_or("(no name)"))
}
