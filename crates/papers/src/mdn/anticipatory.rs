//! The elevator of the paper's kernel, Linux 2.6.0 (§6), as far as reads go: it anticipates.
//!
//! - A sweep upwards, and again from the start. After a read has ended, the device waits for the next one of
//!   the same stream for up to 6.7 ms, unless that stream has let it wait longer on average: so a
//!   stream that reads in sequence keeps the device.
//! - Once in 50 ms at most, the elevator looks whether the read that has waited for longest has done so for more
//!   than 50 ms. If it has, it goes next, and the sweep goes on from there. So each of several streams
//!   that read in sequence has the device for 50 ms and what is left of a read, however fast it is there.
//!
//! Sources: the kernel's `Documentation/as-iosched.txt`, and the defaults of its `as-iosched.c` of 2003 (50 ms is
//! a twentieth of a second there, an eighth in kernels of 2004 and later).
//!
//! Does not know: writes, merging, which is the readers' own here, and going back by a little.

use std::collections::BTreeMap;

use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use disktime_core::{Duration, Instant, Request, StreamId, StreamView, Streams};

pub(super) static ENTRY: PolicyEntry = PolicyEntry {
    name: "anticipatory",
    doc: "a sweep that waits for the stream it served, until another read has waited for 50 ms",
    source: "Linux 2.6.0, as-iosched.c",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: true,
    holds: true,
    build: || Box::new(Anticipatory::default()),
};

/// How long a read waits before it may go out of order, and how often that is looked at.
pub(super) const EXPIRE: Duration = Duration::from_millis(50);
/// How long the device waits for a stream's next read.
pub(super) const ANTICIPATION: Duration = Duration::from_micros(6_667);
/// Longer waits count as this in a stream's mean.
const THINK_MAX: Duration = Duration::from_millis(20);

/// A stream whose next read may go.
#[derive(Clone, Copy, Debug)]
struct Ready {
    since: Instant,
    offset: u64,
}

/// Times from the end of a stream's read until its next one may go.
#[derive(Clone, Copy, Debug, Default)]
struct Think {
    /// A running mean with 1/8 of each new value, in ns; `None` before the first.
    mean_ns: Option<u64>,
    /// The end of its last read, if nothing has come since.
    ended: Option<Instant>,
}

#[derive(Default)]
struct Anticipatory {
    ready: BTreeMap<StreamId, Ready>,
    thinks: BTreeMap<StreamId, Think>,
    /// Where the last read ended, and the stream that it was of.
    head: u64,
    last: Option<StreamId>,
    /// When waiting reads were last looked at.
    looked: Instant,
}

impl Anticipatory {
    fn place(&mut self, now: Instant, stream: StreamView<'_>) {
        let id = stream.id();
        let Some(head) = stream.head().filter(|_| stream.ready()) else {
            self.ready.remove(&id);
            return;
        };
        let waits = self.ready.entry(id).or_insert(Ready { since: now, offset: head.offset });
        if waits.offset != head.offset {
            *waits = Ready { since: now, offset: head.offset };
        }
        let think = self.thinks.entry(id).or_default();
        if let Some(ended) = think.ended.take() {
            let took = now.since(ended).min(THINK_MAX).as_nanos();
            let mean_ns = think.mean_ns.unwrap_or(took);
            think.mean_ns = Some(mean_ns - mean_ns / 8 + took / 8);
        }
    }

    /// The stream whose read has waited for too long, if it is time to look.
    fn expired(&mut self, now: Instant) -> Option<StreamId> {
        if now.since(self.looked) < EXPIRE {
            return None;
        }
        self.looked = now;
        let (id, oldest) = self.ready.iter().min_by_key(|(_, ready)| ready.since)?;
        (now.since(oldest.since) > EXPIRE).then_some(*id)
    }

    /// Until when the device waits for the stream that it served last, which has nothing to do.
    fn anticipates(&self, now: Instant) -> Option<(StreamId, Instant)> {
        let id = self.last.filter(|id| !self.ready.contains_key(id))?;
        let think = self.thinks.get(&id)?;
        let until = think.ended? + ANTICIPATION;
        let soon = think.mean_ns.is_none_or(|mean_ns| mean_ns <= ANTICIPATION.as_nanos());
        (soon && now < until).then_some((id, until))
    }

    /// The next stream of the sweep.
    fn sweeps(&self) -> Option<StreamId> {
        let place = |(_, ready): &(&StreamId, &Ready)| (ready.offset < self.head, ready.offset);
        self.ready.iter().min_by_key(place).map(|(id, _)| *id)
    }
}

impl Policy for Anticipatory {
    fn arrived(&mut self, now: Instant, stream: StreamView<'_>, _request: &Request) {
        self.place(now, stream);
    }

    fn pick(&mut self, now: Instant, _streams: Streams<'_>) -> Pick {
        if self.ready.is_empty() {
            return Pick::Nothing;
        }
        if let Some(id) = self.expired(now) {
            return Pick::Stream(id);
        }
        if let Some((stream, until)) = self.anticipates(now) {
            return Pick::Hold { stream, until };
        }
        self.sweeps().map_or(Pick::Nothing, Pick::Stream)
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        if let Some((_, end)) = stream.last_piece() {
            self.head = end;
        }
        self.last = Some(stream.id());
        self.place(now, stream);
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, _piece: &PieceDone) {
        self.thinks.entry(stream.id()).or_default().ended = Some(now);
        self.place(now, stream);
    }

    fn changed(&mut self, now: Instant, stream: StreamView<'_>) {
        self.place(now, stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.ready.remove(&stream);
        self.thinks.remove(&stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disktime_core::cost::{CostModel, PieceShape};
    use disktime_core::{Change, Config, Engine, Kind, Outcome, RequestId, StreamSpec};

    const MS: u64 = 1_000_000;
    const BYTES: u64 = 128 << 10;

    struct Flat;

    impl CostModel for Flat {
        fn estimate(&mut self, _piece: &PieceShape) -> Duration {
            Duration::from_millis(5)
        }
    }

    /// Streams that read in sequence from places of their own, one read of 5 ms at a time.
    struct Readers {
        engine: Engine,
        now: u64,
        /// How long each thinks after a read, and when and where it reads next.
        thinks: Vec<u64>,
        next: Vec<(Option<u64>, u64)>,
    }

    impl Readers {
        fn new(thinks: &[u64]) -> Self {
            let mut engine =
                Engine::with_policy(&Config::default(), (ENTRY.build)(), Box::new(Flat));
            for (id, _) in (0..).zip(thinks) {
                let spec = StreamSpec::default();
                let change = Change::AddStream(StreamId(id), spec);
                engine.handle_change(Instant::ZERO, change).expect("there is room");
            }
            let next = (0..thinks.len() as u64).map(|id| (Some(0), id << 40)).collect();
            Self { engine, now: 0, thinks: thinks.to_vec(), next }
        }

        /// Reads until then: stream and begin of each, in ms.
        fn run(&mut self, end: u64) -> Vec<(u32, u64)> {
            let mut served = Vec::new();
            while self.now < end {
                for (id, next) in (0u32..).zip(&mut self.next) {
                    let Some(_) = next.0.take_if(|at| *at <= self.now) else { continue };
                    let request = Request {
                        id: RequestId(id),
                        stream: StreamId(id),
                        kind: Kind::Read,
                        offset: next.1,
                        bytes: BYTES,
                        fua: false,
                        class: None,
                        deadline: None,
                    };
                    let now = Instant::from_nanos(self.now);
                    self.engine.handle_arrival(now, request).expect("one is out at most");
                }
                let now = Instant::from_nanos(self.now);
                self.engine.handle_timeout(now);
                let Some(sent) = self.engine.poll_dispatch(now) else {
                    // A tenth of a millisecond is fine enough.
                    self.now += MS / 10;
                    continue;
                };
                let id = sent.request.0;
                served.push((id, self.now / MS));
                self.now += 5 * MS;
                let now = Instant::from_nanos(self.now);
                self.engine.handle_completion(now, sent.piece, Outcome::Done);
                let slot = id as usize;
                self.next[slot] = (Some(self.now + self.thinks[slot]), self.next[slot].1 + BYTES);
            }
            served
        }
    }

    /// How many reads each turn has, in order.
    fn turns(served: &[(u32, u64)]) -> Vec<(u32, usize)> {
        served.chunk_by(|a, b| a.0 == b.0).map(|turn| (turn[0].0, turn.len())).collect()
    }

    #[test]
    fn a_stream_in_sequence_keeps_the_device_until_another_has_waited_for_50_ms() {
        let served = Readers::new(&[0; 3]).run(2000 * MS);
        let turns = turns(&served);
        // 50 ms and what is left of a read.
        let middle = &turns[3..turns.len() - 1];
        assert!(middle.iter().all(|turn| (10..=11).contains(&turn.1)), "{turns:?}");
        // The one that has waited for longest is next: all in turn.
        assert!(middle.windows(3).all(|of| of[0].0 != of[1].0 && of[0].0 != of[2].0), "{turns:?}");
    }

    /// A reader that takes 3 ms between its reads once lost its turn after each.
    #[test]
    fn the_device_waits_for_a_stream_that_thinks_for_a_short_time() {
        let served = Readers::new(&[3 * MS, 0, 0]).run(2000 * MS);
        let turns = turns(&served);
        let thinker = turns[3..turns.len() - 1].iter().filter(|turn| turn.0 == 0);
        assert!(thinker.clone().count() > 5, "{turns:?}");
        // 5 ms and 3 of waiting: seven in 50 ms and what is left of one.
        assert!(thinker.clone().all(|turn| (6..=7).contains(&turn.1)), "{turns:?}");
    }

    #[test]
    fn the_device_does_not_wait_for_a_stream_that_has_thought_for_longer() {
        let served = Readers::new(&[15 * MS, 0]).run(2000 * MS);
        let gaps = served.windows(2).map(|of| of[1].1 - of[0].1).skip(20);
        assert!(gaps.clone().all(|gap| gap == 5), "{:?}", gaps.collect::<Vec<_>>());
        assert!(turns(&served)[4..].iter().all(|turn| turn.0 != 0 || turn.1 == 1));
    }
}
