//! Sizes, rates and spans of time as people write them.

use disktime_core::Duration;

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
const SPANS: [(&str, u64); 5] =
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("min", 60_000_000_000), ("s", 1_000_000_000)];

/// A size like `10GiB`, `500MB` or `4096B`.
///
/// # Errors
/// What is allowed, if it is anything else.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let allowed = "a size is a whole number and a unit, like `10GiB`, `500MB` or `4096B`";
    scaled(text, &SIZES).ok_or_else(|| allowed.to_owned())
}

/// A size as a person would write it: in the largest unit of which it is a whole number.
pub(super) fn size_text(bytes: u64) -> String {
    let whole = |(_, unit): &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(*unit);
    // Of powers of two and of ten that which leaves the smaller number.
    let unit = SIZES.iter().filter(whole).max_by_key(|(_, unit)| *unit);
    let (name, unit) = unit.copied().unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

/// A rate like `8MB/s`, in bytes per second.
///
/// # Errors
/// What is allowed, if it is anything else.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let rate = text.strip_suffix("/s").and_then(|size| scaled(size, &SIZES));
    rate.ok_or_else(|| "a rate is a size per second, like `8MB/s` or `500kB/s`".to_owned())
}

/// A span of time like `60ms` or `4s`.
///
/// # Errors
/// What is allowed, if it is anything else.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let span = scaled(text, &SPANS).map(Duration::from_nanos);
    span.ok_or_else(|| "a time is a whole number and a unit, like `60ms` or `4s`".to_owned())
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (unit, factor) = units.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text[..text.len() - unit.len()].trim_end();
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates() {
        let good = [("10GiB", 10 << 30), ("500MB", 500_000_000), ("512B", 512), ("1 TiB", 1 << 40)];
        for (text, bytes) in good {
            assert_eq!(parse_size(text), Ok(bytes));
            assert_eq!(parse_rate(&format!("{text}/s")), Ok(bytes));
        }
        for text in ["10", "GiB", "-1GiB", "1.5GiB", "99999999999TiB", "10G", "", "ü", "MB/"] {
            assert!(parse_size(text).is_err(), "{text}");
            assert!(parse_rate(&format!("{text}/s")).is_err(), "{text}");
        }
        assert!(parse_rate("8MB").is_err() && parse_rate("/s").is_err());
    }

    #[test]
    fn sizes_read_as_they_are_written() {
        for text in ["0B", "512B", "8GiB", "500MB", "3TB", "1KiB", "1500kB", "4097B"] {
            assert_eq!(size_text(parse_size(text).unwrap()), text);
        }
    }

    #[test]
    fn spans() {
        for (text, nanos) in [("60ms", 60_000_000), ("4s", 4_000_000_000), ("7ns", 7), ("0s", 0)] {
            assert_eq!(parse_span(text), Ok(Duration::from_nanos(nanos)));
        }
        assert_eq!(parse_span("1min"), parse_span("60s"));
        for text in ["4", "s", "-1s", "1.5s", "99999999999min", "1h", ""] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }
}
