//! A virtual disk on a medium: where its bytes are, and how a job's bytes lie in blocks.

use super::{ALIGN, BLOCK, Job, Part, blocks, size};
use crate::backend::ranges::Ranges;

/// A virtual disk: an extent of a medium.
pub(crate) struct Disk {
    /// Which, of the back end's.
    pub(crate) medium: usize,
    /// Transfers on it are of whole blocks.
    pub(crate) direct: bool,
    /// Its first byte on the medium, on a block.
    pub(crate) base: u64,
    /// Its size in whole blocks: no byte from there on is touched.
    pub(crate) len: u64,
    pub(super) ranges: Ranges,
}

impl Disk {
    /// A disk of so many bytes, and what is missing to a block.
    pub(crate) fn new(medium: usize, direct: bool, base: u64, bytes: u64) -> Self {
        let len = bytes.next_multiple_of(BLOCK);
        Self { medium, direct, base, len, ranges: Ranges::default() }
    }

    /// It has so many bytes from now on, and what is missing to a block.
    pub(super) fn grow(&mut self, bytes: u64) {
        self.len = bytes.next_multiple_of(BLOCK);
    }

    /// The job's extent, widened to blocks if need be.
    pub(super) fn whole(&self, job: &Job) -> Part {
        if !self.direct {
            return Part { offset: job.offset, range: job.in_buffer(), edge: false };
        }
        let span = blocks(&job.extent());
        let start = job.at - size(job.offset - span.start);
        Part { offset: span.start, range: start..start + size(span.end - span.start), edge: false }
    }

    /// A write's parts: the aligned middle and, through scratch, the blocks at its edges. Answers
    /// also whether there are edges.
    pub(super) fn write_parts(&self, job: &Job) -> ([Option<Part>; 3], bool) {
        let extent = job.extent();
        let span = blocks(&extent);
        if !self.direct || span == extent {
            return ([Some(self.whole(job)), None, None], false);
        }
        let edge = |offset, slot| {
            Some(Part { offset, range: slot * ALIGN..(slot + 1) * ALIGN, edge: true })
        };
        let head = extent.start != span.start;
        let tail = extent.end != span.end && (span.end - span.start > BLOCK || !head);
        let start = if head { span.start + BLOCK } else { span.start };
        let end = if tail { span.end - BLOCK } else { span.end };
        let at = || job.at + size(start - extent.start);
        let middle = (start < end).then(|| Part {
            offset: start,
            range: at()..at() + size(end - start),
            edge: false,
        });
        let head = if head { edge(span.start, 0) } else { None };
        let tail = if tail { edge(span.end - BLOCK, 1) } else { None };
        ([middle, head, tail], true)
    }
}
