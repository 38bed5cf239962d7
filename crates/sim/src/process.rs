//! Built programs run as real processes. (Being written.)

use crate::signals;
use nix::sys::signal::Signal;

/// Asks a process to stop with SIGINT; `None`, a process that already ended, is fine.
pub fn interrupt(id: Option<u32>) {
    hand_on(id, Signal::SIGINT);
}

/// Asks a process to stop with SIGTERM; `None`, a process that already ended, is fine.
pub fn terminate(id: Option<u32>) {
    hand_on(id, Signal::SIGTERM);
}

fn hand_on(id: Option<u32>, signal: Signal) {
    if let Some(Err(failure)) = id.map(|id| signals::send(id, signal)) {
        eprintln!("{failure}");
    }
}
