//! What no store may write, refused before anything is sent.

use super::{Action, AttemptNote, Command, NAME_BYTES_MAX, REFERENCE_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::error::{Kind, StoreError};
use samekey_core::delivery::{Delivery, State};
use std::ops::RangeInclusive;

/// Refuses a command that the tables do not hold, and a delivery that none begins with.
///
/// # Errors
/// [`Kind::Misused`], with what is wrong and what is expected.
pub(crate) fn check_command(command: &Command, delivery: &Delivery) -> Result<(), StoreError> {
    check_action(&command.action)?;
    if let Some(order_key) = &command.order_key {
        check_text("the order key", order_key, 1..=REFERENCE_BYTES_MAX)?;
    }
    if command.generation == 0 || i32::try_from(command.generation).is_err() {
        return Err(misused(format!(
            "a command of generation {} was to be enqueued; they count from 1",
            command.generation
        )));
    }
    if command.request.len() > REQUEST_BYTES_MAX {
        return Err(misused(format!(
            "a request of {} bytes was to be enqueued; {REQUEST_BYTES_MAX} are the most",
            command.request.len()
        )));
    }
    if delivery.revision == 0 || delivery.is_finished() {
        return Err(misused(
            "a command was to be enqueued that has no revision, or has finished; enqueue what the machine begins with",
        ));
    }
    check_delivery(delivery)
}

/// Refuses an action whose names the tables do not hold.
pub(crate) fn check_action(action: &Action) -> Result<(), StoreError> {
    check_text("the destination", &action.destination, 1..=NAME_BYTES_MAX)?;
    check_text("the operation", &action.operation, 1..=NAME_BYTES_MAX)?;
    check_text("the business reference", &action.business_ref, 1..=REFERENCE_BYTES_MAX)
}

/// Refuses a move that no machine makes.
///
/// # Errors
/// [`Kind::Misused`] where `seen` is finished, `next` has no higher revision, or a lower fence.
pub(crate) fn check_advance(seen: &Delivery, next: &Delivery) -> Result<(), StoreError> {
    if seen.is_finished() {
        return Err(misused(
            "a finished command was to be changed; it stays as it is, and what is learnt of it later is noted",
        ));
    }
    if next.revision <= seen.revision || next.fence < seen.fence {
        return Err(misused(
            "a command was to be replaced by one whose revision is not higher, or whose fence is lower; write what the machine says next, and nothing where it says the same",
        ));
    }
    check_delivery(next)
}

/// Refuses a note that the tables do not hold.
pub(crate) fn check_note(note: &AttemptNote) -> Result<(), StoreError> {
    check_text("the kind of a note", &note.kind, 1..=NAME_BYTES_MAX)?;
    check_text("what an attempt came to", &note.came_to, 1..=NAME_BYTES_MAX)
}

/// Refuses a delivery that does not fit in its columns.
fn check_delivery(delivery: &Delivery) -> Result<(), StoreError> {
    // Both would lie in the same columns.
    let has_answer = matches!(delivery.state, State::Succeeded(_) | State::Refused(_));
    if has_answer && delivery.proof.is_some() {
        return Err(misused(
            "a command was to end with an answer and another proof beside it; the end takes the proof's place",
        ));
    }
    Ok(())
}

/// Refuses a text that one of the databases would not take as it is.
fn check_text(what: &str, text: &str, bytes: RangeInclusive<usize>) -> Result<(), StoreError> {
    if bytes.contains(&text.len()) && !text.contains('\0') {
        return Ok(());
    }
    Err(misused(format!(
        "{what} has {} bytes, or holds a NUL; {} to {} bytes without one are expected",
        text.len(),
        bytes.start(),
        bytes.end()
    )))
}

/// Whether this is the latest command that another one of this generation may follow.
pub(crate) fn may_follow(latest: &Command, delivery: &Delivery, generation: u32) -> bool {
    latest.generation.checked_add(1) == Some(generation) && delivery.may_be_followed()
}

/// Two commands with one id: one of them was made up.
pub(crate) fn id_taken() -> StoreError {
    misused("another command has this id; make a new one for every command")
}

fn misused(sentence: impl Into<String>) -> StoreError {
    StoreError::new(Kind::Misused, sentence)
}
