//! Payments of the real program while its processes, its network and its database fail, judged by the
//! provider's own ledger.
//!
//! Callers repeat each payment with its key until it ends. Afterwards everything that is known of the
//! run is audited: what the provider recorded, every answer, the rows of the ledger over time, each call
//! that left a process, and the logs.

mod commits;
mod courier;
mod database;
mod payment;
mod stopped;
mod sweep;
mod world;
mod zombie;

use super::{client, on_both, paid, program, provider};
use samekey_sim::history::sometimes;

/// What a run of these tests has to have met, each in one of them, or it has tested nothing. A claim that
/// meets the sweep of its row is not among them: no row of a payment is old enough in a test.
#[test]
fn every_rare_state_is_demanded_of_one_of_these_tests() {
    let demanded = [sweep::MET, courier::MET, stopped::MET, zombie::MET, commits::MET].concat();
    for rare in sometimes::NASTY {
        assert!(
            rare == sometimes::SWEEP_RACE || demanded.contains(&rare),
            "nobody demands: {rare}"
        );
    }
}
