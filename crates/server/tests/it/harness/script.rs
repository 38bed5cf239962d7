//! What a test wants a handler to do, by the reference that the command carries.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::mpsc;

/// What the handler does after its effect.
#[derive(Default)]
pub struct Script {
    /// The status; 201 by default.
    pub status: Option<u16>,
    /// Headers of the answer.
    pub headers: Vec<(&'static str, Vec<u8>)>,
    /// The body; `{"ref": …}` with a fresh number by default.
    pub body: Option<Vec<u8>>,
    /// Tells the test that the handler has begun, and waits for its word to go on.
    pub gate: Option<Gate>,
    /// Panics instead of answering.
    pub panics: bool,
    /// Returns an error instead of answering.
    pub fails: bool,
    /// How many times the script is used before the default comes back; for ever if it is none.
    pub times: Option<u32>,
}

/// The handler's side of a gate.
pub struct Gate {
    pub reached: tokio::sync::mpsc::UnboundedSender<()>,
    pub go: mpsc::Receiver<()>,
}

/// The test's side of a gate.
pub struct Gatekeeper {
    pub reached: tokio::sync::mpsc::UnboundedReceiver<()>,
    pub go: mpsc::Sender<()>,
}

/// A gate and its keeper. The handler goes on when the keeper says so or is dropped.
pub fn gate() -> (Gate, Gatekeeper) {
    let (reached_in, reached) = tokio::sync::mpsc::unbounded_channel();
    let (go, go_out) = mpsc::channel();
    (Gate { reached: reached_in, go: go_out }, Gatekeeper { reached, go })
}

/// The scripts of a service, by reference.
#[derive(Default)]
pub struct Scripts(Mutex<HashMap<String, Script>>);

/// One use of a script.
pub struct Turn {
    pub status: u16,
    pub headers: Vec<(&'static str, Vec<u8>)>,
    pub body: Option<Vec<u8>>,
    pub gate: Option<Gate>,
    pub panics: bool,
    pub fails: bool,
}

impl Scripts {
    /// From now on commands with this reference do that.
    pub fn set(&self, reference: &str, script: Script) {
        self.0.lock().unwrap().insert(reference.to_owned(), script);
    }

    /// What a command with this reference does now.
    pub fn turn(&self, reference: &str) -> Turn {
        let mut scripts = self.0.lock().unwrap();
        let default = Script::default();
        let script = match scripts.get_mut(reference) {
            Some(script) if script.times == Some(0) => {
                scripts.remove(reference);
                None
            }
            Some(script) => {
                script.times = script.times.map(|times| times - 1);
                Some(script)
            }
            None => None,
        };
        match script {
            Some(script) => Turn {
                status: script.status.unwrap_or(201),
                headers: script.headers.clone(),
                body: script.body.clone(),
                gate: script.gate.take(),
                panics: script.panics,
                fails: script.fails,
            },
            None => Turn {
                status: 201,
                headers: default.headers,
                body: None,
                gate: None,
                panics: false,
                fails: false,
            },
        }
    }
}

impl Turn {
    /// Waits at the gate, if there is one. Blocks the thread, as a handler on SQLite has to; a handler
    /// on PostgreSQL calls it on a blocking thread.
    pub fn pass_gate(&mut self) {
        if let Some(gate) = self.gate.take() {
            let _ = gate.reached.send(());
            let _ = gate.go.recv_timeout(std::time::Duration::from_secs(30));
        }
    }
}
