//! The courier, most of all on the memory store, before a counterparty that does as it is told.

mod business;
mod commits;
mod endings;
mod lanes;
mod people;
mod restored;
mod told;
mod world;
