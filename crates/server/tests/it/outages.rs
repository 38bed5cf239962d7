//! PostgreSQL cut off, slow, silent and away, at chosen messages.

use super::harness::proxied::{Heard, Pooled};
use super::harness::reach::{BOUND, Order, until};
use super::harness::script::{Script, gate};
use super::harness::{Harness, fresh};
use futures_util::future::join_all;
use samekey::Signal;
use samekey_sim::proxy::{Cut, Proxy, Target};
use std::time::Duration;

const COMMIT: Target = Target::Commit;

struct World {
    harness: Harness,
    proxy: Proxy,
    heard: Heard,
    key: String,
    reference: String,
}

impl World {
    /// A service behind a proxy, with one connection that has seen every statement.
    async fn warm() -> World {
        let heard = Heard::default();
        let pooled = Pooled { setup: heard.setup(), ..Pooled::of(1) };
        let (harness, proxy) = Harness::behind_proxy(pooled).await;
        let world = World { harness, proxy, heard, key: fresh("key"), reference: fresh("ref") };
        world.warm_up().await;
        world
    }

    async fn warm_up(&self) {
        let order = Order::of(&fresh("key"), &fresh("warm"));
        assert_eq!(order.send_until_final(self.harness.address).await.status, 201);
    }

    fn order(&self) -> Order {
        Order::of(&self.key, &self.reference)
    }

    async fn effects(&self) -> u64 {
        self.harness.effects(&self.reference).await
    }

    fn calls(&self) -> u64 {
        self.harness.app.calls.load(std::sync::atomic::Ordering::SeqCst)
    }
}

/// What a command costs on the wire: the lock and the look travel behind the begin, and the commit behind the
/// row, without waiting. Nothing looks before it locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p03_a_new_key_is_locked_before_the_work_and_its_row_written_once() {
    let world = World::warm().await;
    world.proxy.forget();
    assert_eq!(world.order().send(world.harness.address).await.unwrap().status, 201);
    let executed: Vec<String> = world
        .proxy
        .requests()
        .into_iter()
        .filter(|request| matches!(request.kind, 'Q' | 'E'))
        .map(|request| request.statement)
        .collect();
    let starts = [
        "begin",
        "select now() as seen_at",
        "select true as there from samekey.keys",
        "insert into effects",
        "insert into samekey.keys",
        "commit",
    ];
    assert_eq!(executed.len(), starts.len(), "{executed:#?}");
    for (statement, start) in executed.iter().zip(starts) {
        assert!(statement.starts_with(start), "{statement} is not {start}…");
    }
}

/// T-56: the database has committed and nobody is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_t56_a_commit_whose_answer_is_lost_is_found_by_its_owner() {
    let world = World::warm().await;
    let before = world.calls();
    world.proxy.arm(COMMIT, 1, Cut::After);
    let reply = world.order().send(world.harness.address).await.unwrap();
    assert_eq!((reply.status, reply.is_replay()), (201, false), "it is the first answer still");
    assert_eq!((world.proxy.fired(), world.heard.count(Signal::CommitUnknown)), (1, 1));
    assert_eq!((world.effects().await, world.calls() - before), (1, 1));
    let retry = world.order().send(world.harness.address).await.unwrap();
    assert!(retry.is_replay());
    retry.assert_same(&reply);
}

/// T-57: the commit never arrived. To the service both look the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_t57_a_commit_that_never_arrived_runs_again() {
    let world = World::warm().await;
    let before = world.calls();
    world.proxy.arm(COMMIT, 1, Cut::Before);
    let reply = world.order().send_until_final(world.harness.address).await;
    assert_eq!((reply.status, world.proxy.fired()), (201, 1));
    assert_eq!(world.heard.count(Signal::CommitUnknown), 1);
    assert_eq!((world.effects().await, world.calls() - before), (1, 2));
}

/// Without a key nobody can ask again. That nothing ran is not said when it may have run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_an_unkeyed_commit_without_an_answer_is_not_called_unrun() {
    let world = World::warm().await;
    world.proxy.arm(COMMIT, 1, Cut::After);
    let body = format!(r#"{{"ref":"{}"}}"#, world.reference);
    let reply = world.harness.send("POST", "/optional", &[], body).await;
    assert_eq!((reply.status, reply.code().as_deref()), (409, Some("samekey.outcome-unknown")));
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(world.effects().await, 1);
}

/// The commit is still on its way when the service asks what became of it: nothing may be assumed,
/// and above all not that it failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_a_commit_that_lands_late_is_waited_for() {
    let world = World::warm().await;
    let before = world.calls();
    world.proxy.arm(COMMIT, 1, Cut::Held);
    for _ in 0..2 {
        let reply = world.order().send(world.harness.address).await.unwrap();
        let code = reply.code();
        let waits =
            matches!(code.as_deref(), Some("samekey.outcome-pending" | "samekey.in-progress"));
        assert!(waits, "{} {code:?} after {:?}", reply.status, world.heard.all());
        assert_eq!(world.effects().await, 0);
    }
    assert_eq!(world.proxy.fired(), 1);
    world.proxy.deliver();
    let reply = world.order().send_until_final(world.harness.address).await;
    assert_eq!((reply.status, reply.is_replay()), (201, true));
    assert_eq!((world.effects().await, world.calls() - before), (1, 1), "it ran a second time");
}

/// The database goes away at the commit and stays away for longer than the service tries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_an_outcome_that_nobody_can_tell_yet_is_pending() {
    for (cut, runs) in [(Cut::After, 1), (Cut::Before, 2)] {
        let world = World::warm().await;
        let before = world.calls();
        let (gate, mut keeper) = gate();
        let script = Script { gate: Some(gate), ..Script::default() };
        world.harness.app.scripts.set(&world.reference, script);
        let (order, address) = (world.order(), world.harness.address);
        let first = tokio::spawn(async move { order.send(address).await });
        keeper.reached.recv().await.unwrap();
        world.proxy.arm_last(COMMIT, 1, cut);
        drop(keeper);
        let reply = first.await.unwrap().unwrap();
        assert_eq!(reply.code().as_deref(), Some("samekey.outcome-pending"), "{cut:?}");
        world.proxy.accept();
        let reply = world.order().send_until_final(world.harness.address).await;
        assert_eq!((reply.status, reply.is_replay()), (201, cut == Cut::After), "{cut:?}");
        assert_eq!((world.effects().await, world.calls() - before), (1, runs), "{cut:?}");
    }
}

/// B05: cuts at the claim and at the commit, on every one of the first connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b05_a_blind_repeat_recognises_its_own_claim() {
    for at in [Target::Statement("insert into samekey.keys"), COMMIT] {
        for nth in 1..=3 {
            let world = World::warm().await;
            world.proxy.arm(at.clone(), nth, Cut::After);
            let orders: Vec<(String, Order)> = (0..4)
                .map(|_| {
                    let reference = fresh("ref");
                    (reference.clone(), Order::of(&fresh("key"), &reference))
                })
                .collect();
            for (reference, order) in &orders {
                let reply = order.send_until_final(world.harness.address).await;
                assert_eq!(reply.status, 201, "{at:?} {nth}");
                assert_eq!(world.harness.effects(reference).await, 1, "{at:?} {nth}");
            }
            assert_eq!(world.proxy.fired(), 1);
            world.harness.assert_nothing_open().await;
        }
    }
}

/// The connection is cut before and after every message that a command sends, with each message on
/// its way, and before every message that it gets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_the_connection_is_cut_at_every_message() {
    let world = World::warm().await;
    world.proxy.forget();
    world.warm_up().await;
    let trace: String = world.proxy.requests().iter().map(|request| request.kind).collect();
    let (requests, answers) = (world.proxy.requests().len(), world.proxy.answers());
    println!("{requests} messages out ({trace}), {answers} back");
    assert!(trace.contains('B') && trace.ends_with("BESQ") && answers > 10, "{trace}");
    let mut faults = 0;
    let mut unknown = 0;
    let mut check = async |what: String| {
        faults += 1;
        let (key, reference) = (fresh("key"), fresh("ref"));
        let order = Order::of(&key, &reference);
        let first = order.send(world.harness.address).await.unwrap();
        assert!(world.proxy.wait_until_fired(faults, BOUND).await, "{what} never happened");
        world.proxy.deliver();
        let reply = order.send_until_final(world.harness.address).await;
        assert_eq!(reply.status, 201, "{what}");
        assert_eq!(world.harness.effects(&reference).await, 1, "{what}, at first {}", first.status);
        if first.status == 201 {
            reply.assert_same(&first);
        }
        world.warm_up().await;
        unknown = world.heard.count(Signal::CommitUnknown);
    };
    for nth in 1..=u64::try_from(requests).unwrap() {
        for cut in [Cut::Before, Cut::After, Cut::Held] {
            world.proxy.arm(Target::Every, nth, cut);
            check(format!("{cut:?} at message {nth} of {trace}")).await;
        }
    }
    for nth in 1..=answers {
        world.proxy.arm_answer(nth);
        check(format!("a cut before answer {nth}")).await;
    }
    println!("{faults} faults, {unknown} commits of unknown outcome");
    assert!(unknown >= 5, "hardly any cut met a commit");
    world.harness.assert_nothing_open().await;
    assert_eq!(world.harness.backends("state like 'idle in transaction%'").await, 0);
}

/// B26: every answer of the database is late, and those who wait get the result at once when it is
/// there, in this process and in another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b26_everybody_who_waits_gets_the_stored_answer() {
    let pooled = Pooled { wait: Duration::from_secs(1), ..Pooled::of(2) };
    let (harness, proxy) = Harness::behind_proxy(pooled.clone()).await;
    let other = harness.another_at(Some(proxy.url()), pooled).await;
    for address in [harness.address, other.address] {
        let order = Order::of(&fresh("key"), &fresh("ref"));
        assert_eq!(order.send(address).await.unwrap().status, 201);
    }
    proxy.delay(Duration::from_millis(50));
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
    let waiting: Vec<_> =
        (0..20).map(|n| send(if n % 2 == 0 { harness.address } else { other.address })).collect();
    until("the other service waits for the row", || async {
        harness.backends("wait_event_type = 'Lock'").await == 1
    })
    .await;
    keeper.go.send(()).unwrap();
    let first = leader.await.unwrap().unwrap();
    assert_eq!((first.status, first.is_replay()), (201, false));
    for reply in join_all(waiting).await {
        let reply = reply.unwrap().unwrap();
        assert!(reply.is_replay(), "{:?}", reply.code());
        reply.assert_same(&first);
    }
    assert_eq!(harness.effects(&reference).await, 1);
}

fn assert_unavailable(reply: &super::harness::Reply) {
    assert_eq!((reply.status, reply.code().as_deref()), (503, Some("samekey.store-unavailable")));
    let wait: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "Retry-After {wait}");
}

/// B37: no database, no run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p16_b37_without_its_store_nothing_runs() {
    let world = World::warm().await;
    let before = world.calls();
    world.proxy.refuse();
    for _ in 0..3 {
        assert_unavailable(&world.order().send(world.harness.address).await.unwrap());
    }
    assert_eq!((world.effects().await, world.calls()), (0, before));
    world.proxy.accept();
    let reply = world.order().send(world.harness.address).await.unwrap();
    assert_eq!((reply.status, reply.is_replay()), (201, false));
    assert_eq!((world.effects().await, world.calls() - before), (1, 1));
}

/// B37: it goes away between claim and result, while the handler is at work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b37_a_store_lost_under_the_handler_is_no_second_effect() {
    let world = World::warm().await;
    let (gate, mut keeper) = gate();
    let script = Script { gate: Some(gate), ..Script::default() };
    world.harness.app.scripts.set(&world.reference, script);
    let (order, address) = (world.order(), world.harness.address);
    let first = tokio::spawn(async move { order.send(address).await });
    keeper.reached.recv().await.unwrap();
    world.proxy.refuse();
    drop(keeper);
    let reply = first.await.unwrap().unwrap();
    assert!(!(200..300).contains(&reply.status), "a success that is stored nowhere");
    world.proxy.accept();
    let reply = world.order().send_until_final(world.harness.address).await;
    assert_eq!((reply.status, reply.is_replay()), (201, false));
    assert_eq!(world.effects().await, 1);
    world.harness.assert_nothing_open().await;
}

/// B37: it is there and says nothing. The bound is the store's own ten seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p16_b37_a_silent_store_is_given_up_in_time() {
    let world = World::warm().await;
    world.proxy.freeze();
    let reply = world.order().send(world.harness.address).await.unwrap();
    // Answered while the store is still silent.
    assert_unavailable(&reply);
    world.proxy.thaw();
    let reply = world.order().send_until_final(world.harness.address).await;
    assert_eq!(reply.status, 201);
    assert_eq!(world.effects().await, 1);
}

/// B37: all connections are in use, by commands that take their time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b37_an_exhausted_pool_refuses_before_anything_runs() {
    let pooled = Pooled { acquire_max: Duration::from_millis(200), ..Pooled::of(1) };
    let harness = Harness::pooled(pooled).await;
    let (held, waiting) = (fresh("ref"), fresh("ref"));
    let (gate, mut keeper) = gate();
    harness.app.scripts.set(&held, Script { gate: Some(gate), ..Script::default() });
    let (first, address) = (Order::of(&fresh("key"), &held), harness.address);
    let first = tokio::spawn(async move { first.send(address).await });
    keeper.reached.recv().await.unwrap();
    let second = Order::of(&fresh("key"), &waiting);
    assert_unavailable(&second.send(address).await.unwrap());
    drop(keeper);
    assert_eq!(first.await.unwrap().unwrap().status, 201);
    assert_eq!(second.send(address).await.unwrap().status, 201);
    assert_eq!((harness.effects(&held).await, harness.effects(&waiting).await), (1, 1));
}
