//! What is wrong with a configuration, in one sentence that repeats nothing that might be a secret.

/// How far a word may be from a known one to be taken for a slip of the pen, as a part of its length.
const SLIP_PART: usize = 3;

/// File, line and key, what was found, what is expected, and what was probably meant.
pub fn sentence(file: &str, text: &str, error: &toml::de::Error) -> String {
    let message = without_values(&error.message().replace('\n', " "));
    let place = match error.span() {
        None => file.to_owned(),
        Some(span) => {
            let (number, line) = line_at(text, span.start);
            let key = key_of(line).filter(|key| !message.contains(&format!("`{key}`")));
            let key = key.map(|key| format!(", `{key}`")).unwrap_or_default();
            format!("{file}, line {number}{key}")
        }
    };
    let meant = meant(&message).map(|word| format!("; did you mean `{word}`?"));
    format!("the configuration {place}: {message}{}", meant.unwrap_or_default())
}

/// The line at this byte, and its number from 1.
fn line_at(text: &str, byte: usize) -> (usize, &str) {
    let mut ends = 0;
    for (at, line) in text.split('\n').enumerate() {
        ends += line.len() + 1;
        if byte < ends {
            return (at + 1, line);
        }
    }
    (text.split('\n').count(), "")
}

/// The key that a line sets, if it is a plain one.
fn key_of(line: &str) -> Option<&str> {
    let key = line.split_once('=')?.0.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!key.is_empty() && key.chars().all(is_plain)).then_some(key)
}

/// What a text says, without the text that was found where something else is expected: it may be a
/// credential in the wrong place. And without the names of our types.
fn without_values(message: &str) -> String {
    let message = match message.find("string \"") {
        None => message.to_owned(),
        Some(at) => {
            let (before, value) = message.split_at(at);
            let rest = value.rfind("\", expected").and_then(|end| value.get(end + 1..));
            format!("{before}a text{}", rest.unwrap_or_default())
        }
    };
    match message.find("expected struct ") {
        None => message,
        Some(at) => format!("{}expected a table", message.get(..at).unwrap_or_default()),
    }
}

/// The known word that is nearest to the one that was found. The message names both between backticks,
/// the one that was found first.
fn meant(message: &str) -> Option<&str> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut words = message.split('`').skip(1).step_by(2);
    let found = words.next()?;
    nearest(found, words)
}

/// The nearest of these words, if it may be meant.
pub fn nearest<'a>(found: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|word| (strsim::damerau_levenshtein(found, word), word)).min()?;
    let slip = found.chars().count().max(SLIP_PART) / SLIP_PART;
    let (distance, word) = near;
    (distance <= slip || word.starts_with(found) || found.starts_with(word)).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::{nearest, sentence};
    use samekey_client::config::CourierConfig;

    fn of(text: &str) -> String {
        let error = toml::from_str::<CourierConfig>(text).unwrap_err();
        sentence("x.toml", text, &error)
    }

    #[test]
    fn a_fault_names_line_key_and_what_was_meant() {
        let psp =
            "environment = \"test\"\n[destinations.psp.http]\nbase_url = \"https://a.test\"\n";
        for (text, parts) in [
            (
                "environmint = 1",
                &["x.toml, line 1", "`environmint`", "did you mean `environment`?"][..],
            ),
            (
                &format!("{psp}key_life = 60\n"),
                &["line 4", "`key_life`", "did you mean `key_life_s`?"],
            ),
            (
                &format!("{psp}[destinations.psp]\nprofile = \"durabel\"\n"),
                &["line 5", "`durable`?"],
            ),
            ("environment = ", &["line 1, `environment`"]),
            (&format!("{psp}base_url = \"b\"\n"), &["line 4, `base_url`: duplicate key"]),
            (
                &format!("{psp}allow_networks = [\"b\"]\n"),
                &["line 4, `allow_networks`: invalid IP"],
            ),
            (
                &format!("{psp}credential = \"b\"\n"),
                &["line 4, `credential`: ", "expected a table"],
            ),
            (&format!("{psp}[destinations.fax]\n"), &["missing field `http`"]),
        ] {
            let sentence = of(text);
            assert!(parts.iter().all(|part| sentence.contains(part)), "{text}: {sentence}");
            assert_eq!(sentence.lines().count(), 1, "{sentence}");
        }
        let far = of(&format!("{psp}colour = 60\n"));
        assert!(far.contains("`colour`") && !far.contains("did you mean"), "{far}");
    }

    #[test]
    fn t104_a_credential_in_the_wrong_place_is_not_repeated() {
        let psp =
            "environment = \"test\"\n[destinations.psp.http]\nbase_url = \"https://a.test\"\n";
        for line in [
            "credential = \"canary\"",
            "credential = { token = \"canary\" }",
            "credential = { environment = [\"canary\"] }",
            "key_life_s = \"canary\"",
            "key_life_s = \"canary\\\", expected canary\"",
            "protocol = { canary = 1 }",
            "allow_networks = [\"canary\"]",
            "credential = canary",
        ] {
            let sentence = of(&format!("{psp}{line}\n"));
            assert!(
                !sentence.contains("\"canary") && sentence.contains("line 4"),
                "{line}: {sentence}"
            );
        }
    }

    #[test]
    fn only_a_slip_of_the_pen_is_taken_for_another_word() {
        let known = ["psp", "bank", "carrier"];
        assert_eq!(nearest("psb", known.into_iter()), Some("psp"));
        assert_eq!(nearest("carrjer", known.into_iter()), Some("carrier"));
        assert_eq!(nearest("warehouse", known.into_iter()), None);
        assert_eq!(nearest("x", std::iter::empty()), None);
    }
}
