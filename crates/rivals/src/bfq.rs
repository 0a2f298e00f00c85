//! Budget fair queueing (Valente & Checconi 2010), as Linux has it.
//!
//! Streams get budgets of sectors. B-WF2Q+ chooses whose is next: each has a start and a finish in
//! virtual time, budget by weight apart; of those whose start has come the earliest finish goes.
//! The stream is then served alone until its budget or 125 ms are used up, or until it has nothing
//! more to ask. A synchronous stream with an empty queue keeps the device for 8 ms (2 ms if it is
//! seeky), as long as it usually comes back within 8: only so does it keep its sequence. Its finish
//! is then corrected to what it was served. Budgets follow need: four times as much after one was
//! used up, twice after a timeout, what was served after running dry, less after idling in vain; at
//! most what the peak rate does in 125 ms. A stream that is seeky, or slow for another reason, pays for
//! time, as if it had been served at the peak rate: fast streams share sectors, all streams share time.
//!
//! Guarantees: a stream that stays backlogged gets its weight's part of the sectors (of the time,
//! if it is slow), behind or ahead by a few of the largest budgets, however long; so a turn comes
//! once a round of budgets. A pick is O(log n).
//!
//! Every stream counts as synchronous: a virtual disk has a client that waits, reads or writes. The
//! peak rate starts at 64 MiB/s, Linux's 16,384 sectors in 125 ms, and follows turns of at least
//! 20 ms or 32 pieces that were mostly sequential, or quicker, by 1/8 (Linux samples dispatches over
//! 300 ms, and reckons with the start value for the first 194 budgets). Left out: what is for
//! desktops and their processes (weight raising, merging of cooperating queues, bursts, injection),
//! groups, sorting within a queue, and doing without idleness on flash: what the device is, nobody
//! tells.

use alloc::boxed::Box;
use alloc::vec::Vec;

use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use disktime_core::{Duration, Head, Instant, Request, StreamId, StreamView, Streams};

mod wf2q;

use wf2q::Wf2q;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "bfq",
    doc: "budgets of sectors by weight, waits for synchronous streams, charges slow ones by time",
    source: "Valente and Checconi 2010; Linux, block/bfq-iosched.c",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: true,
    build: || Box::new(Bfq::new()),
};

const SECTOR: u64 = 512;
/// A turn is over after this long.
const TIMEOUT: Duration = Duration::from_millis(125);
/// The largest budget, before a rate is known, in sectors.
const BUDGET_MAX_START: u64 = 16 * 1024;
/// How long the device waits for a stream's next request.
const IDLE: Duration = Duration::from_millis(8);
/// The same for a seeky stream; shorter turns say nothing about how slow a stream is.
const IDLE_SEEKY: Duration = Duration::from_millis(2);
/// Turns that are shorter and have fewer pieces say nothing about the rate.
const RATE_TIME_MIN: Duration = Duration::from_millis(20);
const RATE_PIECES_MIN: u32 = 32;
/// A jump of more sectors is a seek; more seeks than this in 32 pieces make a stream seeky.
const SEEK_SECTORS: u64 = 8 * 100;
const SEEKS_MAX: u32 = 19;

/// Habits of a stream, as far as they are known.
#[derive(Clone, Copy, Default)]
struct Habits {
    /// The most that it may use in a turn, in sectors; a new stream has two thirds of the largest budget.
    budget: Option<u64>,
    /// A bit for each of the last 32 pieces: it was a seek.
    seeks: u32,
    /// Mean time from its last completion to its next request, when it has nothing else to do.
    think: Duration,
    quiet_since: Option<Instant>,
}

impl Habits {
    fn seeky(&self) -> bool {
        self.seeks.count_ones() > SEEKS_MAX
    }

    fn idle(&self) -> Duration {
        match self.think <= IDLE {
            true if self.seeky() => IDLE_SEEKY,
            true => IDLE,
            false => Duration::ZERO,
        }
    }
}

/// The stream that is being served.
#[derive(Clone, Copy)]
struct Turn {
    stream: StreamId,
    began: Instant,
    budget: u64,
    served: u64,
    /// Time for which the device was kept idle for it, until it went on.
    idled: Duration,
    pieces: u32,
    /// Pieces among them that were far from the piece before.
    seeks: u32,
    /// When its last piece ended, or it began.
    quiet_since: Instant,
}

impl Turn {
    fn begins(stream: StreamId, now: Instant, budget: u64) -> Self {
        let (began, quiet_since) = (now, now);
        Self {
            stream,
            began,
            budget,
            served: 0,
            idled: Duration::ZERO,
            pieces: 0,
            seeks: 0,
            quiet_since,
        }
    }
}

/// Why a turn ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Exhausted,
    Timeout,
    TooIdle,
    NoMore,
}

struct Bfq {
    turns: Wf2q,
    habits: Vec<Habits>,
    turn: Option<Turn>,
    /// Peak rate × timeout, in sectors.
    budget_max: u64,
    /// The picked request: its dispatch follows.
    picked: Option<Picked>,
}

/// The next piece of a stream.
#[derive(Clone, Copy)]
struct Picked {
    stream: StreamId,
    sectors: u64,
    /// It is far from the stream's last one.
    seeks: bool,
}

impl Picked {
    fn of(stream: StreamView<'_>) -> Option<Self> {
        let head = stream.head()?;
        let jump = stream.last_piece().map(|(_, end)| end.abs_diff(head.offset) / SECTOR);
        let seeks = jump.is_none_or(|jump| jump > SEEK_SECTORS);
        let (stream, sectors) = (stream.id(), sectors(&head));
        Some(Self { stream, sectors, seeks })
    }
}

fn sectors(head: &Head) -> u64 {
    head.bytes.div_ceil(SECTOR).max(1)
}

/// The sectors that the peak rate does in that time of a turn.
fn at_peak(budget_max: u64, time: Duration) -> u64 {
    let sectors = u128::from(budget_max) * u128::from(time.as_nanos());
    u64::try_from(sectors / u128::from(TIMEOUT.as_nanos())).unwrap_or(u64::MAX)
}

impl Bfq {
    fn new() -> Self {
        Self {
            turns: Wf2q::new(),
            habits: Vec::new(),
            turn: None,
            budget_max: BUDGET_MAX_START,
            picked: None,
        }
    }

    fn habits(&mut self, id: StreamId) -> &mut Habits {
        let slot = id.0 as usize;
        if slot >= self.habits.len() {
            self.habits.resize(slot + 1, Habits::default());
        }
        &mut self.habits[slot]
    }

    fn place(&mut self, stream: StreamView<'_>) {
        let id = stream.id();
        if self.turn.is_some_and(|turn| turn.stream == id) {
            return;
        }
        match stream.head().filter(|_| stream.ready()) {
            Some(head) if !self.turns.is_active(id) => {
                let budget = self.budget(id).max(sectors(&head));
                self.turns.join(id, stream.contract().weight, budget);
            }
            None if self.turns.is_active(id) => self.turns.withdraw(id),
            _ => {}
        }
    }

    fn budget(&mut self, id: StreamId) -> u64 {
        let start = (self.budget_max * 2 / 3).max(1);
        *self.habits(id).budget.get_or_insert(start)
    }

    /// The next stream's turn begins.
    fn begin(&mut self, now: Instant, streams: Streams<'_>) -> Option<Picked> {
        let id = self.turns.next()?;
        let picked = Picked::of(streams.get(id)?)?;
        let budget = self.budget(id).max(picked.sectors);
        self.turn = Some(Turn::begins(id, now, budget));
        Some(picked)
    }

    /// The next step of the stream that has the turn, or the reason why the turn is over.
    fn goes_on(&self, turn: &Turn, now: Instant, stream: StreamView<'_>) -> Result<Pick, End> {
        let ends = turn.began + TIMEOUT;
        if let Some(head) = stream.head().filter(|_| stream.ready()) {
            let fits = sectors(&head) <= turn.budget - turn.served;
            return match fits {
                true if now < ends => Ok(Pick::Stream(turn.stream)),
                true => Err(End::Timeout),
                false => Err(End::Exhausted),
            };
        }
        let idle = self.habits[turn.stream.0 as usize].idle();
        if idle == Duration::ZERO || (stream.queued() > 0 && stream.in_flight() == 0) {
            return Err(End::NoMore);
        }
        let until = turn.quiet_since + idle;
        let until = if stream.in_flight() > 0 { ends } else { until.min(ends) };
        if now < until {
            return Ok(Pick::Hold { stream: turn.stream, until });
        }
        Err(if until == ends { End::Timeout } else { End::TooIdle })
    }

    /// Charges the turn and sets the next budget.
    fn end(&mut self, now: Instant, turn: &Turn, stream: StreamView<'_>, end: End) {
        // The time for which the device idled in vain at the end measures no stream.
        let over = if end == End::TooIdle { turn.quiet_since } else { now };
        let time = over.since(turn.began);
        let seeky = self.habits(turn.stream).seeky();
        let slow = seeky || (time > IDLE_SEEKY && turn.served < self.budget_max / 2);
        let in_vain = end == End::Timeout && turn.budget - turn.served >= turn.budget / 3;
        let mut served = turn.served;
        if slow || in_vain {
            served = served.max(at_peak(self.budget_max, time.min(TIMEOUT)));
            self.turns.serve(served - turn.served);
        }
        self.turn = None;
        self.turns.finish(turn.stream, served);
        let most = self.budget_max;
        let least = (most / 32).max(1);
        let budget = self.budget(turn.stream);
        self.habits(turn.stream).budget = Some(match end {
            End::Exhausted => budget.saturating_mul(4).min(most),
            End::Timeout => budget.saturating_mul(2).min(most),
            End::NoMore => turn.served.max(least),
            End::TooIdle if budget > 5 * least => budget - 4 * least,
            End::TooIdle => least,
        });
        self.learn_rate(turn, time.saturating_sub(turn.idled));
        self.place(stream);
    }

    /// The peak rate follows what a turn did, if three quarters of it were in sequence or it was
    /// quicker still.
    fn learn_rate(&mut self, turn: &Turn, busy: Duration) {
        if busy == Duration::ZERO || (busy < RATE_TIME_MIN && turn.pieces < RATE_PIECES_MIN) {
            return;
        }
        let rate = u128::from(turn.served) * u128::from(TIMEOUT.as_nanos());
        let rate = u64::try_from(rate / u128::from(busy.as_nanos())).unwrap_or(u64::MAX);
        if turn.seeks.saturating_mul(4) <= turn.pieces || rate > self.budget_max {
            self.budget_max = (self.budget_max - self.budget_max / 8 + rate / 8).max(64);
        }
    }
}

impl Policy for Bfq {
    fn arrived(&mut self, now: Instant, stream: StreamView<'_>, _request: &Request) {
        if stream.queued() == 1 {
            let habits = self.habits(stream.id());
            if let Some(since) = habits.quiet_since.take() {
                // Twice the wait is as bad as any longer one.
                let think = now.since(since).min(IDLE + IDLE).as_nanos();
                let old = habits.think.as_nanos();
                habits.think = Duration::from_nanos(old - old / 8 + think / 8);
            }
            self.place(stream);
            // Nobody asked while it was away too long: its turn is over all the same.
            if let Some(turn) = self.turn.filter(|turn| turn.stream == stream.id()) {
                let idle = self.habits(turn.stream).idle();
                if stream.in_flight() == 0 && now >= turn.quiet_since + idle {
                    self.end(now, &turn, stream, End::TooIdle);
                }
            }
        }
    }

    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        if let Some(turn) = self.turn {
            let Some(stream) = streams.get(turn.stream) else { return Pick::Nothing };
            match self.goes_on(&turn, now, stream) {
                // Nobody waits: the device is free, not held.
                Ok(Pick::Hold { .. }) if self.turns.is_empty() => return Pick::Nothing,
                Ok(pick) => {
                    self.picked = Picked::of(stream);
                    return pick;
                }
                Err(end) => self.end(now, &turn, stream, end),
            }
        }
        self.picked = self.begin(now, streams);
        self.picked.map_or(Pick::Nothing, |picked| Pick::Stream(picked.stream))
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        let picked = self.picked.take().filter(|picked| picked.stream == stream.id());
        if let Some(Picked { stream: id, sectors, seeks }) = picked {
            let habits = self.habits(id);
            habits.seeks = (habits.seeks << 1) | u32::from(seeks);
            if let Some(turn) = self.turn.as_mut().filter(|turn| turn.stream == id) {
                turn.served += sectors;
                turn.pieces += 1;
                turn.seeks += u32::from(seeks);
                if stream.in_flight() == 1 && turn.pieces > 1 {
                    turn.idled += now.since(turn.quiet_since);
                }
            }
            self.turns.serve(sectors);
        }
        self.place(stream);
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, _piece: &PieceDone) {
        let id = stream.id();
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.stream == id) {
            turn.quiet_since = now;
        }
        let quiet = stream.in_flight() == 0 && stream.queued() == 0;
        self.habits(id).quiet_since = quiet.then_some(now);
        self.place(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.turns.remove(stream);
        *self.habits(stream) = Habits::default();
        self.turn = self.turn.filter(|turn| turn.stream != stream);
    }
}
