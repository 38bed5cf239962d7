//! The pure core of samekey: it decides, and does no IO.

pub mod fingerprint;
pub mod key;
pub mod receipt;
