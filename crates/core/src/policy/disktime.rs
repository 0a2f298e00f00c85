//! Shares of disk time in slices that are long enough to be worth their switch cost, on devices that do one
//! thing at a time or many.
//!
//! Each stream has a share φ: its reservation, and by weight its part of what is not reserved. Its *tag* is
//! the disk time that it has used, divided by φ; the *virtual time* V is the mean of the tags of the streams
//! that want to run, weighted by φ. When a slice begins it is no less than the lowest tag of those that are ready:
//! who waits for its limit, or for itself, holds nobody back. It never falls. A stream's lag is φ·(V - tag).
//!
//! 1. One stream owns the device, for a slice. The stream with the lowest tag is next, but one that is about to break
//!    its promise bound goes before it; the device is drained in between.
//! 2. Switch costs are measured. A round R is so long that one part in [`LOSS`] of it is lost to switches;
//!    a slice is φ·R, and longer for small shares. Where readers' take less than a millisecond a slice with guests,
//!    which hide its beginning, counts as one that lost no more than the last writer's slices gain. Above depth 1 guests
//!    count as one piece there: their slices overlap.
//! 3. A stream that comes back with a positive lag, after it was idle for longer than a switch to it and back
//!    takes, is a guest in the slice at once, until it is idle again. A stream with a latency bound is so however
//!    short it was idle, and a new one when it comes first.
//! 4. Streams that do not fill the device, and lose nothing to switches, are guests in each other's slices. One
//!    piece at a time they read, and the nearest request goes; else those that write have shown two slices before,
//!    on a device that switches in less than a millisecond.
//!    While more streams were not seen than the device takes at once, a stream with one random request at a time
//!    need not show its pace in a slice of its own before.
//!    A stream that has less than its share as a guest, however soon it asks again, starves: while it is behind by
//!    more than its slice it is no guest, nor light, but has slices in which the device waits for it.
//! 5. Guests pay for the time by which they make the owner's pieces longer: the owner's pieces are charged
//!    what they take alone, which slices without guests show, or one piece at a time the time between two guests.
//!    A writer pays for what its slices gain in their beginnings: a cache took its writes, and the device brings
//!    them to the medium in the next slice of another stream, which is relieved of as much. One piece at a time
//!    the cache is flushed at the end of a slice whose owner wrote, at its charge.
//! 6. If the owner asks again sooner than a switch takes, on average, the device is held for it, at its charge,
//!    for as long as the switch takes; for an owner that starves as a guest for as long as a request takes there.
//!
//! A device that tells which of its tiers served a piece does several streams' work at once, and the cost model
//! learns there what a stream's pieces take, among others' pieces. A stream has slices there until its price is
//! known, while it is sequential, and while it starves among the others and fills less than half of the device. The
//! others go in the order of their tags.

use alloc::boxed::Box;

use super::think::Mean;
use super::view::{StreamView, Streams};
use super::virtual_time::{Claims, PARTS, VirtualTime, step};
use super::{Currency, Owner, Pick, PieceDone, Policy, PolicyEntry, Slices, Window};
use crate::classes::promise;
use crate::cost::{Seen, Trust};
use crate::types::by_stream::ByStream;
use crate::types::heap::IndexedHeap;
use crate::types::ids::{RequestId, StreamId};
use crate::types::ratio::{quotient, scaled};
use crate::types::request::Request;
use crate::types::time::{Duration, Instant};

mod account;
mod slice;

use account::{Account, Pace, State, Turn};
use slice::{Probes, Slice, Sum};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "disktime",
    doc: "shares of disk time, in slices that are long enough to be worth their switch",
    source: "this project: docs/scheduling.md",
    currency: Currency::Time,
    keeps_reservations: true,
    reorders: false,
    holds: true,
    build: || Box::new(DiskTime::default()),
};

/// A stream that asks again within this was not idle. Tried at this value only.
const REST: Duration = Duration::from_millis(20);
/// One part in this of a round is lost to switches: 2.5 %. With 5 %, in an earlier form of the policy,
/// 15.6 % of the streams of 24 seeds had less than .9 of their due, not 12.6 %; gaps were a fifth shorter.
const LOSS: i64 = 40;
/// The cost of a switch in ns until one was seen: low, as short slices soon show the true one. A stream that was not
/// seen alone counts in a round with the usual cost, and with no more than this.
/// Where a reader's costs as much, streams that write are no guests: disks seek for longer, flash takes less.
const UNSEEN: i64 = 1_000_000;
/// The least that a switch is taken to cost, in ns: with nothing at all a round would have no length. A microsecond is
/// less than any device that is waited for takes for a piece; tried at this value only.
const SWITCH_LEAST: i64 = 1_000;
/// Longest slice if none is configured.
const HORIZON: Duration = promise::SLICE;
/// The nearest of so many streams that are furthest behind goes. Ten random streams all over a disk do a
/// third more by that than in their order, 64 not quite half as much again.
const CHOICE: usize = 12;
/// Every so many slices it is tried again whether guests pay.
const EXPLORE: u64 = 32;
/// One part in this of the time may go without guests for the sake of learning.
const PROBES: u64 = 50;
/// And one part in this as long as paces are unknown.
const UNSEEN_PROBES: u64 = 2;
/// A look at a pace lasts so many times what the last writer's slices gained. Tried at eight, too (docs/appendix/tried-looks.md).
const LOOK: i64 = 4;
/// A stream that was idle has saved up its share of so much time at most: of the period in which promise bounds
/// let others save up theirs ([`promise`], term 2). To show its pace it may go ahead by as much. With a round in its
/// place, up to 10 s, 12 % of the streams at depth 1 had less than .9 of their due in seeds 1 to 50, not 8 %; with
/// 0.25 s 10 %.
const SAVED: i64 = 1_000_000_000;
/// Paces that were not seen for so long are to be seen again: the time over which they are summed.
const STALE: Duration = Duration::from_nanos(Pace::MEMORY.unsigned_abs());

#[derive(Default)]
struct DiskTime {
    accounts: ByStream<Account>,
    time: VirtualTime,
    /// Ready streams by tag; none above what it is.
    ready: IndexedHeap,
    /// Ready streams that share the device with others.
    sharers: IndexedHeap,
    /// Ready streams that do not wait for slices: by deadline, then those without one by tag.
    urgent: IndexedHeap,
    /// The streams that want to run, by when they no longer count if they stay idle; none later.
    resting: IndexedHeap,
    slice: Option<Slice>,
    /// The stream whose slice is next, as it is about to break its promise bound; unless its own pieces took it further
    /// ahead than that reckons with.
    pressing: Option<StreamId>,
    round: Round,
    /// The time that slices lose to switches, at their beginnings and at their ends.
    switch: [Mean<16>; 2],
    /// The pace of all streams together.
    usual: Pace,
    /// The pace of guests that go here and there, one request at a time: of readers, and of those that write.
    lone: [Pace; 2],
    device: Device,
    /// The time that went by without guests for the sake of learning.
    probes: Probes,
    /// The last writer that had a slice, and the gain of its slices of which others' pieces are to be relieved.
    gained: Option<(StreamId, i64)>,
}

/// The streams that want to run.
#[derive(Default)]
struct Round {
    streams: i64,
    /// The switch costs of those that were seen alone, in ns.
    costs: i64,
    /// How many were not.
    unseen: i64,
}

/// Knowledge of the device.
#[derive(Clone, Copy, Default)]
struct Device {
    depth: u32,
    /// The time that slices of readers lose to switches, as in [`DiskTime::switch`].
    reads: [Mean<16>; 2],
    /// Where the last piece ended.
    position: u64,
    /// It tells which of its tiers served a piece.
    tiered: bool,
    /// Its costs are stated, and compare.
    stated: bool,
    /// It may be flushed.
    flushes: bool,
    /// The longest slice; zero stands for the usual one.
    horizon: Duration,
}

/// The tags of streams, by id.
fn tags(accounts: &ByStream<Account>) -> impl Fn(u32) -> Option<i64> + '_ {
    |id| accounts.get(StreamId(id)).map(|account| account.tag)
}

fn nanos(at: Instant) -> i64 {
    at.as_nanos().cast_signed()
}

impl DiskTime {
    /// Takes in what the view shows: contract, what was used, whether it is ready.
    fn note(&mut self, now: Instant, view: StreamView<'_>) {
        let id = view.id();
        let account = self.accounts.get_or_insert_with(id, || Account::new(view.used()));
        let (used, was, before) = (view.used() - account.used, account.state, account.claims);
        let claims = if view.asks() { Claims::of(view.contract()) } else { Claims::default() };
        if before != claims {
            self.claim(id, claims);
        }
        let account = &mut self.accounts[id];
        account.habits.peak = account.habits.peak.max(view.in_flight() + view.waiting());
        // A stream that waits for its limit, or its depth, is not idle.
        if !view.ready() {
            account.habits.blocked = view.waiting() > 0;
            // While its limit holds it back its last pieces drain the device, and show no pace.
            let is_limited = view.head().is_some() && view.in_flight() < view.spec().depth_max;
            self.slice.iter_mut().filter(|it| is_limited && it.owner == id).for_each(Slice::stop);
        }
        // Time that it uses while its family has its part is counted when it has a share again.
        if used != 0 && claims != Claims::default() {
            account.used += used;
            let step = step(used, self.time.share(claims));
            account.tag = account.tag.saturating_add(step);
            if was != State::Away {
                self.time.moved(claims, step);
            }
        }
        match (was, view.ready()) {
            (State::Away | State::Resting(_), true) => self.join(now, view),
            (State::Ready(turn), false) => {
                self.unlist(id);
                let account = &mut self.accounts[id];
                (account.state, account.idle_since) = (State::Resting(turn), now);
                self.resting.lower(id.0, Some(nanos(now + REST)));
            }
            (State::Ready(_), true) if used < 0 => self.list(id),
            _ => {}
        }
        if self.accounts[id].state == State::Ready(Turn::Now) {
            let deadline = view.head().and_then(|head| head.deadline);
            let tag = self.accounts[id].tag;
            self.urgent.set(id.0, deadline.map_or(tag, |at| i64::MIN.saturating_add(nanos(at))));
        }
    }

    /// A stream is ready that was not.
    fn join(&mut self, now: Instant, view: StreamView<'_>) {
        let (id, time, round) = (view.id(), self.time.now(), self.round_time());
        let host = self.slice.as_ref().map(|slice| slice.owner).filter(|owner| *owner != id);
        // Two rounds of those who want to run.
        let most = step(round.max(SAVED).saturating_mul(2), self.time.shares().max(1));
        let account = &mut self.accounts[id];
        let idle = now.since(account.idle_since);
        let rests = view.in_flight() == 0 && account.idle_since > Instant::ZERO;
        if rests && !account.habits.blocked {
            account.think.add(idle);
        }
        // A stream does not keep what it could not use: others that ran ahead meanwhile would wait for that long.
        let was = core::mem::replace(&mut account.state, State::Ready(Turn::Slice));
        let kept = if was == State::Away { round.min(SAVED) } else { most };
        let (claims, tag) = (account.claims, account.tag.max(time.saturating_sub(kept)));
        let rise = tag.saturating_sub(core::mem::replace(&mut account.tag, tag));
        if was == State::Away {
            self.time.enter(claims, tag);
            self.round.streams += 1;
            self.round.unseen += 1;
            self.count(id);
        } else {
            self.time.moved(claims, rise);
        }
        let account = &mut self.accounts[id];
        let new = host.is_some() && account.idle_since == Instant::ZERO && view.in_flight() == 0;
        if rests || new {
            let think = idle.as_tokens().max(account.think.mean());
            let may = account.tag < time && !account.habits.blocked;
            let left = |time: i64, of| Some(time - self.switch_cost(of)).filter(|it| *it >= 0);
            let comes = || [Some(id), host].into_iter().flatten().try_fold(think, left).is_some();
            if may && (new || view.contract().latency.is_some() || comes()) {
                self.accounts[id].state = State::Ready(Turn::Now);
            }
        } else if let State::Resting(turn) = was {
            account.state = State::Ready(turn);
        }
        self.list(id);
    }

    /// A stream is no longer reckoned with.
    fn leave(&mut self, id: StreamId) {
        let account = &mut self.accounts[id];
        let Account { claims, tag, counted, .. } = *account;
        if core::mem::take(&mut account.state) != State::Away {
            account.counted = 0;
            self.round.streams -= 1;
            self.round.costs -= counted;
            self.round.unseen -= i64::from(counted == 0);
            self.time.leave(claims, tag);
        }
    }

    /// Counts a member's switch cost in the round.
    fn count(&mut self, id: StreamId) {
        let Account { pace, switch, flush, .. } = self.accounts[id];
        // A flush is lost but for what the empty cache gains at the beginning.
        let lost = if self.flushes() { flush.value + switch[0].value } else { 0 };
        let cost = pace.seen_at.map_or(0, |_| self.switch_cost(id).max(lost));
        let before = core::mem::replace(&mut self.accounts[id].counted, cost);
        self.round.costs += cost - before;
        self.round.unseen += i64::from(cost == 0) - i64::from(before == 0);
    }

    /// The cost of a switch to a stream and back. Where switches take less than a disk's, streams that share the device
    /// lose nothing: their slices overlap.
    fn switch_cost(&self, id: StreamId) -> i64 {
        let account = self.accounts.get(id);
        let many = account.is_some() && self.device.depth > 1;
        self.switch_of(account, many && self.is_quick() && self.shares(id))
    }

    /// As [`switch_cost`](Self::switch_cost); of a usual one without a stream.
    fn switch_of(&self, account: Option<&Account>, overlaps: bool) -> i64 {
        let loss = |at: usize| match (account.map(|account| account.switch[at]), self.switch[at]) {
            _ if overlaps => 0,
            (Some(Mean { count: 2.., value }), _) => value,
            (_, Mean { count: 0, .. }) => UNSEEN / 2,
            (_, usual) => usual.value,
        };
        let piece = account.map_or(self.usual, |account| account.pace).piece();
        (loss(0).max(0) + loss(1).max(0)).max(piece.unwrap_or(0)).max(SWITCH_LEAST)
    }

    /// Whether the device switches sooner than a disk, by slices of readers if any were seen: a cache that takes writes
    /// hides what a switch costs.
    fn is_quick(&self) -> bool {
        let [began, ended] = self.device.reads.map(|loss| loss.value.max(0));
        let reads = (began + ended).max(self.usual.piece().unwrap_or(0));
        (if self.device.reads[0].count > 0 { reads } else { self.switch_of(None, false) }) < UNSEEN
    }

    /// On a device that tells tiers: whether a stream's pieces may be at the device with those of all others. Its
    /// price is known, it does not seek back for each of them, and it has its share there: it fills the device, or does
    /// not starve.
    fn mixes(&self, id: StreamId) -> bool {
        let account = &self.accounts[id];
        (self.device.stated || account.habits.mixes)
            && !account.habits.goes_on
            && (account.fills(self.device.depth) || !account.starves(self.share(id)))
    }

    /// Whether a stream has less than its share as a guest, and is behind by more than its slice: it is to wait for
    /// its slice, in which the device is held for it.
    fn is_to_wait(&self, id: StreamId) -> bool {
        self.accounts[id].starves(self.share(id)) && self.is_behind(id, self.length(id))
    }

    /// How long the device is held at most for an owner that is idle for now: the cost of taking it from that
    /// stream. For one that is behind by more than its slice the switch to the next stream counts, too: it would
    /// wait for all of that stream's slice. For one that starves as a guest it is a request's time among others,
    /// which its next one would take. For one that wrote it is a flush of as much as one of its writes.
    fn idle_timeout(&mut self, owner: StreamId) -> i64 {
        let next = self.lowest().filter(|next| *next != owner);
        let next = next.filter(|_| self.is_behind(owner, self.length(owner)));
        let switch = self.switch_cost(owner) + next.map_or(0, |next| self.switch_cost(next));
        let switch = switch.min(self.horizon().max(HORIZON).as_tokens());
        let each = |slice: &Slice| self.flush(slice) / slice.unflushed.max(1);
        let flush = self.slice.as_ref().map_or(0, each);
        let starving = Some(&self.accounts[owner]).filter(|it| it.starves(self.share(owner)));
        let beside = starving.and_then(|account| account.pace.beside()).unwrap_or(0);
        switch.max(beside.max(flush).min(self.horizon().as_tokens()))
    }

    /// How long a round is.
    fn round_time(&self) -> i64 {
        let each = if self.round.unseen > 0 { self.switch_of(None, false).min(UNSEEN) } else { 0 };
        (self.round.costs + self.round.unseen * each)
            .saturating_mul(LOSS)
            .min(promise::ROUND.as_tokens())
    }

    /// How long a slice is. One that is given for a bound takes its stream no further ahead than that reckons with.
    fn length(&self, id: StreamId) -> Duration {
        let round = i128::from(self.round_time());
        let share = i128::from(self.share(id));
        let shares = i128::from(self.time.shares().max(1));
        let count = i128::from(self.round.streams.max(1));
        let even = (round * round / count * share / shares).isqrt();
        let length = (round * share / shares).max(even).max(i128::from(self.switch_cost(id)));
        let most = if self.pressing == Some(id) { self.room(id) } else { Duration::MAX };
        Duration::from_nanos(u64::try_from(length).unwrap_or(u64::MAX))
            .min(most.min(self.horizon()))
    }

    /// The pace of a stream alone. Where more streams were not seen than the device takes at once, it would idle for
    /// long if each with one request at a time showed its own: that of others like it counts.
    fn pace_of(&self, id: StreamId) -> &Pace {
        let (account, Device { depth, tiered, .. }) = (&self.accounts[id], self.device);
        let many = self.round.unseen > i64::from(depth) && depth > 1 && !tiered;
        let is_one = many && account.pace.seen_at.is_none() && account.is_lone();
        if is_one { &self.lone[usize::from(account.habits.writes)] } else { &account.pace }
    }

    /// Whether others' pieces may be at the device with a stream's own. Several at once writes may where switches cost
    /// too little for a disk, whose cache would take them in one stream's slice and write them in others'.
    fn shares(&self, id: StreamId) -> bool {
        let (account, depth) = (&self.accounts[id], self.device.depth);
        let may = || !account.habits.writes || self.is_quick();
        account.shares(depth, depth == 1 || (may() && self.pace_of(id).seen_at.is_some()))
    }

    /// The longest slice.
    fn horizon(&self) -> Duration {
        if self.device.horizon == Duration::ZERO { HORIZON } else { self.device.horizon }
    }

    /// Among the streams that are ready, if it is.
    fn list(&mut self, id: StreamId) {
        let Account { tag, state: State::Ready(turn), .. } = self.accounts[id] else { return };
        if turn == Turn::Slice {
            self.ready.lower(id.0, Some(tag));
        }
        self.sharers.put(id.0, self.shares(id).then_some(tag));
    }

    fn unlist(&mut self, id: StreamId) {
        self.ready.remove(id.0);
        self.sharers.remove(id.0);
        self.urgent.remove(id.0);
    }

    /// Streams that were idle for long leave.
    fn let_go(&mut self, now: Instant, streams: Streams<'_>) {
        while let Some((_, id)) = self.resting.peek().filter(|(at, _)| *at <= nanos(now)) {
            let id = StreamId(id);
            let Some(&Account { state: State::Resting(_), idle_since, tag, .. }) =
                self.accounts.get(id)
            else {
                self.resting.remove(id.0);
                continue;
            };
            // A stream that is ahead stays until the others have caught up: they would lose what it took.
            // A piece that never comes back keeps nobody, and a limit is no idleness.
            let lately = nanos(now) - nanos(idle_since) < SAVED;
            let works = streams
                .get(id)
                .is_some_and(|view| (lately && view.in_flight() > 0) || view.waiting() > 0);
            let due = if works || !self.time.is_paid(tag) { now } else { idle_since } + REST;
            if due > now {
                self.resting.set(id.0, nanos(due));
            } else {
                self.resting.remove(id.0);
                self.leave(id);
            }
        }
    }

    /// Before a pick: what changed seldom.
    fn catch_up(&mut self, now: Instant, streams: Streams<'_>) {
        let depth = streams.depth();
        if core::mem::replace(&mut self.device.depth, depth) != depth {
            self.list_all();
        }
        self.probes.begin(now);
        self.let_go(now, streams);
        let ready = |id: &StreamId| self.ready.contains(id.0) || self.urgent.contains(id.0);
        let pressing = streams.pressing.filter(ready);
        self.pressing = pressing.filter(|id| self.room(*id) > Duration::ZERO);
        let Some(back) = self.time.rebase() else { return };
        for heap in [&mut self.ready, &mut self.sharers, &mut self.urgent] {
            *heap = IndexedHeap::default();
        }
        for account in self.accounts.iter_mut() {
            account.tag = account.tag.saturating_sub(back);
            if let State::Resting(turn) | State::Ready(turn) = &mut account.state {
                *turn = Turn::Slice;
            }
        }
        self.list_all();
    }

    /// Lists every stream that is ready.
    fn list_all(&mut self) {
        for id in (0..self.accounts.ids_end()).map(StreamId) {
            if matches!(self.accounts.get(id), Some(Account { state: State::Ready(_), .. })) {
                self.list(id);
            }
        }
    }

    /// A stream's contract gives it other claims than before.
    fn claim(&mut self, id: StreamId, claims: Claims) {
        let account = &mut self.accounts[id];
        let before = core::mem::replace(&mut account.claims, claims);
        if account.state != State::Away {
            self.time.leave(before, account.tag);
        }
        self.time.claim(before, claims);
        if account.state != State::Away {
            self.time.enter(claims, account.tag);
        }
    }

    /// φ.
    fn share(&self, id: StreamId) -> i64 {
        self.accounts.get(id).map_or(1, |account| self.time.share(account.claims))
    }

    /// A stream's share of so many ns.
    fn part(&self, id: StreamId, span: i64) -> i64 {
        quotient(span, self.share(id), PARTS).unwrap_or(0)
    }

    /// The stream that is not to wait, if its lag is still positive.
    fn urgent(&mut self) -> Option<StreamId> {
        while let Some((_, id)) = self.urgent.peek() {
            let id = StreamId(id);
            if self.accounts[id].tag <= self.time.now() && !self.is_to_wait(id) {
                return Some(id);
            }
            self.accounts[id].state = State::Ready(Turn::Slice);
            self.urgent.remove(id.0);
            self.ready.set(id.0, self.accounts[id].tag);
        }
        None
    }

    /// The stream with the lowest tag of those that wait for a slice.
    fn lowest(&mut self) -> Option<StreamId> {
        self.ready.first(tags(&self.accounts), i64::MAX).map(StreamId)
    }

    /// The sharer with the lowest tag, if it is not ahead by more than a round.
    fn sharer(&mut self) -> Option<StreamId> {
        self.sharers.first(tags(&self.accounts), self.highest()).map(StreamId)
    }

    /// The highest tag of a guest: it is ahead by a round.
    fn highest(&self) -> i64 {
        self.time.now().saturating_add(self.round_time().min(SAVED))
    }

    /// The time that pieces of a stream of that modelled cost take alone.
    fn alone(&self, stream: StreamId, modelled: Duration) -> i64 {
        let tokens = modelled.as_tokens();
        // Streams of other classes are none of this policy's.
        let own = self.accounts.get(stream).and_then(|_| self.pace_of(stream).of(tokens));
        own.or_else(|| self.usual.of(tokens)).unwrap_or(tokens)
    }

    /// As [`cost`](Slices::cost), where one piece at a time is at the device: the time that the pieces took, but
    /// for that by which guests made the owner's longer, which is the guests'.
    fn cost_of_one(&self, window: &Window<'_>, stream: StreamId) -> Duration {
        let took = (window.took)(stream);
        let Some(owner) = window.owner else { return took };
        let excess = self.accounts.get(owner).map_or(Duration::ZERO, |it| it.guests.excess);
        if stream == owner {
            return took.saturating_sub(excess);
        }
        let guests = window.busy.saturating_sub((window.took)(owner)).as_nanos();
        took + Duration::from_nanos(scaled(excess.as_nanos(), took.as_nanos(), guests))
    }

    /// Whether guests may come into the slice now that are not urgent.
    fn is_open(&self, owner: StreamId) -> bool {
        let account = &self.accounts[owner];
        let tried = account.habits.slices.is_multiple_of(EXPLORE);
        // The nearest request may be another's for as long as the owner is not behind by its slice.
        let near = self.slice.as_ref().is_some_and(|slice| !slice.behind);
        let jumps = self.device.depth > 1 || (near && account.shares(1, true));
        jumps && !self.device.tiered && (account.guests.pay() || tried) && !self.is_quiet()
    }

    /// Whether the slice is to show its owner's pace.
    fn is_quiet(&self) -> bool {
        self.slice.as_ref().is_some_and(|slice| slice.quiet && !self.has_shown(slice))
    }

    /// The slice's owner has no quiet any more.
    fn end_quiet(&mut self, now: Instant) {
        let Some(slice) = self.slice.as_mut().filter(|slice| slice.quiet) else { return };
        slice.quiet = false;
        self.probes.add(now, now.since(slice.began));
    }

    /// The next piece in the slice, if it goes on.
    fn go_on(&mut self, now: Instant, streams: Streams<'_>) -> Option<Pick> {
        let owner = self.slice.as_ref()?.owner;
        let Account { state, think, .. } = self.accounts[owner];
        let ready = matches!(state, State::Ready(_));
        let in_flight = streams.get(owner).map_or(0, StreamView::in_flight);
        if !self.is_quiet() {
            self.end_quiet(now);
        }
        let slice = self.slice.as_ref()?;
        let works = ready || in_flight > 0;
        if !slice.ends && self.is_over(now, slice, works) {
            // Ready or not: an owner with one request at a time seldom is at this moment.
            let lower =
                self.lowest().filter(|id| self.accounts[*id].tag < self.accounts[owner].tag);
            if self.pressing.or(lower).is_some_and(|next| next != owner) {
                self.slice.as_mut()?.end();
            } else {
                self.time.reach(self.accounts[owner].tag);
                let (length, used) = (self.length(owner), self.accounts[owner].used);
                self.accounts[owner].habits.slices += 1;
                let shown = self.has_shown(self.slice.as_ref()?);
                let behind = self.is_behind(owner, length);
                let slice = self.slice.as_mut()?;
                (slice.used, slice.length, slice.behind) = (used, length, behind);
                slice.began = if slice.quiet { slice.began } else { now };
                let seen = if shown { slice.take_middle() } else { None };
                self.learn_pace(now, owner, seen);
            }
        }
        let wait = Pick::Hold { stream: owner, until: now + REST };
        let works = streams.at_work() > 0;
        if self.slice.as_ref()?.ends {
            let overlaps = self.lowest().is_some_and(|next| self.joins(now, next));
            return (works && !overlaps).then_some(wait);
        }
        if let Some(id) = self.urgent().filter(|id| *id == owner || !self.is_quiet()) {
            return Some(self.send(now, id));
        }
        let open = self.is_open(owner);
        if ready {
            let near =
                (open && self.device.depth == 1).then(|| self.nearest(owner, streams)).flatten();
            return Some(self.send(now, near.unwrap_or(owner)));
        }
        if open && let Some(id) = self.sharer().filter(|id| !self.is_to_wait(*id)) {
            return Some(self.send(now, id));
        }
        if in_flight > 0 {
            return works.then_some(wait);
        }
        if !self.accounts[owner].habits.blocked {
            let timeout = think.timeout(self.idle_timeout(owner))?.unsigned_abs();
            let until = self.accounts[owner].idle_since + Duration::from_nanos(timeout);
            if until > now {
                return Some(Pick::Hold { stream: owner, until });
            }
        }
        self.slice.as_mut()?.end();
        works.then_some(wait)
    }

    /// Whether a slice of that stream may begin while other streams' pieces are at the device.
    fn joins(&self, now: Instant, id: StreamId) -> bool {
        let was = self.slice.as_ref().is_none_or(|slice| self.shares(slice.owner));
        let pay = self.accounts[id].guests.pay();
        was && self.shares(id) && pay && !self.wants_quiet(now, id)
    }

    /// Whether the owner has had its time, and its pace is known, or can't be seen now: it has nothing to do, or has had
    /// four times its slice or its share of a second. Longer slices would take a small share ahead for seconds.
    fn is_over(&self, now: Instant, slice: &Slice, works: bool) -> bool {
        let account = &self.accounts[slice.owner];
        let shown = account.pace.seen_at.is_some() || self.has_shown(slice) || slice.was_mixed;
        let length = slice.length.as_tokens();
        // Beside guests the owner may have little of its slice, which ends all the same.
        let beside = if slice.was_mixed { now.since(slice.began).as_tokens() } else { 0 };
        let used = (account.used - slice.used).saturating_add(self.flush(slice)).max(beside);
        let most = || self.part(slice.owner, SAVED).clamp(length, 4 * length);
        used >= length && (shown || !works || used >= most())
    }

    /// Whether slices in which something was written end with a flush. Where several pieces are at the device at once
    /// that costs more than it spares others (docs/appendix/tried-flushes.md).
    fn flushes(&self) -> bool {
        self.device.flushes && self.device.depth == 1
    }

    /// The time that the flush at a slice's end is likely to take.
    fn flush(&self, slice: &Slice) -> i64 {
        self.accounts[slice.owner].flush_each.value.saturating_mul(slice.unflushed)
    }

    /// Whether the owner's pieces were seen alone for long enough.
    fn has_shown(&self, slice: &Slice) -> bool {
        let long = |took: i64| took >= 4 * self.switch_cost(slice.owner);
        slice.middle().is_some_and(|middle| middle.pieces >= 8 && long(middle.took))
    }

    /// Whether a stream's lag is more than a slice, or it is about to break its bound.
    fn is_behind(&self, id: StreamId, length: Duration) -> bool {
        let account = &self.accounts[id];
        let lag = self.time.now().saturating_sub(account.tag);
        self.pressing == Some(id) || step(length.as_tokens(), self.time.share(account.claims)) < lag
    }

    /// Whether guests are to wait in a stream's slices until those show its pace. One piece at a time the time between
    /// two guests shows it.
    fn wants_quiet(&self, now: Instant, id: StreamId) -> bool {
        let (depth, many) = (self.device.depth, self.device.depth != 1);
        let account = &self.accounts[id];
        let part = match account.pace.seen_at {
            None if many && self.pace_of(id).seen_at.is_none() => UNSEEN_PROBES,
            Some(_) if many && account.is_new_writer(depth) => UNSEEN_PROBES,
            Some(at) if many && now.since(at) > STALE => PROBES,
            _ => return false,
        };
        self.probes.is_below(now, part)
    }

    /// How long a slice that is to show a stream's pace lasts at least. For as long as the last writer's slices gained,
    /// and longer beside reads, the device brings writes to the medium: in short slices nothing else would be seen.
    /// No longer than its share of a second, as in [`is_over`](Self::is_over).
    fn look(&self, id: StreamId) -> Duration {
        let look = self.buffered(id).saturating_mul(LOOK).min(self.part(id, SAVED));
        Duration::from_nanos(look.unsigned_abs()).min(self.horizon())
    }

    /// The time for which the device is likely to bring another stream's writes to the medium in a stream's slice: what
    /// the last writer's slices gain, in ns.
    fn buffered(&self, id: StreamId) -> i64 {
        let writer = self.gained.filter(|(writer, _)| *writer != id);
        writer.map_or(0, |(writer, _)| -self.accounts[writer].switch[0].value).max(0)
    }

    fn send(&mut self, now: Instant, id: StreamId) -> Pick {
        if let Some(slice) = self.slice.as_mut().filter(|slice| slice.owner != id) {
            let (owner, seen) = (slice.owner, slice.mix());
            self.learn_pace(now, owner, seen);
        }
        Pick::Stream(id)
    }

    /// The pieces of a stream were seen while it had the device to itself.
    fn learn_pace(&mut self, now: Instant, id: StreamId, seen: Option<Sum>) {
        let Some(seen) = seen else { return };
        let account = &mut self.accounts[id];
        if self.device.depth > 1 && account.pace.differs(seen) {
            account.pace.fade(1);
        }
        account.pace.add(now, seen.took, seen.modelled, seen.pieces);
        self.usual.add(now, seen.took, seen.modelled, seen.pieces);
        let account = &self.accounts[id];
        if account.is_lone() && self.shares(id) {
            let lone = &mut self.lone[usize::from(account.habits.writes)];
            let first = lone.seen_at.is_none();
            lone.add(now, seen.took, seen.modelled, seen.pieces);
            if first {
                self.list_all();
            }
        }
    }

    /// The guest whose pace was not seen for longest, among the first dozen, if that is long: as it is seldom behind it
    /// would have no slice in which to show it.
    fn faded(&mut self, now: Instant) -> Option<StreamId> {
        self.sharer()?;
        let guests = self.sharers.some(CHOICE, self.highest()).map(StreamId);
        let seen = guests.filter_map(|id| Some((self.accounts[id].pace.seen_at?, id)));
        let (_, guest) = seen.min().filter(|(_, id)| self.wants_quiet(now, *id))?;
        // As many as switch costs are means of: the next slice shows about as many (docs/appendix/tried-guests.md).
        self.accounts[guest].pace.fade(16);
        Some(guest)
    }

    /// A slice begins.
    fn begin(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        let urgent = self.urgent();
        let lowest = self.lowest().inspect(|id| self.time.reach(self.accounts[*id].tag));
        let Some(owner) = self.pressing.or_else(|| self.faded(now)).or(lowest) else {
            // An urgent stream needs no slice.
            return urgent.map_or(Pick::Nothing, Pick::Stream);
        };
        let others = streams.at_work() > 0;
        if others && !self.joins(now, owner) {
            return Pick::Hold { stream: owner, until: now + REST };
        }
        let quiet = self.wants_quiet(now, owner);
        let look = if quiet { self.look(owner) } else { Duration::ZERO };
        let length = self.length(owner).max(look);
        let behind = self.is_behind(owner, length);
        let Account { habits, used, .. } = &mut self.accounts[owner];
        (habits.slices, habits.peak) = (habits.slices + 1, 0);
        let slice = self.slice.insert(Slice::new(owner, now, length, others));
        (slice.quiet, slice.used, slice.behind) = (quiet, *used, behind);
        self.send(now, urgent.filter(|_| !quiet).unwrap_or(owner))
    }

    /// The slice is over.
    fn end_slice(&mut self, now: Instant) {
        self.end_quiet(now);
        let Some(mut slice) = self.slice.take() else { return };
        let owner = slice.owner;
        slice.end();
        let middle = slice.middle();
        self.learn_pace(now, owner, middle);
        if middle.is_none() {
            self.accounts[owner].pace.correct_down(slice.clean);
        }
        let pace = self.accounts[owner].pace;
        // One long pause says little of what a switch costs.
        let most = slice.length.as_tokens();
        let loss = |sum: Sum| Some((sum.took - pace.of(sum.modelled)?).clamp(-most, most));
        let [began, ended] = [slice.beginning, slice.drained()].map(|sum| sum.and_then(loss));
        let gain = -self.accounts[owner].switch[0].value;
        let writes = self.accounts[owner].habits.writes;
        let flushed = writes && self.flushes();
        if writes && !flushed {
            let before = self.gained.filter(|(of, _)| *of == owner).map_or(0, |(_, left)| left);
            let gains = began.is_some() && gain > 0;
            self.gained = Some((owner, if gains { (before + gain).min(most) } else { before }));
        }
        let ended = ended.filter(|_| self.device.depth > 1);
        // Guests hide what switches cost, and chance that was seen before would make rounds long for ever. Where switches
        // take as long as a disk's, they are no chance.
        let quick = self.is_quick();
        let fades = slice.was_mixed && self.device.depth > 1 && quick;
        let losses = [(began, self.buffered(owner)), (ended, 0)];
        for (at, (loss, least)) in losses.into_iter().enumerate() {
            let known = &mut self.accounts[owner].switch[at];
            let hidden = Some(least).filter(|least| fades && known.value > *least);
            loss.or(hidden).into_iter().for_each(|loss| known.add(loss));
            // A cache that a flush has emptied hides what the switch costs, and so does a disk's that takes writes.
            let Some(loss) = loss.filter(|_| !flushed) else { continue };
            self.switch[at].add(if writes && !quick { loss.max(0) } else { loss });
            if !writes {
                self.device.reads[at].add(loss);
            }
        }
        if self.accounts[owner].state != State::Away {
            self.count(owner);
        }
    }

    /// One piece at a time: of those who share, whose next request is nearest to where the device is.
    fn nearest(&self, owner: StreamId, streams: Streams<'_>) -> Option<StreamId> {
        let distance = |id: &StreamId| {
            let head = streams.get(*id).and_then(StreamView::head);
            head.map_or(u64::MAX, |head| head.offset.abs_diff(self.device.position))
        };
        let near = self.sharers.some(CHOICE, self.highest());
        near.map(StreamId).chain([owner]).min_by_key(distance)
    }
}

impl Policy for DiskTime {
    fn arrived(&mut self, now: Instant, stream: StreamView<'_>, request: &Request) {
        if stream.queued() == 1 {
            self.note(now, stream);
        }
        let writes = &mut self.accounts[stream.id()].habits.writes;
        if request.kind.writes() && !core::mem::replace(writes, true) {
            self.sharers.remove(stream.id().0);
        }
    }

    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        self.catch_up(now, streams);
        if self.slice.is_some() {
            if let Some(pick) = self.go_on(now, streams) {
                return pick;
            }
            let flushes = self.flushes() && streams.at_work() == 0;
            if let Some(slice) = self.slice.as_mut().filter(|it| flushes && it.unflushed > 0) {
                slice.end();
                return Pick::Flush(slice.owner);
            }
            self.end_slice(now);
        }
        if self.device.tiered {
            let next = self.urgent().or_else(|| self.lowest());
            if next.is_none_or(|id| self.mixes(id)) {
                return next.map_or(Pick::Nothing, Pick::Stream);
            }
        }
        self.begin(now, streams)
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        self.note(now, stream);
        let Some((start, end)) = stream.last_piece() else { return };
        self.device.position = end;
        let account = &mut self.accounts[stream.id()];
        account.habits.goes_on = account.habits.end == start;
        account.habits.end = end;
        self.list(stream.id());
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        let (id, flushes) = (stream.id(), self.flushes());
        let account = &mut self.accounts[id];
        let own = self.slice.as_mut().filter(|slice| slice.owner == id);
        if piece.request == RequestId::FLUSH {
            if let Some(slice) = own {
                let unflushed = core::mem::take(&mut slice.unflushed).max(1);
                // Among guests' pieces its time is not seen.
                if !slice.mixed {
                    account.flush.add(piece.took.as_tokens());
                    account.flush_each.add(piece.took.as_tokens() / unflushed);
                }
            }
            return self.note(now, stream);
        }
        account.idle_since = now;
        own.filter(|_| flushes).into_iter().for_each(|slice| slice.wrote(piece.kind));
        if let Some(slice) = self.slice.as_mut().filter(|it| it.owner == id && !it.mixed) {
            slice.piece(now, piece, stream.in_flight());
        } else if self.device.depth > 1 {
            let at_once = stream.in_flight() + 1;
            self.accounts[id].pace.respond(piece.response, piece.modelled, at_once);
        }
        self.note(now, stream);
    }

    fn changed(&mut self, now: Instant, stream: StreamView<'_>) {
        self.note(now, stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        let Some(_) = self.accounts.get(stream) else { return };
        self.leave(stream);
        self.claim(stream, Claims::default());
        self.unlist(stream);
        self.accounts.remove(stream);
        self.resting.remove(stream.0);
        self.gained = self.gained.filter(|(payer, _)| *payer != stream);
        self.slice = self.slice.take().filter(|slice| slice.owner != stream);
    }

    fn slices(&mut self) -> Option<&mut dyn Slices> {
        Some(self)
    }
}

impl Slices for DiskTime {
    fn begins(&mut self, trust: Trust, flushes: bool) {
        self.device.stated = trust == Trust::Stated;
        self.device.flushes = flushes;
    }

    fn priced(&mut self, _now: Instant, stream: StreamId, seen: Seen) {
        let account = self.accounts.get_mut(stream).into_iter();
        account.for_each(|account| account.habits.mixes = seen == Seen::OnTier);
    }

    fn debt(&mut self, stream: StreamId, took: Duration) -> Option<(StreamId, Duration)> {
        let (payer, left) = self.gained.filter(|(of, left)| *of != stream && *left > 0)?;
        let time = took.as_tokens().min(left);
        self.gained = Some((payer, left - time));
        Some((payer, Duration::from_nanos(time.unsigned_abs())))
    }

    fn is_steady(&self, stream: StreamId) -> Option<bool> {
        self.slice.as_ref().filter(|slice| slice.owner == stream)?.is_steady()
    }

    fn owner(&self) -> Option<Owner> {
        self.slice.as_ref().map(|slice| Owner { stream: slice.owner, alone: !slice.mixed })
    }

    fn has_tiers(&mut self) {
        self.device.tiered = true;
    }

    fn room(&self, stream: StreamId) -> Duration {
        let Some(account) = self.accounts.get(stream) else { return Duration::ZERO };
        // So far ahead, its promise bound lets it be.
        let ahead = (self.horizon() + promise::PIECE_TIME).as_tokens() + self.part(stream, SAVED);
        let lead = self.part(stream, account.tag.saturating_sub(self.time.now()));
        Duration::from_nanos(ahead.saturating_sub(lead).max(0).unsigned_abs())
    }

    fn pace(&self, stream: StreamId, modelled: Duration) -> Option<Duration> {
        let account = self.accounts.get(stream).filter(|_| !self.device.tiered)?;
        let pace = account.pace.of(modelled.as_tokens())?;
        Some(Duration::from_nanos(pace.max(1).unsigned_abs()))
    }

    fn cost(&self, window: &Window<'_>, stream: StreamId) -> Duration {
        let modelled = (window.modelled)(stream);
        if self.device.tiered {
            return modelled;
        }
        if self.device.depth == 1 && (window.took)(stream) > Duration::ZERO {
            return self.cost_of_one(window, stream);
        }
        let host = window.owner.filter(|id| *id != stream).and_then(|id| self.accounts.get(id));
        let alone = self.alone(stream, modelled);
        let cost = host.map_or(alone, |host| host.guests.share(alone));
        Duration::from_nanos(cost.unsigned_abs())
    }

    fn guest_price(&self, stream: StreamId) -> Option<u32> {
        self.accounts.get(stream)?.guests.price()
    }

    fn window(&mut self, now: Instant, window: &Window<'_>) {
        let owner = window.owner.filter(|id| self.accounts.get(*id).is_some());
        let Some(owner) = owner else { return };
        let (one, most) = (self.device.depth == 1, self.horizon().as_tokens());
        let cost = |id: &StreamId| self.alone(*id, (window.modelled)(*id));
        let own = window.streams.iter().filter(|id| **id == owner).map(cost).sum::<i64>();
        let guests = window.streams.iter().filter(|id| **id != owner).map(cost).sum::<i64>();
        let account = &mut self.accounts[owner];
        account.guests.excess = Duration::ZERO;
        if own > 0 && guests > 0 && account.pace.seen_at.is_some() {
            account.guests.add(window.busy.as_tokens() - own, guests);
            if one && !account.shares(1, true) {
                account.guests.pass_on((window.took)(owner).as_tokens(), own, most);
            }
        }
        if own > window.busy.as_tokens() && !one {
            // Alone they would have taken no longer.
            let modelled = (window.modelled)(owner).as_tokens();
            account.pace.correct(window.busy.as_tokens(), modelled);
        }
        let is_back = one && own > 0;
        let open = self.slice.as_mut().filter(|it| it.owner == owner && (guests == 0 || is_back));
        open.into_iter().for_each(|slice| slice.clear(now, is_back));
    }

    fn set_horizon(&mut self, horizon: Duration) {
        self.device.horizon = horizon;
    }
}

#[cfg(test)]
mod tests;
