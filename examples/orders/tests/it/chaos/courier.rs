//! The courier of the real program comes to each of its boundaries, and dies, fails, panics or falls asleep
//! there; it stands still and wakes up; and its database dies under it.

mod postgres;
mod sweep;
mod two;

use super::paid::{ended, payment};
use super::world::{BOUND, Judged, Payment, World};
use super::{on_both, program};
use samekey_sim::history::{EndedCommand, Limits, Rules, sometimes};
use std::time::{Duration, Instant};

/// What these runs have to have met.
pub const MET: &[&str] = &[sometimes::TAKEN_OVER, sometimes::FENCED_OUT];

/// The first write wins, and a retry is told so by its status.
const RULES: Rules = Rules { first_write_wins: true, replay_status: Some(200) };

/// All times go down together.
const FLAGS: [&str; 6] =
    ["--payment-lease-ms", "1000", "--call-timeout-ms", "600", "--retry-wait-ms", "100"];

fn limits() -> Limits {
    Limits {
        // On a busy machine answers are late that are meant to be in time.
        calls_max: 24,
        transaction_max: Duration::from_secs(1),
        asks_first: true,
        ..Limits::default()
    }
}

/// Waits until every payment has ended, and judges the run: by the provider's ledger, the answers, the rows,
/// the calls, the logs, and how each command ended.
async fn judge(world: World, limits: Limits) -> Judged {
    let node = world.nodes.last().unwrap().address;
    let mut commands = Vec::new();
    for wanted in world.payments() {
        // An order that nobody was told of may not be there.
        let found = payment(node, wanted.org(), &wanted.order()).await;
        let state = match found.is_null() {
            true => String::new(),
            false => {
                let ended = ended(node, wanted.org(), &wanted.order()).await;
                ended["state"].as_str().unwrap_or_default().to_owned()
            }
        };
        let (org, reference) = (wanted.org().to_owned(), wanted.order());
        commands.push(EndedCommand { org, reference, state });
    }
    world.audit_with(limits, RULES, commands).await
}

/// Waits until this is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + BOUND;
    while !is_so().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
