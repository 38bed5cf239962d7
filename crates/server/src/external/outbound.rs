//! The key under which a counterparty knows a command.
//!
//! It is made from the organisation, the caller's key and the route with a secret, so that two
//! organisations that use the same key never meet at one counterparty, and nobody who sees it learns
//! the caller's key. It is stored with the claim and read from there ever after: another secret changes
//! nothing for a command on its way.

use hmac::{Hmac, KeyInit, Mac};
use samekey_core::key::Scope;
use samekey_store::{Kind, Ledger, OutboundKey, StoreError};
use sha2::Sha256;

/// Under which name the secret lies in the store, where all processes find it.
const SECRET_NAME: &str = "outbound-secret";
/// A secret of our own making has as many bytes as the hash.
const SECRET_BYTES: usize = 32;

#[derive(Clone)]
pub(super) struct Secret(Vec<u8>);

impl Secret {
    /// The secret that was given, or the one in the store, which the first process makes.
    pub(super) async fn of<S: Ledger>(
        store: &S,
        given: Option<&[u8]>,
    ) -> Result<Secret, StoreError> {
        if let Some(given) = given {
            return Ok(Secret(given.to_vec()));
        }
        if let Some(found) = store.shared(SECRET_NAME).await? {
            return Ok(Secret(found));
        }
        Ok(Secret(store.share_once(SECRET_NAME, &random::<SECRET_BYTES>()?).await?))
    }

    /// The outbound key of a command, as a UUID of version 8 (RFC 9562, section 5.8).
    pub(super) fn key(&self, scope: &Scope, route: &str) -> Result<OutboundKey, StoreError> {
        // HMAC takes a key of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0)
            .map_err(|_| StoreError::new(Kind::Other, "the outbound secret cannot be used"))?;
        for part in [scope.org.as_str(), scope.key.as_str(), route] {
            // Each part with its length, or "a" + "bc" would be "ab" + "c".
            let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
            mac.update(&length.to_be_bytes());
            mac.update(part.as_bytes());
        }
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(mac.finalize().into_bytes()) {
            *to = from;
        }
        Ok(OutboundKey::from_bytes(as_uuid(bytes)))
    }
}

/// An outbound key for a command that has no key of its own.
pub(super) fn fresh() -> Result<OutboundKey, StoreError> {
    Ok(OutboundKey::from_bytes(as_uuid(random()?)))
}

fn as_uuid(mut bytes: [u8; 16]) -> [u8; 16] {
    if let Some(byte) = bytes.get_mut(6) {
        *byte = (*byte & 0x0f) | 0x80;
    }
    if let Some(byte) = bytes.get_mut(8) {
        *byte = (*byte & 0x3f) | 0x80;
    }
    bytes
}

fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|_| StoreError::new(Kind::Other, "the operating system gave no randomness"))?;
    Ok(bytes)
}
