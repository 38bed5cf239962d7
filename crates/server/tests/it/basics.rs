//! C1: what everybody expects of a key.

use super::harness::{Harness, Which, fresh, on_both};

on_both!(t01_t02_a_retry_gets_the_first_answer);

async fn t01_t02_a_retry_gets_the_first_answer(which: Which) {
    let harness = Harness::start(which).await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    let body = format!(r#"{{"ref":"{reference}","amount":1}}"#);
    let first = harness.post("/orders", &key, &body).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert_eq!(harness.effects(&reference).await, 1);
    let second = harness.post("/orders", &key, &body).await;
    assert!(second.is_replay());
    second.assert_same(&first);
    assert_eq!(harness.effects(&reference).await, 1);
}
