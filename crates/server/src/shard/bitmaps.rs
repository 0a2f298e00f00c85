//! Dirty bitmaps on their shard: marked before a change is acknowledged, described, left at the end.

use std::ops::Range;
use std::time::Duration;

use crossbeam_channel::Sender;
use disktime_core::{Instant, Kind};

use super::vdisks::{Answer, VdiskError};
use super::{Shard, VdiskId};
use crate::backend::{Io, Job, Step, Stretch};
use crate::bitmap::{Bitmap, BitmapSpec, BitmapStep, BitmapView};
use crate::buffers::Buffer;
use crate::clock;
use crate::frontend::nbd::{Described, Meaning, extents_max};
use crate::frontend::request::Ticket;
use crate::ring::{Finished, Keep, Payload, Token};

/// The metadata context of bytes that were never written; every other one is a bitmap.
const ALLOCATION: u32 = 0;
/// How long is waited before it is looked again whether a last flush takes too long.
const LOOK: Duration = Duration::from_millis(5);

/// Why nothing was done to a bitmap.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BitmapError {
    /// The virtual disk is not there any more.
    #[error(transparent)]
    Vdisk(#[from] VdiskError),
    /// It has no bitmap of that name.
    #[error("no bitmap {name}; there are: {}", known.join(", "))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The bitmaps that exist.
        known: Vec<String>,
    },
    /// A backup is said to be done that was not begun, or not since the daemon's last crash.
    #[error(
        "bitmap {0}: no backup was begun, so all that is dirty stays dirty: begin one with `disktime \
         vdisk bitmap begin`, and copy then"
    )]
    NotBegun(String),
}

/// Bitmaps that are true of what is on the device, all of it durable.
pub struct LeftBitmaps {
    /// The virtual disk's name.
    pub vdisk: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its bitmaps.
    pub bitmaps: Vec<Bitmap>,
}

impl Shard {
    /// A flight is over: what it may have changed is dirty, also if it failed. Before its client hears
    /// of it, and not before it is over: see [`crate::bitmap`].
    pub(super) fn mark_dirty(&mut self, key: u32) {
        let job = &self.device.flights[key as usize].job;
        if matches!(job.kind, Kind::Write | Kind::Zeroes | Kind::Trim) {
            let extent = job.extent();
            let bitmaps = &mut self.vdisks[job.disk as usize].bitmaps;
            bitmaps.iter_mut().for_each(|bitmap| bitmap.mark(&extent));
        }
    }

    /// A virtual disk has these bitmaps from now on. A new one is dirty as a whole.
    pub(super) fn set_bitmaps(&mut self, id: VdiskId, specs: Vec<BitmapSpec>, answer: &Answer) {
        let outcome = self.vdisks.find(id).map(|stream| {
            let vdisk = &mut self.vdisks[stream.0 as usize];
            let bytes = vdisk.stats.size();
            let mut old = std::mem::take(&mut vdisk.bitmaps);
            let bitmap = |spec: BitmapSpec| match old.iter().position(|it| *it.spec() == spec) {
                Some(at) => old.swap_remove(at),
                None => Bitmap::dirty(spec, bytes),
            };
            vdisk.bitmaps = specs.into_iter().map(bitmap).collect();
        });
        if answer.try_send(outcome).is_err() {
            tracing::debug!("nobody waits for the outcome of a change");
        }
    }

    /// Does a step of a bitmap, if one is asked for, and tells how all of the virtual disk are.
    pub(super) fn step_bitmap(
        &mut self,
        id: VdiskId,
        step: Option<&(String, BitmapStep)>,
        answer: &Sender<Result<Vec<BitmapView>, BitmapError>>,
    ) {
        let outcome = self.try_step(id, step);
        if answer.try_send(outcome).is_err() {
            tracing::debug!("nobody waits for the outcome of a bitmap's step");
        }
    }

    fn try_step(
        &mut self,
        id: VdiskId,
        step: Option<&(String, BitmapStep)>,
    ) -> Result<Vec<BitmapView>, BitmapError> {
        let stream = self.vdisks.find(id)?;
        let bitmaps = &mut self.vdisks[stream.0 as usize].bitmaps;
        if let Some((name, step)) = step {
            match bitmaps.iter_mut().find(|bitmap| bitmap.spec().name == *name) {
                Some(bitmap) if *step == BitmapStep::Done && !bitmap.is_begun => {
                    return Err(BitmapError::NotBegun(name.clone()));
                }
                Some(bitmap) => bitmap.step(*step),
                None => {
                    let known = bitmaps.iter().map(|bitmap| bitmap.spec().name.clone()).collect();
                    return Err(BitmapError::Unknown { name: name.clone(), known });
                }
            }
        }
        Ok(bitmaps.iter().map(Bitmap::view).collect())
    }

    /// Writes the answer to a block status: in each context that its client has chosen, from what was
    /// found of the range and from the bitmaps. A bitmap that is gone is dirty.
    pub(super) fn describe(
        &self,
        client: u32,
        ticket: &Ticket,
        (found, range, one): (&[Stretch], &Range<u64>, bool),
        buffer: Buffer,
    ) -> Payload {
        let connection = &self.clients[client as usize];
        let bitmaps = &self.vdisks[connection.vdisk as usize].bitmaps;
        let described = described(connection.contexts(), bitmaps, (found, range, one));
        connection.describe(ticket, &described, range.end - range.start, buffer)
    }

    /// The end: bitmaps of virtual disks whose data are on the device, durably. The others are not
    /// left, so that they are dirty as a whole at the next start.
    pub(super) fn leave_bitmaps(mut self, finished: &mut Vec<Finished>) -> Vec<LeftBitmaps> {
        // A drain that was given up left jobs behind, which may still change something, and flushed nothing.
        let until = self.turns.drain_until.unwrap_or(Instant::MAX);
        if until == Instant::MAX {
            if self.turns.flushes_at_end {
                self.vdisks.streams().for_each(|stream| self.lose_at_hand_over(stream.0));
            }
            return Vec::new();
        }
        let streams = if self.turns.flushes_at_end {
            self.vdisks.streams().collect()
        } else {
            self.vdisks.with_bitmaps()
        };
        let (mut left, mut lost, mut concerned) = (Vec::new(), false, Vec::new());
        for stream in streams {
            let flushed = self.flush_at_end(stream.0, until, finished);
            // Another server may have come back without what it had, and have flushed nothing.
            lost |= self.device.back_end.lost().is_some();
            if !flushed {
                concerned.extend(self.last_flush_failed(stream.0));
            }
            let durable = flushed && !lost && !concerned.contains(&stream.0);
            if !durable {
                self.lose_at_hand_over(stream.0);
                let vdisk = &self.vdisks[stream.0 as usize];
                let text = "its last flush failed: acknowledged data that were not flushed may be gone; \
                            bitmaps, if it has any, are dirty at the next start";
                tracing::warn!(vdisk = vdisk.name, "{text}");
                continue;
            }
            let vdisk = &mut self.vdisks[stream.0 as usize];
            let (vdisk, bytes, bitmaps) =
                (vdisk.name.clone(), vdisk.stats.size(), std::mem::take(&mut vdisk.bitmaps));
            left.push(LeftBitmaps { vdisk, bytes, bitmaps });
        }
        concerned.into_iter().for_each(|vdisk| self.lose_at_hand_over(vdisk));
        left
    }

    /// Makes a virtual disk's data durable while nothing else is under way; whether that was done by
    /// then.
    fn flush_at_end(&mut self, disk: u32, until: Instant, finished: &mut Vec<Finished>) -> bool {
        let mut job = Job::new(disk, Kind::Flush, 0, 0);
        let back_end = &mut self.device.back_end;
        let mut io = Io { ring: &mut self.ring, pool: &mut self.pool };
        let mut step = back_end.start(0, &mut job, &mut io);
        loop {
            while step == Step::Pending && back_end.unblocked().is_some() {
                step = back_end.resume(0, &mut job, &mut io);
            }
            if let Step::Done(result) = step {
                return result.is_ok();
            }
            if clock::now() >= until || io.ring.wait(Some(LOOK)).is_err() {
                return false;
            }
            io.ring.reap(finished);
            for Finished { token, keep, result } in finished.drain(..) {
                match (token, keep) {
                    (Token::Job { step: at, .. }, keep) => {
                        step = back_end.finished(0, at, &mut job, (keep, result), &mut io);
                    }
                    (Token::BackEnd(what), keep) => {
                        back_end.heard(what, (keep, result), &mut io);
                    }
                    (_, Keep::Buffer(buffer)) => io.pool.give_back(buffer),
                    _ => {}
                }
            }
        }
    }
}

/// A range in each of these contexts, from what was found of it and from the bitmaps. A bitmap that is gone
/// is dirty.
pub(super) fn described(
    contexts: &[u32],
    bitmaps: &[Bitmap],
    (found, range, one): (&[Stretch], &Range<u64>, bool),
) -> Vec<Described> {
    let most = if one { 1 } else { extents_max(contexts.len()) };
    let describe = |context: &u32| {
        let context = *context;
        if context == ALLOCATION {
            let stretches = found.iter().take(most).copied().collect();
            return Described { context, meaning: Meaning::Allocation, stretches };
        }
        let bitmap = bitmaps.iter().find(|bitmap| bitmap.spec().id == context);
        let stretches = bitmap.map(|bitmap| bitmap.describe(range, most)).unwrap_or_default();
        Described { context, meaning: Meaning::Dirty, stretches }
    };
    contexts.iter().map(describe).collect()
}
