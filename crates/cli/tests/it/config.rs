//! `samekey config`, `completions` and `man`: what is shown before anything is started.

use samekey_sim::Program;
use samekey_sim::process::{END_BOUND, Finished};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

/// What may never be shown.
const SECRET: &str = "canary";

const FILE: &str = "upstream = \"http://127.0.0.1:9000\"\nlisten = \"127.0.0.1:1\"\nadmin = \"127.0.0.1:2\"\n\
    database = \"postgres://u:canary@h/x\"\n[[route]]\nname = \"orders\"\npath = \"/orders\"\nlease_ms = 90000\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(text: &str) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        std::fs::write(folder.path("samekey.toml"), text).unwrap();
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn config(&self, words: &[&str]) -> Program {
        let file = self.path("samekey.toml");
        Program::at(env!("CARGO_BIN_EXE_samekey"))
            .arg("config")
            .args(words)
            .args(["--config", &file])
    }
}

fn ran(program: &Program) -> Finished {
    let ended = program.run(END_BOUND).unwrap();
    assert!(!format!("{ended:?}").contains(SECRET), "{ended:?}");
    ended
}

#[test]
fn every_setting_in_force_says_where_it_came_from() {
    let folder = Folder::with(FILE);
    let program = folder
        .config(&["show", "--origin", "--listen", "127.0.0.1:3"])
        .env("SAMEKEY_LISTEN", "127.0.0.1:4")
        .env("SAMEKEY_ADMIN", "127.0.0.1:5")
        .env("SAMEKEY_OUTBOUND_SECRET", SECRET);
    let ended = ran(&program);
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let file = folder.path("samekey.toml");
    let line = |setting: &str, origin: &str| {
        let found = ended.stdout.lines().filter_map(|line| line.split_once(" # "));
        let found = found.map(|(setting, origin)| (setting.trim_end(), origin));
        assert!(found.clone().any(|it| it == (setting, origin)), "{setting} {origin}: {ended:?}");
    };
    line("upstream = \"http://127.0.0.1:9000\"", &format!("{file}:1"));
    line("listen = \"127.0.0.1:3\"", "--listen");
    line("admin = \"127.0.0.1:5\"", "SAMEKEY_ADMIN");
    line("database = \"postgres://…@h/x\"", &format!("{file}:4"));
    line("grace_ms = 30000", "default");
    line("lease_ms = 90000", &format!("{file}:8"));
    assert!(ended.stdout.contains("The secret of outbound keys is given, and not shown"));
}

#[test]
fn what_is_shown_is_a_file_that_means_the_same() {
    let folder = Folder::with(&FILE.replace("u:canary@", ""));
    let shown = ran(&folder.config(&["show"])).stdout;
    let again = Folder::with(&shown);
    assert_eq!(ran(&again.config(&["show"])).stdout, shown);
    let document = ran(&folder.config(&["show", "--format", "json"])).stdout;
    let document: Value = serde_json::from_str(&document).unwrap();
    let tables = document["tables"].as_array().unwrap();
    let headers: Vec<&str> = tables.iter().map(|it| it["table"].as_str().unwrap()).collect();
    assert_eq!(headers, ["", "[limits]", "[default]", "[[route]]"]);
    let name = &tables[3]["settings"][0];
    assert_eq!((&name["key"], &name["value"]), (&"name".into(), &"\"orders\"".into()));
    assert_eq!(name["origin"], format!("{}:6", folder.path("samekey.toml")));
}

#[test]
fn a_check_says_ok_or_everything_that_is_wrong() {
    let folder = Folder::with(FILE);
    let ended = ran(&folder.config(&["check"]));
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(
        ended.stdout.starts_with("ok: ") && ended.stdout.contains(" can be understood; "),
        "{ended:?}"
    );

    let wrong = FILE
        .replace("listen", "listne")
        .replace("\"http://127.0.0.1:9000\"", "\"ftp://u:canary@h\"")
        .replace("lease_ms = 90000", "lease_ms = \"long\"\nrerun = \"sometimes\"");
    let folder = Folder::with(&wrong);
    let ended = ran(&folder.config(&["check", "--admin", "here"]));
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    let file = folder.path("samekey.toml");
    for part in [
        "samekey: --admin: found \"here\"; expected an IP address and a port".to_owned(),
        format!(
            "samekey: {file}:1: `upstream`: the scheme is missing or unknown; expected http://HOST:PORT"
        ),
        format!("samekey: {file}:2: `listne` is no setting; did you mean `listen`?"),
        format!("samekey: {file}:8: `route.lease_ms`: found a string; expected a whole number"),
        format!("samekey: {file}:9: `route.rerun`: found \"sometimes\"; expected one of"),
    ] {
        assert!(ended.stderr.contains(&part), "{part}: {ended:?}");
    }
    assert_eq!(ended.stderr.lines().count(), 5, "{ended:?}");
}

#[test]
fn completions_are_made_for_every_shell_and_bash_can_read_its_own() {
    let script = |shell: &str| {
        let program = Program::at(env!("CARGO_BIN_EXE_samekey")).args(["completions", shell]);
        let ended = ran(&program);
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
        assert!(ended.stdout.contains("restore-mark"), "{shell}: {ended:?}");
        ended.stdout
    };
    for shell in ["elvish", "fish", "powershell", "zsh"] {
        script(shell);
    }
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script("bash").as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
    // A word that is begun is completed.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), script("bash")).unwrap();
    let line = format!(
        "source {}; COMP_WORDS=(samekey conf); COMP_CWORD=1; _samekey samekey conf samekey; echo \"${{COMPREPLY[*]}}\"",
        file.path().display()
    );
    let completed = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8(completed.stdout).unwrap(), "config\n");
}

#[test]
fn there_is_a_manual_page_for_every_subcommand() {
    let samekey = |words: &[&str]| ran(&Program::at(env!("CARGO_BIN_EXE_samekey")).args(words));
    let page = samekey(&["man"]).stdout;
    assert!(
        page.contains(".TH samekey 1 \"\" ") && page.contains("samekey\\-gateway(1)"),
        "{page}"
    );
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("man1");
    let ended = samekey(&["man", dir.to_str().unwrap()]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let page = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let gateway = page("samekey-gateway.1");
    assert!(gateway.contains(".SH SYNOPSIS") && gateway.contains("SAMEKEY_UPSTREAM"), "{gateway}");
    // What has to be written, with its values, and what may be.
    let resolve = page("samekey-keys-resolve.1");
    assert!(
        resolve.contains("\\fBsamekey keys resolve\\fR [\\-\\-database <URL>] \\-\\-view <VIEW>"),
        "{resolve}"
    );
    assert!(
        page("samekey-forensics.1").contains("[FILE]...\n.br\n\\fBsamekey forensics\\fR <COMMAND>")
    );
    // Section, date (none), version and manual have their places on every page.
    for written in std::fs::read_dir(&dir).unwrap() {
        let (name, version) = (written.unwrap().file_name(), env!("CARGO_PKG_VERSION"));
        let name = name.to_str().unwrap().strip_suffix(".1").unwrap();
        let title = format!(".TH {name} 1 \"\" \"samekey {version}\" \"samekey\"");
        let text = page(&format!("{name}.1"));
        let found: Vec<_> = text.lines().filter(|line| line.starts_with(".TH")).collect();
        assert_eq!(found, [title]);
    }
    // Every subcommand that the help names has one.
    let help = samekey(&["--help"]).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = commands.take_while(|line| !line.is_empty());
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"demo") && names.contains(&"man"), "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        assert!(!page(&format!("samekey-{name}.1")).is_empty());
    }
}
