//! The program dies at each crash point under load, on each database.

use crate::harness::Which;
use crate::harness::shop::{Door, Shop, customer, order_of};
use samekey::store::crash::{CRASH_POINTS, Way, points_on};
use samekey_sim::History;
use samekey_sim::Process;
use samekey_sim::history::{Meaning, Sometimes};
use std::time::Duration;

/// Callers at a time.
const CUSTOMERS: usize = 4;
/// Orders of each, a boundary.
const ORDERS: usize = 5;
/// The program lives through this many passes of the armed point and dies at the next one, so that
/// others are at work at the same time.
const PASSES: usize = 3;
/// How long a process may take to die of its own crash.
const DEATH_BOUND: Duration = Duration::from_secs(60);

/// The points that a database's atomic commands pass. PostgreSQL has no writer of ours; the points of
/// external commands are gone through by the tests of `orders`, which have a provider.
fn points(which: Which) -> Vec<&'static str> {
    let mut all = points_on(Way::Atomic);
    match which {
        Which::Sqlite => {}
        Which::Postgres => all.retain(|point| !point.starts_with("writer.")),
    }
    all
}

/// Waits for the death that was armed, and says what it was.
fn dead(process: Process, point: &str) {
    let finished = tokio::task::block_in_place(|| process.wait(DEATH_BOUND)).unwrap();
    assert_eq!(finished.signal(), Some(6), "{point}: {}", finished.stderr);
    let said = format!("crash point {point}: abort");
    assert!(finished.stderr.contains(&said), "{point}: {}", finished.stderr);
}

async fn die_at(shop: &Shop, point: &str, first_amount: usize, history: &History) {
    let (process, address) = shop.start(Some(&format!("{point}:{PASSES}")));
    let door = Door::at(&[address]);
    let customers: Vec<_> = (0..CUSTOMERS)
        .map(|n| {
            let from = first_amount + n * ORDERS;
            tokio::spawn(customer(door.clone(), history.clone(), from..from + ORDERS))
        })
        .collect();
    dead(process, point);
    let (successor, new) = shop.start(None);
    door.replace(address, new);
    for customer in customers {
        customer.await.unwrap();
    }
    drop(successor);
}

/// The sweep is met at the start, by a program that finds more expired keys than one batch takes.
async fn die_in_the_sweep(shop: &Shop, point: &str, amount: usize, history: &History) {
    shop.add_expired(1_500).await;
    // Its first pass comes at once, perhaps before it says where it listens.
    let (process, address) = shop.start(Some(point));
    let door = Door::at(&[address]);
    let customer = tokio::spawn(customer(door.clone(), history.clone(), amount..amount + 1));
    dead(process, point);
    let left = shop.expired_left().await;
    assert_eq!(left, 500, "one batch was swept, and nothing of the next");
    let (_successor, new) = shop.start(None);
    door.replace(address, new);
    customer.await.unwrap();
    crate::harness::reach::until("the rest is swept", || async { shop.expired_left().await == 0 })
        .await;
}

async fn sweep(which: Which) {
    let shop = Shop::fresh(which).await;
    let (history, sometimes) = (History::default(), Sometimes::default());
    {
        // The tables are made, and one order is there.
        let (_process, address) = shop.start(None);
        assert_eq!(order_of("warm", 999_999).send(address).await.unwrap().status, 201);
    }
    let points = points(which);
    assert!(!points.is_empty());
    let mut reached = Vec::new();
    for (n, point) in points.iter().enumerate() {
        let first_amount = 1 + n * CUSTOMERS * ORDERS;
        match *point {
            "sweep.between-batches" => {
                die_in_the_sweep(&shop, point, first_amount, &history).await;
            }
            _ => die_at(&shop, point, first_amount, &history).await,
        }
        reached.push(*point);
        println!("{which:?}: died at {point}");
    }
    assert_eq!(reached, points);
    let effects = shop.effects().await;
    let effects: Vec<_> = effects.into_iter().filter(|e| e.reference != "999999").collect();
    assert_eq!(history.check(&effects, &shop.rows().await, crate::harness::shop::RULES), []);
    let wanted = (points.len() - 1) * CUSTOMERS * ORDERS + 1;
    assert_eq!(effects.len(), wanted, "orders and effects");
    for attempt in history.attempts() {
        match attempt.answer {
            None => sometimes.saw("an answer was lost"),
            // A lost first answer that was stored is found by its retry.
            Some(answer) if answer.is_replay => sometimes.saw("a retry found a committed row"),
            Some(answer) if answer.meaning() == Meaning::Success => sometimes.saw("a first run"),
            Some(_) => sometimes.saw("something else"),
        }
    }
    println!(
        "{which:?}: {} boundaries, {} orders, {:?}",
        reached.len(),
        wanted,
        sometimes.counts()
    );
    let wanted = ["an answer was lost", "a retry found a committed row", "a first run"];
    assert_eq!(sometimes.missing(&wanted), [""; 0]);
}

/// T-51 and B25 are among these: the program dies inside the transaction, during the handler, and
/// nothing is left that would have to lapse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p02_t51_b25_a_death_at_any_boundary_on_sqlite() {
    sweep(Which::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p02_t51_b25_a_death_at_any_boundary_on_postgres() {
    sweep(Which::Postgres).await;
}

/// Every point of the list is in one of the two runs, or is one of those for which the sweeps of `orders`
/// say the same.
#[test]
fn the_runs_go_through_the_whole_list() {
    let others = [points_on(Way::External), points_on(Way::Courier)];
    assert!(others.iter().all(|points| !points.is_empty()));
    let mut both = [points(Which::Sqlite), points(Which::Postgres), others.concat()].concat();
    both.sort_unstable();
    both.dedup();
    let mut all = CRASH_POINTS.to_vec();
    all.sort_unstable();
    assert_eq!(both, all);
}

/// A group of SQLite is committed, and its callers are told that nobody knows. Each asks again with its
/// own claim and finds its row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_a_group_whose_commit_is_unknown_is_found_on_sqlite() {
    let shop = Shop::fresh(Which::Sqlite).await;
    let history = History::default();
    let (process, address) = shop.start(Some("writer.after-commit:6=error"));
    let door = Door::at(&[address]);
    let customers: Vec<_> = (0..CUSTOMERS)
        .map(|n| {
            let from = 1 + n * ORDERS;
            tokio::spawn(customer(door.clone(), history.clone(), from..from + ORDERS))
        })
        .collect();
    for customer in customers {
        customer.await.unwrap();
    }
    let said = process.stderr();
    assert!(said.contains("crash point writer.after-commit: error"), "{said}");
    assert!(said.contains("commit-unknown"), "{said}");
    for attempt in history.attempts() {
        let answer = attempt.answer.expect("an answer");
        assert_eq!(answer.meaning(), Meaning::Success, "{answer:?}");
    }
    assert_eq!(shop.effects().await.len(), CUSTOMERS * ORDERS);
    assert_eq!(shop.violations(&history).await, []);
}

/// T-51: kill -9 from outside, at moments that nobody chose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t51_kill_nine_at_any_moment() {
    const ROUNDS: u64 = 6;
    for which in [Which::Sqlite, Which::Postgres] {
        let shop = Shop::fresh(which).await;
        let history = History::default();
        let (mut process, mut address) = shop.start(None);
        let door = Door::at(&[address]);
        let customers: Vec<_> = (0..CUSTOMERS)
            .map(|n| {
                let from = 1 + n * 1_000;
                tokio::spawn(customer(door.clone(), history.clone(), from..from + 60))
            })
            .collect();
        for round in 0..ROUNDS {
            tokio::time::sleep(Duration::from_millis(20 + 13 * round)).await;
            tokio::task::block_in_place(|| process.kill()).unwrap();
            let (successor, new) = shop.start(None);
            door.replace(address, new);
            (process, address) = (successor, new);
        }
        for customer in customers {
            customer.await.unwrap();
        }
        assert_eq!(shop.effects().await.len(), CUSTOMERS * 60);
        assert_eq!(shop.violations(&history).await, []);
        drop(process);
    }
}
