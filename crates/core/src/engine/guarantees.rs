//! Guarantees while they run: cycles that begin and end, streams that have used theirs up, the
//! slack register, and who is cut when a degraded device can't keep them all.

use alloc::vec::Vec;

use super::Engine;
use super::event::Event;
use crate::classes::admission::Slack;
use crate::classes::profile::Profile;
use crate::classes::requests::Live;
use crate::classes::stream::Stream;
use crate::types::bucket::TokenBucket;
use crate::types::contract::{Admission, Class};
use crate::types::heap::IndexedHeap;
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::time::{Duration, Instant};

/// Largest piece of background work: what a more urgent request waits for at most (semi-preemptible
/// I/O, ucsb §III-A).
const BACKGROUND_PIECE: u64 = 128 << 10;
/// Cycles without a miss before a stream that was cut gets its rank again.
const CYCLES_UNTIL_RESTORED: u64 = 10;

/// The device-wide state of the guaranteed classes.
#[derive(Debug, Default)]
pub(super) struct Guarantees {
    /// The device profile that admission reckons with.
    pub(super) profile: Option<Profile>,
    /// Guaranteed-rate streams by the end of their cycle, in ns.
    cycles: IndexedHeap,
    /// Overdrawn lanes of guaranteed latency and of guaranteed rate by the age of their oldest
    /// request.
    overdrawn: [IndexedHeap; 2],
    /// Streams whose reserved time for guaranteed latency is used up, by when it is not, in ns.
    reopening: IndexedHeap,
    /// Time for which best effort may go before guaranteed rates (ucsb's slack register).
    slack: TokenBucket,
    slack_max: i64,
    /// The least that it must hold for a piece to go ahead.
    slack_min: i64,
    /// The time that a guaranteed-rate stream needs to come back after an interruption: the stream
    /// that interrupts it pays.
    seek_back: i64,
    pub(super) turn: Option<Turn>,
    pub(super) flushes: Flushes,
    /// The class of the last piece that went out.
    last: Option<Rank>,
    /// Most disk time that guaranteed classes can take at once before best effort has its own.
    pub(super) ahead: Duration,
    /// Largest piece in bytes; background's may be smaller.
    pub(super) piece_max: u64,
    /// When a stream that was cut may be restored.
    restore_at: Option<Instant>,
}

/// The guaranteed-rate stream that keeps the device, and for how much longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) stream: StreamId,
    /// For how many bytes more.
    pub(super) left: u64,
    /// It has written something that may still be in a write cache.
    pub(super) dirty: bool,
}

/// The streams whose writes are flushed out of the device's cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Flushes {
    /// Nobody's: it has no cache, or nothing rests on that.
    #[default]
    None,
    /// Guaranteed rates', at the end of each turn.
    Rates,
    /// Everybody's: a rate is firm, or a latency bounded.
    All,
}

impl Guarantees {
    /// Without a profile, and so without a bound on pieces.
    pub(super) fn new() -> Self {
        Self { piece_max: u64::MAX, ..Self::default() }
    }

    /// When a cycle ends or a gate opens.
    pub(super) fn next(&self) -> Option<Instant> {
        let first = |heap: &IndexedHeap| heap.peek().map(|(at, _)| super::instant(at));
        [first(&self.cycles), first(&self.reopening)].into_iter().flatten().min()
    }

    /// The oldest request's lane among those that have used up what was guaranteed.
    pub(super) fn overdrawn(&self) -> Option<(Rank, StreamId)> {
        let oldest = |rank: Rank| {
            let (age, id) = self.overdrawn[rank.at()].peek()?;
            Some((age, rank, StreamId(id)))
        };
        let lanes = [Rank::Latency, Rank::Rate].into_iter().filter_map(oldest);
        lanes.min_by_key(|(age, ..)| *age).map(|(_, rank, id)| (rank, id))
    }

    pub(super) fn overdraw(&mut self, rank: Rank, id: StreamId, sequence: u64, until: i64) {
        self.overdrawn[rank.at()].set(id.0, sequence.cast_signed());
        if rank == Rank::Latency && until < i64::MAX {
            self.reopening.set(id.0, until);
        }
    }

    pub(super) fn settle(&mut self, rank: Rank, id: StreamId) {
        self.overdrawn[rank.at()].remove(id.0);
        if rank == Rank::Latency {
            self.reopening.remove(id.0);
        }
    }

    pub(super) fn has_slack(&mut self, now: Instant) -> bool {
        self.slack.advance(now);
        self.slack.cap(self.slack_max);
        self.slack.level() > self.slack_min
    }

    pub(super) fn spend_slack(&mut self, estimate: Duration, seek_back: i64) {
        self.slack.take(estimate.as_tokens().saturating_add(seek_back));
    }

    /// A piece on slack came back: the register takes its charge in place of its estimate.
    pub(super) fn correct_slack(&mut self, estimate: Duration, charge: Duration) {
        self.slack.take(charge.as_tokens() - estimate.as_tokens());
    }

    /// The slack that best effort may use before guaranteed rates, from now on.
    pub(super) fn set_slack(&mut self, slack: Option<(Slack, Duration)>, now: Instant) {
        let (Slack { rate, cap, seek_back }, piece) = slack.unwrap_or_default();
        self.slack.advance(now);
        self.slack.set_rate(rate);
        self.slack_max = cap.as_tokens();
        self.seek_back = seek_back.as_tokens();
        self.slack_min = self.seek_back.saturating_add(piece.as_tokens());
    }

    /// A piece goes out. Answers the seek back that it causes: it interrupts a guaranteed rate.
    pub(super) fn interrupts(&mut self, rank: Rank, rates_wait: bool) -> i64 {
        let interrupted = self.last.replace(rank) == Some(Rank::Rate) && rates_wait;
        if interrupted && rank != Rank::Rate { self.seek_back } else { 0 }
    }

    /// The largest piece of a class.
    pub(super) fn piece_max(&self, rank: Rank) -> u64 {
        match rank {
            Rank::Latency | Rank::Rate | Rank::Best => self.piece_max,
            Rank::Background => self.piece_max.min(BACKGROUND_PIECE),
        }
    }

    pub(super) fn follow_cycle(&mut self, id: StreamId, ends: Option<Instant>) {
        let ends = ends.map(|ends| i64::try_from(ends.as_nanos()).unwrap_or(i64::MAX));
        self.cycles.put(id.0, ends);
    }

    pub(super) fn forget(&mut self, id: StreamId) {
        self.turn = self.turn.filter(|turn| turn.stream != id);
        self.cycles.remove(id.0);
        self.reopening.remove(id.0);
        self.overdrawn.iter_mut().for_each(|heap| heap.remove(id.0));
    }
}

impl Stream {
    /// Whether a lane's class still covers its next piece; if not, when it may again, in ns.
    pub(super) fn guarantee(&mut self, rank: Rank, now: Instant) -> Result<(), i64> {
        match rank {
            Rank::Latency => self.has_reserved_time(now),
            Rank::Rate => {
                let open = self.cycle.as_ref().is_some_and(|cycle| cycle.open());
                if open { Ok(()) } else { Err(i64::MAX) }
            }
            Rank::Best | Rank::Background => Ok(()),
        }
    }

    /// When a request is to be done: its own deadline, or what its class promises if that is
    /// earlier.
    pub(super) fn deadline_of(&self, rank: Rank, live: &Live) -> Option<Instant> {
        let promised = match rank {
            Rank::Latency | Rank::Best => {
                self.spec.contract.latency.map(|bound| live.arrived_at + bound)
            }
            Rank::Rate => self.cycle.as_ref().map(|cycle| cycle.ends),
            Rank::Background => None,
        };
        let asked = live.request.deadline;
        promised.map_or(asked, |at| Some(asked.map_or(at, |asked| asked.min(at))))
    }

    /// The key of the order in which streams are cut, largest first: the weakest promise, then the
    /// latest admitted.
    fn cut_order(&self) -> Option<(Admission, u32)> {
        let guaranteed = self.spec.contract.class == Class::GuaranteedRate;
        let rate = self.spec.contract.rate.filter(|_| guaranteed)?;
        Some((rate.admission, self.id.0))
    }
}

impl Engine {
    /// The time in the slack register, in ns: while it is long enough for a piece, best effort goes before
    /// guaranteed rates. Below zero if it was overdrawn.
    #[must_use]
    pub fn slack(&self) -> i64 {
        let (mut slack, most) = (self.guarantees.slack, self.guarantees.slack_max);
        slack.advance(self.now);
        slack.level().min(most)
    }

    /// Begins the cycles that are due and opens the gates of streams that have reserved time again.
    pub(super) fn open_gates(&mut self) {
        let now = self.now;
        let due = |heap: &IndexedHeap| {
            heap.peek().filter(|(at, _)| super::instant(*at) <= now).map(|(_, id)| StreamId(id))
        };
        while let Some(id) = due(&self.guarantees.cycles) {
            self.begin_cycle(id);
        }
        while let Some(id) = due(&self.guarantees.reopening) {
            // Never due again before time has passed: a level that rises opens the gate.
            self.guarantees.reopening.remove(id.0);
            self.gates.mark(id);
        }
        if self.guarantees.restore_at.is_some_and(|at| at <= now) {
            self.restore_one();
        }
    }

    fn begin_cycle(&mut self, id: StreamId) {
        let now = self.now;
        let stream = &mut self.streams[id];
        let waiting = stream.lanes[Rank::Rate].bytes;
        let Some(cycle) = &mut stream.cycle else {
            self.guarantees.follow_cycle(id, None);
            return;
        };
        let kept_rank = !cycle.cut;
        let ended = cycle.begin(waiting, now);
        self.guarantees.follow_cycle(id, Some(cycle.ends));
        // Its turn is over, too: the next batch must not go before earlier deadlines. A turn that has written goes
        // on for one piece, which ends with the flush.
        if let Some(turn) = self.guarantees.turn.as_mut().filter(|turn| turn.stream == id) {
            turn.left = turn.left.min(turn.dirty.into());
        }
        if ended.waited > 0 && kept_rank {
            stream.counters.cycles += 1;
            if ended.missed() {
                stream.counters.cycles_missed += 1;
                let (waited, done) = (ended.waited, ended.done);
                self.events.push(Event::CycleMissed { stream: id, waited, done });
                self.missed_cycle(id);
            } else {
                stream.misses = 0;
            }
        }
        // The deadline of what waits is the new cycle's end.
        self.set_oldest_head(id, Rank::Rate);
        self.gates.mark(id);
    }

    /// A rate was not kept. The second time in a row the device is taken as degraded: whoever has
    /// the weakest promise loses its rank. One miss is within what a statistical promise allows.
    fn missed_cycle(&mut self, id: StreamId) {
        let stream = &mut self.streams[id];
        stream.misses += 1;
        let promised = stream.cut_order().is_some_and(|(kind, _)| kind != Admission::BestEffort);
        if stream.misses < 2 || !promised {
            return;
        }
        stream.misses = 0;
        let kept = |stream: &&Stream| stream.cycle.as_ref().is_some_and(|cycle| !cycle.cut);
        let longest = self.streams.iter().filter_map(|stream| stream.cycle.as_ref());
        let longest = longest.map(|cycle| cycle.period).max().unwrap_or(Duration::ZERO);
        let victim = self.streams.iter().filter(kept).max_by_key(|it| it.cut_order());
        let Some(victim) = victim.map(|stream| stream.id) else { return };
        self.set_cut(victim, true, longest);
        self.events.push(Event::Cut(victim));
    }

    /// Gives the stream with the firmest promise of those that were cut its rank again.
    fn restore_one(&mut self) {
        let cut = |stream: &&Stream| stream.cycle.as_ref().is_some_and(|cycle| cycle.cut);
        let first = self.streams.iter().filter(cut).min_by_key(|it| it.cut_order());
        let Some(first) = first.map(|stream| stream.id) else {
            self.guarantees.restore_at = None;
            return;
        };
        let period = self.streams[first].cycle.as_ref().map_or(Duration::ZERO, |it| it.period);
        self.set_cut(first, false, period);
        self.events.push(Event::Restored(first));
    }

    /// Works out every next piece anew: their largest length or their deadlines have changed.
    pub(super) fn renew_heads(&mut self) {
        let ids = self.streams.iter().map(|stream| (stream.id, stream.active));
        for (id, active) in ids.collect::<Vec<_>>() {
            active.for_each(|rank| self.set_oldest_head(id, rank));
            self.gates.mark(id);
        }
    }

    /// Takes a stream's rank, or gives it back; the next one may have its own some cycles of that period later.
    fn set_cut(&mut self, id: StreamId, cut: bool, period: Duration) {
        let pause = period.as_nanos().saturating_mul(CYCLES_UNTIL_RESTORED);
        self.guarantees.restore_at = Some(self.now + Duration::from_nanos(pause));
        let stream = &mut self.streams[id];
        stream.cycle.iter_mut().for_each(|cycle| cycle.cut = cut);
        self.gates.mark(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::share::Share;

    /// Best effort goes ahead of guaranteed rates only while a whole piece and the seek back fit into the
    /// slack, which is bounded however long nobody used it.
    #[test]
    fn slack_is_bounded_and_holds_a_piece_and_a_seek_back() {
        let (ms, at) = (Duration::from_millis, |ms| Instant::ZERO + Duration::from_millis(ms));
        let half = Share::from_percent(50).expect("at most 100");
        let slack = Slack { rate: half, cap: ms(10), seek_back: ms(1) };
        let mut guarantees = Guarantees::default();
        guarantees.set_slack(Some((slack, ms(5))), at(0));
        assert!(guarantees.has_slack(at(1_000)));
        guarantees.spend_slack(ms(3), ms(1).as_tokens());
        assert!(!guarantees.has_slack(at(1_000)), "6 ms are left of 10");
        guarantees.correct_slack(ms(3), ms(2));
        assert!(guarantees.has_slack(at(1_000)), "the piece took 2 ms");
    }

    #[test]
    fn a_piece_makes_the_device_seek_back_only_if_a_rate_waits() {
        let mut guarantees = Guarantees { seek_back: 7, ..Guarantees::default() };
        let seeks = [
            (Rank::Rate, true),
            (Rank::Latency, true),
            (Rank::Rate, true),
            (Rank::Latency, false),
            (Rank::Best, true),
        ];
        let seeks = seeks.map(|(rank, waits)| guarantees.interrupts(rank, waits));
        assert_eq!(seeks, [0, 7, 0, 0, 0]);
    }
}
