//! S10 and S15: what a row becomes, and when it goes, as samples show it.

use super::Scope;
use crate::history::{Act, Evidence, Sample, SeenRow, Violation};
use std::collections::{HashMap, HashSet};

pub(super) fn check(evidence: &Evidence, found: &mut Vec<Violation>) {
    let forgotten = evidence.by_person.iter().filter(|person| person.act == Act::Forget);
    let mut watch = Watch {
        retention_micros: micros(evidence.limits.retention),
        forgotten: forgotten.map(|person| (person.org.as_str(), person.key.as_str())).collect(),
        found,
    };
    // The last sight of each row, with the index of its sample.
    let mut seen: HashMap<Scope<'_>, (usize, &SeenRow)> = HashMap::new();
    for (index, sample) in evidence.samples.iter().enumerate() {
        for row in &sample.rows {
            match seen.insert((&row.org, &row.key), (index, row)) {
                Some((last, earlier)) if last + 1 == index => {
                    let since = clock(&evidence.samples, last);
                    watch.changed(earlier, row, (since, sample.clock_micros));
                }
                Some((last, earlier)) => watch.left(&evidence.samples, last, earlier),
                None => {}
            }
        }
    }
    let last_sample = evidence.samples.len().saturating_sub(1);
    for (last, row) in seen.into_values().filter(|(last, _)| *last < last_sample) {
        watch.left(&evidence.samples, last, row);
    }
}

struct Watch<'a> {
    retention_micros: i64,
    forgotten: HashSet<Scope<'a>>,
    found: &'a mut Vec<Violation>,
}

fn micros(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn clock(samples: &[Sample], index: usize) -> i64 {
    samples.get(index).map_or(0, |sample| sample.clock_micros)
}

impl Watch<'_> {
    fn wrong(&mut self, rule: &'static str, row: &SeenRow, found: &str) {
        let found = format!("org {}, key {}: {found}", row.org, row.key);
        self.found.push(Violation { rule, found });
    }

    /// S10, over two sights of one row, one after the other, at these clocks.
    fn changed(&mut self, before: &SeenRow, now: &SeenRow, clocks: (i64, i64)) {
        if before == now {
            return;
        }
        // Swept and claimed anew between the two samples: fence and revision begin anew as well.
        let is_back = now.revision <= before.revision || now.fence < before.fence;
        if is_back && self.may_go(before, clocks).is_none() {
            return;
        }
        if now.revision <= before.revision {
            let (was, is) = (before.revision, now.revision);
            self.wrong(
                "S10",
                now,
                &format!("it changed, and its revision went from {was} to {is}"),
            );
        }
        if now.fence < before.fence {
            let (was, is) = (before.fence, now.fence);
            self.wrong("S10", now, &format!("the fence went from {was} back to {is}"));
        }
        if now.fence == before.fence && now.holder != before.holder {
            self.wrong("S10", now, &format!("two owners hold the fence {}", now.fence));
        }
        let runs_anew = now.state == "running"
            && (before.state != "running" || before.since_micros != now.since_micros);
        if runs_anew && now.fence <= before.fence {
            self.wrong("S10", now, &format!("it runs again under the fence {}", now.fence));
        }
        if before.state == "done" {
            self.done_changed(before, now);
        }
        if now.keep_until_micros < before.keep_until_micros {
            self.wrong("S15", now, "its retention became shorter");
        }
    }

    fn done_changed(&mut self, before: &SeenRow, now: &SeenRow) {
        let fact = |row: &SeenRow| (row.state.clone(), row.status, row.since_micros);
        if fact(before) != fact(now) {
            let (was, is) = (before.status, now.status);
            let found = format!("done with {was:?} became {} with {is:?}", now.state);
            self.wrong("S10", now, &found);
        }
        let was_forgotten = self.forgotten.contains(&(now.org.as_str(), now.key.as_str()));
        if before.answer_sha != now.answer_sha && !was_forgotten {
            self.wrong("S10", now, "the answer of a done record changed");
        }
    }

    /// S15, for a row that the sample after `last` no longer has.
    fn left(&mut self, samples: &[Sample], last: usize, row: &SeenRow) {
        let clocks = (clock(samples, last), clock(samples, last + 1));
        if let Some(reason) = self.may_go(row, clocks) {
            self.wrong("S15", row, reason);
        }
    }

    /// Why a row that was there at the first clock may not be gone at the second.
    fn may_go(&self, row: &SeenRow, (seen, gone): (i64, i64)) -> Option<&'static str> {
        if row.is_open() {
            // It may have ended just after it was seen, and its retention counts from its end.
            let earliest = seen.saturating_add(self.retention_micros);
            return (gone < earliest).then_some("an open row vanished");
        }
        (gone < row.keep_until_micros).then_some("it vanished before its retention ended")
    }
}
