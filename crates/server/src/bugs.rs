//! The planted bugs of the engine; see `samekey_store::bugs`.

use bytes::Bytes;
use samekey_core::key::{Org, Scope};
use samekey_core::receipt::{Answer, Receipt};
use samekey_core::record::{Record, State};
use samekey_core::time::Time;
pub(crate) use samekey_store::bugs::planted;
use samekey_store::{Ledger, StoreError};

/// Keeps a cookie, and takes a time-out for a final refusal.
pub(crate) fn receipt(mut receipt: Receipt, headers: &http::HeaderMap) -> Receipt {
    if planted("set-cookie-stored")
        && let Receipt::Kept(answer) = &mut receipt
    {
        for value in headers.get_all(http::header::SET_COOKIE) {
            answer.headers.push(("set-cookie".into(), Bytes::copy_from_slice(value.as_bytes())));
        }
    }
    receipt
}

/// A body that is read as JSON and written again.
pub(crate) fn replayed(answer: &Answer) -> Answer {
    let mut answer = answer.clone();
    if planted("replay-from-json")
        && let Ok(json) = serde_json::from_slice::<serde_json::Value>(&answer.body)
    {
        answer.body = Bytes::from(json.to_string());
    }
    answer
}

/// One scope for all organisations.
pub(crate) fn scope(mut scope: Scope) -> Scope {
    if planted("scope-without-org")
        && let Ok(everybody) = Org::new("everybody")
    {
        scope.org = everybody;
    }
    scope
}

/// This process's clock in place of the store's.
pub(crate) fn now(now: Time) -> Time {
    let ours = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros();
    match i64::try_from(ours) {
        Ok(ours) if planted("lease-by-process-clock") => Time::from_micros(ours),
        Ok(_) | Err(_) => now,
    }
}

/// Frees a key that may have been executed.
pub(crate) async fn free<S: Ledger>(
    store: &S,
    scope: &Scope,
    record: &Record,
) -> Result<(), StoreError> {
    let revision = record.revision.saturating_add(1);
    let freed = Record { state: State::Free, revision, ..record.clone() };
    store.swap(scope, record, &freed).await?;
    Ok(())
}
