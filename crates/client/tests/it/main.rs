//! The integration tests of the calling side.

// Helpers beside the tests may panic as the tests do.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod courier;
