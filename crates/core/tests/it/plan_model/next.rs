//! What may happen next, and what comes of it. Every decision about the row is the machine's: the code
//! here only carries out what it says.

use super::world::{
    Broken, EXECUTED, Event, KEY_LIFE, LEASE, NOT_FOUND_AFTER, Other, REFUSED, Request, Right,
    Setting, Stage, Traceless, Worker, World, at,
};
use samekey_core::backoff::Chance;
use samekey_core::delivery::{Delivery, Proof, Reason, State};
use samekey_core::lease::{Hold, Owner};
use samekey_core::outcome::{Heard, NotRun, Outcome, Speaks, Told};
use samekey_core::plan::{Decision, Input, Verdict};

pub(super) fn events(setting: &Setting, world: &World, events: &mut Vec<Event>) {
    // What somebody answers for has happened: nothing after it is told any more, but that it is told.
    let over = world.effects + world.late_effects > 1;
    if !over && world.tick < setting.ticks {
        events.push(Event::Tick);
    }
    let mut some_idle = false;
    for (index, worker) in world.workers.iter().enumerate() {
        match worker.stage {
            // All idle workers are alike.
            Stage::Idle if some_idle || over => {}
            Stage::Idle => {
                some_idle = true;
                if world.row.due().is_some_and(|due| due <= at(world.tick)) {
                    events.push(Event::Take(index));
                }
            }
            Stage::Attempt(_) => {
                events.extend([Event::Send(index), Event::FindNoWay(index), Event::Crash(index)]);
            }
            Stage::Sent(right) => {
                if world.answered.iter().any(|(hold, _)| *hold == right.hold) {
                    events.push(Event::GetAnswer(index));
                }
                events.extend([Event::TimeOut(index), Event::Crash(index)]);
            }
            Stage::Turn(_) => {
                events.extend([
                    Event::Question(index),
                    Event::QuestionFails(index),
                    Event::Crash(index),
                ]);
            }
            Stage::Told(..) | Stage::Heard(..) => {
                // A crash here is one before it was told.
                events.push(Event::Write(index));
                if world.losses > 0 {
                    events.push(Event::WriteUnheard(index));
                }
            }
        }
    }
    if over {
        return;
    }
    for index in 0..world.flight.len() {
        events.push(Event::Arrive(index));
        if setting.other != Other::Answers && world.effects == 0 {
            events.push(Event::ArriveRefused(index));
        }
    }
    if world.callbacks > 0 && world.effects > 0 {
        events.push(Event::Callback);
    }
    if world.person.is_some() {
        events.extend([
            Event::PersonSaysExecuted,
            Event::PersonSaysNotExecuted,
            Event::PersonRetries,
        ]);
    } else if world.acts > 0 && world.row.is_in_inbox() {
        events.push(Event::PersonLooks);
    }
}

/// A token is new for every turn: the fence tells turns apart.
fn token(index: usize, world: &World) -> Owner {
    let mut bytes = [u8::try_from(index).unwrap() + 1; 16];
    bytes[1] = u8::try_from(world.row.fence.number()).unwrap();
    Owner::from_bytes(bytes)
}

impl Setting {
    pub(super) fn next(&self, world: &World, event: Event) -> Option<World> {
        let mut next = world.clone();
        next.told = None;
        match event {
            Event::Tick => next.tick += 1,
            Event::Take(index) => self.take(&mut next, index),
            Event::Send(index) => {
                let Stage::Attempt(right) = next.workers[index].stage else { return None };
                let sent = next.tick;
                next.flight.push(Request { hold: right.hold, sent, given: right.given });
                next.flight.sort_unstable();
                next.left += 1;
                next.workers[index].stage = Stage::Sent(right);
            }
            Event::FindNoWay(index) => {
                let Stage::Attempt(right) = next.workers[index].stage else { return None };
                let none = Outcome::NotRun(NotRun::NotSent);
                next.workers[index].stage = Stage::Told(right, none);
            }
            Event::GetAnswer(index) => {
                let Stage::Sent(right) = next.workers[index].stage else { return None };
                let (_, done) = *next.answered.iter().find(|(hold, _)| *hold == right.hold)?;
                next.answered.retain(|(hold, _)| *hold != right.hold);
                let outcome = if done {
                    Outcome::Done(EXECUTED)
                } else {
                    Outcome::Refused(REFUSED, Speaks::ForItself)
                };
                next.workers[index].stage = Stage::Told(right, outcome);
            }
            Event::TimeOut(index) => {
                let Stage::Sent(right) = next.workers[index].stage else { return None };
                let outcome = Outcome::Unknown(Reason::TimedOut);
                next.answered.retain(|(hold, _)| *hold != right.hold);
                next.workers[index].stage = Stage::Told(right, outcome);
            }
            Event::Crash(index) => {
                if let Stage::Sent(right) = next.workers[index].stage {
                    next.answered.retain(|(hold, _)| *hold != right.hold);
                }
                next.workers[index] = Worker { stage: Stage::Idle, lost: false };
            }
            Event::Question(index) => {
                let Stage::Turn(right) = next.workers[index].stage else { return None };
                let ran = next.effects + next.late_effects > 0;
                let heard = if ran { Heard::Executed(EXECUTED) } else { Heard::NotFound };
                next.workers[index].stage = Stage::Heard(right, heard);
            }
            Event::QuestionFails(index) => {
                let Stage::Turn(right) = next.workers[index].stage else { return None };
                next.workers[index].stage = Stage::Heard(right, Heard::CannotTell);
            }
            Event::Write(index) => {
                let input = wanted(&next.workers[index])?;
                let verdict = self.write(&mut next, &input, world.workers[index].lost);
                acknowledge(&mut next, &input, &verdict);
                next.workers[index] = Worker { stage: Stage::Idle, lost: false };
            }
            Event::WriteUnheard(index) => {
                let input = wanted(&next.workers[index])?;
                self.write(&mut next, &input, false);
                next.workers[index].lost = true;
                next.losses -= 1;
            }
            Event::Arrive(index) => self.arrive(&mut next, index),
            Event::ArriveRefused(index) => {
                let request = next.flight.remove(index);
                answer(&mut next, request.hold, false);
            }
            Event::Callback => {
                next.callbacks -= 1;
                self.write(&mut next, &Input::Learn(Proof::Executed(EXECUTED)), false);
            }
            Event::PersonLooks => {
                next.acts -= 1;
                next.person = Some(next.row.hold());
            }
            Event::PersonSaysExecuted => {
                let seen = next.person.take()?;
                self.by_person(&mut next, &Input::Decide(seen, Decision::Executed));
            }
            Event::PersonSaysNotExecuted => {
                let seen = next.person.take()?;
                let input = Input::Decide(seen, Decision::NotExecuted);
                if self.by_person(&mut next, &input) == Verdict::Ended {
                    next.vouched = true;
                }
            }
            Event::PersonRetries => {
                let seen = next.person.take()?;
                self.by_person(&mut next, &Input::Retry(seen));
            }
        }
        Some(next)
    }

    fn take(&self, next: &mut World, index: usize) {
        let given = next.tick;
        let input = Input::Take(token(index, next));
        let stage = match self.write(next, &input, false) {
            Verdict::Send(attempt) => Stage::Attempt(Right { hold: attempt.hold, given }),
            Verdict::Ask(hold, _) => Stage::Turn(Right { hold, given }),
            Verdict::Ended
            | Verdict::Later(_)
            | Verdict::NotDue
            | Verdict::Recorded
            | Verdict::Contradicts
            | Verdict::Stale
            | Verdict::TooLate
            | Verdict::StaleView
            | Verdict::Kept => Stage::Idle,
        };
        next.workers[index] = Worker { stage, lost: false };
    }

    fn arrive(&self, next: &mut World, index: usize) {
        let request = next.flight.remove(index);
        answer(next, request.hold, true);
        let after_lease = next.tick > request.given + LEASE;
        let late = match self.other {
            Other::Opaque => false,
            Other::Answers => {
                let bound = self.profile.declared.answers.and_then(|it| it.not_found_after);
                bound.is_some()
                    && (next.tick >= request.sent + NOT_FOUND_AFTER
                        || next.tick >= request.given + LEASE + NOT_FOUND_AFTER)
            }
            Other::Dedups => match next.first_seen {
                Some(first) if next.tick <= first + KEY_LIFE => return,
                Some(_) => after_lease,
                None => false,
            },
        };
        next.first_seen = (self.other == Other::Dedups).then_some(next.tick);
        if late {
            next.late_effects += 1;
        } else {
            next.effects += 1;
        }
    }

    /// A person has spoken since: what is said again is said about something else.
    fn by_person(&self, world: &mut World, input: &Input) -> Verdict {
        for worker in &mut world.workers {
            worker.lost = false;
        }
        self.write(world, input, false)
    }

    /// Load, decide, compare and set, in one step.
    fn write(&self, world: &mut World, input: &Input, lost: bool) -> Verdict {
        let before = world.row.clone();
        let now = at(world.tick);
        let (next, verdict) = self.mutant.plan(before.clone(), input.clone(), now, &self.profile);
        if world.broken.is_none() {
            world.broken = broken(&before, input, &next, lost);
        }
        world.told = match verdict {
            Verdict::Recorded => Some(Traceless::Recorded),
            Verdict::Contradicts => Some(Traceless::Contradicts),
            Verdict::Stale => Some(Traceless::Stale),
            Verdict::StaleView => Some(Traceless::StaleView),
            Verdict::Send(_)
            | Verdict::Ask(..)
            | Verdict::Ended
            | Verdict::Later(_)
            | Verdict::NotDue
            | Verdict::TooLate
            | Verdict::Kept => None,
        };
        world.row = self.plainly(next);
        verdict
    }

    /// The row without what decides nothing here, so that equal worlds are one: the revision, since look and
    /// write are one step; what is only told to people; and the beginning of a memory that nobody has.
    fn plainly(&self, mut row: Delivery) -> Delivery {
        row.revision = 0;
        row.last = row.last.filter(|last| *last == Reason::RefusedInDoubt);
        row.first_send = row.first_send.filter(|_| self.other == Other::Dedups);
        row
    }
}

/// Who still waits for it may get this answer.
fn answer(world: &mut World, hold: Hold, done: bool) {
    let waits = |worker: &Worker| matches!(worker.stage, Stage::Sent(right) if right.hold == hold);
    if world.workers.iter().any(waits) {
        world.answered.push((hold, done));
        world.answered.sort_unstable();
    }
}

/// What a worker has to write, if anything.
fn wanted(worker: &Worker) -> Option<Input> {
    match &worker.stage {
        Stage::Told(right, outcome) => {
            Some(Input::Report(right.hold, Told::plain(outcome.clone()), Chance::LEAST))
        }
        Stage::Heard(right, heard) => {
            Some(Input::Hear(right.hold, Told::plain(heard.clone()), Chance::LEAST))
        }
        Stage::Idle | Stage::Attempt(_) | Stage::Sent(_) | Stage::Turn(_) => None,
    }
}

fn acknowledge(world: &mut World, input: &Input, verdict: &Verdict) {
    let done = match input {
        Input::Report(_, told, _) => matches!(told.what, Outcome::Done(_)),
        Input::Hear(_, told, _) => matches!(told.what, Heard::Executed(_)),
        Input::Take(_)
        | Input::Defer(_)
        | Input::Release(..)
        | Input::Learn(_)
        | Input::Cancel
        | Input::Decide(..)
        | Input::Retry(_)
        | Input::Restore => false,
    };
    if done && matches!(verdict, Verdict::Recorded | Verdict::Ended) {
        world.acknowledged = true;
    }
}

/// Who reports, and whether what is reported is certain.
fn spoken(input: &Input) -> Option<(Hold, bool)> {
    match input {
        Input::Report(hold, told, _) => {
            let certain = matches!(told.what, Outcome::Done(_) | Outcome::Refused(..));
            Some((*hold, certain))
        }
        Input::Hear(hold, told, _) => {
            Some((*hold, matches!(told.what, Heard::Executed(_) | Heard::Refused(_))))
        }
        Input::Take(_)
        | Input::Defer(_)
        | Input::Release(..)
        | Input::Learn(_)
        | Input::Cancel
        | Input::Decide(..)
        | Input::Retry(_)
        | Input::Restore => None,
    }
}

fn broken(before: &Delivery, input: &Input, next: &Delivery, lost: bool) -> Option<Broken> {
    if next == before {
        return None;
    }
    if before.is_finished() {
        return Some(Broken::FinishedChanged);
    }
    if next.fence < before.fence {
        return Some(Broken::FenceFell);
    }
    if lost {
        return Some(Broken::CountedTwice);
    }
    let (hold, certain) = spoken(input)?;
    let learned = next.proof.is_some()
        || matches!(next.state, State::Succeeded(_) | State::Refused(_) | State::Undecided(_));
    let allowed = hold == before.hold() || (certain && learned);
    (!allowed).then_some(Broken::StaleWrite)
}
