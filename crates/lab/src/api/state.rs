//! The lab's shared state: book, planner, and what is under way. One lock, held for microseconds.

use crate::error::{Error, Kind};
use crate::faults::{Connections, Course, Delay, Facts, Plan, Planner, Process, QueryAnswer, Wire};
use crate::payments::{
    Answered, Arrived, Book, Command, Counts, Fate, Fields, Op, Refusal, Reply, Target, key_status,
    order_status, payment_status,
};
use serde_json::json;
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Everything that the parts of a running lab share.
pub struct Shared {
    state: Mutex<State>,
    /// Told at every entry, for those who wait for a condition.
    changed: Notify,
    /// Counts releases; what is held waits for the next one.
    releases: watch::Sender<u64>,
    /// What happens to new connections.
    door: watch::Sender<Connections>,
    /// True where management stays reachable behind a shut door.
    has_control: bool,
    /// The end of everything.
    stop: CancellationToken,
    /// What goes on without a connection; waited for at the end.
    tasks: TaskTracker,
}

/// What the lock protects.
pub struct State {
    book: Book,
    planner: Planner,
    /// Keys whose command was begun and is not finished, with how many of them.
    busy: HashMap<String, u32>,
    /// Counts resets: what was begun before one must not be recorded after it.
    epoch: u64,
}

/// A request as the server saw it.
pub struct Seen {
    /// What it asks for.
    pub target: Target,
    /// Its line in the log, with numbers still to be given.
    pub arrived: Box<Arrived>,
    /// Its body, understood or not.
    pub fields: Result<Fields, String>,
    /// Whether it came over HTTP/2.
    pub is_http2: bool,
}

/// What was decided about a request, and done at once.
pub struct Received {
    /// What happens to it.
    pub course: Course,
    /// The true answer, where it is known already.
    pub reply: Option<Reply>,
    /// What is still to be processed.
    pub deferred: Option<Box<Deferred>>,
    /// Its log entry is complete.
    pub is_logged: bool,
    /// Its identity.
    pub request: u64,
    /// Its position among its kind.
    pub number: u64,
    /// The seed of the plan, for made-up bodies.
    pub seed: u64,
    /// When it came in, in milliseconds since 1970.
    pub at_ms: i64,
}

/// A command that will be processed later.
pub struct Deferred {
    command: Command,
    epoch: u64,
    busy_key: Option<String>,
    /// When.
    pub delay: Delay,
    /// The release it waits for, where no time was given.
    pub release: watch::Receiver<u64>,
}

impl Shared {
    /// Shared state over a book.
    pub fn new(book: Book, plan: Plan, has_control: bool) -> Self {
        let door = watch::Sender::new(plan.connections);
        let state = State { book, planner: Planner::new(plan), busy: HashMap::new(), epoch: 0 };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
            releases: watch::Sender::new(0),
            door,
            has_control,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// The end of everything.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// What goes on without a connection.
    pub fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// The state. A panic of another holder is no reason to lose the ledger: every entry is whole.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Told at every entry.
    pub fn changed(&self) -> &Notify {
        &self.changed
    }

    /// What happens to new connections.
    pub fn door(&self) -> &watch::Sender<Connections> {
        &self.door
    }

    /// Waits for the next release.
    pub fn next_release(&self) -> watch::Receiver<u64> {
        self.releases.subscribe()
    }

    /// Lets go of everything that is held.
    pub fn release(&self) {
        self.releases.send_modify(|count| *count += 1);
    }

    /// Puts another plan into force and starts its counting.
    pub fn set_plan(&self, plan: Plan) -> Result<(), Error> {
        if plan.connections.shuts_for_good() && !self.has_control {
            let complaint = "the fault plan: connections.for_ms is missing: without it and without a control address the \
                             API could not be reached again";
            return Err(Error::new(Kind::Plan, complaint));
        }
        self.force_plan(plan)
    }

    /// The same for a caller who needs no connection to undo it.
    pub fn force_plan(&self, plan: Plan) -> Result<(), Error> {
        plan.check()
            .map_err(|complaint| Error::new(Kind::Plan, format!("the fault plan: {complaint}")))?;
        let connections = plan.connections;
        self.lock().planner = Planner::new(plan);
        self.door.send_replace(connections);
        Ok(())
    }

    /// The plan in force and how often each rule was applied.
    pub fn plan(&self) -> (Plan, Vec<u64>) {
        let state = self.lock();
        (state.planner.plan().clone(), state.planner.applied().to_vec())
    }

    /// How much there is.
    pub fn counts(&self) -> Counts {
        self.lock().book.counts()
    }

    /// Forgets everything recorded and starts the plan again.
    pub fn reset(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.epoch += 1;
        state.busy.clear();
        state.planner.reset();
        state.book.reset(now_ms())?;
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Takes in a request: numbers it, decides, logs, and does what is due at once.
    pub fn receive(&self, seen: Seen) -> io::Result<Received> {
        let mut state = self.lock();
        let received = state.receive(seen, &self.releases)?;
        state.book.flush()?;
        drop(state);
        self.changed.notify_waiters();
        Ok(received)
    }

    /// Logs a request that never became whole.
    pub fn receive_torn(&self, mut arrived: Box<Arrived>) -> io::Result<()> {
        let mut state = self.lock();
        let request = state.book.identify();
        arrived.request = request;
        let at_ms = arrived.at_ms;
        state.book.log_arrived(arrived)?;
        state.log_answered(request, 0, false, Fate::CallerGone, at_ms)?;
        state.book.flush()?;
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Processes what was deferred, unless a reset came in between.
    pub fn process(&self, deferred: Box<Deferred>) -> io::Result<Reply> {
        let mut state = self.lock();
        if state.epoch != deferred.epoch {
            return Ok(Reply::refused(&Refusal::new(
                503,
                "reset",
                "the lab was reset in the meantime",
            )));
        }
        if let Some(key) = &deferred.busy_key {
            state.leave(key);
        }
        let reply = state.perform(deferred.command, now_ms())?;
        state.book.flush()?;
        drop(state);
        self.changed.notify_waiters();
        Ok(reply)
    }

    /// Logs how a request ended.
    pub fn log_answered(
        &self,
        request: u64,
        status: u16,
        replayed: bool,
        fate: Fate,
    ) -> io::Result<()> {
        let mut state = self.lock();
        state.log_answered(request, status, replayed, fate, now_ms())?;
        state.book.flush()?;
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }
}

impl State {
    /// The book, to look at.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// From now on this order is no longer declined.
    pub fn repair(&mut self, order_id: &str) {
        self.planner.repair(order_id);
    }

    fn receive(&mut self, seen: Seen, releases: &watch::Sender<u64>) -> io::Result<Received> {
        let Seen { target, mut arrived, fields, is_http2 } = seen;
        let op = target.op();
        let (request, number) = self.book.number(op);
        let empty = Fields::default();
        let known = fields.as_ref().unwrap_or(&empty);
        let facts = Facts {
            op,
            number,
            key: arrived.key.as_deref(),
            order_id: known.order_id.as_deref(),
            fields: &known.all,
            on_connection: arrived.on_connection,
            is_http2,
        };
        let course = self.planner.decide(&facts);
        (arrived.request, arrived.number) = (request, number);
        arrived.order_id = known.order_id.clone();
        arrived.rule = course.rule.clone();
        let second = (course.process == Process::Twice).then(|| arrived.clone());
        let path = arrived.path.clone();
        let body_sha256 = arrived.body_sha256;
        let key = arrived.key.clone();
        let at_ms = arrived.at_ms;
        self.book.log_arrived(arrived)?;
        let seed = self.planner.plan().seed;
        let mut received = Received {
            course,
            reply: None,
            deferred: None,
            is_logged: false,
            request,
            number,
            seed,
            at_ms,
        };
        let payment_id = match &target {
            Target::Payment(_, id) => Some(id.clone()),
            Target::Pay
            | Target::ByKey(_)
            | Target::ByReference(_)
            | Target::ById(_)
            | Target::Unknown => None,
        };
        if op == Op::Query {
            received.reply = Some(self.query(&target, received.course.answer.query)?);
        } else if received.course.process != Process::Never {
            match fields {
                Err(detail) => {
                    received.reply =
                        Some(Reply::refused(&Refusal::new(400, "body_not_understood", detail)))
                }
                Ok(fields) => {
                    let is_declined = received.course.process == Process::Declined;
                    let command = Command {
                        op,
                        payment_id,
                        fields,
                        key,
                        request,
                        path,
                        body_sha256,
                        is_declined,
                    };
                    self.carry_out(command, &mut received, releases)?;
                }
            }
        }
        if let Some(second) = second {
            self.deliver_again(second, op, &received)?;
        }
        self.log_now(&mut received)?;
        Ok(received)
    }

    fn carry_out(
        &mut self,
        command: Command,
        received: &mut Received,
        releases: &watch::Sender<u64>,
    ) -> io::Result<()> {
        let is_late = matches!(received.course.process, Process::Late(_));
        if !is_late && let Some(refusal) = self.busy_refusal(&command) {
            received.reply = Some(Reply::refused(&refusal));
            return Ok(());
        }
        let delay = match received.course.process {
            Process::Once | Process::Declined => {
                received.reply = Some(self.perform(command, received.at_ms)?);
                return Ok(());
            }
            Process::Twice => {
                self.perform(command.clone(), received.at_ms)?;
                // What was appended must be readable before the second delivery looks for it.
                self.book.flush()?;
                received.reply = Some(self.perform(command, received.at_ms)?);
                return Ok(());
            }
            Process::Never => return Ok(()),
            Process::Late(delay) | Process::Slow(delay) => delay,
        };
        let busy_key = command.key.clone().filter(|_| !is_late);
        if let Some(key) = &busy_key {
            *self.busy.entry(key.clone()).or_insert(0) += 1;
        }
        let release = releases.subscribe();
        let epoch = self.epoch;
        received.deferred = Some(Box::new(Deferred { command, epoch, busy_key, delay, release }));
        Ok(())
    }

    fn deliver_again(
        &mut self,
        mut second: Box<Arrived>,
        op: Op,
        received: &Received,
    ) -> io::Result<()> {
        (second.request, second.number) = self.book.number(op);
        second.rule = second.rule.map(|rule| format!("{rule} (second delivery)"));
        let request = second.request;
        self.book.log_arrived(second)?;
        let (status, replayed) =
            received.reply.as_ref().map_or((0, false), |reply| (reply.status, reply.replayed));
        self.log_answered(request, status, replayed, Fate::Lost, received.at_ms)
    }

    /// Logs the end of a request at once where nothing stands between it and its answer.
    fn log_now(&mut self, received: &mut Received) -> io::Result<()> {
        let course = &received.course;
        let waits = course.answer.late_ms.is_some()
            || course.answer.held
            || (received.deferred.is_some() && !course.answer.early)
            || course.wire == Wire::Hang;
        if waits {
            return Ok(());
        }
        let fate = if course.wire.loses_answer() { Fate::Lost } else { Fate::Sent };
        let status = super::answer::status_of(&course.answer, received.reply.as_ref());
        let replayed = received.reply.as_ref().is_some_and(|reply| reply.replayed);
        self.log_answered(received.request, status, replayed, fate, received.at_ms)?;
        received.is_logged = true;
        Ok(())
    }

    fn log_answered(
        &mut self,
        request: u64,
        status: u16,
        replayed: bool,
        answer: Fate,
        at_ms: i64,
    ) -> io::Result<()> {
        self.book.log_answered(Answered { request, status, replayed, answer, at_ms })
    }

    fn perform(&mut self, command: Command, at_ms: i64) -> io::Result<Reply> {
        let plan = self.planner.plan();
        let outcome = self.book.perform(command, &plan.keys, plan.duplicate_window_ms, at_ms)?;
        Ok(Reply::to(outcome))
    }

    fn busy_refusal(&self, command: &Command) -> Option<Refusal> {
        let key = command.key.as_deref()?;
        let is_busy = self.planner.plan().keys.dedup && self.busy.contains_key(key);
        is_busy.then(|| {
            Refusal::new(409, "in_progress", "a request with this key is still being processed")
        })
    }

    fn leave(&mut self, key: &str) {
        if let Some(count) = self.busy.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.busy.remove(key);
            }
        }
    }

    fn query(&self, target: &Target, instead: Option<QueryAnswer>) -> io::Result<Reply> {
        let pending = json!({ "status": "pending" });
        let missing = Refusal::new(404, "not_found", "nothing is recorded under this");
        match instead {
            Some(QueryAnswer::Missing) => return Ok(Reply::refused(&missing)),
            Some(QueryAnswer::Pending) => return Ok(Reply::json(200, &pending)),
            None => {}
        }
        let found = match target {
            Target::ByKey(key) if self.busy.contains_key(key) => Some(pending),
            Target::ByKey(key) => {
                let keys = &self.planner.plan().keys;
                self.book.by_key(key, keys, now_ms())?.as_ref().map(key_status)
            }
            Target::ByReference(order) => order_status(&self.book.by_order(order)?),
            Target::ById(id) => self.book.by_payment(id)?.as_ref().map(payment_status),
            Target::Pay | Target::Payment(..) | Target::Unknown => None,
        };
        Ok(found.map_or_else(|| Reply::refused(&missing), |found| Reply::json(200, &found)))
    }
}

/// The wall clock in milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
