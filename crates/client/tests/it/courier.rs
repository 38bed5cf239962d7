//! The courier on the memory store, before a counterparty that does as it is told.

mod endings;
mod lanes;
mod people;
mod restored;
mod world;
