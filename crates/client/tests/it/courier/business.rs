//! A command and the business row that it belongs to, in one transaction.

use super::world::{Act, DEDUPS, OPAQUE, World, command, ended, limits, org};
use samekey_client::core::delivery::State;
use samekey_client::store::outbox::{Outbox, Show};
use samekey_client::store::sqlite::{AtomicEnd, SqliteLedger};
use samekey_client::{Courier, Destination, Error, Kind, Placed, Prepared, Setup};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Writes an order and its command; rolls both back where the order fails or the command is another one.
async fn order(
    store: &SqliteLedger,
    id: &'static str,
    prepared: Prepared,
) -> Result<Placed, Error> {
    let written = store.write_tx(move |tx| {
        let order = tx.connection().execute("insert into orders values (?1)", [id]);
        let placed = tx.enqueue(&prepared.command, &prepared.delivery).map_err(Error::from);
        let placed = placed.and_then(|enqueued| prepared.placed(enqueued));
        match (order, placed) {
            (Ok(_), Ok(placed)) => AtomicEnd::Commit(Ok(placed)),
            (Err(_), Ok(placed)) => AtomicEnd::RollBack(Ok(placed)),
            (_, Err(error)) => AtomicEnd::RollBack(Err(error)),
        }
    });
    written.await.unwrap()
}

#[tokio::test]
async fn p45_a_command_and_its_business_row_are_written_together_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", folder.path().join("shop.db").display());
    SqliteLedger::migrate(&database).unwrap();
    let store = Arc::new(SqliteLedger::open(&database).unwrap());
    let tables = "create table orders (id text primary key)";
    store.write(move |db| AtomicEnd::Commit(db.execute_batch(tables))).await.unwrap().unwrap();
    let world = World::new(DEDUPS, |_| Act::Works);
    let destination = Destination::with_limits("psp", world.clone(), limits()).unwrap();
    let setup = Setup::new("test").unwrap().destination(destination);
    let courier = Courier::open(Arc::clone(&store), setup).await.unwrap();
    let prepared = courier.prepare(command("psp", "order-1")).await.unwrap();
    let key = prepared.command.key;
    let placed = order(&store, "order-1", prepared.clone()).await.unwrap();
    assert_eq!((placed.id, placed.is_new), (prepared.command.id, true));

    // The order is there already, so it fails, and so does the command that was written with it.
    let second = courier.prepare(command("psp", "order-2")).await.unwrap();
    let action = second.command.action.clone();
    order(&store, "order-1", second).await.unwrap();
    assert_eq!(store.latest(&action).await.unwrap(), None);

    // The command is another one, and so the order is not written either.
    let mut other = command("psp", "order-1");
    other.request = "pay order-1 twice".into();
    let other = courier.prepare(other).await.unwrap();
    let refused = order(&store, "order-3", other).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::OtherContent);
    let count = |db: &samekey_client::store::sqlite::rusqlite::Connection| {
        db.query_row("select count(*) from orders", [], |row| row.get::<_, i64>(0))
    };
    assert_eq!(store.write(move |db| AtomicEnd::Commit(count(db))).await.unwrap().unwrap(), 1);
    assert_eq!(store.list(&Show::default(), None, 10).await.unwrap().len(), 1);

    // What was written is delivered, under the key that was drawn for it.
    let running = courier.spawn();
    courier.wake("psp");
    let delivery = ended(&courier, placed.id).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    assert_eq!(store.command(&org(), placed.id).await.unwrap().unwrap().key, key);
    assert_eq!((world.sends().len(), world.sends()[0].key.clone()), (1, key.to_string()));
    assert!(running.drain(limits().time_max).await);
}

/// Sixteen callers enqueue into one file while a courier delivers from it and somebody reads: none of them meets a
/// locked file, and of one action there is one command, whoever enqueued it first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b11_callers_a_courier_and_a_reader_get_along_in_one_file() {
    const CALLERS: usize = 16;
    const EACH: usize = 12;
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", folder.path().join("shop.db").display());
    SqliteLedger::migrate(&database).unwrap();
    let store = Arc::new(SqliteLedger::open(&database).unwrap());
    let world = World::new(OPAQUE, |_| Act::Works);
    let destination = Destination::with_limits("psp", world.clone(), limits()).unwrap();
    let setup = Setup::new("test").unwrap().destination(destination);
    let courier = Courier::open(Arc::clone(&store), setup).await.unwrap();
    let running = courier.spawn();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let courier = courier.clone();
        callers.spawn(async move {
            let mut placed = Vec::new();
            for number in 0..EACH {
                let own = command("psp", &format!("order-{caller}-{number}"));
                placed.push(courier.enqueue(own).await.unwrap());
                courier.store().count_commands().await.unwrap();
            }
            let shared = courier.enqueue(command("psp", "the same for all")).await.unwrap();
            (placed, shared)
        });
    }
    let mut shared = Vec::new();
    while let Some(joined) = callers.join_next().await {
        let (placed, of_all) = joined.unwrap();
        for one in placed {
            assert!(one.is_new);
            assert!(matches!(ended(&courier, one.id).await.state, State::Succeeded(_)));
        }
        shared.push(of_all);
    }
    assert_eq!(shared.iter().filter(|placed| placed.is_new).count(), 1);
    assert!(shared.iter().all(|placed| placed.id == shared[0].id));
    ended(&courier, shared[0].id).await;
    assert_eq!(world.effects(), u32::try_from(CALLERS * EACH + 1).unwrap());
    assert!(running.drain(limits().time_max).await);
}
