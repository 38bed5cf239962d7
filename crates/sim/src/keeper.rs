//! Starts programs such that they end when we do, even when we end by SIGKILL.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc;

/// What a program gets from the kernel when its parent dies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AtOurDeath {
    /// PostgreSQL's immediate shutdown: it ends its children, too.
    Quit,
    Kill,
}

/// A command for `program`, tied to the thread that will start it.
///
/// `setpriv` asks the kernel to end the program with its parent, then becomes the program; where
/// there is no `setpriv` the program is started plainly and only its handle's drop ends it.
pub(crate) fn tied(program: &Path, at_our_death: AtOurDeath) -> Command {
    let found = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|p| Path::new(p).is_file());
    let Some(setpriv) = found else { return Command::new(program) };
    let signal = match at_our_death {
        AtOurDeath::Quit => "QUIT",
        AtOurDeath::Kill => "KILL",
    };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", signal, "--"]).arg(program);
    command
}

/// Keeps the thread that started a program alive. The kernel takes that thread's end for the
/// parent's death, so the handle belongs beside the `Child`.
#[derive(Debug)]
pub(crate) struct Keeper {
    _sleep: mpsc::Sender<()>,
}

/// Starts the command from a thread of its own, which then sleeps until the keeper is dropped.
pub(crate) fn spawn(mut command: Command) -> std::io::Result<(Child, Keeper)> {
    let (sleep, wake) = mpsc::channel::<()>();
    let (started, result) = mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let _ = started.send(command.spawn());
        let _ = wake.recv();
    })?;
    let child = result.recv().map_err(std::io::Error::other)??;
    Ok((child, Keeper { _sleep: sleep }))
}
