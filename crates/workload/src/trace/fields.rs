//! Common to the formats: a parser's face, columns and numbers.

use super::TraceRecord;
use super::error::{TraceFault, shorten};
use disktime_config::quantity::digits;
use disktime_core::{Instant, Kind};
use std::fmt;

/// Bytes of a sector.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Reads one format.
pub(super) trait Parse: fmt::Debug + Send {
    /// Looks at the first line that isn't empty: whether it is a header, and not an operation.
    fn header(&mut self, line: &str) -> Result<bool, TraceFault>;

    /// The operation of a line; `None` where it has none.
    fn line(&mut self, line: &str) -> Result<Option<TraceRecord>, TraceFault>;

    /// The format's name for an operation's time.
    fn time_field(&self) -> &'static str;

    /// The format's name for an operation's first byte.
    fn place_field(&self) -> &'static str;

    /// The format's name for an operation's length.
    fn length_field(&self) -> &'static str;
}

/// The columns of a line, without white space around them.
pub(super) fn columns<const N: usize>(line: &str) -> Result<[&str; N], usize> {
    let mut found = [""; N];
    let mut count = 0;
    for column in line.split(',') {
        if let Some(place) = found.get_mut(count) {
            *place = column.trim();
        }
        count += 1;
    }
    if count == N { Ok(found) } else { Err(count) }
}

/// A whole number below 2^64.
pub(super) fn number(field: &'static str, value: &str) -> Result<u64, TraceFault> {
    digits(value).ok_or_else(|| wrong_number(field, value, "a whole number below 2^64"))
}

/// A number of units, in units of which each has `scale`; below 2^64.
pub(super) fn scaled(field: &'static str, value: &str, scale: u64) -> Result<u64, TraceFault> {
    let product = number(field, value)?.checked_mul(scale);
    product.ok_or_else(|| wrong_number(field, value, "a smaller number"))
}

/// Seconds with decimals, of which nine count.
pub(super) fn seconds(field: &'static str, value: &str) -> Result<Instant, TraceFault> {
    const DIGITS: usize = 9;
    let parse = || {
        let (whole, part) = value.split_once('.').unwrap_or((value, "0"));
        let counted = part.get(..DIGITS).unwrap_or(part);
        digits(part.get(DIGITS..).filter(|rest| !rest.is_empty()).unwrap_or("0"))?;
        let mut nanos = digits(counted)?;
        for _ in counted.len()..DIGITS {
            nanos *= 10;
        }
        digits(whole)?.checked_mul(1_000_000_000)?.checked_add(nanos).map(Instant::from_nanos)
    };
    parse().ok_or_else(|| wrong_number(field, value, "a time in seconds, like 1.25,"))
}

/// The kind that a word of `words` stands for.
pub(super) fn kind(
    field: &'static str,
    value: &str,
    words: &[(&str, Kind)],
    allowed: &'static str,
) -> Result<Kind, TraceFault> {
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, kind)| *kind).ok_or_else(|| wrong_word(field, value, allowed))
}

pub(super) fn wrong_number(field: &'static str, value: &str, allowed: &'static str) -> TraceFault {
    TraceFault::Number { field, value: shorten(value), allowed }
}

pub(super) fn wrong_word(field: &'static str, value: &str, allowed: &'static str) -> TraceFault {
    TraceFault::Word { field, value: shorten(value), allowed }
}
