//! Bugs that are planted on purpose, to show that the tests find them.
//!
//! Only a build with `--cfg samekey_bugs` has them; packages and ordinary builds have neither the
//! bugs nor a look at the environment. [`VARIABLE`] names the one that is alive. `scripts/test-bugs`
//! goes through [`BUGS`] and demands that its tests fail.

use std::sync::OnceLock;

/// The environment variable that brings a bug to life.
pub const VARIABLE: &str = "SAMEKEY_BUG";

/// Every bug there is.
pub const BUGS: &[&str] = &[
    "look-up-then-insert",
    "no-fence-on-settling",
    "commit-result-ignored",
    "two-transactions",
    "answer-before-stored",
    "replay-from-json",
    "set-cookie-stored",
    "timeout-status-stored",
    "scope-without-org",
    "handler-not-spawned",
    "body-not-read",
    "open-records-swept",
    "takeover-reruns",
    "5xx-frees-key",
    "not-found-is-failed",
    "lease-by-process-clock",
];

/// Whether this bug is alive.
///
/// # Panics
/// For a name that is not in [`BUGS`], in the code or in the environment.
pub fn planted(name: &str) -> bool {
    static ALIVE: OnceLock<Option<String>> = OnceLock::new();
    assert!(BUGS.contains(&name), "no bug is called {name}");
    let alive = ALIVE.get_or_init(|| {
        let alive = std::env::var(VARIABLE).ok().filter(|alive| !alive.is_empty())?;
        assert!(BUGS.contains(&alive.as_str()), "{VARIABLE}: no bug is called {alive}");
        Some(alive)
    });
    alive.as_deref() == Some(name)
}

/// The statement that finds what is over, as it is, or without a look at the state.
pub(crate) fn sweep_find(text: &'static str) -> &'static str {
    if !planted("open-records-swept") {
        return text;
    }
    text.replace("and state in ('free', 'done', 'closed')", "").leak()
}
