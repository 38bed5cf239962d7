//! A counterparty by the book of a test, and a courier before it.

use bytes::Bytes;
use samekey_client::command::NewCommand;
use samekey_client::core::backoff::Backoff;
use samekey_client::core::delivery::{Delivery, Reason};
use samekey_client::core::key::Org;
use samekey_client::core::outcome::{Heard, NotRun, Outcome, Told};
use samekey_client::core::profile::{Answers, Declared, Limits};
use samekey_client::core::receipt::{Answer, Receipt};
use samekey_client::store::memory::MemoryLedger;
use samekey_client::store::outbox::{CommandId, Outbox};
use samekey_client::{Counterparty, Courier, Destination, Order, Question, Reply, Setup, Signal};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Everything here is a hundred times quicker than in earnest.
pub fn limits() -> Limits {
    Limits {
        attempt_time_max: Duration::from_millis(300),
        backoff: Backoff { base: Duration::from_millis(10), cap: Duration::from_millis(400) },
        attempts_max: 24,
        time_max: Duration::from_secs(20),
        lease: Duration::from_millis(500),
        questions_max: 20,
        questions: Backoff { base: Duration::from_millis(20), cap: Duration::from_millis(200) },
    }
}

pub const OPAQUE: Declared = Declared::OPAQUE;
pub const DEDUPS: Declared = Declared { dedups: Some(Duration::from_secs(3600)), answers: None };
pub const ANSWERS: Declared = Declared {
    dedups: None,
    answers: Some(Answers {
        not_found_after: Some(Duration::from_millis(600)),
        by_reference: true,
    }),
};

/// What happens to one attempt.
#[derive(Clone, Debug)]
pub enum Act {
    /// It is executed, and answered.
    Works,
    /// It is executed, and the answer is lost.
    AnswerLost,
    /// Not executed, and this is said of it.
    Says(Told<Outcome>),
    /// It is executed after so long, and answered.
    Slow(Duration),
    /// Its code panics before it does anything.
    Panics,
    /// Executed, and nothing ever comes back.
    Hangs,
}

/// One request, as the counterparty saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub reference: String,
    pub key: String,
    pub body: Bytes,
    pub is_question: bool,
}

type Book = Box<dyn FnMut(&Order) -> Act + Send>;
type Answering = Box<dyn FnMut(&Question) -> Option<Told<Heard>> + Send>;

struct Inner {
    declared: Declared,
    book: Mutex<Book>,
    answering: Mutex<Answering>,
    seen: Mutex<Vec<Seen>>,
    /// Executions by key.
    effects: Mutex<HashMap<String, u32>>,
}

/// A counterparty that acts by the book.
#[derive(Clone)]
pub struct World(Arc<Inner>);

impl World {
    pub fn new(declared: Declared, book: impl FnMut(&Order) -> Act + Send + 'static) -> World {
        World(Arc::new(Inner {
            declared,
            book: Mutex::new(Box::new(book)),
            answering: Mutex::new(Box::new(|_| None)),
            seen: Mutex::default(),
            effects: Mutex::default(),
        }))
    }

    /// Answers questions by this instead of by what was executed; where it gives nothing, by that.
    pub fn answering(
        self,
        answering: impl FnMut(&Question) -> Option<Told<Heard>> + Send + 'static,
    ) -> World {
        *self.0.answering.lock().unwrap() = Box::new(answering);
        self
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.0.seen.lock().unwrap().clone()
    }

    pub fn sends(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| !seen.is_question).collect()
    }

    pub fn effects(&self) -> u32 {
        self.0.effects.lock().unwrap().values().sum()
    }

    pub fn effects_of(&self, key: &str) -> u32 {
        self.0.effects.lock().unwrap().get(key).copied().unwrap_or(0)
    }

    fn execute(&self, key: &str) {
        let mut effects = self.0.effects.lock().unwrap();
        let count = effects.entry(key.to_owned()).or_insert(0);
        if self.0.declared.dedups.is_none() || *count == 0 {
            *count += 1;
        }
    }

    fn note(&self, command: &samekey_client::store::outbox::Command, is_question: bool) {
        self.0.seen.lock().unwrap().push(Seen {
            at: Instant::now(),
            reference: command.action.business_ref.clone(),
            key: command.key.to_string(),
            body: command.request.clone(),
            is_question,
        });
    }
}

pub fn receipt() -> Receipt {
    Receipt::Kept(Answer { status: 201, headers: Vec::new(), body: Bytes::from_static(b"paid") })
}

pub fn says(outcome: Outcome) -> Act {
    Act::Says(Told::plain(outcome))
}

pub fn down() -> Act {
    says(Outcome::NotRun(NotRun::NotSent))
}

impl Counterparty for World {
    fn declared(&self) -> Declared {
        self.0.declared
    }

    async fn send(&self, order: Order) -> Reply<Outcome> {
        let act = (self.0.book.lock().unwrap())(&order);
        if matches!(act, Act::Panics) {
            panic!("the code of a counterparty");
        }
        self.note(&order.command, false);
        let key = order.command.key.to_string();
        let told = match act {
            Act::Works => {
                self.execute(&key);
                Told::plain(Outcome::Done(receipt()))
            }
            Act::AnswerLost => {
                self.execute(&key);
                Told::plain(Outcome::Unknown(Reason::ConnectionLost))
            }
            Act::Slow(by) => {
                tokio::time::sleep(by).await;
                self.execute(&key);
                Told::plain(Outcome::Done(receipt()))
            }
            Act::Hangs => {
                self.execute(&key);
                std::future::pending().await
            }
            Act::Says(told) => told,
            Act::Panics => unreachable!("it has panicked"),
        };
        Reply { told, status: None }
    }

    async fn ask(&self, question: Question) -> Reply<Heard> {
        self.note(&question.command, true);
        let told = (self.0.answering.lock().unwrap())(&question);
        let told =
            told.unwrap_or_else(|| match self.effects_of(&question.command.key.to_string()) {
                0 => Told::plain(Heard::NotFound),
                _ => Told::plain(Heard::Executed(receipt())),
            });
        Reply { told, status: None }
    }
}

pub fn org() -> Org {
    Org::new("org-1").unwrap()
}

pub fn command(destination: &str, reference: &str) -> NewCommand {
    NewCommand {
        org: org(),
        destination: destination.to_owned(),
        operation: "charge".to_owned(),
        business_ref: reference.to_owned(),
        order_key: None,
        request: Bytes::from(format!("pay {reference}")),
        delay: Duration::ZERO,
    }
}

/// What was signalled.
#[derive(Clone, Default)]
pub struct Heeded(Arc<Mutex<Vec<Signal>>>);

impl Heeded {
    pub fn has(&self, signal: Signal) -> bool {
        self.0.lock().unwrap().contains(&signal)
    }

    pub fn count(&self, signal: Signal) -> usize {
        self.0.lock().unwrap().iter().filter(|heard| **heard == signal).count()
    }

    pub fn failures_of_the_store(&self) -> usize {
        let all = self.0.lock().unwrap();
        all.iter().filter(|heard| matches!(heard, Signal::StoreFailed(_))).count()
    }

    pub fn listener(&self) -> samekey_client::signal::Listener {
        let all = self.0.clone();
        Arc::new(move |_: &str, signal| all.lock().unwrap().push(signal))
    }
}

/// A courier to one destination `psp`, on a store of its own.
pub async fn courier(world: &World, limits: Limits) -> (Courier<MemoryLedger>, Heeded) {
    courier_on(Arc::new(MemoryLedger::new()), world, limits).await
}

pub async fn courier_on(
    store: Arc<MemoryLedger>,
    world: &World,
    limits: Limits,
) -> (Courier<MemoryLedger>, Heeded) {
    let heeded = Heeded::default();
    let destination = Destination::with_limits("psp", world.clone(), limits).unwrap();
    let setup = Setup::new("test").unwrap().destination(destination).listener(heeded.listener());
    (Courier::open(store, setup).await.unwrap(), heeded)
}

/// Waits until a command is as wanted, for half a minute at the longest.
pub async fn until<S: Outbox + samekey_client::store::Ledger>(
    courier: &Courier<S>,
    id: CommandId,
    wanted: impl Fn(&Delivery) -> bool,
) -> Delivery {
    let ends = Instant::now() + Duration::from_secs(30);
    loop {
        let delivery = courier.delivery(&org(), id).await.unwrap().unwrap();
        if wanted(&delivery) {
            return delivery;
        }
        assert!(Instant::now() < ends, "it never came to be: {delivery:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn ended<S: Outbox + samekey_client::store::Ledger>(
    courier: &Courier<S>,
    id: CommandId,
) -> Delivery {
    until(courier, id, |delivery| !delivery.is_open()).await
}
