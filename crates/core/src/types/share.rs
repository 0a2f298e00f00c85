//! Shares of a device's time, in parts per million.

use core::fmt;

/// A share of disk time: parts per million, 0 to 1,000,000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Share(u32);

impl Share {
    /// Parts in the whole.
    pub const PARTS: u32 = 1_000_000;
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// All of the device.
    pub const FULL: Self = Self(Self::PARTS);

    /// A share of `ppm` parts per million, or `None` above the whole.
    #[must_use]
    pub const fn from_ppm(ppm: u32) -> Option<Self> {
        if ppm <= Self::PARTS { Some(Self(ppm)) } else { None }
    }

    /// A share of `percent` per cent, or `None` above 100.
    #[must_use]
    pub const fn from_percent(percent: u32) -> Option<Self> {
        if percent <= 100 { Some(Self(percent * (Self::PARTS / 100))) } else { None }
    }

    /// Parts per million.
    #[must_use]
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// The share as a fraction 0 to 1, for display only.
    #[must_use]
    pub fn as_fraction(self) -> f64 {
        f64::from(self.0) / f64::from(Self::PARTS)
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Share {
    /// As a person writes it: `30%`, `12.5%`, `0.0001%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 10_000, self.0 % 10_000);
        if part == 0 {
            return write!(f, "{whole}%");
        }
        let (mut part, mut digits) = (part, 4);
        while part % 10 == 0 {
            part /= 10;
            digits -= 1;
        }
        write!(f, "{whole}.{part:0digits$}%")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn shares_are_written_as_percentages() {
        for (text, ppm) in
            [("0%", 0), ("30%", 300_000), ("12.5%", 125_000), ("0.0001%", 1), ("100%", 1_000_000)]
        {
            let share = Share::from_ppm(ppm).unwrap();
            assert_eq!(share.to_string(), text);
        }
    }
}
