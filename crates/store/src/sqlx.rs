//! Atomic commands on PostgreSQL by sqlx: the caller's transaction that holds its key.
//!
//! The SQL is that of [`postgres`](crate::atomic), statement by statement; only the driver differs,
//! so a service may use both on one database. Statements are not pipelined, which costs round trips.
//! Large answers stand in the rows of their keys.
//!
//! What it does not do: it is no [`Ledger`](crate::Ledger). Keys of external commands, sweeping and
//! migrating go through the PostgreSQL adapter.
//!
//! Read next: `sqlx/session.rs`, for the trap in sqlx's own `begin`.

mod cells;
pub mod outbox;
mod session;
mod value;

use crate::atomic::{AtomicLedger, Begun, Hold, OpenTransaction};
use crate::error::{Kind, StoreError};
use crate::facts::{self, Facts};
use crate::phrases::{BEGINS_MAX, Phrases, READ_ONLY, lock_timeout};
use crate::row::{Row, check_claim, check_offer, check_settlement, check_swap};
use crate::sqlstate::{self, NOT_OURS, Phase, SECOND_ROW};
use crate::{Seen, Swap};
use ::sqlx::{PgConnection, PgPool};
use cells::{Bound, Found};
use samekey_core::key::Scope;
use samekey_core::record::Record;
use samekey_core::time::Time;
use session::{ANSWER_TIME_MAX, Session, within};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use value::{Day, Moment, Span};

pub use crate::facts::Durability;

const LOCK: &str = include_str!("../sql/postgres/lock.sql");
const LOCK_WAIT: &str = include_str!("../sql/postgres/lock_wait.sql");
const LOOK: &str = include_str!("../sql/postgres/look.sql");
const INSERT_OPEN: &str = include_str!("../sql/postgres/insert_open.sql");
const LOAD: &str = include_str!("../sql/postgres/load.sql");
const SWAP: &str = include_str!("../sql/postgres/swap.sql");
const SETTLE: &str = include_str!("../sql/postgres/settle.sql");
const SETTLE_NEW: &str = include_str!("../sql/postgres/settle_new.sql");
const ANSWER_LOAD: &str = include_str!("../sql/postgres/answer_load.sql");
const CLOCK: &str = include_str!("../sql/postgres/clock.sql");
const STILL_OPEN: &str = include_str!("../sql/postgres/still_open.sql");
const SCHEMA_VERSION: &str = include_str!("../sql/postgres/schema_version.sql");
const SERVER_FACTS: &str = include_str!("../sql/postgres/server_facts.sql");

/// How long a transaction that takes a free row waits for another one that holds it.
const RECLAIM_WAIT: Duration = Duration::from_millis(200);

/// Keys of atomic commands in the database behind an sqlx pool. Clones share the pool.
#[derive(Clone)]
pub struct SqlxLedger {
    pool: PgPool,
    phrases: Arc<Phrases>,
}

/// An open transaction of the caller's that holds a key. One that is dropped is rolled back
/// and its connection is closed.
#[must_use = "a transaction that is dropped is rolled back and costs its connection"]
pub struct Open {
    session: Session,
    phrases: Arc<Phrases>,
    started: Time,
    hold: Hold,
}

/// What came of asking for a key.
enum Locked {
    /// It has no row, and nobody else may give it one while this transaction, of that moment, is open.
    New(Time),
    /// It has a row.
    There,
    /// Another transaction holds the key.
    Busy,
}

impl fmt::Debug for SqlxLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqlxLedger")
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Open")
    }
}

impl SqlxLedger {
    /// Opens the ledger, after it has looked whether the promise can be kept in this database.
    ///
    /// # Errors
    /// As `PostgresLedger::open`.
    pub async fn open(pool: PgPool, durability: Durability) -> Result<SqlxLedger, StoreError> {
        let mut session = Session::of(&pool).await?;
        let rows = fetch(&mut session, ::sqlx::query(SERVER_FACTS), Phase::BeforeCommit).await?;
        let row = rows.first().ok_or_else(sqlstate::missing)?;
        let facts = Facts {
            server_version: cells::get(row, 0)?,
            in_recovery: cells::get(row, 1)?,
            fsync: cells::get(row, 2)?,
            full_page_writes: cells::get(row, 3)?,
            synchronous_commit: cells::get(row, 4)?,
            isolation: cells::get(row, 5)?,
            read_only: cells::get(row, 6)?,
            lock_timeout: cells::get(row, 7)?,
            has_schema: cells::get(row, 8)?,
        };
        let mut versions = Vec::new();
        if facts.has_schema {
            let query = ::sqlx::query(SCHEMA_VERSION);
            for row in fetch(&mut session, query, Phase::BeforeCommit).await? {
                versions.push(cells::get(&row, 0)?);
            }
        }
        facts::check(&facts, &versions, durability)?;
        session.release();
        Ok(SqlxLedger { pool, phrases: Arc::new(Phrases::of(&facts, durability)) })
    }

    /// The pool that was handed in.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// One try; nothing where the row that stood in the way is gone.
    async fn begin_once(
        &self,
        scope: &Scope,
        offer: &Record,
        wait: Duration,
    ) -> Result<Option<Begun<Open>>, StoreError> {
        let mut session = Session::of(&self.pool).await?;
        let open = |session, started, hold| Open {
            session,
            phrases: Arc::clone(&self.phrases),
            started,
            hold,
        };
        match locked(&mut session, &self.phrases, scope, wait).await {
            Ok(Locked::New(now)) => {
                let seen = Seen { record: offer.clone().counted_from(now), now };
                let hold = Hold::Offered(offer.clone(), wait);
                return Ok(Some(Begun::Claimed(open(session, now, hold), seen)));
            }
            Ok(Locked::There) => {}
            Ok(Locked::Busy) => {
                session.roll_back().await;
                return Ok(Some(Begun::Busy));
            }
            Err(error) => {
                session.roll_back().await;
                return Err(error);
            }
        }
        match load_once(&mut session, scope).await? {
            Found::Nothing(_) => {
                session.roll_back().await;
                Ok(None)
            }
            found @ Found::Row { .. } => match complete(&mut session, scope, found).await? {
                Some(seen) => Ok(Some(Begun::Found(open(session, seen.now, Hold::None), seen))),
                None => {
                    session.roll_back().await;
                    Ok(None)
                }
            },
        }
    }
}

/// Begins a transaction and locks the key in it. Unless the key is new, or there is a row, the transaction has
/// to be rolled back.
async fn locked(
    session: &mut Session,
    phrases: &Phrases,
    scope: &Scope,
    wait: Duration,
) -> Result<Locked, StoreError> {
    session.batch(phrases.begin.to_owned(), Phase::BeforeCommit).await?;
    let told = fetch(session, keyed(LOCK, scope), Phase::BeforeCommit).await?;
    let told = told.first().ok_or_else(sqlstate::missing)?;
    if cells::get::<&str>(told, 4)? == READ_ONLY {
        return Err(sqlstate::read_only());
    }
    let mut there = fetch(session, keyed(LOOK, scope), Phase::BeforeCommit).await?;
    // A row that is there is there for everybody.
    if there.is_empty() && !cells::get::<bool>(told, 3)? {
        session.batch(lock_timeout(wait), Phase::BeforeCommit).await?;
        let limit = ANSWER_TIME_MAX.saturating_add(wait);
        let waited = keyed(LOCK_WAIT, scope).fetch_all(session.connection());
        if let Err(error) = within(limit, Phase::BeforeCommit, waited).await? {
            let error = session::statement(&error, Phase::BeforeCommit);
            let busy = error.kind() == Kind::LockTimeout;
            return if busy { Ok(Locked::Busy) } else { Err(error) };
        }
        session.batch(phrases.unbound.clone(), Phase::BeforeCommit).await?;
        there = fetch(session, keyed(LOOK, scope), Phase::BeforeCommit).await?;
    }
    if !there.is_empty() {
        return Ok(Locked::There);
    }
    if let Some(words) = phrases.make_durable(cells::get(told, 2)?) {
        session.batch(words, Phase::BeforeCommit).await?;
    }
    Ok(Locked::New(Time::from_micros(cells::get::<Moment>(told, 0)?.0)))
}

/// Begins a transaction that locks no key, and tells its clock.
async fn began(session: &mut Session, phrases: &Phrases) -> Result<Time, StoreError> {
    session.batch(phrases.begin_durably.clone(), Phase::BeforeCommit).await?;
    let rows = fetch(session, ::sqlx::query(CLOCK), Phase::BeforeCommit).await?;
    let now: Moment = cells::get(rows.first().ok_or_else(sqlstate::missing)?, 0)?;
    Ok(Time::from_micros(now.0))
}

impl AtomicLedger for SqlxLedger {
    type Open = Open;

    async fn begin(
        &self,
        scope: &Scope,
        offer: &Record,
        wait: Duration,
    ) -> Result<Begun<Open>, StoreError> {
        check_offer(offer)?;
        for _ in 0..BEGINS_MAX {
            if let Some(begun) = self.begin_once(scope, offer, wait).await? {
                return Ok(begun);
            }
        }
        Err(sqlstate::came_and_went())
    }

    async fn begin_unkeyed(&self) -> Result<Open, StoreError> {
        let mut session = Session::of(&self.pool).await?;
        let started = began(&mut session, &self.phrases).await?;
        Ok(Open { session, phrases: Arc::clone(&self.phrases), started, hold: Hold::None })
    }

    async fn put_in_doubt(
        &self,
        scope: &Scope,
        record: &Record,
        route: &str,
    ) -> Result<bool, StoreError> {
        check_offer(record)?;
        let mut session = Session::of(&self.pool).await?;
        let query = cells::all::<Span>(keyed(INSERT_OPEN, scope), Row::of(record));
        // One statement by itself is a transaction of its own.
        let written = fetch(&mut session, query.bind(route.to_owned()), Phase::Commit).await?;
        session.release();
        Ok(!written.is_empty())
    }

    async fn load_committed(&self, scope: &Scope) -> Result<Seen, StoreError> {
        let mut session = Session::of(&self.pool).await?;
        for _ in 0..BEGINS_MAX {
            let found = load_once(&mut session, scope).await?;
            if let Some(seen) = complete(&mut session, scope, found).await? {
                session.release();
                return Ok(seen);
            }
        }
        Err(sqlstate::came_and_went())
    }
}

impl Open {
    /// The connection that holds the transaction, for a handler. It must not end the transaction.
    pub fn connection(&mut self) -> &mut PgConnection {
        self.session.connection()
    }

    /// Takes a free row by compare-and-set.
    async fn take(
        &mut self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
    ) -> Result<Swap, StoreError> {
        check_swap(seen, next)?;
        self.session.batch(lock_timeout(RECLAIM_WAIT), Phase::BeforeCommit).await?;
        let query = cells::compared(keyed(SWAP, scope), Row::of(seen));
        let query = cells::all::<Moment>(query, Row::of(next)).bind(None::<Day>);
        let rows = fetch(&mut self.session, query, Phase::BeforeCommit).await?;
        self.session.batch(self.phrases.unbound.clone(), Phase::BeforeCommit).await?;
        if !rows.is_empty() {
            return Ok(Swap::Written);
        }
        let found = load_once(&mut self.session, scope).await?;
        let seen = complete(&mut self.session, scope, found).await?;
        seen.map(Swap::Changed).ok_or_else(sqlstate::came_and_went)
    }

    /// Rolls everything back, if the transaction is the one that was begun.
    async fn rolled_back(&mut self) -> Result<(), StoreError> {
        let query = ::sqlx::query(STILL_OPEN).bind(Moment(self.started.micros()));
        let asked = query.fetch_all(self.session.connection());
        let still_open = within(ANSWER_TIME_MAX, Phase::BeforeCommit, asked).await?;
        self.session.batch("rollback".to_owned(), Phase::BeforeCommit).await?;
        let Err(error) = still_open else { return Ok(()) };
        sqlstate::may_roll_back(session::code(&error).as_deref())
            .unwrap_or_else(|| Err(session::statement(&error, Phase::BeforeCommit)))
    }

    /// The last statement of the transaction, and the commit if it succeeded.
    async fn finish(mut self, last: Bound) -> Result<(), StoreError> {
        let work = last.fetch_all(self.session.connection());
        if let Err(error) = within(ANSWER_TIME_MAX, Phase::BeforeCommit, work).await? {
            let code = session::code(&error);
            self.session.roll_back().await;
            return Err(match code.as_deref() {
                Some(NOT_OURS) => sqlstate::claim_lost(NOT_OURS),
                Some(SECOND_ROW) => sqlstate::taken_meanwhile().with_sqlstate(SECOND_ROW),
                Some(_) | None => session::statement(&error, Phase::BeforeCommit),
            });
        }
        let committed = self.session.batch("commit".to_owned(), Phase::Commit).await;
        match committed {
            Ok(()) => self.session.release(),
            Err(error) if error.may_have_committed() => return Err(error),
            Err(error) => {
                self.session.roll_back().await;
                return Err(error);
            }
        }
        Ok(())
    }
}

impl OpenTransaction for Open {
    async fn reclaim(
        &mut self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
    ) -> Result<Swap, StoreError> {
        let swap = self.take(scope, seen, next).await?;
        if matches!(swap, Swap::Written) {
            self.hold = Hold::Taken(seen.clone(), next.clone());
        }
        Ok(swap)
    }

    async fn undo(&mut self, scope: &Scope) -> Result<(), StoreError> {
        // Unless all goes well, it holds nothing any longer.
        let hold = std::mem::replace(&mut self.hold, Hold::None);
        self.rolled_back().await?;
        match &hold {
            Hold::None => {}
            Hold::Offered(_, wait) => {
                match locked(&mut self.session, &self.phrases, scope, *wait).await? {
                    Locked::New(now) => self.started = now,
                    Locked::There | Locked::Busy => return Err(sqlstate::taken_meanwhile()),
                }
            }
            Hold::Taken(seen, next) => {
                self.started = began(&mut self.session, &self.phrases).await?;
                match self.take(scope, seen, next).await? {
                    Swap::Written => {}
                    Swap::Changed(_) => return Err(sqlstate::taken_meanwhile()),
                }
            }
        }
        self.hold = hold;
        Ok(())
    }

    async fn settle(self, scope: &Scope, seen: &Record, next: &Record) -> Result<(), StoreError> {
        check_settlement(seen, next)?;
        let row = Row::of(next);
        let query = match &self.hold {
            Hold::Offered(offer, _) => {
                check_claim(offer, seen)?;
                keyed(SETTLE_NEW, scope).bind(row.fence).bind(row.holder.clone())
            }
            Hold::None | Hold::Taken(..) => cells::compared(keyed(SETTLE, scope), Row::of(seen)),
        };
        let query = query.bind(Moment(self.started.micros()));
        let query = cells::settled(query, row).bind(None::<Day>);
        self.finish(query).await
    }

    async fn commit_unkeyed(self) -> Result<(), StoreError> {
        let query = ::sqlx::query(STILL_OPEN).bind(Moment(self.started.micros()));
        self.finish(query).await
    }

    async fn roll_back(mut self) -> Result<(), StoreError> {
        if matches!(self.hold, Hold::None) {
            self.session.roll_back().await;
            return Ok(());
        }
        let ended = self.rolled_back().await;
        if ended.as_ref().map_or_else(|error| error.kind() == Kind::Ended, |()| true) {
            self.session.release();
        }
        ended
    }
}

fn keyed(text: &'static str, scope: &Scope) -> Bound {
    ::sqlx::query(text).bind(scope.org.as_str().to_owned()).bind(scope.key.as_str().to_owned())
}

async fn fetch(
    session: &mut Session,
    query: Bound,
    phase: Phase,
) -> Result<Vec<::sqlx::postgres::PgRow>, StoreError> {
    within(ANSWER_TIME_MAX, phase, query.fetch_all(session.connection()))
        .await?
        .map_err(|error| session::statement(&error, phase))
}

async fn load_once(session: &mut Session, scope: &Scope) -> Result<Found, StoreError> {
    let rows = fetch(session, keyed(LOAD, scope), Phase::BeforeCommit).await?;
    cells::found(rows.first().ok_or_else(sqlstate::missing)?)
}

/// The record of a row with its body; nothing where the body was removed in between.
async fn complete(
    session: &mut Session,
    scope: &Scope,
    found: Found,
) -> Result<Option<Seen>, StoreError> {
    let (mut row, answer_day, now) = match found {
        Found::Nothing(now) => return Ok(Some(Seen { record: Record::ABSENT, now })),
        Found::Row { row, answer_day, now } => (row, answer_day, now),
    };
    if let Some(day) = answer_day {
        let query = keyed(ANSWER_LOAD, scope).bind(day).persistent(false);
        let rows = fetch(session, query, Phase::BeforeCommit).await?;
        let Some(body) = rows.first() else { return Ok(None) };
        row.answer_body = Some(cells::get(body, 0)?);
    }
    Ok(Some(Seen { record: row.into_record()?, now }))
}
