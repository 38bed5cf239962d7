//! Times and spans as PostgreSQL's binary protocol has them, for sqlx; exact to the microsecond.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

/// From the Unix epoch to 2000-01-01, where PostgreSQL counts from.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
/// The first moment that a `timestamptz` cannot hold; what lies beyond is `infinity`.
const END_MICROS: i64 = 9_223_371_331_200_000_000;
const EPOCH_DAYS: i32 = 10_957;

/// The type numbers of PostgreSQL's catalogue, which never change.
const TIMESTAMPTZ: u32 = 1184;
const INTERVAL: u32 = 1186;
const DATE: u32 = 1082;

/// A moment: microseconds since the Unix epoch.
#[derive(Clone, Copy)]
pub(super) struct Moment(pub(super) i64);

/// A span in microseconds.
#[derive(Clone, Copy)]
pub(super) struct Span(pub(super) i64);

/// A day: days since the Unix epoch.
#[derive(Clone, Copy)]
pub(super) struct Day(pub(super) i32);

impl Type<Postgres> for Moment {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(TIMESTAMPTZ))
    }
}

impl Type<Postgres> for Span {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(INTERVAL))
    }
}

impl Type<Postgres> for Day {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(DATE))
    }
}

impl Encode<'_, Postgres> for Moment {
    fn encode_by_ref(&self, out: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let micros = self.0.saturating_sub(EPOCH_MICROS);
        let micros = if micros >= END_MICROS { i64::MAX } else { micros };
        out.extend_from_slice(&micros.to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Encode<'_, Postgres> for Span {
    fn encode_by_ref(&self, out: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        out.extend_from_slice(&self.0.to_be_bytes());
        // No days and no months.
        out.extend_from_slice(&[0; 8]);
        Ok(IsNull::No)
    }
}

impl Encode<'_, Postgres> for Day {
    fn encode_by_ref(&self, out: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        out.extend_from_slice(&self.0.saturating_sub(EPOCH_DAYS).to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Moment {
    fn decode(value: PgValueRef<'_>) -> Result<Moment, BoxDynError> {
        let micros = i64::from_be_bytes(value.as_bytes()?.try_into()?);
        Ok(Moment(micros.saturating_add(EPOCH_MICROS)))
    }
}

impl Decode<'_, Postgres> for Day {
    fn decode(value: PgValueRef<'_>) -> Result<Day, BoxDynError> {
        let days = i32::from_be_bytes(value.as_bytes()?.try_into()?);
        Ok(Day(days.saturating_add(EPOCH_DAYS)))
    }
}
