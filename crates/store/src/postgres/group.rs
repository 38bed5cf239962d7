//! While one group is on its way the next one fills.
//!
//! An entry that arrives when nothing is on its way goes at once, alone. Entries that arrive
//! meanwhile form the next group: one statement, one commit. There is no timer, so nobody waits who
//! would not have waited for the database anyhow. A group that fails is run again entry by entry,
//! so that one of them never spoils the others.

use crate::error::{Kind, StoreError};
use samekey_core::key::Scope;
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The most entries of one group. Measured: from 16 to 64 the cost of an entry still falls, beyond
/// it hardly does, and a failed group of 64 is re-run in a fraction of a second.
pub const GROUP_MAX: usize = 64;

/// The most entries that may wait. Beyond it the database is not keeping up, and a caller that is
/// refused at once can try elsewhere.
pub const WAITING_MAX: usize = 8_192;

/// How often a group that is about to leave lets others run while they still hand in. Those whom the
/// last group woke need one turn each worker or two; the bound only keeps a stream of newcomers
/// from holding the group back.
const TURNS_MAX: usize = 8;

/// What is done with a group.
pub(crate) trait Batch: Send + Sync + 'static {
    /// What an entry asks for.
    type Entry: Send + Sync + 'static;
    /// What it gets.
    type Answer: Send + 'static;

    /// The key that an entry is about; no two of a group have the same.
    fn scope(entry: &Self::Entry) -> &Scope;

    /// Runs all of them in one transaction: nothing for any, or a result for each in their order.
    /// Such a result is an error where the row cannot be read afterwards.
    fn together(
        &self,
        entries: &[Self::Entry],
    ) -> impl Future<Output = Result<Results<Self::Answer>, StoreError>> + Send;
}

/// One result for each entry.
pub(crate) type Results<A> = Vec<Result<A, StoreError>>;

type Reply<A> = oneshot::Sender<Result<A, StoreError>>;

/// The queue before the groups.
pub(crate) struct Grouper<B: Batch> {
    shared: Arc<Shared<B>>,
}

struct Shared<B: Batch> {
    batch: B,
    queue: Mutex<Queue<B>>,
}

struct Queue<B: Batch> {
    waiting: VecDeque<(B::Entry, Reply<B::Answer>)>,
    on_its_way: bool,
}

impl<B: Batch> Grouper<B> {
    pub(crate) fn new(batch: B) -> Grouper<B> {
        let queue = Queue { waiting: VecDeque::new(), on_its_way: false };
        Grouper { shared: Arc::new(Shared { batch, queue: Mutex::new(queue) }) }
    }

    /// Hands in an entry and waits for its answer. What was handed in is done even if this future
    /// is dropped.
    pub(crate) async fn submit(&self, entry: B::Entry) -> Result<B::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let start = {
            let mut queue = self.shared.lock();
            if queue.waiting.len() >= WAITING_MAX {
                return Err(StoreError::new(
                    Kind::PoolExhausted,
                    "too many writes wait for the database; try again later",
                ));
            }
            queue.waiting.push_back((entry, reply));
            !std::mem::replace(&mut queue.on_its_way, true)
        };
        if start {
            tokio::spawn(drive(Running { shared: self.shared.clone(), finished: false }));
        }
        answer.await.unwrap_or_else(|_| Err(abandoned()))
    }
}

impl<B: Batch> Shared<B> {
    fn lock(&self) -> MutexGuard<'_, Queue<B>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that runs groups. If it ends otherwise than by an empty queue, nobody is left waiting.
struct Running<B: Batch> {
    shared: Arc<Shared<B>>,
    finished: bool,
}

impl<B: Batch> Drop for Running<B> {
    fn drop(&mut self) {
        if !self.finished {
            let mut queue = self.shared.lock();
            queue.on_its_way = false;
            queue.waiting.clear();
        }
    }
}

async fn drive<B: Batch>(mut running: Running<B>) {
    loop {
        gather(&running.shared).await;
        let (entries, replies) = {
            let mut queue = running.shared.lock();
            if queue.waiting.is_empty() {
                queue.on_its_way = false;
                break;
            }
            next_group(&mut queue.waiting, B::scope)
        };
        run(&running.shared.batch, entries, replies).await;
    }
    running.finished = true;
}

/// Lets whoever was woken by the same news hand in before the group leaves, since every group costs
/// a wait for the disk. It is no timer: with nobody else to run, it returns at once.
async fn gather<B: Batch>(shared: &Shared<B>) {
    let mut before = 0;
    for _ in 0..TURNS_MAX {
        tokio::task::yield_now().await;
        let waiting = shared.lock().waiting.len();
        if waiting == before || waiting >= GROUP_MAX {
            return;
        }
        before = waiting;
    }
}

/// Takes the next group out of the queue, in the order of its keys, so that the groups of two
/// processes lock rows in one order. The second entry of a key waits for the group after it.
fn next_group<E, R>(
    waiting: &mut VecDeque<(E, R)>,
    scope: impl Fn(&E) -> &Scope,
) -> (Vec<E>, Vec<R>) {
    let mut taken = Vec::new();
    let mut left = VecDeque::new();
    let mut keys = BTreeSet::new();
    while taken.len() < GROUP_MAX
        && let Some(next) = waiting.pop_front()
    {
        if keys.insert(scope(&next.0).clone()) {
            taken.push(next);
        } else {
            left.push_back(next);
        }
    }
    left.append(waiting);
    *waiting = left;
    taken.sort_by(|one, other| scope(&one.0).cmp(scope(&other.0)));
    taken.into_iter().unzip()
}

async fn run<B: Batch>(batch: &B, entries: Vec<B::Entry>, replies: Vec<Reply<B::Answer>>) {
    let failure = match batch.together(&entries).await {
        Ok(answers) => {
            for (reply, answer) in replies.into_iter().zip(answers) {
                // Whoever no longer listens has been cancelled; the write stands all the same.
                let _ = reply.send(answer);
            }
            return;
        }
        Err(failure) => failure,
    };
    let mut unreachable: Option<StoreError> = None;
    for (entry, reply) in entries.iter().zip(replies) {
        let result = match &unreachable {
            Some(error) => Err(error.clone()),
            None => alone(batch, entry).await,
        };
        if let Err(error) = &result
            && matches!(error.kind(), Kind::Unreachable | Kind::PoolExhausted)
        {
            unreachable = Some(error.clone());
        }
        let _ = reply.send(result.map_err(|error| sharper(error, &failure)));
    }
}

async fn alone<B: Batch>(batch: &B, entry: &B::Entry) -> Result<B::Answer, StoreError> {
    let mut results = batch.together(std::slice::from_ref(entry)).await?;
    results.pop().ok_or_else(super::failure::missing)?
}

/// A write that may stand since the group was sent is still unknown when the entry alone failed.
fn sharper(alone: StoreError, group: &StoreError) -> StoreError {
    if group.may_have_committed() { group.clone() } else { alone }
}

fn abandoned() -> StoreError {
    StoreError::new(
        Kind::CommitUnknown,
        "the write was abandoned, as the program is ending; whether it stands is told by asking again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use samekey_core::key::{Key, Org};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;

    fn scope(key: &str) -> Scope {
        Scope { org: Org::new("org").unwrap(), key: Key::new(key).unwrap() }
    }

    /// Runs groups when it is allowed to, and remembers their keys.
    #[derive(Clone)]
    struct Recorder {
        gate: Arc<Semaphore>,
        groups: Arc<Mutex<Vec<Vec<String>>>>,
        started: Arc<AtomicUsize>,
        spoilt: &'static str,
        failure: Kind,
    }

    impl Recorder {
        fn new(permits: usize) -> Recorder {
            Recorder {
                gate: Arc::new(Semaphore::new(permits)),
                groups: Arc::default(),
                started: Arc::default(),
                spoilt: "",
                failure: Kind::Other,
            }
        }

        fn seen(&self) -> Vec<Vec<String>> {
            self.groups.lock().unwrap().clone()
        }
    }

    impl Batch for Recorder {
        type Entry = Scope;
        type Answer = String;

        fn scope(entry: &Scope) -> &Scope {
            entry
        }

        async fn together(&self, entries: &[Scope]) -> Result<Results<String>, StoreError> {
            self.started.fetch_add(1, Ordering::SeqCst);
            self.gate.acquire().await.unwrap().forget();
            let keys: Vec<String> = entries.iter().map(|e| e.key.as_str().to_owned()).collect();
            self.groups.lock().unwrap().push(keys.clone());
            if keys.iter().any(|key| key == self.spoilt) {
                return Err(StoreError::new(self.failure, "spoilt"));
            }
            Ok(keys.into_iter().map(Ok).collect())
        }
    }

    async fn until(what: impl Fn() -> bool) {
        for _ in 0..10_000 {
            if what() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it never came to be");
    }

    fn submit(
        grouper: &Arc<Grouper<Recorder>>,
        key: &str,
    ) -> tokio::task::JoinHandle<Result<String, StoreError>> {
        let (grouper, scope) = (grouper.clone(), scope(key));
        tokio::spawn(async move { grouper.submit(scope).await })
    }

    /// The first entry is on its way; the others are waiting behind it.
    async fn filled(
        recorder: &Recorder,
        keys: &[&str],
    ) -> (Arc<Grouper<Recorder>>, Vec<tokio::task::JoinHandle<Result<String, StoreError>>>) {
        let grouper = Arc::new(Grouper::new(recorder.clone()));
        let mut handles = vec![submit(&grouper, "first")];
        until(|| recorder.started.load(Ordering::SeqCst) == 1).await;
        for key in keys {
            handles.push(submit(&grouper, key));
        }
        until(|| grouper.shared.lock().waiting.len() == keys.len()).await;
        (grouper, handles)
    }

    #[tokio::test]
    async fn while_one_group_is_on_its_way_the_next_one_fills_in_the_order_of_keys() {
        let recorder = Recorder::new(0);
        let (_, handles) = filled(&recorder, &["c", "a", "b"]).await;
        recorder.gate.add_permits(10);
        for (handle, key) in handles.into_iter().zip(["first", "c", "a", "b"]) {
            assert_eq!(handle.await.unwrap().unwrap(), key);
        }
        assert_eq!(recorder.seen(), [vec!["first"], vec!["a", "b", "c"]]);
    }

    #[tokio::test]
    async fn a_second_entry_of_a_key_waits_for_the_next_group() {
        let recorder = Recorder::new(0);
        let (_, handles) = filled(&recorder, &["a", "a", "b"]).await;
        recorder.gate.add_permits(10);
        for handle in handles {
            handle.await.unwrap().unwrap();
        }
        assert_eq!(recorder.seen(), [vec!["first"], vec!["a", "b"], vec!["a"]]);
    }

    #[tokio::test]
    async fn one_bad_entry_does_not_hurt_the_others() {
        let mut recorder = Recorder::new(0);
        recorder.spoilt = "b";
        let (_, handles) = filled(&recorder, &["a", "b", "c"]).await;
        recorder.gate.add_permits(10);
        let mut results = Vec::new();
        for handle in handles {
            results.push(handle.await.unwrap().is_ok());
        }
        assert_eq!(results, [true, true, false, true]);
        assert_eq!(recorder.seen().len(), 5, "first, the group, and each alone");
    }

    #[tokio::test]
    async fn a_group_whose_commit_is_unknown_leaves_what_fails_alone_unknown() {
        let mut recorder = Recorder::new(0);
        recorder.spoilt = "b";
        recorder.failure = Kind::CommitUnknown;
        let (_, mut handles) = filled(&recorder, &["a", "b"]).await;
        recorder.gate.add_permits(10);
        let bad = handles.pop().unwrap().await.unwrap().unwrap_err();
        assert_eq!(bad.kind(), Kind::CommitUnknown);
        assert!(handles.pop().unwrap().await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn what_was_handed_in_is_done_also_when_nobody_waits_for_it() {
        let recorder = Recorder::new(0);
        let (_, handles) = filled(&recorder, &["a"]).await;
        for handle in handles {
            handle.abort();
        }
        recorder.gate.add_permits(10);
        until(|| recorder.seen().len() == 2).await;
    }

    #[tokio::test]
    async fn a_group_is_bounded() {
        let recorder = Recorder::new(0);
        let keys: Vec<String> = (0..GROUP_MAX + 1).map(|n| format!("k{n}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let (_, handles) = filled(&recorder, &keys).await;
        recorder.gate.add_permits(10);
        for handle in handles {
            handle.await.unwrap().unwrap();
        }
        let sizes: Vec<usize> = recorder.seen().iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, GROUP_MAX, 1]);
    }
}
