//! Finds payments that were made more than once in the records of a business, and names what sent
//! them: the gaps between the payments of one order are the fingerprint of the schedule that made
//! them.
//!
//! ```
//! use samekey_forensics::{Cause, Input, Options, analyse};
//!
//! let records = "payment_id,order_id,created_at\n\
//!     PAY-1,ORD-1,2026-09-07T10:00:00Z\n\
//!     PAY-2,ORD-2,2026-09-07T10:00:05Z\n\
//!     PAY-3,ORD-2,2026-09-07T10:00:06Z\n\
//!     PAY-4,ORD-2,2026-09-07T10:00:08Z\n\
//!     PAY-5,ORD-2,2026-09-07T10:00:12Z\n";
//! let input = Input::Stream { name: "records".into(), bytes: Box::new(records.as_bytes()) };
//! let report = analyse(vec![input], &Options::default(), &|_| {})?;
//!
//! assert_eq!(report.totals.surplus, 3);
//! let cluster = &report.clusters[0];
//! assert_eq!((cluster.label.as_str(), cluster.gaps_s.as_slice()), ("ORD-2", &[1.0, 2.0, 4.0][..]));
//! assert_eq!(cluster.causes[0].cause, Cause::Backoff);
//! # Ok::<(), samekey_forensics::Error>(())
//! ```
//!
//! What this crate does not do: it never writes to its input, reads no environment, ends no
//! process, and decides nothing about refunds; it shows evidence to a person.
//!
//! Where to read next: `read` turns bytes into records, `cluster` records into payments that belong
//! together, `cause` gaps into causes, `report` all of it into text, JSON and HTML. `analyse` is
//! the whole run in one function.

mod analyse;
mod cause;
mod cluster;
pub mod database;
mod error;
mod evaluate;
mod generate;
mod options;
mod read;
mod report;
mod value;

pub use analyse::{Progress, analyse};
pub use cause::verdict::Verdict;
pub use cause::{CLEAR_MIN, Cause, Confidence, NAMED_MIN};
pub use cluster::{Explained, Role, Signature};
pub use error::{Error, ErrorKind};
pub use evaluate::{Confusion, Evaluation, evaluate, update_section};
pub use generate::{Plan, generate};
pub use options::{Breadth, Header, KEY_LIFE, MEMORY_BYTES, Options, PAUSE, WINDOW};
pub use read::columns::Field;
pub use read::problem::{EXAMPLES_MAX, Example, Place, Problem, ProblemKind, Problems};
pub use read::source::Input;
pub use report::{
    CauseShare, CauseTotal, ClusterReport, ExampleReport, FORMAT_VERSION, InputReport, MoneyTotal,
    ProblemReport, Report, RowReport, Settings, SourceTotal, Totals, VerdictTotal,
};
pub use value::amount::{AmountUnit, Currency, Decimal};
pub use value::time::DateOrder;
