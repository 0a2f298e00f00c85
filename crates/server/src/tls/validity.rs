//! The dates between which a certificate is valid (RFC 5280, 4.1.2.5), out of its DER.
//!
//! Does not know: signatures, names, what a certificate is for.

use std::time::{Duration, UNIX_EPOCH};

use x509_parser::certificate::{Validity as Dates, X509Certificate};
use x509_parser::prelude::FromDer as _;

/// How long before its end a certificate is warned of, in seconds: 14 days.
const SOON: u64 = 14 * DAY;
const DAY: u64 = 24 * 3600;

/// The dates between which a certificate is valid, in seconds since 1970; one before that is 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Validity {
    from: u64,
    until: u64,
}

impl Validity {
    /// The dates of a certificate; nothing of bytes that are none.
    pub(super) fn of(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let Dates { not_before, not_after } = certificate.validity();
        let [from, until] =
            [not_before, not_after].map(|at| u64::try_from(at.timestamp()).unwrap_or(0));
        Some(Self { from, until })
    }

    /// A warning at that second since 1970, if there is one.
    pub(super) fn warning(&self, now: u64) -> Option<String> {
        let Self { from, until } = *self;
        let date = |at| humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(at));
        let remedy = "put a valid one in its place, and send SIGHUP";
        if until < now {
            let date = date(until);
            return Some(format!("it was valid until {date}, and clients refuse it: {remedy}"));
        }
        if from > now {
            let date = date(from);
            return Some(format!(
                "it is not valid before {date}, and clients refuse it: {remedy}, or set this machine's clock"
            ));
        }
        let left = until - now;
        let (date, days) = (date(until), left / DAY);
        (left < SOON).then(|| {
            format!("it is valid until {date}, for {days} more days: put a new one in its place, and send SIGHUP")
        })
    }
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
            let _dates = Validity::of(&other);
        }
    }
}
