//! Where lines come from: a file, compressed or not, and how far it has been read.

use super::error::TraceFault;
use flate2::bufread::MultiGzDecoder;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a trace has been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes of the file, as it is stored.
    pub bytes_read: u64,
    /// The file's length; `None` where that is not known.
    pub bytes_total: Option<u64>,
}

/// Is told how far a trace has been read.
pub type OnProgress = Box<dyn FnMut(Progress) + Send>;

/// Bytes of the file between two reports.
const REPORT_BYTES: u64 = 1 << 20;
const BLOCK_BYTES: usize = 64 << 10;

pub(super) struct Input {
    pub(super) text: Box<dyn BufRead + Send>,
    pub(super) on_progress: Option<OnProgress>,
    bytes_read: Arc<AtomicU64>,
    bytes_total: Option<u64>,
    /// The next report is due at so many bytes.
    report_at: u64,
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, TraceFault> {
        let failed =
            |error: io::Error| TraceFault::Open { kind: error.kind(), message: error.to_string() };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let bytes_total = metadata.is_file().then_some(metadata.len());
        Self::stored(Box::new(file), bytes_total)
            .map_err(|error| TraceFault::Read { kind: error.kind(), message: error.to_string() })
    }

    fn stored(file: Box<dyn Read + Send>, bytes_total: Option<u64>) -> io::Result<Self> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = Counted { inner: file, bytes: Arc::clone(&bytes_read) };
        let mut stored = BufReader::with_capacity(BLOCK_BYTES, counted);
        // Source: RFC 1952, 2.3.1.
        let text: Box<dyn BufRead + Send> = if stored.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
            Box::new(BufReader::with_capacity(BLOCK_BYTES, MultiGzDecoder::new(stored)))
        } else {
            Box::new(stored)
        };
        Ok(Self { text, on_progress: None, bytes_read, bytes_total, report_at: REPORT_BYTES })
    }

    /// Text whose length isn't known.
    pub(super) fn new(text: Box<dyn BufRead + Send>) -> Self {
        let bytes_read = Arc::new(AtomicU64::new(0));
        Self { text, on_progress: None, bytes_read, bytes_total: None, report_at: REPORT_BYTES }
    }

    pub(super) fn progress(&self) -> Progress {
        let bytes_read = self.bytes_read.load(Ordering::Relaxed);
        Progress { bytes_read, bytes_total: self.bytes_total }
    }

    /// After a line of so many bytes; 0 at the end.
    pub(super) fn advanced(&mut self, bytes: usize) {
        let progress = self.progress();
        if bytes > 0 && progress.bytes_read < self.report_at {
            return;
        }
        self.report_at = progress.bytes_read + REPORT_BYTES;
        if let Some(report) = &mut self.on_progress {
            report(progress);
        }
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.progress().fmt(f)
    }
}

struct Counted {
    inner: Box<dyn Read + Send>,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}
