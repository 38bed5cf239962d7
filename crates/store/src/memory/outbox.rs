//! The outbox in memory. It says in the fewest words what the other two adapters do.

use super::{MemoryLedger, count, page};
use crate::error::StoreError;
use crate::outbox::check::{
    check_action, check_advance, check_command, check_note, id_taken, may_follow,
};
use crate::outbox::row::counted_from;
use crate::outbox::{
    Action, AttemptNote, Command, CommandCount, CommandId, Enqueued, Listed, Moved, Outbox,
    SeenDelivery, Show, TAKE_MAX, Taken,
};
use crate::{Decided, LIST_PAGE_MAX, SWEEP_BATCH_MAX, SweepPass};
use samekey_core::delivery::Delivery;
use samekey_core::key::Org;
use samekey_core::time::Time;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

type Id = (Org, CommandId);

/// Organisation, destination and order key.
type Lane = (Org, String, String);

fn lane(command: &Command) -> Option<Lane> {
    let Action { org, destination, .. } = &command.action;
    Some((org.clone(), destination.clone(), command.order_key.clone()?))
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    commands: BTreeMap<Id, Command>,
    /// The commands of an action by their generation.
    actions: BTreeMap<Action, BTreeMap<u32, CommandId>>,
    /// What is open, or waits for a person.
    hot: BTreeMap<Id, Delivery>,
    /// What has finished, and when it came here.
    finished: BTreeMap<Id, (Time, Delivery)>,
    /// Whose turn it is among the unfinished commands of an order key, once one was taken.
    turns: BTreeMap<Lane, CommandId>,
    attempts: BTreeMap<Id, Vec<AttemptNote>>,
    accounts: BTreeMap<Id, Vec<Decided>>,
}

impl Tables {
    fn delivery(&self, id: &Id) -> Option<&Delivery> {
        self.hot.get(id).or_else(|| self.finished.get(id).map(|(_, delivery)| delivery))
    }

    fn latest(&self, action: &Action) -> Option<(&Command, &Delivery)> {
        let (_, id) = self.actions.get(action)?.last_key_value()?;
        let id = (action.org.clone(), *id);
        Some((self.commands.get(&id)?, self.delivery(&id)?))
    }

    /// Whether a command may go on: it waits behind no other one of its order key.
    fn is_first(&self, id: &Id, command: &Command) -> bool {
        let Some(lane) = lane(command) else { return true };
        if let Some(turn) = self.turns.get(&lane) {
            return *turn == id.1;
        }
        !self.hot.range(..id).any(|(other, _)| {
            other.0 == id.0 && self.commands.get(other).and_then(self::lane).as_ref() == Some(&lane)
        })
    }

    /// Takes a row out of the hot ones for good.
    fn finish(&mut self, id: &Id, last: Delivery, now: Time) {
        self.hot.remove(id);
        self.finished.insert(id.clone(), (now, last));
        if let Some(lane) = self.commands.get(id).and_then(lane)
            && self.turns.get(&lane) == Some(&id.1)
        {
            self.turns.remove(&lane);
        }
    }

    /// What goes on by itself and waits behind nothing, for a destination.
    fn ready(&self, destination: &str) -> impl Iterator<Item = (Time, &Id, &Command, &Delivery)> {
        self.hot.iter().filter_map(move |(id, delivery)| {
            let due = delivery.due()?;
            let command = self.commands.get(id)?;
            let ready = command.action.destination == destination && self.is_first(id, command);
            ready.then_some((due, id, command, delivery))
        })
    }

    fn put(&mut self, id: &Id, next: Delivery, now: Time) {
        if next.is_finished() {
            self.finish(id, next, now);
        } else {
            self.hot.insert(id.clone(), next);
        }
    }

    fn advance(&mut self, id: &Id, seen: &Delivery, next: &Delivery, now: Time) -> Moved {
        if let Some(row) = self.hot.get(id) {
            if row.hold() != seen.hold() || row.revision != seen.revision {
                return Moved::Changed(SeenDelivery { delivery: row.clone(), now });
            }
            self.put(id, next.clone(), now);
            return Moved::Written;
        }
        match self.finished.get(id) {
            Some((_, row)) => Moved::past(SeenDelivery { delivery: row.clone(), now }),
            None => Moved::Gone,
        }
    }

    fn note(&mut self, id: &Id, note: &AttemptNote, now: Time) {
        if self.commands.contains_key(id) {
            let note = AttemptNote { noted: now, ..note.clone() };
            self.attempts.entry(id.clone()).or_default().push(note);
        }
    }

    fn remove(&mut self, id: &Id) {
        self.finished.remove(id);
        self.attempts.remove(id);
        self.accounts.remove(id);
        if let Some(command) = self.commands.remove(id)
            && let Some(generations) = self.actions.get_mut(&command.action)
        {
            generations.remove(&command.generation);
            if generations.is_empty() {
                self.actions.remove(&command.action);
            }
        }
    }
}

impl Outbox for MemoryLedger {
    async fn now(&self) -> Result<Time, StoreError> {
        Ok(self.now())
    }

    async fn enqueue(
        &self,
        command: &Command,
        delivery: &Delivery,
    ) -> Result<Enqueued, StoreError> {
        check_command(command, delivery)?;
        let (mut tables, now) = self.lock();
        let tables = &mut tables.outbox;
        let id = (command.action.org.clone(), command.id);
        if let Some((latest, stands)) = tables.latest(&command.action) {
            if !may_follow(latest, stands, command.generation) {
                let (latest, stands) = (latest.clone(), stands.clone());
                return Ok(Enqueued::Found(Box::new(latest), Box::new(stands)));
            }
            let before = (command.action.org.clone(), latest.id);
            if tables.commands.contains_key(&id) {
                return Err(id_taken());
            }
            // What has failed is finished when another one takes its place.
            if let Some(failed) = tables.hot.get(&before).cloned() {
                tables.finish(&before, failed, now);
            }
        } else if tables.commands.contains_key(&id) {
            return Err(id_taken());
        }
        let generations = tables.actions.entry(command.action.clone()).or_default();
        generations.insert(command.generation, command.id);
        tables.commands.insert(id.clone(), command.clone());
        tables.hot.insert(id, counted_from(delivery.clone(), now));
        Ok(Enqueued::New)
    }

    async fn command(&self, org: &Org, id: CommandId) -> Result<Option<Command>, StoreError> {
        Ok(self.lock().0.outbox.commands.get(&(org.clone(), id)).cloned())
    }

    async fn latest(&self, action: &Action) -> Result<Option<(Command, SeenDelivery)>, StoreError> {
        check_action(action)?;
        let (tables, now) = self.lock();
        Ok(tables.outbox.latest(action).map(|(command, delivery)| {
            (command.clone(), SeenDelivery { delivery: delivery.clone(), now })
        }))
    }

    async fn delivery(&self, org: &Org, id: CommandId) -> Result<Option<SeenDelivery>, StoreError> {
        let (tables, now) = self.lock();
        let delivery = tables.outbox.delivery(&(org.clone(), id)).cloned();
        Ok(delivery.map(|delivery| SeenDelivery { delivery, now }))
    }

    async fn orgs_with_due(
        &self,
        destination: &str,
        after: Option<&Org>,
        limit: u32,
    ) -> Result<Vec<Org>, StoreError> {
        let (tables, now) = self.lock();
        let mut orgs: Vec<Org> = tables
            .outbox
            .ready(destination)
            .filter(|(due, (org, _), _, _)| *due <= now && after.is_none_or(|after| org > after))
            .map(|(_, (org, _), _, _)| org.clone())
            .collect();
        orgs.dedup();
        orgs.truncate(page(limit.min(LIST_PAGE_MAX)));
        Ok(orgs)
    }

    async fn next_due(&self, destination: &str) -> Result<Option<(Time, Time)>, StoreError> {
        let (tables, now) = self.lock();
        let next = tables.outbox.ready(destination).map(|(due, ..)| due).min();
        Ok(next.map(|due| (due, now)))
    }

    async fn take<F>(
        &self,
        org: &Org,
        destination: &str,
        limit: u32,
        mut decide: F,
    ) -> Result<Vec<Taken>, StoreError>
    where
        F: FnMut(Delivery, Time) -> Option<Delivery> + Send + 'static,
    {
        let (mut tables, now) = self.lock();
        let tables = &mut tables.outbox;
        let mut due: Vec<(Time, CommandId)> = tables
            .ready(destination)
            .filter(|(due, (of, _), _, _)| of == org && *due <= now)
            .map(|(due, (_, id), _, _)| (due, *id))
            .collect();
        due.sort_unstable();
        due.truncate(page(limit.min(TAKE_MAX)));
        let mut taken = Vec::new();
        for (_, id) in due {
            let id = (org.clone(), id);
            let (Some(command), Some(before)) = (tables.commands.get(&id), tables.hot.get(&id))
            else {
                continue;
            };
            let (command, before) = (command.clone(), before.clone());
            if let Some(lane) = lane(&command) {
                tables.turns.insert(lane, id.1);
            }
            let Some(next) = decide(before.clone(), now) else { continue };
            if next.revision == before.revision {
                continue;
            }
            check_advance(&before, &next)?;
            taken.push(Taken { command, before, seen: SeenDelivery { delivery: next, now } });
        }
        for one in &taken {
            tables.put(&(org.clone(), one.command.id), one.seen.delivery.clone(), now);
        }
        Ok(taken)
    }

    async fn advance(
        &self,
        org: &Org,
        id: CommandId,
        seen: &Delivery,
        next: &Delivery,
        note: Option<&AttemptNote>,
    ) -> Result<Moved, StoreError> {
        check_advance(seen, next)?;
        note.map_or(Ok(()), check_note)?;
        let (mut tables, now) = self.lock();
        let id = (org.clone(), id);
        let moved = tables.outbox.advance(&id, seen, next, now);
        if let (Moved::Written, Some(note)) = (&moved, note) {
            tables.outbox.note(&id, note, now);
        }
        Ok(moved)
    }

    async fn advance_decided(
        &self,
        org: &Org,
        id: CommandId,
        seen: &Delivery,
        next: &Delivery,
        decided: &Decided,
    ) -> Result<Moved, StoreError> {
        check_advance(seen, next)?;
        let (mut tables, now) = self.lock();
        let id = (org.clone(), id);
        let moved = tables.outbox.advance(&id, seen, next, now);
        if moved == Moved::Written {
            let account = Decided { at: now, ..decided.clone() };
            tables.outbox.accounts.entry(id).or_default().push(account);
        }
        Ok(moved)
    }

    async fn note(&self, org: &Org, id: CommandId, note: &AttemptNote) -> Result<(), StoreError> {
        check_note(note)?;
        let (mut tables, now) = self.lock();
        tables.outbox.note(&(org.clone(), id), note, now);
        Ok(())
    }

    async fn attempts(&self, org: &Org, id: CommandId) -> Result<Vec<AttemptNote>, StoreError> {
        let (tables, _) = self.lock();
        let all = tables.outbox.attempts.get(&(org.clone(), id));
        Ok(first_page(all))
    }

    async fn accounts(&self, org: &Org, id: CommandId) -> Result<Vec<Decided>, StoreError> {
        let (tables, _) = self.lock();
        let all = tables.outbox.accounts.get(&(org.clone(), id));
        Ok(first_page(all))
    }

    async fn list(
        &self,
        show: &Show,
        after: Option<(&Org, CommandId)>,
        limit: u32,
    ) -> Result<Vec<Listed>, StoreError> {
        let (tables, now) = self.lock();
        let tables = &tables.outbox;
        let after = after.map(|(org, id)| (org.clone(), id));
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(tables
            .commands
            .range((start, Bound::Unbounded))
            .filter_map(|(id, command)| Some((id, command, tables.delivery(id)?)))
            .filter(|(id, command, delivery)| {
                let followed = tables.finished.contains_key(*id) && !delivery.is_finished();
                let state = delivery.state_name();
                show.org.as_ref().is_none_or(|org| *org == id.0)
                    && show.destination.as_ref().is_none_or(|to| *to == command.action.destination)
                    && (show.states.is_empty()
                        || !followed && show.states.iter().any(|one| one == state))
            })
            .take(page(limit.min(LIST_PAGE_MAX)))
            .map(|((_, id), command, delivery)| Listed {
                id: *id,
                action: command.action.clone(),
                generation: command.generation,
                seen: SeenDelivery { delivery: delivery.clone(), now },
            })
            .collect())
    }

    async fn count_commands(&self) -> Result<Vec<CommandCount>, StoreError> {
        let (tables, _) = self.lock();
        let tables = &tables.outbox;
        let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (id, delivery) in &tables.hot {
            let Some(command) = tables.commands.get(id) else { continue };
            let destination = command.action.destination.as_str();
            *counts.entry((destination, delivery.state_name())).or_default() += 1;
        }
        Ok(counts
            .into_iter()
            .map(|((destination, state), count)| CommandCount {
                destination: destination.to_owned(),
                state: state.to_owned(),
                count,
            })
            .collect())
    }

    async fn sweep_commands(
        &self,
        retention: Duration,
        batch: u32,
    ) -> Result<SweepPass, StoreError> {
        let batch = page(batch.clamp(1, SWEEP_BATCH_MAX));
        let (mut tables, now) = self.lock();
        let tables = &mut tables.outbox;
        let mut over: Vec<(Time, Id)> = tables
            .finished
            .iter()
            .filter(|(_, (at, _))| at.plus(retention) <= now)
            .map(|(id, (at, _))| (*at, id.clone()))
            .collect();
        over.sort_unstable();
        over.truncate(batch);
        for (_, id) in &over {
            tables.remove(id);
        }
        Ok(SweepPass { removed: count(over.len()), more: over.len() == batch })
    }
}

fn first_page<T: Clone>(all: Option<&Vec<T>>) -> Vec<T> {
    let all = all.map(Vec::as_slice).unwrap_or_default();
    all.iter().take(page(LIST_PAGE_MAX)).cloned().collect()
}
