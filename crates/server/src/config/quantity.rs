//! Shares and sizes as people write them.

use disktime_core::Share;

const UNITS: [(&str, u64); 9] = [
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

/// A share like `30%` or `12.5%`: 0 to 100, at most four decimals (parts per million).
///
/// # Errors
/// What is allowed, if it is anything else.
pub fn parse_share(text: &str) -> Result<Share, String> {
    let wrong =
        || "a share is 0% to 100%, like `30%` or `12.5%`, with at most four decimals".to_owned();
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || whole.len() > 3 || part.len() > 4 {
        return Err(wrong());
    }
    let whole = whole.parse::<u32>().map_err(|_| wrong())?;
    let part = format!("{part:0<4}").parse::<u32>().map_err(|_| wrong())?;
    Share::from_ppm(whole * 10_000 + part).ok_or_else(wrong)
}

/// A size like `10GiB`, `500MB` or `4096B`.
///
/// # Errors
/// What is allowed, if it is anything else.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong =
        || "a size is a whole number and a unit, like `10GiB`, `500MB` or `4096B`".to_owned();
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(wrong)?;
    let number = text[..text.len() - unit.0.len()].trim_end();
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit.1)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let good =
            [("0%", 0), ("30%", 300_000), ("12.5%", 125_000), ("0.0001%", 1), ("100%", 1_000_000)];
        for (text, ppm) in good {
            let share = parse_share(text).unwrap();
            assert_eq!(share.ppm(), ppm);
            assert_eq!(parse_share(&share.to_string()), Ok(share));
        }
        for text in [
            "30",
            "-5%",
            "%",
            "101%",
            "100.0001%",
            "1.00001%",
            "1e1%",
            " 3%",
            "3 %",
            "+3%",
            ".5%",
            "5.%",
        ] {
            assert!(parse_share(text).unwrap_err().contains("0% to 100%"), "{text}");
        }
    }

    #[test]
    fn sizes() {
        let good = [("10GiB", 10 << 30), ("500MB", 500_000_000), ("512B", 512), ("1 TiB", 1 << 40)];
        good.iter().for_each(|(text, bytes)| assert_eq!(parse_size(text), Ok(*bytes)));
        for text in ["10", "GiB", "-1GiB", "1.5GiB", "99999999999TiB", "10G", ""] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
