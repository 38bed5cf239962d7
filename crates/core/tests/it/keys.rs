//! Properties of keys.

use proptest::prelude::*;
use samekey_core::key::{KEY_CHARACTERS_MAX, Key, KeyFault, Org};

fn read(line: &[u8]) -> Result<Key, KeyFault> {
    Key::from_header_lines([line]).map(|key| key.expect("a line is a key or a fault"))
}

/// What the contract says, in other words than the code does.
fn is_a_key(text: &str) -> bool {
    (1..=KEY_CHARACTERS_MAX).contains(&text.chars().count())
        && text.chars().all(|character| (' '..='~').contains(&character))
        && text.chars().any(|character| character != ' ')
}

proptest! {
    #[test]
    fn t17_any_key_comes_back_from_its_quoted_form(text in "[ -~]{0,260}") {
        let key = Key::new(&text);
        prop_assert_eq!(key.is_ok(), is_a_key(&text));
        if let Ok(key) = key {
            prop_assert_eq!(key.as_str(), &text);
            prop_assert_eq!(read(key.to_field().as_bytes()), Ok(key));
        }
    }

    #[test]
    fn t17_a_bare_run_is_the_key_that_its_quoted_form_is(text in "[!#-+\\--:<-~]{1,255}") {
        let bare = read(text.as_bytes());
        prop_assert_eq!(bare.clone(), Key::new(&text));
        prop_assert_eq!(bare.clone(), read(bare.unwrap().to_field().as_bytes()));
    }

    #[test]
    fn b23_any_line_is_a_key_or_a_fault_and_a_fault_never_shows_it(
        line in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            "[a\"\\\\,; \t=é]{0,12}".prop_map(String::into_bytes),
            "\"[a\"\\\\,; ]{0,12}\"".prop_map(String::into_bytes),
        ]
    ) {
        match read(&line) {
            Ok(key) => {
                prop_assert!(is_a_key(key.as_str()));
                prop_assert_eq!(read(key.to_field().as_bytes()), Ok(key));
            }
            Err(fault) => prop_assert!(fault.to_string().starts_with("the Idempotency-Key ")),
        }
    }

    #[test]
    fn b92_other_texts_are_other_keys(one in "[aAbB \"]{1,4}", other in "[aAbB \"]{1,4}") {
        if let (Ok(a), Ok(b)) = (Key::new(&one), Key::new(&other)) {
            prop_assert_eq!(a == b, one == other);
            prop_assert_eq!(a.cmp(&b), one.cmp(&other));
            prop_assert_eq!(a.to_field() == b.to_field(), one == other);
        }
    }

    #[test]
    fn t19_two_lines_are_never_a_key(lines in proptest::collection::vec("[ -~]{0,9}", 2..4)) {
        let lines = lines.iter().map(|line| line.as_bytes());
        prop_assert_eq!(Key::from_header_lines(lines), Err(KeyFault::Repeated));
    }

    #[test]
    fn an_org_keeps_its_text(text in "\\PC{0,300}") {
        if let Ok(org) = Org::new(&text) {
            prop_assert_eq!(org.as_str(), &text);
            prop_assert!((1..=255).contains(&text.len()));
        }
    }
}
