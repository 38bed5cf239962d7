//! The mark of a store that was restored to an earlier state.
//!
//! Whatever was written after that state is lost. While the mark is in force, what the store does not know
//! may have been executed all the same: external keys are claimed straight into *unknown*, and commands are
//! asked about before they are sent.

use crate::{Kind, Ledger, StoreError};
use samekey_core::time::Time;

/// Under which name the mark lies in the store.
const MARK_NAME: &str = "restored";

/// The mark of a restored store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What was written from here on is lost.
    pub lost_since: Time,
    /// The mark ends here.
    pub until: Time,
}

impl Restored {
    /// Whether it holds at this moment of the database's clock.
    pub fn is_in_force(&self, now: Time) -> bool {
        now < self.until
    }

    /// Writes the mark, over what may stand there.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn write<S: Ledger>(&self, store: &S) -> Result<(), StoreError> {
        store.share(MARK_NAME, &self.encode()).await
    }

    /// The mark of this store, if it has one.
    ///
    /// # Errors
    /// [`Kind::Damaged`] for one that cannot be read, and what the store fails with.
    pub async fn load<S: Ledger>(store: &S) -> Result<Option<Restored>, StoreError> {
        let Some(bytes) = store.shared(MARK_NAME).await? else { return Ok(None) };
        Restored::decode(&bytes).map(Some).ok_or_else(|| {
            StoreError::new(
                Kind::Damaged,
                "the mark of a restored store cannot be read; a newer version wrote it: upgrade this process, or mark the store again",
            )
        })
    }

    fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let times = self.lost_since.micros().to_be_bytes().into_iter();
        for (to, from) in bytes.iter_mut().zip(times.chain(self.until.micros().to_be_bytes())) {
            *to = from;
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Restored> {
        let time = |part: &[u8]| Some(Time::from_micros(i64::from_be_bytes(part.try_into().ok()?)));
        Some(Restored { lost_since: time(bytes.get(..8)?)?, until: time(bytes.get(8..)?)? })
    }
}

#[cfg(test)]
mod tests {
    use super::{Restored, Time};

    #[test]
    fn a_mark_comes_back_as_it_was_written() {
        let mark =
            Restored { lost_since: Time::from_micros(-7), until: Time::from_micros(1 << 50) };
        assert_eq!(Restored::decode(&mark.encode()), Some(mark));
        assert_eq!(Restored::decode(b"short"), None);
    }
}
