//! State of the policy for one stream: its share and tag, its pace alone, and its switch cost.

use crate::policy::think::{Mean, Think};
use crate::policy::virtual_time::{Claims, PARTS};
use crate::types::time::{Duration, Instant};

#[derive(Clone, Copy)]
pub(super) struct Account {
    pub(super) claims: Claims,
    pub(super) tag: i64,
    /// Disk time that it was debited, as seen last.
    pub(super) used: i64,
    /// Its tag counts in the virtual time.
    pub(super) member: bool,
    pub(super) ready: bool,
    /// It came back from idleness with a positive lag, which it still has.
    pub(super) light: bool,
    pub(super) idle_since: Instant,
    pub(super) think: Think,
    pub(super) pace: Pace,
    /// The time that its slices lose to switches, at their beginnings and ends, and the part that counts in the
    /// round.
    pub(super) switch: [Mean<16>; 2],
    pub(super) counted: i64,
    /// As owner of slices: the time that guests took from them, and what these pieces take alone.
    pub(super) guests: Guests,
    pub(super) habits: Habits,
}

/// How a stream uses the device.
#[derive(Clone, Copy, Default)]
pub(super) struct Habits {
    /// Most of its pieces at the device in its last slices.
    pub(super) peak: u32,
    /// It writes.
    pub(super) writes: bool,
    /// Where its last piece ended, and whether that one began where the one before did.
    pub(super) end: u64,
    pub(super) goes_on: bool,
    pub(super) slices: u32,
    /// It was not ready though it had work: for its limit, or its depth.
    pub(super) blocked: bool,
    /// On a device that tells tiers: its price is known.
    pub(super) mixes: bool,
}

impl Account {
    pub(super) fn new(used: i64) -> Self {
        Self {
            claims: Claims::default(),
            tag: i64::MIN / 2,
            used,
            member: false,
            ready: false,
            light: false,
            idle_since: Instant::ZERO,
            think: Think::default(),
            pace: Pace::default(),
            switch: [Mean::default(); 2],
            counted: 0,
            guests: Guests::default(),
            habits: Habits::default(),
        }
    }

    /// Whether others' pieces may be at the device with its own: it reads, does not fill the device, and a
    /// switch costs it no more than one of its pieces.
    pub(super) fn shares(&self, depth: u32) -> bool {
        let Habits { peak, writes, goes_on, .. } = self.habits;
        let fills = match depth {
            1 => goes_on,
            depth => peak.saturating_mul(2) > depth,
        };
        let loses = match self.pace.piece().filter(|_| self.switch[0].count > 0) {
            Some(piece) => self.switch[0].value + self.switch[1].value > piece,
            None => goes_on,
        };
        !writes && !fills && !loses
    }

    /// Whether a stream of that share ([`PARTS`]) has less than its share among others, however soon it asks again:
    /// a request and the think time after it take longer than alone by more than the share allows.
    pub(super) fn starves(&self, share: i64) -> bool {
        let Some(beside) = self.pace.beside() else { return false };
        let think = i128::from(self.think.mean());
        let alone = i128::from(self.pace.piece().unwrap_or(0)) + think;
        (i128::from(beside) + think) * i128::from(share) > alone * i128::from(PARTS)
    }
}

/// The time of a stream's pieces while it has the device to itself, per modelled time.
#[derive(Clone, Copy, Default)]
pub(super) struct Pace {
    took: i64,
    modelled: i64,
    pieces: i64,
    pub(super) seen_at: Option<Instant>,
    /// How long the device holds one of its pieces beside others'.
    response: Mean<16>,
}

impl Pace {
    /// Sums are over so much time at most.
    const MEMORY: i64 = 2_000_000_000;

    pub(super) fn add(&mut self, now: Instant, took: i64, modelled: i64, pieces: i64) {
        if modelled <= 0 || pieces <= 0 {
            return;
        }
        if self.took > Self::MEMORY {
            (self.took, self.modelled) = (self.took / 2, self.modelled / 2);
            self.pieces /= 2;
        }
        self.took = self.took.saturating_add(took);
        self.modelled = self.modelled.saturating_add(modelled);
        self.pieces += pieces;
        self.seen_at = Some(now);
    }

    /// Pieces of that modelled time took no longer than that beside others'.
    pub(super) fn correct(&mut self, took: i64, modelled: i64) {
        let Some(seen_at) = self.seen_at else { return };
        let pieces =
            i128::from(self.pieces) * i128::from(modelled) / i128::from(self.modelled.max(1));
        self.add(seen_at, took, modelled, i64::try_from(pieces).unwrap_or(1).max(1));
    }

    /// The device held one of its pieces for so long, beside others': alone a piece takes no longer on average.
    pub(super) fn respond(&mut self, response: Duration) {
        self.response.add(response.as_tokens());
        let value = self.response.value;
        if self.response.is_full() && self.piece().is_some_and(|piece| piece > value) {
            self.took = value.saturating_mul(self.pieces).max(1);
        }
    }

    /// The time that pieces of that modelled time take alone.
    pub(super) fn of(self, modelled: i64) -> Option<i64> {
        self.seen_at?;
        let time = i128::from(modelled) * i128::from(self.took) / i128::from(self.modelled.max(1));
        Some(i64::try_from(time).unwrap_or(i64::MAX))
    }

    /// How long the device holds one of its pieces beside others', if that was seen.
    pub(super) fn beside(self) -> Option<i64> {
        (self.response.count > 0).then_some(self.response.value)
    }

    /// The time of one of its pieces.
    pub(super) fn piece(self) -> Option<i64> {
        self.seen_at?;
        Some(self.took / self.pieces.max(1))
    }
}

/// The doings of guests in an owner's slices.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Guests {
    /// The time by which they made the owner's pieces longer, and the modelled time of theirs.
    took: i64,
    modelled: i64,
    /// The time that their pieces take alone.
    alone: i64,
}

impl Guests {
    const MEMORY: i64 = 2_000_000_000;

    pub(super) fn add(&mut self, took: i64, modelled: i64, alone: i64) {
        if self.took.max(self.modelled).max(self.alone) > Self::MEMORY {
            (self.took, self.modelled) = (self.took / 2, self.modelled / 2);
            self.alone /= 2;
        }
        self.took = (self.took + took).max(0);
        self.modelled += modelled;
        self.alone += alone;
    }

    /// The cost of a guest's pieces of that modelled time, if guests were seen.
    pub(super) fn cost(self, modelled: i64) -> Option<i64> {
        let cost = i128::from(modelled) * i128::from(self.took) / i128::from(self.modelled.max(1));
        (self.modelled > 0).then(|| i64::try_from(cost).unwrap_or(i64::MAX).max(1))
    }

    /// The cost of a guest's pieces that take so long alone: no less than that.
    pub(super) fn share(self, alone: i64) -> i64 {
        if self.pay() {
            return alone;
        }
        let cost = i128::from(alone) * i128::from(self.took) / i128::from(self.alone.max(1));
        i64::try_from(cost).unwrap_or(i64::MAX)
    }

    /// Whether guests take less of the owner's time than they would of their own.
    pub(super) fn pay(self) -> bool {
        self.took <= self.alone
    }
}
