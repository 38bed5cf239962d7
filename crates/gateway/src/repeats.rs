//! The same command under another key, a little later: often a client that makes a new key for every
//! attempt, which no ledger of keys can tell from a second order.
//!
//! It is noticed, never refused: two equal orders may both be meant. What is remembered is hashes, in
//! this process alone.

use samekey_core::key::{Key, Org};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How many commands are remembered: six megabytes. Beyond that the oldest are forgotten before their time.
const REMEMBERED_MAX: usize = 65_536;

type Sha = [u8; 32];

/// The commands of the last while.
pub(crate) struct Repeats {
    window: Duration,
    remembered: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    /// By organisation and content: under which key, and when.
    commands: HashMap<Sha, (Sha, Instant)>,
    order: VecDeque<(Sha, Instant)>,
}

impl Repeats {
    pub(crate) fn new(window: Duration) -> Repeats {
        Repeats { window, remembered: Mutex::default() }
    }

    /// Remembers a command that runs now; says whether the same ran under another key within the window.
    pub(crate) fn notice(&self, org: &Org, key: &Key, request_sha: &Sha, now: Instant) -> bool {
        let command: Sha = Sha256::new()
            .chain_update(request_sha)
            .chain_update(org.as_str().as_bytes())
            .finalize()
            .into();
        let key: Sha = Sha256::digest(key.as_str().as_bytes()).into();
        // Whole between any two of its calls, also after a panic elsewhere.
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.forget(now, self.window);
        remembered.order.push_back((command, now));
        let before = remembered.commands.insert(command, (key, now));
        before.is_some_and(|(other, _)| other != key)
    }
}

impl Remembered {
    fn forget(&mut self, now: Instant, window: Duration) {
        while let Some((command, at)) = self.order.front().copied() {
            if now.duration_since(at) < window && self.order.len() < REMEMBERED_MAX {
                return;
            }
            self.order.pop_front();
            // A later arrival of the same command has its own place in the order.
            if self.commands.get(&command).is_some_and(|(_, last)| *last <= at) {
                self.commands.remove(&command);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_for_the_same_command_is_noticed_for_a_while() {
        let repeats = Repeats::new(Duration::from_secs(60));
        let start = Instant::now();
        let notice = |org: &str, key: &str, content: u8, second: u64| {
            let now = start + Duration::from_secs(second);
            repeats.notice(&Org::new(org).unwrap(), &Key::new(key).unwrap(), &[content; 32], now)
        };
        assert!(!notice("alpha", "k1", 1, 0));
        assert!(!notice("alpha", "k1", 1, 1), "a later life of the same key");
        assert!(!notice("alpha", "k2", 2, 2), "other content");
        assert!(!notice("beta", "k3", 1, 3), "another organisation");
        assert!(notice("alpha", "k4", 1, 59));
        assert!(notice("alpha", "k5", 1, 118), "counted from the last one");
        assert!(!notice("alpha", "k6", 1, 178), "the window is over");
        assert!(!notice("alpha", "k7", 2, 200));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let repeats = Repeats::new(Duration::from_secs(60));
        let (org, key, now) = (Org::new("a").unwrap(), Key::new("k").unwrap(), Instant::now());
        for number in 0..REMEMBERED_MAX + 10 {
            let mut content = [0; 32];
            content[..8].copy_from_slice(&number.to_be_bytes());
            repeats.notice(&org, &key, &content, now);
        }
        let remembered = repeats.remembered.lock().unwrap();
        assert_eq!(remembered.order.len(), REMEMBERED_MAX);
        assert_eq!(remembered.commands.len(), REMEMBERED_MAX);
    }
}
