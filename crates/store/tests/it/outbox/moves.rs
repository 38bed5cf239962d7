//! What is written of a command after it was enqueued, and what is read of it.

use super::{NOW, advanced, found, put, stands, taken};
use crate::commands::{
    command, failed, followers, id, least, moved, note, offered, org, planned, succeeded, undecided,
};
use crate::conformance::Aging;
use crate::records::{HOUR, MINUTE, decided, owner};
use samekey_core::delivery::Delivery;
use samekey_core::key::Org;
use samekey_core::lease::Fence;
use samekey_core::outcome::{Outcome, Told};
use samekey_core::plan::Input;
use samekey_store::outbox::{
    Action, Command, CommandCount, CommandId, Enqueued, Listed, Moved, Outbox, Show,
};
use samekey_store::{Decided, Kind, LIST_PAGE_MAX};
use std::collections::BTreeMap;
use std::sync::Arc;

fn moved_on(delivery: &Delivery) -> Delivery {
    Delivery { revision: delivery.revision + 100, ..delivery.clone() }
}

pub async fn every_delivery_comes_back_as_it_was_written<O: Outbox, A: Aging>(
    outbox: &Arc<O>,
    _: &A,
) {
    let probe = put(&**outbox, &command("org", 0), NOW).await;
    let count = followers(&probe.delivery, probe.now).len();
    let mut numbers = (1_u32..).zip(0..count);
    for (number, which) in &mut numbers {
        let one = command("org", number);
        let seen = put(&**outbox, &one, NOW).await;
        let next = followers(&seen.delivery, seen.now).swap_remove(which);
        let moved = outbox.advance(&org("org"), one.id, &seen.delivery, &next, None).await;
        assert_eq!(moved, Ok(Moved::Written), "{next:?}");
        assert_eq!(stands(&**outbox, &one).await.delivery, next);
        let again = outbox.enqueue(&one, &offered(NOW)).await.expect("an answer");
        assert_eq!(found(again), (one.clone(), next.clone()));
        let after = Some((&one.action.org, id(number - 1)));
        let listed = outbox.list(&Show::default(), after, 1).await.expect("an answer");
        assert_eq!(listed[0].seen.delivery, next);
        if next.is_finished() {
            let later = moved_on(&next);
            let refusal = outbox.advance(&org("org"), one.id, &next, &later, None).await;
            assert_eq!(refusal.expect_err("a refusal").kind(), Kind::Misused);
            let late = outbox.advance(&org("org"), one.id, &seen.delivery, &later, None).await;
            let Ok(Moved::Changed(stands)) = late else { panic!("{late:?}") };
            assert_eq!(stands.delivery, next);
        }
    }
}

pub async fn a_move_needs_owner_fence_and_revision<O: Outbox, A: Aging>(outbox: &Arc<O>, _: &A) {
    let one = command("org", 1);
    put(&**outbox, &one, NOW).await;
    let taken = taken(&**outbox, "org", 10).await;
    let seen = taken[0].seen.delivery.clone();
    let next = Delivery { revision: 9, ..moved(&seen, succeeded(taken[0].seen.now)) };
    let wrong = [
        Delivery { holder: owner(2), ..seen.clone() },
        Delivery { fence: Fence::NONE, ..seen.clone() },
        Delivery { revision: seen.revision - 1, ..seen.clone() },
        Delivery { revision: seen.revision + 1, ..seen.clone() },
    ];
    let goes_on = Delivery { revision: 9, ..moved(&seen, undecided(taken[0].seen.now)) };
    for view in &wrong {
        for next in [&next, &goes_on] {
            let late = outbox.advance(&org("org"), one.id, view, next, Some(&note(1, 1))).await;
            let Ok(Moved::Changed(stands)) = late else { panic!("{late:?}") };
            assert_eq!(stands.delivery, seen);
        }
        let account = decided("anna", view.fence);
        let late = outbox.advance_decided(&org("org"), one.id, view, &next, &account).await;
        assert!(matches!(late, Ok(Moved::Changed(_))), "{late:?}");
    }
    assert_eq!(outbox.attempts(&org("org"), one.id).await, Ok(Vec::new()), "nothing of it stands");
    assert_eq!(outbox.accounts(&org("org"), one.id).await, Ok(Vec::new()));
    assert_eq!(stands(&**outbox, &one).await.delivery, seen);
    let elsewhere = outbox.advance(&org("other"), one.id, &seen, &next, None).await;
    assert_eq!(elsewhere, Ok(Moved::Gone));
    let same = outbox.advance(&org("org"), one.id, &seen, &seen, None).await;
    assert_eq!(same.expect_err("a refusal").kind(), Kind::Misused);
    let lower = Delivery { fence: Fence::NONE, ..next.clone() };
    let lower = outbox.advance(&org("org"), one.id, &seen, &lower, None).await;
    assert_eq!(lower.expect_err("a refusal").kind(), Kind::Misused);
    let written = outbox.advance(&org("org"), one.id, &seen, &next, None).await;
    assert_eq!(written, Ok(Moved::Written));
    let twice = outbox.advance(&org("org"), one.id, &seen, &next, None).await;
    assert!(matches!(twice, Ok(Moved::Changed(_))), "the same view does not pass twice");
}

pub async fn notes_and_accounts_are_only_added<O: Outbox, A: Aging>(outbox: &Arc<O>, aging: &A) {
    let one = command("org", 1);
    put(&**outbox, &one, NOW).await;
    aging.tick();
    let took = taken(&**outbox, "org", 1).await.remove(0);
    let before = took.seen.now;
    let told = Told::plain(Outcome::Unknown(samekey_core::delivery::Reason::TimedOut));
    let report = Input::Report(took.seen.delivery.hold(), told, least());
    let next = planned(&took.seen.delivery, report, before);
    let moved =
        outbox.advance(&org("org"), one.id, &took.seen.delivery, &next, Some(&note(1, 1))).await;
    assert_eq!(moved, Ok(Moved::Written));
    aging.tick();
    assert_eq!(outbox.note(&org("org"), one.id, &note(2, 1)).await, Ok(()));
    aging.tick();
    assert_eq!(outbox.note(&org("org"), id(9), &note(3, 1)).await, Ok(()), "of nothing");
    let notes = outbox.attempts(&org("org"), one.id).await.expect("an answer");
    let now = stands(&**outbox, &one).await.now;
    assert_eq!(notes.len(), 2);
    for (number, kept) in (1..).zip(&notes) {
        assert!(before <= kept.noted && kept.noted <= now, "the store's clock counts");
        assert_eq!(
            *kept,
            samekey_store::outbox::AttemptNote { noted: kept.noted, ..note(number, 1) }
        );
    }
    assert_eq!(outbox.attempts(&org("org"), id(9)).await, Ok(Vec::new()));
    assert_eq!(outbox.attempts(&org("other"), one.id).await, Ok(Vec::new()));

    let inbox = advanced(&**outbox, &one, &next, undecided(now)).await;
    let decision = Input::Decide(inbox.hold(), samekey_core::plan::Decision::Executed);
    let closed = planned(&inbox, decision, now);
    let account = decided("anna", inbox.fence);
    let moved = outbox.advance_decided(&org("org"), one.id, &inbox, &closed, &account).await;
    assert_eq!(moved, Ok(Moved::Written));
    let told = outbox.accounts(&org("org"), one.id).await.expect("an answer");
    let [kept] = told.as_slice() else { panic!("{told:?}") };
    assert!(before <= kept.at);
    assert_eq!(*kept, Decided { at: kept.at, ..account });
    assert_eq!(stands(&**outbox, &one).await.delivery, closed);
    aging.tick();
    let seen = note(3, closed.fence.number());
    assert_eq!(outbox.note(&org("org"), one.id, &seen).await, Ok(()), "news of what has finished");
    assert_eq!(outbox.attempts(&org("org"), one.id).await.unwrap().len(), 3);
}

/// What a store needs for a mark after a restore: everything that is open or has failed is listed, and moved.
pub async fn everything_open_or_failed_can_be_marked_after_a_restore<O: Outbox, A: Aging>(
    outbox: &Arc<O>,
    aging: &A,
) {
    let probe = put(&**outbox, &command("org", 0), NOW).await;
    let count = crate::commands::delivery_states(probe.now).len();
    for which in 0..count {
        let one = command(["org", "other"][which % 2], u32::try_from(which).unwrap() + 1);
        let seen = put(&**outbox, &one, NOW).await;
        let state = crate::commands::delivery_states(seen.now).swap_remove(which);
        advanced(&**outbox, &one, &seen.delivery, state).await;
    }
    let states = ["waiting", "sending", "unknown", "failed"];
    let show = Show { states: states.map(str::to_owned).to_vec(), ..Show::default() };
    let (mut after, mut marked): (Option<(Org, CommandId)>, usize) = (None, 0);
    for _ in 0..=count {
        let from = after.as_ref().map(|(org, id)| (org, *id));
        let page = outbox.list(&show, from, 5).await.expect("an answer");
        let Some(last) = page.last() else { break };
        after = Some((last.action.org.clone(), last.id));
        for one in page {
            let next = planned(&one.seen.delivery, Input::Restore, one.seen.now);
            let org = &one.action.org;
            let moved = outbox.advance(org, one.id, &one.seen.delivery, &next, None).await;
            assert_eq!(moved, Ok(Moved::Written));
            marked += 1;
        }
    }
    let expected = crate::commands::delivery_states(probe.now)
        .iter()
        .filter(|state| states.contains(&moved(&probe.delivery, (*state).clone()).state_name()))
        .count();
    assert_eq!(marked, expected + 1);
    aging.tick();
    let doubted = taken(&**outbox, "org", 100).await;
    assert!(!doubted.is_empty());
    assert!(doubted.iter().all(|one| one.before.doubt.is_some()), "each of them is in doubt");
}
pub async fn s15_finished_commands_are_swept_after_their_retention<O: Outbox, A: Aging>(
    outbox: &Arc<O>,
    aging: &A,
) {
    let probe = put(&**outbox, &command("org", 0), 10_000 * HOUR).await;
    let count = crate::commands::delivery_states(probe.now).len();
    let mut finished = Vec::new();
    for which in 0..count {
        let one = command(["org", "other"][which % 2], u32::try_from(which).unwrap() + 1);
        let seen = put(&**outbox, &one, NOW).await;
        let state = crate::commands::delivery_states(seen.now).swap_remove(which);
        let next = moved(&seen.delivery, state);
        let of = &one.action.org;
        outbox.advance(of, one.id, &seen.delivery, &next, Some(&note(1, 1))).await.unwrap();
        if next.is_finished() {
            finished.push(one);
        }
    }
    // One that failed and was followed has finished too.
    let first = command("org", 5_000);
    let seen = put(&**outbox, &first, NOW).await;
    advanced(&**outbox, &first, &seen.delivery, failed(seen.now)).await;
    put(&**outbox, &Command { id: id(5_001), generation: 2, ..first.clone() }, NOW).await;
    finished.push(first.clone());
    let all = outbox.list(&Show::default(), None, LIST_PAGE_MAX).await.unwrap().len();

    aging.age(HOUR - MINUTE).await;
    assert_eq!(outbox.sweep_commands(HOUR, 100).await.unwrap().removed, 0, "a minute too early");
    aging.age(2 * MINUTE).await;
    let mut removed = 0;
    for _ in 0..=finished.len() {
        let pass = outbox.sweep_commands(HOUR, 4).await.expect("an answer");
        assert!(pass.removed <= 4);
        removed += usize::try_from(pass.removed).unwrap();
        if !pass.more {
            break;
        }
    }
    assert_eq!(removed, finished.len());
    for one in &finished {
        assert_eq!(outbox.command(&one.action.org, one.id).await, Ok(None));
        assert_eq!(outbox.delivery(&one.action.org, one.id).await, Ok(None));
        assert_eq!(outbox.attempts(&one.action.org, one.id).await, Ok(Vec::new()));
    }
    aging.age(10_000 * HOUR).await;
    let pass = outbox.sweep_commands(NOW, 100).await.expect("an answer");
    assert_eq!((pass.removed, pass.more), (0, false), "what is open or waits for a person stays");
    let left = outbox.list(&Show::default(), None, LIST_PAGE_MAX).await.unwrap();
    assert_eq!(left.len(), all - finished.len());
    let back = outbox.enqueue(&first, &offered(NOW)).await.expect("an answer");
    assert_eq!(found(back).0.id, id(5_001), "its successor keeps it from running again");
    let anew = Command { id: id(9_000), ..finished[0].clone() };
    assert_eq!(outbox.enqueue(&anew, &offered(NOW)).await, Ok(Enqueued::New));
    let next = moved(&probe.delivery, succeeded(probe.now));
    let (of, swept) = (&finished[0].action.org, finished[0].id);
    let gone = outbox.advance(of, swept, &probe.delivery, &next, None).await;
    assert_eq!(gone, Ok(Moved::Gone));
}

pub async fn commands_are_listed_and_counted<O: Outbox, A: Aging>(outbox: &Arc<O>, _: &A) {
    let probe = put(&**outbox, &command("a", 0), NOW).await;
    let count = crate::commands::delivery_states(probe.now).len();
    let mut all: Vec<(Command, Delivery)> = vec![(command("a", 0), probe.delivery)];
    for which in 0..count {
        let number = u32::try_from(which).unwrap() + 1;
        let mut one = command(["b", "a", "B"][which % 3], number);
        one.action.destination = ["bank", "post"][which % 2].to_owned();
        let seen = put(&**outbox, &one, NOW).await;
        let state = crate::commands::delivery_states(seen.now).swap_remove(which);
        let stood = advanced(&**outbox, &one, &seen.delivery, state).await;
        all.push((one, stood));
    }
    all.sort_by(|(one, _), (other, _)| {
        (&one.action.org, one.id).cmp(&(&other.action.org, other.id))
    });
    let shows = [
        Show::default(),
        Show { org: Some(org("a")), ..Show::default() },
        Show { destination: Some("post".into()), ..Show::default() },
        Show { states: vec!["failed".into(), "undecided".into()], ..Show::default() },
        Show { states: vec!["succeeded".into()], org: Some(org("b")), ..Show::default() },
        Show { states: vec!["waiting".into(), "refused".into()], ..Show::default() },
        Show { states: vec!["no such state".into()], ..Show::default() },
    ];
    for show in shows {
        let expected: Vec<(CommandId, Action, Delivery)> = all
            .iter()
            .filter(|(one, stood)| {
                show.org.as_ref().is_none_or(|of| *of == one.action.org)
                    && show.destination.as_ref().is_none_or(|to| *to == one.action.destination)
                    && (show.states.is_empty()
                        || show.states.iter().any(|state| state == stood.state_name()))
            })
            .map(|(one, stood)| (one.id, one.action.clone(), stood.clone()))
            .collect();
        let mut listed: Vec<Listed> = Vec::new();
        for _ in 0..=all.len() {
            let last: Option<(Org, CommandId)> =
                listed.last().map(|one| (one.action.org.clone(), one.id));
            let after = last.as_ref().map(|(org, id)| (org, *id));
            let page = outbox.list(&show, after, 7).await.expect("an answer");
            assert!(page.len() <= 7);
            if page.is_empty() {
                break;
            }
            listed.extend(page);
        }
        let found: Vec<(CommandId, Action, Delivery)> =
            listed.into_iter().map(|one| (one.id, one.action, one.seen.delivery)).collect();
        assert_eq!(found, expected, "{show:?}");
    }
    assert_eq!(outbox.list(&Show::default(), None, 0).await, Ok(Vec::new()));
    let most = outbox.list(&Show::default(), None, LIST_PAGE_MAX + 1).await.unwrap();
    assert_eq!(most.len(), all.len());
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (one, stood) in all.iter().filter(|(_, stood)| !stood.is_finished()) {
        let key = (one.action.destination.clone(), stood.state_name().to_owned());
        *counts.entry(key).or_default() += 1;
    }
    let expected: Vec<CommandCount> = counts
        .into_iter()
        .map(|((destination, state), count)| CommandCount { destination, state, count })
        .collect();
    assert_eq!(outbox.count_commands().await, Ok(expected));
}
