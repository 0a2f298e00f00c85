//! What the engine has to tell the operator: promises missed, cut and restored, by virtual disk.

use std::sync::atomic::Ordering;

use disktime_core::feedback::TokenRate;
use disktime_core::{BestEffort, Change, Duration, Event, Instant, StreamId};

use super::Shard;
use crate::clock;
use crate::stats::add;

/// Missed cycles of one virtual disk are told at most this often, with their number.
const QUIET: Duration = Duration::from_secs(10);

/// Missed cycles that have not been told.
#[derive(Default)]
pub(super) struct Misses {
    untold: u64,
    owed: u64,
    done: u64,
    told_at: Option<Instant>,
}

impl Misses {
    /// Notes one; whether they are to be told now.
    fn note(&mut self, now: Instant, owed: u64, done: u64) -> bool {
        self.untold += 1;
        self.owed = self.owed.saturating_add(owed);
        self.done = self.done.saturating_add(done);
        let due = self.told_at.is_none_or(|told| now.since(told) >= QUIET);
        if due {
            self.told_at = Some(now);
        }
        due
    }
}

impl Shard {
    /// Tells what the engine has to tell.
    pub(super) fn tell_events(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            match event {
                Event::CycleMissed { stream, owed, done } => self.missed(stream, owed, done),
                Event::Cut(StreamId(at)) => {
                    let vdisk = self.vdisks[at as usize].name.as_str();
                    tracing::warn!(
                        vdisk,
                        "the device can't keep all rates: this one goes last for now"
                    );
                }
                Event::Restored(StreamId(at)) => {
                    let vdisk = self.vdisks[at as usize].name.as_str();
                    // As loud as the cut that it ends.
                    tracing::warn!(vdisk, "its rate is kept again");
                }
                Event::CostMoved { stream: StreamId(at), kind, bytes, before, now, listed } => {
                    let vdisk = self.vdisks[at as usize].name.as_str();
                    let [before, now] = [before, now].map(Duration::as_nanos);
                    let (kind, listed) = (kind.name(), listed.map(Duration::as_nanos));
                    let leaves = |listed: &u64| is_far(now, *listed) && !is_far(before, *listed);
                    if let Some(listed) = listed.filter(leaves) {
                        tracing::warn!(
                            vdisk,
                            kind,
                            bytes,
                            now,
                            listed,
                            "the device is not as its price list says; what it costs is learned (ns)"
                        );
                    } else {
                        tracing::info!(vdisk, kind, bytes, now, before, "costs have changed (ns)");
                    }
                }
                event => tracing::debug!(?event, "engine"),
            }
        }
    }

    fn missed(&mut self, stream: StreamId, owed: u64, done: u64) {
        self.publish_cycles(stream);
        let vdisk = &mut self.vdisks[stream.0 as usize];
        if !vdisk.misses.note(clock::now(), owed, done) {
            return;
        }
        let Misses { untold: cycles, owed, done, .. } = vdisk.misses;
        (vdisk.misses.untold, vdisk.misses.owed, vdisk.misses.done) = (0, 0, 0);
        let vdisk = vdisk.name.as_str();
        tracing::warn!(vdisk, cycles, owed, done, "cycles of its rate were not kept (bytes)");
    }

    /// A client says that it missed a deadline.
    pub(super) fn reported(&mut self, stream: StreamId) {
        add(&self.vdisks[stream.0 as usize].stats.misses, 1);
        if let Err(error) = self.engine.handle_change(clock::now(), Change::MissedDeadline(stream))
        {
            tracing::error!(%error, "a virtual disk has no stream");
        }
        self.publish_best_effort();
    }

    /// A virtual disk's last client is gone: what was cut for its misses comes back.
    pub(super) fn abandoned(&mut self, stream: StreamId) {
        if let Err(error) = self.engine.handle_change(clock::now(), Change::NoClient(stream)) {
            tracing::error!(%error, "a virtual disk has no stream");
        }
        self.publish_best_effort();
    }

    /// Publishes what best effort may have, and what came of reports.
    pub(super) fn publish_best_effort(&mut self) {
        let BestEffort { reads, writes, reports, ignored } = self.engine.best_effort();
        let stats = &self.stats;
        let milli = |rate: Option<TokenRate>| rate.map_or(u64::MAX, TokenRate::as_milli);
        stats.best_effort_reads.store(milli(reads), Ordering::Relaxed);
        stats.best_effort_writes.store(milli(writes), Ordering::Relaxed);
        stats.reports.store(reports, Ordering::Relaxed);
        stats.reports_ignored.store(ignored, Ordering::Relaxed);
    }

    /// Publishes how a virtual disk's cycles were kept.
    pub(super) fn publish_cycles(&mut self, stream: StreamId) {
        let Some(view) = self.engine.stream(stream) else { return };
        let (counters, stats) = (view.counters(), &self.vdisks[stream.0 as usize].stats);
        stats.cycles.store(counters.cycles, Ordering::Relaxed);
        stats.cycles_missed.store(counters.cycles_missed, Ordering::Relaxed);
    }
}

/// Whether a cost is so far off the price list that the list is hardly of this device: by half or twice.
fn is_far(now: u64, listed: u64) -> bool {
    now / 2 >= listed || listed / 2 >= now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_off_by_two_is_not_of_this_device() {
        for (now, far) in [(1000, false), (1999, false), (2000, true), (501, false), (500, true)] {
            assert_eq!(is_far(now, 1000), far, "{now}");
        }
    }

    #[test]
    fn many_misses_are_told_seldom_and_none_is_forgotten() {
        let mut misses = Misses::default();
        let told: Vec<u64> = (0..25)
            .filter(|second| misses.note(Instant::ZERO + Duration::from_secs(*second), 8, 2))
            .collect();
        assert_eq!(told, [0, 10, 20]);
        assert_eq!((misses.untold, misses.owed, misses.done), (25, 200, 50));
    }
}
