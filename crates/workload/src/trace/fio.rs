//! fio's iolog, versions 2 and 3.
//!
//! Source: fio's manual, "Trace file format"; that version 3 counts microseconds was measured on a
//! log of fio 3.33.

use super::TraceRecord;
use super::error::{TraceFault, shorten};
use super::fields::{Parse, number, scaled, wrong_number, wrong_word};
use crate::spec::IoOp;
use disktime_core::{Duration, Instant, Kind};

const FILES_MAX: usize = 4096;
const MICROSECOND_NS: u64 = 1_000;

#[derive(Debug, Default)]
pub(super) struct Fio {
    /// Whether each line begins with a time: version 3.
    timed: bool,
    /// The time in version 2, which only `wait` moves.
    now: Instant,
    files: Vec<String>,
}

impl Parse for Fio {
    fn header(&mut self, line: &str) -> Result<bool, TraceFault> {
        self.timed = line == "fio version 3 iolog";
        if self.timed || line == "fio version 2 iolog" {
            return Ok(true);
        }
        Err(TraceFault::Header {
            found: shorten(line),
            expected: "fio version 2 iolog` or `fio version 3 iolog",
        })
    }

    fn line(&mut self, line: &str) -> Result<Option<TraceRecord>, TraceFault> {
        let mut words = line.split_ascii_whitespace();
        let time = if self.timed { words.next() } else { None };
        let at = match time {
            Some(time) => Instant::from_nanos(scaled("timestamp", time, MICROSECOND_NS)?),
            None => self.now,
        };
        let found = line.split_ascii_whitespace().count();
        let columns = TraceFault::Columns { found, expected: self.expected() };
        let [Some(file), Some(action), offset, length, None] = [(); 5].map(|()| words.next())
        else {
            return Err(columns);
        };
        let kind = match (action, offset, length) {
            ("add" | "open" | "close", None, None) => return Ok(None),
            ("wait", Some(offset), _) if !self.timed => {
                let span = scaled("offset", offset, MICROSECOND_NS)?;
                self.now = self.now + Duration::from_nanos(span);
                return Ok(None);
            }
            ("read", ..) => Kind::Read,
            ("write", ..) => Kind::Write,
            ("trim", ..) => Kind::Trim,
            ("sync" | "datasync" | "sync_file_range", ..) => Kind::Flush,
            ("add" | "open" | "close", ..) => return Err(columns),
            ("wait", None, _) if !self.timed => return Err(columns),
            _ => return Err(wrong_word("action", action, self.actions())),
        };
        let (Some(offset), Some(length)) = (offset, length) else { return Err(columns) };
        let mut op =
            IoOp { kind, offset: number("offset", offset)?, bytes: number("length", length)? };
        if kind == Kind::Flush {
            // It is about the file; fio logs what was written before.
            (op.offset, op.bytes) = (0, 0);
        }
        Ok(Some(TraceRecord { at, op, stream: self.stream(file)? }))
    }

    fn time_field(&self) -> &'static str {
        "timestamp"
    }

    fn place_field(&self) -> &'static str {
        "offset"
    }

    fn length_field(&self) -> &'static str {
        "length"
    }
}

impl Fio {
    fn expected(&self) -> &'static str {
        if self.timed {
            "timestamp filename action [offset length]"
        } else {
            "filename action [offset length]"
        }
    }

    fn actions(&self) -> &'static str {
        if self.timed {
            "read, write, trim, sync, datasync, sync_file_range, add, open or close"
        } else {
            "read, write, trim, sync, datasync, sync_file_range, wait, add, open or close"
        }
    }

    fn stream(&mut self, file: &str) -> Result<u64, TraceFault> {
        if let Some(index) = self.files.iter().position(|known| known == file) {
            return Ok(index as u64);
        }
        if self.files.len() == FILES_MAX {
            return Err(wrong_number("filename", file, "one of at most 4096 files"));
        }
        self.files.push(file.to_owned());
        Ok(self.files.len() as u64 - 1)
    }
}
