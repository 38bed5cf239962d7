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
            "`default.lease_ms`: lease_ms = 20000 is not longer than timeout_ms = 30000",
        ),
        ("[default]\ntimeout_ms = 60000", "`default.timeout_ms`: lease_ms = 60000 is not longer"),
        ("[default]\nrun_max_ms = 50000", "`default.run_max_ms`: policy `run_max`"),
        (
            "[default]\nkeep_headers = [\"set-cookie\"]",
            "`default.keep_headers`: the header set-cookie must never be replayed",
        ),
        ("[default]\nsemantic_headers = [\"authorization\"]", "`default.semantic_headers`: policy"),
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
        ("[jwt]\norg_claim = \"org\"", "samekey.toml:2: `jwt.key`: is missing"),
        (
            "[jwt]\nkey = \"no-such.pem\"\norg_claim = \"org\"",
            "samekey.toml:3: `jwt.key`: no-such.pem cannot be read",
        ),
        (
            "[jwt]\nkey = \"Cargo.toml\"\norg_claim = \"org\"",
            "`jwt.key`: Cargo.toml: it holds no public key",
        ),
        ("[jwt]\nkey = \"Cargo.toml\"", "`jwt.org_claim`: is missing"),
        ("trusted_proxies = [\"::1\"]\n[jwt]", "`trusted_proxies`: and [[token]] or [jwt] both"),
        (
            "[[token]]\nsha256 = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"\norg = \"a\"",
            "is the hash of nothing",
        ),
        ("org_header = \"transfer-encoding\"", "`org_header`: found"),
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

const ANSWERS: &str = "[[route]]
name = \"pay\"
path = \"/shops/{shop}/payments\"
counterparty = \"answers\"
ask = { by_key = \"/shops/{shop}/by-key/{key}\" }
[route.answer]
status = \"/status\"
succeeded = [\"paid\"]
amount = { ours = \"/amount\", theirs = \"/amount\" }
reference = { ours = \"/ref\", theirs = \"/ref\" }
";
const DEDUPS: &str = "org = \"shop\"
[[route]]
name = \"pay\"
path = \"/payments\"
counterparty = \"dedups\"
credential = { environment = \"PAY_TOKEN\" }
key_life_s = 86400
in_progress = { status = 409, pointer = \"/error\", value = \"busy\" }
";

#[test]
fn t82_what_cannot_keep_the_promise_is_refused_with_its_place_and_a_remedy() {
    read(ANSWERS).unwrap();
    read(DEDUPS).unwrap();
    for (text, from, to, expected) in [
        (
            ANSWERS,
            "ask = ",
            "recovered = {}\nask_ = ",
            "samekey.toml:7: `route.ask_` is no setting; did you mean `route.ask`?",
        ),
        (
            ANSWERS,
            "ask = { by_key = \"/shops/{shop}/by-key/{key}\" }\n",
            "",
            "samekey.toml:2: `route.ask`: is missing",
        ),
        (
            ANSWERS,
            "\"answers\"",
            "\"opaque\"",
            "samekey.toml:6: `route.ask`: means something with counterparty = \"answers\" alone",
        ),
        (
            ANSWERS,
            "\"answers\"",
            "\"answer\"",
            "expected one of \"opaque\", \"answers\", \"dedups\"; did you mean \"answers\"?",
        ),
        (
            ANSWERS,
            "{shop}/by-key",
            "{id}/by-key",
            "`route.ask.by_key`: \"/shops/{id}/by-key/{key}\" has the blank {id}; expected {key}",
        ),
        (
            ANSWERS,
            "by-key/{key}",
            "by-key",
            "`route.ask.by_key`: the address to ask at, \"/shops/x/by-key\": it has no {key}",
        ),
        (
            ANSWERS,
            "{key}\"",
            "{key}\", not_found_after_s = 3600",
            "`route.ask.not_found_after_s`: ask.not_found_after_s without ask.not_found",
        ),
        (
            ANSWERS,
            "{key}\"",
            "{key}\", not_found_after_s = 60",
            "samekey.toml:6: `route.ask.not_found_after_s`: policy `not_found_after`: 60s is shorter than run_max 300s",
        ),
        (
            ANSWERS,
            "{key}\"",
            "{key}\", base_url = \"ftp://a\"",
            "`route.ask.base_url`: expected an address",
        ),
        (ANSWERS, "status = \"/status\"\n", "", "`route.answer`: answer has words"),
        (
            ANSWERS,
            "reference = { ours",
            "currency = { ours",
            "`route.answer.amount`: answer.amount and answer.reference are missing",
        ),
        (
            ANSWERS,
            "succeeded = [\"paid\"]",
            "succeeded = [\"paid\"]\nrefused = [\"paid\"]",
            "the word \"paid\" stands twice",
        ),
        (
            ANSWERS,
            "[route.answer]",
            "recovered = { refused_status = 429 }\n[route.answer]",
            "`route.recovered.refused_status`: 429",
        ),
        (
            ANSWERS,
            "[route.answer]",
            "recovered = { body = \"id\" }\n[route.answer]",
            "`route.recovered.body`: found \"id\"; expected a JSON pointer",
        ),
        (
            ANSWERS,
            "[route.answer]",
            "outbound_key = \"same\"\n[route.answer]",
            "`route.outbound_key`: \"same\" cannot be asked about",
        ),
        (
            DEDUPS,
            "credential = { environment = \"PAY_TOKEN\" }\n",
            "",
            "samekey.toml:3: `route.credential`: is missing",
        ),
        (
            DEDUPS,
            "environment = \"PAY_TOKEN\"",
            "token = \"x\"",
            "`route.credential.token` is no setting",
        ),
        (
            DEDUPS,
            "environment = \"PAY_TOKEN\"",
            "header = \"x-key\"",
            "expected one of environment and file",
        ),
        (
            DEDUPS,
            "\"PAY_TOKEN\"",
            "\"PAY_TOKEN\", header = \"Host\"",
            "`route.credential.header`: found \"Host\"",
        ),
        (DEDUPS, "key_life_s = 86400\n", "", "samekey.toml:3: `route.key_life_s`: is missing"),
        (
            DEDUPS,
            "86400",
            "360",
            "samekey.toml:8: `route.key_life_s`: policy `key_life`: 360s is not longer than run_max 300s and a lease 60s together",
        ),
        (DEDUPS, "in_progress", "#in_progress", "samekey.toml:3: `route.in_progress`: is missing"),
        (
            DEDUPS,
            "key_life_s",
            "stored_refusals = [402, 429]\nkey_life_s",
            "`route.stored_refusals`: 429 speaks of the moment",
        ),
        (
            DEDUPS,
            "key_life_s",
            "lease_ms = 20000\nkey_life_s",
            "`route.lease_ms`: lease_ms = 20000 is not longer",
        ),
        (
            DEDUPS,
            "org = \"shop\"\n",
            "",
            "`org`: is missing; commands of route \"pay\" are sent with the gateway's own credential",
        ),
        (
            "[default]\n",
            "[default]",
            "[default]\ncredential = { file = \"a\" }",
            "`default.credential`: is for questions",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let found = sentence(&text.replacen(from, to, 1));
        assert!(found.contains(expected), "{from}\nfound:    {found}\nexpected: {expected}");
    }
}

#[test]
fn the_examples_of_the_guide_can_be_read() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateway.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let blocks = guide.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut read_so_far = 0;
    for block in blocks {
        let text = if block.starts_with("upstream") {
            block.to_owned()
        } else if block.starts_with("[[route]]") {
            format!("upstream = \"http://a\"\n{block}")
        } else if block.starts_with("counterparty") {
            let route = "[[route]]\nname = \"pay\"\npath = \"/pay\"\n";
            format!("upstream = \"http://a\"\norg = \"shop\"\n{route}{block}")
        } else {
            // Its key is a file that nobody has.
            assert!(block.starts_with("[jwt]"), "an example that nobody reads: {block}");
            continue;
        };
        let settings = Settings::read(Some(("gateway.md", &text)), &Overrides::default());
        settings.unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        read_so_far += 1;
    }
    assert_eq!(read_so_far, 3);
}
