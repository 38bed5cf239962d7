use super::*;

fn read(text: &str) -> Result<Settings, Error> {
    let text = format!("upstream = \"http://127.0.0.1:9000\"\n{text}");
    Settings::read(Some(("samekey.toml", &text)), &Overrides::default())
}

fn sentence(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn an_upstream_is_all_that_a_gateway_needs() {
    let overrides =
        Overrides { upstream: Some("http://localhost".to_owned()), ..Overrides::default() };
    let settings = Settings::read(None, &overrides).unwrap();
    assert_eq!(settings.target.port, 80);
    assert_eq!(settings.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(settings.database(), "sqlite:samekey.db");
    assert_eq!(settings.limits, Limits::default());
    assert_eq!(settings.routes.len(), 1);
    assert!(
        Settings::read(None, &Overrides::default()).unwrap_err().to_string().contains("--upstream")
    );
}

#[test]
fn a_flag_comes_before_the_file_and_that_before_the_default() {
    let overrides = Overrides { listen: Some("[::1]:1".to_owned()), ..Overrides::default() };
    let text = "upstream = \"http://[::1]:9\"\nlisten = \"127.0.0.1:2\"\nadmin = \"127.0.0.1:3\"\n";
    let settings = Settings::read(Some(("f", text)), &overrides).unwrap();
    assert_eq!(settings.listen.to_string(), "[::1]:1");
    assert_eq!(settings.admin.unwrap().to_string(), "127.0.0.1:3");
    assert_eq!((settings.target.host.as_str(), settings.target.port), ("::1", 9));
}

#[test]
fn an_unknown_key_names_its_place_and_the_nearest_known_one() {
    assert_eq!(
        sentence("listne = \"x\""),
        "samekey.toml:2: `listne` is no setting; did you mean `listen`?"
    );
    assert_eq!(
        sentence("[limits]\nconnection_max = 3"),
        "samekey.toml:3: `limits.connection_max` is no setting; did you mean `limits.connections_max`?"
    );
    assert!(sentence("qqq = 1").contains("known here: upstream, listen"));
    let route = "[[route]]\nname = \"a\"\npath = \"/a\"\n[[route]]\nname = \"b\"\nmethod = []";
    assert!(sentence(route).starts_with(
        "samekey.toml:7: `route.method` is no setting; did you mean `route.methods`?"
    ));
}

#[test]
fn a_wrong_value_names_its_place_what_was_found_and_what_to_write() {
    for (text, expected) in [
        ("listen = 8080", "samekey.toml:2: `listen`: found an integer; expected a text in quotes"),
        ("listen = \"8080\"", "samekey.toml:2: `listen`: found \"8080\"; expected an IP address"),
        (
            "\nrepeats = \"obsrve\"",
            "samekey.toml:3: `repeats`: found \"obsrve\"; expected one of \"observe\", \"header\", \"off\"; did you mean \"observe\"?",
        ),
        (
            "[limits]\nconnections_max = 0",
            "`limits.connections_max`: found 0; expected a whole number from 1",
        ),
        ("[limits]\nconnections_max = \"many\"", "found a string; expected a whole number from 1"),
        ("[default]\nkey = \"of\"", "`default.key`: found \"of\""),
        (
            "[default]\nlease_ms = 20000",
            "`default.lease_ms`: the lease of 20s is not longer than the upstream's time of 30s",
        ),
        ("[default]\ntimeout_ms = 60000", "`default.timeout_ms`: the lease of 60s is not longer"),
        ("[default]\nrun_max_ms = 50000", "`default.run_max_ms`: policy `run_max`"),
        (
            "[default]\nkeep_headers = [\"set-cookie\"]",
            "`default.keep_headers`: the header set-cookie must never be replayed",
        ),
        ("[default]\nsemantic_headers = [\"authorization\"]", "`default.semantic_headers`: policy"),
        ("[default]\ncounterparty = \"dedups\"", "this version asks no upstream"),
        ("[[route]]\nname = \"a\"", "samekey.toml:2: `route.path`: is missing; add it"),
        (
            "[[route]]\nname = \"default\"\npath = \"/a\"",
            "`route.name`: \"default\" is the route for all other paths",
        ),
        ("[[route]]\nname = \"a\"\npath = \"/a/\"", "`route.path`: \"/a/\" has a plainer form"),
        (
            "[[route]]\nname = \"a\"\npath = \"/a\"\nmethods = [\"GET\"]",
            "`route.methods`: found \"GET\"",
        ),
        (
            "[[route]]\nname = \"a\"\npath = \"/a\"\n[[route]]\nname = \"a\"\npath = \"/b\"",
            "samekey.toml:6: `route.name`: a second route",
        ),
        ("[[token]]\nsha256 = \"abc\"\norg = \"a\"", "`token.sha256`: expected the SHA-256"),
        ("trusted_proxies = [\"ten\"]", "`trusted_proxies`: found \"ten\""),
        ("trusted_proxies = []", "is an empty list"),
        ("org = \"a\"\ntrusted_proxies = [\"::1\"]", "`org`: names the one organisation"),
        ("org_header = \"host\"", "`org_header`: found \"host\""),
        (
            "[default.in_progress]\npointer = \"/a\"",
            "samekey.toml:2: `default.in_progress.status`: is missing",
        ),
        (
            "[default.in_progress]\nstatus = 409\npointer = \"a\"",
            "`default.in_progress.pointer`: found \"a\"",
        ),
        ("limits = 3", "`limits`: found an integer; expected a table, written [limits]"),
        ("a = [", "samekey.toml:2: "),
    ] {
        let found = sentence(text);
        assert!(found.contains(expected), "{text}\nfound:    {found}\nexpected: {expected}");
    }
}

#[test]
fn t108_the_callers_key_is_not_sent_on_where_two_organisations_would_meet() {
    let same = "[default]\noutbound_key = \"same\"";
    assert_eq!(read(same).unwrap().routes[0].outbound, Outbound::Same);
    let sentence = sentence(&format!("trusted_proxies = [\"::1\"]\n{same}"));
    assert!(sentence.contains("would meet at the upstream"), "{sentence}");
}

#[test]
fn an_upstream_that_cannot_be_used_is_refused_without_repeating_it() {
    for bad in
        ["localhost:9", "https://a/b", "http://a/b", "http://a?b", "ftp://a", "http://u:secret@a"]
    {
        let overrides = Overrides { upstream: Some(bad.to_owned()), ..Overrides::default() };
        let sentence = Settings::read(None, &overrides).unwrap_err().to_string();
        assert!(sentence.contains("expected http://HOST:PORT"), "{sentence}");
        assert!(!sentence.contains("secret"), "{sentence}");
    }
}
