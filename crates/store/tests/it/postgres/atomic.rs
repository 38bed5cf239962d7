//! The caller's transaction.

use super::Fixture;
use crate::records::{after, done, offer, scope};
use samekey_core::record::State;
use samekey_store::atomic::{AtomicLedger, Begun, OpenTransaction};
use samekey_store::{Kind, Ledger, Swap};
use std::time::Duration;

const WAIT: Duration = Duration::from_millis(200);

async fn with_payments() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.execute("create table payments (amount bigint not null)").await;
    fixture
}

#[tokio::test]
async fn s4_the_effect_and_the_key_are_committed_together() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let Begun::Claimed(open, seen) = fixture.ledger.begin(&key, &offer(1), WAIT).await.unwrap()
    else {
        panic!("not claimed")
    };
    assert_eq!(fixture.number("select count(*) from samekey.keys").await, 0);
    open.tx().execute("insert into payments values (7)", &[]).await.unwrap();
    let next = after(&seen.record, done(seen.now, 1));
    open.settle(&key, &seen.record, &next).await.unwrap();
    assert_eq!(fixture.number("select sum(amount)::bigint from payments").await, 7);
    assert_eq!(fixture.ledger.load(&key).await.unwrap().record, next);

    let Begun::Found(open, found) = fixture.ledger.begin(&key, &offer(2), WAIT).await.unwrap()
    else {
        panic!("not found")
    };
    assert_eq!(found.record, next);
    open.roll_back().await.unwrap();
    assert_eq!(fixture.idle_in_transaction().await, 0);
}
