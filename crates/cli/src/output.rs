//! What the program says: lines on standard output, sentences on standard error.
//!
//! `println!` panics where nobody reads, or where the disk behind it is full.

use crate::exit::{Code, Stopped};
use samekey::store::address::redacted;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Says this on standard output. A reader that has seen enough and closed the pipe is no failure.
pub fn say(text: &str) -> Result<(), Stopped> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Stopped::new(
            Code::Unreachable,
            format!("standard output cannot be written: {error}; what came of this was not told"),
        )),
    }
}

/// Says one sentence on standard error. Where that cannot be written, nobody can be told.
pub fn complain(name: &str, sentence: &str) {
    let _ = writeln!(std::io::stderr(), "{name}: {}", redacted(sentence));
}

/// How this program was called, for lines that somebody is to type.
pub fn called() -> &'static str {
    // Cargo tells the programs that it runs where their manifest is.
    match (std::env::var_os("CARGO_MANIFEST_DIR"), cfg!(debug_assertions)) {
        (None, _) => "samekey",
        (Some(_), true) => "cargo run --",
        (Some(_), false) => "cargo run --release --",
    }
}

/// What the command line's parser has to say: a page of help, or what is wrong, which repeats what was
/// typed; an address in the wrong place would show its password.
pub fn not_understood(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        let _ = write!(std::io::stderr(), "{}", redacted(&text));
        return Code::Usage.into();
    }
    match say(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stopped { code, sentence }) => {
            complain("samekey", &sentence);
            code.into()
        }
    }
}
