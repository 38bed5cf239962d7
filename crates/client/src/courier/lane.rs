//! The loop of one destination: how much passes, what is taken, and when to look again.

use super::attempt::{self, Work};
use super::{Place, Shared};
use crate::restored::{self, RestoreReport};
use crate::signal::Signal;
use futures_util::FutureExt;
use samekey_core::budget::Passing;
use samekey_core::delivery::{Delivery, State};
use samekey_core::key::Org;
use samekey_core::lease::Owner;
use samekey_core::plan::{Input, Verdict, plan};
use samekey_core::time::Time;
use samekey_store::outbox::{Outbox, TAKE_MAX, Taken};
use samekey_store::{Ledger, StoreError, crash_point};
use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How often the outbox is looked at when nothing is known to be due: what another process enqueued is
/// found then.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The shortest rest between two looks that found nothing.
const REST_MIN: Duration = Duration::from_millis(5);
/// The rest after the store failed; it doubles.
const TROUBLE_REST_MIN: Duration = Duration::from_millis(100);
/// The longest rest after the store failed: a store that is back is not left waiting.
const TROUBLE_REST_MAX: Duration = Duration::from_secs(5);
/// How many organisations one page of the scan holds.
const ORGS_PAGE: u32 = 100;
/// How long organisations that had more take turns among themselves before the scan goes on to others: a
/// scan for every take would cost as much as the take, and whoever comes new waits no longer than this.
const SCAN_EVERY: Duration = Duration::from_millis(50);
/// How soon one round of takes may follow another: a take costs several round trips however little it takes,
/// so a busy lane gathers for it. That is little against a call, and an idle lane waits for nothing.
const PACE: Duration = Duration::from_millis(5);
/// How often what is past its time is ended while nothing passes the gate.
const END_EVERY: Duration = Duration::from_millis(200);

pub(super) async fn run<S: Outbox + Ledger>(shared: Arc<Shared<S>>, place: Arc<Place>) {
    let mut lane = Lane {
        shared,
        place,
        turns: Turns::default(),
        round: None,
        ended_at: None,
        idle: REST_MIN,
    };
    let mut trouble = TROUBLE_REST_MIN;
    while !lane.shared.closing.is_cancelled() {
        let passed = AssertUnwindSafe(lane.pass()).catch_unwind().await;
        let rest = match passed {
            Ok(Ok(rest)) => {
                trouble = TROUBLE_REST_MIN;
                rest
            }
            failed @ (Ok(Err(_)) | Err(_)) => {
                let signal = match failed {
                    Ok(Err(error)) => Signal::StoreFailed(error.kind()),
                    // Without its lane a destination would be silent for ever.
                    Ok(Ok(_)) | Err(_) => Signal::Panicked,
                };
                lane.shared.signals.emit(&lane.place.name, signal);
                // A probe that was to be taken was not. One on its way still keeps every other from going.
                lane.place.health().probe_given_back();
                let rest = trouble;
                trouble = trouble.saturating_mul(2).min(TROUBLE_REST_MAX);
                // Enqueuing wakes the lane, but a store that fails is left alone for a while.
                tokio::select! {
                    () = tokio::time::sleep(rest) => {}
                    () = lane.shared.closing.cancelled() => {}
                }
                continue;
            }
        };
        let Some(rest) = rest else { continue };
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = lane.place.wake.notified() => {}
            () = lane.shared.closing.cancelled() => {}
        }
    }
}

struct Lane<S> {
    shared: Arc<Shared<S>>,
    place: Arc<Place>,
    turns: Turns,
    /// When the last round of turns began.
    round: Option<Instant>,
    /// When what is past its time was last ended while the gate was shut.
    ended_at: Option<Instant>,
    /// The rest after a look that found nothing although something is due: it is another worker's, or
    /// waits behind its order key. It doubles.
    idle: Duration,
}

/// Whose turn it is: the organisations that a scan found, and among those, for a while, the ones that had more.
#[derive(Default)]
struct Turns {
    /// Those of this round.
    now: VecDeque<Org>,
    /// Those that had something when it was their turn.
    again: VecDeque<Org>,
    /// Where the next scan goes on, where the last one did not come to the end.
    after: Option<Org>,
    scanned: Option<Instant>,
}

impl Turns {
    /// Begins another round with those that had more; not for long, since others wait to be found.
    fn go_round(&mut self) -> bool {
        let again = std::mem::take(&mut self.again);
        // Otherwise the scan comes to them again.
        if self.scanned.is_some_and(|at| at.elapsed() < SCAN_EVERY) {
            self.now = again;
        }
        !self.now.is_empty()
    }

    fn found(&mut self, page: Vec<Org>) {
        self.scanned = Some(Instant::now());
        self.now = page.into();
    }
}

/// How much may be taken now.
#[derive(Clone, Copy)]
struct Room {
    /// Requests.
    requests: u32,
    /// Whether the one request is a probe.
    is_probe: bool,
    /// How many rows are looked at.
    rows: u32,
}

impl<S: Outbox + Ledger> Lane<S> {
    /// Takes what may be taken; says how long to rest, or nothing where it should go on at once.
    async fn pass(&mut self) -> Result<Option<Duration>, StoreError> {
        // First of all: what a restored store takes for unsent may have been sent.
        restored::heed(&self.shared, &self.place, &mut RestoreReport::default()).await?;
        let room = match self.room() {
            Ok(room) => room,
            Err(rest) => return Ok(Some(rest)),
        };
        loop {
            let Some(org) = self.turns.now.pop_front() else {
                if let Some(rest) = self.next_round(room).await? {
                    return Ok(Some(rest));
                }
                continue;
            };
            let share = self.share(room);
            let moved = self.take(&org, share).await?;
            if moved == share.rows {
                self.ended_at = None;
            }
            if moved > 0 {
                // It may have more; the others have their turn first.
                self.turns.again.push_back(org);
                self.idle = REST_MIN;
                return Ok(None);
            }
            if room.requests == 0 && self.turns.now.is_empty() {
                // The next page has its turn the next time: nothing presses while nothing passes.
                return Ok(Some(END_EVERY));
            }
        }
    }

    /// Finds out whose turn is next; otherwise says how long to rest.
    async fn next_round(&mut self, room: Room) -> Result<Option<Duration>, StoreError> {
        if let Some(round) = self.round {
            if self.turns.again.is_empty() && self.turns.after.is_none() {
                // Nobody who was found had anything.
                self.round = None;
                return self.rest(room).await.map(Some);
            }
            let passed = round.elapsed();
            if passed < PACE {
                return Ok(Some(PACE.saturating_sub(passed)));
            }
        }
        self.round = Some(Instant::now());
        if self.turns.go_round() || self.scan().await? {
            return Ok(None);
        }
        self.round = None;
        self.rest(room).await.map(Some)
    }

    /// Finds the organisations whose turn is next; says whether there are any.
    async fn scan(&mut self) -> Result<bool, StoreError> {
        let store = &self.shared.store;
        let mut from_start = self.turns.after.is_none();
        loop {
            let after = self.turns.after.take();
            let page = store.orgs_with_due(&self.place.name, after.as_ref(), ORGS_PAGE).await?;
            if page.len() >= ORGS_PAGE as usize {
                self.turns.after = page.last().cloned();
            }
            if !page.is_empty() || from_start {
                let found = !page.is_empty();
                self.turns.found(page);
                return Ok(found);
            }
            from_start = true;
        }
    }

    /// How much passes; otherwise how long to rest.
    fn room(&mut self) -> Result<Room, Duration> {
        let in_flight = self.place.in_flight();
        let health = self.place.health();
        match health.passing() {
            Passing::UpTo(limit) => match limit.saturating_sub(in_flight).min(TAKE_MAX) {
                // The end of an attempt wakes the lane.
                0 => Err(LOOK_EVERY),
                requests => Ok(Room { requests, is_probe: false, rows: requests }),
            },
            // What is still on its way from before the gate shut is probe enough.
            Passing::Probe if in_flight == 0 => Ok(Room { requests: 1, is_probe: true, rows: 1 }),
            Passing::Probe => Err(LOOK_EVERY),
            Passing::Nothing(moment) => {
                let wait = health.until(moment);
                drop(health);
                let now = Instant::now();
                if self.ended_at.is_some_and(|at| now.duration_since(at) < END_EVERY) {
                    return Err(wait.clamp(REST_MIN, END_EVERY));
                }
                self.ended_at = Some(now);
                Ok(Room { requests: 0, is_probe: false, rows: TAKE_MAX })
            }
        }
    }

    /// What one organisation gets of the room: no more than its part, so that one with ten thousand
    /// commands keeps nobody waiting.
    fn share(&self, room: Room) -> Room {
        let others = u32::try_from(self.turns.now.len()).unwrap_or(u32::MAX);
        let part = room.requests.div_ceil(others.saturating_add(1));
        if room.requests == 0 || room.is_probe {
            return room;
        }
        Room { requests: part, rows: part, ..room }
    }

    /// How long until there is something to do.
    async fn rest(&mut self, room: Room) -> Result<Duration, StoreError> {
        if room.requests == 0 {
            return Ok(END_EVERY);
        }
        let due = self.shared.store.next_due(&self.place.name).await?;
        Ok(match due {
            Some((due, now)) if due > now => due.since(now).clamp(REST_MIN, LOOK_EVERY),
            Some(_) => {
                let idle = self.idle;
                self.idle = idle.saturating_mul(2).min(LOOK_EVERY);
                idle
            }
            None => LOOK_EVERY,
        })
    }

    /// Takes from one organisation and begins what was taken; says how many rows were moved.
    async fn take(&self, org: &Org, room: Room) -> Result<u32, StoreError> {
        let owners = owners(room.rows)?;
        if room.is_probe {
            self.place.health().probe();
        }
        let choosing = Arc::new(Mutex::new(Choosing {
            place: Arc::clone(&self.place),
            owners,
            requests: room.requests,
            is_probe: room.is_probe,
            retries: 0,
            deferred: 0,
            chosen: HashMap::new(),
        }));
        let chooser = Arc::clone(&choosing);
        let decide = move |delivery: Delivery, now: Time| {
            chooser.lock().unwrap_or_else(PoisonError::into_inner).choose(delivery, now)
        };
        // A lease counted from here ends too early rather than too late.
        let asked_at = Instant::now();
        let taken = self.shared.store.take(org, &self.place.name, room.rows, decide).await;
        let answered_at = Instant::now();
        let mut choosing = choosing.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                // Whatever stands in spite of it is unknown when its lease ends.
                let mut health = self.place.health();
                health.give_back(choosing.retries);
                if room.is_probe {
                    health.probe_given_back();
                }
                return Err(error);
            }
        };
        crash_point!("courier.taken");
        let moved = u32::try_from(taken.len()).unwrap_or(u32::MAX);
        let mut begun = 0;
        for one in taken {
            let verdict = choosing.chosen.remove(&one.seen.delivery.holder);
            let going = Going::new(Arc::clone(&self.place), room.is_probe);
            begun += u32::from(self.begin(one, verdict, going, asked_at, answered_at));
        }
        if room.is_probe && begun == 0 {
            self.place.health().probe_given_back();
        }
        Ok(moved)
    }

    /// Begins one piece of work; says whether a request goes out for it.
    fn begin(
        &self,
        taken: Taken,
        verdict: Option<Verdict>,
        going: Going,
        asked_at: Instant,
        answered_at: Instant,
    ) -> bool {
        let (shared, place) = (&self.shared, &self.place);
        let has_lapsed = matches!(taken.before.state, State::Sending(_));
        if has_lapsed {
            shared.signals.emit(&place.name, Signal::Lapsed);
        }
        let lease = place.profile.lease;
        let margin = lease / samekey_core::profile::MARGIN_PART;
        let ends = asked_at + lease.saturating_sub(margin);
        let work = match verdict {
            Some(Verdict::Send(attempt)) => Work::send(taken, attempt, answered_at, ends),
            Some(Verdict::Ask(hold, by)) => Work::ask(taken, hold, by, answered_at, ends),
            Some(_) | None => {
                if has_lapsed {
                    // It goes on to no attempt that would write this down.
                    let (shared, place) = (Arc::clone(shared), Arc::clone(place));
                    let taken = taken.clone();
                    shared.tasks.clone().spawn(async move {
                        attempt::note_lapse(&shared, &place, &taken).await;
                    });
                }
                let is_over = !taken.seen.delivery.is_open();
                shared.signals.emit(&place.name, super::settle::signal_of(&taken.seen.delivery));
                if is_over {
                    shared.waiters.wake(taken.command.id);
                }
                return false;
            }
        };
        let (shared, place) = (Arc::clone(shared), Arc::clone(place));
        let tasks = shared.tasks.clone();
        tasks.spawn(async move {
            attempt::run(&shared, &place, work).await;
            drop(going);
        });
        true
    }
}

/// Counts one request that is on its way, also where its task panics.
struct Going {
    place: Arc<Place>,
    is_probe: bool,
}

impl Going {
    fn new(place: Arc<Place>, is_probe: bool) -> Going {
        place.in_flight.fetch_add(1, Ordering::SeqCst);
        Going { place, is_probe }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        // A probe that ended has moved the gate already. One that was never sent, since its lease was over or
        // its task panicked, would keep the gate shut for ever. No other is taken while this one counts.
        if self.is_probe {
            self.place.health().probe_given_back();
        }
        self.place.in_flight.fetch_sub(1, Ordering::SeqCst);
        self.place.wake.notify_one();
    }
}

/// Chooses among the rows that are due, while the store has them locked.
struct Choosing {
    place: Arc<Place>,
    owners: Vec<Owner>,
    requests: u32,
    is_probe: bool,
    /// Retries that were paid for.
    retries: u32,
    /// Rows that were put off, since there was no token for them.
    deferred: u32,
    /// What the machine said to each, by the token of its new owner.
    chosen: HashMap<Owner, Verdict>,
}

impl Choosing {
    fn choose(&mut self, delivery: Delivery, now: Time) -> Option<Delivery> {
        let place = Arc::clone(&self.place);
        let owner = *self.owners.last()?;
        let revision = delivery.revision;
        let is_retry = delivery.sends > 0;
        let (next, verdict) = plan(delivery.clone(), Input::Take(owner), now, &place.profile);
        match &verdict {
            Verdict::Send(_) | Verdict::Ask(..) if self.requests == 0 => return None,
            Verdict::Send(_) if is_retry && !self.is_probe => {
                if !place.health().pay_retry() {
                    return self.put_off(delivery, now);
                }
                self.retries += 1;
                self.requests -= 1;
            }
            Verdict::Send(_) | Verdict::Ask(..) => self.requests -= 1,
            Verdict::Ended => {}
            Verdict::Later(_)
            | Verdict::NotDue
            | Verdict::Recorded
            | Verdict::Contradicts
            | Verdict::Stale
            | Verdict::TooLate
            | Verdict::StaleView
            | Verdict::Kept => return None,
        }
        if next.holder == owner {
            self.owners.pop();
            self.chosen.insert(owner, verdict);
        }
        (next.revision != revision).then_some(next)
    }

    /// There is no token for this retry: it is due again when there may be one. Those behind it wait
    /// longer, so that they do not all come back for the same one.
    fn put_off(&mut self, delivery: Delivery, now: Time) -> Option<Delivery> {
        self.deferred += 1;
        let pause = self.place.health().budget_wait().saturating_mul(self.deferred).max(REST_MIN);
        let revision = delivery.revision;
        // It may have come to its end instead.
        let (next, _) = plan(delivery, Input::Defer(pause), now, &self.place.profile);
        (next.revision != revision).then_some(next)
    }
}

/// New owner tokens, one for each row that may be taken.
fn owners(count: u32) -> Result<Vec<Owner>, StoreError> {
    (0..count).map(|_| crate::chance::owner()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Going, Passing};
    use crate::counterparty::{Counterparty, Order, Question, Reply};
    use crate::courier::Destination;
    use samekey_core::delivery::Reason;
    use samekey_core::outcome::{Heard, Outcome, Told};
    use samekey_core::profile::Declared;
    use std::sync::Arc;
    use std::time::Duration;

    struct Nobody;

    impl Counterparty for Nobody {
        fn declared(&self) -> Declared {
            Declared::OPAQUE
        }

        async fn send(&self, _: Order) -> Reply<Outcome> {
            Reply { told: Told::plain(Outcome::NotAccepted(Reason::NotSendable)), status: None }
        }

        async fn ask(&self, _: Question) -> Reply<Heard> {
            Reply { told: Told::plain(Heard::CannotTell), status: None }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_was_never_sent_does_not_keep_the_gate_shut() {
        let place = Arc::new(Destination::new("psp", Nobody).unwrap().into_place());
        place.health().sent(&Told::plain(Outcome::NotAccepted(Reason::NotSendable)));
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(place.health().passing(), Passing::Probe);
        place.health().probe();
        let going = Going::new(Arc::clone(&place), true);
        assert!(matches!(place.health().passing(), Passing::Nothing(_)));
        drop(going);
        assert_eq!((place.health().passing(), place.in_flight()), (Passing::Probe, 0));
    }
}
