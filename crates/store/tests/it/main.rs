//! The stores against their port.

mod records;

#[cfg(feature = "postgres")]
mod postgres;
