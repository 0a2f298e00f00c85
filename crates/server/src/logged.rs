//! Lines of the log, for tests.

use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines that are logged meanwhile.
pub(crate) fn logged(run: impl FnOnce()) -> Vec<String> {
    let lines = Lines::default();
    let to = lines.clone();
    let log = tracing_subscriber::fmt().with_writer(move || to.clone()).finish();
    tracing::subscriber::with_default(log, run);
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}
