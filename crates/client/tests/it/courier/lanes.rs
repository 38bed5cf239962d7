//! What is taken, and when.

use super::world::{
    ANSWERS, Act, DEDUPS, Heeded, OPAQUE, Seen, World, command, courier, courier_on, down, ended,
    limits, org, says, until,
};
use samekey_client::core::delivery::{Reason, State};
use samekey_client::core::key::Org;
use samekey_client::core::outcome::{NotRun, Outcome, Told};
use samekey_client::core::profile::Limits;
use samekey_client::store::memory::MemoryLedger;
use samekey_client::store::outbox::{CommandId, Outbox};
use samekey_client::{Courier, Destination, Setup, Signal};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

async fn until_all_ended(store: &MemoryLedger) {
    let ends = Instant::now() + Duration::from_secs(60);
    loop {
        let open: u64 = store
            .count_commands()
            .await
            .unwrap()
            .iter()
            .filter(|count| !matches!(count.state.as_str(), "failed" | "undecided"))
            .map(|count| count.count)
            .sum();
        if open == 0 {
            return;
        }
        assert!(Instant::now() < ends, "{open} are still open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn p56_t78_a_credential_that_is_not_accepted_pauses_and_burns_nothing() {
    let is_mended = Arc::new(AtomicBool::new(false));
    let look = is_mended.clone();
    let world = World::new(OPAQUE, move |_| {
        if look.load(Ordering::SeqCst) {
            Act::Works
        } else {
            says(Outcome::NotAccepted(Reason::NotAccepted))
        }
    });
    let (courier, heeded) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let mut ids = Vec::new();
    for number in 0..20 {
        let placed = courier.enqueue(command("psp", &format!("order-{number}"))).await.unwrap();
        ids.push(placed.id);
    }
    let ends = Instant::now() + Duration::from_secs(10);
    while heeded.count(Signal::NotAccepted) < 9 && Instant::now() < ends {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(heeded.count(Signal::NotAccepted) >= 9, "nobody is told");
    // Eight were on their way together; from then on one probe at a time goes out.
    assert!(world.sends().len() <= 12, "{}", world.sends().len());
    for id in &ids {
        let delivery = courier.delivery(&org(), *id).await.unwrap().unwrap();
        assert!(delivery.is_open(), "{delivery:?}");
        assert!(delivery.attempts <= 1, "the one on its way at the most: {delivery:?}");
    }
    is_mended.store(true, Ordering::SeqCst);
    for id in ids {
        let delivery = ended(&courier, id).await;
        assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
        assert_eq!(delivery.attempts, 1, "refused attempts do not count: {delivery:?}");
    }
}

/// How many commands wait for the end of the outage. The memory store looks through all of them at every
/// step, so that ten thousand take it minutes in a debug build.
const WAITING: usize = 3_000;
/// Sends into the outage: those that were on their way when the gate shut, what the budget had at the
/// start and gets in the time, and a probe every time.
const SENDS_INTO_OUTAGE_MAX: usize = 32 + 10 + 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p62_t75_an_outage_is_sat_out_with_few_sends_and_then_everything_succeeds() {
    let opens = Instant::now() + Duration::from_secs(6);
    let world = World::new(OPAQUE, move |_| {
        if Instant::now() < opens {
            return down();
        }
        Act::Slow(Duration::from_millis(1))
    });
    let store = Arc::new(MemoryLedger::new());
    let destination = Destination::with_limits(
        "psp",
        world.clone(),
        // A machine that is busy with other tests is no outage.
        Limits {
            time_max: Duration::from_secs(120),
            attempt_time_max: Duration::from_secs(10),
            lease: Duration::from_secs(20),
            ..limits()
        },
    );
    let heeded = Heeded::default();
    let setup = Setup::new("test")
        .unwrap()
        .destination(destination.unwrap().concurrency(32).unwrap())
        .listener(heeded.listener());
    let courier = Courier::open(store.clone(), setup).await.unwrap();
    for number in 0..WAITING {
        courier.enqueue(command("psp", &format!("order-{number}"))).await.unwrap();
    }
    let _running = courier.spawn();
    until_all_ended(&store).await;
    assert_eq!(world.effects(), u32::try_from(WAITING).unwrap(), "each once");
    let sends = world.sends();
    let early = sends.iter().filter(|seen| seen.at < opens).count();
    assert!(early <= SENDS_INTO_OUTAGE_MAX, "{early} sends into an outage");
    assert_eq!(sends.len(), early + WAITING, "no second collapse");
    assert!(heeded.has(Signal::GateShut) && heeded.has(Signal::GateOpened));
    assert_eq!(heeded.count(Signal::Succeeded), WAITING);
    grow_and_differ(&sends);
}

/// The gaps of a command that was sent several times grow, and two commands do not share them.
fn grow_and_differ(sends: &[Seen]) {
    let mut by_reference: HashMap<&str, Vec<Instant>> = HashMap::new();
    for seen in sends {
        by_reference.entry(&seen.reference).or_default().push(seen.at);
    }
    let firsts: HashSet<Duration> = by_reference
        .values()
        .filter_map(|at| Some(at.get(1)?.duration_since(*at.first()?)))
        .collect();
    assert!(firsts.len() > 3, "{firsts:?}");
}

#[tokio::test]
async fn down_for_good_everything_ends_with_a_reason() {
    let world = World::new(OPAQUE, |_| down());
    let mut short = limits();
    short.time_max = Duration::from_secs(2);
    let store = Arc::new(MemoryLedger::new());
    let (courier, heeded) = courier_on(store.clone(), &world, short).await;
    for number in 0..600 {
        courier.enqueue(command("psp", &format!("order-{number}"))).await.unwrap();
    }
    let _running = courier.spawn();
    until_all_ended(&store).await;
    let failed = heeded.count(Signal::Failed(Reason::TimeOver));
    assert_eq!(failed, 600);
    assert!(world.sends().len() < 60, "{}", world.sends().len());
}

#[tokio::test]
async fn b73_one_destination_that_wants_to_be_left_alone_keeps_no_other_waiting() {
    let far = Told {
        what: Outcome::NotRun(NotRun::RateLimited),
        retry_after: Some(Duration::from_secs(999_999)),
    };
    let busy = World::new(OPAQUE, move |_| Act::Says(far.clone()));
    let good = World::new(OPAQUE, |_| Act::Works);
    let setup = Setup::new("test")
        .unwrap()
        .destination(Destination::with_limits("busy", busy.clone(), limits()).unwrap())
        .destination(Destination::with_limits("psp", good.clone(), limits()).unwrap());
    let courier = Courier::open(Arc::new(MemoryLedger::new()), setup).await.unwrap();
    let _running = courier.spawn();
    let first = courier.enqueue(command("busy", "order-0")).await.unwrap();
    let mut ids = Vec::new();
    for number in 0..50 {
        let placed = courier.enqueue(command("psp", &format!("order-{number}"))).await.unwrap();
        ids.push(placed.id);
    }
    for id in ids {
        assert!(matches!(ended(&courier, id).await.state, State::Succeeded(_)));
    }
    let delivery = ended(&courier, first.id).await;
    let State::Failed(ended) = &delivery.state else { panic!("{delivery:?}") };
    assert_eq!(ended.with, Reason::TimeOver, "the wait is longer than its time");
    assert_eq!(delivery.last, Some(Reason::RateLimited));
    assert_eq!(busy.sends().len(), 1);
}

#[tokio::test]
async fn p63_b44_commands_of_one_order_go_one_after_the_other() {
    let mut refusals = 1;
    let world = World::new(OPAQUE, move |order| {
        if order.command.action.business_ref == "create" && refusals > 0 {
            refusals -= 1;
            return down();
        }
        Act::Slow(Duration::from_millis(20))
    });
    let (courier, _) = courier(&world, limits()).await;
    let mut ids = Vec::new();
    for step in ["create", "capture", "cancel"] {
        let mut new = command("psp", step);
        new.order_key = Some("order-1".to_owned());
        ids.push(courier.enqueue(new).await.unwrap().id);
    }
    let other = courier.enqueue(command("psp", "elsewhere")).await.unwrap();
    let _running = courier.spawn();
    ids.push(other.id);
    for id in ids {
        assert!(matches!(ended(&courier, id).await.state, State::Succeeded(_)));
    }
    let order: Vec<String> = world.sends().into_iter().map(|seen| seen.reference).collect();
    let chain: Vec<&str> =
        order.iter().map(String::as_str).filter(|step| *step != "elsewhere").collect();
    assert_eq!(chain, ["create", "create", "capture", "cancel"]);
    let place = order.iter().position(|step| step == "elsewhere").unwrap();
    assert!(place <= 1, "another order is not held up: {order:?}");
}

#[tokio::test]
async fn t84_two_couriers_share_the_work_and_send_nothing_twice() {
    let world = World::new(ANSWERS, |_| Act::Slow(Duration::from_millis(2)));
    let store = Arc::new(MemoryLedger::new());
    let (one, heeded) = courier_on(store.clone(), &world, limits()).await;
    let (two, _) = courier_on(store.clone(), &world, limits()).await;
    for number in 0..1_000 {
        one.enqueue(command("psp", &format!("order-{number}"))).await.unwrap();
    }
    let _running = (one.spawn(), two.spawn());
    until_all_ended(&store).await;
    assert_eq!((world.sends().len(), world.effects()), (1_000, 1_000));
    let share = heeded.count(Signal::Succeeded);
    assert!((100..=900).contains(&share), "{share} of 1000 by the first");
}

#[tokio::test]
async fn b62_who_is_asked_to_stop_ends_what_is_on_its_way() {
    let world = World::new(OPAQUE, |_| Act::Slow(Duration::from_millis(150)));
    let (courier, _) = courier(&world, limits()).await;
    let running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    until(&courier, placed.id, |delivery| matches!(delivery.state, State::Sending(_))).await;
    assert!(running.drain(Duration::from_secs(10)).await);
    let delivery = courier.delivery(&org(), placed.id).await.unwrap().unwrap();
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
}

/// A command whose first courier is gone in the middle of its attempt.
async fn left_behind(world: &World, store: &Arc<MemoryLedger>) -> CommandId {
    let lost =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, _) = courier_on(store.clone(), world, limits()).await;
    let placed = first.enqueue(command("psp", "order-1")).await.unwrap();
    let begun = first.clone();
    let running = lost.spawn(async move { begun.spawn() }).await.unwrap();
    until(&first, placed.id, |delivery| matches!(delivery.state, State::Sending(_))).await;
    // The process is gone with everything that it had on its way.
    lost.shutdown_background();
    std::mem::forget(running);
    placed.id
}

async fn words(store: &MemoryLedger, id: CommandId) -> Vec<String> {
    let notes = store.attempts(&org(), id).await.unwrap();
    notes.into_iter().map(|note| note.came_to).collect()
}

#[tokio::test]
async fn p57_b28_a_take_over_after_the_lease_sends_the_same_key_once_more() {
    let mut left = vec![Act::Works, Act::Hangs];
    let world = World::new(DEDUPS, move |_| left.pop().unwrap());
    let store = Arc::new(MemoryLedger::new());
    let id = left_behind(&world, &store).await;
    let (second, heeded) = courier_on(store.clone(), &world, limits()).await;
    let _running = second.spawn();
    let delivery = ended(&second, id).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    assert!(heeded.has(Signal::Lapsed));
    assert_eq!(words(&store, id).await, ["lease-lapsed", "done"]);
    assert_eq!((world.sends().len(), world.effects()), (2, 1));
}

#[tokio::test]
async fn p57_an_attempt_that_lapsed_is_in_the_list_also_where_nothing_follows_it() {
    let world = World::new(OPAQUE, |_| Act::Hangs);
    let store = Arc::new(MemoryLedger::new());
    let id = left_behind(&world, &store).await;
    let (second, _) = courier_on(store.clone(), &world, limits()).await;
    let running = second.spawn();
    let delivery = ended(&second, id).await;
    assert!(matches!(delivery.state, State::Undecided(_)), "{delivery:?}");
    assert!(running.drain(Duration::from_secs(10)).await);
    assert_eq!(words(&store, id).await, ["lease-lapsed"]);
    assert_eq!((world.sends().len(), world.effects()), (1, 1));
}

#[tokio::test]
async fn p64_a_database_of_another_environment_is_refused() {
    let world = World::new(OPAQUE, |_| Act::Works);
    let store = Arc::new(MemoryLedger::new());
    let (_courier, _) = courier_on(store.clone(), &world, limits()).await;
    let setup = Setup::new("staging").unwrap();
    let error = Courier::open(store, setup).await.err().unwrap();
    assert_eq!(error.kind(), samekey_client::Kind::OtherEnvironment);
    let said = error.to_string();
    assert!(said.contains("`test`") && said.contains("`staging`"), "{said}");
}

#[tokio::test]
async fn p55_t82_a_counterparty_that_forgets_too_soon_is_refused_at_the_start() {
    let world = World::new(
        samekey_client::core::profile::Declared {
            dedups: Some(Duration::from_secs(5)),
            answers: None,
        },
        |_| Act::Works,
    );
    let error = Destination::with_limits("psp", world, limits()).err().unwrap();
    assert_eq!(error.kind(), samekey_client::Kind::Config);
    assert!(error.to_string().contains("remembers a key"), "{error}");
}

#[tokio::test]
async fn b43_what_always_fails_keeps_nothing_else_waiting() {
    let bad = World::new(OPAQUE, |_| says(Outcome::NotRun(NotRun::NotProcessed)));
    let good = World::new(OPAQUE, |_| Act::Works);
    let few = Limits { attempts_max: 3, time_max: Duration::from_secs(5), ..limits() };
    let setup = Setup::new("test")
        .unwrap()
        .destination(Destination::with_limits("bad", bad.clone(), few).unwrap())
        .destination(Destination::with_limits("psp", good.clone(), limits()).unwrap());
    let store = Arc::new(MemoryLedger::new());
    let courier = Courier::open(store.clone(), setup).await.unwrap();
    let mut failing = Vec::new();
    for number in 0..10 {
        failing.push(courier.enqueue(command("bad", &format!("bad-{number}"))).await.unwrap().id);
    }
    let mut working = Vec::new();
    for number in 0..100 {
        working.push(courier.enqueue(command("psp", &format!("good-{number}"))).await.unwrap().id);
    }
    let _running = courier.spawn();
    for id in working {
        assert!(matches!(ended(&courier, id).await.state, State::Succeeded(_)));
    }
    let still_open = store.count_commands().await.unwrap();
    assert!(still_open.iter().any(|count| count.destination == "bad"), "{still_open:?}");
    for id in failing {
        let delivery = ended(&courier, id).await;
        assert!(matches!(delivery.state, State::Failed(_)), "{delivery:?}");
        assert_eq!(delivery.last, Some(Reason::NotProcessed));
    }
    assert_eq!(bad.effects(), 0);
}

#[tokio::test]
async fn b43_an_organisation_that_comes_late_waits_for_no_backlog_of_another() {
    let world = World::new(OPAQUE, |_| Act::Slow(Duration::from_millis(2)));
    let setup = Setup::new("test").unwrap().destination(
        Destination::with_limits("psp", world.clone(), limits()).unwrap().concurrency(2).unwrap(),
    );
    let courier = Courier::open(Arc::new(MemoryLedger::new()), setup).await.unwrap();
    for number in 0..3000 {
        courier.enqueue(command("psp", &format!("backlog-{number}"))).await.unwrap();
    }
    let _running = courier.spawn();
    let ends = Instant::now() + Duration::from_secs(30);
    while world.sends().len() < 10 {
        assert!(Instant::now() < ends, "nothing was sent");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut late = command("psp", "late");
    late.org = Org::new("org-2").unwrap();
    let before = world.sends().len();
    courier.enqueue(late).await.unwrap();
    let at = loop {
        if let Some(at) = world.sends().iter().position(|seen| seen.reference == "late") {
            break at;
        }
        assert!(Instant::now() < ends, "it was never sent");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    // What was sent before its turn came is a few turns' worth, and nothing like the backlog.
    assert!(at - before < 1000, "{} of another organisation went first", at - before);
}

#[tokio::test]
async fn b32_what_is_scheduled_holds_no_lease_and_a_lease_is_longer_than_an_attempt() {
    let too_short = Limits { lease: limits().attempt_time_max, ..limits() };
    let world = World::new(OPAQUE, |_| Act::Works);
    let error = Destination::with_limits("psp", world.clone(), too_short).err().unwrap();
    assert!(error.to_string().contains("shorter than an attempt"), "{error}");
    let store = Arc::new(MemoryLedger::new());
    let (one, _) = courier_on(store.clone(), &world, limits()).await;
    let (two, _) = courier_on(store.clone(), &world, limits()).await;
    let (three, _) = courier_on(store, &world, limits()).await;
    let mut later = command("psp", "order-1");
    // Longer than a lease.
    later.delay = limits().lease * 2;
    let began = Instant::now();
    let placed = one.enqueue(later).await.unwrap();
    let _running = (one.spawn(), two.spawn(), three.spawn());
    let delivery = ended(&one, placed.id).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    assert_eq!((world.sends().len(), world.effects()), (1, 1));
    assert!(world.sends()[0].at.duration_since(began) >= limits().lease * 2);
}

#[tokio::test]
async fn b46_a_refund_and_its_retry_are_one_and_a_second_wanted_one_is_another() {
    let mut lost = true;
    let world =
        World::new(
            DEDUPS,
            move |_| {
                if std::mem::take(&mut lost) { Act::AnswerLost } else { Act::Works }
            },
        );
    let (courier, _) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let refund = |number: u32| {
        let mut refund = command("psp", &format!("refund-{number} of order-1"));
        refund.operation = "refund".to_owned();
        refund.request = "10.00".into();
        refund
    };
    let first = courier.enqueue(refund(1)).await.unwrap();
    let again = courier.enqueue(refund(1)).await.unwrap();
    let second = courier.enqueue(refund(2)).await.unwrap();
    assert_eq!(first.id, again.id);
    for id in [first.id, second.id] {
        assert!(matches!(ended(&courier, id).await.state, State::Succeeded(_)));
    }
    assert_eq!((world.sends().len(), world.effects()), (3, 2), "two refunds, one of them retried");
}

/// Two workers with one call at a time each, and many more commands than fit into a lease: a lease runs from the
/// start of a call, so nobody takes over what only waits for its turn.
#[tokio::test]
async fn b08_slow_calls_are_made_one_at_a_time_and_each_command_is_sent_once() {
    const CALL: Duration = Duration::from_millis(40);
    const COMMANDS: usize = 50;
    let world = World::new(OPAQUE, |_| Act::Slow(CALL));
    let store = Arc::new(MemoryLedger::new());
    let mut running = Vec::new();
    let mut first = None;
    for _ in 0..2 {
        let psp = Destination::with_limits("psp", world.clone(), limits()).unwrap();
        let setup = Setup::new("test").unwrap().destination(psp.concurrency(1).unwrap());
        let courier = Courier::open(store.clone(), setup).await.unwrap();
        running.push(courier.spawn());
        first.get_or_insert(courier);
    }
    // All of them take three leases.
    assert!(CALL * u32::try_from(COMMANDS).unwrap() / 2 > limits().lease);
    let courier = first.unwrap();
    for number in 0..COMMANDS {
        courier.enqueue(command("psp", &format!("order-{number}"))).await.unwrap();
    }
    until_all_ended(&store).await;
    let sends = world.sends();
    assert_eq!((sends.len(), world.effects()), (COMMANDS, u32::try_from(COMMANDS).unwrap()));
    // Of three sends in a row, the third began when the first had ended.
    let apart = sends.windows(3).all(|three| three[2].at - three[0].at >= CALL);
    assert!(apart, "more than two calls at a time");
}

/// Some commands of a destination that works fail again and again. Their retries are paid for by what succeeds, and
/// so nobody else is held up by them: without a budget they would be most of what is sent, and shut the gate.
#[tokio::test]
async fn p62_retries_are_paid_for_by_what_succeeds() {
    const GOOD: usize = 240;
    const BAD: usize = 10;
    let world = World::new(OPAQUE, |order| {
        if order.command.action.business_ref.starts_with("bad") {
            return says(Outcome::NotRun(NotRun::NotProcessed));
        }
        Act::Works
    });
    let mut often = limits();
    often.backoff.base = Duration::from_millis(100);
    often.backoff.cap = Duration::from_millis(100);
    often.attempts_max = 1_000;
    let (courier, heeded) = courier(&world, often).await;
    let _running = courier.spawn();
    let began = Instant::now();
    for number in 0..GOOD {
        courier.enqueue(command("psp", &format!("good-{number}"))).await.unwrap();
        // Not all in the beginning, and not before it is known that it works.
        if number % 10 == 9 && number / 10 > 0 && number / 10 <= BAD {
            courier.enqueue(command("psp", &format!("bad-{number}"))).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let is_bad = |seen: &Seen| seen.reference.starts_with("bad");
    let sends = world.sends().iter().filter(|seen| is_bad(seen)).count();
    let by_time = usize::try_from(began.elapsed().as_secs() / 5).unwrap() + 1;
    let paid = 10 + GOOD / 5 + by_time;
    assert!(sends <= BAD + paid, "{sends} sends of {BAD}, and {paid} retries were paid for");
    assert!(sends > 2 * BAD, "they are tried again: {sends}");
    assert!(!heeded.has(Signal::GateShut), "others were held up");
}
