//! T-63: a command is held up on the wire, its sender gives up, and it arrives when everybody has been told how
//! it ended.

use super::Counterparty;
use super::world::{BOUND, Judged, Times, World};
use samekey_sim::fresh_database;
use samekey_sim::history::{Answer, Limits};
use samekey_sim::proxy::http::{Cut, Target};
use std::time::{Duration, Instant};

const TIMES: Times = Times { call: 1_000, lease: 1_500, run_max: 2_000 };
const PAY: Target = Target::to("POST", "/payments");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t63_b28_a_late_command_of_an_opaque_upstream_is_one_payment_for_a_person() {
    let (told, judged) = late(Counterparty::Opaque).await;
    assert_eq!(told.code.as_deref(), Some("samekey.outcome-unknown"));
    assert_eq!((judged.recorded, judged.most_sent, judged.questions), (1, 1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t63_b28_not_found_is_no_word_on_a_command_that_may_still_arrive() {
    let (told, judged) = late(Counterparty::AnswersUnbounded).await;
    assert_eq!(told.code.as_deref(), Some("samekey.outcome-unknown"), "it was asked too early");
    assert_eq!((judged.recorded, judged.most_sent), (1, 1));
    assert!(judged.questions > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t63_b28_a_late_command_of_an_upstream_that_deduplicates_is_the_same_payment() {
    let (told, judged) = late(Counterparty::Dedups).await;
    assert_eq!((told.status, told.is_replay), (201, true), "the question had it executed");
    assert_eq!((judged.recorded, judged.most_sent), (1, 2));
}

async fn late(counterparty: Counterparty) -> (Answer, Judged) {
    let database = fresh_database().await;
    let world = World::new(database.url(), counterparty, TIMES).await;
    world.proxy.arm(PAY, 1, Cut::Held);
    let (payment, told) = world.pay().await.unwrap();
    let before = world.upstream.bookings().await.len();
    assert_eq!(before, usize::from(counterparty == Counterparty::Dedups), "it is still on its way");
    world.proxy.deliver();
    let until = Instant::now() + BOUND;
    while world.proxy.sent(PAY).iter().any(|exchange| exchange.answered.is_none()) {
        assert!(Instant::now() < until, "it never arrived");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let limits = Limits {
        may_end_in_review: counterparty != Counterparty::Dedups,
        calls_max: 10,
        transaction_max: Duration::from_secs(2),
        ..Limits::default()
    };
    let judged = world.audit(&[(payment, told.clone())], limits).await;
    judged.hold("a late command");
    (told, judged)
}
