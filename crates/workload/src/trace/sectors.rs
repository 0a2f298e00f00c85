//! `time_s,op,lbn,sectors,dev`.

use super::TraceRecord;
use super::error::{TraceFault, shorten};
use super::fields::{Parse, SECTOR_BYTES, columns, kind, number, scaled, seconds};
use crate::spec::IoOp;
use disktime_core::Kind;

const HEADER: &str = "time_s,op,lbn,sectors,dev";
const HEADER_SHORT: &str = "time_s,op,lbn,sectors";

#[derive(Debug, Default)]
pub(super) struct Sectors {
    devices: bool,
}

impl Parse for Sectors {
    fn header(&mut self, line: &str) -> Result<bool, TraceFault> {
        self.devices = line == HEADER;
        if self.devices || line == HEADER_SHORT {
            return Ok(true);
        }
        Err(TraceFault::Header { found: shorten(line), expected: HEADER })
    }

    fn line(&mut self, line: &str) -> Result<Option<TraceRecord>, TraceFault> {
        let (split, expected) = if self.devices {
            (columns(line), HEADER)
        } else {
            (
                columns(line).map(|[time, op, lbn, sectors]| [time, op, lbn, sectors, "0"]),
                HEADER_SHORT,
            )
        };
        let [time, op, lbn, sectors, dev] =
            split.map_err(|found| TraceFault::Columns { found, expected })?;
        let op = IoOp {
            kind: kind("op", op, &[("R", Kind::Read), ("W", Kind::Write)], "R or W")?,
            offset: scaled("lbn", lbn, SECTOR_BYTES)?,
            bytes: scaled("sectors", sectors, SECTOR_BYTES)?,
        };
        let at = seconds("time_s", time)?;
        Ok(Some(TraceRecord { at, op, stream: number("dev", dev)? }))
    }

    fn time_field(&self) -> &'static str {
        "time_s"
    }

    fn place_field(&self) -> &'static str {
        "lbn"
    }

    fn length_field(&self) -> &'static str {
        "sectors"
    }
}
