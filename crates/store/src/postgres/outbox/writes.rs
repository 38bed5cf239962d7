//! What a group of enqueues and moves does on the database: one transaction, sent in one go.

use super::super::cells::Cell;
use super::super::connection::{ANSWER_TIME_MAX, Connection, Ready, within};
use super::super::failure::{self, Phase};
use super::super::group::{Batch, Results};
use super::super::value::{Moment, Span};
use super::super::{Core, sql::Sql};
use super::cells::{Arrays, CommandArrays, get};
use super::{enqueue, reads, sql};
use crate::error::StoreError;
use crate::outbox::row::{DeliveryRow, count, signed};
use crate::outbox::{AttemptNote, Command, CommandId, Enqueued, Moved};
use futures_util::future::{join, join_all, join4};
use samekey_core::delivery::Delivery;
use samekey_core::key::{Key, Org, Scope};
use std::sync::Arc;
use std::time::Duration;

/// What is asked for behind the begin of every transaction here. Plans are made once and kept, maybe while
/// the tables are still empty, so they are held to the indexes from the start.
const SETTINGS: &str = "; \
                     set local plan_cache_mode = force_generic_plan; \
                     set local enable_seqscan = off; \
                     set local enable_mergejoin = off; \
                     set local lock_timeout = ";

/// How long a group waits for a lock: for another group's commit, and no longer, so that one command in
/// somebody's open transaction delays the others by next to nothing.
const GROUP_LOCK_WAIT: Duration = Duration::from_millis(25);

/// How long one that was held up in its group then waits on a connection of its own.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(2);

/// The writes of one outbox.
pub(in super::super) struct OutboxWrites(pub(in super::super) Arc<Core>);

/// What a caller wants written, under its id.
pub(in super::super) struct Write {
    scope: Scope,
    what: What,
}

enum What {
    Enqueue(Box<(Command, Delivery)>),
    Advance(Box<Advance>),
}

/// What came of it.
pub(in super::super) enum Written {
    /// Of an enqueue.
    Enqueued(Enqueued),
    /// Of a move.
    Moved(Moved),
}

/// A compare-and-set.
pub(super) struct Advance {
    pub(super) org: Org,
    pub(super) id: CommandId,
    pub(super) seen: Delivery,
    pub(super) next: Delivery,
    pub(super) note: Option<AttemptNote>,
}

impl Write {
    pub(super) fn enqueue(command: &Command, delivery: &Delivery) -> Result<Write, StoreError> {
        let scope = scope(&command.action.org, command.id)?;
        let what = What::Enqueue(Box::new((command.clone(), delivery.clone())));
        Ok(Write { scope, what })
    }

    pub(super) fn advance(advance: Advance) -> Result<Write, StoreError> {
        let scope = scope(&advance.org, advance.id)?;
        Ok(Write { scope, what: What::Advance(Box::new(advance)) })
    }
}

/// The id in the form in which groups keep entries apart.
fn scope(org: &Org, id: CommandId) -> Result<Scope, StoreError> {
    let key = Key::new(&id.to_string()).map_err(|_| failure::missing())?;
    Ok(Scope { org: org.clone(), key })
}

impl Batch for OutboxWrites {
    type Entry = Write;
    type Answer = Written;

    fn scope(entry: &Write) -> &Scope {
        &entry.scope
    }

    async fn together(&self, entries: &[Write]) -> Result<Results<Written>, StoreError> {
        together(&self.0, entries, GROUP_LOCK_WAIT).await
    }
}

/// Runs one entry by itself, waiting longer.
pub(super) async fn alone(core: &Core, entry: Write) -> Result<Written, StoreError> {
    let mut results = together(core, std::slice::from_ref(&entry), LOCK_WAIT).await?;
    results.pop().ok_or_else(failure::missing)?
}

/// The words with which a transaction of the outbox begins.
pub(super) fn begin(core: &Core, wait: Duration) -> String {
    format!("{}{SETTINGS}{}", core.phrases.begin, wait.as_millis())
}

async fn together(
    core: &Core,
    entries: &[Write],
    wait: Duration,
) -> Result<Results<Written>, StoreError> {
    let connection = core.connection().await?;
    let (mut enqueues, mut advances) = (Enqueues::default(), Advances::default());
    for entry in entries {
        match &entry.what {
            What::Enqueue(both) => enqueues.push(&both.0, &both.1),
            What::Advance(advance) => advances.push(advance),
        }
    }
    let enqueue = ready(&connection, &sql::ENQUEUE_GROUP, enqueues.entries.is_empty()).await?;
    let advance = ready(&connection, &sql::ADVANCE_GROUP, advances.places == 0).await?;
    let begin = begin(core, wait);
    // First polled in this order, they are sent in this order.
    let work = join4(
        connection.batch_execute(&begin),
        run(&connection, enqueue.as_ref(), enqueues.parameters()),
        run(&connection, advance.as_ref(), advances.parameters()),
        connection.batch_execute("commit"),
    );
    let (begun, inserted, moved, committed) = within(ANSWER_TIME_MAX, Phase::Commit, work).await?;
    let mut refused = None;
    // What the server refused before the commit was not committed. What was lost on the way may be.
    let mut told = |error: tokio_postgres::Error| {
        let phase = if error.code().is_some() { Phase::BeforeCommit } else { Phase::Commit };
        refused.get_or_insert(failure::statement(&error, phase));
    };
    begun.unwrap_or_else(&mut told);
    let inserted = inserted.map_err(&mut told).unwrap_or_default();
    let moved = moved.map_err(&mut told).unwrap_or_default();
    if let Some(error) = refused {
        // A server that answered, in order, has ended the transaction with the commit.
        if error.sqlstate().is_some() && committed.is_ok() {
            connection.release();
        }
        return Err(error);
    }
    committed.map_err(|error| failure::statement(&error, Phase::Commit))?;
    let mut enqueued = enqueues.enqueued(&connection, &inserted).await?.into_iter();
    let mut advanced = advances.moved(&connection, entries, &moved).await?.into_iter();
    connection.release();
    let answers = entries.iter().map(|entry| match &entry.what {
        What::Enqueue(_) => enqueued.next().map(|one| one.map(Written::Enqueued)),
        What::Advance(_) => advanced.next().map(|one| one.map(Written::Moved)),
    });
    answers.map(|answer| answer.ok_or_else(failure::missing)).collect()
}

async fn ready(
    connection: &Connection,
    sql: &'static Sql,
    not_needed: bool,
) -> Result<Option<Ready>, StoreError> {
    if not_needed {
        return Ok(None);
    }
    connection.ready(sql).await.map(Some)
}

/// Runs a statement that the group has a use for.
async fn run(
    connection: &Connection,
    ready: Option<&Ready>,
    parameters: Vec<Cell<'_>>,
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    match ready {
        Some(ready) => connection.run(ready, &parameters).await,
        None => Ok(Vec::new()),
    }
}

/// The enqueues of a group.
#[derive(Default)]
struct Enqueues<'a> {
    entries: Vec<&'a Command>,
    commands: CommandArrays<'a>,
    deliveries: Arrays<Span>,
}

impl<'a> Enqueues<'a> {
    fn push(&mut self, command: &'a Command, delivery: &Delivery) {
        self.entries.push(command);
        self.commands.push(command);
        self.deliveries.push(DeliveryRow::of(delivery));
    }

    fn parameters(&self) -> Vec<Cell<'_>> {
        let mut parameters: Vec<Cell<'_>> = self.commands.all().to_vec();
        parameters.extend(self.deliveries.all());
        parameters
    }

    async fn enqueued(
        &self,
        connection: &Connection,
        rows: &[tokio_postgres::Row],
    ) -> Result<Results<Enqueued>, StoreError> {
        let mut inserted = Vec::with_capacity(rows.len());
        for row in rows {
            inserted.push((get::<String>(row, 0)?, super::cells::id(row, 1)?));
        }
        let answers = self.entries.iter().map(|command| {
            let is_new = inserted
                .iter()
                .any(|(org, id)| org == command.action.org.as_str() && *id == command.id);
            async move {
                if is_new {
                    return Ok(Enqueued::New);
                }
                enqueue::found(connection, command).await
            }
        });
        Ok(join_all(answers).await)
    }
}

/// The moves of a group.
#[derive(Default)]
pub(super) struct Advances<'a> {
    places: usize,
    orgs: Vec<&'a str>,
    ids: Vec<Vec<u8>>,
    fences: Vec<i64>,
    holders: Vec<Vec<u8>>,
    revisions: Vec<i64>,
    finishes: Vec<bool>,
    next: Arrays<Moment>,
    kinds: Vec<Option<&'a str>>,
    numbers: Vec<Option<i32>>,
    note_fences: Vec<Option<i64>>,
    begans: Vec<Option<Moment>>,
    came_to: Vec<Option<&'a str>>,
    statuses: Vec<Option<i16>>,
}

impl<'a> Advances<'a> {
    pub(super) fn push(&mut self, advance: &'a Advance) {
        let Advance { org, id, seen, next, note } = advance;
        self.push_parts(org, *id, seen, next, note.as_ref());
    }

    pub(super) fn push_parts(
        &mut self,
        org: &'a Org,
        id: CommandId,
        seen: &Delivery,
        next: &Delivery,
        note: Option<&'a AttemptNote>,
    ) {
        self.places = self.places.saturating_add(1);
        self.orgs.push(org.as_str());
        self.ids.push(id.bytes().to_vec());
        self.fences.push(signed(seen.fence.number()));
        self.holders.push(seen.holder.bytes().to_vec());
        self.revisions.push(signed(seen.revision));
        self.finishes.push(next.is_finished());
        self.next.push(DeliveryRow::of(next));
        self.kinds.push(note.map(|note| note.kind.as_str()));
        self.numbers.push(note.map(|note| count(note.number)));
        self.note_fences.push(note.map(|note| signed(note.fence.number())));
        self.begans.push(note.map(|note| Moment(note.began.micros())));
        self.came_to.push(note.map(|note| note.came_to.as_str()));
        self.statuses.push(note.and_then(|note| i16::try_from(note.status?).ok()));
    }

    pub(super) fn parameters(&self) -> Vec<Cell<'_>> {
        let mut parameters: Vec<Cell<'_>> = vec![
            &self.orgs,
            &self.ids,
            &self.fences,
            &self.holders,
            &self.revisions,
            &self.finishes,
        ];
        parameters.extend(self.next.all());
        let note: [Cell<'_>; 6] = [
            &self.kinds,
            &self.numbers,
            &self.note_fences,
            &self.begans,
            &self.came_to,
            &self.statuses,
        ];
        parameters.extend(note);
        parameters
    }

    /// Which of them were written.
    pub(super) fn written(&self, rows: &[tokio_postgres::Row]) -> Result<Vec<bool>, StoreError> {
        let mut written = vec![false; self.places];
        for row in rows {
            // The database counts from 1.
            let place: i64 = get(row, 0)?;
            let place = usize::try_from(place.saturating_sub(1)).map_err(|_| failure::missing())?;
            *written.get_mut(place).ok_or_else(failure::missing)? = true;
        }
        Ok(written)
    }

    async fn moved(
        &self,
        connection: &Connection,
        entries: &[Write],
        rows: &[tokio_postgres::Row],
    ) -> Result<Results<Moved>, StoreError> {
        let advances = entries.iter().filter_map(|entry| match &entry.what {
            What::Advance(advance) => Some(advance),
            What::Enqueue(_) => None,
        });
        let answers = advances.zip(self.written(rows)?).map(|(advance, written)| async move {
            if written {
                return Ok(Moved::Written);
            }
            reads::stands(connection, &advance.org, advance.id).await
        });
        Ok(join_all(answers).await)
    }
}

/// A move that is written together with the account of a person's decision.
pub(super) async fn decided(
    core: &Core,
    advance: &Advance,
    decided: &crate::Decided,
) -> Result<Moved, StoreError> {
    let connection = core.connection().await?;
    let mut advances = Advances::default();
    advances.push(advance);
    let ready = connection.ready(&sql::ADVANCE_GROUP).await?;
    let account = connection.ready(&sql::COMMAND_DECISION_INSERT).await?;
    let begin = begin(core, LOCK_WAIT);
    let parameters = advances.parameters();
    let work = join(connection.batch_execute(&begin), connection.run(&ready, &parameters));
    let limit = ANSWER_TIME_MAX.saturating_add(LOCK_WAIT);
    let (begun, rows) = within(limit, Phase::BeforeCommit, work).await?;
    let rows = match begun.and(rows) {
        Ok(rows) => rows,
        Err(error) => {
            connection.roll_back().await;
            return Err(failure::statement(&error, Phase::BeforeCommit));
        }
    };
    if rows.is_empty() {
        let stands = reads::stands(&connection, &advance.org, advance.id).await?;
        connection.roll_back().await;
        return Ok(stands);
    }
    let (org, id) = (advance.org.as_str(), advance.id.bytes().to_vec());
    let seen_fence = signed(decided.seen.number());
    let parameters: [Cell<'_>; 7] = [
        &org,
        &id,
        &seen_fence,
        &decided.decision,
        &decided.person,
        &decided.note,
        &decided.evidence,
    ];
    let work = join(connection.run(&account, &parameters), connection.batch_execute("commit"));
    let (inserted, committed) = within(ANSWER_TIME_MAX, Phase::Commit, work).await?;
    inserted.map_err(|error| {
        let phase = if error.code().is_some() { Phase::BeforeCommit } else { Phase::Commit };
        failure::statement(&error, phase)
    })?;
    committed.map_err(|error| failure::statement(&error, Phase::Commit))?;
    connection.release();
    Ok(Moved::Written)
}
