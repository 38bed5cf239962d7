//! From records to clusters of payments that belong to one purchase.

pub(crate) mod entry;
pub(crate) mod partition;
