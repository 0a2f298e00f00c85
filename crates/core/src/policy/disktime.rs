//! Shares of disk time in turns that are long enough to be worth their seek. The product's policy.
//!
//! Each stream has a *share* φ: its reservation, and of what nobody reserved its part by weight. Its
//! *tag* is the disk time that it has used divided by φ, so tags of streams that are served fairly
//! keep pace. V, the *virtual time*, is the mean of the tags of those who want to run, weighted by
//! share, and never falls. A stream whose tag is below V is owed time; one above V is ahead.
//!
//! 1. Who has the device keeps it while it has work and is ahead by no more than its *horizon*.
//! 2. Then the stream that is furthest behind goes.
//! 3. A stream that comes back from idleness and is owed time goes at once.
//! 4. If the stream that has the device is about to ask again, sooner than the seek back would
//!    take, the device waits for it (and it pays).
//!
//! A return to a stream costs it c, its first piece after others were served against its other
//! pieces: measured, always. Horizons together make a swing H; a stream's loss is c(1-φ)/H of its
//! throughput on average, and in a window W its service varies by H/(φW). The swing that makes both
//! alike is H = (c/ε)·√(φ(1-φ)), and either is ε·√((1-φ)/φ) over windows of c/ε².
//! `docs/scheduling.md` has the derivation, the guarantee with its proof, and what physics forbids.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use crate::heap::IndexedHeap;
use crate::request::{Request, RequestId, StreamId};
use crate::share::Share;
use crate::stream::{StreamView, Streams};
use crate::time::{Duration, Instant};

mod returns;

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

/// Shares in parts of 10^9.
const PARTS: i64 = 1_000_000_000;
/// Insulation is made for windows of a minute.
const WINDOW: i64 = 60_000_000_000;
/// One part in this may be lost to returns,
const LOSS: i128 = 100;
/// and a window may vary by one part in this.
const VARIATION: i128 = 16;
/// Virtual time by which a stream that was idle may be behind: what it saved up.
const CREDIT: i64 = 100_000_000;
/// A stream that asks again within this was not idle.
const REST: Duration = Duration::from_millis(20);
/// From a completion to the next request, until it was seen.
const UNSEEN_THINK: i64 = 1_000_000;
/// Longest swing if none is configured.
const HORIZON: Duration = Duration::from_millis(350);
/// Tags are moved back before they come near the end of their range.
const REBASE_AT: i64 = i64::MAX / 4;

/// A mean in which older values fade.
#[derive(Clone, Copy, Default)]
struct Mean {
    value: i64,
    count: i64,
}

impl Mean {
    fn add(&mut self, value: i64) {
        self.count = (self.count + 1).min(32);
        self.value += (value - self.value) / self.count;
    }
}

#[derive(Clone, Copy)]
struct Account {
    reserve: Share,
    weight: u32,
    /// φ in parts of 10^9.
    share: i64,
    tag: i64,
    /// Of what it was debited, as seen last.
    used: i64,
    /// Its tag counts in the mean.
    member: bool,
    ready: bool,
    /// Pieces at the device.
    flying: u32,
    idle_since: Instant,
    /// Others' pieces may go between its own.
    mixes: bool,
    /// It keeps the device full alone.
    fills: bool,
    /// What its pieces took between others'.
    mixed: Mean,
    /// Most of its pieces at the device in this stay.
    peak: u32,
    /// In this stay it has the device for itself.
    watched: bool,
    /// What it costs it to come back.
    returns: Returns,
    /// From a completion that left it without work to its next request.
    think: Mean,
    /// The swing that suits it.
    swing: i64,
}

impl Account {
    fn new(view: StreamView<'_>) -> Self {
        Self {
            reserve: Share::ZERO,
            weight: 0,
            share: 1,
            tag: i64::MIN / 2,
            used: view.used(),
            member: false,
            ready: false,
            flying: 0,
            idle_since: Instant::ZERO,
            mixes: false,
            fills: false,
            mixed: Mean::default(),
            peak: 0,
            watched: false,
            returns: Returns::default(),
            think: Mean::default(),
            swing: 0,
        }
    }

    /// The swing that suits it: a hundredth is lost to returns if a window then varies by no more
    /// than a sixteenth; at least the swing at which both are alike.
    fn best_swing(&self, priced: bool) -> i64 {
        if priced {
            return 0;
        }
        let cost = i128::from(self.returns.cost());
        let (share, rest) = (i128::from(self.share), i128::from((PARTS - self.share).max(0)));
        let parts = i128::from(PARTS);
        let both = share * rest / parts * i128::from(WINDOW) / parts;
        let loses_little = cost * rest / parts * LOSS;
        let swing = loses_little.min(both / VARIATION).max((cost * both).isqrt());
        i64::try_from(swing).unwrap_or(i64::MAX)
    }
}

struct Disktime {
    accounts: Vec<Option<Account>>,
    /// Ready streams that take turns, and those that mix, by tag; none above what it is.
    tags: [IndexedHeap; 2],
    /// Prices say what pieces cost, whoever has the device: all mix.
    priced: bool,
    /// How many pieces the device may hold.
    depth: u32,
    /// Members by when they leave, should they be idle then; none later than it is.
    resting: IndexedHeap,
    /// V.
    time: i64,
    /// Over the members: Σφ, and Σφ·(tag - V).
    shares: i64,
    ahead: i128,
    /// Over the members: Σ swing and Σ swing².
    swings: i64,
    squares: i128,
    /// The largest sum of swings so far.
    swings_max: i64,
    dearest: i64,
    /// Contracts have changed: shares are to be worked out.
    stale: bool,
    /// Who has the device, and how far its tag may be ahead of V.
    current: Option<StreamId>,
    reach: i64,
    /// Who came back and is owed time.
    returned: Option<StreamId>,
    horizon: Duration,
}

impl Default for Disktime {
    fn default() -> Self {
        Self {
            accounts: Vec::new(),
            tags: [IndexedHeap::default(), IndexedHeap::default()],
            priced: false,
            depth: 1,
            resting: IndexedHeap::default(),
            time: 0,
            shares: 0,
            ahead: 0,
            swings: 0,
            squares: 0,
            swings_max: 0,
            dearest: 0,
            stale: false,
            current: None,
            reach: 0,
            returned: None,
            horizon: HORIZON,
        }
    }
}

fn slot(id: StreamId) -> usize {
    id.0 as usize
}

impl Disktime {
    fn account(&mut self, id: StreamId) -> &mut Account {
        self.accounts[slot(id)].as_mut().expect("streams are announced before they run")
    }

    fn get(&self, id: StreamId) -> Option<&Account> {
        self.accounts.get(slot(id))?.as_ref()
    }

    /// Takes in what the view shows.
    fn note(&mut self, now: Instant, view: StreamView<'_>) {
        let id = view.id();
        if slot(id) >= self.accounts.len() {
            self.accounts.resize(slot(id) + 1, None);
        }
        let priced = self.priced;
        let account = self.accounts[slot(id)]
            .get_or_insert_with(|| Account { mixes: priced, ..Account::new(view) });
        let contract = view.contract();
        if (account.reserve, account.weight) != (contract.reserve, contract.weight) {
            (account.reserve, account.weight) = (contract.reserve, contract.weight);
            self.stale = true;
        }
        let account = self.accounts[slot(id)].as_mut().expect("just put in");
        let used = view.used() - account.used;
        let was = core::mem::replace(&mut account.ready, view.ready());
        account.flying = view.in_flight();
        account.peak = account.peak.max(account.flying);
        let (ready, member) = (account.ready, account.member);
        if used != 0 {
            account.used += used;
            let step = i128::from(used) * i128::from(PARTS) / i128::from(account.share);
            let step = i64::try_from(step).unwrap_or(REBASE_AT);
            account.tag = account.tag.saturating_add(step);
            let share = account.share;
            if member {
                self.ahead += i128::from(share) * i128::from(step);
                self.advance();
            }
        }
        match (was, ready) {
            (false, true) => self.join(now, id),
            (true, false) => {
                self.unlist(id);
                self.account(id).idle_since = now;
                self.resting.lower(id.0, Some((now + REST).as_nanos().cast_signed()));
            }
            (true, true) if used < 0 => {
                self.list(id);
            }
            _ => {}
        }
    }

    /// V follows the mean of the members' tags upwards.
    fn advance(&mut self) {
        if self.ahead > 0 && self.shares > 0 {
            let rise = self.ahead / i128::from(self.shares);
            self.ahead -= rise * i128::from(self.shares);
            self.time = self.time.saturating_add(i64::try_from(rise).unwrap_or(REBASE_AT));
            if self.time > REBASE_AT {
                self.rebase();
            }
        }
    }

    fn rebase(&mut self) {
        let back = core::mem::take(&mut self.time);
        for (id, account) in (0..).zip(&mut self.accounts) {
            let Some(account) = account else { continue };
            account.tag = account.tag.saturating_sub(back);
            if account.ready {
                self.tags[usize::from(account.mixes)].set(id, account.tag);
            }
        }
    }

    /// A stream wants to run.
    fn join(&mut self, now: Instant, id: StreamId) {
        let (time, priced) = (self.time, self.priced);
        let account = self.account(id);
        let rested = !account.member;
        if rested || priced {
            account.tag = account.tag.max(time - CREDIT);
        } else if account.flying == 0 {
            account.think.add(now.since(account.idle_since).as_tokens());
        }
        let (tag, owed) = (account.tag, account.tag <= time);
        if !account.member {
            account.member = true;
            let swing = account.best_swing(priced);
            account.swing = swing;
            let share = account.share;
            self.shares += share;
            self.ahead += i128::from(share) * i128::from(tag - time);
            self.swap_swing(0, swing);
            self.advance();
        }
        if rested && owed {
            self.returned = Some(id);
        }
        self.list(id);
    }

    /// Among the streams that are ready.
    fn list(&mut self, id: StreamId) {
        let Account { tag, mixes, .. } = *self.account(id);
        self.tags[usize::from(mixes)].set(id.0, tag);
    }

    fn unlist(&mut self, id: StreamId) {
        let mixes = self.account(id).mixes;
        self.tags[usize::from(mixes)].remove(id.0);
    }

    /// It is no longer reckoned with.
    fn leave(&mut self, id: StreamId) {
        let time = self.time;
        let account = self.account(id);
        if !core::mem::replace(&mut account.member, false) {
            return;
        }
        let Account { share, tag, swing, .. } = *account;
        self.shares -= share;
        self.ahead -= i128::from(share) * i128::from(tag - time);
        self.swap_swing(swing, 0);
        self.advance();
    }

    /// Members that were idle for long leave.
    fn let_go(&mut self, now: Instant) {
        while let Some((at, id)) = self.resting.peek() {
            if at > now.as_nanos().cast_signed() {
                return;
            }
            let account = self.get(StreamId(id)).copied().filter(|it| it.member && !it.ready);
            let since = account.map(|it| if it.flying > 0 { now } else { it.idle_since });
            match since.map(|since| since + REST) {
                Some(due) if due > now => self.resting.set(id, due.as_nanos().cast_signed()),
                leaves => {
                    self.resting.remove(id);
                    if leaves.is_some() {
                        self.leave(StreamId(id));
                    }
                }
            }
        }
    }

    /// Shares from contracts: what is reserved, and by weight what is not.
    fn work_out_shares(&mut self) {
        self.stale = false;
        let known = || self.accounts.iter().flatten();
        let ppm = |share: Share| i64::from(share.ppm()) * (PARTS / i64::from(Share::PARTS));
        let free = PARTS - known().map(|account| ppm(account.reserve)).sum::<i64>();
        let weights = known().map(|account| i64::from(account.weight)).sum::<i64>().max(1);
        let (mut shares, mut ahead) = (0, 0);
        let (mut swings, mut squares) = (0, 0);
        for account in self.accounts.iter_mut().flatten() {
            let weight = i64::from(account.weight);
            let part = i128::from(free.max(0)) * i128::from(weight) / i128::from(weights);
            let part = i64::try_from(part).unwrap_or(PARTS);
            // When all is reserved the others still share what is not used.
            account.share = (ppm(account.reserve) + part).max(weight).max(1);
            account.swing = account.best_swing(self.priced);
            if account.member {
                shares += account.share;
                ahead += i128::from(account.share) * i128::from(account.tag - self.time);
                swings += account.swing;
                squares += i128::from(account.swing).pow(2);
            }
        }
        (self.shares, self.ahead) = (shares, ahead);
        (self.swings, self.squares) = (swings, squares);
        self.advance();
    }

    fn swap_swing(&mut self, old: i64, new: i64) {
        self.swings += new - old;
        self.squares += i128::from(new).pow(2) - i128::from(old).pow(2);
        self.swings_max = self.swings_max.max(self.swings);
    }

    /// Gives the device to a stream, until its tag has come to its horizon.
    fn switch_to(&mut self, now: Instant, id: StreamId) -> Pick {
        if self.current != Some(id) {
            self.end_stay(now);
            self.current = Some(id);
            let account = self.account(id);
            account.returns.begin(now);
            account.peak = account.flying;
            account.watched = !account.mixes || account.returns.is_curious(now);
        }
        self.go_on_with(id)
    }

    fn go_on_with(&mut self, id: StreamId) -> Pick {
        self.current = Some(id);
        self.reach = self.get(id).map_or(0, |account| self.reach_of(account));
        Pick::Stream(id)
    }

    /// Others get the device.
    fn end_stay(&mut self, now: Instant) {
        let (cap, depth, priced) = (self.horizon.as_tokens(), self.depth, self.priced);
        let Some(id) = self.current.take().filter(|id| self.get(*id).is_some()) else { return };
        let account = self.account(id);
        if !account.returns.end() {
            return;
        }
        let swing = account.best_swing(priced).min(cap);
        let before = core::mem::replace(&mut account.swing, swing);
        account.fills = account.peak.saturating_mul(4) >= depth.saturating_mul(3);
        if account.returns.explores() {
            account.mixed = Mean::default();
        }
        if account.member {
            self.swap_swing(before, swing);
        }
        self.sort_out(id);
    }

    /// Whether a stream shall mix. Who keeps the device full alone gains nothing from others' pieces
    /// between its own.
    fn sort_out(&mut self, id: StreamId) {
        let priced = self.priced;
        let account = self.account(id);
        let (cost, mixed) = (account.returns.cost(), account.mixed);
        let cheap = |usual: i64| cost <= usual && !(mixed.count > 8 && mixed.value > usual * 9 / 8);
        let mixes = priced || !account.fills && account.returns.usual().is_some_and(cheap);
        let ready = account.ready;
        if mixes != account.mixes {
            self.unlist(id);
            self.account(id).mixes = mixes;
            if ready {
                self.list(id);
            }
        }
    }

    /// Whether the stream that has the device keeps it, or the device waits for it.
    fn stay(&mut self, now: Instant, streams: Streams<'_>) -> Option<Pick> {
        let id = self.current?;
        let until = self.time.saturating_add(self.reach);
        let nobody = self.tags.iter().all(IndexedHeap::is_empty);
        let account = self.account(id);
        let curious = account.returns.is_curious(now);
        if account.tag >= until && !curious {
            return None;
        }
        if account.ready {
            return Some(Pick::Stream(id));
        }
        if nobody {
            return None;
        }
        let mixes = account.mixes;
        let flying = streams.get(id).map_or(0, StreamView::in_flight);
        if mixes && !curious {
            let next = self.furthest_behind(true);
            if let Some(next) = next.filter(|next| self.priced || !self.is_ahead(*next)) {
                return Some(self.go_on_with(next));
            }
        }
        if self.priced {
            return None;
        }
        if flying > 0 {
            return Some(Pick::Hold { stream: id, until: now + REST });
        }
        let account = self.account(id);
        let cost = account.returns.cost();
        let think = if account.think.count == 0 { UNSEEN_THINK } else { account.think.value };
        let patience = (4 * think + UNSEEN_THINK / 10).min(cost);
        let until = account.idle_since + Duration::from_nanos(patience.unsigned_abs());
        (until > now && think < cost).then_some(Pick::Hold { stream: id, until })
    }

    /// Whether a stream would be beyond its horizon.
    fn is_ahead(&self, id: StreamId) -> bool {
        self.get(id).is_some_and(|it| it.tag > self.time.saturating_add(self.reach_of(it)))
    }

    /// How far a stream's tag may be ahead of V.
    fn reach_of(&self, account: &Account) -> i64 {
        let Account { swing, share, .. } = *account;
        // Among equals each has half of its swing ahead of its due, as it falls behind by the other
        // half while they have the device; beside streams that need none it has all of it ahead.
        let square = i128::from(swing).pow(2);
        let rest = (self.squares - square) / i128::from((self.swings - swing).max(1));
        let horizon = square / (i128::from(swing) + rest).max(1);
        i64::try_from(horizon * i128::from(PARTS) / i128::from(share)).unwrap_or(REBASE_AT)
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

    fn left(&mut self, _now: Instant, _stream: StreamId, _request: RequestId) {}

    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        self.depth = streams.depth();
        if self.stale {
            self.work_out_shares();
        }
        self.let_go(now);
        let returned = self.returned.take();
        if let Some(id) = returned.filter(|id| self.get(*id).is_some_and(|it| it.ready)) {
            return self.switch_to(now, id);
        }
        if let Some(pick) = self.stay(now, streams) {
            return pick;
        }
        let next = [self.furthest_behind(false), self.furthest_behind(true)];
        let tag = |id: &StreamId| self.get(*id).map(|account| account.tag);
        match next.into_iter().flatten().min_by_key(tag) {
            // Those who are behind have all they want at the device: more from those who are ahead
            // would take their places there.
            Some(id) if streams.in_flight() > 0 && !self.priced && self.is_ahead(id) => {
                Pick::Hold { stream: id, until: now + REST }
            }
            Some(id) => self.switch_to(now, id),
            None => Pick::Nothing,
        }
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        self.note(now, stream);
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        let took = piece.charge.as_tokens();
        self.dearest = self.dearest.max(took);
        let current = self.current == Some(stream.id());
        let account = self.account(stream.id());
        account.idle_since = now;
        if current && account.watched {
            account.returns.piece(now, took);
        } else if account.mixes {
            account.mixed.add(took);
        }
        self.note(now, stream);
        self.sort_out(stream.id());
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

    fn timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn gives_turns(&mut self, priced: bool) -> bool {
        self.priced = priced;
        !priced
    }

    fn lead(&self) -> Duration {
        let known = i64::try_from(self.accounts.len()).unwrap_or(i64::MAX);
        let pieces = self.dearest.saturating_mul(known);
        let lead = self.swings_max.saturating_add(pieces).saturating_add(2 * CREDIT);
        Duration::from_nanos(lead.unsigned_abs())
    }

    fn set_horizon(&mut self, horizon: Duration) {
        self.horizon = horizon;
    }
}
