//! The zombie: a payment that reaches the provider after recovery was told that there is none. No lock
//! and no number of ours binds the provider, so what happens then is by what was declared of it.

use super::on_both;
use super::program::Which;
use super::provider::posts;
use super::world::{BOUND, Judged, PAY, Payment, World};
use futures_util::future::join_all;
use samekey_lab::Lab;
use samekey_lab::payments::Op;
use samekey_sim::history::{Limits, Meaning, Sometimes, sometimes};
use samekey_sim::proxy::http::Cut;
use std::time::Duration;
use tokio::task::block_in_place;

on_both!(
    t63_b28_a_request_that_was_late_on_the_wire_is_one_payment_at_the_most,
    t63_b28_an_owner_that_slept_before_it_sent_sends_no_more,
    p26_t63_an_answer_that_comes_when_its_key_was_freed_raises_the_alarm,
    t63_an_owner_that_sent_nothing_and_whose_key_was_freed_raises_none,
);

/// What these runs have to have met.
pub const MET: &[&str] = &[sometimes::LATE_REQUEST, sometimes::REVIEW];

/// What is declared of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Declared {
    /// It deduplicates by key.
    Dedups,
    /// It can be asked, and nothing is on its way for longer than the bound.
    AnswersWithin,
    /// It can be asked, and nobody knows for how long a request may be on its way.
    Answers,
    /// It cannot be asked.
    Opaque,
}

impl Declared {
    const ALL: [Declared; 4] =
        [Declared::Dedups, Declared::AnswersWithin, Declared::Answers, Declared::Opaque];

    fn flags(self) -> Vec<&'static str> {
        let mut flags = vec!["--payment-lease-ms", "1500", "--call-timeout-ms", "1200"];
        flags.extend_from_slice(match self {
            Declared::Dedups => &["--counterparty", "dedups"],
            Declared::AnswersWithin => &["--not-found-after-ms", "4000"],
            Declared::Answers => &[],
            Declared::Opaque => &["--counterparty", "opaque"],
        });
        flags
    }

    /// Only a provider that was declared to deduplicate does so here.
    fn plan(self) -> &'static str {
        match self {
            Declared::Dedups => "{}",
            Declared::AnswersWithin | Declared::Answers | Declared::Opaque => {
                r#"{"keys": {"dedup": false}}"#
            }
        }
    }

    /// Whether nobody but a person can end it.
    fn is_for_a_person(self) -> bool {
        match self {
            Declared::Dedups | Declared::AnswersWithin => false,
            Declared::Answers | Declared::Opaque => true,
        }
    }

    fn limits(self) -> Limits {
        Limits {
            may_end_in_review: self.is_for_a_person(),
            calls_max: 30,
            transaction_max: Duration::from_secs(1),
            ..Limits::default()
        }
    }

    async fn world(self, which: Which) -> World {
        World::new(which, self.plan(), &self.flags()).await
    }

    /// The audit, the state at the end, and the same answer for everybody.
    fn hold(self, judged: &Judged, payment: &Payment, met: &Sometimes) {
        judged.hold(&format!("{self:?}"));
        judged.note(met);
        let answer = judged.answer(payment);
        let expected = if self.is_for_a_person() { Meaning::Unknown } else { Meaning::Success };
        assert_eq!(answer.meaning(), expected, "{self:?}: {answer:?}");
        // Where a caller is the first to see that the lease is over, no log says so.
        met.saw_times(sometimes::REVIEW, u64::from(answer.meaning() == Meaning::Unknown));
    }
}

fn were_told_nothing(lab: &Lab) -> bool {
    let requests = lab.requests().unwrap();
    requests.iter().any(|r| r.arrived.op == Op::Query && r.status == Some(404))
}

/// The request has left, and the network keeps it; its owner was told that the connection is lost.
async fn t63_b28_a_request_that_was_late_on_the_wire_is_one_payment_at_the_most(which: Which) {
    let met = Sometimes::default();
    join_all(Declared::ALL.map(|declared| late_on_the_wire(which, declared, &met))).await;
    println!("{:?}", met.counts());
    assert_eq!(met.missing(MET), [""; 0]);
}

async fn late_on_the_wire(which: Which, declared: Declared, met: &Sometimes) {
    let mut world = declared.world(which).await;
    world.start(None);
    let payment = Payment::of("alpha", 1);
    world.proxy.arm(PAY, 1, Cut::Held);
    let caller = world.call(&payment);
    assert!(world.proxy.wait_until_fired(1, BOUND).await);
    let (sent, caller) = match declared {
        // The question is the payment, sent again.
        Declared::Dedups => {
            assert!(world.lab.until(BOUND, |lab| lab.counts().payments == 1).await);
            (2, caller)
        }
        Declared::AnswersWithin => {
            assert!(world.lab.until(BOUND, were_told_nothing).await);
            (1, caller)
        }
        Declared::Answers | Declared::Opaque => {
            let told = caller.await.unwrap();
            assert_eq!(told.meaning(), Meaning::Unknown, "{declared:?}: {told:?}");
            assert_eq!(were_told_nothing(&world.lab), declared == Declared::Answers);
            (1, world.call(&payment))
        }
    };
    let is_late = were_told_nothing(&world.lab);
    world.proxy.deliver();
    let all = |lab: &Lab| posts(lab).iter().filter(|post| post.status.is_some()).count() == sent;
    assert!(world.lab.until(BOUND, all).await, "{declared:?}");
    met.saw_times(sometimes::LATE_REQUEST, u64::from(is_late));
    let told = caller.await.unwrap();
    assert_eq!(world.recorded(), 1, "{declared:?}");
    let judged = world.audit(declared.limits()).await;
    declared.hold(&judged, &payment, met);
    assert_eq!(judged.sent[&payment.order()], sent, "{declared:?}");
    assert_eq!(judged.answer(&payment).body, told.body, "{declared:?}");
}

/// The owner stands still in the line before it sends. When it wakes up, its lease is over by its own
/// clock, and it sends nothing, though another may have paid meanwhile.
async fn t63_b28_an_owner_that_slept_before_it_sent_sends_no_more(which: Which) {
    let met = Sometimes::default();
    join_all(Declared::ALL.map(|declared| slept_before_it_sent(which, declared, &met))).await;
    println!("{:?}", met.counts());
    assert_eq!(met.missing(&[sometimes::REVIEW, sometimes::TAKEN_OVER]), [""; 0]);
}

async fn slept_before_it_sent(which: Which, declared: Declared, met: &Sometimes) {
    let mut world = declared.world(which).await;
    world.start(Some("external.call-before=stop"));
    let payment = Payment::of("alpha", 1);
    let owner = world.send_to(0, &payment);
    let process = &world.nodes[0].process;
    block_in_place(|| process.wait_until_stopped_at("external.call-before")).unwrap();
    world.door.close(world.nodes[0].address);
    world.start(None);
    let ended = world.call(&payment).await.unwrap();
    let paid = if declared.is_for_a_person() { 0 } else { 1 };
    assert_eq!(world.recorded(), paid, "{declared:?}: {ended:?}");
    world.nodes[0].process.thaw().unwrap();
    let told = owner.await.unwrap().expect("an answer");
    assert_eq!((told.status, &told.body), (ended.status, &ended.body), "{declared:?}");
    met.saw(sometimes::TAKEN_OVER);
    assert_eq!(world.recorded(), paid, "{declared:?}");
    let judged = world.audit(declared.limits()).await;
    declared.hold(&judged, &payment, met);
    let sent = judged.sent.get(&payment.order()).copied().unwrap_or_default();
    assert_eq!(u64::try_from(sent).unwrap(), paid, "{declared:?}: the sleeper sent");
}

/// Where nothing is on its way for longer than a lease.
const PROVED: [&str; 6] =
    ["--payment-lease-ms", "1500", "--call-timeout-ms", "1200", "--not-found-after-ms", "1500"];

/// A provider that says "not found" of a payment that it has made, for longer than was declared: the key
/// is freed, and then its owner wakes up with the answer. Nothing can undo that, but it is not silent. This
/// provider deduplicates, so that who sends again gets the payment that was made.
async fn p26_t63_an_answer_that_comes_when_its_key_was_freed_raises_the_alarm(which: Which) {
    let plan = r#"{"rules": [{"when": {"op": ["query"]}, "answer": {"query": "missing"}}]}"#;
    let (world, payment) = freed_while_it_slept(which, plan, "external.call-after").await;
    world.nodes[0].until_it_says("contradicted").await;
    let log = world.nodes[0].process.stderr();
    let alarm = log.lines().find(|line| line.contains("\"contradicted\"")).unwrap();
    assert!(alarm.contains("ERROR"), "{alarm}");
    paid_once(world, &payment, 2).await;
}

/// The owner slept before it sent, and the proof was right. It has nothing to tell, and so nothing that
/// would contradict it.
async fn t63_an_owner_that_sent_nothing_and_whose_key_was_freed_raises_none(which: Which) {
    let plan = r#"{"keys": {"dedup": false}}"#;
    let (world, payment) = freed_while_it_slept(which, plan, "external.call-before").await;
    world.nodes[0].until_it_says("lease-lost").await;
    assert_eq!(world.recorded(), 0);
    let judged = paid_once(world, &payment, 1).await;
    assert_eq!(judged.said("contradicted"), 0, "{}", judged.log);
}

/// An owner that stood still here until its key was freed by proof, and goes on now.
async fn freed_while_it_slept(which: Which, plan: &str, point: &str) -> (World, Payment) {
    let mut world = World::new(which, plan, &PROVED).await;
    world.start(Some(&format!("{point}=stop")));
    let payment = Payment::of("alpha", 1);
    let owner = world.send_to(0, &payment);
    block_in_place(|| world.nodes[0].process.wait_until_stopped_at(point)).unwrap();
    world.door.close(world.nodes[0].address);
    world.start(None);
    world.nodes[1].until_it_says("freed-by-proof").await;
    world.nodes[0].process.thaw().unwrap();
    let told = owner.await.unwrap().expect("an answer");
    assert_eq!(told.code.as_deref(), Some("samekey.outcome-pending"), "{told:?}");
    (world, payment)
}

/// Sent again, it is one payment, and the provider has got it so many times.
async fn paid_once(world: World, payment: &Payment, sent: usize) -> Judged {
    let paid = world.call(payment).await.unwrap();
    assert_eq!(paid.status, 201, "{paid:?}");
    assert_eq!(world.recorded(), 1);
    let judged = world.audit(Declared::AnswersWithin.limits()).await;
    judged.hold("a freed key");
    assert_eq!(judged.sent[&payment.order()], sent);
    assert_eq!(judged.answer(payment).body, paid.body);
    judged
}
