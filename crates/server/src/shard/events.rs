//! Logs the engine's events for the operator: promises missed, cut and restored, by virtual disk.

use std::sync::atomic::Ordering;

use disktime_core::cost::PieceKind;
use disktime_core::feedback::TokenRate;
use disktime_core::{BestEffort, BrokenBy, Change, Duration, Event, StreamId};

use super::{Cause, Shard, VdiskId};
use crate::backend::{DeviceError, Job};
use crate::clock;

impl Shard {
    /// Tells what the engine has to tell.
    pub(super) fn tell_events(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            self.tell(event);
        }
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::CycleMissed { stream, waited, done } => self.missed(stream, waited, done),
            Event::PromiseBroken { stream, behind, bound, by } => {
                self.vdisks[stream.0 as usize].count(|it| &it.promises.promises_broken, 1);
                self.seldom(stream, Cause::Behind, |vdisk, left_out| {
                    let text = match by {
                        BrokenBy::Device => "the device answers too slowly to keep its reservation",
                        BrokenBy::Others => "it is behind its reservation: others were served",
                    };
                    tracing::warn!(vdisk, ?behind, ?bound, left_out, "{text}");
                });
            }
            Event::Late { stream, late, .. } => {
                self.vdisks[stream.0 as usize].count(|it| &it.promises.late, 1);
                self.seldom(stream, Cause::Late, |vdisk, left_out| {
                    tracing::warn!(vdisk, ?late, left_out, "a request missed its deadline");
                });
            }
            Event::Cut(stream) => {
                self.vdisks[stream.0 as usize].count(|it| &it.promises.cuts, 1);
                self.seldom(stream, Cause::Cut, |vdisk, left_out| {
                    let text = "the device can't keep all rates: this one goes last for now";
                    tracing::warn!(vdisk, left_out, "{text}");
                });
            }
            // As loud as the cut that it ends.
            Event::Restored(stream) => {
                self.seldom(stream, Cause::Restored, |vdisk, left_out| {
                    tracing::warn!(vdisk, left_out, "its rate is kept again");
                });
            }
            Event::CostMoved { stream, kind, bytes, before, now, listed } => {
                self.cost_moved(stream, (kind, bytes), [before, now], listed);
            }
            event => tracing::debug!(?event, "engine"),
        }
    }

    fn missed(&mut self, stream: StreamId, waited: u64, done: u64) {
        self.publish_cycles(stream);
        self.seldom(stream, Cause::Cycle, |vdisk, left_out| {
            let text = "a cycle of its rate was not kept (bytes)";
            tracing::warn!(vdisk, waited, done, left_out, "{text}");
        });
    }

    /// The back end failed a piece of a virtual disk.
    pub(super) fn failed(&mut self, stream: StreamId, job: &Job, error: DeviceError) {
        let Job { kind, offset, bytes, .. } = *job;
        self.seldom(stream, Cause::BackEnd(kind, error.0), |vdisk, left_out| {
            let text = "the back end failed a request";
            let error = error.to_string();
            tracing::warn!(vdisk, ?kind, offset, bytes, error, left_out, "{text}");
        });
    }

    /// A client, or a request of one, was refused.
    pub(super) fn refused(&mut self, vdisk: u32, cause: Cause, reason: &dyn std::fmt::Display) {
        self.seldom(StreamId(vdisk), cause, |vdisk, left_out| {
            let what = if cause == Cause::Client { "a client" } else { "a request" };
            let reason = reason.to_string();
            tracing::warn!(vdisk, reason, left_out, "{what} was refused");
        });
    }

    /// Tells of a cause with the virtual disk's name and how often it was not told, if it is time.
    pub(super) fn seldom(
        &mut self,
        StreamId(at): StreamId,
        cause: Cause,
        tell: impl FnOnce(&str, u64),
    ) {
        let vdisk = &mut self.vdisks[at as usize];
        if let Some(left_out) = vdisk.quiet.note(clock::now(), cause) {
            tell(&vdisk.name, left_out);
        }
    }

    /// The cost of a stream's pieces of one kind and length has moved since it was last told.
    fn cost_moved(
        &self,
        StreamId(at): StreamId,
        (kind, bytes): (PieceKind, u64),
        [before, now]: [Duration; 2],
        listed: Option<Duration>,
    ) {
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

    /// A client says that it missed a deadline.
    pub(super) fn reported(&mut self, vdisk: VdiskId) {
        let stream = match self.vdisks.find(vdisk) {
            Ok(stream) => stream,
            Err(reason) => return tracing::debug!(%reason, "a missed deadline is nobody's"),
        };
        self.vdisks[stream.0 as usize].count(|it| &it.promises.misses, 1);
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
        let (counters, vdisk) = (view.counters(), &self.vdisks[stream.0 as usize]);
        vdisk.count_up_to(|it| &it.promises.cycles, counters.cycles);
        vdisk.count_up_to(|it| &it.promises.cycles_missed, counters.cycles_missed);
    }

    /// Publishes what a virtual disk was charged.
    pub(super) fn publish_charged(&mut self, stream: StreamId) {
        let Some(view) = self.engine.stream(stream) else { return };
        let charged = view.counters().charged.as_nanos();
        self.vdisks[stream.0 as usize].count_up_to(|it| &it.charged_ns, charged);
    }
}

/// Whether a cost is so far off the price list that the list is hardly of this device: by half or twice.
fn is_far(now: u64, listed: u64) -> bool {
    now / 2 >= listed || listed / 2 >= now
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use disktime_core::{Change, Config, Engine, Kind, RequestId, StreamSpec};

    use super::*;
    use crate::backend::MemoryBackEnd;
    use crate::logged::logged;
    use crate::shard::{Parts, ShardHandle, Vdisk};
    use crate::stats::VdiskStats;

    /// A shard with one virtual disk, `db`, that nobody uses.
    fn shard() -> (Shard, Arc<VdiskStats>) {
        let (_, messages, wakeup) = ShardHandle::new().unwrap();
        let stats: Arc<VdiskStats> = Arc::default();
        let mut engine = Engine::new(&Config::default()).unwrap();
        let stream = Change::AddStream(StreamId(0), StreamSpec::default());
        engine.handle_change(clock::now(), stream).unwrap();
        let parts = Parts {
            idle_timeout: None,
            engine,
            back_end: Box::new(MemoryBackEnd::new(&[4096])),
            emulator: None,
            vdisks: vec![(VdiskId(0), Vdisk::new("db".to_owned(), 0, Arc::clone(&stats), None))],
            migration: None,
            depths: None,
            piece_max: crate::shard::PieceMax::REMOTE,
            flushes_at_end: false,
            carriers: 0,
            stats: Arc::default(),
            messages,
            wakeup,
        };
        (Shard::new(parts).unwrap(), stats)
    }

    /// A stream further behind than is promised was an event that nobody read: it was logged as
    /// debugging and counted nowhere.
    #[test]
    fn broken_promises_reach_the_log_with_a_name_and_are_counted() {
        let (mut shard, stats) = shard();
        let stream = StreamId(0);
        let [behind, bound, late] = [3, 2, 4].map(Duration::from_millis);
        let lines = logged(|| {
            for _ in 0..3 {
                let by = BrokenBy::Others;
                shard.tell(Event::PromiseBroken { stream, behind, bound, by });
                shard.tell(Event::Late { stream, request: RequestId(0), late });
                shard.tell(Event::Cut(stream));
            }
        });
        assert_eq!((stats.promises_broken(), stats.late(), stats.cuts()), (3, 3, 3));
        assert_eq!(lines.len(), 3, "{lines:?}");
        for line in lines {
            assert!(line.contains("WARN") && line.contains("vdisk=\"db\""), "{line}");
        }
    }

    /// The line once gave the bytes that waited a name that the engine's event does not have.
    #[test]
    fn a_missed_cycle_is_logged_with_the_bytes_that_waited_and_were_done() {
        let (mut shard, _) = shard();
        let stream = StreamId(0);
        let lines = logged(|| shard.tell(Event::CycleMissed { stream, waited: 7, done: 3 }));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("WARN") && lines[0].contains("vdisk=\"db\""), "{lines:?}");
        assert!(lines[0].contains("waited=7 done=3"), "{lines:?}");
    }

    #[test]
    fn errors_and_refusals_are_told_by_cause() {
        let (mut shard, _) = shard();
        let job = |kind| Job::new(0, kind, 4096, 512);
        let lines = logged(|| {
            for _ in 0..100 {
                shard.failed(StreamId(0), &job(Kind::Read), DeviceError(libc::EIO));
                shard.failed(StreamId(0), &job(Kind::Flush), DeviceError(libc::EIO));
                shard.failed(StreamId(0), &job(Kind::Read), DeviceError(libc::ENOSPC));
                shard.refused(0, Cause::Client, &"too many");
            }
        });
        assert_eq!(lines.len(), 4, "{lines:?}");
        let says = ["kind=Read", "kind=Flush", "No space left", "a client was refused"];
        for (line, says) in lines.iter().zip(says) {
            assert!(line.contains(says) && line.contains("vdisk=\"db\""), "{line}");
        }
    }

    #[test]
    fn a_list_that_is_off_by_two_is_not_of_this_device() {
        for (now, far) in [(1000, false), (1999, false), (2000, true), (501, false), (500, true)] {
            assert_eq!(is_far(now, 1000), far, "{now}");
        }
    }
}
