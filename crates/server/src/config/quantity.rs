//! Sizes as people write them.

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
    fn sizes() {
        let good = [("10GiB", 10 << 30), ("500MB", 500_000_000), ("512B", 512), ("1 TiB", 1 << 40)];
        good.iter().for_each(|(text, bytes)| assert_eq!(parse_size(text), Ok(*bytes)));
        for text in ["10", "GiB", "-1GiB", "1.5GiB", "99999999999TiB", "10G", ""] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
