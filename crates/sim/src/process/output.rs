//! What a process prints, read as it comes, so that its pipe never fills up.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A program that prints more than this in a test is broken; the rest is read and dropped.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

const CHUNK_BYTES: usize = 8 * 1024;

#[derive(Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    closed: bool,
}

/// One output stream of a process, collected by a thread that ends with the stream.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    shared: Arc<(Mutex<Text>, Condvar)>,
}

impl Capture {
    /// Starts to collect; a stream that is absent counts as closed and empty.
    pub(super) fn of(stream: Option<impl Read + Send + 'static>) -> Self {
        let capture = Self { shared: Arc::default() };
        let writer = capture.clone();
        std::thread::spawn(move || {
            if let Some(stream) = stream {
                writer.collect(stream);
            }
            writer.change(|text| text.closed = true);
        });
        capture
    }

    /// Waits until `wanted` finds something in the text so far; `None` when the stream closes
    /// without it or the bound passes.
    pub(super) fn wait_for<T>(
        &self,
        bound: Duration,
        mut wanted: impl FnMut(&str) -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        let (_, changed) = &*self.shared;
        let _text = changed
            .wait_timeout_while(self.lock(), bound, |text| {
                found = wanted(&String::from_utf8_lossy(&text.bytes));
                found.is_none() && !text.closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        found
    }

    /// Everything, once the stream has closed. A grandchild may hold it open, hence the bound.
    pub(super) fn all(&self, bound: Duration) -> String {
        let (_, changed) = &*self.shared;
        let (text, _) = changed
            .wait_timeout_while(self.lock(), bound, |text| !text.closed)
            .unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text.bytes).into_owned()
    }

    /// Everything so far.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock().bytes).into_owned()
    }

    /// Whether nothing more can come.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn collect(&self, mut stream: impl Read) {
        let mut chunk = [0; CHUNK_BYTES];
        while let Ok(count @ 1..) = stream.read(&mut chunk) {
            let read = chunk.get(..count).unwrap_or_default();
            self.change(|text| {
                let room = KEPT_BYTES_MAX.saturating_sub(text.bytes.len()).min(read.len());
                text.bytes.extend_from_slice(read.get(..room).unwrap_or_default());
            });
        }
    }

    fn change(&self, change: impl FnOnce(&mut Text)) {
        change(&mut self.lock());
        self.shared.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Text> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
