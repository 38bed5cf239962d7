//! A group of claims and settlements: one transaction that is sent in one go. It begins with a short
//! lock timeout, has one statement over arrays for its offers and one for its changes, and commits.
//!
//! Both kinds share a group because what a group costs is above all its wait for the disk. Offers go
//! before changes, each in the order of their keys, so that two groups never wait for each other.

use super::cells::{self, Cell};
use super::claims::Claims;
use super::connection::{ANSWER_TIME_MAX, Connection, Ready, within};
use super::failure::{self, Phase};
use super::group::{Batch, Results};
use super::sql::Sql;
use super::swaps::Swaps;
use super::{Core, answers, sql};
use crate::error::StoreError;
use crate::{Arrived, Intent, Seen, Swap};
use futures_util::future::{join, join_all, join5};
use samekey_core::key::Scope;
use samekey_core::record::Record;
use std::sync::Arc;

/// What a group asks for behind its begin. Its plan is made once and kept: for arrays the server would else plan anew
/// every time, which costs about as much as a group of thirty. It may be made while the table is still
/// empty; so it is held to the index from the start, whatever the server thinks of the table then. The lock
/// timeout is long enough for another group's commit, and short enough that one open atomic key
/// delays the others by next to nothing.
const SETTINGS: &str = "; \
                     set local lock_timeout = '25ms'; \
                     set local plan_cache_mode = force_generic_plan; \
                     set local enable_seqscan = off; \
                     set local enable_mergejoin = off";

/// Goes before the changes, which are joined with the keys' table: no whole table is hashed for them.
/// Offers are joined with what was inserted of them, and there a hash is what keeps a group's cost in
/// proportion to its size.
const BEFORE_CHANGES: &str = "set local enable_hashjoin = off";

/// The writes of one ledger.
pub(super) struct Writes(pub(super) Arc<Core>);

/// What a caller wants written.
pub(super) enum Write {
    /// Inserts or loads.
    Offer(Offer),
    /// Compares and sets.
    Change(Change),
}

/// What came of it.
pub(super) enum Written {
    /// Of an offer.
    Arrived(Arrived),
    /// Of a change.
    Swapped(Swap),
}

pub(super) struct Offer {
    pub(super) scope: Scope,
    pub(super) record: Record,
    pub(super) intent: Intent,
}

pub(super) struct Change {
    pub(super) scope: Scope,
    pub(super) seen: Record,
    pub(super) next: Record,
}

impl Batch for Writes {
    type Entry = Write;
    type Answer = Written;

    fn scope(entry: &Write) -> &Scope {
        match entry {
            Write::Offer(offer) => &offer.scope,
            Write::Change(change) => &change.scope,
        }
    }

    async fn together(&self, entries: &[Write]) -> Result<Results<Written>, StoreError> {
        let connection = self.0.connection().await?;
        let (mut offers, mut changes) = (Vec::new(), Vec::new());
        for entry in entries {
            match entry {
                Write::Offer(offer) => offers.push(offer),
                Write::Change(change) => changes.push(change),
            }
        }
        let claims = Claims::of(&offers);
        let swaps = Swaps::of(&changes, &self.0.days);
        let begin = format!("{}{SETTINGS}", self.0.phrases.begin_durably);
        let (inserted, swapped) = commit(&connection, &begin, &claims, &swaps).await?;
        let mut arrived = claims.arrived(&connection, &inserted).await?.into_iter();
        let mut swapped = swaps.swapped(&connection, &swapped).await?.into_iter();
        connection.release();
        let answers = entries.iter().map(|entry| match entry {
            Write::Offer(_) => arrived.next().map(|one| one.map(Written::Arrived)),
            Write::Change(_) => swapped.next().map(|one| one.map(Written::Swapped)),
        });
        answers.map(|answer| answer.ok_or_else(failure::missing)).collect()
    }
}

/// What the server said to a statement.
type Ran = Result<Vec<tokio_postgres::Row>, tokio_postgres::Error>;

/// Sends begin, the statements, what has to go with them, and commit in one go.
async fn commit(
    connection: &Connection,
    begin: &str,
    claims: &Claims<'_>,
    swaps: &Swaps<'_>,
) -> Result<(Vec<tokio_postgres::Row>, Vec<tokio_postgres::Row>), StoreError> {
    let claim = ready(connection, claims.statement()).await?;
    let swap = ready(connection, swaps.statement()).await?;
    let outdated = swaps.outdated().iter();
    let removals = outdated.map(|(scope, day)| answers::remove(connection, scope, *day));
    // First polled in this order, they are sent in this order.
    let work = join5(
        connection.batch_execute(begin),
        run(connection, claim.as_ref(), claims.parameters()),
        join(
            set(connection, swap.as_ref().map(|_| BEFORE_CHANGES)),
            run(connection, swap.as_ref(), swaps.parameters()),
        ),
        join_all(removals),
        connection.batch_execute("commit"),
    );
    let (begun, claimed, (prepared, swapped), removed, committed) =
        within(ANSWER_TIME_MAX, Phase::Commit, work).await?;
    // What the server refused before the commit was not committed. What was lost on the way may be.
    let refused = |error: tokio_postgres::Error| {
        let phase = if error.code().is_some() { Phase::BeforeCommit } else { Phase::Commit };
        failure::statement(&error, phase)
    };
    begun.map_err(refused)?;
    let claimed = claimed.map_err(refused)?;
    prepared.map_err(refused)?;
    let swapped = swapped.map_err(refused)?;
    for removed in removed {
        removed.map_err(refused)?;
    }
    committed.map_err(|error| failure::statement(&error, Phase::Commit))?;
    Ok((claimed, swapped))
}

/// Tells the server something, where there is something to tell.
async fn set(connection: &Connection, words: Option<&str>) -> Result<(), tokio_postgres::Error> {
    match words {
        Some(words) => connection.batch_execute(words).await,
        None => Ok(()),
    }
}

/// Runs a statement that the group has a use for.
async fn run(connection: &Connection, ready: Option<&Ready>, parameters: Vec<Cell<'_>>) -> Ran {
    match ready {
        Some(ready) => connection.run(ready, &parameters).await,
        None => Ok(Vec::new()),
    }
}

async fn ready(
    connection: &Connection,
    sql: Option<&'static Sql>,
) -> Result<Option<Ready>, StoreError> {
    match sql {
        Some(sql) => connection.ready(sql).await.map(Some),
        None => Ok(None),
    }
}

/// Loads a key's row as it stands now.
pub(super) async fn load(connection: &Connection, scope: &Scope) -> Result<Seen, StoreError> {
    for _ in 0..answers::FETCHES_MAX {
        let rows = connection.read(&sql::LOAD, &[&scope.org.as_str(), &scope.key.as_str()]).await?;
        let row = rows.first().ok_or_else(failure::missing)?;
        if let Some(seen) = answers::complete(connection, scope, cells::found(row, 0)?).await? {
            return Ok(seen);
        }
    }
    Err(answers::gone())
}

/// The scopes of a statement's entries.
pub(super) struct Scopes<'a> {
    pub(super) orgs: Vec<&'a str>,
    pub(super) keys: Vec<&'a str>,
}

impl<'a> Scopes<'a> {
    /// The place of the entry that a result row, which begins with its scope, belongs to. Groups are
    /// sorted by scope and have every scope once.
    pub(super) fn place(&self, row: &tokio_postgres::Row) -> Result<usize, StoreError> {
        let org: &str = row.try_get(0).map_err(|_| failure::column())?;
        let key: &str = row.try_get(1).map_err(|_| failure::column())?;
        let first = self.orgs.partition_point(|one| *one < org);
        let end = self.orgs.partition_point(|one| *one <= org);
        let keys = self.keys.get(first..end).unwrap_or_default();
        let place = keys.binary_search(&key).map_err(|_| failure::missing())?;
        Ok(first.saturating_add(place))
    }

    pub(super) fn of(scopes: impl Iterator<Item = &'a Scope>) -> Scopes<'a> {
        let (orgs, keys) = scopes.map(|scope| (scope.org.as_str(), scope.key.as_str())).unzip();
        Scopes { orgs, keys }
    }
}
