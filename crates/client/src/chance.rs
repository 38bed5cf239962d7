//! Randomness of the operating system.

use samekey_core::backoff::Chance;
use samekey_core::lease::Owner;
use samekey_store::{Kind, StoreError};

/// A new owner token.
pub(crate) fn owner() -> Result<Owner, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| {
        StoreError::new(Kind::Other, "the operating system gave no randomness for an owner token")
    })?;
    Ok(Owner::from_bytes(bytes))
}

/// A number by chance. Without randomness all wait for the same middle, which is no reason not to go on.
pub(crate) fn chance() -> Chance {
    let mut bytes = [0x80, 0];
    let _ = getrandom::fill(&mut bytes);
    Chance::new(u16::from_be_bytes(bytes))
}
