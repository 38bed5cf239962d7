//! Recovery: finds claims that ended without an answer, asks the counterparty, and settles them, frees
//! them, or hands them to a person.
//!
//! It takes a key over by its fence, so that several workers on one database share the work and no
//! owner of before can write any more. Nothing here runs a command again, and nothing here is on the
//! way of a request: a counterparty that hangs keeps its own questions waiting, and no one else's.
//!
//! Read next: `recover/turn.rs`.

mod turn;

use crate::body::BoxError;
use crate::engine::Shared;
use crate::external::{External, StoredRequest};
use crate::signal::Signal;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use samekey_core::key::{Key, Org, Scope};
use samekey_core::time::Time;
use samekey_store::{Ledger, OutboundKey, StoreError};
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How often the open records are counted for the metrics. Counting reads them all, so it is not done for
/// every pass.
const COUNT_EVERY: Duration = Duration::from_secs(60);
/// The states of open records, as the gauge `samekey_open_records` names them.
const OPEN_STATES: [&str; 3] = ["running", "unknown", "review"];
/// How many organisations one page of the scan holds.
const ORGS_PAGE: u32 = 100;

/// Asks a counterparty what became of a command. The application gives one, which is about a page of
/// code; it may be called from several tasks at once, and again for the same command.
///
/// It must not make the command happen, with one exception: where the policy declares that the
/// counterparty deduplicates, sending the same request under the same outbound key *is* the question.
/// What it cannot be sure of is [`Finding::CannotTell`]; so are its errors, its panics, and whatever
/// takes longer than [`RecoveryPlan::ask_time_max`].
pub trait Ask: Send + Sync + 'static {
    /// Asks about one command.
    fn ask(&self, question: Question) -> impl Future<Output = Result<Finding, BoxError>> + Send;
}

/// What is asked about. `Debug` shows nothing of it: a key is somebody's.
#[derive(Clone)]
pub struct Question {
    /// Whose command it is.
    pub org: Org,
    /// The caller's key.
    pub key: Key,
    /// The key under which the counterparty knows the command.
    pub outbound_key: OutboundKey,
    /// The request as it was claimed, so that amount, currency and reference can be compared. None only
    /// where the key was claimed while the route's policy still said that its counterparty is opaque:
    /// then nothing is kept to compare with, and the finding should be [`Finding::CannotTell`].
    pub request: Option<StoredRequest>,
    /// How often it was asked, this time included; 1 is the first.
    pub number: u32,
    /// Since when the outcome is unknown, by the database's clock.
    pub unknown_since: Time,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What the counterparty said.
#[derive(Clone)]
pub enum Finding {
    /// It executed the command, with the amount, currency and reference that were asked for.
    Executed(Found),
    /// It refused the command for good.
    Refused(Found),
    /// It does not know of the command. Proof only after `not_found_after`, and twice; without a
    /// `not_found_after` it leads to a person.
    NotFound,
    /// It is still at work.
    Pending,
    /// It could not be asked, or its answer could not be understood.
    CannotTell,
    /// It executed something under this key, but with another amount, currency or reference: a
    /// person decides.
    Different,
}

/// What the caller gets for a command that was found.
#[derive(Clone)]
pub enum Found {
    /// This answer, as if it had come in time.
    Answer(http::Response<Bytes>),
    /// Only that it is done: its status, and where the resource is. The caller is told to read it.
    Fact {
        /// The status that the first answer would have had, a 2xx, 3xx or final 4xx.
        status: http::StatusCode,
        /// The value of its `Location`.
        location: Option<String>,
    },
}

impl fmt::Debug for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Finding::Executed(_) => "Executed",
            Finding::Refused(_) => "Refused",
            Finding::NotFound => "NotFound",
            Finding::Pending => "Pending",
            Finding::CannotTell => "CannotTell",
            Finding::Different => "Different",
        })
    }
}

type Asked<'a> = Pin<Box<dyn Future<Output = Result<Finding, BoxError>> + Send + 'a>>;

trait AskBoxed: Send + Sync {
    fn ask_boxed(&self, question: Question) -> Asked<'_>;
}

impl<A: Ask> AskBoxed for A {
    fn ask_boxed(&self, question: Question) -> Asked<'_> {
        // Called in the future, so that a panic before its first await is caught as well.
        Box::pin(async move { self.ask(question).await })
    }
}

/// Who is asked on a route.
#[derive(Clone)]
pub(crate) struct Asking(Arc<dyn AskBoxed>);

impl Asking {
    pub(crate) fn new(ask: impl Ask) -> Asking {
        Asking(Arc::new(ask))
    }
}

/// How a recovery works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryPlan {
    /// How long it rests when nothing is due.
    pub every: Duration,
    /// How long it rests after every [`RecoveryPlan::PAGE`] keys, so that commands come first: a hundred
    /// thousand open keys after an outage are asked about bit by bit.
    pub between: Duration,
    /// How many questions of the route are on their way at once.
    pub at_once: usize,
    /// How long a question may take. Whatever is longer than a third of the route's lease is cut to
    /// that, so that the answer is heard within the asker's turn.
    pub ask_time_max: Duration,
}

impl RecoveryPlan {
    /// How many keys of one organisation are looked at before the next one has its turn, so that one
    /// with a hundred thousand of them keeps nobody waiting.
    pub const PAGE: u32 = 32;
}

impl Default for RecoveryPlan {
    /// Every second, a quarter of a second between pages, eight questions at once, ten seconds each: up
    /// to about a hundred questions a second and worker.
    fn default() -> RecoveryPlan {
        RecoveryPlan {
            every: Duration::from_secs(1),
            between: Duration::from_millis(250),
            at_once: 8,
            ask_time_max: Duration::from_secs(10),
        }
    }
}

/// What one pass of a recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryPass {
    /// Keys that were looked at.
    pub looked_at: u64,
    /// Questions that were asked.
    pub asked: u64,
    /// Keys that have their answer now.
    pub settled: u64,
    /// Keys that are free now, because nothing ran.
    pub freed: u64,
    /// Keys that wait for a person now.
    pub handed_over: u64,
    /// Keys at which the store failed; they are as due as before.
    pub failed: u64,
}

/// A recovery at work. It ends when this is dropped: a question on its way is given up, and is asked
/// again when its turn is over.
///
/// It finds the claims of its route that ended without an answer, asks about them, and settles them, frees
/// them, or hands them to a person. It takes a key over by its fence, so that several on one database share
/// the work and no owner of before can write any more. It never runs a command again; to a counterparty
/// that was declared to deduplicate, the question may be the same request. It is not on the way of a
/// request: a counterparty that hangs keeps its own questions waiting, and no one else's.
///
/// Without one, the keys of crashed owners wait until somebody sends them again, nobody is asked, and a
/// running service does not see that its database was restored. Opaque routes need one too.
#[derive(Debug)]
pub struct Recovery(JoinHandle<()>);

impl Drop for Recovery {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<S: Ledger> External<S> {
    /// Starts recovering this route's claims in the background. Several of them on one database, in one
    /// process or in many, share the work.
    #[must_use = "the recovery ends when this is dropped"]
    pub fn spawn_recovery(&self, plan: RecoveryPlan) -> Recovery {
        let external = self.clone();
        Recovery(tokio::spawn(async move {
            let mut counted: Option<Instant> = None;
            loop {
                if counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY) {
                    external.count_open().await;
                    counted = Some(Instant::now());
                }
                // An error is in the log and the metrics already; the next pass tries again.
                let passed = AssertUnwindSafe(external.recover(plan)).catch_unwind().await;
                if passed.is_err() {
                    external.shared().signals.emit(external.route(), Signal::Panicked);
                }
                // A store that fails at every key is not asked again at once: what is due stays due.
                let busy =
                    passed.is_ok_and(|pass| pass.is_ok_and(|pass| pass.looked_at > pass.failed));
                if !busy {
                    tokio::time::sleep(plan.every).await;
                }
            }
        }))
    }

    /// Publishes how many records of this route are open, as the gauge `samekey_open_records` by route
    /// and state.
    async fn count_open(&self) {
        let route = self.route().name();
        match self.shared().store.count_open().await {
            Ok(counts) => {
                for state in OPEN_STATES {
                    let mine = counts.iter().find(|it| it.route == route && it.state == state);
                    let count = mine.map_or(0, |it| u32::try_from(it.count).unwrap_or(u32::MAX));
                    metrics::gauge!("samekey_open_records", "route" => route.to_owned(), "state" => state)
                        .set(f64::from(count));
                }
            }
            Err(error) => {
                self.shared().signals.emit(self.route(), Signal::StoreFailed(error.kind()));
            }
        }
    }

    /// Looks at everything that is due once, and says what came of it.
    ///
    /// # Errors
    /// What the store fails with while it is scanned; failures at single keys are signalled, and their
    /// turns come again.
    pub async fn recover(&self, plan: RecoveryPlan) -> Result<RecoveryPass, StoreError> {
        let scanned = self.scan(plan).await;
        if let Err(error) = &scanned {
            let signal = Signal::StoreFailed(error.kind());
            self.shared().signals.emit(self.route(), signal);
        }
        scanned
    }

    async fn scan(&self, plan: RecoveryPlan) -> Result<RecoveryPass, StoreError> {
        self.look_for_restore().await?;
        let shared: &Arc<Shared<S>> = self.shared();
        let mut pass = RecoveryPass::default();
        let mut after: Option<Org> = None;
        let mut rested_at = 0;
        loop {
            let route = self.route().name();
            let orgs = shared.store.orgs_with_open(route, after.as_ref(), ORGS_PAGE).await?;
            let Some(last) = orgs.last().cloned() else { return Ok(pass) };
            for org in orgs {
                let mut keys = shared.store.due(route, &org, RecoveryPlan::PAGE).await?;
                shuffle(&mut keys);
                let turns = futures_util::stream::iter(keys.into_iter().map(|key| {
                    let scope = Scope { org: org.clone(), key };
                    turn::turn(self, scope, plan)
                }));
                let mut turns = turns.buffer_unordered(plan.at_once.max(1));
                while let Some(ended) = turns.next().await {
                    pass.count(ended);
                }
                if pass.looked_at - rested_at >= u64::from(RecoveryPlan::PAGE) {
                    rested_at = pass.looked_at;
                    tokio::time::sleep(plan.between).await;
                }
            }
            after = Some(last);
        }
    }
}

impl RecoveryPass {
    fn count(&mut self, ended: turn::Turn) {
        self.looked_at += 1;
        self.asked += u64::from(ended.asked);
        self.failed += u64::from(ended.failed);
        match ended.end {
            turn::End::Settled => self.settled += 1,
            turn::End::Freed => self.freed += 1,
            turn::End::HandedOver => self.handed_over += 1,
            turn::End::Open => {}
        }
    }
}

/// Another order for every worker: those that find the same page begin at different ends of it.
fn shuffle(keys: &mut [Key]) {
    let random = RandomState::new();
    keys.sort_by_cached_key(|key| random.hash_one(key));
}
