//! Which entries may belong together and must be looked at in full. Most records of an export are
//! alone under their reference or form the plain life of one payment; they are passed over here.

use super::Explained;
use super::divide::is_rhythm;
use super::entry::Entry;
use crate::read::problem::Place;
use crate::value::time::SECOND_NS;
use crate::value::words::Stage;

/// Records under one signature beyond which it names no single purchase: nobody pays an order a
/// thousand times, but a column that was mapped wrongly or a placeholder is shared by millions.
pub(crate) const GROUP_ROWS_MAX: usize = 1_000;

/// The runs of equal hashes in entries sorted by hash, with at least two members.
pub(crate) fn groups(sorted: &[Entry]) -> impl Iterator<Item = &[Entry]> {
    sorted.chunk_by(|a, b| a.hash == b.hash).filter(|group| group.len() > 1)
}

/// The first record of a group that was passed over, to name it in a report.
pub(crate) fn first_place(group: &[Entry]) -> Option<Place> {
    group.iter().map(|entry| Place { file: entry.file(), line: u64::from(entry.line) }).min()
}

/// Whether a group under one reference may hold more than one payment. Repeats of one payment are
/// counted on the way, since nobody looks at them again.
pub(crate) fn may_hold_several(
    group: &[Entry],
    finest_ns: &[i64],
    explained: &mut Explained,
) -> bool {
    let (mut holds, mut takes) = (0, 0);
    let mut repeats = Explained::default();
    let mut others = 0;
    for (at, entry) in group.iter().enumerate() {
        let earlier = group.get(..at).unwrap_or_default();
        let twin = earlier.iter().find(|other| {
            entry.tag != 0 && other.tag == entry.tag && other.stage() == entry.stage()
        });
        if let Some(twin) = twin {
            let grain =
                |entry: &Entry| finest_ns.get(entry.file() as usize).copied().unwrap_or(SECOND_NS);
            if (entry.value - twin.value).abs() < grain(entry).max(grain(twin)) {
                repeats.same_records += 1;
            } else {
                repeats.later_records += 1;
            }
            // A later state of a payment that failed at first may be the one that moved money.
            if twin.moved() || !entry.moved() {
                continue;
            }
        }
        if !entry.moved() {
            continue;
        }
        match entry.stage() {
            Stage::Authorise => holds += 1,
            Stage::Charge | Stage::Capture => takes += 1,
            Stage::Refund | Stage::Void => others += 1,
            Stage::Other => {}
        }
    }
    if holds.max(takes) > 1 {
        return true;
    }
    repeats.later_records += others + holds.min(takes);
    explained.add(repeats);
    false
}

/// Whether a group under one key crosses references: then the reference's own group does not show
/// it. `value` holds the hash of the reference.
pub(crate) fn crosses_references(group: &[Entry]) -> bool {
    let mut moved = group.iter().filter(|entry| entry.moved() && is_taking(entry.stage()));
    let Some(first) = moved.next() else { return false };
    let mut several = false;
    let mut crossing = first.value == 0;
    for entry in moved {
        several |= entry.tag == 0 || entry.tag != first.tag;
        crossing |= entry.value != first.value;
    }
    several && crossing
}

fn is_taking(stage: Stage) -> bool {
    match stage {
        Stage::Charge | Stage::Authorise | Stage::Capture => true,
        Stage::Refund | Stage::Void | Stage::Other => false,
    }
}

/// The parts of a group under one payer and amount, sorted by time, in which takings follow each
/// other within the window; with them come the refunds of the group, which may undo one.
pub(crate) fn close_runs(
    group: &[Entry],
    window_ns: i64,
    explained: &mut Explained,
) -> Vec<Vec<Entry>> {
    const SET_BACK_NS: i64 = 3600 * SECOND_NS;
    let taking: Vec<&Entry> =
        group.iter().filter(|entry| entry.moved() && is_taking(entry.stage())).collect();
    let undoing: Vec<Entry> =
        group.iter().filter(|entry| entry.moved() && !is_taking(entry.stage())).copied().collect();
    let mut runs = Vec::new();
    let mut starts = Vec::new();
    let near = |a: &Entry, b: &Entry| {
        let slack = if a.clock_repeated() || b.clock_repeated() { SET_BACK_NS } else { 0 };
        b.value - a.value <= window_ns + slack
    };
    for run in taking.chunk_by(|a, b| near(a, b)) {
        starts.extend(run.first().map(|entry| entry.value));
        if run.len() > 1 {
            runs.push(run.iter().copied().copied().chain(undoing.iter().copied()).collect());
        }
    }
    if is_rhythm(&starts) {
        explained.periodic_series += 1;
    }
    runs
}
