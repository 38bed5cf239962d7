//! Everything that can be asked in a wrong way: the exit code, and one sentence that says what to do.

use samekey_sim::Program;
use samekey_sim::process::END_BOUND;
use std::net::TcpListener;

/// What no sentence may repeat.
const SECRET: &str = "canary";

/// Words, exit code, and a part of what is said.
type Case<'a> = (&'a [&'a str], i32, &'a str);

#[test]
fn bad_words_have_their_exit_code_and_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &[u8]| {
        std::fs::write(path(name), text).unwrap();
        path(name)
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let good = format!("sqlite:{}", path("keys.db"));
    let made = Program::at(env!("CARGO_BIN_EXE_samekey")).args(["migrate", "--database", &good]);
    assert_eq!(made.run(END_BOUND).unwrap().code(), Some(0));

    let unreachable = "postgres://u:canary@127.0.0.1:1/x?password=canary";
    let nowhere = "sqlite:/nonexistent/x.db";
    let garbage = format!("sqlite:{}", write("garbage.db", &[0xaa; 4096]));
    let (garbage, good) = (garbage.as_str(), good.as_str());
    let (upstream, any) = ("http://127.0.0.1:1", "127.0.0.1:0");
    let ledger = format!("sqlite:{}", path("ledger.db"));
    let ledger = ledger.as_str();
    let courier = write("courier.toml", b"environment = \"x\"\n[destinations]\n");
    let wrong =
        write("wrong.toml", b"upstream = \"http://u:canary@h\"\nlisten = 1\n[limits]\ngrace = 1\n");
    let wrong = wrong.as_str();
    let id = "01a22d4c-52e9-7131-abd7-89cfdabe6151";
    let missing = path("none.toml");
    let missing = missing.as_str();
    let csv = write("one.csv", b"nothing\n");
    let ours = folder.path().to_str().unwrap();
    write("README.md", b"mine");

    let cases: &[Case] = &[
        (&[], 2, "Usage: samekey <COMMAND>"),
        (&["nonsense"], 2, "unrecognized subcommand 'nonsense'"),
        (&["migrat"], 2, "a similar subcommand exists: 'migrate'"),
        (&["demo", "--slow"], 2, "unexpected argument '--slow'"),
        (&["demo", "--format", "xml"], 2, "possible values: text, json"),
        (&["dev", "--listen", "here"], 2, "expected an IP address and a port"),
        (&["dev", "--listen", &taken], 3, "choose another with --listen"),
        (&["dev", "--api", &taken], 3, "is in use by another process"),
        (&["gateway"], 2, "give --upstream http://HOST:PORT"),
        (&["gateway", unreachable], 2, "unexpected argument"),
        (&["gateway", "host=h user=u password=canary"], 2, "unexpected argument"),
        (&["gateway", "--upstream"], 2, "a value is required for '--upstream <URL>'"),
        (&["gateway", "--upstream", unreachable], 2, "expected http://HOST:PORT"),
        (&["gateway", "--config", missing], 2, "none.toml cannot be read: No such file"),
        (&["gateway", "--config", "."], 2, "Is a directory"),
        (&["gateway", "--config", "/dev/zero"], 2, "more than 1048576 bytes"),
        (
            &["gateway", "--config", wrong],
            2,
            "wrong.toml:1: `upstream`: a user or password stands in it",
        ),
        (&["gateway", "--upstream", upstream, "--database", nowhere], 2, "does not exist; make it"),
        (&["gateway", "--upstream", upstream, "--database", garbage], 2, "not an SQLite database"),
        (&["gateway", "--upstream", upstream, "--database", unreachable], 3, "cannot be reached"),
        (
            &["gateway", "--upstream", upstream, "--database", ledger, "--listen", &taken],
            3,
            "choose another with --listen",
        ),
        (
            &[
                "gateway",
                "--upstream",
                upstream,
                "--database",
                ledger,
                "--listen",
                any,
                "--admin",
                &taken,
            ],
            3,
            "choose another with --admin",
        ),
        (&["config"], 2, "Usage: samekey config <COMMAND>"),
        (&["config", "show"], 2, "give --upstream http://HOST:PORT"),
        (&["config", "show", "--config", missing], 2, "No such file"),
        (&["config", "check", "--config", &courier], 2, "the configuration of samekey worker"),
        (&["config", "check", "--config", garbage], 2, "cannot be read: No such file"),
        (&["completions"], 2, "<SHELL>"),
        (&["completions", "oil"], 2, "possible values: bash"),
        (&["man", "/dev/null/x"], 2, "name another folder"),
        (&["migrate"], 2, "give --database sqlite:FILE or --database postgres://…"),
        (
            &["migrate", "--database", SECRET],
            2,
            "expected sqlite:FILE or postgres://USER:PASSWORD@",
        ),
        (&["migrate", "--database", nowhere], 2, "the directory of the database file"),
        (&["migrate", "--database", garbage], 2, "not an SQLite database"),
        (&["migrate", "--database", unreachable], 3, "check that it runs"),
        (&["migrate", "--print", "oracle"], 2, "possible values: postgres, sqlite"),
        (&["sweep", "--batch", "0", "--database", good], 2, "0 is not in 1..=2000"),
        (&["sweep", "--database", unreachable], 3, "check that it runs"),
        (&["keys", "list", "--database", nowhere], 2, "the directory of the database file"),
        (&["keys", "list", "--database", unreachable], 3, "check that it runs"),
        (&["keys", "show", "default", "--database", good], 2, "<KEY>"),
        (&["keys", "show", "default", "", "--database", good], 2, "send 1 to 255 characters"),
        (&["keys", "show", "", "k", "--database", good], 2, "that is no organisation"),
        (&["keys", "show", "default", "k", "--database", good], 1, "there is no such key"),
        (&["commands", "inbox", "--database", unreachable], 3, "check that it runs"),
        (&["commands", "show", "default", "17", "--database", good], 2, "that is no command's id"),
        (&["commands", "show", "default", id, "--database", good], 1, "there is no such command"),
        (
            &["worker", "--database", good, "--config", missing],
            2,
            "`samekey worker --help` shows one",
        ),
        (&["send", "psp"], 2, "--operation <WORD>"),
        (&["restore-mark", "--database", good], 2, "--lost-since <TIME>"),
        (
            &["restore-mark", "--lost-since", "yesterday", "--database", good],
            2,
            "expected a date, a time and an offset",
        ),
        (&["lab", "api", "--listen", "here"], 2, "expected an IP address and a port"),
        (&["lab", "api", "--listen", &taken], 3, "is in use by another process"),
        (&["lab", "api", "--faults", missing], 2, "No such file"),
        (&["lab", "grade", "/nonexistent"], 2, "/nonexistent is not a folder"),
        (&["lab", "grade", ours, "--listen", &taken], 3, "is in use by another process"),
        (&["lab", "new", ours], 2, "README.md is there already"),
        (&["forensics"], 2, "give a CSV file"),
        (&["forensics", missing], 2, "cannot be opened: No such file"),
        (&["forensics", &csv], 2, "expected column names"),
        (
            &["forensics", "--database", unreachable, "--query", "select 1"],
            3,
            "the database does not answer",
        ),
    ];
    let all: Vec<String> = cases.iter().filter_map(amiss).collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// What is wrong with how this ended.
fn amiss((arguments, code, part): &Case) -> Option<String> {
    let program = Program::at(env!("CARGO_BIN_EXE_samekey")).args(*arguments);
    let ended = program.run(END_BOUND).unwrap();
    // The parser's words come with a hint; what we say is one line.
    let is_ours = ended.stderr.starts_with("samekey");
    let is_right = ended.code() == Some(*code)
        && ended.stderr.contains(*part)
        && ended.stdout.is_empty()
        && !ended.stderr.contains(SECRET)
        && !ended.stderr.contains("panicked")
        && (!is_ours || ended.stderr.lines().count() == 1);
    (!is_right).then(|| format!("{arguments:?}, expected {code} and {part:?}: {ended:?}"))
}
