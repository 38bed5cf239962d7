//! wip
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
