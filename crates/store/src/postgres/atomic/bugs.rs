//! The planted bugs of a transaction of PostgreSQL; see [`crate::bugs`].

use super::*;
use crate::bugs::planted;
use crate::postgres::sql::Sql;
use std::sync::OnceLock;

/// Says that a key is locked without locking it.
pub(super) fn lock(ready: Ready) -> Ready {
    static LOCK: OnceLock<Sql> = OnceLock::new();
    if !planted("look-up-then-insert") {
        return ready;
    }
    Ready::Unprepared(LOCK.get_or_init(|| {
        let (head, _) = sql::LOCK.text.split_once("pg_try_advisory").unwrap_or_default();
        let text = format!("{head} length($1) + length($2) > 0 as locked");
        Sql { text: text.leak(), types: sql::LOCK.types }
    }))
}

/// What goes wrong before the settlement, and the settlement as it is sent.
pub(super) async fn before_settling(
    connection: &Connection,
    is_new: bool,
    ready: Ready,
) -> Result<Ready, StoreError> {
    if !is_new {
        return Ok(ready);
    }
    if planted("two-transactions") {
        connection.batch_execute("commit; begin").await.map_err(before_commit)?;
        return Ok(Ready::Unprepared(without_fence()));
    }
    if planted("no-fence-on-settling") {
        return Ok(Ready::Unprepared(without_fence()));
    }
    Ok(ready)
}

/// The settlement, in whatever transaction it finds itself.
fn without_fence() -> &'static Sql {
    static SETTLE: OnceLock<Sql> = OnceLock::new();
    SETTLE.get_or_init(|| Sql {
        text: sql::SETTLE_NEW.text.replace("(now() = $5)", "(now() >= $5)").leak(),
        types: sql::SETTLE_NEW.types,
    })
}
