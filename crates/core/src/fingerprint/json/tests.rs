use super::*;

fn canonical(body: impl AsRef<[u8]>) -> Option<String> {
    Canonical::read(body.as_ref()).map(|canonical| {
        let all = canonical.to_vec();
        assert_eq!(all.len(), canonical.bytes());
        String::from_utf8(all).unwrap()
    })
}

fn text(body: &str) -> String {
    canonical(body).unwrap_or_else(|| panic!("{body:?} has a canonical form"))
}

#[test]
fn white_space_does_not_count() {
    assert_eq!(text(" \t\r\n{ \"a\" : [ 1 , true , null ] } \n"), r#"{"a":[1,true,null]}"#);
    assert_eq!(text(" { } "), "{}");
    assert_eq!(text("[ [ ] , false ]"), "[[],false]");
}

#[test]
fn b89_members_are_sorted_at_every_depth_and_arrays_are_not() {
    assert_eq!(
        text(r#"{"b":{"d":1,"c":[{"z":0,"y":[3,1,2]},{}]},"a":{"f":{"h":1,"g":2},"e":0}}"#),
        r#"{"a":{"e":0,"f":{"g":2,"h":1}},"b":{"c":[{"y":[3,1,2],"z":0},{}],"d":1}}"#
    );
    assert_eq!(text(r#"[{"b":1,"a":2},[{"d":1,"c":2}]]"#), r#"[{"a":2,"b":1},[{"c":2,"d":1}]]"#);
    assert_ne!(text("[1,2]"), text("[2,1]"));
}

#[test]
fn names_are_sorted_by_what_they_mean_not_by_how_they_are_spelled() {
    // A quote (0x22) comes before `A` (0x41), though its escape starts with a backslash (0x5C).
    assert_eq!(
        text(r#"{"b":0,"A":1,"\"":2,"\n":3,"":4,"\u0001":5,"\\":6}"#),
        r#"{"":4,"\u0001":5,"\n":3,"\"":2,"A":1,"\\":6,"b":0}"#
    );
    assert_eq!(text(r#"{"a\u0062":1,"a":2}"#), r#"{"a":2,"ab":1}"#);
    // UTF-8 order, where UTF-16 order would put the emoji first.
    assert_eq!(text(r#"{"🔑":1,"\uFB33":2}"#), "{\"\u{FB33}\":2,\"🔑\":1}");
}

#[test]
fn b89_strings_are_equal_when_they_mean_the_same() {
    assert_eq!(text(r#""\u0041\/\u00e9\uD83D\udd11""#), "\"A/é🔑\"");
    assert_eq!(
        text(r#""\u0022\u005C\u0008\u000c\u000A\u000d\u0009\u001F\u0000""#),
        r#""\"\\\b\f\n\r\t\u001f\u0000""#
    );
    assert_eq!(text("\"\x7f\""), "\"\x7f\"");
}

#[test]
fn t34_there_is_no_unicode_normalisation() {
    assert_ne!(text("\"\u{e9}\""), text("\"e\u{301}\""));
}

#[test]
fn t32_numbers_stay_as_they_were_written() {
    for lexeme in [
        "0",
        "-0",
        "100",
        "100.0",
        "1e2",
        "1E2",
        "1e+2",
        "1e-2",
        "-1.5E+10",
        "9007199254740992",
        "9007199254740993",
        "1e999999",
    ] {
        assert_eq!(text(lexeme), lexeme);
    }
}

#[test]
fn t31_a_name_twice_anywhere_has_no_canonical_form() {
    for body in [
        r#"{"amount":1,"amount":9}"#,
        r#"{"amount":9,"amount":9}"#,
        r#"{"b":1,"a":1,"b":1}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"[{"x":{"":1,"":2}}]"#,
        r#"{"z":{"k":1,"k":1},"a":1}"#,
        r#"{"a\"":1,"b":2,"a\u0022":3}"#,
    ] {
        assert_eq!(canonical(body), None, "{body}");
    }
    assert!(canonical(r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#).is_some());
}

#[test]
fn nesting_over_128_has_no_canonical_form() {
    let arrays = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(canonical(arrays(DEPTH_MAX)).is_some());
    assert_eq!(canonical(arrays(DEPTH_MAX + 1)), None);
    let objects = |depth| "{\"b\":".repeat(depth) + "1" + &",\"a\":0}".repeat(depth);
    assert!(canonical(objects(DEPTH_MAX)).is_some_and(|form| form.starts_with("{\"a\":0,\"b\"")));
    assert_eq!(canonical(objects(DEPTH_MAX + 1)), None);
    assert_eq!(canonical("[".repeat(10_000)), None);
    let flat = format!("[{}]", vec!["[]"; 1_000].join(","));
    assert!(canonical(flat).is_some(), "what closed does not count");
}

#[test]
fn what_is_not_strict_json_has_no_canonical_form() {
    for body in [
        "",
        " ",
        "\u{feff}{}",
        "{",
        "}",
        "[1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1]]",
        "{}{}",
        "1 2",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,\"a\":1}",
        "{\"a\" 1}",
        "{a:1}",
        "{'a':1}",
        "{1:1}",
        "[1}",
        "{\"a\":1]",
        "{\"a\":1 \"b\":2}",
        "nul",
        "nulll",
        "True",
        "NaN",
        "Infinity",
        "-Infinity",
        "01",
        "-",
        "-01",
        "+1",
        ".5",
        "1.",
        "1.e2",
        "1e",
        "1e+",
        "0x1",
        "1_000",
        "1a",
        "\"",
        "\"a",
        "\"\\",
        "\"\\\"",
        "\"a\nb\"",
        "\"\t\"",
        "\"\\x41\"",
        "\"\\u12\"",
        "\"\\u12G4\"",
        "\"\\u+123\"",
        "\"\\uD800\"",
        "\"\\uDC00\"",
        "\"\\uD83D\\u0041\"",
        "\"\\uD83Dx\"",
        "\"\\uD83D\\uD83D\"",
        "\"\\U0041\"",
        "//c\n1",
        "/**/1",
        "\u{a0}1",
        "1\0",
        "\u{c}1",
        "[1,2",
        "{\"a\":1",
        "{\"a\":",
        "{\"a\"",
        ":",
        ",",
    ] {
        assert_eq!(canonical(body), None, "{body:?}");
    }
    for body in [&b"\"\xFF\""[..], b"\"\xED\xA0\x80\"", b"\"\xC0\x80\"", b"{\"a\":1}\xFF"] {
        assert_eq!(canonical(body), None, "{body:?}");
    }
}

#[test]
fn t97_the_memory_is_a_small_multiple_of_the_body() {
    let many = |count: usize, one: &str| format!("[{}]", vec![one; count].join(","));
    let names = |count: usize| {
        let members: Vec<String> = (0..count).rev().map(|n| format!("\"{n:04x}\":0")).collect();
        format!("{{{}}}", members.join(","))
    };
    let bodies = [
        many(20_000, "{\"b\":1,\"a\":1}"),
        many(20_000, "{}"),
        many(20_000, "[]"),
        names(60_000),
        many(8, &names(4_000)),
    ];
    for body in bodies {
        let canonical = Canonical::read(body.as_bytes()).unwrap();
        let bytes = canonical.flat.capacity()
            + canonical.shuffled.capacity() * size_of::<Shuffled>()
            + canonical.members.capacity() * size_of::<Member>();
        assert!(bytes <= 8 * body.len(), "{bytes} bytes for {} of {:.20}", body.len(), body);
    }
}
