//! `samekey keys` and `samekey restore-mark`: what a person sees and decides, on both databases.

use crate::database::Database;
use bytes::Bytes;
use http_body_util::Full;
use samekey::core::key::Org;
use samekey::core::policy::{Choices, Counterparty};
use samekey::core::record::Reason;
use samekey::store::postgres::{self, PostgresLedger};
use samekey::store::sqlite::SqliteLedger;
use samekey::store::{Ledger, address::Address};
use samekey::{Ask, BoxError, Call, Caller, Engine, External, Finding, Outcome, Question, Route};
use samekey_sim::Program;
use samekey_sim::process::END_BOUND;
use serde_json::Value;

impl Database {
    /// Sends a command whose call ends so; gives the status and the code of its answer.
    async fn send(&self, org: &str, key: &str, asked: bool, ends: Ends) -> (u16, String) {
        match Address::parse(&self.url()).unwrap() {
            Address::Postgres(url) => {
                let pool = postgres::connect(&url).unwrap();
                let ledger = PostgresLedger::open(pool, postgres::Options::default()).await;
                send(ledger.unwrap(), org, key, asked, ends).await
            }
            Address::Sqlite(address) => {
                send(SqliteLedger::open(&address).unwrap(), org, key, asked, ends).await
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Ends {
    Paid,
    Unknown,
    NotStarted,
}

/// A counterparty that cannot tell.
struct Silent;

impl Ask for Silent {
    async fn ask(&self, _: Question) -> Result<Finding, BoxError> {
        Ok(Finding::CannotTell)
    }
}

async fn send<L: Ledger>(
    ledger: L,
    org: &str,
    key: &str,
    asked: bool,
    ends: Ends,
) -> (u16, String) {
    let engine = Engine::new(ledger);
    let external = if asked {
        let counterparty = Counterparty::Answers { not_found_after: None };
        let choices = Choices { counterparty, ..Choices::default() };
        let route = Route::new("payments", choices).unwrap();
        External::asking(&engine, route, Silent).await.unwrap()
    } else {
        let route = Route::new("transfers", Choices::default()).unwrap();
        External::opaque(&engine, route).await.unwrap()
    };
    let request = http::Request::post("/pay").header("idempotency-key", format!("\"{key}\""));
    let request = request.body(Full::new(Bytes::from_static(b"{\"amount\": 1200}"))).unwrap();
    let call = async move |_: Call| -> Result<Outcome, BoxError> {
        let paid = samekey::json(http::StatusCode::CREATED, &"SECRET-ANSWER")?;
        Ok(match ends {
            Ends::Paid => Outcome::finished(paid),
            Ends::Unknown => Outcome::Unknown(Reason::TimedOut),
            Ends::NotStarted => Outcome::not_started(paid),
        })
    };
    let caller = Caller::of(Org::new(org).unwrap());
    let answer = external.run(&caller, request, call).await;
    let status = answer.status().as_u16();
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

on_both!(
    what_waits_for_a_person_is_listed_with_reason_and_view,
    p42_a_decision_names_what_was_seen_and_leaves_its_account,
    p43_only_a_person_ends_a_review,
    a_refusal_that_is_proved_is_told_as_one,
    a_forgotten_answer_leaves_the_fact,
    p44_after_a_restore_unknown_keys_are_asked_about,
    bad_words_get_one_sentence,
);

const PERSON: [&str; 6] =
    ["--person", "M. Sato", "--note", "answer lost", "--evidence", "statement 7, line 12"];

async fn what_waits_for_a_person_is_listed_with_reason_and_view(database: Database) {
    let empty = database.samekey(&["keys", "list"]);
    assert_eq!(empty.stdout, "0 in review; 0 unknown, being asked about; 0 running\n");
    assert_eq!(
        database.send("alpha", "k-1", false, Ends::Unknown).await.1,
        "samekey.outcome-unknown"
    );
    assert_eq!(database.send("beta", "k-1", false, Ends::Unknown).await.0, 409);
    assert_eq!(
        database.send("alpha", "k-2", true, Ends::Unknown).await.1,
        "samekey.outcome-pending"
    );
    assert_eq!(database.send("alpha", "k-3", true, Ends::Paid).await.0, 201);
    let list = database.json(&["keys", "list"]);
    assert_eq!(
        (&list["review"], &list["unknown"], &list["running"]),
        (&2.into(), &1.into(), &0.into())
    );
    let states: Vec<&str> =
        list["keys"].as_array().unwrap().iter().map(|key| key["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["review", "review", "unknown"], "those that wait for a person come first");
    let first = &list["keys"][0];
    assert_eq!(
        (&first["org"], &first["key"], &first["route"]),
        (&"alpha".into(), &"k-1".into(), &"transfers".into())
    );
    assert_eq!(first["reason"], "timed-out");
    assert_eq!(first["since"], list["review_since"]);
    let text = database.samekey(&["keys", "list"]).stdout;
    let since = list["review_since"].as_str().unwrap();
    assert!(
        text.starts_with(&format!("2 in review, the oldest since {since}; 1 unknown")),
        "{text}"
    );
    for word in
        ["alpha", "beta", "transfers", "review", "timed-out", first["view"].as_str().unwrap()]
    {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    for (filter, shown) in [
        (&["--review"][..], 2),
        (&["--unknown"], 1),
        (&["--running"], 0),
        (&["--org", "beta"], 1),
        (&["--limit", "1"], 1),
    ] {
        let list = database.json(&[&["keys", "list"], filter].concat());
        assert_eq!(list["keys"].as_array().unwrap().len(), shown, "{filter:?}");
    }
    assert_eq!(database.json(&["keys", "list", "--limit", "1"])["not_shown"], 2);
    // The page of one key has what a person asks the counterparty with, and nothing of the request.
    let page = database.json(&["keys", "show", "alpha", "k-2"]);
    assert_eq!((&page["state"], &page["route"]), (&"unknown".into(), &"payments".into()));
    assert_eq!(page["outbound_key"].as_str().unwrap().len(), 36);
    let text = database.samekey(&["keys", "show", "alpha", "k-3"]).stdout;
    assert!(text.contains("201") && !text.contains("SECRET") && !text.contains("1200"), "{text}");
    let missing = database.samekey(&["keys", "show", "alpha", "k-9"]);
    assert_eq!(missing.code(), Some(1));
    assert!(missing.stderr.contains("there is no such key"), "{}", missing.stderr);
}

fn view(database: &Database, org: &str, key: &str) -> String {
    database.json(&["keys", "show", org, key])["view"].as_str().unwrap().to_owned()
}

async fn p42_a_decision_names_what_was_seen_and_leaves_its_account(database: Database) {
    database.send("alpha", "k-1", false, Ends::Unknown).await;
    let seen = view(&database, "alpha", "k-1");
    let executed = ["--as", "executed", "--status", "201", "--location", "/payments/7"];
    let resolve = |view: &str| {
        let words = ["keys", "resolve", "alpha", "k-1", "--view", view];
        database.samekey(&[&words[..], &executed, &PERSON].concat())
    };
    // What was never a view says nothing of the key.
    let garbage = resolve("garbage");
    assert_eq!(garbage.code(), Some(2), "{garbage:?}");
    assert!(garbage.stderr.contains("expected a view"), "{}", garbage.stderr);
    let stale = resolve("9.1-00000000");
    assert_eq!(stale.code(), Some(1), "{stale:?}");
    assert!(stale.stderr.contains("nothing was decided") && !stale.stderr.contains(&seen));
    assert_eq!(database.json(&["keys", "show", "alpha", "k-1"])["state"], "review");
    let decided = resolve(&seen);
    assert_eq!(decided.code(), Some(0), "{decided:?}");
    assert!(decided.stdout.contains("done"), "{}", decided.stdout);
    // The second one of two that looked at the same screen decides nothing.
    assert_eq!(resolve(&seen).code(), Some(1));
    let page = database.json(&["keys", "show", "alpha", "k-1"]);
    let accounts = page["decisions"].as_array().unwrap();
    assert_eq!(accounts.len(), 1);
    let account = &accounts[0];
    assert_eq!((&account["decision"], &account["person"]), (&"executed".into(), &"M. Sato".into()));
    assert_eq!(
        (&account["note"], &account["evidence"]),
        (&"answer lost".into(), &"statement 7, line 12".into())
    );
    let (status, code) = database.send("alpha", "k-1", false, Ends::Paid).await;
    assert_eq!((status, code.as_str()), (409, "samekey.response-not-kept"));
}

async fn p43_only_a_person_ends_a_review(database: Database) {
    for (key, what, after) in
        [("k-1", "not-executed", (201, "")), ("k-2", "closed", (409, "samekey.closed-by-operator"))]
    {
        database.send("alpha", key, false, Ends::Unknown).await;
        for _ in 0..3 {
            let (status, code) = database.send("alpha", key, false, Ends::Paid).await;
            assert_eq!((status, code.as_str()), (409, "samekey.outcome-unknown"));
        }
        let seen = view(&database, "alpha", key);
        let words = ["keys", "resolve", "alpha", key, "--view", &seen, "--as", what];
        let decided = database.samekey(&[&words[..], &PERSON].concat());
        assert_eq!(decided.code(), Some(0), "{decided:?}");
        let (status, code) = database.send("alpha", key, false, Ends::Paid).await;
        assert_eq!((status, code.as_str()), after, "{what}");
        // Only what is in review can be resolved.
        let seen = view(&database, "alpha", key);
        let words = ["keys", "resolve", "alpha", key, "--view", &seen, "--as", what];
        let again = database.samekey(&[&words[..], &PERSON].concat());
        assert_eq!(again.code(), Some(1), "{again:?}");
        assert!(again.stderr.contains("only a key in review can be resolved"), "{}", again.stderr);
    }
}

async fn a_refusal_that_is_proved_is_told_as_one(database: Database) {
    database.send("alpha", "k-1", false, Ends::Unknown).await;
    let seen = view(&database, "alpha", "k-1");
    let words = ["keys", "resolve", "alpha", "k-1", "--view", &seen];
    let refused = ["--as", "executed", "--status", "402"];
    let decided = database.samekey(&[&words[..], &refused, &PERSON].concat());
    assert_eq!(decided.code(), Some(0), "{decided:?}");
    let page = database.json(&["keys", "show", "alpha", "k-1"]);
    assert_eq!((&page["state"], &page["answer_status"]), (&"done".into(), &402.into()));
    let (status, code) = database.send("alpha", "k-1", false, Ends::Paid).await;
    assert_eq!((status, code.as_str()), (409, "samekey.response-not-kept"));
}

async fn a_forgotten_answer_leaves_the_fact(database: Database) {
    assert_eq!(database.send("alpha", "k-1", true, Ends::Paid).await.0, 201);
    let forget = |view: &str| {
        let words = ["keys", "forget", "alpha", "k-1", "--view", view];
        database.samekey(&[&words[..], &PERSON].concat())
    };
    assert_eq!(forget("1.1-deadbeef").code(), Some(1));
    assert_eq!(forget("1-deadbeef").code(), Some(2));
    let seen = view(&database, "alpha", "k-1");
    let forgotten = forget(&seen);
    assert_eq!(forgotten.code(), Some(0), "{forgotten:?}");
    let page = database.json(&["keys", "show", "alpha", "k-1"]);
    assert_eq!((&page["answer_kept"], &page["answer_status"]), (&false.into(), &201.into()));
    assert!(forgotten.stdout.contains("its answer is gone"), "{}", forgotten.stdout);
    let text = database.samekey(&["keys", "show", "alpha", "k-1"]).stdout;
    assert!(text.contains("not kept") && text.contains("kept until"), "{text}");
    // Once more: there is only the fact, and no account of a decision is written.
    let again = forget(&view(&database, "alpha", "k-1"));
    assert_eq!(again.code(), Some(0), "{again:?}");
    assert!(again.stdout.contains("nothing to forget"), "{}", again.stdout);
    let page = database.json(&["keys", "show", "alpha", "k-1"]);
    assert_eq!(page["decisions"].as_array().unwrap().len(), 1);
    let (status, code) = database.send("alpha", "k-1", true, Ends::Paid).await;
    assert_eq!((status, code.as_str()), (409, "samekey.response-not-kept"));
    // An open key has no answer that could be forgotten.
    database.send("alpha", "k-2", true, Ends::Unknown).await;
    assert_eq!(database.json(&["keys", "show", "alpha", "k-2"])["kept_until"], Value::Null);
    let seen = view(&database, "alpha", "k-2");
    let words = ["keys", "forget", "alpha", "k-2", "--view", &seen];
    assert_eq!(database.samekey(&[&words[..], &PERSON].concat()).code(), Some(1));
}

async fn p44_after_a_restore_unknown_keys_are_asked_about(database: Database) {
    database.send("alpha", "k-1", false, Ends::Unknown).await;
    database.send("alpha", "k-2", true, Ends::NotStarted).await;
    let marked = database.samekey(&["restore-mark", "--lost-since", "2026-01-01T00:00:00+09:00"]);
    assert_eq!(marked.code(), Some(0), "{marked:?}");
    assert!(marked.stdout.contains("is lost; marked for 24 hours"), "{}", marked.stdout);
    assert!(marked.stdout.contains("free keys removed: 1"), "{}", marked.stdout);
    // What the database does not know is not run, though nobody seems to have it.
    for key in ["k-2", "k-new"] {
        let (status, code) = database.send("alpha", key, true, Ends::Paid).await;
        assert_eq!((status, code.as_str()), (409, "samekey.outcome-pending"), "{key}");
    }
    assert_eq!(
        database.samekey(&["restore-mark", "--lost-since", "2026-01-01T00:00:00Z"]).code(),
        Some(0)
    );
}

async fn bad_words_get_one_sentence(database: Database) {
    database.send("alpha", "k-1", false, Ends::Unknown).await;
    let seen = view(&database, "alpha", "k-1");
    let resolve = ["keys", "resolve", "alpha", "k-1", "--view", &seen];
    let check = |arguments: &[&str], part: &str| {
        let ended = database.samekey(arguments);
        assert_eq!(ended.code(), Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains('\x1b'), "{arguments:?}: {:?}", ended.stderr);
    };
    let with = |more: &[&'static str]| [&resolve[..], more].concat();
    check(&with(&["--as", "closed", "--person", "me", "--evidence", "e"]), "--note <TEXT>");
    check(&with(&["--as", "closed", "--note", "n", "--evidence", "e"]), "--person <NAME>");
    check(
        &with(&["--as", "closed", "--person", "me", "--note", "n", "--evidence", " "]),
        "the evidence is empty",
    );
    check(&with(&[&["--as", "maybe"], &PERSON[..]].concat()), "executed, not-executed, closed");
    check(&with(&[&["--as", "executed"], &PERSON[..]].concat()), "has no --status");
    check(
        &with(&[&["--as", "executed", "--status", "429"], &PERSON[..]].concat()),
        "neither a success nor a final refusal",
    );
    check(
        &with(
            &[&["--as", "executed", "--status", "201", "--location", "a b"], &PERSON[..]].concat(),
        ),
        "--location is no address",
    );
    check(
        &with(&[&["--as", "closed", "--status", "201"], &PERSON[..]].concat()),
        "belong to --as executed",
    );
    check(&["keys", "show", "alpha", "k\x1b[2J"], "that is no key");
    check(&["keys", "show", "al\x1b[2Jpha", "k"], "that is no organisation");
    check(&["keys", "list", "--limit", "0"], "--limit");
    check(&["restore-mark", "--lost-since", "yesterday"], "expected a date, a time and an offset");
    check(
        &["restore-mark", "--lost-since", "2026-11-30T12:00:00"],
        "expected a date, a time and an offset",
    );
    check(&["restore-mark", "--lost-since", "2999-01-01T00:00:00Z"], "in the future");
    assert_eq!(database.json(&["keys", "show", "alpha", "k-1"])["state"], "review");
}

#[test]
fn a_wrong_database_is_told_apart_from_wrong_words() {
    let run = |url: &str| {
        let program = Program::at(env!("CARGO_BIN_EXE_samekey")).args(["keys", "list"]);
        program.args(["--database", url]).run(END_BOUND).unwrap()
    };
    assert_eq!(run("mysql://localhost/shop").code(), Some(2));
    let unreachable = run("postgres://nobody:SECRET@127.0.0.1:9/shop");
    assert_eq!(unreachable.code(), Some(3), "{unreachable:?}");
    assert!(!unreachable.stderr.contains("SECRET"));
    let folder = tempfile::tempdir().unwrap();
    // A file that is not there is a wrong word, and is not made.
    let missing = format!("sqlite:{}", folder.path().join("none.db").display());
    assert_eq!(run(&missing).code(), Some(2));
    assert!(!folder.path().join("none.db").exists());
    let none = Program::at(env!("CARGO_BIN_EXE_samekey")).args(["keys", "list"]).run(END_BOUND);
    let none = none.unwrap();
    assert_eq!(none.code(), Some(2));
    assert!(none.stderr.contains("no database is named"), "{}", none.stderr);
    assert!(
        none.stderr.contains("a gateway that was given none has sqlite:samekey.db"),
        "{none:?}"
    );
}
