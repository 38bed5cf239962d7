//! Two real processes on one database.

use super::client::order;
use super::on_both;
use super::program::{Database, Which};
use samekey_sim::process::END_BOUND;

on_both!(b98_a_second_process_replays_what_the_first_stored, b98_a_restart_forgets_nothing);

async fn b98_a_second_process_replays_what_the_first_stored(which: Which) {
    let database = Database::fresh(which).await;
    let (one, other) = (database.serve(&[]), database.serve(&[]));
    let first = order(one.address, "alpha-token", "k-1", r#"{"amount": 1200}"#).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    let again = order(other.address, "alpha-token", "k-1", r#"{"amount": 1200}"#).await;
    assert_eq!((again.status, again.is_replay(), &again.body), (200, true, &first.body));
    // And the other way round, many at once, one process against the other.
    for round in 0..20 {
        let key = format!("k-both-{round}");
        let (a, b) = tokio::join!(
            order(one.address, "alpha-token", &key, r#"{"amount": 1}"#),
            order(other.address, "alpha-token", &key, r#"{"amount": 1}"#),
        );
        // One runs; the other waits for it, and on a very busy machine is told to come back.
        let (ran, other) = if a.status == 201 { (a, b) } else { (b, a) };
        assert_eq!((ran.status, ran.is_replay()), (201, false), "round {round}: {other:?}");
        let other = match other.status {
            409 => {
                assert_eq!(other.json()["code"], "samekey.in-progress");
                order(one.address, "alpha-token", &key, r#"{"amount": 1}"#).await
            }
            _ => other,
        };
        assert_eq!((other.status, other.is_replay()), (200, true), "round {round}");
        assert_eq!(other.body, ran.body);
    }
}

async fn b98_a_restart_forgets_nothing(which: Which) {
    let database = Database::fresh(which).await;
    let shop = database.serve(&[]);
    let first = order(shop.address, "alpha-token", "k-1", r#"{"amount": 1200}"#).await;
    shop.process.terminate().unwrap();
    let ended = shop.process.wait(END_BOUND).unwrap();
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""));
    let shop = database.serve(&[]);
    let again = order(shop.address, "alpha-token", "k-1", r#"{"amount": 1200}"#).await;
    assert_eq!((again.status, again.is_replay(), &again.body), (200, true, &first.body));
}
