//! Shares of disk time in turns that are long enough to be worth their seek: the product's policy.
//!
//! Each stream has a share φ: its reservation, and by weight its part of what nobody reserved. Its
//! *tag* is the disk time that it has used, divided by φ; the *virtual time* V is the mean of the
//! tags of those who want to run, weighted by φ, and never falls. Below V a stream has a positive lag.
//!
//! 1. The stream that has the device keeps it until its tag is ahead by its *horizon*: of V, less the
//!    amount by which waiting streams are ahead beyond theirs, which no stream can make up.
//! 2. Then the stream that is furthest behind has it. While others' pieces are at the device no turn
//!    begins for a stream without a positive lag: streams with one have all they want there.
//! 3. A stream that comes back from idleness with a positive lag has it at once, and so has any request
//!    of a stream with a latency bound while that stream's lag is positive.
//! 4. If the one that has the device asks again sooner than a seek back takes, the device waits for
//!    it, at its charge.
//! 5. Where several pieces are at the device at once, streams to which that is no loss mix, as one
//!    party of the rules above; the others have it for themselves. If prices say what pieces cost
//!    (flash, or learned), all mix.
//! 6. One piece at a time those who jump about mix: of those who are not ahead by their horizons the
//!    one goes whose request is nearest to where the device is.
//!
//! A return costs a stream c, which is measured always ([`returns`]). Horizons make its lag range
//! over H, so it loses c·(1-φ)/H of its throughput on average, and in a window W its
//! service varies by H/(φ·W). H is chosen to lose a hundredth if a minute then varies by no more than
//! a sixteenth; at least so that both are alike. `docs/scheduling.md` has the derivation, the
//! guarantee with its proof, and what physics forbids.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::view::{StreamView, Streams};
use super::{Currency, Pick, PieceDone, Policy, PolicyEntry, Turns, Window};
use crate::classes::promise;
use crate::cost::{Seen, Trust};
use crate::types::heap::IndexedHeap;
use crate::types::ids::StreamId;
use crate::types::request::Request;
use crate::types::time::{Duration, Instant};

mod account;
mod party;
mod returns;

use super::think::Think;
use super::virtual_time::{PARTS, VirtualTime, step};
use account::{Account, Swings};
use party::Party;
use returns::Returns;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "disktime",
    doc: "shares of disk time, in turns that are long enough to be worth their seek",
    source: "this project: docs/scheduling.md",
    currency: Currency::Time,
    keeps_reservations: true,
    reorders: false,
    holds: true,
    build: || Box::new(Disktime::default()),
};

/// Virtual time by which a stream that was idle may be behind: what it can save up, the period of
/// `zygaria`.
const CREDIT: i64 = 1_000_000_000;
/// A stream that asks again within this was not idle, unless it is for longer as a rule.
const REST: Duration = Duration::from_millis(20);
/// Shortest horizon in shared mode, however little the stream's returns cost: 5 ms. Where costs are
/// stated it is of virtual time: all together are ahead by no more.
const LITTLE: Duration = Duration::from_millis(5);
/// Largest range of a lag if none is configured: of a minute it is about half a point.
const HORIZON: Duration = promise::SLICE;

/// The nearest of so many streams that are furthest behind goes. Ten random streams all over a disk do a
/// third more by that than in their order, 64 not quite half as much again.
const CHOICE: usize = 12;

/// Streams in shared mode are not probed again before this many times the longest stay for learning.
const ASK_PAUSE: u64 = 16;

struct Disktime {
    accounts: Vec<Option<Account>>,
    time: VirtualTime,
    /// Ready streams that take turns, and those that mix, by tag; none above what it is.
    tags: [IndexedHeap; 2],
    /// Ready streams that have a latency bound and may have a positive lag, by when their next request
    /// is to be done.
    bounded: IndexedHeap,
    /// The streams that want to run, by when they no longer count if they stay idle; none later.
    resting: IndexedHeap,
    /// The streams that wait and are ahead beyond their horizons, by when V has caught up.
    beyond: IndexedHeap,
    swings: Swings,
    /// Contracts have changed: shares are to be worked out.
    stale: bool,
    /// The stream that has the device, and how far its tag may be ahead of V.
    current: Option<StreamId>,
    reach: i64,
    /// The stream that came back from idleness with a positive lag.
    returned: Option<StreamId>,
    /// Largest range of a lag.
    horizon: Duration,
    /// How many pieces the device may hold.
    depth: u32,
    /// How far the cost model's costs can be trusted now.
    costs: Trust,
    /// The same if several pieces may be at the device.
    deep_costs: Trust,
    party: Party,
    /// No price is to be seen before.
    ask_at: Instant,
    /// Where the last piece ended.
    position: u64,
}

impl Default for Disktime {
    fn default() -> Self {
        Self {
            accounts: Vec::new(),
            time: VirtualTime::default(),
            tags: [IndexedHeap::default(), IndexedHeap::default()],
            bounded: IndexedHeap::default(),
            resting: IndexedHeap::default(),
            beyond: IndexedHeap::default(),
            swings: Swings::default(),
            stale: false,
            current: None,
            reach: 0,
            returned: None,
            horizon: HORIZON,
            depth: 1,
            costs: Trust::None,
            deep_costs: Trust::None,
            party: Party::default(),
            ask_at: Instant::ZERO,
            position: 0,
        }
    }
}

fn slot(id: StreamId) -> usize {
    id.0 as usize
}

fn nanos(at: Instant) -> i64 {
    at.as_nanos().cast_signed()
}

impl Disktime {
    fn get(&self, id: StreamId) -> Option<&Account> {
        self.accounts.get(slot(id))?.as_ref()
    }

    fn account(&mut self, id: StreamId) -> &mut Account {
        self.accounts[slot(id)].as_mut().expect("streams are announced before they run")
    }

    /// Takes in what the view shows: contract, what was used, whether it is ready.
    fn note(&mut self, now: Instant, view: StreamView<'_>) {
        let (id, costs) = (view.id(), self.costs);
        if slot(id) >= self.accounts.len() {
            self.accounts.resize(slot(id) + 1, None);
        }
        let new = || Account::new(view.used(), costs);
        let account = self.accounts[slot(id)].get_or_insert_with(new);
        self.stale |= account.follow(view.contract());
        let used = view.used() - account.used;
        let was = core::mem::replace(&mut account.ready, view.ready());
        let Account { ready, member, share, .. } = *account;
        account.peak = account.peak.max(view.in_flight());
        if used != 0 {
            account.used += used;
            let step = step(used, share);
            account.tag = account.tag.saturating_add(step);
            if member {
                self.time.moved(share, step);
                self.count_beyond(id);
            }
        }
        match (was, ready) {
            (false, true) => self.join(now, view),
            (true, false) => {
                self.unlist(id);
                self.account(id).idle_since = now;
                self.resting.lower(id.0, Some(nanos(now + REST)));
            }
            (true, true) if used < 0 => self.list(id),
            _ => {}
        }
        if ready && view.contract().latency.is_some() {
            let deadline = view.head().and_then(|head| head.deadline).map_or(i64::MAX, nanos);
            self.bounded.set(id.0, deadline);
        }
    }

    /// A stream is ready that was not.
    fn join(&mut self, now: Instant, view: StreamView<'_>) {
        let (id, time, costs, epoch) = (view.id(), self.time.now(), self.costs, self.party.epoch);
        // A stream in shared mode may wait for others' turns.
        let waits = 2 * self.horizon.as_tokens();
        let account = self.account(id);
        if view.in_flight() == 0 && account.idle_since > Instant::ZERO {
            let idle = now.since(account.idle_since);
            account.think.add(idle);
            account.trial(epoch).idle += i128::from(idle.min(Think::LONG).as_tokens());
        }
        if !account.member || (account.mixes && costs != Trust::None) {
            let turns = if account.member && costs == Trust::Learned { waits } else { 0 };
            let behind = CREDIT.saturating_add(step(turns, account.share));
            let tag = account.tag.max(time - behind);
            let (share, rise) = (account.share, tag.saturating_sub(account.tag));
            account.tag = tag;
            if account.member {
                self.time.moved(share, rise);
            }
        }
        let account = self.account(id);
        let Account { share, tag, swing, think, .. } = *account;
        let was_idle = !core::mem::replace(&mut account.member, true);
        if was_idle {
            self.swings.swap(0, swing);
            self.time.enter(share, tag);
        }
        if tag <= time && (was_idle || think.mean() > REST.as_tokens()) {
            self.returned = Some(id);
        }
        self.list(id);
    }

    /// A stream is no longer reckoned with.
    fn leave(&mut self, id: StreamId) {
        let account = self.account(id);
        let Account { share, tag, swing, .. } = *account;
        if core::mem::replace(&mut account.member, false) {
            self.swings.swap(swing, 0);
            self.time.leave(share, tag);
            self.count_beyond(id);
        }
    }

    /// Whether a stream waits and is ahead beyond its horizon.
    fn count_beyond(&mut self, id: StreamId) {
        let Some(Account { member, share, tag, beyond, .. }) = self.get(id).copied() else {
            return;
        };
        let now = self.time.now();
        let turns = self.costs != Trust::Stated;
        let waits = turns && member && tag > now && self.current != Some(id);
        let until = waits.then(|| tag.saturating_sub(self.reach(id))).filter(|until| *until > now);
        if until == beyond {
            return;
        }
        if let Some(until) = beyond {
            self.time.uncount(share, until);
            self.beyond.remove(id.0);
        }
        if let Some(until) = until {
            self.time.count(share, until);
            self.beyond.set(id.0, until);
        }
        self.account(id).beyond = until;
    }

    /// Shares or tags are new: nobody is counted yet.
    fn count_all_beyond(&mut self) {
        self.beyond = IndexedHeap::default();
        self.accounts.iter_mut().flatten().for_each(|account| account.beyond = None);
        (0..).take(self.accounts.len()).for_each(|id| self.count_beyond(StreamId(id)));
    }

    /// Among the streams that are ready.
    fn list(&mut self, id: StreamId) {
        let Account { tag, mixes, .. } = *self.account(id);
        self.tags[usize::from(mixes)].set(id.0, tag);
    }

    fn unlist(&mut self, id: StreamId) {
        let mixes = self.account(id).mixes;
        self.tags[usize::from(mixes)].remove(id.0);
        self.bounded.remove(id.0);
    }

    /// Streams that were idle for long leave.
    fn let_go(&mut self, now: Instant, streams: Streams<'_>) {
        while let Some((_, id)) = self.resting.peek().filter(|(at, _)| *at <= nanos(now)) {
            let id = StreamId(id);
            let idle = self.get(id).filter(|account| account.member && !account.ready);
            let Some(Account { idle_since, tag, .. }) = idle.copied() else {
                self.resting.remove(id.0);
                continue;
            };
            // A stream that is ahead stays until the others have caught up: they would lose what it took.
            let works = streams.get(id).is_some_and(|view| view.in_flight() > 0);
            let stays = works || !self.time.is_paid(tag);
            let due = if stays { now } else { idle_since } + REST;
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
        self.depth = streams.depth();
        self.heed_costs(now);
        if self.stale {
            self.work_out_shares();
        }
        self.let_go(now, streams);
        while let Some((_, id)) = self.beyond.peek().filter(|(until, _)| *until <= self.time.now())
        {
            self.count_beyond(StreamId(id));
        }
        let Some(back) = self.time.rebase() else { return };
        self.tags = [IndexedHeap::default(), IndexedHeap::default()];
        for (id, account) in (0..).zip(&mut self.accounts) {
            let Some(account) = account else { continue };
            account.tag = account.tag.saturating_sub(back);
            if account.ready {
                self.tags[usize::from(account.mixes)].set(id, account.tag);
            }
        }
        self.count_all_beyond();
    }

    /// Shares from contracts: what is reserved, and by weight what is not.
    fn work_out_shares(&mut self) {
        self.stale = false;
        let known = || self.accounts.iter().flatten();
        let reserved = known().map(Account::reserved).sum::<i64>();
        let weights = known().map(|account| i64::from(account.weight)).sum::<i64>().max(1);
        let free = i128::from((PARTS - reserved).max(0));
        self.time.forget_shares();
        self.swings.forget();
        for account in self.accounts.iter_mut().flatten() {
            let weight = i64::from(account.weight);
            let part = i64::try_from(free * i128::from(weight) / i128::from(weights));
            // Where all is reserved, those who reserved nothing get what is not used, by weight.
            account.share = (account.reserved() + part.unwrap_or(PARTS)).max(weight).max(1);
            account.fit_swing(self.horizon);
            if account.member {
                self.time.enter(account.share, account.tag);
                self.swings.swap(0, account.swing);
            }
        }
        self.count_all_beyond();
    }

    /// Gives the device to a stream.
    fn switch_to(&mut self, now: Instant, id: StreamId) -> Pick {
        if self.current != Some(id) {
            self.end_stay(now);
            self.account(id).begin_stay(now);
        }
        self.go_on_with(id)
    }

    fn go_on_with(&mut self, id: StreamId) -> Pick {
        let before = self.current.replace(id).filter(|before| *before != id);
        before.into_iter().chain([id]).for_each(|id| self.count_beyond(id));
        self.reach = self.reach(id);
        Pick::Stream(id)
    }

    /// Others get the device.
    fn end_stay(&mut self, now: Instant) {
        let depth = self.depth;
        let Some(id) = self.current.take().filter(|id| self.get(*id).is_some()) else { return };
        let account = self.account(id);
        account.watched = false;
        if account.end_stay(depth) {
            self.fit_swing(id);
            self.sort_out(now, id);
        }
        self.count_beyond(id);
    }

    /// Fits the range of a stream's lag to the state that is known of it now.
    fn fit_swing(&mut self, id: StreamId) {
        let horizon = self.horizon;
        let account = self.account(id);
        let before = account.swing;
        account.fit_swing(horizon);
        let Account { swing, member, .. } = *account;
        if member {
            self.swings.swap(before, swing);
        }
    }

    /// A stream mixes from now on, or does no more.
    fn sort_out(&mut self, now: Instant, id: StreamId) {
        let account = self.account(id);
        let mixes = account.gains_from_mixing(now);
        if mixes == account.mixes {
            return;
        }
        let listed = account.ready;
        self.party.change();
        self.tags[usize::from(!mixes)].remove(id.0);
        self.account(id).mixes = mixes;
        self.fit_swing(id);
        if listed {
            self.list(id);
        }
    }

    /// How far a stream's tag may be ahead of V.
    fn reach(&self, id: StreamId) -> i64 {
        if self.costs == Trust::Stated {
            // Pieces in runs, as alone: one by one they would be in each other's way.
            return LITTLE.as_tokens();
        }
        self.get(id).map_or(0, |account| step(self.swings.horizon(account.swing), account.share))
    }

    /// Whether a stream would be beyond its horizon.
    fn is_ahead(&self, id: StreamId) -> bool {
        self.is_ahead_by(id, Duration::ZERO)
    }

    /// Whether it would be by more than so much of its time.
    fn is_ahead_by(&self, id: StreamId, more: Duration) -> bool {
        let Some(account) = self.get(id) else { return false };
        let least = if self.fits_in(id) { step(LITTLE.as_tokens(), account.share) } else { 0 };
        let more = step(more.as_tokens(), account.share);
        let until = self.time.now().saturating_add(self.reach(id).max(least));
        account.tag > until.saturating_add(more)
    }

    /// Whether a turn would begin for a stream without a positive lag: one with it has all it wants at the device.
    fn is_early(&self, id: StreamId) -> bool {
        let begins = self.current != Some(id);
        begins
            && self.get(id).is_some_and(|account| !account.mixes && account.tag > self.time.now())
    }

    /// The stream that is not to wait: one with a latency bound, or back from idleness.
    fn urgent(&mut self) -> Option<StreamId> {
        let ready = |account: &&Account| account.ready;
        let owed = |account: &&Account| account.tag <= self.time.now();
        while let Some((_, id)) = self.bounded.peek() {
            if self.get(StreamId(id)).filter(ready).filter(owed).is_some() {
                return Some(StreamId(id));
            }
            // It is served like any other until it is looked at again.
            self.bounded.remove(id);
        }
        let returned = self.returned.take()?;
        self.get(returned).filter(ready).map(|_| returned)
    }

    /// Whether the stream that has the device keeps it, or the device waits for it.
    fn stay(&mut self, now: Instant, streams: Streams<'_>) -> Option<Pick> {
        let id = self.current?;
        let Account { tag, ready, mixes, returns, idle_since, think, .. } = *self.account(id);
        let Account { watched, priced_by_tier, .. } = *self.account(id);
        // On tiers others go beside it, and none is to make up for what another had too much.
        let alone = watched && !priced_by_tier;
        let mean = if alone { self.time.within_reach() } else { self.time.now() };
        let until = mean.saturating_add(self.reach);
        let curious = self.account(id).is_curious(now);
        if tag >= until && !curious {
            return None;
        }
        if mixes && !curious && (self.depth == 1 || !ready) {
            let first = self.furthest_behind(true);
            let next = [first.and_then(|first| self.nearest(first, streams)), first];
            if let Some(next) = next.into_iter().flatten().find(|next| !self.is_ahead(*next)) {
                if self.account(id).watched {
                    self.end_stay(now);
                }
                self.account(next).watched = false;
                return Some(self.go_on_with(next));
            }
        }
        if ready {
            return Some(Pick::Stream(id));
        }
        if self.costs == Trust::Stated || self.tags.iter().all(IndexedHeap::is_empty) {
            return None;
        }
        if streams.get(id).is_some_and(|view| view.in_flight() > 0) {
            return Some(Pick::Hold { stream: id, until: now + REST });
        }
        let looks = curious && self.costs == Trust::Learned;
        let cost = if looks { REST.as_tokens() } else { returns.cost() };
        let timeout = think.timeout(cost)?;
        let until = idle_since + Duration::from_nanos(timeout.unsigned_abs());
        (until > now).then_some(Pick::Hold { stream: id, until })
    }

    /// Prices that are learned are for those who mix, and one piece at a time can't.
    fn heed_costs(&mut self, now: Instant) {
        let costs = match self.deep_costs {
            Trust::Learned if self.depth == 1 => Trust::None,
            costs => costs,
        };
        if costs == self.costs {
            return;
        }
        self.costs = costs;
        self.accounts.iter_mut().flatten().for_each(|account| account.costs = costs);
        self.sort_all_out(now);
    }

    /// Whether more of its pieces take nothing from those who have all they want at the device.
    fn fits_in(&self, id: StreamId) -> bool {
        let mixes = self.get(id).is_some_and(|account| account.mixes);
        mixes && self.costs != Trust::None && !(self.costs == Trust::Learned && self.in_turn())
    }

    /// Picks for a probe a stream in shared mode whose cost was not seen for long.
    fn ask_price(&mut self, now: Instant) -> Option<StreamId> {
        if self.costs != Trust::Learned || now < self.ask_at {
            return None;
        }
        let current = self.current.and_then(|id| self.get(id));
        if current.is_some_and(|account| account.watched) {
            return None;
        }
        let due = |account: &Account| account.ready && account.mixes && account.wants_look(now);
        // Looks are of its share: who had more of them waits until the others have caught up.
        let due =
            |id: &StreamId| self.get(*id).is_some_and(due) && !self.is_ahead_by(*id, Account::LOOK);
        let next = (0..).map(StreamId).take(self.accounts.len()).find(due);
        let pause = if next.is_some() { ASK_PAUSE } else { 1 };
        self.ask_at = now + Duration::from_nanos(Returns::CURIOUS.as_nanos() * pause);
        next.inspect(|_| self.end_stay(now))
    }

    /// A window is over: if it was of those who mix, they may be judged.
    fn judge(&mut self, now: Instant, window: &Window<'_>) {
        let mixes = |id: &StreamId| self.get(*id).is_some_and(|account| account.mixes);
        // By tier, prices are of these very windows.
        let by_tier = |id: &StreamId| self.get(*id).is_some_and(|account| account.priced_by_tier);
        // A run longer than a window counts if others waited in it.
        let waits = |id: u32| !window.streams.contains(&StreamId(id));
        let few = window.streams.len() < 2 && !self.tags[1].some(2, i64::MAX).any(waits);
        if few || window.streams.iter().any(by_tier) || !window.streams.iter().all(mixes) {
            return;
        }
        let epoch = self.party.epoch;
        let sum = window.streams.iter().map(|id| (window.modelled)(*id).as_nanos());
        let sum = i128::from(sum.sum::<u64>());
        for id in window.streams {
            self.account(*id).trial(epoch).window(window.busy, (window.modelled)(*id), sum);
        }
        if !self.party.window(window.busy) {
            return;
        }
        let mut guests: Vec<_> =
            self.accounts.iter_mut().flatten().filter(|account| account.took_part(epoch)).collect();
        let reckoned = guests.iter_mut().map(|account| account.trial(epoch).reckoned).sum();
        let losers: Vec<bool> =
            guests.iter_mut().map(|account| account.trial(epoch).loses()).collect();
        if losers.contains(&true) {
            let belong = |belongs: bool| guests.iter().any(|account| account.belongs == belongs);
            let (old, new) = (belong(true), belong(false));
            if !new {
                // They did well before: some price must have changed.
                guests.into_iter().for_each(|account| account.surprises(now));
                self.party.begin();
                return;
            }
            // The streams that share at no loss stay: whichever came last goes.
            for (account, loses) in guests.into_iter().zip(losers) {
                if if old { !account.belongs } else { loses } {
                    account.part(now);
                }
            }
            self.sort_all_out(now);
            return;
        }
        let Some(changed) = self.party.passes(reckoned) else { return };
        for account in guests {
            account.fits();
            if changed {
                account.doubt_price(now);
            }
        }
    }

    fn sort_all_out(&mut self, now: Instant) {
        for id in (0..self.accounts.len()).filter_map(|slot| u32::try_from(slot).ok()) {
            if self.accounts[id as usize].is_some() {
                self.sort_out(now, StreamId(id));
            }
        }
    }

    /// One piece at a time: of those who mix, whose next request is nearest to where the device is.
    /// Nobody is passed over for those who are less behind by twice as much as who has the device
    /// may be ahead.
    fn nearest(&self, first: StreamId, streams: Streams<'_>) -> Option<StreamId> {
        if self.depth > 1 {
            return None;
        }
        let reach = self.reach;
        let late = self.get(first)?.tag.saturating_add(reach.saturating_mul(2));
        let most = self.time.now().saturating_add(reach).min(late);
        let distance = |id: &StreamId| {
            let head = streams.get(*id).and_then(StreamView::head);
            head.map_or(u64::MAX, |head| head.offset.abs_diff(self.position))
        };
        let near = self.tags[1].some(CHOICE, most);
        near.map(StreamId).min_by_key(distance)
    }

    /// The stream that is furthest behind, of those that mix or take turns.
    fn furthest_behind(&mut self, mixes: bool) -> Option<StreamId> {
        let accounts = &self.accounts;
        let tag = |id: u32| accounts.get(id as usize)?.as_ref().map(|account| account.tag);
        self.tags[usize::from(mixes)].first(tag, i64::MAX).map(StreamId)
    }
}

impl Policy for Disktime {
    fn arrived(&mut self, now: Instant, stream: StreamView<'_>, _request: &Request) {
        if stream.queued() == 1 {
            self.note(now, stream);
        }
    }

    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        self.catch_up(now, streams);
        if let Some(id) = self.urgent() {
            return self.switch_to(now, id);
        }
        if let Some(id) = self.ask_price(now) {
            return self.switch_to(now, id);
        }
        if let Some(pick) = self.stay(now, streams) {
            return pick;
        }
        let next = [self.furthest_behind(false), self.furthest_behind(true)];
        let tag = |id: &StreamId| self.get(*id).map(|account| account.tag);
        match next.into_iter().flatten().min_by_key(tag) {
            // Streams that are behind have all they want at the device: more pieces from streams that are
            // ahead would take their places there.
            Some(id) if streams.in_flight() > 0 && (self.is_ahead(id) || self.is_early(id)) => {
                Pick::Hold { stream: id, until: now + REST }
            }
            Some(id) => self.switch_to(now, id),
            None => Pick::Nothing,
        }
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        self.note(now, stream);
        let Some((start, end)) = stream.last_piece() else { return };
        self.position = end;
        let account = self.account(stream.id());
        account.goes_on = account.end == start;
        account.end = end;
        // Among few the nearest is looked for: their tags are to be true.
        if account.ready && account.mixes && self.depth == 1 {
            self.list(stream.id());
        }
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        let current = self.current == Some(stream.id());
        self.account(stream.id()).piece_done(now, piece, current);
        self.note(now, stream);
        self.sort_out(now, stream.id());
    }

    fn changed(&mut self, now: Instant, stream: StreamView<'_>) {
        self.note(now, stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        if self.get(stream).is_none() {
            return;
        }
        self.leave(stream);
        self.unlist(stream);
        self.accounts[slot(stream)] = None;
        self.resting.remove(stream.0);
        self.current = self.current.filter(|id| *id != stream);
        self.returned = self.returned.filter(|id| *id != stream);
        self.stale = true;
    }

    fn turns(&mut self) -> Option<&mut dyn Turns> {
        Some(self)
    }
}

impl Turns for Disktime {
    fn trusts(&mut self, costs: Trust) -> bool {
        self.deep_costs = costs;
        costs != Trust::Stated
    }

    fn priced(&mut self, now: Instant, stream: StreamId, seen: Seen) {
        // It may send in other classes only, of which nothing is told here.
        let Some(Some(account)) = self.accounts.get_mut(slot(stream)) else { return };
        account.priced_at = Some(now);
        account.priced_by_tier |= seen != Seen::Alone;
        if seen == Seen::Crowded {
            account.part(now);
        }
    }

    fn in_turn(&self) -> bool {
        let watched = |account: &Account| account.watched;
        self.costs != Trust::Learned
            || self.current.and_then(|id| self.get(id)).is_some_and(watched)
    }

    fn window(&mut self, now: Instant, window: &Window<'_>) {
        if self.costs == Trust::Learned {
            self.judge(now, window);
        }
    }

    fn set_horizon(&mut self, horizon: Duration) {
        self.horizon = horizon;
        self.stale = true;
    }
}
