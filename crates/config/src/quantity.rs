//! Sizes, rates, ratios and spans of time as people write them: in files and on the command line.
//!
//! `parse_*` reads a text; `*_text` writes one that reads as the same. The functions `size`,
//! `duration`, `rate`, `permille` and `scale` are for serde's `deserialize_with`.

use std::fmt;

use disktime_core::{Duration, Share};
use serde::de::{Deserializer, Error, Visitor};

const SIZES: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// A unit stands before those that it ends with: `ms` before `s`.
const SPANS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The longest text of a quantity in bytes: twice what the largest one takes. Zeros before a number have
/// no end, and changes of contracts keep the text.
const TEXT_MAX: usize = 32;

const A_SIZE: &str = "a size is a whole number and a unit, like `4KiB`, `10GiB` or `500MB`";
const A_SPAN: &str = "a time is a whole number and a unit, like `10ms`, `2s` or `5min`";
const A_RATE: &str = "a rate is a size per second, like `8MB/s` or `128KiB/s`";
const A_SHARE: &str = "a share is 0% to 100%, like `30%` or `12.5%`, with at most four decimals";
const A_RATIO: &str = "a ratio is 0% to 100%, like `70%` or `12.5%`, with at most one decimal";
const A_SCALE: &str = "a scale is a percentage above 0%, like `50%`, with at most four decimals";

/// A size like `4KiB`, `500MB` or `512B`, in bytes.
///
/// # Errors
/// Says what is allowed, if the text is anything else.
pub fn parse_size(text: &str) -> Result<u64, String> {
    scaled(text, &SIZES).ok_or_else(|| allowed(text, A_SIZE))
}

/// A span of time like `10ms`, `2s` or `5min`.
///
/// # Errors
/// Says what is allowed, if the text is anything else.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    scaled(text, &SPANS).map(Duration::from_nanos).ok_or_else(|| allowed(text, A_SPAN))
}

/// A rate like `8MB/s`, in bytes per second.
///
/// # Errors
/// Says what is allowed, if the text is anything else.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let size = text.strip_suffix("/s").and_then(|size| scaled(size, &SIZES));
    size.ok_or_else(|| allowed(text, A_RATE))
}

/// A share like `30%` or `12.5%`.
///
/// # Errors
/// Says what is allowed, if the text is anything else.
pub fn parse_share(text: &str) -> Result<Share, String> {
    let ppm = percent_ppm(text).and_then(|ppm| u32::try_from(ppm).ok());
    ppm.and_then(Share::from_ppm).ok_or_else(|| allowed(text, A_SHARE))
}

/// A size as a person would write it: in the largest unit of which it is a whole number.
#[must_use]
pub fn size_text(bytes: u64) -> String {
    let whole = |(_, unit): &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(*unit);
    // The larger unit leaves the smaller number, be it a power of two or of ten.
    let unit = SIZES.iter().filter(whole).max_by_key(|(_, unit)| *unit);
    let (name, unit) = unit.copied().unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

/// A rate as a person would write it.
#[must_use]
pub fn rate_text(bytes_per_second: u64) -> String {
    format!("{}/s", size_text(bytes_per_second))
}

/// A ratio like `70%` or `12.5%`, per thousand.
///
/// # Errors
/// Says what is allowed, if the text is anything else.
pub fn parse_permille(text: &str) -> Result<u16, String> {
    let permille = percent_ppm(text).filter(|ppm| ppm.is_multiple_of(1_000));
    let permille = permille.and_then(|ppm| u16::try_from(ppm / 1_000).ok());
    permille.filter(|&permille| permille <= 1000).ok_or_else(|| allowed(text, A_RATIO))
}

/// A factor like `50%` or `200%`, in parts per million; more than nothing.
///
/// # Errors
/// Says what is allowed, if the text is anything else.
pub fn parse_scale(text: &str) -> Result<u64, String> {
    percent_ppm(text).filter(|&ppm| ppm > 0).ok_or_else(|| allowed(text, A_SCALE))
}

/// The error of a text: the texts that are allowed.
fn allowed(text: &str, it: &str) -> String {
    if text.len() <= TEXT_MAX {
        it.to_owned()
    } else {
        format!("{it}, of at most {TEXT_MAX} bytes")
    }
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let (unit, factor) = units.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text[..text.len() - unit.len()].trim_end();
    digits(number)?.checked_mul(*factor)
}

fn percent_ppm(text: &str) -> Option<u64> {
    let number = text.strip_suffix('%').filter(|_| text.len() <= TEXT_MAX)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if part.len() > 4 {
        return None;
    }
    digits(whole)?
        .checked_mul(10_000)?
        .checked_add(digits(&format!("{part:0<4}"))?)
        .filter(|_| !part.is_empty())
}

/// Only digits, at least one, below 2^64.
#[must_use]
pub fn digits(text: &str) -> Option<u64> {
    // `parse` takes a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Visits a string that one of the functions above reads.
struct Human<T> {
    expects: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<T> Visitor<'_> for Human<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expects)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(|allowed| E::custom(format!("{text:?}: {allowed}")))
    }
}

macro_rules! deserializers {
    ($($name:ident -> $value:ty: $parse:ident, $expects:literal;)*) => {$(
        /// For serde's `deserialize_with`.
        ///
        /// # Errors
        /// Says what is allowed, if the text is anything else.
        pub fn $name<'de, D: Deserializer<'de>>(from: D) -> Result<$value, D::Error> {
            from.deserialize_str(Human { expects: $expects, parse: $parse })
        }
    )*};
}

deserializers! {
    size -> u64: parse_size, "a size in quotes, like \"4KiB\"";
    duration -> Duration: parse_duration, "a time in quotes, like \"10ms\"";
    rate -> u64: parse_rate, "a rate in quotes, like \"8MB/s\"";
    permille -> u16: parse_permille, "a ratio in quotes, like \"70%\"";
    scale -> u64: parse_scale, "a percentage in quotes, like \"50%\"";
}

/// A span that may be left out (with `default`).
///
/// # Errors
/// Says what is allowed, if the text is anything else.
pub fn some_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates() {
        let good = [("4KiB", 4096), ("500MB", 500_000_000), ("0B", 0), ("1 TiB", 1 << 40)];
        good.iter().for_each(|(text, bytes)| assert_eq!(parse_size(text), Ok(*bytes)));
        assert_eq!(parse_rate("8MB/s"), Ok(8_000_000));
        for text in
            ["10", "GiB", "-1GiB", "+1GiB", "1.5GiB", "99999999999TiB", "10G", "", "B", "ü", "MB/"]
        {
            assert_eq!(parse_size(text), Err(A_SIZE.to_owned()), "{text}");
            assert_eq!(parse_rate(&format!("{text}/s")), Err(A_RATE.to_owned()), "{text}");
        }
        assert_eq!(parse_rate("8MB"), Err(A_RATE.to_owned()));
    }

    /// A contract with 60,000 zeros before its number was taken, and kept with each change of it.
    #[test]
    fn a_long_text_is_no_quantity() {
        let of = |zeros: usize, rest: &str| format!("{}{rest}", "0".repeat(zeros));
        assert_eq!(parse_size(&of(28, "1KiB")), Ok(1024));
        assert_eq!(parse_share(&of(30, "1%")).map(Share::ppm), Ok(10_000));
        let long = |it: &str| format!("{it}, of at most 32 bytes");
        assert_eq!(parse_size(&of(29, "1KiB")).unwrap_err(), long(A_SIZE));
        assert_eq!(parse_size(&format!("1{}KiB", " ".repeat(29))).unwrap_err(), long(A_SIZE));
        assert_eq!(parse_rate(&of(60_000, "1kB/s")).unwrap_err(), long(A_RATE));
        assert_eq!(parse_duration(&of(60_000, "1ms")).unwrap_err(), long(A_SPAN));
        assert_eq!(parse_share(&of(31, "1%")).unwrap_err(), long(A_SHARE));
        assert_eq!(parse_permille(&of(60_000, "1%")).unwrap_err(), long(A_RATIO));
    }

    #[test]
    fn sizes_read_as_they_are_written() {
        for text in ["0B", "512B", "8GiB", "500MB", "3TB", "1KiB", "1500kB", "4097B"] {
            assert_eq!(parse_size(text).map(size_text), Ok(text.to_owned()));
        }
    }

    #[test]
    fn spans() {
        let good = [
            ("7ns", 7),
            ("10us", 10_000),
            ("10µs", 10_000),
            ("10 ms", 10_000_000),
            ("2s", 2_000_000_000),
            ("5m", 300_000_000_000),
            ("5min", 300_000_000_000),
            ("1h", 3_600_000_000_000),
        ];
        for (text, nanos) in good {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["10", "ms", "-1s", "1.5s", "99999999999h", "1d", ""] {
            assert_eq!(parse_duration(text), Err(A_SPAN.to_owned()), "{text}");
        }
    }

    #[test]
    fn percentages() {
        assert_eq!(parse_permille("70%"), Ok(700));
        assert_eq!(parse_permille("12.5%"), Ok(125));
        assert_eq!(parse_permille("100%"), Ok(1000));
        assert_eq!(parse_scale("0.0001%"), Ok(1));
        assert_eq!(parse_scale("250%"), Ok(2_500_000));
        for text in ["0%", "30%", "12.5%", "0.0001%", "100%"] {
            assert_eq!(parse_share(text).map(|share| share.to_string()), Ok(text.to_owned()));
        }
        for text in ["30", "-5%", "%", "101%", "100.0001%", "1.00001%", "1e1%", "3 %", "5.%", ""] {
            assert_eq!(parse_share(text), Err(A_SHARE.to_owned()), "{text}");
        }
        for text in ["70", "%", "-1%", "+1%", "100.1%", "12.55%", "1.%", ".5%", " 5%"] {
            assert_eq!(parse_permille(text), Err(A_RATIO.to_owned()), "{text}");
        }
        for text in ["0%", "1.00001%", "1.%", "99999999999999999999%"] {
            assert_eq!(parse_scale(text), Err(A_SCALE.to_owned()), "{text}");
        }
    }
}
