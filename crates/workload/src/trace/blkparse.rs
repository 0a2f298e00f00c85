//! Text of `blkparse` in its default format.
//!
//! Source: `man blkparse`, "Default output". A line is
//! `MAJOR,MINOR CPU SEQUENCE SECONDS.NANOSECONDS PID ACTION RWBS …`, and for the actions of interest
//! `… SECTOR + SECTORS [PROCESS]`. The summary at the end is skipped.

use super::TraceRecord;
use super::error::TraceFault;
use super::fields::{Parse, SECTOR_BYTES, number, scaled, seconds, wrong_number, wrong_word};
use crate::spec::IoOp;
use disktime_config::quantity::digits;
use disktime_core::Kind;

/// Bits of a device's minor number, as in Linux.
const MINOR_BITS: u32 = 20;

#[derive(Debug)]
pub(super) struct Blkparse {
    /// The action that counts.
    action: &'static str,
    /// The events are over.
    summary: bool,
}

/// Whether text of `blkparse` may begin so.
pub(super) fn begins_with(line: &str) -> bool {
    line.starts_with("Input file ") || {
        let mut words = line.split_ascii_whitespace();
        words.next().is_some_and(|word| device(word).is_some()) && words.count() >= 6
    }
}

fn device(word: &str) -> Option<u64> {
    let (major, minor) = word.split_once(',')?;
    let minor = digits(minor).filter(|minor| minor >> MINOR_BITS == 0)?;
    // Linux has 12 bits for it.
    let major = digits(major).filter(|major| *major < 1 << 12)?;
    Some(major << MINOR_BITS | minor)
}

impl Blkparse {
    pub(super) fn new(action: &'static str) -> Self {
        Self { action, summary: false }
    }
}

impl Parse for Blkparse {
    fn header(&mut self, _line: &str) -> Result<bool, TraceFault> {
        Ok(false)
    }

    fn line(&mut self, line: &str) -> Result<Option<TraceRecord>, TraceFault> {
        let words = ["CPU", "Total ", "Throughput ", "Events "];
        self.summary |= words.iter().any(|word| line.starts_with(word));
        if self.summary || line.starts_with("Input file ") {
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace();
        let [Some(dev), Some(_cpu), Some(_seq), Some(time), Some(_pid), Some(action), rwbs] =
            [(); 7].map(|()| words.next())
        else {
            let expected = "device cpu sequence time pid action rwbs sector + sectors [process]";
            return Err(TraceFault::Columns {
                found: line.split_ascii_whitespace().count(),
                expected,
            });
        };
        let stream =
            device(dev).ok_or_else(|| wrong_number("device", dev, "MAJOR,MINOR, like 8,0,"))?;
        if action != self.action {
            return Ok(None);
        }
        let at = seconds("time", time)?;
        let op = operation(rwbs.unwrap_or_default(), words)?;
        Ok(op.map(|op| TraceRecord { at, op, stream }))
    }

    fn time_field(&self) -> &'static str {
        "time"
    }

    fn place_field(&self) -> &'static str {
        "sector"
    }

    fn length_field(&self) -> &'static str {
        "sectors"
    }
}

/// The operation in the event's last columns; `None` for commands that move no data.
fn operation<'a>(
    rwbs: &str,
    mut words: impl Iterator<Item = &'a str>,
) -> Result<Option<IoOp>, TraceFault> {
    // A first F asks for a flush before the data, which a letter of its own follows; a later F is
    // "force unit access".
    let flush = rwbs.starts_with('F');
    let kind = match rwbs.trim_start_matches('F').chars().next() {
        Some('R') => Some(Kind::Read),
        Some('W') => Some(Kind::Write),
        Some('D') => Some(Kind::Trim),
        Some('N') => None,
        _ if flush => None,
        _ => return Err(wrong_word("rwbs", rwbs, "R, W, D, F or N with its flags")),
    };
    let flush = flush.then_some(IoOp { kind: Kind::Flush, offset: 0, bytes: 0 });
    let sector = words.next().unwrap_or_default();
    // A process without an extent, or a command in hexadecimal after its length.
    if sector.is_empty() || sector.starts_with('[') {
        return Ok(flush);
    }
    let plus = words.next().unwrap_or_default();
    if plus.starts_with('(') || plus.starts_with('[') {
        return Ok(None);
    }
    if plus != "+" {
        return Err(wrong_word("sector", plus, "SECTOR + SECTORS"));
    }
    let offset = scaled("sector", sector, SECTOR_BYTES)?;
    let sectors = words.next().unwrap_or_default();
    let bytes = scaled("sectors", sectors, SECTOR_BYTES)?;
    if number("sectors", sectors)? == 0 {
        return Ok(flush);
    }
    Ok(kind.map(|kind| IoOp { kind, offset, bytes }))
}
