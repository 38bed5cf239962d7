//! The integration tests of the calling side.

mod courier;
