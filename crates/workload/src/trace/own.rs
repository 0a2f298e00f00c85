//! Our own format; [`TraceWriter`](super::TraceWriter) says what it is.

use super::TraceRecord;
use super::error::{TraceFault, shorten};
use super::fields::{Parse, columns, kind, number};
use crate::spec::IoOp;
use disktime_core::{Instant, Kind};

pub(super) const HEADER: &str = "time_ns,op,offset,bytes,stream";
const HEADER_SHORT: &str = "time_ns,op,offset,bytes";

pub(super) const WORDS: [(&str, Kind); 6] = [
    ("read", Kind::Read),
    ("write", Kind::Write),
    ("flush", Kind::Flush),
    ("trim", Kind::Trim),
    ("zeroes", Kind::Zeroes),
    ("cache", Kind::Cache),
];

#[derive(Debug, Default)]
pub(super) struct Own {
    streams: bool,
}

impl Parse for Own {
    fn header(&mut self, line: &str) -> Result<bool, TraceFault> {
        self.streams = line == HEADER;
        if self.streams || line == HEADER_SHORT {
            return Ok(true);
        }
        Err(TraceFault::Header {
            found: shorten(line),
            expected: "time_ns,op,offset,bytes` or `time_ns,op,offset,bytes,stream",
        })
    }

    fn line(&mut self, line: &str) -> Result<Option<TraceRecord>, TraceFault> {
        let (split, expected) = if self.streams {
            (columns(line), HEADER)
        } else {
            (
                columns(line).map(|[time, op, offset, bytes]| [time, op, offset, bytes, "0"]),
                HEADER_SHORT,
            )
        };
        let [time, op, offset, bytes, stream] =
            split.map_err(|found| TraceFault::Columns { found, expected })?;
        let op = IoOp {
            kind: kind("op", op, &WORDS, "read, write, flush, trim, zeroes or cache")?,
            offset: number("offset", offset)?,
            bytes: number("bytes", bytes)?,
        };
        let at = Instant::from_nanos(number("time_ns", time)?);
        Ok(Some(TraceRecord { at, op, stream: number("stream", stream)? }))
    }

    fn time_field(&self) -> &'static str {
        "time_ns"
    }

    fn place_field(&self) -> &'static str {
        "offset"
    }

    fn length_field(&self) -> &'static str {
        "bytes"
    }
}
