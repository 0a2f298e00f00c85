//! Time division: the device to oneself in turns, for one's share of the time. It is an oracle of what shares of time
//! can give: nobody's pieces are beside a stream's own, so that each is charged exactly the time that its turns take.
//!
//! The stream with the least time by its share is next, for a turn of a length that is stated. The device waits for
//! its last pieces, and is left idle for it while it has nothing to send for a moment. A stream that was away has saved
//! up its share of ten turns, or of a second.
//!
//! Guarantees: a stream that keeps its turns busy has the device to itself for its share of the time, to a turn.
//! It loses switches, and what others leave behind in caches. A pick is O(1), a turn's beginning O(n).
//!
//! Left out: lengths that follow from what a switch costs, guests, sequences of the nearest requests, whatever
//! else is worth more than exactness. A turn waits for a piece that never comes back.

use alloc::boxed::Box;
use alloc::vec::Vec;

use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use disktime_core::{Duration, Instant, Request, StreamId, StreamView, Streams};

/// Time division in turns of several lengths: short ones suit small shares of fast devices, long ones disks.
pub(super) static ENTRIES: &[PolicyEntry] = &[
    entry::<20>("time-division-20ms"),
    entry::<50>("time-division-50ms"),
    entry::<100>("time-division-100ms"),
    entry::<200>("time-division-200ms"),
    entry::<500>("time-division-500ms"),
    entry::<1_000>("time-division-1s"),
];

const fn entry<const TURN_MS: u64>(name: &'static str) -> PolicyEntry {
    PolicyEntry {
        name,
        doc: "the device to oneself in turns, for one's share of the time",
        source: "this project: docs/random-cells.md",
        currency: Currency::Time,
        keeps_reservations: false,
        reorders: false,
        holds: true,
        build: || Box::new(TimeDivision::<TURN_MS>::default()),
    }
}

/// How long the device is left idle for the stream whose turn it is, in a turn of any length.
const IDLE_MAX: Duration = Duration::from_millis(50);
/// The time in which an idle stream saves up its share: so many turns, or a second.
const KEPT_TURNS: u64 = 10;
const KEPT_LEAST: Duration = Duration::from_secs(1);
/// How often it is looked whether a turn's last pieces came back.
const LOOK: Duration = Duration::from_millis(20);
/// Parts of the device's time in which contracts reserve it.
const PARTS: i128 = 1_000_000;

#[derive(Clone, Copy, Default)]
struct Account {
    reserved: i128,
    weight: i128,
    /// The time that it had by its share, in ns.
    tag: i128,
    ready: bool,
}

struct Turn {
    stream: StreamId,
    began: Instant,
    /// When its last piece ended, or it began.
    quiet_since: Instant,
}

#[derive(Default)]
struct TimeDivision<const TURN_MS: u64> {
    accounts: Vec<Option<Account>>,
    /// Sums over all streams.
    reserved: i128,
    weights: i128,
    turn: Option<Turn>,
    /// The least tag at which a turn began.
    now: i128,
}

impl<const TURN_MS: u64> TimeDivision<TURN_MS> {
    const TURN: Duration = Duration::from_millis(TURN_MS);

    fn note(&mut self, stream: StreamView<'_>) {
        let at = stream.id().0 as usize;
        if at >= self.accounts.len() {
            self.accounts.resize(at + 1, None);
        }
        let kept = Self::TURN.as_nanos().saturating_mul(KEPT_TURNS).max(KEPT_LEAST.as_nanos());
        let least = self.now - i128::from(kept);
        let new = Account { tag: self.now, ..Account::default() };
        let account = self.accounts[at].get_or_insert(new);
        let contract = stream.contract();
        let claims = (i128::from(contract.reserve.ppm()), i128::from(contract.weight));
        self.reserved += claims.0 - account.reserved;
        self.weights += claims.1 - account.weight;
        (account.reserved, account.weight) = claims;
        if stream.ready() && !account.ready {
            account.tag = account.tag.max(least);
        }
        account.ready = stream.ready();
    }

    /// The turn is over: its stream has had that time.
    fn end(&mut self, now: Instant) {
        let Some(turn) = self.turn.take() else { return };
        let (reserved, weights) = (self.reserved, self.weights.max(1));
        let Some(Some(account)) = self.accounts.get_mut(turn.stream.0 as usize) else { return };
        let free = (PARTS - reserved).max(0);
        let share = (account.reserved + free * account.weight / weights).max(1);
        account.tag += i128::from(now.since(turn.began).as_nanos()) * PARTS / share;
    }

    /// The next step of the stream whose turn it is; `None`: the turn is over.
    fn goes_on(&self, now: Instant, streams: Streams<'_>) -> Option<Pick> {
        let turn = self.turn.as_ref()?;
        let stream = streams.get(turn.stream)?;
        let (ends, is_out) = (turn.began + Self::TURN, stream.in_flight() > 0);
        if now < ends && stream.ready() {
            return Some(Pick::Stream(turn.stream));
        }
        let idle = turn.quiet_since + IDLE_MAX.min(Self::TURN);
        let until = match is_out {
            true if now < ends => ends,
            true => now + LOOK,
            false => idle.min(ends),
        };
        (until > now).then_some(Pick::Hold { stream: turn.stream, until })
    }
}

impl<const TURN_MS: u64> Policy for TimeDivision<TURN_MS> {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>, _request: &Request) {
        self.note(stream);
    }

    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        if let Some(pick) = self.goes_on(now, streams) {
            return pick;
        }
        self.end(now);
        let ready = |(id, account): (u32, &Option<Account>)| {
            account.filter(|account| account.ready).map(|account| (account.tag, id))
        };
        let Some((tag, id)) = (0..).zip(&self.accounts).filter_map(ready).min() else {
            return Pick::Nothing;
        };
        self.now = self.now.max(tag);
        self.turn = Some(Turn { stream: StreamId(id), began: now, quiet_since: now });
        Pick::Stream(StreamId(id))
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.note(stream);
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, _piece: &PieceDone) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.stream == stream.id()) {
            turn.quiet_since = now;
        }
        self.note(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.note(stream);
    }

    fn removed(&mut self, now: Instant, stream: StreamId) {
        if self.turn.as_ref().is_some_and(|turn| turn.stream == stream) {
            self.end(now);
        }
        let account = self.accounts.get_mut(stream.0 as usize).and_then(Option::take);
        if let Some(Account { reserved, weight, .. }) = account {
            self.reserved -= reserved;
            self.weights -= weight;
        }
    }
}
