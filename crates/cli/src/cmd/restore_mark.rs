//! `samekey restore-mark`: tells a ledger that it was restored from a backup.

use crate::database::{DatabaseFlag, Store, block_on};
use crate::exit::{Code, Stopped};
use crate::output::say;
use jiff::Timestamp;
use samekey::core::time::Time;
use samekey::store::Kind;
use samekey::{RESTORE_MARK_LASTS, mark_restored};
use std::process::ExitCode;

/// Tell a restored database what it has lost
///
/// A database that was restored to an earlier moment does not know what was executed since. Run this
/// before the services start again. Every open key is unknown then, and asked about; for a day,
/// external routes run no key that the database does not know, but ask about it first. Running it again is
/// safe.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example, for a database restored to its state of noon in Tokyo:\n  \
    samekey restore-mark --lost-since 2026-11-30T12:00:00+09:00 --database postgres://app@localhost/shop")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseFlag,
    /// The moment to which it was restored (RFC 3339, with an offset): what was written later is lost
    #[arg(long, value_name = "TIME", value_parser = moment)]
    lost_since: Time,
}

fn moment(text: &str) -> Result<Time, String> {
    let moment: Timestamp = text.parse().map_err(|_| {
        "expected a date, a time and an offset, such as 2026-11-30T12:00:00Z or 2026-11-30T21:00:00+09:00"
    })?;
    Ok(Time::from_micros(moment.as_microsecond()))
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let lost_since = arguments.lost_since;
    let report = block_on(async {
        let marked = match arguments.database.open().await? {
            Store::Postgres(ledger) => mark_restored(&ledger, lost_since).await,
            Store::Sqlite(ledger) => mark_restored(&ledger, lost_since).await,
        };
        marked.map_err(|error| {
            if error.kind() == Kind::Misused {
                return Stopped::new(Code::Usage, error.to_string());
            }
            Stopped::from(error)
        })
    })?;
    say(&format!(
        "marked for {} hours: open keys that are unknown now: {}; free keys removed: {}\n\
         External routes ask about every key that this database does not know before they run it.\n",
        RESTORE_MARK_LASTS.as_secs() / 3600,
        report.unknown,
        report.free_removed
    ))?;
    Ok(ExitCode::SUCCESS)
}
