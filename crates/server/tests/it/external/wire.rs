//! External commands with something between them and PostgreSQL.

use super::provider::{Plan, Provider};
use super::world::{Reply, SHORT, answers, pay, plan, scope};
use crate::harness::proxied::{Heard, options};
use samekey::store::postgres::{self, PostgresLedger};
use samekey::{Engine, External, Route, Setup, Signal};
use samekey_core::policy::{Choices, Counterparty};
use samekey_sim::database::FreshDatabase;
use samekey_sim::proxy::{Cut, Proxy, Target};
use samekey_store::Ledger;
use std::time::Duration;

const BODY: &str = r#"{"amount":1200}"#;
/// What the statement of a group of claims begins with, and of settlements.
const CLAIM: Target = Target::Statement("insert into samekey.keys");
const SETTLE: Target = Target::Statement("update samekey.keys");

struct World {
    database: FreshDatabase,
    proxy: Proxy,
    external: External<PostgresLedger>,
    provider: Provider,
    heard: Heard,
}

async fn ledger(url: &str, connections: usize) -> PostgresLedger {
    let pool = postgres::connect_with(url, connections).unwrap();
    PostgresLedger::open(pool, options()).await.unwrap()
}

impl World {
    async fn with(choices: Choices, connections: usize) -> World {
        let database = samekey_sim::database::fresh_database().await;
        postgres::migrate(&postgres::connect(database.url()).unwrap()).await.unwrap();
        let proxy = Proxy::before(database.url()).unwrap();
        let heard = Heard::default();
        let setup: Setup = heard.setup();
        let engine = Engine::with(ledger(proxy.url(), connections).await, setup);
        let provider = Provider::default();
        let route = Route::new("payments", choices).unwrap();
        let external = External::asking(&engine, route, provider.clone()).await.unwrap();
        let world = World { database, proxy, external, provider, heard };
        // Every statement is prepared, so that a fault falls on the one that is meant.
        assert_eq!(world.pay("warm").await.status, 201);
        world
    }

    async fn new() -> World {
        let counterparty = Counterparty::Answers { not_found_after: None };
        World::with(Choices { counterparty, ..Choices::default() }, 2).await
    }

    async fn pay(&self, key: &str) -> Reply {
        pay(&self.external, &self.provider, "alpha", key, BODY).await
    }

    /// Sends as a caller does: the same key until the answer is final.
    async fn pay_until_final(&self, key: &str) -> Reply {
        for _ in 0..600 {
            let reply = self.pay(key).await;
            if reply.status == 201 {
                return reply;
            }
            assert!(matches!(reply.status, 409 | 503), "{reply:?}");
            self.external.recover(plan()).await.ok();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no final answer");
    }

    async fn until(&self, signal: Signal) {
        for _ in 0..1_200 {
            if self.heard.count(signal) > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{signal:?} did not come: {:?}", self.heard.all());
    }

    async fn count(&self, sql: &str) -> i64 {
        self.database.client().await.unwrap().query_one(sql, &[]).await.unwrap().get(0)
    }
}

/// The claim is committed and nobody is told: its owner recognises it and goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b05_a_claim_whose_answer_is_lost_is_recognised_by_its_owner() {
    for cut in [Cut::After, Cut::Before] {
        let world = World::new().await;
        world.proxy.arm(CLAIM, 1, cut);
        let reply = world.pay_until_final("k").await;
        assert_eq!(world.proxy.fired(), 1, "{cut:?}");
        assert_eq!((reply.status, reply.is_replay()), (201, false), "{cut:?}");
        assert_eq!(world.provider.effects(), 2, "{cut:?}, with the one to warm up");
    }
}

/// The settlement is committed and nobody is told, or it never arrived: the answer goes out only once
/// the row says that it stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_t56_t57_a_settlement_whose_answer_is_lost_is_looked_up() {
    for cut in [Cut::After, Cut::Before] {
        let world = World::new().await;
        world.proxy.arm(SETTLE, 1, cut);
        let reply = world.pay("k").await;
        assert_eq!(world.proxy.fired(), 1, "{cut:?}");
        assert_eq!((reply.status, reply.is_replay()), (201, false), "{cut:?}");
        let replay = world.pay("k").await;
        assert_eq!((replay.status, replay.is_replay(), replay.body), (201, true, reply.body));
        assert_eq!(world.provider.effects(), 2);
    }
}

/// The store goes away while the provider is called. The caller is told to come back, the task keeps the
/// answer, and settles when the store is there again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b37_a_store_lost_after_the_work_gets_its_answer_later() {
    let world = World::new().await;
    world.provider.plan(Plan::Wait);
    let (told, ()) = tokio::join!(world.pay("k"), async {
        world.provider.reached().await;
        world.proxy.refuse();
        world.provider.go();
    });
    assert_eq!(told.told(), (409, "samekey.outcome-pending".into()));
    assert_eq!(world.heard.count(Signal::Executed), 1, "only the one to warm up");
    // Without its store nothing runs.
    assert_eq!(world.pay("other").await.told(), (503, "samekey.store-unavailable".into()));
    world.proxy.accept();
    for _ in 0..1_200 {
        if world.heard.count(Signal::Executed) == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let replay = world.pay("k").await;
    assert_eq!((replay.status, replay.is_replay()), (201, true));
    assert_eq!((world.provider.effects(), world.provider.questions().len()), (2, 0));
}

/// A lease that cannot be renewed ends the call before it ends itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p32_without_its_store_a_call_stops_before_its_lease_ends() {
    let world = World::with(Choices { run_max: Duration::from_secs(60), ..answers(None) }, 2).await;
    world.provider.plan(Plan::Hang);
    let began = tokio::time::Instant::now();
    let (told, ()) = tokio::join!(world.pay("k"), async {
        world.provider.reached().await;
        world.proxy.refuse();
    });
    assert_eq!(told.told(), (409, "samekey.outcome-pending".into()));
    assert!(began.elapsed() < Duration::from_secs(30), "it went on for {:?}", began.elapsed());
    world.proxy.accept();
    tokio::time::sleep(SHORT).await;
    assert_eq!(world.pay_until_final("k").await.status, 201);
    assert_eq!(world.provider.effects(), 2);
}

/// S11, and T-47: while calls are made, no transaction is open and no connection is taken; whoever has
/// another key is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s11_t47_no_transaction_is_open_while_calls_are_made() {
    const CALLS: usize = 200;
    let world = World::new().await;
    let mut waiting = Vec::new();
    for number in 0..CALLS {
        world.provider.plan(Plan::Wait);
        let (external, provider) = (world.external.clone(), world.provider.clone());
        waiting.push(tokio::spawn(async move {
            pay(&external, &provider, "alpha", &format!("k{number}"), BODY).await
        }));
    }
    for _ in 0..CALLS {
        world.provider.reached().await;
    }
    let open = "select count(*) from pg_stat_activity where datname = current_database() \
                and pid <> pg_backend_pid() and xact_start is not null";
    for _ in 0..20 {
        assert_eq!(world.count(open).await, 0);
    }
    // Two connections, and two hundred calls on their way: another payment goes through.
    assert_eq!(world.pay("another").await.status, 201);
    for _ in 0..CALLS {
        world.provider.go();
    }
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().status, 201);
    }
    assert_eq!(world.provider.effects(), CALLS + 2);
}

/// A store that takes longer over the claim than the lease lasts: the call was never begun, so nothing is
/// unknown and nobody has to decide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p37_a_call_that_never_began_frees_its_key() {
    let world = World::with(answers(None), 2).await;
    world.proxy.freeze();
    let (told, ()) = tokio::join!(world.pay("k"), async {
        tokio::time::sleep(SHORT * 2).await;
        world.proxy.thaw();
    });
    assert_eq!(told.told(), (503, "samekey.store-unavailable".into()));
    assert_eq!(world.provider.calls().len(), 1, "only the one to warm up");
    let reply = world.pay_until_final("k").await;
    assert_eq!((reply.status, world.provider.effects()), (201, 2));
    assert!(world.provider.questions().is_empty(), "nothing was unknown");
}

/// Where the store fails at every key that is due, recovery rests instead of trying again at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovery_rests_while_its_store_fails() {
    let world = World::new().await;
    world.provider.plan(Plan::LoseAnswer);
    world.pay("k").await;
    let client = world.database.client().await.unwrap();
    let refuse = "create function refuse() returns trigger language plpgsql as
        $$ begin raise exception 'no'; end $$;
        create trigger refuse before update on samekey.keys for each row execute function refuse()";
    client.batch_execute(refuse).await.unwrap();
    let pass = world.external.recover(plan()).await.unwrap();
    assert_eq!((pass.looked_at, pass.failed), (1, 1));
    let before = world.heard.all().len();
    let rests = samekey::RecoveryPlan { every: Duration::from_secs(3600), ..plan() };
    let recovery = world.external.spawn_recovery(rests);
    for _ in 0..400 {
        if world.heard.all().len() > before {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let signals = world.heard.all().len() - before;
    drop(recovery);
    assert_eq!(signals, 1, "one failure, and then a rest");
}

/// An intent that cannot be read (a newer version wrote it, or a hand) is asked about by nobody, runs
/// nothing, and ends with a person.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_that_cannot_be_read_ends_with_a_person() {
    let choices = Choices { questions_max: 1, ..answers(None) };
    let world = World::with(choices, 2).await;
    world.provider.plan(Plan::LoseAnswer);
    world.pay("k").await;
    let client = world.database.client().await.unwrap();
    let damage = "update samekey.open_claims set request = '\\x00ff'";
    assert_eq!(client.execute(damage, &[]).await.unwrap(), 1);
    let pass = world.external.recover(plan()).await.unwrap();
    assert_eq!(pass.handed_over, 1);
    assert!(world.provider.questions().is_empty());
    let record = world.external.store().load(&scope("alpha", "k")).await.unwrap().record;
    assert_eq!(samekey::keys::state_name(&record.state), "review");
    assert_eq!(world.provider.effects(), 2);
    world.until(Signal::HandedOver).await;
}
