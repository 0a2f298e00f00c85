//! Writes our own format.

use super::TraceRecord;
use super::own::{HEADER, WORDS};
use disktime_core::Instant;
use std::io::{self, Write};

/// Writes a trace in our own format: comma-separated text, a line for each operation.
///
/// ```text
/// time_ns,op,offset,bytes,stream
/// 0,read,4096,8192,0
/// 1500,write,0,4096,1
/// ```
///
/// - `time_ns`: when it arrived, in nanoseconds since a moment that the writer chose; never less
///   than in the line above.
/// - `op`: `read`, `write`, `flush`, `trim`, `zeroes` or `cache`.
/// - `offset`: its first byte.
/// - `bytes`: its length, more than 0; for a flush any, and commonly 0.
/// - `stream`: the issuer, a number. Readers also take files without this column.
///
/// Empty lines are skipped, white space around values is ignored, and the file may be compressed
/// with gzip.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    to: W,
    last: Instant,
}

impl<W: Write> TraceWriter<W> {
    /// Writes the header. Each operation is a small write: give it a buffer.
    ///
    /// # Errors
    /// The errors of `to`.
    pub fn new(mut to: W) -> io::Result<Self> {
        writeln!(to, "{HEADER}")?;
        Ok(Self { to, last: Instant::ZERO })
    }

    /// Writes an operation. One whose time is before that of the last gets the last's.
    ///
    /// # Errors
    /// The errors of the writer that it was made with.
    pub fn write(&mut self, record: &TraceRecord) -> io::Result<()> {
        self.last = self.last.max(record.at);
        let TraceRecord { op, stream, .. } = record;
        let word = WORDS.iter().find(|(_, kind)| *kind == op.kind).map(|(word, _)| word);
        let word = word.expect("there is a word for each kind");
        let time_ns = self.last.as_nanos();
        writeln!(self.to, "{time_ns},{word},{},{},{stream}", op.offset, op.bytes)
    }

    /// Hands everything on, and gives the writer back.
    ///
    /// # Errors
    /// The errors of the writer that it was made with.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}
