//! A load's description, as plain data.

use crate::error::SpecError;
use disktime_config::quantity;
use disktime_core::{Kind, Request};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// An operation to issue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoOp {
    /// Read or write.
    pub kind: Kind,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// A range of bytes: `start` up to but not including `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extent {
    /// First byte; in files 0 if left out.
    #[serde(default, deserialize_with = "quantity::size")]
    pub start: u64,
    /// One past the last byte.
    #[serde(deserialize_with = "quantity::size")]
    pub end: u64,
}

/// Where operations go within the extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Each to a place of its own, all equally likely.
    Random,
    /// One after another from the extent's start; again from there when the next doesn't fit.
    Sequential,
    /// `length` operations one after another, then a jump to a random place from which a whole run
    /// fits. (Paper `zygaria`: runs of 1024.)
    Runs {
        /// Operations in a run, at least one.
        length: u32,
    },
    /// `random` operations to random places, then `sequential` that go on where the sequence was
    /// left, and so on. (Paper `qbox`: 25 random per 475 sequential.)
    SemiSequential {
        /// Random operations in a row.
        random: u32,
        /// Operations in sequence between them.
        sequential: u32,
    },
    /// Each to a place of its own, the first places more likely: this part of the operations goes to
    /// that part of the extent, within which the same holds, and so on; the rest goes anywhere beyond
    /// it. (Gray et al., SIGMOD 1994: 80 % of them to 20 %.)
    Skewed {
        /// The first part of the extent, in thousandths, 1 to 999; in files `part = "20%"`.
        #[serde(rename = "part", deserialize_with = "quantity::permille")]
        part_permille: u16,
        /// Operations that go there, in thousandths, 1 to 999; in files `operations = "80%"`.
        #[serde(rename = "operations", deserialize_with = "quantity::permille")]
        operations_permille: u16,
    },
}

/// A size, and how often it comes relative to the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeWeight {
    /// Bytes of an operation.
    #[serde(deserialize_with = "quantity::size")]
    pub bytes: u64,
    /// Its share is the weight over the sum of the weights; in files 1 if left out.
    #[serde(default = "one")]
    pub weight: u32,
}

const fn one() -> u32 {
    1
}

const fn all() -> u16 {
    1000
}

/// One size, or a list of sizes with weights.
fn sizes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SizeWeight>, D::Error> {
    from.deserialize_any(Sizes)
}

struct Sizes;

impl<'de> Visitor<'de> for Sizes {
    type Value = Vec<SizeWeight>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size like \"4KiB\", or a list like [{ bytes = \"4KiB\", weight = 3 }]")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let bytes = quantity::size(text.into_deserializer())?;
        Ok(vec![SizeWeight { bytes, weight: 1 }])
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        SizeWeight::deserialize(MapAccessDeserializer::new(map)).map(|size| vec![size])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }
}

/// Which operations a load consists of.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Where they go.
    pub pattern: Pattern,
    /// Every operation lies within it.
    pub extent: Extent,
    /// One size, or several with weights. The smallest is the *unit*: the other sizes are multiples
    /// of it, and every operation starts a multiple of it after the extent's start. In files one
    /// size may stand alone: `sizes = "4KiB"`.
    #[serde(deserialize_with = "sizes")]
    pub sizes: Vec<SizeWeight>,
    /// Reads among a thousand operations; the rest are writes. In files `reads = "70%"`, all if left
    /// out.
    #[serde(rename = "reads", default = "all", deserialize_with = "quantity::permille")]
    pub reads_permille: u16,
    /// Trims among a thousand operations that do not read; none if left out. In files
    /// `trims = "10%"`.
    #[serde(rename = "trims", default, deserialize_with = "quantity::permille")]
    pub trims_permille: u16,
    /// After so many writes, at least one, a flush; never if left out.
    #[serde(default)]
    pub flush_after: Option<u32>,
}

impl Spec {
    /// Reads of one size.
    #[must_use]
    pub fn reads(pattern: Pattern, extent: Extent, bytes: u64) -> Self {
        let sizes = vec![SizeWeight { bytes, weight: 1 }];
        Self { pattern, extent, sizes, reads_permille: 1000, trims_permille: 0, flush_after: None }
    }

    /// Says what is wrong, if anything.
    ///
    /// # Errors
    /// The first fault found, with the values that make it one.
    pub fn check(&self) -> Result<(), SpecError> {
        let unit = self.unit().ok_or(SpecError::NoSizes)?;
        if unit == 0 {
            return Err(SpecError::SizeZero);
        }
        if self.largest() > Request::BYTES_MAX {
            return Err(SpecError::SizeLong { bytes: self.largest() });
        }
        if let Some(odd) = self.sizes.iter().find(|size| !size.bytes.is_multiple_of(unit)) {
            return Err(SpecError::NotMultiple { bytes: odd.bytes, unit });
        }
        if self.sizes.iter().all(|size| size.weight == 0) {
            return Err(SpecError::NoWeight);
        }
        if self.reads_permille > 1000 {
            return Err(SpecError::ReadsAboveAll { permille: self.reads_permille });
        }
        if self.trims_permille > 1000 {
            return Err(SpecError::TrimsAboveAll { permille: self.trims_permille });
        }
        if let Pattern::Skewed { part_permille, operations_permille } = self.pattern
            && let Some(permille) =
                [part_permille, operations_permille].into_iter().find(|it| !(1..1000).contains(it))
        {
            return Err(SpecError::Skew { permille });
        }
        if self.flush_after == Some(0) {
            return Err(SpecError::FlushAfterNothing);
        }
        if self.pattern == (Pattern::Runs { length: 0 }) {
            return Err(SpecError::RunEmpty);
        }
        if self.pattern == (Pattern::SemiSequential { random: 0, sequential: 0 }) {
            return Err(SpecError::CycleEmpty);
        }
        let needed = self.room().ok_or(SpecError::RunTooLong)?;
        let extent = self.extent.end.saturating_sub(self.extent.start);
        if extent < needed { Err(SpecError::ExtentShort { extent, needed }) } else { Ok(()) }
    }

    /// The smallest size.
    pub(crate) fn unit(&self) -> Option<u64> {
        self.sizes.iter().map(|size| size.bytes).min()
    }

    /// The largest size.
    pub(crate) fn largest(&self) -> u64 {
        self.sizes.iter().map(|size| size.bytes).max().unwrap_or_default()
    }

    /// The bytes that an operation, or a run, may take up; `None` above 64 bits.
    fn room(&self) -> Option<u64> {
        let largest = self.largest();
        match self.pattern {
            Pattern::Random
            | Pattern::Sequential
            | Pattern::SemiSequential { .. }
            | Pattern::Skewed { .. } => Some(largest),
            Pattern::Runs { length } => largest.checked_mul(u64::from(length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(sizes: &[(u64, u32)]) -> Spec {
        let size = |&(bytes, weight)| SizeWeight { bytes, weight };
        Spec {
            pattern: Pattern::Random,
            extent: Extent { start: 0, end: 1 << 20 },
            sizes: sizes.iter().map(size).collect(),
            reads_permille: 500,
            trims_permille: 0,
            flush_after: None,
        }
    }

    fn spec_with_pattern(pattern: Pattern) -> Spec {
        Spec { pattern, ..spec(&[(4096, 1)]) }
    }

    #[test]
    fn each_fault_has_its_name() {
        let sized = |sizes: &[(u64, u32)]| spec(sizes).check();
        assert_eq!(sized(&[(4096, 1), (65_536, 0)]), Ok(()));
        assert_eq!(sized(&[]), Err(SpecError::NoSizes));
        assert_eq!(sized(&[(4096, 1), (0, 1)]), Err(SpecError::SizeZero));
        let odd = SpecError::NotMultiple { bytes: 6144, unit: 4096 };
        assert_eq!(sized(&[(4096, 1), (6144, 1)]), Err(odd));
        assert_eq!(sized(&[(4096, 0)]), Err(SpecError::NoWeight));

        let with = |change: fn(&mut Spec)| {
            let mut spec = spec(&[(4096, 1)]);
            change(&mut spec);
            spec.check()
        };
        let above = SpecError::ReadsAboveAll { permille: 1001 };
        assert_eq!(with(|spec| spec.reads_permille = 1001), Err(above));
        let above = SpecError::TrimsAboveAll { permille: 1001 };
        assert_eq!(with(|spec| spec.trims_permille = 1001), Err(above));
        let skewed = |part_permille, operations_permille| {
            spec_with_pattern(Pattern::Skewed { part_permille, operations_permille }).check()
        };
        assert_eq!(skewed(200, 800), Ok(()));
        assert_eq!(skewed(0, 800), Err(SpecError::Skew { permille: 0 }));
        assert_eq!(skewed(200, 1000), Err(SpecError::Skew { permille: 1000 }));
        let nothing = Err(SpecError::FlushAfterNothing);
        assert_eq!(with(|spec| spec.flush_after = Some(0)), nothing);
        assert_eq!(
            with(|spec| spec.pattern = Pattern::Runs { length: 0 }),
            Err(SpecError::RunEmpty)
        );
        assert_eq!(with(|spec| spec.pattern = Pattern::Runs { length: 256 }), Ok(()));
        let cycle = |random, sequential| Pattern::SemiSequential { random, sequential };
        let empty = spec_with_pattern(cycle(0, 0)).check();
        assert_eq!(empty, Err(SpecError::CycleEmpty));
        assert_eq!(spec_with_pattern(cycle(0, 1)).check(), Ok(()));
        let short = SpecError::ExtentShort { extent: 1 << 20, needed: 257 * 4096 };
        assert_eq!(with(|spec| spec.pattern = Pattern::Runs { length: 257 }), Err(short));
        let backwards = SpecError::ExtentShort { extent: 0, needed: 4096 };
        assert_eq!(with(|spec| spec.extent.start = 2 << 20), Err(backwards));
    }
}
