//! Being asked to stop.

use crate::exit::{Code, Stopped};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;

/// SIGTERM and Ctrl-C, listened to from when it is made: what comes before anybody waits is not lost.
pub struct Stop(Mutex<(Signal, Signal)>);

impl Stop {
    /// Begins to listen.
    pub fn listen() -> Result<Stop, Stopped> {
        let on = |kind| {
            signal(kind).map_err(|error| {
                Stopped::new(Code::Unreachable, format!("no signals can be listened for: {error}"))
            })
        };
        Ok(Stop(Mutex::new((on(SignalKind::terminate())?, on(SignalKind::interrupt())?))))
    }

    /// Waits until the process is asked to stop; each request counts once.
    pub async fn asked(&self) {
        let mut signals = self.0.lock().await;
        let (terminated, interrupted) = &mut *signals;
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    }
}
