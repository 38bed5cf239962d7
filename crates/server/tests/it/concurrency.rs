//! C4: many requests at once, one effect.

use super::harness::proxied::Pooled;
use super::harness::reach::{Order, until};
use super::harness::script::{Script, gate};
use super::harness::{Harness, Reply, Which, fresh, on_both};
use futures_util::future::join_all;
use samekey_sim::history::{Effect, History, Row, Rules};
use std::time::Duration;

on_both!(
    p01_t43_of_many_with_one_key_one_runs,
    p09_t43_a_refusal_of_two_services_is_one_answer,
    p07_t44_duplicates_are_told_to_wait_while_the_first_runs,
    p08_who_is_told_to_wait_had_somebody_to_wait_for,
    t47_many_keys_share_a_small_pool,
);

/// As in the case: two services, two hundred requests.
const DUPLICATES: usize = 200;

async fn p01_t43_of_many_with_one_key_one_runs(which: Which) {
    let one = Harness::start(which).await;
    let other = one.another().await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    let order = Order::of(&key, &reference);
    let history = History::default();
    let asked = ("A", reference.as_str(), "ref");
    let sent = (0..DUPLICATES).map(|n| {
        let address = if n % 2 == 0 { one.address } else { other.address };
        order.send_recorded(address, &history, asked)
    });
    let answers: Vec<_> = join_all(sent).await.into_iter().flatten().collect();
    assert_eq!(answers.len(), DUPLICATES, "some got no answer at all");
    for answer in &answers {
        let is_busy = answer.code.as_deref() == Some("samekey.in-progress");
        assert!(answer.status == 201 || is_busy, "{answer:?}");
    }
    assert!(answers.iter().any(|answer| answer.status == 201 && !answer.is_replay));
    // T-46: afterwards nobody is told to wait, by either service.
    for address in [one.address, other.address] {
        let answer = order.send_recorded(address, &history, asked).await.unwrap();
        assert_eq!((answer.status, answer.is_replay), (201, true));
    }
    assert_eq!(one.effects(&reference).await, 1);
    // P08 and S9: every "wait" was true. The checker looks at all of them.
    let effect = Effect { org: "A".to_owned(), reference: reference.clone() };
    let row = Row { org: "A".to_owned(), key, state: "done".to_owned(), status: Some(201) };
    assert_eq!(history.check(&[effect], &[row], Rules::default()), []);
    assert_eq!((one.rows().await, one.rows_in_state("done").await), (1, 1));
}

/// A refusal takes back what its handler wrote, and claims its key anew to be kept. The other service may come in
/// between; nothing stays of either handler, and all are told the same.
async fn p09_t43_a_refusal_of_two_services_is_one_answer(which: Which) {
    let one = Harness::start(which).await;
    let other = one.another().await;
    for _ in 0..10 {
        let (key, reference) = (fresh("key"), fresh("ref"));
        for service in [&one, &other] {
            let declined = Script { status: Some(402), ..Script::default() };
            service.app.scripts.set(&reference, declined);
        }
        let order = Order::of(&key, &reference);
        let sent =
            (0..20).map(|n| order.send(if n % 2 == 0 { one.address } else { other.address }));
        for reply in join_all(sent).await {
            let reply = reply.unwrap();
            if reply.status != 402 {
                reply.assert_busy();
            }
        }
        let first = order.send(one.address).await.unwrap();
        assert_eq!((first.status, first.is_replay()), (402, true));
        let same = order.send(other.address).await.unwrap();
        assert!(same.is_replay());
        same.assert_same(&first);
        assert_eq!(one.effects(&reference).await, 0);
    }
    assert_eq!(one.rows_in_state("done").await, 10);
}

/// Each of these is answered while the handler of the first still stands at its gate.
async fn p07_t44_duplicates_are_told_to_wait_while_the_first_runs(which: Which) {
    let harness = Harness::start(which).await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    let (gate, mut keeper) = gate();
    harness.app.scripts.set(&reference, Script { gate: Some(gate), ..Script::default() });
    let order = Order::of(&key, &reference);
    let leader = tokio::spawn({
        let (order, address) = (order.clone(), harness.address);
        async move { order.send(address).await }
    });
    keeper.reached.recv().await.unwrap();
    let duplicates = join_all((0..50).map(|_| order.send(harness.address))).await;
    for reply in &duplicates {
        reply.as_ref().unwrap().assert_busy();
    }
    keeper.go.send(()).unwrap();
    let first = leader.await.unwrap().unwrap();
    assert_eq!((first.status, first.is_replay()), (201, false));
    // T-46: what was true then is not said any more.
    let after = order.send(harness.address).await.unwrap();
    assert!(after.is_replay());
    after.assert_same(&first);
    assert_eq!(harness.effects(&reference).await, 1);
}

/// Duplicates come before, during and after the first one's run, from two services. The checker holds
/// that nobody is told to wait once the key was done.
async fn p08_who_is_told_to_wait_had_somebody_to_wait_for(which: Which) {
    const ROUNDS: usize = 30;
    let services = match which {
        Which::Postgres => {
            let pooled = Pooled { wait: Duration::ZERO, ..Pooled::of(4) };
            let one = Harness::pooled(pooled.clone()).await;
            let other = one.another_at(None, pooled).await;
            vec![one, other]
        }
        Which::Sqlite => vec![Harness::start(which).await],
    };
    let (history, mut effects, mut rows) = (History::default(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (key, reference) = (fresh("key"), fresh("ref"));
        let order = Order::of(&key, &reference);
        let asked = ("A", reference.as_str(), "ref");
        let callers = (0..6).map(|n| {
            let (order, history, address) =
                (&order, &history, services[n % services.len()].address);
            async move {
                for _ in 0..3 {
                    order.send_recorded(address, history, asked).await;
                }
            }
        });
        join_all(callers).await;
        effects.push(Effect { org: "A".to_owned(), reference });
        rows.push(Row { org: "A".to_owned(), key, state: "done".to_owned(), status: Some(201) });
    }
    assert_eq!(history.check(&effects, &rows, Rules::default()), []);
    let told = |code: &str| {
        let attempts = history.attempts().into_iter();
        attempts
            .filter(|a| a.answer.as_ref().is_some_and(|a| a.code.as_deref() == Some(code)))
            .count()
    };
    if which == Which::Postgres {
        assert!(told("samekey.in-progress") > 0, "nobody was told to wait");
    }
}

async fn t47_many_keys_share_a_small_pool(which: Which) {
    const KEYS: usize = 1_000;
    let harness = match which {
        Which::Postgres => Harness::pooled(Pooled::of(10)).await,
        Which::Sqlite => Harness::start(which).await,
    };
    let reference = fresh("ref");
    for _ in 0..KEYS / 100 {
        let orders: Vec<Order> = (0..100).map(|_| Order::of(&fresh("key"), &reference)).collect();
        let replies = join_all(orders.iter().map(|order| order.send(harness.address))).await;
        for reply in replies {
            assert_eq!(reply.unwrap().status, 201);
        }
    }
    assert_eq!(harness.effects(&reference).await, u64::try_from(KEYS).unwrap());
    if which == Which::Postgres {
        assert_eq!(harness.backends("state like 'idle in transaction%'").await, 0);
    }
}

/// The wait of the others is in memory: of two connections one works, and one is free for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p17_duplicates_wait_in_memory_and_not_in_the_pool() {
    let pooled = Pooled { wait: Duration::from_secs(1), ..Pooled::of(2) };
    let harness = Harness::pooled(pooled.clone()).await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    let (gate, mut keeper) = gate();
    harness.app.scripts.set(&reference, Script { gate: Some(gate), ..Script::default() });
    let order = Order::of(&key, &reference);
    let send = |address| {
        let order = order.clone();
        tokio::spawn(async move { order.send(address).await })
    };
    let leader = send(harness.address);
    keeper.reached.recv().await.unwrap();
    let followers: Vec<_> = (0..100).map(|_| send(harness.address)).collect();
    // A connection is left for somebody else, at once and not when the followers have given up.
    let other = fresh("ref");
    let reply = Order::of(&fresh("key"), &other).send(harness.address).await.unwrap();
    assert_eq!(reply.status, 201);
    assert!(followers.iter().any(|follower| !follower.is_finished()));
    assert_eq!(harness.backends("wait_event_type = 'Lock'").await, 0);
    // In another process it is one that asks the database, however many there are.
    let second = harness.another_at(None, pooled).await;
    let elsewhere: Vec<_> = (0..100).map(|_| send(second.address)).collect();
    until("one waits for the row", || async {
        harness.backends("wait_event_type = 'Lock'").await == 1
    })
    .await;
    keeper.go.send(()).unwrap();
    let first = leader.await.unwrap().unwrap();
    assert_eq!(first.status, 201);
    for waiting in followers.into_iter().chain(elsewhere) {
        let reply: Reply = waiting.await.unwrap().unwrap();
        if reply.status == 201 {
            assert!(reply.is_replay());
            reply.assert_same(&first);
        } else {
            reply.assert_busy();
        }
    }
    assert_eq!(harness.effects(&reference).await, 1);
}
