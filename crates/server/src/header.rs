//! The names of the headers that samekey reads and writes.

use http::HeaderName;

/// The caller's key, one per business action (draft-ietf-httpapi-idempotency-key-header-07).
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// `true` on every replay; Stripe's name for it.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// `true` or `false`; every Stripe SDK obeys it before it looks at the status.
pub const STRIPE_SHOULD_RETRY: HeaderName = HeaderName::from_static("stripe-should-retry");
/// `1` on a request that arrived in TLS early data (RFC 8470).
pub const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");
