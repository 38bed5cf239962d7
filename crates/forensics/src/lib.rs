//! wip
mod cluster;
mod error;
mod options;
mod read;
mod value;
pub use error::{Error, ErrorKind};
pub use options::Options;
