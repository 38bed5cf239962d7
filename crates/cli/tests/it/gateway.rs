//! `samekey gateway`: how it starts, how it says that it cannot, and which word comes before which.

use samekey_sim::Program;
use std::net::TcpListener;
use std::time::Duration;

/// No start that fails takes longer.
const BOUND: Duration = Duration::from_secs(30);

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn file(&self, text: &str) -> String {
        let path = self.path("samekey.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn database(&self) -> String {
        format!("sqlite:{}", self.path("ledger.db"))
    }
}

fn gateway() -> Program {
    Program::built("samekey").unwrap().arg("gateway")
}

/// The exit code and the one sentence of a start that fails.
fn refused(program: &Program) -> (Option<i32>, String) {
    let ended = program.run(BOUND).unwrap();
    assert_eq!(ended.stdout, "");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    (ended.code(), ended.stderr)
}

#[test]
fn what_cannot_be_understood_ends_the_start_with_code_2_and_a_remedy() {
    let folder = Folder::new();
    let (code, sentence) = refused(&gateway());
    assert!(code == Some(2) && sentence.contains("give --upstream http://HOST:PORT"), "{sentence}");
    let file =
        folder.file("upstream = \"http://127.0.0.1:1\"\n\n[limits]\nconnections_maximum = 1\n");
    let (code, sentence) = refused(&gateway().args(["--config", &file]));
    let expected = format!(
        "samekey: {file}:4: `limits.connections_maximum` is no setting; did you mean `limits.connections_max`?\n"
    );
    assert_eq!((code, sentence), (Some(2), expected));
    let missing = folder.path("none.toml");
    let (code, sentence) = refused(&gateway().args(["--config", &missing]));
    assert!(code == Some(2) && sentence.contains("none.toml cannot be read"), "{sentence}");
    for (flag, value) in [
        ("--listen", "8080"),
        ("--admin", "here"),
        ("--upstream", "http://user:canary@host"),
        ("--database", "mysql://user:canary@host/x"),
    ] {
        let program = gateway().args(["--upstream", "http://127.0.0.1:1"]);
        // The last word of a variable's flag counts; a flag may not be given twice.
        let program = if flag == "--upstream" { gateway() } else { program };
        let (code, sentence) = refused(&program.args([flag, value]));
        assert_eq!(code, Some(2), "{sentence}");
        assert!(!sentence.contains("canary"), "{sentence}");
    }
}

#[test]
fn what_cannot_be_reached_ends_the_start_with_code_3() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let program = gateway()
        .args(["--upstream", "http://127.0.0.1:1", "--listen", &address])
        .args(["--database", &folder.database()]);
    let (code, sentence) = refused(&program);
    assert!(code == Some(3) && sentence.contains("cannot be listened on"), "{sentence}");
    assert!(sentence.contains("choose another with --listen"), "{sentence}");
    let url = "postgres://user:canary@127.0.0.1:1/x";
    let program = gateway().args(["--upstream", "http://127.0.0.1:1", "--database", url]);
    let (code, sentence) = refused(&program);
    assert!(code == Some(3) && sentence.contains("the ledger cannot be used"), "{sentence}");
    assert!(!sentence.contains("canary"), "{sentence}");
}

#[test]
fn a_flag_comes_before_its_variable_and_that_before_the_file() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let file = folder.file(&format!("listen = \"{taken}\"\nadmin = \"{taken}\"\n"));
    let program = gateway()
        .args(["--config", &file, "--listen", "127.0.0.1:0"])
        .env("SAMEKEY_LISTEN", &taken)
        .env("SAMEKEY_ADMIN", "127.0.0.1:0")
        .env("SAMEKEY_UPSTREAM", "http://127.0.0.1:1")
        .env("SAMEKEY_DATABASE", folder.database());
    let mut process = program.start().unwrap();
    let address = process.address().unwrap();
    assert_ne!(address.to_string(), taken);
    process
        .wait_for_line("where operators look", |line| line.strip_prefix("health,").map(str::len))
        .unwrap();
    process.terminate().unwrap();
    assert_eq!(process.wait(BOUND).unwrap().code(), Some(0));
}
