//! S10 and S15, over samples of the ledger.

use super::{Run, bent};
use crate::history::{Act, ByPerson, Moment, Sample, SeenRow, Sometimes, sometimes};
use std::time::Duration;

const SECOND: i64 = 1_000_000;

fn seen(state: &str, fence: i64, revision: i64) -> SeenRow {
    SeenRow {
        org: "a".to_owned(),
        key: "k".to_owned(),
        fence,
        revision,
        holder: vec![u8::try_from(fence).unwrap()],
        state: state.to_owned(),
        since_micros: Some(fence),
        keep_until_micros: 100 * SECOND,
        ..SeenRow::default()
    }
}

fn done() -> SeenRow {
    SeenRow { status: Some(201), answer_sha: [7; 32], since_micros: Some(9), ..seen("done", 2, 4) }
}

/// Claimed, lapsed, taken over, settled; and an hour later, swept.
fn sound() -> Vec<Vec<SeenRow>> {
    let gone = Vec::new();
    let mut run = vec![vec![seen("running", 1, 1)], vec![seen("unknown", 1, 2)]];
    run.extend([vec![seen("unknown", 2, 3)], vec![done()], vec![done()], gone]);
    run
}

fn sampled(samples: Vec<Vec<SeenRow>>) -> Run {
    let last = samples.len() - 1;
    let at = |index: usize| if index == last || index >= 5 { 3_600 * SECOND } else { SECOND };
    let numbered = samples.into_iter().enumerate();
    let samples = numbered.map(|(index, rows)| Sample {
        moment: Moment { at: u64::try_from(index).unwrap(), when: Duration::ZERO },
        clock_micros: at(index),
        rows,
    });
    bent(|run| {
        run.more.samples = samples.collect();
        run.more.limits.retention = Duration::from_secs(60);
    })
}

/// The sound run with one row replaced.
fn with(index: usize, bend: impl FnOnce(&mut SeenRow)) -> Run {
    let mut samples = sound();
    bend(&mut samples[index][0]);
    sampled(samples)
}

#[test]
fn s10_a_sound_life_is_let_through() {
    assert_eq!(sampled(sound()).check(), []);
    // Claimed anew after the sweep, with and without a sample in between.
    let mut again = sound();
    again.push(vec![seen("running", 1, 1)]);
    assert_eq!(sampled(again.clone()).check(), []);
    again.remove(5);
    assert_eq!(sampled(again).check(), []);
}

#[test]
fn s10_a_fence_or_revision_that_does_not_grow_is_found() {
    with(2, |row| row.fence = 0).breaks("S10", "the fence went from 1 back to 0");
    with(3, |row| row.revision = 3).breaks("S10", "its revision went from 3 to 3");
    with(2, |row| row.fence = 1).breaks("S10", "two owners hold the fence 1");
    with(1, |row| {
        *row = SeenRow { since_micros: Some(5), ..seen("running", 1, 2) };
    })
    .breaks("S10", "runs again under the fence 1");
}

#[test]
fn s10_a_done_record_that_changes_is_found() {
    with(4, |row| *row = seen("running", 3, 5)).breaks("S10", "done with Some(201) became running");
    with(4, |row| (row.status, row.revision) = (Some(402), 5)).breaks("S10", "with Some(402)");
    let mut forgotten = with(4, |row| (row.answer_sha, row.revision) = ([0; 32], 5));
    forgotten.breaks("S10", "the answer of a done record changed");
    let (org, key) = ("a".to_owned(), "k".to_owned());
    forgotten.more.by_person = vec![ByPerson { org, key, act: Act::Forget }];
    assert_eq!(forgotten.check(), []);
}

#[test]
fn s15_a_row_that_goes_too_early_is_found() {
    with(4, |row| (row.keep_until_micros, row.revision) = (3_601 * SECOND, 5))
        .breaks("S15", "before its retention ended");
    with(4, |row| (row.keep_until_micros, row.revision) = (SECOND, 5))
        .breaks("S15", "its retention became shorter");
    let mut early = sound();
    early.truncate(2);
    early.push(Vec::new());
    // An hour later it may have ended in between; at once it may not.
    assert_eq!(sampled(early.clone()).check(), []);
    early.push(Vec::new());
    sampled(early.clone()).breaks("S15", "an open row vanished");
    early.push(vec![seen("running", 1, 1)]);
    sampled(early).breaks("S15", "an open row vanished");
}

#[test]
fn rare_states_show_in_samples() {
    let mut run = sound();
    let renewed = |ends| SeenRow { lease_ends_micros: Some(ends), ..seen("running", 1, ends) };
    run.splice(0..1, [vec![renewed(1)], vec![renewed(2)], vec![renewed(2)]]);
    let evidence = SeenRow { status: Some(201), ..seen("unknown", 2, 4) };
    run.insert(5, vec![evidence.clone()]);
    run.insert(6, vec![evidence]);
    run.push(vec![seen("review", 1, 3)]);
    let counts = Sometimes::default();
    counts.saw_in(&sampled(run).more.samples);
    let wanted =
        [sometimes::RENEWED, sometimes::EVIDENCE, sometimes::REVIEW, sometimes::TAKEN_OVER];
    let counts = counts.counts();
    assert_eq!(wanted.map(|what| counts.get(what).copied()), [Some(1); 4], "{counts:?}");
}
