//! kill -9 and SIGSTOP, past every lease, of gateways, upstream and PostgreSQL under load.

use super::Counterparty;
use super::world::{Times, World};
use samekey_sim::history::Limits;
use samekey_sim::{Cluster, Options};
use std::time::Duration;
use tokio::task::block_in_place;

/// A call is shorter than its lease, and a lease shorter than a pause.
const TIMES: Times = Times { call: 1_000, lease: 1_500, run_max: 2_000 };
/// Past every lease here.
const PAUSE: Duration = Duration::from_millis(2_500);
/// How many payments end between two faults.
const BETWEEN: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_cluster_t51_t59_t62_nothing_runs_twice_before_an_opaque_upstream() {
    let run = everything_fails(Counterparty::Opaque).await;
    assert_eq!(run.most_sent, 1, "nothing is ever sent again");
    assert!(run.reviews > 0, "nothing was left to a person");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_cluster_t51_t59_t62_every_payment_ends_where_the_upstream_is_asked() {
    let run = everything_fails(Counterparty::Answers).await;
    assert_eq!(run.recorded, run.told, "each payment ran, and ran once");
    assert!(run.recovered > 0 && run.questions > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_cluster_t51_t59_t62_every_payment_ends_where_the_upstream_deduplicates() {
    let run = everything_fails(Counterparty::Dedups).await;
    assert_eq!(run.recorded, run.told, "each payment ran, and ran once");
    assert!(run.recovered > 0 && run.most_sent > 1);
}

struct Run {
    told: usize,
    recorded: usize,
    most_sent: usize,
    questions: usize,
    recovered: usize,
    reviews: usize,
}

async fn everything_fails(counterparty: Counterparty) -> Run {
    assert!(PAUSE > Duration::from_millis(TIMES.lease));
    let mut cluster = block_in_place(|| Cluster::start(Options::new())).expect("a cluster");
    let database = block_in_place(|| cluster.create_database("ledger")).unwrap();
    let mut world = World::new(&database, counterparty, TIMES).await;
    let load = world.load();
    for _ in 0..2 {
        load.until_more_end(BETWEEN).await;
        world.kill_first();
        world.start();
        load.until_more_end(BETWEEN).await;
        world.pause_first(PAUSE).await;
        load.until_more_end(BETWEEN).await;
        world.upstream.kill_and_restart();
        load.until_more_end(BETWEEN).await;
        world.pause_upstream(PAUSE).await;
        load.until_more_end(BETWEEN).await;
        block_in_place(|| {
            cluster.kill_immediately().unwrap();
            cluster.restart().unwrap();
        });
        load.until_more_end(BETWEEN).await;
        block_in_place(|| cluster.freeze()).unwrap();
        tokio::time::sleep(PAUSE).await;
        block_in_place(|| cluster.thaw()).unwrap();
    }
    load.until_more_end(BETWEEN).await;
    let told = load.end().await;
    let limits = Limits {
        may_end_in_review: counterparty == Counterparty::Opaque,
        calls_max: 40,
        // A process that stands still leaves a statement of its own unread for as long.
        transaction_max: Duration::from_secs(2) + PAUSE,
        ..Limits::default()
    };
    let judged = world.audit(&told, limits).await;
    judged.hold("everything fails");
    let reviews = told.iter().filter(|(_, answer)| answer.status == 409).count();
    for (payment, answer) in &told {
        let is_lost = answer.status == 409 && counterparty == Counterparty::Opaque;
        assert!(answer.status == 201 || is_lost, "{payment:?}: {answer:?}");
    }
    // Where a person decides, an owner that wakes up overtakes nobody: it says what it knows.
    let overtaken = match counterparty {
        Counterparty::Opaque => "handed-over",
        Counterparty::Answers | Counterparty::AnswersUnbounded | Counterparty::Dedups => {
            "lease-lost"
        }
    };
    assert!(judged.said(overtaken) > 0, "no owner was ever overtaken");
    let run = Run {
        told: told.len(),
        recorded: judged.recorded,
        most_sent: judged.most_sent,
        questions: judged.questions,
        recovered: judged.said("recovered"),
        reviews,
    };
    println!(
        "{counterparty:?}: {} payments, {} recorded, {} questions, {} recovered, {} freed by proof, {} for a person, {} late owners",
        run.told,
        run.recorded,
        run.questions,
        run.recovered,
        judged.said("freed-by-proof"),
        run.reviews,
        judged.said("lease-lost")
    );
    run
}
