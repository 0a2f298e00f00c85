//! Lines of a bounded length, and where one is.

use super::error::{TraceError, TraceFault};
use super::input::Input;
use std::io::{BufRead, Read};

/// Longest line in bytes. Lines of known formats have a few hundred.
const LINE_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Lines {
    pub(super) input: Input,
    file: String,
    line: Vec<u8>,
    number: u64,
    unread: bool,
}

impl Lines {
    pub(super) fn new(input: Input, file: String) -> Self {
        Self { input, file, line: Vec::new(), number: 0, unread: false }
    }

    /// The next line that is not empty, without white space around it.
    pub(super) fn read(&mut self) -> Result<Option<&str>, TraceError> {
        if !std::mem::take(&mut self.unread) {
            loop {
                if !self.fill()? {
                    return Ok(None);
                }
                if !self.line.trim_ascii().is_empty() {
                    break;
                }
            }
        }
        match std::str::from_utf8(self.line.trim_ascii()) {
            Ok(line) => Ok(Some(line)),
            Err(_) => Err(self.error(TraceFault::NoText)),
        }
    }

    /// The next call of [`read`](Self::read) returns the last line once more.
    pub(super) fn unread(&mut self) {
        self.unread = true;
    }

    /// An error about the last line.
    pub(super) fn error(&self, fault: TraceFault) -> TraceError {
        let line = (self.number > 0).then_some(self.number);
        TraceError { file: self.file.clone(), line, fault }
    }

    /// Reads the next line, with its end; whether there is one.
    fn fill(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        let mut text = (&mut self.input.text).take(LINE_BYTES_MAX as u64 + 1);
        let result = text.read_until(b'\n', &mut self.line);
        let bytes = result.map_err(|error| {
            let (kind, message) = (error.kind(), error.to_string());
            self.error(TraceFault::Read { kind, message })
        })?;
        self.input.advanced(bytes);
        if bytes == 0 {
            return Ok(false);
        }
        self.number += 1;
        if bytes > LINE_BYTES_MAX {
            return Err(self.error(TraceFault::LineLong { bytes_max: LINE_BYTES_MAX }));
        }
        Ok(true)
    }
}
