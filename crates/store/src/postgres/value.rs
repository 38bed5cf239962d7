//! Times, spans and days as PostgreSQL's binary protocol has them, exact to the microsecond, and a
//! cover for parameters that keeps them out of the driver's debug log.

use bytes::{BufMut, BytesMut};
use std::error::Error;
use std::fmt;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// From the Unix epoch to 2000-01-01, where PostgreSQL counts from.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
const EPOCH_DAYS: i32 = 10_957;
const DAY_MICROS: i64 = 86_400_000_000;

/// The first moment that a `timestamptz` cannot hold (294277-01-01), counted as it counts. What
/// lies beyond is `infinity`.
const END_MICROS: i64 = 9_223_371_331_200_000_000;

type Fault = Box<dyn Error + Sync + Send>;

/// A moment: microseconds since the Unix epoch, a `timestamptz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Moment(pub(crate) i64);

impl ToSql for Moment {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        let micros = self.0.saturating_sub(EPOCH_MICROS);
        out.put_i64(if micros >= END_MICROS { i64::MAX } else { micros });
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

impl FromSql<'_> for Moment {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Moment, Fault> {
        Ok(Moment(i64::from_be_bytes(raw.try_into()?).saturating_add(EPOCH_MICROS)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

/// A span in microseconds, an `interval` without days and months.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Span(pub(crate) i64);

impl ToSql for Span {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        out.put_i64(self.0);
        out.put_i32(0);
        out.put_i32(0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::INTERVAL
    }

    to_sql_checked!();
}

/// A day in UTC: days since the Unix epoch, a `date`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day(pub(crate) i32);

impl Day {
    /// The day in which a moment lies.
    pub(crate) fn of_micros(micros: i64) -> Day {
        Day(i32::try_from(micros.div_euclid(DAY_MICROS)).unwrap_or(i32::MAX))
    }

    /// The day's first moment.
    pub(crate) fn start(self) -> Moment {
        Moment(i64::from(self.0).saturating_mul(DAY_MICROS))
    }

    /// The day that comes so many days later.
    pub(crate) fn plus(self, days: i32) -> Day {
        Day(self.0.saturating_add(days))
    }
}

impl ToSql for Day {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        out.put_i32(self.0.saturating_sub(EPOCH_DAYS));
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::DATE
    }

    to_sql_checked!();
}

impl FromSql<'_> for Day {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Day, Fault> {
        Ok(Day(i32::from_be_bytes(raw.try_into()?).saturating_add(EPOCH_DAYS)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::DATE
    }
}

/// A parameter whose value no log shows: the driver writes parameters to its debug log, and ours
/// are keys and answers.
#[derive(Clone, Copy)]
pub(crate) struct Covered<'a>(pub(crate) &'a (dyn ToSql + Sync));

impl fmt::Debug for Covered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl ToSql for Covered<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        self.0.to_sql_checked(ty, out)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        self.0.to_sql_checked(ty, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(micros: i64) -> i64 {
        let mut out = BytesMut::new();
        Moment(micros).to_sql(&Type::TIMESTAMPTZ, &mut out).unwrap();
        Moment::from_sql(&Type::TIMESTAMPTZ, &out).unwrap().0
    }

    #[test]
    fn moments_are_exact_and_the_end_of_time_is_infinity() {
        for micros in [0, 1, -1, EPOCH_MICROS, 1_764_493_200_123_457, i64::MAX - 1, i64::MAX] {
            assert_eq!(there_and_back(micros), micros);
        }
    }

    #[test]
    fn a_day_begins_at_midnight_in_utc_also_before_the_epoch() {
        assert_eq!(Day::of_micros(0), Day(0));
        assert_eq!(Day::of_micros(DAY_MICROS - 1), Day(0));
        assert_eq!(Day::of_micros(-1), Day(-1));
        assert_eq!(Day(2).start(), Moment(2 * DAY_MICROS));
    }

    #[test]
    fn s14_a_covered_parameter_shows_nothing() {
        let key = "key-4111111111111111";
        assert_eq!(format!("{:?}", Covered(&key)), "..");
    }
}
