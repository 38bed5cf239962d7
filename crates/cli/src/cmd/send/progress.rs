//! What is told, on standard error, while the end of a command is waited for.

use crate::output::complain;
use crate::show::second;
use samekey_client::core::delivery::{Delivery, Reason, State};
use samekey_client::core::key::Org;
use samekey_client::store::Ledger;
use samekey_client::store::outbox::Outbox;
use samekey_client::{Courier, Placed};
use std::time::Duration;

/// Who has an answer within a second wants to read nothing else.
const SILENT: Duration = Duration::from_secs(1);
/// How often it is looked at: often enough for people, and nothing to a database.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Tells what is waited for, once for each change, until it is dropped.
pub async fn tell<S: Outbox + Ledger>(courier: &Courier<S>, org: &Org, placed: &Placed) {
    tokio::time::sleep(SILENT).await;
    let there = if placed.is_new { "in the outbox" } else { "in the outbox already" };
    let mut told = String::new();
    loop {
        // A store that fails is told of by whoever waits for the command.
        if let Ok(Some(delivery)) = courier.delivery(org, placed.id).await {
            let now = standing(&delivery);
            if now != told {
                complain("samekey", &format!("{there}; {now}"));
                told = now;
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Where a command stands, for whoever waits for it.
fn standing(delivery: &Delivery) -> String {
    let why = delivery.last.or(delivery.doubt).map(Reason::code);
    let why = why.map(|code| format!(" ({code})")).unwrap_or_default();
    match &delivery.state {
        State::Waiting(_) if delivery.sends == 0 && delivery.last.is_none() => {
            "it waits to be sent".to_owned()
        }
        State::Waiting(waiting) => {
            let may_have_run =
                if delivery.doubt.is_some() { ", and it may have been executed" } else { "" };
            format!(
                "attempt {} ended without an answer that counts{why}{may_have_run}; it is sent again under its key at {}",
                delivery.sends,
                second(waiting.due)
            )
        }
        State::Sending(_) => format!("attempt {} is on its way", delivery.sends),
        State::Unknown(unknown) => format!(
            "it may have been executed{why}; its counterparty is asked at {}",
            second(unknown.due)
        ),
        State::Succeeded(_)
        | State::Refused(_)
        | State::Failed(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => format!("it is {}", delivery.state_name()),
    }
}

/// Tells that what is on its way is still waited for, where that takes long, until it is dropped.
pub async fn tell_rest() {
    tokio::time::sleep(SILENT).await;
    complain("samekey", "what is on its way is waited for, so that its end is written down");
    std::future::pending().await
}

/// Somebody wants to stop.
pub fn say_stopping() {
    complain(
        "samekey",
        "asked to stop; what is on its way is waited for, once more Ctrl-C ends at once",
    );
}

/// Something is still on its way.
pub fn say_given_up() {
    complain(
        "samekey",
        "what is still on its way is unknown when its lease ends, and is cleared up by the next worker or `samekey send`",
    );
}
