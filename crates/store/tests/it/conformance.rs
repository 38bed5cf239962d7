//! What every ledger promises, as functions over the port. A store runs them all through
//! [`conformance!`](crate::conformance::conformance), each on a fresh, empty ledger.

use crate::records::{
    HOUR, MINUTE, after, done, intent, kept, offer, owner, running, scope, states,
};
use samekey_core::key::Scope;
use samekey_core::lease::Fence;
use samekey_core::record::{Done, Record, State};
use samekey_core::time::Time;
use samekey_store::{Arrived, Kind, LIST_PAGE_MAX, Ledger, SWEEP_BATCH_MAX, Seen, Swap};
use std::sync::Arc;
use std::time::Duration;

/// Moves every row of a store into the past, so that no test has to wait.
pub trait Aging: Send + Sync + 'static {
    /// Takes `by` from every time in every row, or moves the clock on by as much.
    fn age(&self, by: Duration) -> impl Future<Output = ()> + Send;

    /// Between two calls a real clock goes on; one that stands still is moved by the least there is.
    fn tick(&self) {}
}

/// A fresh, empty ledger and what moves its time. Whatever else it needs to live stands in `keep`.
pub struct Fresh<L, A, K> {
    pub ledger: Arc<L>,
    pub aging: A,
    #[allow(dead_code, reason = "it is dropped with the ledger, which is its use")]
    pub keep: K,
}

/// Runs the suite on what `$start().await` gives, a [`Fresh`].
macro_rules! conformance {
    ($start:path) => {
        $crate::conformance::conformance!($start:
            a_key_without_a_row_is_absent,
            the_first_offer_stands_and_the_second_finds_it,
            every_state_comes_back_as_it_was_written,
            a_swap_needs_owner_fence_and_revision,
            a_swap_never_inserts,
            what_no_machine_says_is_refused,
            b25_a_running_row_without_a_lease_is_not_written,
            s15_the_sweep_takes_what_is_finished_and_over,
            s15_open_records_are_never_swept,
            the_sweep_goes_by_batches,
            a_swept_key_begins_anew,
            open_records_are_listed_page_by_page,
            what_is_settled_is_listed_no_more,
            b92_keys_are_compared_byte_by_byte,
            s8_two_orgs_have_their_own_keys,
            one_of_many_offers_stands,
            one_of_many_swaps_stands,
            the_clock_comes_with_the_row,
            intents_are_kept_from_claim_to_settlement,
            what_is_due_is_listed_the_longest_due_first,
            what_waits_for_a_person_is_never_due,
            orgs_are_walked_page_by_page,
            open_records_are_counted_by_route_and_state,
            a_key_that_is_taken_again_has_its_new_intent,
            a_decision_and_its_account_are_one,
            one_of_many_decisions_is_told_of,
            what_is_shared_once_is_the_same_for_all,
            free_rows_are_dropped_after_a_restore,
            b86_of_all_rows_only_the_due_ones_of_the_route_are_listed,
            b10_the_dialogues_read_the_same,
        );
    };
    ($start:path: $($case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let fresh = $start().await;
                $crate::conformance::$case(&fresh.ledger, &fresh.aging).await;
            }
        )*
    };
}
pub(crate) use conformance;

pub use crate::recovering::{
    a_decision_and_its_account_are_one, a_key_that_is_taken_again_has_its_new_intent,
    b86_of_all_rows_only_the_due_ones_of_the_route_are_listed,
    free_rows_are_dropped_after_a_restore, intents_are_kept_from_claim_to_settlement,
    one_of_many_decisions_is_told_of, open_records_are_counted_by_route_and_state,
    orgs_are_walked_page_by_page, what_is_due_is_listed_the_longest_due_first,
    what_is_shared_once_is_the_same_for_all, what_waits_for_a_person_is_never_due,
};

pub fn inserted(arrived: Arrived) -> Seen {
    match arrived {
        Arrived::Inserted(seen) => seen,
        Arrived::Found(_) => panic!("the row was there"),
    }
}

fn found(arrived: Arrived) -> Seen {
    match arrived {
        Arrived::Found(seen) => seen,
        Arrived::Inserted(_) => panic!("the row was not there"),
    }
}

pub fn changed(swap: Swap) -> Seen {
    match swap {
        Swap::Changed(seen) => seen,
        Swap::Written => panic!("the swap was written"),
    }
}

/// Inserts an offer and returns the record as it stands.
async fn claimed<L: Ledger>(ledger: &L, scope: &Scope, number: u8) -> Seen {
    inserted(ledger.insert_or_load(scope, &offer(number), &intent()).await.expect("an answer"))
}

/// Claims, then swaps to this state, to be kept until `keep_until`.
async fn put<L: Ledger>(ledger: &L, scope: &Scope, state: State, keep_until: Time) -> Record {
    let seen = claimed(ledger, scope, 1).await;
    let next = Record { keep_until, ..after(&seen.record, state) };
    let swap = ledger.swap(scope, &seen.record, &next).await.expect("an answer");
    assert_eq!(swap, Swap::Written);
    next
}

async fn now_of<L: Ledger>(ledger: &L) -> Time {
    ledger.load(&scope("org", "any")).await.expect("an answer").now
}

pub async fn stands<L: Ledger>(ledger: &L, scope: &Scope) -> Record {
    ledger.load(scope).await.expect("an answer").record
}

pub async fn a_key_without_a_row_is_absent<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    assert_eq!(stands(&**ledger, &scope("org", "key")).await, Record::ABSENT);
    assert_eq!(ledger.list_open(None, 10).await, Ok(Vec::new()));
    let pass = ledger.sweep(10).await.expect("an answer");
    assert_eq!((pass.removed, pass.more), (0, false));
}

pub async fn the_first_offer_stands_and_the_second_finds_it<L: Ledger, A: Aging>(
    ledger: &Arc<L>,
    _: &A,
) {
    let scope = scope("org", "key");
    let first = claimed(&**ledger, &scope, 1).await;
    assert_eq!(first.record, offer(1).counted_from(first.now), "its times count from the answer's");
    let second =
        found(ledger.insert_or_load(&scope, &offer(2), &intent()).await.expect("an answer"));
    assert_eq!(second.record, first.record);
    assert_eq!(stands(&**ledger, &scope).await, first.record);
}

pub async fn every_state_comes_back_as_it_was_written<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let now = now_of(&**ledger).await;
    for (number, state) in states(now).into_iter().enumerate() {
        let scope = scope("org", &format!("key-{number}"));
        let next = put(&**ledger, &scope, state, now.plus(HOUR)).await;
        assert_eq!(stands(&**ledger, &scope).await, next);
        let again =
            found(ledger.insert_or_load(&scope, &offer(9), &intent()).await.expect("an answer"));
        assert_eq!(again.record, next);
    }
}

pub async fn a_swap_needs_owner_fence_and_revision<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let scope = scope("org", "key");
    let seen = claimed(&**ledger, &scope, 1).await;
    let next = Record { revision: 9, ..after(&seen.record, done(seen.now, 1)) };
    let wrong = [
        Record { holder: owner(2), ..seen.record.clone() },
        Record { fence: Fence::new(2), ..seen.record.clone() },
        Record { fence: Fence::NONE, ..seen.record.clone() },
        Record { revision: 0, ..seen.record.clone() },
        Record { revision: 2, ..seen.record.clone() },
    ];
    for view in &wrong {
        let swap = ledger.swap(&scope, view, &next).await.expect("an answer");
        assert_eq!(changed(swap).record, seen.record, "what stands is told");
        assert_eq!(stands(&**ledger, &scope).await, seen.record, "and stays");
    }
    assert_eq!(ledger.swap(&scope, &seen.record, &next).await, Ok(Swap::Written));
    let late = Record { revision: 10, ..next.clone() };
    let swap = ledger.swap(&scope, &seen.record, &late).await.expect("an answer");
    assert_eq!(changed(swap).record, next, "the same view does not pass twice");
}

pub async fn a_swap_never_inserts<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let scope = scope("org", "key");
    let now = now_of(&**ledger).await;
    let open = running(now, 1);
    let refusal = ledger.swap(&scope, &Record::ABSENT, &open).await.expect_err("a refusal");
    assert_eq!(refusal.kind(), Kind::Misused, "a claim is inserted, with its intent");
    let next = after(&open, State::Free);
    for view in [Record::ABSENT, Record { revision: 0, ..next.clone() }] {
        let swap = ledger.swap(&scope, &view, &next).await.expect("an answer");
        assert_eq!(changed(swap).record, Record::ABSENT);
    }
    assert_eq!(stands(&**ledger, &scope).await, Record::ABSENT);
    assert_eq!(ledger.list_open(None, 10).await, Ok(Vec::new()));
}

pub async fn what_no_machine_says_is_refused<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let scope = scope("org", "key");
    let refusal =
        ledger.insert_or_load(&scope, &Record::ABSENT, &intent()).await.expect_err("a refusal");
    assert_eq!(refusal.kind(), Kind::Misused);
    let seen = claimed(&**ledger, &scope, 1).await;
    let same = Record { revision: seen.record.revision, ..after(&seen.record, State::Free) };
    for next in [Record::ABSENT, same] {
        let refusal = ledger.swap(&scope, &seen.record, &next).await.expect_err("a refusal");
        assert_eq!(refusal.kind(), Kind::Misused);
    }
    assert_eq!(stands(&**ledger, &scope).await, seen.record);
}

/// Its owner would be taken over as soon as it began, and two would run.
pub async fn b25_a_running_row_without_a_lease_is_not_written<L: Ledger, A: Aging>(
    ledger: &Arc<L>,
    _: &A,
) {
    let scope = scope("org", "key");
    let without = |mut record: Record| {
        let State::Running(running) = &mut record.state else { panic!("it does not run") };
        running.lease_ends = running.since;
        record
    };
    let refused = ledger.insert_or_load(&scope, &without(offer(1)), &intent()).await;
    assert_eq!(refused.expect_err("a refusal").kind(), Kind::Misused);
    assert_eq!(stands(&**ledger, &scope).await, Record::ABSENT);
    let seen = claimed(&**ledger, &scope, 1).await;
    let next = without(after(&seen.record, seen.record.state.clone()));
    let refused = ledger.swap(&scope, &seen.record, &next).await.expect_err("a refusal");
    assert_eq!((refused.kind(), stands(&**ledger, &scope).await), (Kind::Misused, seen.record));
}

pub async fn s15_the_sweep_takes_what_is_finished_and_over<L: Ledger, A: Aging>(
    ledger: &Arc<L>,
    aging: &A,
) {
    let now = now_of(&**ledger).await;
    let finished: Vec<State> = states(now).into_iter().filter(|state| !is_open(state)).collect();
    for (number, state) in finished.iter().enumerate() {
        put(&**ledger, &scope("org", &format!("soon-{number}")), state.clone(), now.plus(HOUR))
            .await;
        put(&**ledger, &scope("org", &format!("late-{number}")), state.clone(), now.plus(3 * HOUR))
            .await;
    }
    aging.age(HOUR - MINUTE).await;
    assert_eq!(ledger.sweep(100).await.expect("an answer").removed, 0, "a minute too early");
    aging.age(2 * MINUTE).await;
    let pass = ledger.sweep(100).await.expect("an answer");
    assert_eq!(usize::try_from(pass.removed), Ok(finished.len()));
    for number in 0..finished.len() {
        let soon = scope("org", &format!("soon-{number}"));
        assert_eq!(stands(&**ledger, &soon).await, Record::ABSENT);
        let late = scope("org", &format!("late-{number}"));
        assert_ne!(stands(&**ledger, &late).await, Record::ABSENT);
    }
}

fn is_open(state: &State) -> bool {
    Record { state: state.clone(), ..Record::ABSENT }.is_open()
}

pub async fn s15_open_records_are_never_swept<L: Ledger, A: Aging>(ledger: &Arc<L>, aging: &A) {
    let now = now_of(&**ledger).await;
    let open: Vec<State> = states(now).into_iter().filter(is_open).collect();
    for (number, state) in open.iter().enumerate() {
        put(&**ledger, &scope("org", &format!("key-{number}")), state.clone(), now).await;
    }
    put(&**ledger, &scope("org", "finished"), State::Free, now.plus(HOUR)).await;
    aging.age(10_000 * HOUR).await;
    let pass = ledger.sweep(1).await.expect("an answer");
    assert_eq!(pass.removed, 1, "open rows that come first do not hide a finished one");
    let pass = ledger.sweep(100).await.expect("an answer");
    assert_eq!((pass.removed, pass.more), (0, false));
    for number in 0..open.len() {
        let record = stands(&**ledger, &scope("org", &format!("key-{number}"))).await;
        assert!(record.is_open(), "{number}");
    }
}

pub async fn the_sweep_goes_by_batches<L: Ledger, A: Aging>(ledger: &Arc<L>, aging: &A) {
    let now = now_of(&**ledger).await;
    for number in 0..5_u8 {
        let keep_until = now.plus(MINUTE * u32::from(5 - number));
        put(&**ledger, &scope("org", &format!("key-{number}")), State::Free, keep_until).await;
    }
    aging.age(HOUR).await;
    let first = ledger.sweep(2).await.expect("an answer");
    assert_eq!((first.removed, first.more), (2, true));
    for number in [4, 3] {
        let gone = stands(&**ledger, &scope("org", &format!("key-{number}"))).await;
        assert_eq!(gone, Record::ABSENT, "the oldest go first");
    }
    let second = ledger.sweep(0).await.expect("an answer");
    assert_eq!(
        (second.removed, second.more),
        (1, true),
        "no batch is empty, or a loop would not end"
    );
    let third = ledger.sweep(SWEEP_BATCH_MAX + 1).await.expect("an answer");
    assert_eq!((third.removed, third.more), (2, false));
}

pub async fn a_swept_key_begins_anew<L: Ledger, A: Aging>(ledger: &Arc<L>, aging: &A) {
    let scope = scope("org", "key");
    let now = now_of(&**ledger).await;
    let last = put(&**ledger, &scope, done(now, 1), now.plus(HOUR)).await;
    aging.age(2 * HOUR).await;
    assert_eq!(ledger.sweep(10).await.expect("an answer").removed, 1);
    let next = Record { revision: 9, ..last.clone() };
    let swap = ledger.swap(&scope, &last, &next).await.expect("an answer");
    assert_eq!(changed(swap).record, Record::ABSENT, "a writer of the old life finds nothing");
    claimed(&**ledger, &scope, 2).await;
}

pub async fn open_records_are_listed_page_by_page<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let now = now_of(&**ledger).await;
    let mut open = Vec::new();
    for (number, state) in states(now).into_iter().enumerate() {
        let org = ["b", "a", "c"][number % 3];
        let scope = scope(org, &format!("key-{number:02}"));
        let record = put(&**ledger, &scope, state, now.plus(HOUR)).await;
        if record.is_open() {
            open.push((scope, record));
        }
    }
    open.sort_by(|(left, _), (right, _)| left.cmp(right));
    let mut listed = Vec::new();
    let mut after: Option<Scope> = None;
    for _ in 0..=open.len() {
        let page = ledger.list_open(after.as_ref(), 4).await.expect("an answer");
        assert!(page.len() <= 4);
        let Some(last) = page.last() else { break };
        after = Some(last.scope.clone());
        listed.extend(page.into_iter().map(|open| (open.scope, open.seen.record)));
    }
    assert_eq!(listed, open);
    assert_eq!(ledger.list_open(None, 0).await, Ok(Vec::new()));
    let all = ledger.list_open(None, LIST_PAGE_MAX + 1).await.expect("an answer");
    assert_eq!(all.len(), open.len());
}

pub async fn what_is_settled_is_listed_no_more<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let scope = scope("org", "key");
    let seen = claimed(&**ledger, &scope, 1).await;
    let listed = async || ledger.list_open(None, 10).await.expect("an answer").len();
    assert_eq!(listed().await, 1);
    let free = after(&seen.record, State::Free);
    assert_eq!(ledger.swap(&scope, &seen.record, &free).await, Ok(Swap::Written));
    assert_eq!(listed().await, 0);
    let again = Record { revision: 3, fence: Fence::new(2), ..running(seen.now, 2) };
    let refusal = ledger.swap(&scope, &free, &again).await.expect_err("a refusal");
    assert_eq!(refusal.kind(), Kind::Misused, "recovery would never find it");
    assert_eq!(ledger.reclaim(&scope, &free, &again, &intent()).await, Ok(Swap::Written));
    assert_eq!(listed().await, 1, "a key that runs again is listed again");
    let done = after(&again, done(seen.now, 2));
    assert_eq!(ledger.swap(&scope, &again, &done).await, Ok(Swap::Written));
    assert_eq!(listed().await, 0);
}

pub async fn b92_keys_are_compared_byte_by_byte<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let long = "k".repeat(254);
    let keys = [
        "k1",
        "K1",
        "k1 ",
        " k1",
        "k1  ",
        "k01",
        "k_",
        "k%",
        "k'1",
        "k\"1",
        "k\\1",
        "%s",
        "$1",
        "?1",
        &format!("{long}1"),
        &format!("{long}2"),
        &long,
    ];
    let orgs = ["org", "Org", "org ", "örg", "o\u{308}rg", &"o".repeat(255)];
    let mut number: u8 = 0;
    let mut put = Vec::new();
    for org in orgs {
        for key in keys {
            let scope = scope(org, key);
            number = number.wrapping_add(1);
            put.push((claimed(&**ledger, &scope, number).await.record, scope));
        }
    }
    for (record, scope) in &put {
        assert_eq!(&stands(&**ledger, scope).await, record);
    }
    let listed: Vec<Scope> = ledger
        .list_open(None, LIST_PAGE_MAX)
        .await
        .expect("an answer")
        .into_iter()
        .map(|open| open.scope)
        .collect();
    let mut scopes: Vec<Scope> = put.into_iter().map(|(_, scope)| scope).collect();
    scopes.sort();
    assert_eq!(listed, scopes, "in the order of their bytes");
}

pub async fn s8_two_orgs_have_their_own_keys<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let (left, right) = (scope("left", "key"), scope("right", "key"));
    let of_left = claimed(&**ledger, &left, 1).await;
    let of_right = claimed(&**ledger, &right, 2).await;
    let done = after(&of_left.record, done(of_left.now, 1));
    assert_eq!(ledger.swap(&left, &of_left.record, &done).await, Ok(Swap::Written));
    assert_eq!(stands(&**ledger, &right).await, of_right.record);
    let swap = ledger.swap(&right, &of_left.record, &done).await.expect("an answer");
    assert_eq!(changed(swap).record, of_right.record);
}

pub async fn one_of_many_offers_stands<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let key = scope("org", "key");
    let tasks: Vec<_> = (1..=16_u8)
        .map(|number| {
            let (ledger, key) = (Arc::clone(ledger), key.clone());
            tokio::spawn(
                async move { ledger.insert_or_load(&key, &offer(number), &intent()).await },
            )
        })
        .collect();
    let mut winners = Vec::new();
    let mut seen = Vec::new();
    for task in tasks {
        match task.await.expect("a task").expect("an answer") {
            Arrived::Inserted(one) => winners.push(one.record),
            Arrived::Found(one) => seen.push(one.record),
        }
    }
    assert_eq!(winners.len(), 1);
    assert!(seen.iter().all(|record| record == &winners[0]), "and all others are shown it");
}

pub async fn one_of_many_swaps_stands<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let key = scope("org", "key");
    let seen = claimed(&**ledger, &key, 1).await;
    let tasks: Vec<_> = (0..16_u16)
        .map(|number| {
            let state = State::Done(Done {
                request: crate::records::identity(1),
                since: seen.now,
                receipt: kept(200 + number, b"paid"),
            });
            let next = after(&seen.record, state);
            let (ledger, key, seen) = (Arc::clone(ledger), key.clone(), seen.record.clone());
            tokio::spawn(async move { (ledger.swap(&key, &seen, &next).await, next) })
        })
        .collect();
    let mut winners = Vec::new();
    for task in tasks {
        let (swap, next) = task.await.expect("a task");
        if swap.expect("an answer") == Swap::Written {
            winners.push(next);
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(stands(&**ledger, &key).await, winners[0]);
}

pub async fn the_clock_comes_with_the_row<L: Ledger, A: Aging>(ledger: &Arc<L>, aging: &A) {
    let key = scope("org", "key");
    let seen = claimed(&**ledger, &key, 1).await;
    let State::Running(first) = &seen.record.state else { panic!("it runs") };
    assert_eq!(first.left(seen.now), MINUTE);
    aging.age(2 * MINUTE).await;
    for later in [
        ledger.load(&key).await.expect("an answer"),
        found(ledger.insert_or_load(&key, &offer(2), &intent()).await.expect("an answer")),
        changed(
            ledger
                .swap(&key, &offer(2), &Record { revision: 5, ..offer(3) })
                .await
                .expect("an answer"),
        ),
        ledger.list_open(None, 1).await.expect("an answer").remove(0).seen,
    ] {
        let State::Running(lapsed) = &later.record.state else { panic!("it runs") };
        assert_eq!(lapsed.left(later.now), Duration::ZERO);
        let over = later.now.since(lapsed.lease_ends);
        assert!(over >= MINUTE && over < 2 * MINUTE, "{over:?}");
    }
}

pub async fn b10_the_dialogues_read_the_same<L: Ledger, A: Aging>(ledger: &Arc<L>, aging: &A) {
    let found = crate::dialogues::all(&**ledger, aging).await;
    let clock = samekey_store::memory::HandClock::at(Time::from_micros(1_700_000_000_000_000));
    let oracle = samekey_store::memory::MemoryLedger::with_clock(&clock);
    let expected = crate::dialogues::all(&oracle, &clock).await;
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "the store's line on the left, memory's on the right");
    }
    assert_eq!(found.len(), expected.len());
}
