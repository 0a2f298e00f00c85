//! The block traces of Microsoft Research, Cambridge.
//!
//! Source: Narayanan, Donnelly & Rowstron, "Write off-loading", FAST 2008; the columns are those of
//! the traces' README at SNIA. Times are Windows' file times: ticks of 100 ns since 1601.

use super::TraceRecord;
use super::error::{TraceFault, shorten};
use super::fields::{Parse, columns, kind, number, scaled};
use crate::spec::IoOp;
use disktime_core::{Instant, Kind};

pub(super) const COLUMNS: usize = 7;
const HEADER: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
const TICK_NS: u64 = 100;

#[derive(Debug)]
pub(super) struct Msr;

impl Parse for Msr {
    fn header(&mut self, line: &str) -> Result<bool, TraceFault> {
        if line.starts_with(|first: char| first.is_ascii_digit()) {
            return Ok(false);
        }
        if line == HEADER {
            return Ok(true);
        }
        Err(TraceFault::Header { found: shorten(line), expected: HEADER })
    }

    fn line(&mut self, line: &str) -> Result<Option<TraceRecord>, TraceFault> {
        let split: Result<[&str; COLUMNS], usize> = columns(line);
        let [time, _host, disk, what, offset, size, response] =
            split.map_err(|found| TraceFault::Columns { found, expected: HEADER })?;
        let words = [("Read", Kind::Read), ("Write", Kind::Write)];
        let op = IoOp {
            kind: kind("Type", what, &words, "Read or Write")?,
            offset: number("Offset", offset)?,
            bytes: number("Size", size)?,
        };
        number("ResponseTime", response)?;
        let at = Instant::from_nanos(scaled("Timestamp", time, TICK_NS)?);
        Ok(Some(TraceRecord { at, op, stream: number("DiskNumber", disk)? }))
    }

    fn time_field(&self) -> &'static str {
        "Timestamp"
    }

    fn place_field(&self) -> &'static str {
        "Offset"
    }

    fn length_field(&self) -> &'static str {
        "Size"
    }
}
