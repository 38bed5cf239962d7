//! A store that was restored to an earlier state, and what it has to be told.
//!
//! Whatever was written after that state is lost, so a key that the store does not know may have been
//! executed. While the mark is in force, external routes claim such a key straight into *unknown*, and
//! it is asked about; atomic routes are not concerned, because their effects were lost with their keys.

use crate::claim::new_owner;
use samekey_core::key::{Key, Org, Scope};
use samekey_core::policy::{Choices, Counterparty};
use samekey_core::step::{Input, step};
use samekey_core::time::Time;
use samekey_store::{
    Kind, LIST_PAGE_MAX, Ledger, Restored, SWEEP_BATCH_MAX, Seen, StoreError, Swap,
};
use std::time::Duration;

/// How long a mark is in force: the longest time for which a caller of ours keeps retrying is twelve
/// hours, and a person who repeats a command by hand comes within the day.
pub const RESTORE_MARK_LASTS: Duration = Duration::from_secs(24 * 3600);
/// How often a record that changes meanwhile is looked at again.
const TRIES_MAX: u32 = 5;

/// What marking a store did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Open records that are unknown now, and will be asked about.
    pub unknown: u64,
    /// Free rows that were removed: they may have been used since.
    pub free_removed: u64,
}

/// Marks a store that was restored from a backup to the moment `lost_since`: what was written later is
/// lost, so a key that the store does not know may have been executed.
///
/// Do it before the service starts again. Services read the mark when they make their
/// [`External`](crate::External); one that runs already sees it only where a recovery is spawned, within
/// a pass of it.
///
/// For [`RESTORE_MARK_LASTS`] external routes run no key that the store does not know before it was asked
/// about, **and that is every new key too**. Only routes whose counterparty `Answers`, with a
/// `not_found_after`, free such a key, after two "not found". On opaque routes, on `Dedups`, and on
/// `Answers` without `not_found_after` every one of them ends in review: plan for that, or take no
/// payments. Afterwards a lost key is new, and runs. Atomic routes are not concerned: their effects were
/// lost with their keys.
///
/// Records that were running or unknown are unknown then; those in review stay there. `lost_since` is
/// recorded for people, and nothing is decided by it.
///
/// # Errors
/// [`Kind::Misused`] for a moment in the future, and what the store fails with; marking again is safe.
pub async fn mark_restored<S: Ledger>(
    store: &S,
    lost_since: Time,
) -> Result<RestoreReport, StoreError> {
    let now = clock(store).await?;
    if lost_since > now {
        return Err(StoreError::new(
            Kind::Misused,
            "the restore is said to have lost what comes after a moment in the future; give the moment to which the database was restored, in UTC",
        ));
    }
    let mark = Restored { lost_since, until: now.plus(RESTORE_MARK_LASTS) };
    // First the mark: whatever arrives while the rows are gone through is asked about as well.
    mark.write(store).await?;
    let mut report = RestoreReport::default();
    loop {
        let pass = store.drop_free(SWEEP_BATCH_MAX).await?;
        report.free_removed += pass.removed;
        if !pass.more {
            break;
        }
    }
    let mut after: Option<Scope> = None;
    loop {
        let page = store.list_open(after.as_ref(), LIST_PAGE_MAX).await?;
        let Some(last) = page.last() else { return Ok(report) };
        after = Some(last.scope.clone());
        for open in page {
            report.unknown += u64::from(doubt(store, &open.scope, open.seen).await?);
        }
    }
}

/// Makes one open record unknown; says whether it was something else. Whether its counterparty can be
/// asked at all is decided by its route's recovery, which knows the policy.
async fn doubt<S: Ledger>(store: &S, scope: &Scope, mut seen: Seen) -> Result<bool, StoreError> {
    let choices = Choices {
        counterparty: Counterparty::Answers { not_found_after: None },
        ..Choices::default()
    };
    let policy = choices.check().map_err(|_| {
        StoreError::new(Kind::Other, "the policy of a restore is out of its own bounds")
    })?;
    for _ in 0..TRIES_MAX {
        let (next, _) = step(seen.record.clone(), Input::Restore, seen.now, &policy);
        if next.revision == seen.record.revision {
            return Ok(false);
        }
        match store.swap(scope, &seen.record, &next).await? {
            Swap::Written => return Ok(true),
            Swap::Changed(now) => seen = now,
        }
    }
    // It is being worked on, so it is not a leftover of before.
    Ok(false)
}

/// The store's clock, read off a key that nobody has.
async fn clock<S: Ledger>(store: &S) -> Result<Time, StoreError> {
    let name: String = new_owner()?.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let unused = |_| StoreError::new(Kind::Other, "a random name is no organisation");
    let scope = Scope {
        org: Org::new(&name).map_err(unused)?,
        key: Key::new(&name)
            .map_err(|_| StoreError::new(Kind::Other, "a random name is no key"))?,
    };
    Ok(store.load(&scope).await?.now)
}
