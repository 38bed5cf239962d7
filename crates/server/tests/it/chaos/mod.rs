//! The real `orders` program on either database, killed at every boundary, and its database with it.
//!
//! Callers repeat each order with its key until the answer is final. Afterwards the shop's own table
//! is counted and compared with what every caller saw.

mod database;
mod duplicates;
mod owners;
mod points;
