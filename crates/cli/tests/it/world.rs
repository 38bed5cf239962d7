//! A database, a payments API that answers badly, and a configuration that leads from one to the other.

use crate::database::Database;
use samekey_lab::faults::Plan;
use samekey_lab::{Lab, Options};
use samekey_sim::Program;
use samekey_sim::process::{END_BOUND, Finished, Process};
use serde_json::Value;
use std::path::PathBuf;

/// The credential, which nothing may ever show.
pub const TOKEN: &str = "canary-token";
/// What every person of these tests says.
pub const PERSON: [&str; 6] =
    ["--person", "M. Sato", "--note", "answer lost", "--evidence", "statement 7, line 12"];

/// It deduplicates by key.
pub const DEDUPS: &str = "key_life_s = 3600\n";
/// It answers questions, and does not deduplicate.
pub const ANSWERS: &str = r#"
[destinations.psp.http.ask]
by_key = "/payments/by-key/{key}"
by_reference = "/payments/by-reference/{reference}"
[destinations.psp.http.answer]
status = "/status"
succeeded = ["succeeded"]
refused = ["declined"]
pending = ["pending"]
amount = { ours = "/amount", theirs = "/amount" }
reference = { ours = "/order_id", theirs = "/order_id" }
"#;
/// Neither.
pub const OPAQUE: &str = "";

/// The first answer of every order is lost.
pub const FIRST_ANSWER_LOST: &str = r#"{"rules":[{"when":{"attempt":[1]},"wire":"close"}]}"#;
/// Nothing is wrong with it.
pub const WELL: &str = "{}";

pub struct World {
    pub database: Database,
    pub lab: Lab,
    folder: tempfile::TempDir,
}

impl World {
    /// A destination `psp` that is declared so, before an API with these faults.
    pub async fn new(database: Database, declared: &str, faults: &str) -> World {
        let plan = Plan::from_json("test", faults.as_bytes()).unwrap();
        let lab = Lab::start(Options { plan, ..Options::default() }).await.unwrap();
        let world = World { database, lab, folder: tempfile::tempdir().unwrap() };
        world.configure(&world.config(declared));
        world
    }

    /// A configuration that is a hundred times quicker than in earnest.
    pub fn config(&self, declared: &str) -> String {
        format!(
            "environment = \"test\"\n\
             [destinations.psp]\n\
             attempt_time_max_ms = 2000\nlease_ms = 2500\nwait_base_ms = 20\nwait_cap_ms = 200\ntime_max_s = 4\n\
             [destinations.psp.http]\n\
             base_url = \"{}\"\nallow_networks = [\"127.0.0.0/8\"]\n\
             credential = {{ environment = \"PAY_TOKEN\" }}\n{declared}",
            self.lab.url("")
        )
    }

    pub fn configure(&self, text: &str) {
        std::fs::write(self.file("samekey.toml"), text).unwrap();
    }

    /// A file beside the configuration.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with the configuration, the database and the credential.
    pub fn program(&self, arguments: &[&str]) -> Program {
        Program::at(env!("CARGO_BIN_EXE_samekey"))
            .args(arguments)
            .env("SAMEKEY_CONFIG", self.file("samekey.toml"))
            .env("SAMEKEY_DATABASE", self.database.url())
            .env("PAY_TOKEN", TOKEN)
    }

    pub fn samekey(&self, arguments: &[&str]) -> Finished {
        let ended = self.program(arguments).run(END_BOUND).unwrap();
        assert_silent(&ended);
        ended
    }

    pub fn start(&self, arguments: &[&str]) -> Process {
        self.program(arguments).start().unwrap()
    }

    /// What a subcommand says to programs.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.samekey(&[arguments, &["--format", "json"]].concat());
        serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"))
    }

    /// Sends a charge for an order.
    pub fn charge(&self, order: &str, more: &[&str]) -> Finished {
        let words = charge(order);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.samekey(&[&words, more].concat())
    }

    /// The only command that a list shows in this state.
    pub fn only(&self, state: &str) -> Value {
        let list = self.json(&["commands", "list", "--state", state]);
        assert_eq!(list["commands"].as_array().unwrap().len(), 1, "{list}");
        list["commands"][0].clone()
    }

    /// How often the API was asked to pay.
    pub fn attempts(&self) -> usize {
        let requests = self.lab.requests().unwrap();
        requests.iter().filter(|request| format!("{:?}", request.arrived.op) == "Pay").count()
    }
}

/// The words that charge an order.
pub fn charge(order: &str) -> Vec<String> {
    let body = format!("{{\"order_id\":\"{order}\",\"amount\":1200}}");
    let words = ["send", "psp", "--operation", "charge", "--reference", order, "--path"];
    words.into_iter().chain(["/payments", "--json", &body]).map(str::to_owned).collect()
}

/// Nothing that is said has the credential in it.
pub fn assert_silent(ended: &Finished) {
    assert!(!ended.stdout.contains(TOKEN) && !ended.stderr.contains(TOKEN), "{ended:?}");
}
