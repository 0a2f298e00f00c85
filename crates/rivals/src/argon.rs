//! Argon's disk time quanta (Wachs, Abd-El-Malek, Thereska & Ganger 2007): long turns, so that going
//! from stream to stream costs little.
//!
//! Streams with work take turns. In its quantum a stream has the device for itself, at any depth:
//! what it has at the device at the end is waited for. The lightest stream's quantum is ten times
//! what the first piece of a turn takes, in which the seek to the stream lies, and that wait: at
//! most a tenth of a turn is lost, R = 0.9. Others' are longer by weight. A
//! piece that its stream's pieces so far let expect to end after the quantum waits for the next one,
//! unless it is the quantum's first. A turn ends early when its stream has nothing to do for 5 ms, a
//! synchronous one's time to go on; the device is held for it only while others wait.
//!
//! Guarantees: a stream that keeps its turns busy has its weight's part of the time, and in it at
//! least R of its efficiency alone beside any other streams. The price is latency: a turn comes once a
//! round. O(1) a piece; a turn's beginning looks at all streams with work.
//!
//! Left out: cache partitioning and the sizing of prefetch and write-back, Argon's other two thirds,
//! are for the owner of the cache, the operating system or the client; here a request is as large
//! as it arrives, and a stream whose requests are small needs quanta for what Argon would prefetch.
//! Quanta are wall time: what guaranteed classes take in between is lost to the stream.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::round_robin::Ring;
use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use disktime_core::{Duration, Instant, Request, StreamId, StreamView, Streams};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "argon",
    doc: "turns by weight, so long that at most a tenth of them goes into seeks",
    source: "Wachs, Abd-El-Malek, Thereska and Ganger, FAST 2007 (disk quanta)",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: true,
    build: || Box::new(Argon::default()),
};

/// 1/(1 - R), R = 0.9: a quantum by the seek in it.
const QUANTUM_PER_SEEK: u64 = 10;
/// A turn's first piece, before any is known: a seek and half a rotation of a disk.
const SEEK_START: Duration = Duration::from_millis(12);
/// However late pieces are, the lightest stream's quantum is at most a second.
const SEEK_MAX: Duration = Duration::from_millis(100);
/// How long an empty queue keeps its turn.
const ANTICIPATION: Duration = Duration::from_millis(5);

/// A running mean with 1/8 of each new value.
#[derive(Clone, Copy, Default)]
struct Mean(Option<Duration>);

impl Mean {
    fn add(&mut self, value: Duration) {
        let (old, new) = (self.0.unwrap_or(value).as_nanos(), value.as_nanos());
        self.0 = Some(Duration::from_nanos(old - old / 8 + new / 8));
    }
}

#[derive(Clone, Copy)]
struct Turn {
    stream: StreamId,
    /// Another stream had the one before.
    seeks: bool,
    quantum: Duration,
    /// A quantum after its first piece went out.
    ends: Option<Instant>,
    /// When its last piece ended, or it began.
    quiet_since: Instant,
    completed: u32,
    /// When nothing more of it went out, though something was at the device.
    over: Option<Instant>,
}

#[derive(Default)]
struct Argon {
    /// Streams that wait for a turn.
    ring: Ring,
    turn: Option<Turn>,
    /// The stream that had the last turn.
    last: Option<StreamId>,
    /// The time that a turn's first piece takes.
    seek: Mean,
    /// The time that a turn's last pieces take, alone at the device; zero at depth 1.
    drain: Mean,
    /// The time that all other pieces take, by stream.
    pieces: Vec<Mean>,
}

impl Argon {
    fn piece(&mut self, id: StreamId) -> &mut Mean {
        let slot = id.0 as usize;
        if slot >= self.pieces.len() {
            self.pieces.resize(slot + 1, Mean::default());
        }
        &mut self.pieces[slot]
    }

    fn place(&mut self, stream: StreamView<'_>) {
        let id = stream.id();
        if stream.ready() && self.turn.is_none_or(|turn| turn.stream != id) {
            self.ring.join(id);
        }
    }

    fn quantum(&self, stream: StreamView<'_>, streams: Streams<'_>) -> Duration {
        let weight = |id| Some(streams.get(id)?.contract().weight);
        let own = stream.contract().weight;
        let lightest =
            self.ring.iter().filter_map(weight).min().map_or(own, |other| other.min(own));
        let lost = self.seek.0.unwrap_or(SEEK_START) + self.drain.0.unwrap_or_default();
        let lost = lost.min(SEEK_MAX).as_nanos();
        // At most 100 ms · 10 · 10,000: no overflow.
        Duration::from_nanos(lost * QUANTUM_PER_SEEK * u64::from(own) / u64::from(lightest))
    }

    /// The next step of the stream that has the turn; `None`: the turn is over.
    fn goes_on(&mut self, turn: Turn, now: Instant, streams: Streams<'_>) -> Option<Pick> {
        let stream = streams.get(turn.stream)?;
        let Some(ends) = turn.ends else {
            return stream.ready().then_some(Pick::Stream(turn.stream));
        };
        if ends <= now {
            return None;
        }
        let hold = |until: Instant| Pick::Hold { stream: turn.stream, until };
        let at_work = stream.in_flight() > 0;
        if !stream.ready() {
            // Its limit forbids more; or its own depth, which is its own choice.
            let until = if at_work { ends } else { turn.quiet_since + ANTICIPATION };
            let waits = at_work || (stream.queued() == 0 && now < until);
            return waits.then_some(hold(until.min(ends)));
        }
        let expected = self.piece(turn.stream).0.unwrap_or_default();
        (now + expected <= ends).then_some(Pick::Stream(turn.stream))
    }
}

impl Policy for Argon {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>, _request: &Request) {
        self.place(stream);
    }

    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        if let Some(turn) = self.turn {
            match self.goes_on(turn, now, streams) {
                // Nobody waits: the device is free, not held.
                Some(Pick::Hold { .. }) if self.ring.first_ready(streams).is_none() => {
                    return Pick::Nothing;
                }
                Some(pick) => return pick,
                None => {}
            }
            let stream = streams.get(turn.stream);
            let out = stream.is_some_and(|stream| stream.in_flight() > 0);
            let over = turn.over.unwrap_or(now);
            if out && self.ring.first_ready(streams).is_some() {
                // The next one shall find the device empty; a completion asks again.
                self.turn = Some(Turn { over: Some(over), ..turn });
                return Pick::Hold { stream: turn.stream, until: now + ANTICIPATION };
            }
            self.drain.add(now.since(over));
            self.turn = None;
            self.last = Some(turn.stream);
            if let Some(stream) = stream {
                self.place(stream);
            }
        }
        let Some(id) = self.ring.first_ready(streams) else { return Pick::Nothing };
        self.ring.leave();
        let seeks = self.last.is_some_and(|last| last != id);
        let quantum =
            streams.get(id).map(|stream| self.quantum(stream, streams)).unwrap_or_default();
        let new = Turn {
            stream: id,
            seeks,
            quantum,
            ends: None,
            quiet_since: now,
            completed: 0,
            over: None,
        };
        self.turn = Some(new);
        Pick::Stream(id)
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.stream == stream.id()) {
            turn.ends.get_or_insert(now + turn.quantum);
        }
        self.place(stream);
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        match &mut self.turn {
            Some(turn) if turn.stream == stream.id() => {
                turn.quiet_since = now;
                turn.completed += 1;
                if turn.completed == 1 && turn.seeks {
                    self.seek.add(piece.response);
                } else {
                    self.piece(stream.id()).add(piece.response);
                }
            }
            _ => {}
        }
        self.place(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.ring.remove(stream);
        self.turn = self.turn.filter(|turn| turn.stream != stream);
        self.last = self.last.filter(|last| *last != stream);
        *self.piece(stream) = Mean::default();
    }
}
