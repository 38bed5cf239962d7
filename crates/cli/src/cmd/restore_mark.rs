//! `samekey restore-mark`: tells a database that it was restored from a backup.

use crate::database::{DatabaseFlag, Store, block_on};
use crate::exit::{Code, Stopped};
use crate::output::say;
use crate::show::second;
use jiff::Timestamp;
use samekey::core::time::Time;
use samekey::store::outbox::Outbox;
use samekey::store::{Kind, Ledger};
use samekey::{RESTORE_MARK_LASTS, RestoreReport, mark_restored};
use std::process::ExitCode;

/// Tell a restored database what it has lost
///
/// A database that was restored to an earlier moment does not know what was executed since. Run this
/// before the services start again; one that runs already sees it only where it has a recovery. Running
/// it again is safe.
///
/// Keys that were running or unknown are unknown now, and asked about; keys in review stay in review.
///
/// For 24 hours external routes run no key that the database does not know, and that is every NEW key
/// too. Only on a route whose counterparty `answers`, with a `not_found_after`, are such keys freed, after
/// two "not found". On opaque routes, on `dedups`, and on `answers` without `not_found_after` every one of
/// them ends in review: have somebody there who decides, or take no payments. After 24 hours a lost key is
/// new, and runs.
///
/// Commands on their way to counterparties are doubted by the first courier (`samekey worker`, `samekey send`
/// or a service that delivers) which starts after this, for each of its destinations, before it delivers
/// anything: every command that is not finished may have been executed since. Where the counterparty
/// answers questions it is asked; where it deduplicates by key, what has a key that it may know is sent again
/// under that key; the rest goes to `samekey commands inbox`. What is enqueued within the 24 hours is asked
/// about by its reference first, since a lost command of the same action had another key; where that cannot be
/// asked, it goes to the inbox without having been sent.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example, for a database restored to its state of noon in Tokyo:\n  \
    samekey restore-mark --lost-since 2026-11-30T12:00:00+09:00 \\\n    \
    --database postgres://app@localhost/shop")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseFlag,
    /// The moment to which the database was restored (RFC 3339, with an offset): what was written later is
    /// lost. It is recorded for people, and nothing is decided by it
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
    let (report, commands) = block_on(async {
        match arguments.database.open().await? {
            Store::Postgres(store) => mark(&store, lost_since).await,
            Store::Sqlite(store) => mark(&store, lost_since).await,
        }
    })?;
    say(&format!(
        "what was written since {} is lost; marked for {} hours: open keys that are unknown now: {}; free keys removed: {}\n\
         Until then external routes run no key that this database does not know, new ones included, before it is \
         asked about; where `answers` with `not_found_after` is not declared, each of them ends in review.\n\
         Commands that are not finished: {commands}; the next courier that starts doubts them, each destination before \
         it delivers there; look at `samekey commands inbox` then.\n",
        second(lost_since),
        RESTORE_MARK_LASTS.as_secs() / 3600,
        report.unknown,
        report.free_removed,
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Marks the database, and counts the commands that are in doubt by that.
async fn mark<S: Ledger + Outbox>(
    store: &S,
    lost_since: Time,
) -> Result<(RestoreReport, u64), Stopped> {
    let report = mark_restored(store, lost_since).await.map_err(|error| {
        if error.kind() == Kind::Misused {
            return Stopped::new(Code::Usage, error.to_string());
        }
        Stopped::from(error)
    })?;
    let commands = store.count_commands().await?.iter().map(|count| count.count).sum();
    Ok((report, commands))
}
