//! What is wrong with words, files and addresses is told in one sentence, with the right exit code, before
//! anything is written or sent.

use crate::database::Database;
use crate::world::{DEDUPS, OPAQUE, WELL, World, charge};
use samekey_client::config::CourierConfig;
use samekey_sim::Program;
use samekey_sim::process::END_BOUND;

async fn world() -> World {
    World::new(Database::fresh(false).await, DEDUPS, WELL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t104_what_a_configuration_may_not_say_gets_one_sentence() {
    let world = world().await;
    let url = format!("base_url = \"{}\"", world.lab.url(""));
    let good = world.config(DEDUPS);
    let slip = good.replace("key_life_s", "key_lif_s");
    let network = good.replace("allow_networks = [\"127.0.0.0/8\"]\n", "");
    for (config, parts) in [
        (String::new(), &["missing field `environment`"][..]),
        (good.replace("environment", "environmint"), &["line 1", "did you mean `environment`?"]),
        (slip, &["line 12", "unknown field `key_lif_s`", "did you mean `key_life_s`?"]),
        (good.replace("key_life_s = 3600", "key_life_s = 5"), &["`psp`", "remembers a key"]),
        (good.replace("lease_ms = 2500", "lease_ms = 500"), &["`psp`", "shorter than an attempt"]),
        (network, &["127.0.0.1 is no public address", "allow_networks"]),
        (
            good.replace(&url, "base_url = \"http://pay.test\""),
            &["unprotected", "allow_plain_http"],
        ),
        (good.replace(&url, "base_url = \"ftp://pay.test\""), &["expected an address"]),
        (good.replace(&url, "base_url = \"https://u:canary@pay.test\""), &["carries a credential"]),
        (good.replace("{ environment = \"PAY_TOKEN\" }", "\"canary\""), &["line 11, `credential`"]),
        (good.replace("\"PAY_TOKEN\"", "\"\""), &["expected one of environment and file"]),
        (
            good.replace("environment = \"PAY_TOKEN\"", "file = \"/none\""),
            &["/none cannot be read"],
        ),
        (good.replace("\"test\"", "\"te st\""), &["the name of the environment"]),
        (good.replace("[destinations.psp]", "[destinations.psp"), &["line 2"]),
        (good.replace("psp", "pspp"), &["no destination `psp`; did you mean `pspp`?"]),
        ("environment = \"test\"".to_owned(), &["has none, add a [destinations.psp]"]),
        ("#".repeat((1 << 20) + 1), &["more than 1048576 bytes"]),
    ] {
        world.configure(&config);
        let ended = world.charge("ORD-1", &[]);
        assert_eq!(ended.code(), Some(2), "{config}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{config}: {ended:?}");
        assert!(parts.iter().all(|part| ended.stderr.contains(part)), "{parts:?}: {ended:?}");
        assert!(!ended.stderr.contains("canary"), "{ended:?}");
    }
    for (file, part) in [
        ("none.toml", "No such file"),
        (".", "Is a directory"),
        ("/dev/zero", "more than 1048576 bytes"),
    ] {
        let ended = world.charge("ORD-1", &["--config", file]);
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        assert!(ended.stderr.contains(part) && ended.stderr.contains(file), "{ended:?}");
    }
    world.configure("environment = \"test\"");
    let ended = world.samekey(&["worker"]);
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("has no destination"), "{ended:?}");
    assert_eq!(world.json(&["commands", "list"])["commands"].as_array().unwrap().len(), 0);
    assert_eq!(world.attempts(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_sent_gets_one_sentence() {
    let world = world().await;
    let large = world.file("large.json");
    std::fs::write(&large, "1".repeat((1 << 20) + 1)).unwrap();
    let large = large.to_str().unwrap();
    let send = |path: &'static str, more: &[&'static str]| {
        [&["send", "psp", "--operation", "charge", "--reference", "ORD-1", "--path", path], more]
            .concat()
    };
    for (arguments, part) in [
        (send("payments", &["--json", "{}"]), "must begin with one `/`"),
        (send("//pay.test/x", &["--json", "{}"]), "must begin with one `/`"),
        (send("/a/../../x", &["--json", "{}"]), "leads elsewhere"),
        (send("/a/%2e%2e/x", &["--json", "{}"]), "leads elsewhere"),
        (send("/a b", &["--json", "{}"]), "%-encoding"),
        (send("/x", &["--json", "{\"a\": canary"]), "no JSON (line 1, column 7)"),
        (send("/x", &["--json-file", "none.json"]), "from none.json: No such file"),
        (send("/x", &["--json-file", "/dev/zero"]), "more than 1048576 bytes"),
        (send("/x", &[]), "--json"),
        (send("/x", &["--json", "{}", "--org", ""]), "--org is no organisation"),
        (
            send("/x", &["--json", "{}", "--order-key", ""]),
            "--order-key has 0 bytes; expected 1 to",
        ),
        (send("/x", &["--json", "{}", "--wait-s", "99999"]), "--wait-s"),
        (
            vec![
                "send",
                "psp",
                "--operation",
                "",
                "--reference",
                "r",
                "--path",
                "/x",
                "--json",
                "1",
            ],
            "--operation has 0 bytes; expected 1 to",
        ),
        (
            vec![
                "send",
                "psp",
                "--operation",
                "charge",
                "--reference",
                "",
                "--path",
                "/x",
                "--json",
                "1",
            ],
            "--reference has 0 bytes; expected 1 to",
        ),
        (vec!["commands", "show", "default", "17"], "no command's id"),
        (vec!["commands", "list", "--state", "done"], "[possible values: waiting"),
        (vec!["commands", "list", "--limit", "0"], "--limit"),
        (vec!["worker", "--grace-s", "601"], "--grace-s"),
    ] {
        let ended = world.samekey(&arguments);
        assert_eq!(ended.code(), Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {ended:?}");
        assert!(!ended.stderr.contains("canary"), "{arguments:?}: {ended:?}");
    }
    let ended = world.samekey(&[&send("/x", &[])[..], &["--json-file", large]].concat());
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("more than 1048576 bytes"), "not told as no JSON: {ended:?}");
    assert_eq!(world.attempts(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_not_there_is_told_apart_and_not_made() {
    let world = world().await;
    let missing = format!("sqlite:{}", world.file("none.db").display());
    let charge = charge("ORD-1");
    let charge: Vec<&str> = charge.iter().map(String::as_str).collect();
    let unreachable = "postgres://app:canary@127.0.0.1:9/shop";
    for arguments in [&charge[..], &["worker"], &["commands", "inbox"], &["sweep"]] {
        for (database, code) in [(missing.as_str(), 2), (unreachable, 3)] {
            let ended = world.samekey(&[arguments, &["--database", database]].concat());
            assert_eq!(ended.code(), Some(code), "{arguments:?} {database}: {ended:?}");
            assert!(!ended.stderr.contains("canary"), "{ended:?}");
            assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        }
        let none = Program::at(env!("CARGO_BIN_EXE_samekey")).args(arguments);
        let none = none.env("SAMEKEY_CONFIG", world.file("samekey.toml")).env("PAY_TOKEN", "x");
        let ended = none.run(END_BOUND).unwrap();
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        assert!(ended.stderr.contains("no database is named"), "{ended:?}");
    }
    assert!(!world.file("none.db").exists());
}

/// The first `toml` block of a page.
fn configuration(page: &str) -> &str {
    let (_, block) = page.split_once("```toml\nenvironment").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block
}

#[test]
fn the_configuration_in_the_documents_can_be_used() {
    let page = include_str!("../../../../docs/operations.md");
    let text = format!("environment{}", configuration(page));
    let config: CourierConfig = toml::from_str(&text).unwrap();
    config.into_setup().unwrap();
    // The same in the help of the worker.
    let help = Program::at(env!("CARGO_BIN_EXE_samekey")).args(["worker", "--help"]);
    let help = help.run(END_BOUND).unwrap().stdout;
    let (_, text) = help.split_once("The configuration:\n").unwrap();
    let config: CourierConfig = toml::from_str(text).unwrap();
    config.into_setup().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_in_the_first_page_was_typed_and_is_true() {
    let page = include_str!("../../../../README.md");
    let (_, block) = page.split_once("From a shell, against the lab").unwrap();
    let (_, block) = block.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    // Here the lab is this test's own, and its address is another one.
    let world =
        World::new(Database::fresh(false).await, OPAQUE, crate::world::FIRST_ANSWER_LOST).await;
    let text = block.split_once("<<'END'\n").unwrap().1.split_once("END\n").unwrap().0;
    world.configure(&text.replace("http://127.0.0.1:8021", &world.lab.url("")));
    let words = block.lines().find(|line| line.starts_with("samekey send")).unwrap();
    let words = words.strip_prefix("samekey ").unwrap().replace('\'', "");
    let words: Vec<&str> = words.split(' ').take_while(|word| *word != "--database").collect();
    let ended = world.samekey(&words);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let told = block.lines().find(|line| line.contains(": succeeded")).unwrap();
    let (_, told) = told.split_once(':').unwrap();
    assert!(ended.stdout.contains(told), "{told}: {ended:?}");
    assert_eq!((world.lab.counts().payments, world.attempts()), (1, 2));
}
