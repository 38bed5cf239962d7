//! What may happen next, and what comes of it. Every decision about the row is the machine's: the
//! code here only loads it, asks `step`, and compares before it writes.

use super::mutant::Mutant;
use super::note::note;
use super::world::{
    Asking, BY_PERSON, Broken, Client, EXECUTED, Event, KEY_LIFE, LEASE, Look, NOT_FOUND_AFTER,
    Other, Recoverer, Request, Right, Setting, Stage, World, at, content, tick,
};
use samekey_core::lease::Owner;
use samekey_core::policy::Counterparty;
use samekey_core::record::{Reason, Record, State};
use samekey_core::step::{Arrival, Claim, Decision, Finding, Input, Verdict};

/// What a client's stage has to write, if anything.
fn wanted(setting: &Setting, world: &World, index: usize) -> Option<Input> {
    match &world.clients[index].stage {
        Stage::Waiting => Some(Input::Claim(Claim {
            request: content(setting.clients[index]),
            owner: client_token(index, world.epoch),
            arrival: Arrival::Ordinary,
        })),
        Stage::Releasing(right) => Some(Input::Release(right.hold)),
        Stage::Doubting(right) => Some(Input::Doubt(right.hold, Reason::TimedOut)),
        Stage::Answered(right) => Some(Input::Settle(right.hold, EXECUTED)),
        Stage::Working(_)
        | Stage::Sent(_)
        | Stage::Settled(_)
        | Stage::Evidence
        | Stage::FencedOut
        | Stage::Over => None,
    }
}

/// A token is new for every claim. Its owner says it again after a lost acknowledgement, but within
/// the retention: in another life of the row it is another one.
fn client_token(index: usize, epoch: u8) -> Owner {
    let mut bytes = [epoch; 16];
    bytes[0] = u8::try_from(index).unwrap() + 1;
    Owner::from_bytes(bytes)
}

/// A token of an asker is new for every turn: the fence tells turns apart, the epoch rows.
fn asker_token(index: usize, world: &World) -> Owner {
    let mut bytes = [100 + u8::try_from(index).unwrap(); 16];
    bytes[1] = u8::try_from(world.row.fence.number()).unwrap();
    bytes[2] = world.epoch;
    Owner::from_bytes(bytes)
}

fn asker_wants(asker: &Recoverer, index: usize, world: &World) -> Option<Input> {
    match &asker.stage {
        Asking::Idle => Some(Input::Ask(asker_token(index, world))),
        Asking::Turn(_) => None,
        Asking::Told(right, finding) => Some(Input::Hear(right.hold, finding.clone())),
    }
}

pub(super) fn events(setting: &Setting, world: &World, events: &mut Vec<Event>) {
    // What somebody answers for has happened: nothing after it is told any more.
    if world.effects.iter().any(|effects| *effects > 1) {
        return;
    }
    // Before the first claim there is nothing that time could change.
    let begun = world.row != Record::ABSENT || world.epoch > 0;
    if begun && world.tick < setting.ticks {
        events.push(Event::Tick);
    }
    if setting.sweeps {
        events.push(Event::Sweep);
    }
    for (index, client) in world.clients.iter().enumerate() {
        // Who comes first has the lower number: the other order is the same story.
        if index > 0 && !begun && world.clients[index - 1].look.is_none() {
            break;
        }
        if setting.other == Other::Atomic {
            if client.stage == Stage::Waiting {
                events.extend([Event::Commit(index), Event::CommitUnheard(index)]);
            }
            continue;
        }
        if client.look.is_some() {
            events.extend([Event::Write(index), Event::WriteUnheard(index)]);
            events.push(Event::WriteLost(index));
        } else if wanted(setting, world, index).is_some() {
            events.push(Event::Look(index));
            if !setting.races {
                events.extend([Event::Write(index), Event::WriteUnheard(index)]);
            }
        }
        match client.stage {
            Stage::Working(_) => {
                events.extend([
                    Event::Send(index),
                    Event::GiveUpUnsent(index),
                    Event::Crash(index),
                ]);
            }
            Stage::Sent(right) => {
                if world.answered.contains(&right.hold.owner) {
                    events.push(Event::GetAnswer(index));
                }
                events.extend([Event::TimeOut(index), Event::Crash(index)]);
            }
            Stage::Releasing(_) | Stage::Doubting(_) | Stage::Answered(_) => {
                events.push(Event::Crash(index));
            }
            Stage::Waiting
            | Stage::Settled(_)
            | Stage::Evidence
            | Stage::FencedOut
            | Stage::Over => {}
        }
    }
    events.extend((0..world.flight.len()).map(Event::Arrive));
    for (index, asker) in world.recoverers.iter().enumerate() {
        if asker.look.is_some() {
            events.extend([Event::WriteAsk(index), Event::WriteAskUnheard(index)]);
        } else if !setting.races && !matches!(asker.stage, Asking::Turn(_)) {
            events.extend([Event::LookToAsk(index), Event::WriteAsk(index)]);
            events.push(Event::WriteAskUnheard(index));
        } else if matches!(asker.stage, Asking::Turn(_)) {
            events.push(Event::Question(index));
            if setting.other == Other::Dedups {
                events.push(Event::QuestionSlow(index));
            }
        } else {
            events.push(Event::LookToAsk(index));
        }
        if asker.stage != Asking::Idle {
            events.push(Event::AskerCrash(index));
        }
    }
    if world.person.is_some() {
        events.extend([
            Event::PersonSaysExecuted,
            Event::PersonSaysNotExecuted,
            Event::PersonCloses,
        ]);
    } else if setting.person && matches!(world.row.state, State::Review(_)) {
        events.push(Event::PersonLooks);
    }
}

impl Setting {
    /// What the machine says to a look at the row.
    fn decide(&self, (seen, at_tick): &(Record, u8), input: Input) -> (Record, Verdict) {
        self.mutant.step(seen.clone(), input, at(*at_tick), &self.policy)
    }

    /// Compare and set. Nothing is said when the row is another one by now.
    fn write(&self, world: &mut World, look: &(Record, u8), input: &Input) -> Option<Verdict> {
        let mut look = look.clone();
        if look.0 == Record::ABSENT {
            // A new claim is an insert, whose times are those of the insert.
            look.1 = world.tick;
        }
        let look = &look;
        let (next, verdict) = self.decide(look, input.clone());
        let seen = &look.0;
        let same = world.row.hold() == seen.hold() && world.row.revision == seen.revision;
        if !same && self.mutant != Mutant::StoreWithoutCompare {
            return None;
        }
        note(world, input, &next, &verdict);
        world.row = next;
        Some(verdict)
    }

    pub(super) fn next(&self, world: &World, event: Event) -> Option<World> {
        let mut next = world.clone();
        match event {
            Event::Tick => next.tick += 1,
            Event::Sweep => self.sweep(&mut next)?,
            Event::Look(index) => self.look(&mut next, index)?,
            Event::Write(index) => {
                let look = next.clients[index].look.take();
                let input = wanted(self, &next, index)?;
                let look = self.looked(&next, look, &input)?;
                if let Some(verdict) = self.write(&mut next, &look, &input) {
                    self.learn(&mut next, index, &verdict, look.1);
                }
            }
            Event::WriteUnheard(index) => {
                let look = next.clients[index].look.take();
                let input = wanted(self, &next, index)?;
                let look = self.looked(&next, look, &input)?;
                self.write(&mut next, &look, &input)?;
                next.clients[index].lost = true;
            }
            Event::WriteLost(index) => {
                let look = next.clients[index].look.take()?;
                if self.mutant == Mutant::LostWriteCounts {
                    let input = wanted(self, &next, index)?;
                    let (_, verdict) = self.decide(&look, input);
                    self.learn(&mut next, index, &verdict, look.1);
                }
            }
            Event::Send(index) => {
                let Stage::Working(right) = next.clients[index].stage else { return None };
                next.clients[index].stage = Stage::Sent(right);
                put(&mut next, right);
            }
            Event::GiveUpUnsent(index) => {
                let Stage::Working(right) = next.clients[index].stage else { return None };
                next.clients[index].stage = Stage::Releasing(right);
            }
            Event::GetAnswer(index) => {
                let Stage::Sent(right) = next.clients[index].stage else { return None };
                next.clients[index].stage = Stage::Answered(right);
                next.answered.retain(|owner| *owner != right.hold.owner);
            }
            Event::TimeOut(index) => {
                let Stage::Sent(right) = next.clients[index].stage else { return None };
                next.clients[index].stage = Stage::Doubting(right);
                next.answered.retain(|owner| *owner != right.hold.owner);
            }
            Event::Crash(index) => {
                let token = client_token(index, 0).bytes()[0];
                next.answered.retain(|owner| owner.bytes()[0] != token);
                next.clients[index] = Client { stage: Stage::Over, look: None, lost: false };
            }
            Event::Commit(index) => self.commit(&mut next, index, true)?,
            Event::CommitUnheard(index) => self.commit(&mut next, index, false)?,
            Event::Arrive(index) => {
                let request = next.flight.remove(index);
                self.arrive(&mut next, request);
            }
            Event::LookToAsk(index) => self.look_to_ask(&mut next, index)?,
            Event::WriteAsk(index) => self.write_ask(&mut next, index, true)?,
            Event::WriteAskUnheard(index) => self.write_ask(&mut next, index, false)?,
            Event::Question(index) => self.question(&mut next, index, true)?,
            Event::QuestionSlow(index) => self.question(&mut next, index, false)?,
            Event::AskerCrash(index) => {
                next.recoverers[index] = Recoverer { stage: Asking::Idle, look: None };
            }
            Event::PersonLooks => next.person = Some(next.row.hold()),
            Event::PersonSaysExecuted => self.person(&mut next, Decision::Executed(BY_PERSON))?,
            Event::PersonSaysNotExecuted => self.person(&mut next, Decision::NotExecuted)?,
            Event::PersonCloses => self.person(&mut next, Decision::Close)?,
        }
        Some(next)
    }

    fn sweep(&self, world: &mut World) -> Option<()> {
        let look = (world.row.clone(), world.tick);
        let (_, verdict) = self.decide(&look, Input::Sweep);
        let last = usize::from(world.epoch) + 1 == world.effects.len();
        if verdict != Verdict::Swept || world.row == Record::ABSENT || last {
            return None;
        }
        if world.row.is_open() {
            world.broken.get_or_insert(Broken::OpenSwept);
        }
        world.row = Record::ABSENT;
        world.epoch += 1;
        world.may_run = true;
        Some(())
    }

    /// A look that leads to no write is answered at once; any other is kept until the write.
    fn look(&self, world: &mut World, index: usize) -> Option<()> {
        let input = wanted(self, world, index)?;
        let look = (world.row.clone(), world.tick);
        let (after, verdict) = self.decide(&look, input);
        if after == world.row {
            self.learn(world, index, &verdict, look.1);
        } else if self.races {
            world.clients[index].look = Some(look);
        } else {
            return None;
        }
        Some(())
    }

    /// The look that a write is based on, where there is anything to write.
    fn looked(
        &self,
        world: &World,
        look: Option<(Record, u8)>,
        input: &Input,
    ) -> Option<(Record, u8)> {
        if self.races {
            return look;
        }
        let look = (world.row.clone(), world.tick);
        (self.decide(&look, input.clone()).0 != world.row).then_some(look)
    }

    /// What a client makes of a verdict.
    fn learn(&self, world: &mut World, index: usize, verdict: &Verdict, looked: u8) {
        let epoch = world.epoch;
        let given = match &world.row.state {
            State::Running(running) => tick(running.since),
            State::Free
            | State::Unknown(_)
            | State::Review(_)
            | State::Done(_)
            | State::Closed(_) => looked,
        };
        let client = &mut world.clients[index];
        client.stage = match (&client.stage, verdict) {
            (Stage::Waiting, Verdict::Run(hold)) => {
                Stage::Working(Right { hold: *hold, epoch, given })
            }
            (Stage::Waiting, Verdict::Replay(_)) if client.lost => Stage::Settled(epoch),
            (Stage::Waiting, Verdict::Replay(_) | Verdict::Closed | Verdict::Mismatch) => {
                Stage::Over
            }
            (Stage::Answered(_), Verdict::Settled) => Stage::Settled(epoch),
            (Stage::Answered(_), Verdict::Recorded) => Stage::Evidence,
            (Stage::Answered(_) | Stage::Releasing(_), Verdict::Stale) => Stage::FencedOut,
            (Stage::Waiting, _) => Stage::Waiting,
            (Stage::Releasing(_) | Stage::Doubting(_), _) => Stage::Over,
            (stage, _) => stage.clone(),
        };
        // Only who says the same again has a use for knowing that it was lost before.
        client.lost &= matches!(client.stage, Stage::Waiting | Stage::Settled(_));
    }

    /// Claim, effect and answer become visible together, or not at all.
    fn commit(&self, world: &mut World, index: usize, heard: bool) -> Option<()> {
        let claim = wanted(self, world, index)?;
        let look = (world.row.clone(), world.tick);
        let (_, verdict) = self.decide(&look, claim.clone());
        if let Verdict::Run(hold) = verdict {
            self.write(world, &look, &claim)?;
            let look = (world.row.clone(), world.tick);
            self.write(world, &look, &Input::Settle(hold, EXECUTED))?;
            world.effects[usize::from(world.epoch)] += 1;
            if heard {
                world.clients[index].stage = Stage::Settled(world.epoch);
            } else {
                world.clients[index].lost = true;
            }
        } else {
            self.learn(world, index, &verdict, look.1);
        }
        Some(())
    }

    /// The counterparty gets a request, and does what its kind does.
    fn arrive(&self, world: &mut World, request: Request) {
        let epoch = usize::from(request.epoch);
        let late_by = world.tick - request.sent;
        let past_its_right = request.sent >= request.given + LEASE;
        let executes = match self.other {
            Other::Dedups => {
                let remembers = world.first_seen.is_some_and(|seen| world.tick < seen + KEY_LIFE);
                // The declaration of a key's life counts on senders that stop when they should.
                if !remembers && world.first_seen.is_some() && (late_by > 0 || past_its_right) {
                    world.excused[epoch] = true;
                }
                if !remembers {
                    world.first_seen = Some(world.tick);
                }
                !remembers
            }
            Other::Answers => {
                let bound = request.given + LEASE + NOT_FOUND_AFTER;
                let declared = matches!(
                    self.policy.counterparty,
                    Counterparty::Answers { not_found_after: Some(_) }
                );
                if declared && (world.tick >= bound || late_by >= NOT_FOUND_AFTER) {
                    world.excused[epoch] = true;
                }
                true
            }
            Other::Opaque | Other::Atomic => true,
        };
        if executes {
            world.effects[epoch] = world.effects[epoch].saturating_add(1);
        }
        let awaited = world
            .clients
            .iter()
            .any(|client| matches!(client.stage, Stage::Sent(right) if right.hold == request.hold));
        if awaited && !world.answered.contains(&request.hold.owner) {
            world.answered.push(request.hold.owner);
            world.answered.sort_unstable();
        }
    }

    fn look_to_ask(&self, world: &mut World, index: usize) -> Option<()> {
        let input = asker_wants(&world.recoverers[index], index, world)?;
        let look = (world.row.clone(), world.tick);
        let (after, _) = self.decide(&look, input);
        let asker = &mut world.recoverers[index];
        if after != look.0 {
            if !self.races {
                return None;
            }
            asker.look = Some(look);
        } else if asker.stage == Asking::Idle {
            return None;
        } else {
            asker.stage = Asking::Idle;
        }
        Some(())
    }

    fn write_ask(&self, world: &mut World, index: usize, heard: bool) -> Option<()> {
        let look: Look = world.recoverers[index].look.take();
        let look = look.unwrap_or_else(|| (world.row.clone(), world.tick));
        let mut input = asker_wants(&world.recoverers[index], index, world)?;
        if let Input::Ask(owner) = &mut input {
            // The token is that of the row that was looked at.
            *owner = asker_token(index, &World { row: look.0.clone(), ..world.clone() });
        }
        let look = self.looked(world, Some(look), &input)?;
        let verdict = self.write(world, &look, &input);
        if !heard {
            // An unheard turn lapses; an unheard report is told again.
            return verdict.map(|_| ());
        }
        if let Some(verdict) = verdict {
            let (epoch, given) = (world.epoch, look.1);
            world.recoverers[index].stage = if let Verdict::Ask(hold) = verdict {
                Asking::Turn(Right { hold, epoch, given })
            } else {
                Asking::Idle
            };
        }
        Some(())
    }

    fn question(&self, world: &mut World, index: usize, answered: bool) -> Option<()> {
        let Asking::Turn(right) = world.recoverers[index].stage else { return None };
        let finding = match (self.other, answered) {
            (Other::Answers, true) if world.effects[usize::from(right.epoch)] == 0 => {
                Finding::NotFound
            }
            (Other::Answers, true) => Finding::Executed(EXECUTED),
            (Other::Dedups, true) => {
                let (hold, epoch, given) = (right.hold, right.epoch, right.given);
                self.arrive(world, Request { hold, epoch, sent: world.tick, given });
                Finding::Executed(EXECUTED)
            }
            (Other::Dedups, false) => {
                put(world, right);
                Finding::CannotTell
            }
            (Other::Answers, false) | (Other::Opaque | Other::Atomic, _) => return None,
        };
        world.recoverers[index].stage = Asking::Told(right, finding);
        Some(())
    }

    fn person(&self, world: &mut World, decision: Decision) -> Option<()> {
        let seen = world.person.take()?;
        let look = (world.row.clone(), world.tick);
        let excuses = decision == Decision::NotExecuted;
        let verdict = self.write(world, &look, &Input::Decide(seen, decision))?;
        if excuses && verdict == Verdict::Decided {
            world.excused[usize::from(world.epoch)] = true;
        }
        Some(())
    }
}

fn put(world: &mut World, right: Right) {
    let Right { hold, epoch, given } = right;
    world.flight.push(Request { hold, epoch, sent: world.tick, given });
    world.flight.sort_unstable();
}
