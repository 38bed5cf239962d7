//! The planted bugs of a transaction of PostgreSQL; see [`crate::bugs`].

use super::*;
use crate::bugs::planted;
use crate::postgres::sql::Sql;
use crate::postgres::value::Span;
use std::sync::OnceLock;

/// Looks whether there is a row, and begins without claiming one where there is none.
pub(super) async fn look_up_first(
    core: &Arc<Core>,
    connection: Connection,
    scope: &Scope,
    offer: &Record,
) -> Result<Result<Begun<Open>, Connection>, StoreError> {
    if !planted("look-up-then-insert") {
        return Ok(Err(connection));
    }
    let Found::Nothing(now) = reload(&connection, scope).await? else { return Ok(Err(connection)) };
    connection.batch_execute(&core.phrases.begin_durably).await.map_err(before_commit)?;
    let seen = cells::inserted(offer, now);
    let open = Open {
        connection: Arc::new(connection),
        core: core.clone(),
        started: now,
        settle: None,
        hold: Hold::None,
    };
    Ok(Ok(Begun::Claimed(open, seen)))
}

/// What goes wrong before the settling update, and the update as it is sent.
pub(super) async fn before_settling(
    connection: &Connection,
    scope: &Scope,
    seen: &Record,
    ready: Ready,
) -> Result<Ready, StoreError> {
    if planted("two-transactions") {
        connection.batch_execute("commit; begin").await.map_err(before_commit)?;
        return Ok(Ready::Unprepared(without_fence()));
    }
    if planted("look-up-then-insert") {
        let cells: Cells<Span> = Cells::of(Row::of(seen));
        let (org, key) = (scope.org.as_str(), scope.key.as_str());
        let mut parameters: Vec<Cell<'_>> = vec![&org, &key];
        parameters.extend(cells.all());
        let none = "0";
        parameters.extend([&none as Cell<'_>, &none]);
        connection.run_once(&sql::INSERT_OR_LOAD, &parameters).await.map_err(before_commit)?;
        return Ok(Ready::Unprepared(without_fence()));
    }
    if planted("no-fence-on-settling") {
        return Ok(Ready::Unprepared(without_fence()));
    }
    Ok(ready)
}

/// The settling update, whoever holds the row.
fn without_fence() -> &'static Sql {
    static SETTLE: OnceLock<Sql> = OnceLock::new();
    SETTLE.get_or_init(|| {
        let (head, rest) = sql::SETTLE.text.split_once("and fence = $3").unwrap_or_default();
        let (_, tail) = rest.split_once("and now() = $6").unwrap_or_default();
        Sql { text: format!("{head}{tail}").leak(), types: sql::SETTLE.types }
    })
}
