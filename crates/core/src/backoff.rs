//! How long a caller waits before it tries again.
//!
//! Equal jitter: half of the wait is fixed and half is by chance, so that gaps grow strictly until the
//! cap and two callers that failed together do not come back together (Brooker, "Exponential Backoff And
//! Jitter", 2015; RFC 9110, section 10.2.3 for `Retry-After`).

use std::time::Duration;

/// The least by which callers that were told one `Retry-After` come back apart from each other.
const SPREAD_MIN: Duration = Duration::from_millis(500);
/// The most.
const SPREAD_MAX: Duration = Duration::from_secs(30);
/// The spread as a part of the wait that was asked for.
const SPREAD_PART: u32 = 5;
/// More doublings than any cap allows; it keeps the shift in bounds.
const DOUBLINGS_MAX: u32 = 31;

/// A number by chance, from 0 to just below 1. The shell draws it; the core has no dice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chance(u16);

impl Chance {
    /// The least: 0.
    pub const LEAST: Chance = Chance(0);
    /// The most: 65535/65536.
    pub const MOST: Chance = Chance(u16::MAX);

    /// `bits` of 65536.
    pub const fn new(bits: u16) -> Chance {
        Chance(bits)
    }

    /// This share of a span.
    fn of(self, span: Duration) -> Duration {
        let nanos = span.as_nanos().saturating_mul(u128::from(self.0)) >> 16;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A wait that doubles from `base` up to `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The whole of the first wait.
    pub base: Duration,
    /// The whole of the longest wait.
    pub cap: Duration,
}

impl Backoff {
    /// The number of the retry that comes after `span`, had it all been spent on waits as long as they can
    /// be. Who does not count its tries asks for this, and its waits grow all the same.
    ///
    /// ```
    /// use samekey_core::backoff::Backoff;
    /// use std::time::Duration;
    ///
    /// let backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(300) };
    /// let numbers = [0, 1, 2, 3, 60].map(|seconds| backoff.retry_number(Duration::from_secs(seconds)));
    /// assert_eq!(numbers, [1, 2, 2, 3, 6]);
    /// ```
    #[must_use]
    pub fn retry_number(self, span: Duration) -> u32 {
        let bases = span.as_nanos() / self.base.as_nanos().max(1);
        // The first n waits add up to 2^n - 1 of the first.
        bases.saturating_add(1).checked_ilog2().unwrap_or(0).saturating_add(1)
    }

    /// The wait before retry number `retry`, the first of which is 1. At the cap it is between half of it
    /// and all of it.
    ///
    /// A `retry_after` of the counterparty lengthens the wait, never shortens it, and those who were told
    /// the same come back spread.
    ///
    /// ```
    /// use samekey_core::backoff::{Backoff, Chance};
    /// use std::time::Duration;
    ///
    /// let backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(300) };
    /// let gaps: Vec<u64> =
    ///     (1..=4).map(|retry| backoff.wait(retry, None, Chance::new(0x8000)).as_millis() as u64).collect();
    /// assert_eq!(gaps, [750, 1500, 3000, 6000]);
    /// ```
    pub fn wait(self, retry: u32, retry_after: Option<Duration>, chance: Chance) -> Duration {
        let doublings = retry.saturating_sub(1).min(DOUBLINGS_MAX);
        let whole = self.base.saturating_mul(1 << doublings).min(self.cap);
        let half = whole / 2;
        let own = half.saturating_add(chance.of(half));
        match retry_after {
            Some(asked) if asked > own => asked.saturating_add(spread_of(asked, chance)),
            Some(_) | None => own,
        }
    }
}

/// By how much later than asked somebody comes back who was told to wait so long.
pub(crate) fn spread_of(asked: Duration, chance: Chance) -> Duration {
    chance.of((asked / SPREAD_PART).clamp(SPREAD_MIN, SPREAD_MAX))
}
