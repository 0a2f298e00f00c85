//! The dates between which a certificate is valid (RFC 5280, 4.1.2.5), out of its DER.
//!
//! Does not know: signatures, names, what a certificate is for.

/// How long before its end a certificate is warned of, in seconds: 14 days.
const SOON: u64 = 14 * DAY;
const DAY: u64 = 24 * 3600;

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which may be left out.
const VERSION: u8 = 0xa0;

/// The dates between which a certificate is valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Validity {
    from: Date,
    until: Date,
}

/// A second.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Date {
    /// Since 1970; one before that is 0.
    seconds: u64,
    text: String,
}

impl Validity {
    /// The dates of a certificate; nothing of bytes that are none.
    pub(super) fn of(der: &[u8]) -> Option<Self> {
        let certificate = sequence(der)?;
        let mut rest = sequence(certificate)?;
        if rest.first() == Some(&VERSION) {
            rest = element(rest)?.2;
        }
        // The serial number, the algorithm and the issuer.
        for _ in 0..3 {
            rest = element(rest)?.2;
        }
        let (tag, from, rest) = element(sequence(rest)?)?;
        let from = Date::of(tag, from)?;
        let (tag, until, _) = element(rest)?;
        Some(Self { from, until: Date::of(tag, until)? })
    }

    /// A warning at that second since 1970, if there is one.
    pub(super) fn warning(&self, now: u64) -> Option<String> {
        let Self { from, until } = self;
        let remedy = "put a valid one in its place, and send SIGHUP";
        if until.seconds < now {
            let date = &until.text;
            return Some(format!("it was valid until {date}, and clients refuse it: {remedy}"));
        }
        if from.seconds > now {
            let date = &from.text;
            return Some(format!(
                "it is not valid before {date}, and clients refuse it: {remedy}, or set this machine's clock"
            ));
        }
        let left = until.seconds - now;
        let (date, days) = (&until.text, left / DAY);
        (left < SOON).then(|| {
            format!("it is valid until {date}, for {days} more days: put a new one in its place, and send SIGHUP")
        })
    }
}

impl Date {
    fn of(tag: u8, text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
        let (year, rest) = match tag {
            UTC_TIME => {
                let (year, rest) = text.split_at_checked(2)?;
                let year = number(year)?;
                (if year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            GENERALIZED_TIME => {
                let (year, rest) = text.split_at_checked(4)?;
                (number(year)?, rest)
            }
            _ => return None,
        };
        if rest.len() != 10 || !rest.is_ascii() {
            return None;
        }
        let at = |place: usize| number(&rest[place..place + 2]);
        let (month, day) = (at(0)?, at(2)?);
        let (hour, minute, second) = (at(4)?, at(6)?, at(8)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        let days = days_since_1970(year, month, day);
        let seconds = days * DAY + hour * 3600 + minute * 60 + second;
        let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
        Some(Self { seconds, text })
    }
}

fn number(digits: &str) -> Option<u64> {
    if digits.bytes().all(|digit| digit.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Days of the Gregorian calendar; 0 before 1970.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    // Years begin in March, so that a leap day is the last one.
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.saturating_sub(1), month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    // Days from the first of March of the year 0 to the first of January 1970, and one.
    days.saturating_sub(719_469)
}

/// The contents of the first element, if it is a sequence.
fn sequence(der: &[u8]) -> Option<&[u8]> {
    let (tag, contents, _) = element(der)?;
    (tag == SEQUENCE).then_some(contents)
}

/// The first element: its tag, its contents, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let ([tag, first], mut rest) = der.split_first_chunk::<2>()?;
    let mut length = usize::from(*first);
    if length >= 0x80 {
        let (digits, after) = rest.split_at_checked(length - 0x80)?;
        if digits.len() > 4 {
            return None;
        }
        length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        rest = after;
    }
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((*tag, contents, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(from: (i32, u8, u8), until: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    /// A certificate that had expired, or was not valid yet, was served without a word.
    #[test]
    fn a_certificate_is_warned_of_with_its_date() {
        // 2024-02-29T00:00:00Z, says `date -u -d @1709164800`.
        let now = 1_709_164_800;
        let warning = |from, until| Validity::of(&certificate(from, until)).unwrap().warning(now);
        assert_eq!(warning((2000, 1, 1), (2050, 1, 1)), None);
        assert_eq!(warning((2024, 2, 29), (2024, 3, 14)), None, "14 days are left");
        for (from, until, said) in [
            ((2000, 1, 1), (2024, 2, 28), "was valid until 2024-02-28T00:00:00Z"),
            ((1969, 1, 1), (1971, 1, 1), "was valid until 1971-01-01T00:00:00Z"),
            ((2024, 3, 1), (2050, 1, 1), "is not valid before 2024-03-01T00:00:00Z"),
            ((2000, 1, 1), (2024, 3, 13), "until 2024-03-13T00:00:00Z, for 13 more days"),
        ] {
            let warned = warning(from, until).unwrap();
            assert!(warned.contains(said), "{warned}");
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_dates() {
        let der = certificate((2000, 1, 1), (2050, 1, 1));
        for end in 0..der.len() {
            assert_eq!(Validity::of(&der[..end]), None);
        }
        for at in 0..der.len() {
            let mut other = der.clone();
            other[at] ^= 0xff;
            // No panic.
            drop(Validity::of(&other));
        }
    }
}
