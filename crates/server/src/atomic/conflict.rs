//! Which errors of a handler mean that the database wants to be asked again.

use crate::body::BoxError;

/// The longest chain of causes that is followed; a longer one is a circle.
const CAUSES_MAX: usize = 16;

/// Whether an error of the handler is the database's wish to be asked again: a deadlock or a
/// serialisation failure, however deep it is wrapped.
pub(crate) fn is_conflict(error: &BoxError) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
    for _ in 0..CAUSES_MAX {
        let Some(error) = next else { return false };
        if sqlstate(error).is_some_and(|code| code == "40001" || code == "40P01") {
            return true;
        }
        next = error.source();
    }
    false
}

fn sqlstate(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    #[cfg(feature = "postgres")]
    if let Some(error) = error.downcast_ref::<tokio_postgres::Error>() {
        return error.code().map(|code| code.code().to_owned());
    }
    #[cfg(feature = "sqlx")]
    if let Some(::sqlx::Error::Database(error)) = error.downcast_ref::<::sqlx::Error>() {
        return error.code().map(|code| code.into_owned());
    }
    let _ = error;
    None
}
