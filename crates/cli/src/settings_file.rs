//! Files with settings, read as far as settings go.

use std::io::Read;
use std::path::Path;

/// The largest file with settings: hundreds of routes or destinations fit in it, and a wrong file does not fill
/// memory.
const BYTES_MAX: u64 = 1 << 20;

/// The text of a file, or what is wrong with it, to be said behind the file's name.
pub fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = Vec::new();
    // A device has no end.
    file.take(BYTES_MAX.saturating_add(1)).read_to_end(&mut text).map_err(unreadable)?;
    if u64::try_from(text.len()).is_ok_and(|bytes| bytes > BYTES_MAX) {
        return Err(format!("has more than {BYTES_MAX} bytes, which no file with settings has"));
    }
    String::from_utf8(text).map_err(|_| "is no text in UTF-8".to_owned())
}
