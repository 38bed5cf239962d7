//! Commits of a courier whose outcome nobody tells it: of what it takes, and of what it writes down.

use super::world::{ANSWERS, Act, DEDUPS, Heeded, OPAQUE, Seen, World, command, ended, limits};
use futures_util::future::join_all;
use samekey_client::core::delivery::{Delivery, Ended, Reason, State};
use samekey_client::core::profile::Declared;
use samekey_client::store::postgres::outbox::enqueue;
use samekey_client::store::postgres::{Options, PostgresLedger, connect, connect_with, migrate};
use samekey_client::{Courier, Destination, Setup};
use samekey_sim::Proxy;
use samekey_sim::database::fresh_database;
use samekey_sim::proxy::{Cut, Target};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::IsolationLevel;
use tokio_postgres::error::SqlState;

/// No cut is longer in coming.
const BOUND: Duration = Duration::from_secs(30);
/// Landed and not told of, never landed, and landed when its sender has given it up.
const CUTS: [Cut; 3] = [Cut::After, Cut::Before, Cut::Held];

/// Which commit is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// The one that puts an attempt on record: nothing was sent yet.
    TheTake,
    /// The one that writes its outcome down: it was sent.
    TheOutcome,
}

impl Of {
    /// Its number among the commits of one command.
    fn nth(self) -> u64 {
        match self {
            Of::TheTake => 1,
            Of::TheOutcome => 2,
        }
    }
}

async fn courier_at(address: &str, world: &World, name: &str) -> (Courier<PostgresLedger>, Heeded) {
    let store = PostgresLedger::open(connect(address).unwrap(), Options::default()).await.unwrap();
    let destination = Destination::with_limits(name, world.clone(), limits()).unwrap();
    let heeded = Heeded::default();
    let setup = Setup::new("test").unwrap().destination(destination).listener(heeded.listener());
    (Courier::open(Arc::new(store), setup).await.unwrap(), heeded)
}

/// Whatever becomes of its commits, nothing is sent twice without a question or a key, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p46_p58_t74_a_commit_that_nobody_is_told_of_sends_nothing_twice_and_loses_nothing() {
    let database = fresh_database().await;
    migrate(&connect(database.url()).unwrap()).await.unwrap();
    for (name, declared) in [("opaque", OPAQUE), ("dedups", DEDUPS), ("answers", ANSWERS)] {
        let proxy = Proxy::before(database.url()).unwrap();
        let world = World::new(declared, |_| Act::Works);
        // Only what the courier at work does passes the proxy.
        let (caller, _) = courier_at(database.url(), &world, name).await;
        let (courier, heeded) = courier_at(proxy.url(), &world, name).await;
        let running = courier.spawn();
        // Every statement is prepared by then.
        let warm = caller.enqueue(command(name, "warm")).await.unwrap();
        ended(&caller, warm.id).await;
        for of in [Of::TheTake, Of::TheOutcome] {
            for cut in CUTS {
                let what = format!("{name}, {of:?}, {cut:?}");
                let failed = heeded.failures_of_the_store();
                let fired = proxy.fired() + 1;
                proxy.forget();
                proxy.arm(Target::Commit, of.nth(), cut);
                let placed = caller.enqueue(command(name, &what)).await.unwrap();
                courier.wake(name);
                assert!(proxy.wait_until_fired(fired, BOUND).await, "{what}");
                if cut == Cut::Held {
                    // It arrives when the courier has gone on without it: has failed, or tries again.
                    let sent = proxy.requests().len();
                    let deadline = Instant::now() + BOUND;
                    while heeded.failures_of_the_store() == failed && proxy.requests().len() == sent
                    {
                        assert!(Instant::now() < deadline, "{what}: the courier stands still");
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    proxy.deliver();
                }
                let delivery = ended(&caller, placed.id).await;
                let seen: Vec<Seen> =
                    world.seen().into_iter().filter(|seen| seen.reference == what).collect();
                hold(&what, declared, (of, cut), &delivery, &seen);
            }
        }
        assert!(running.drain(BOUND).await);
    }
}

fn hold(what: &str, declared: Declared, (of, cut): (Of, Cut), delivery: &Delivery, seen: &[Seen]) {
    let sends = seen.iter().filter(|one| !one.is_question).count();
    let keys: HashSet<&str> = seen.iter().map(|one| one.key.as_str()).collect();
    assert!(keys.len() <= 1, "{what}: {seen:?}");
    // Its attempt is on record, and whoever wrote it was not told so: it was not sent.
    let is_lost = of == Of::TheTake && cut != Cut::Before;
    if is_lost && declared == OPAQUE {
        // Nobody but a person can know that nothing was sent.
        let lapsed =
            matches!(delivery.state, State::Undecided(Ended { with: Reason::LeaseLapsed, .. }));
        assert!(lapsed, "{what}: {delivery:?}");
        assert_eq!((sends, delivery.sends), (0, 1), "{what}");
        return;
    }
    assert!(matches!(delivery.state, State::Succeeded(_)), "{what}: {delivery:?}");
    let questions = seen.iter().take_while(|one| one.is_question).count();
    if declared == DEDUPS {
        // The same bytes are the question, where the outcome came late to the record.
        assert!((1..=2).contains(&sends), "{what}: {seen:?}");
        return;
    }
    assert_eq!(sends, 1, "{what}: {seen:?}");
    if is_lost {
        assert!(questions >= 2, "{what}: it was sent without a question: {seen:?}");
    }
}

/// A transaction that is tried again, since another one was in its way, enqueues the command that was prepared
/// before its first try: its key stays, and it is executed once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b29_a_transaction_that_is_tried_again_keeps_the_key_of_its_command() {
    let database = fresh_database().await;
    migrate(&connect(database.url()).unwrap()).await.unwrap();
    let world = World::new(OPAQUE, |_| Act::Works);
    let (courier, _) = courier_at(database.url(), &world, "psp").await;
    let client = database.client().await.unwrap();
    client
        .batch_execute("create table stock (left_over int); insert into stock values (9)")
        .await
        .unwrap();
    let prepared = courier.prepare(command("psp", "order-1")).await.unwrap();
    let mut tries = 0;
    loop {
        tries += 1;
        let mut connection = courier.store().pool().get().await.unwrap();
        let tx = connection.build_transaction();
        let tx = tx.isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
        tx.query_one("select left_over from stock", &[]).await.unwrap();
        let enqueued = enqueue(&*tx, &prepared.command, &prepared.delivery).await.unwrap();
        assert!(prepared.placed(enqueued).unwrap().is_new, "nothing of the first try stands");
        if tries == 1 {
            // Another connection is quicker.
            client.batch_execute("update stock set left_over = left_over - 1").await.unwrap();
        }
        match tx.execute("update stock set left_over = left_over - 1", &[]).await {
            Ok(_) => break tx.commit().await.unwrap(),
            Err(error) => {
                assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error}");
                tx.rollback().await.unwrap();
            }
        }
    }
    assert_eq!(tries, 2);
    let running = courier.spawn();
    let delivery = ended(&courier, prepared.command.id).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    let keys: Vec<String> = world.sends().into_iter().map(|seen| seen.key).collect();
    assert_eq!(keys, [prepared.command.key.to_string()]);
    assert!(running.drain(BOUND).await);
}

/// Callers go away while they enqueue, over a slow connection and with a tiny pool. No connection stays in a
/// transaction, whoever enqueues after them does so, and of what they enqueued each is there once or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b02_t55_callers_that_go_away_in_an_enqueue_leave_no_connection_in_a_transaction() {
    const GONE: u64 = 120;
    const LATER: usize = 20;
    let database = fresh_database().await;
    migrate(&connect(database.url()).unwrap()).await.unwrap();
    let proxy = Proxy::before(database.url()).unwrap();
    let pool = connect_with(proxy.url(), 2).unwrap();
    let store = PostgresLedger::open(pool, Options::default()).await.unwrap();
    let world = World::new(OPAQUE, |_| Act::Works);
    let destination = Destination::with_limits("psp", world.clone(), limits()).unwrap();
    let setup = Setup::new("test").unwrap().destination(destination);
    let courier = Courier::open(Arc::new(store), setup).await.unwrap();
    proxy.delay(Duration::from_millis(30));
    let callers = (0..GONE).map(|number| {
        let courier = courier.clone();
        async move {
            let enqueuing = courier.enqueue(command("psp", &format!("gone-{number}")));
            // From before its first byte to after its answer.
            let _ = tokio::time::timeout(Duration::from_millis(number), enqueuing).await;
        }
    });
    join_all(callers).await;
    proxy.delay(Duration::ZERO);
    for number in 0..LATER {
        let placed = courier.enqueue(command("psp", &format!("later-{number}"))).await.unwrap();
        assert!(placed.is_new, "later-{number}");
    }
    let client = database.client().await.unwrap();
    let idle = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'";
    let deadline = Instant::now() + BOUND;
    while client.query_one(idle, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(Instant::now() < deadline, "a connection stays in a transaction");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let there = client.query_one("select count(*) from samekey.commands", &[]).await.unwrap();
    let there = usize::try_from(there.get::<_, i64>(0)).unwrap();
    assert!(there >= LATER, "{there}");
    let running = courier.spawn();
    let deadline = Instant::now() + BOUND;
    while usize::try_from(world.effects()).unwrap() < there {
        assert!(Instant::now() < deadline, "{} of {there} were executed", world.effects());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.sends().len(), there, "each that is there, once");
    assert!(running.drain(BOUND).await);
}
