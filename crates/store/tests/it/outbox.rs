//! What every outbox promises, as functions over the port. A store runs them all through
//! [`outbox_conformance!`](crate::outbox::outbox_conformance).

mod enqueue;
mod moves;
mod take;

pub use enqueue::{
    a_command_is_enqueued_once, a_new_command_follows_only_what_ran_nothing,
    an_id_stands_for_one_command, every_part_of_an_action_keeps_it_apart,
    s1_one_of_many_enqueues_stands, s1_retry_and_successor_exclude_each_other,
    what_the_tables_do_not_hold_is_refused, what_was_followed_is_never_tried_again,
};
pub use moves::{
    a_move_needs_owner_fence_and_revision, commands_are_listed_and_counted,
    every_delivery_comes_back_as_it_was_written,
    everything_open_or_failed_can_be_marked_after_a_restore, notes_and_accounts_are_only_added,
    s15_finished_commands_are_swept_after_their_retention,
};
pub use take::{
    a_take_is_bounded, b86_only_what_is_due_of_one_org_and_destination_is_taken,
    commands_of_an_order_key_go_one_after_the_other, orgs_with_due_are_walked_page_by_page,
    t84_two_workers_take_each_row_once, the_next_moment_is_known, what_is_left_out_stays_as_it_is,
    what_waits_behind_another_is_not_in_the_way,
};

use crate::commands::{moved, offered, org, worker};
use samekey_core::delivery::{Delivery, State};
use samekey_store::outbox::{Command, CommandId, Enqueued, Moved, Outbox, SeenDelivery, Taken};
use std::time::Duration;

/// Runs the suite on what `$start().await` gives, a [`crate::conformance::Fresh`].
macro_rules! outbox_conformance {
    ($start:path) => {
        $crate::outbox::outbox_conformance!($start:
            a_command_is_enqueued_once,
            every_part_of_an_action_keeps_it_apart,
            an_id_stands_for_one_command,
            a_new_command_follows_only_what_ran_nothing,
            what_was_followed_is_never_tried_again,
            s1_one_of_many_enqueues_stands,
            s1_retry_and_successor_exclude_each_other,
            what_the_tables_do_not_hold_is_refused,
            every_delivery_comes_back_as_it_was_written,
            a_move_needs_owner_fence_and_revision,
            notes_and_accounts_are_only_added,
            everything_open_or_failed_can_be_marked_after_a_restore,
            s15_finished_commands_are_swept_after_their_retention,
            commands_are_listed_and_counted,
            b86_only_what_is_due_of_one_org_and_destination_is_taken,
            what_is_left_out_stays_as_it_is,
            a_take_is_bounded,
            commands_of_an_order_key_go_one_after_the_other,
            what_waits_behind_another_is_not_in_the_way,
            t84_two_workers_take_each_row_once,
            orgs_with_due_are_walked_page_by_page,
            the_next_moment_is_known,
        );
    };
    ($start:path: $($case:ident,)*) => {
        mod commands {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let fresh = $start().await;
                    $crate::outbox::$case(&fresh.ledger, &fresh.aging).await;
                }
            )*
        }
    };
}
pub(crate) use outbox_conformance;

/// No delay.
pub const NOW: Duration = Duration::ZERO;

pub async fn put<O: Outbox>(outbox: &O, command: &Command, delay: Duration) -> SeenDelivery {
    let enqueued = outbox.enqueue(command, &offered(delay)).await.expect("an answer");
    assert_eq!(enqueued, Enqueued::New);
    stands(outbox, command).await
}

pub async fn stands<O: Outbox>(outbox: &O, command: &Command) -> SeenDelivery {
    let seen = outbox.delivery(&command.action.org, command.id).await.expect("an answer");
    seen.expect("it is there")
}

pub async fn taken<O: Outbox>(outbox: &O, of: &str, limit: u32) -> Vec<Taken> {
    outbox.take(&org(of), "bank", limit, worker(1)).await.expect("an answer")
}

pub fn ids(taken: &[Taken]) -> Vec<CommandId> {
    taken.iter().map(|one| one.command.id).collect()
}

/// Writes the successor in this state, and returns it.
pub async fn advanced<O: Outbox>(
    outbox: &O,
    command: &Command,
    seen: &Delivery,
    state: State,
) -> Delivery {
    let next = moved(seen, state);
    let moved = outbox.advance(&command.action.org, command.id, seen, &next, None).await;
    assert_eq!(moved, Ok(Moved::Written));
    next
}

pub fn found(enqueued: Enqueued) -> (Command, Delivery) {
    match enqueued {
        Enqueued::Found(command, delivery) => (*command, *delivery),
        Enqueued::New => panic!("it was not there"),
    }
}
