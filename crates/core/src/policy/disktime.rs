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

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "disktime",
    doc: "shares of disk time, in turns that are long enough to be worth their seek",
    source: "this project: docs/scheduling.md",
    currency: Currency::Time,
    keeps_reservations: true,
    reorders: false,
    build: || Box::new(Disktime::default()),
};

/// Shares in parts of 10^9.
const PARTS: i64 = 1_000_000_000;
/// Insulation is best over windows of a minute.
const WINDOW: i64 = 60_000_000_000;
/// Virtual time by which a stream that was idle may be behind: what it saved up.
const CREDIT: i64 = 100_000_000;
/// A stream that asks again within this was not idle.
const REST: Duration = Duration::from_millis(20);
/// What a return is taken to cost until it was seen: optimistic, or a device that never waits for a
/// stream never learns that it should.
const SWITCH: i64 = 10_000_000;
/// Longest swing if none is configured.
const HORIZON: Duration = Duration::from_secs(1);
/// Tags are moved back before they come near the end of their range.
const REBASE_AT: i64 = i64::MAX / 4;

/// A mean that follows: of the first few values exactly, then each counts 1/32.
#[derive(Clone, Copy, Default)]
struct Mean {
    value: i64,
    count: i64,
}

impl Mean {
    fn add(&mut self, value: i64) {
        self.count = (self.count + 1).min(128);
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
    idle_since: Instant,
    /// The next piece to complete is the first after others.
    fresh: bool,
    /// What first pieces take, the others, and the time to the next request when it has none.
    first: Mean,
    others: Mean,
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
            idle_since: Instant::ZERO,
            fresh: false,
            first: Mean::default(),
            others: Mean::default(),
            think: Mean::default(),
            swing: 0,
        }
    }

    /// What a return costs it.
    fn switch_cost(&self) -> i64 {
        if self.first.count == 0 || self.others.count == 0 {
            return SWITCH;
        }
        (self.first.value - self.others.value).max(0)
    }

    fn best_swing(&self) -> i64 {
        let both = i128::from(self.share) * i128::from((PARTS - self.share).max(0)) / i128::from(PARTS);
        let square = i128::from(self.switch_cost()) * i128::from(WINDOW) / i128::from(PARTS) * both;
        i64::try_from(square.isqrt()).unwrap_or(i64::MAX)
    }
}

struct Disktime {
    accounts: Vec<Option<Account>>,
    /// Ready streams by tag; none above what it is.
    tags: IndexedHeap,
    /// Members by when they leave, should they be idle then; none later than it is.
    resting: IndexedHeap,
    /// V.
    time: i64,
    /// Over the members: Σφ, and Σφ·(tag - V).
    shares: i64,
    ahead: i128,
    /// Over the members: Σ swing and Σ swing², for horizons.
    swings: i64,
    squares: i128,
    /// Contracts have changed: shares are to be worked out.
    stale: bool,
    /// Who has the device, and how far its tag may be ahead of V.
    current: Option<StreamId>,
    reach: i64,
    last_completion: Instant,
    /// Who came back and is owed time.
    returned: Option<StreamId>,
    horizon: Duration,
}

impl Default for Disktime {
    fn default() -> Self {
        Self {
            accounts: Vec::new(),
            tags: IndexedHeap::default(),
            resting: IndexedHeap::default(),
            time: 0,
            shares: 0,
            ahead: 0,
            swings: 0,
            squares: 0,
            stale: false,
            current: None,
            reach: 0,
            last_completion: Instant::ZERO,
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
        let account = self.accounts[slot(id)].get_or_insert_with(|| Account::new(view));
        let contract = view.contract();
        if (account.reserve, account.weight) != (contract.reserve, contract.weight) {
            (account.reserve, account.weight) = (contract.reserve, contract.weight);
            self.stale = true;
        }
        let account = self.accounts[slot(id)].as_mut().expect("just put in");
        let used = view.used() - account.used;
        let was = core::mem::replace(&mut account.ready, view.ready());
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
                self.tags.remove(id.0);
                self.account(id).idle_since = now;
                self.resting.lower(id.0, Some((now + REST).as_nanos().cast_signed()));
            }
            (true, true) if used < 0 => {
                let tag = self.account(id).tag;
                self.tags.lower(id.0, Some(tag));
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
        self.tags = IndexedHeap::default();
        for (id, account) in (0..).zip(&mut self.accounts) {
            let Some(account) = account else { continue };
            account.tag = account.tag.saturating_sub(back);
            if account.ready {
                self.tags.set(id, account.tag);
            }
        }
    }

    /// A stream wants to run.
    fn join(&mut self, now: Instant, id: StreamId) {
        let (time, last) = (self.time, self.last_completion);
        let account = self.account(id);
        let think = now.since(account.idle_since.max(last.min(now)));
        let rested = now.since(account.idle_since) > REST || !account.member;
        if rested {
            account.tag = account.tag.max(time - CREDIT);
        } else {
            account.think.add(think.as_nanos().cast_signed());
        }
        let (tag, owed) = (account.tag, account.tag <= time);
        if !account.member {
            account.member = true;
            let swing = account.best_swing();
            account.swing = swing;
            let share = account.share;
            self.shares += share;
            self.ahead += i128::from(share) * i128::from(tag - time);
            self.swings += swing;
            self.squares += i128::from(swing) * i128::from(swing);
            self.advance();
        }
        if rested && owed {
            self.returned = Some(id);
        }
        self.tags.set(id.0, tag);
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
        self.swings -= swing;
        self.squares -= i128::from(swing) * i128::from(swing);
        self.advance();
    }

    /// Members that were idle for long leave.
    fn let_go(&mut self, now: Instant) {
        while let Some((at, id)) = self.resting.peek() {
            if at > now.as_nanos().cast_signed() {
                return;
            }
            let account = self.get(StreamId(id)).copied().filter(|it| it.member && !it.ready);
            match account.map(|account| account.idle_since + REST) {
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
            account.swing = account.best_swing();
            if account.member {
                shares += account.share;
                ahead += i128::from(account.share) * i128::from(account.tag - self.time);
                swings += account.swing;
                squares += i128::from(account.swing) * i128::from(account.swing);
            }
        }
        (self.shares, self.ahead) = (shares, ahead);
        (self.swings, self.squares) = (swings, squares);
        self.advance();
    }

    /// Gives the device to a stream, until its tag has come to its horizon.
    fn switch_to(&mut self, id: StreamId) -> Pick {
        let (swings, squares) = (self.swings.max(1), self.squares);
        let cap = self.horizon.as_tokens();
        let switched = self.current.replace(id) != Some(id);
        let account = self.account(id);
        account.fresh |= switched;
        // Horizons are parts of one swing, by what suits each: the mean of these, each counted as
        // much as it is.
        let swing = i64::try_from(squares / i128::from(swings)).unwrap_or(i64::MAX).min(cap);
        let own = i128::from(swing) * i128::from(account.swing) / i128::from(swings);
        let reach = own * i128::from(PARTS) / i128::from(account.share);
        self.reach = i64::try_from(reach).unwrap_or(REBASE_AT);
        Pick::Stream(id)
    }

    /// The stream that is furthest behind.
    fn furthest_behind(&mut self) -> Option<StreamId> {
        let accounts = &self.accounts;
        let tag = |id: u32| accounts.get(id as usize)?.as_ref().map(|account| account.tag);
        self.tags.first(tag, i64::MAX).map(StreamId)
    }
}

impl Policy for Disktime {
    fn arrived(&mut self, now: Instant, stream: StreamView<'_>, _request: &Request) {
        if stream.queued() == 1 {
            self.note(now, stream);
        }
    }

    fn left(&mut self, _now: Instant, _stream: StreamId, _request: RequestId) {}

    fn pick(&mut self, now: Instant, _streams: Streams<'_>) -> Pick {
        if self.stale {
            self.work_out_shares();
        }
        self.let_go(now);
        let ready = |it: &Self, id: StreamId| it.get(id).is_some_and(|account| account.ready);
        if let Some(id) = self.returned.take().filter(|id| ready(self, *id)) {
            return self.switch_to(id);
        }
        if let Some(id) = self.current {
            let until = self.time.saturating_add(self.reach);
            let account = self.account(id);
            if account.tag < until {
                if account.ready {
                    return Pick::Stream(id);
                }
                let think = if account.think.count == 0 { 1_000_000 } else { account.think.value };
                let patience = (4 * think + 100_000).min(account.switch_cost());
                let wait = account.idle_since + Duration::from_nanos(patience.cast_unsigned());
                if wait > now && think < account.switch_cost() && !self.tags.is_empty() {
                    return Pick::Hold { stream: id, until: wait };
                }
            }
        }
        match self.furthest_behind() {
            Some(id) => self.switch_to(id),
            None => Pick::Nothing,
        }
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        self.note(now, stream);
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        let took = now.since(self.last_completion).min(piece.response).as_nanos().cast_signed();
        self.last_completion = now;
        let account = self.account(stream.id());
        if core::mem::replace(&mut account.fresh, false) {
            account.first.add(took);
            #[cfg(feature="dbg")] std::eprintln!("{now:?} {:?} first {} c {} first {} oth {} swing {}", stream.id(), took/1000, account.switch_cost()/1000, account.first.value/1000, account.others.value/1000, account.swing/1000);
            let (before, swing) = (account.swing, account.best_swing());
            account.swing = swing;
            if account.member {
                self.swings += swing - before;
                self.squares += i128::from(swing).pow(2) - i128::from(before).pow(2);
            }
        } else {
            account.others.add(took);
        }
        self.note(now, stream);
    }

    fn changed(&mut self, now: Instant, stream: StreamView<'_>) {
        self.note(now, stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        if self.get(stream).is_none() {
            return;
        }
        self.leave(stream);
        self.accounts[slot(stream)] = None;
        self.tags.remove(stream.0);
        self.resting.remove(stream.0);
        self.current = self.current.filter(|id| *id != stream);
        self.returned = self.returned.filter(|id| *id != stream);
        self.stale = true;
    }

    fn timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
