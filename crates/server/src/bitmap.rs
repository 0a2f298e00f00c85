//! Blocks of a virtual disk that have changed since its last backup: a *dirty bitmap*.
//!
//! A bitmap has two sets of blocks. While a backup runs, `begun` has the blocks that it is to cover, and
//! `fresh` those that changed since it began. So a block that is written after the backup has read it
//! stays dirty when the backup is done. A backup that is never done loses nothing: the next one covers
//! its blocks, too.
//!
//! A block is marked when a change of it has ended at the device, before its client hears so. Were it
//! marked when the change begins, a backup could begin and read the old bytes in between, and forget
//! the block.
//!
//! Does not know: where bitmaps are kept (`kept_bitmaps.rs`), names on the wire.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::backend::{Stretch, push_stretch};

/// Bytes of a block unless the configuration says otherwise, and what it may say.
pub const GRANULARITY: u64 = 64 << 10;
/// See [`GRANULARITY`].
pub const GRANULARITIES: [u64; 2] = [4 << 10, 64 << 20];
/// Bitmaps of one virtual disk.
pub const BITMAPS_MAX: usize = 8;
/// Blocks of one bitmap: two sets of 8 MiB.
pub const BLOCKS_MAX: u64 = 1 << 26;
/// Words that are looked at for one description: 256 GiB in blocks of 64 KiB, some 50 us.
const LOOK_MAX: usize = 1 << 16;

/// A bitmap's identity, for all threads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitmapSpec {
    /// Its number as a metadata context: no other bitmap of the daemon has or had it.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Bytes of a block, a power of two.
    pub granularity: u64,
}

/// The blocks of a virtual disk that have changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bitmap {
    pub(crate) spec: BitmapSpec,
    bytes: u64,
    pub(crate) begun: Vec<u64>,
    pub(crate) fresh: Vec<u64>,
    /// A backup was begun, and is not done.
    pub(crate) is_begun: bool,
}

/// Something that is done to a bitmap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BitmapStep {
    /// A backup begins: it is to cover all blocks that are dirty now.
    Begin,
    /// The backup is done: blocks that have not changed since it began are clean.
    Done,
    /// All blocks are clean.
    Clear,
}

/// A bitmap as it is seen from outside.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BitmapView {
    /// Its name.
    pub name: String,
    /// Bytes of a block.
    #[serde(rename = "granularity_bytes")]
    pub granularity: u64,
    /// Bytes in dirty blocks.
    #[serde(rename = "dirty_bytes")]
    pub dirty: u64,
    /// Bytes in blocks that a backup under way is to cover, or one that was never done.
    #[serde(rename = "begun_bytes")]
    pub begun: u64,
}

/// The bitmaps of a virtual disk as clients that connect find them.
#[derive(Clone, Default, Debug)]
pub(crate) struct Offered(Arc<Mutex<Vec<BitmapSpec>>>);

impl Offered {
    /// The bitmaps of now.
    pub(crate) fn now(&self) -> Vec<BitmapSpec> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, specs: Vec<BitmapSpec>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = specs;
    }
}

impl Bitmap {
    /// A bitmap of a virtual disk of so many bytes, of which no backup is known: all is dirty.
    #[must_use]
    pub fn dirty(spec: BitmapSpec, bytes: u64) -> Self {
        let (begun, fresh) = (Vec::new(), Vec::new());
        let mut bitmap = Self { spec, bytes: 0, begun, fresh, is_begun: false };
        bitmap.grow(bytes);
        bitmap
    }

    /// The same under another identity.
    #[must_use]
    pub(crate) fn of(self, spec: BitmapSpec) -> Self {
        Self { spec, ..self }
    }

    /// Its identity.
    #[must_use]
    pub fn spec(&self) -> &BitmapSpec {
        &self.spec
    }

    /// Bytes have changed.
    pub fn mark(&mut self, extent: &Range<u64>) {
        let blocks = self.blocks(extent);
        set(&mut self.fresh, blocks);
    }

    /// The virtual disk has so many bytes from now on. The new ones are dirty: they may have old data.
    pub fn grow(&mut self, bytes: u64) {
        let words = size(bytes.div_ceil(self.spec.granularity).div_ceil(64));
        self.begun.resize(words, 0);
        self.fresh.resize(words, 0);
        let new = self.bytes..bytes.max(self.bytes);
        self.bytes = new.end;
        self.mark(&new);
    }

    /// Does a step.
    pub fn step(&mut self, step: BitmapStep) {
        self.is_begun = step == BitmapStep::Begin;
        if step == BitmapStep::Begin {
            self.begun.iter_mut().zip(&self.fresh).for_each(|(begun, fresh)| *begun |= fresh);
        } else {
            self.begun.fill(0);
        }
        if step != BitmapStep::Done {
            self.fresh.fill(0);
        }
    }

    /// How it is.
    #[must_use]
    pub fn view(&self) -> BitmapView {
        let count = |word: &u64| u64::from(word.count_ones());
        let bytes = |blocks: u64| (blocks * self.spec.granularity).min(self.bytes);
        let dirty =
            self.begun.iter().zip(&self.fresh).map(|(begun, fresh)| count(&(begun | fresh)));
        BitmapView {
            name: self.spec.name.clone(),
            granularity: self.spec.granularity,
            dirty: bytes(dirty.sum()),
            begun: bytes(self.begun.iter().map(count).sum()),
        }
    }

    /// Describes a range from its start on in at most so many stretches, the clean ones as holes; at
    /// least one, and perhaps not all of it.
    #[must_use]
    pub fn describe(&self, range: &Range<u64>, most: usize) -> Vec<Stretch> {
        let mut found = Vec::new();
        let blocks = self.blocks(range);
        let (mut at, until) = (blocks.start, blocks.end);
        let stop = until.min((at / 64 + LOOK_MAX as u64) * 64);
        while at < stop {
            let rest = self.word(at / 64) >> (at % 64);
            let dirty = rest & 1 == 1;
            let alike = if dirty { rest.trailing_ones() } else { rest.trailing_zeros() };
            let next = (at + u64::from(alike.max(1)).min(64 - at % 64)).min(stop);
            let stretch = |bytes, hole| Stretch { bytes, hole };
            let bytes = |block: u64| (block * self.spec.granularity).clamp(range.start, range.end);
            if !push_stretch(&mut found, most, stretch(bytes(next) - bytes(at), !dirty)) {
                break;
            }
            at = next;
        }
        found
    }

    fn word(&self, at: u64) -> u64 {
        let at = size(at);
        let word = |words: &[u64]| words.get(at).copied().unwrap_or(u64::MAX);
        word(&self.begun) | word(&self.fresh)
    }

    fn blocks(&self, extent: &Range<u64>) -> Range<u64> {
        if extent.is_empty() {
            return 0..0;
        }
        let granularity = self.spec.granularity;
        extent.start / granularity..extent.end.div_ceil(granularity)
    }
}

/// Sets blocks, as far as there are words for them.
fn set(words: &mut [u64], blocks: Range<u64>) {
    let mut at = blocks.start;
    while at < blocks.end {
        let end = (at / 64 * 64 + 64).min(blocks.end);
        let mask = (u64::MAX >> (64 - (end - at))) << (at % 64);
        if let Some(word) = words.get_mut(size(at / 64)) {
            *word |= mask;
        }
        at = end;
    }
}

fn size(words: u64) -> usize {
    usize::try_from(words).expect("bitmaps are bounded")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = GRANULARITY;

    fn spec() -> BitmapSpec {
        BitmapSpec { id: 1, name: "daily".to_owned(), granularity: BLOCK }
    }

    fn clean(blocks: u64) -> Bitmap {
        let mut bitmap = Bitmap::dirty(spec(), blocks * BLOCK);
        bitmap.step(BitmapStep::Clear);
        bitmap
    }

    fn dirty(bitmap: &Bitmap) -> Vec<u64> {
        let range = 0..bitmap.bytes;
        let mut at = 0;
        let mut blocks = Vec::new();
        for stretch in bitmap.describe(&range, usize::MAX) {
            let end = at + stretch.bytes;
            if !stretch.hole {
                blocks.extend(at / BLOCK..end.div_ceil(BLOCK));
            }
            at = end;
        }
        assert_eq!(at, bitmap.bytes, "all of it is described");
        blocks
    }

    /// Against a list of flags: any bytes of a block that change make it dirty, and no other block.
    #[test]
    fn marks_are_exact() {
        let mut seed = 7u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for round in 0..300 {
            let (blocks, odd) = (1 + next(300), next(BLOCK));
            let mut bitmap = Bitmap::dirty(spec(), blocks * BLOCK + odd);
            bitmap.step(BitmapStep::Clear);
            let mut model = vec![false; size(blocks + u64::from(odd > 0))];
            for _ in 0..next(6) {
                let start = next(bitmap.bytes);
                let end = (start + 1 + next(3 * BLOCK)).min(bitmap.bytes);
                bitmap.mark(&(start..end));
                model[size(start / BLOCK)..size(end.div_ceil(BLOCK))].fill(true);
            }
            let expected: Vec<u64> =
                (0..).zip(&model).filter(|(_, dirty)| **dirty).map(|(at, _)| at).collect();
            assert_eq!(dirty(&bitmap), expected, "round {round}");
            // Any range begins and ends as it was asked.
            let start = next(bitmap.bytes);
            let end = start + 1 + next(bitmap.bytes - start);
            let described = bitmap.describe(&(start..end), usize::MAX);
            assert_eq!(described.iter().map(|it| it.bytes).sum::<u64>(), end - start);
            assert_eq!(described[0].hole, !model[size(start / BLOCK)]);
        }
    }

    /// A backup that cleared what it had read took with it what was written after it had read it.
    #[test]
    fn blocks_written_during_a_backup_stay_dirty() {
        let mut bitmap = clean(10);
        bitmap.mark(&(0..2 * BLOCK));
        bitmap.step(BitmapStep::Begin);
        bitmap.mark(&(BLOCK..BLOCK + 1));
        bitmap.mark(&(5 * BLOCK..6 * BLOCK));
        assert_eq!(dirty(&bitmap), [0, 1, 5], "a backup sees what is dirty by now");
        bitmap.step(BitmapStep::Done);
        assert_eq!(dirty(&bitmap), [1, 5]);
        // A backup that fails is begun again, and covers what the first one was to cover.
        bitmap.step(BitmapStep::Begin);
        bitmap.mark(&(7 * BLOCK..8 * BLOCK));
        bitmap.step(BitmapStep::Begin);
        bitmap.step(BitmapStep::Done);
        assert_eq!(dirty(&bitmap), [0; 0]);
    }

    #[test]
    fn what_grows_is_dirty_where_it_is_new() {
        let mut bitmap = clean(3);
        bitmap.grow(70 * BLOCK + 5);
        assert_eq!(dirty(&bitmap), (3..71).collect::<Vec<_>>());
        let BitmapView { dirty: bytes, begun, .. } = bitmap.view();
        assert_eq!((bytes, begun), (68 * BLOCK, 0));
    }

    #[test]
    fn a_description_is_bounded() {
        let mut bitmap = clean(1000);
        (0..500).for_each(|at| bitmap.mark(&(at * 2 * BLOCK..at * 2 * BLOCK + 1)));
        assert_eq!(bitmap.describe(&(0..bitmap.bytes), 10).len(), 10);
        assert_eq!(
            bitmap.describe(&(0..bitmap.bytes), 1)[0],
            Stretch { bytes: BLOCK, hole: false }
        );
        let large = clean(64 * LOOK_MAX as u64 + 64);
        let found = large.describe(&(0..large.bytes), 10);
        assert_eq!(found, [Stretch { bytes: 64 * LOOK_MAX as u64 * BLOCK, hole: true }]);
    }
}
