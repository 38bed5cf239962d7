//! A moment on the database's clock.
//!
//! The core never reads a clock. Every time that it compares came with the row, from the
//! database that keeps it, so that two processes with wrong clocks still agree.

use std::time::Duration;

/// Microseconds since the Unix epoch, as the database said it.
///
/// Microseconds are what PostgreSQL keeps; finer times would not survive a round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The Unix epoch. A record that is counted from here holds offsets instead of moments;
    /// see [`crate::record::Record::counted_from`].
    pub const EPOCH: Time = Time(0);

    /// The moment that lies this many microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Time {
        Time(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The moment that lies `span` later; the far end of time where that overflows.
    pub fn plus(self, span: Duration) -> Time {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Time(self.0.saturating_add(micros))
    }

    /// How long ago `earlier` was; zero when it is not earlier.
    pub fn since(self, earlier: Time) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}
