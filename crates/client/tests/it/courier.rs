//! The courier, most of all on the memory store, before a counterparty that does as it is told.

mod business;
mod endings;
mod lanes;
mod people;
mod restored;
mod world;
