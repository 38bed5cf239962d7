//! What a field's text means: times, amounts, ids, and the words for states and operations.
//! Pure functions over bytes; nothing here reads a file.

pub(crate) mod amount;
pub(crate) mod id;
pub(crate) mod order;
pub(crate) mod time;
pub(crate) mod words;

/// The field without the blanks that exports leave around it: ASCII blanks, no-break spaces, and
/// a byte order mark that was pasted into the middle of a file.
pub(crate) fn trimmed(mut field: &[u8]) -> &[u8] {
    const BLANKS: [&[u8]; 3] = [b"\xc2\xa0", b"\xe2\x80\xaf", b"\xef\xbb\xbf"];
    // Nearly every field starts and ends with a printed ASCII sign; then there is nothing to do.
    if let [first, .., last] = field
        && first.is_ascii_graphic()
        && last.is_ascii_graphic()
    {
        return field;
    }
    loop {
        field = field.trim_ascii();
        let before = field.len();
        for blank in BLANKS {
            field = field.strip_prefix(blank).unwrap_or(field);
            field = field.strip_suffix(blank).unwrap_or(field);
        }
        if field.len() == before {
            return field;
        }
    }
}

/// Whether the field says "nothing here" in one of the ways exports say it.
pub(crate) fn is_missing(field: &[u8]) -> bool {
    const LONGEST: usize = 6;
    const WORDS: [&[u8]; 7] = [b"null", b"none", b"nil", b"n/a", b"na", b"(null)", b"\\n"];
    field.is_empty()
        || field.iter().all(|byte| *byte == b'-')
        || (field.len() <= LONGEST && WORDS.iter().any(|word| field.eq_ignore_ascii_case(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_of_every_kind_are_trimmed() {
        assert_eq!(trimmed(b" \xc2\xa0 ORD-1\t\xc2\xa0"), b"ORD-1");
        assert_eq!(trimmed(b"\xef\xbb\xbfORD-1"), b"ORD-1");
        assert_eq!(trimmed(b""), b"");
    }

    #[test]
    fn words_for_nothing_are_missing() {
        for word in ["", "-", "NULL", "n/a", "None", "\\N"] {
            assert!(is_missing(word.as_bytes()), "{word}");
        }
        assert!(!is_missing(b"ORD-1"));
        assert!(!is_missing(b"0"));
    }
}
