//! State of the policy for one stream: its share and tag, its pace alone, and its switch cost.

use super::slice::Sum;
use crate::policy::think::{Mean, Think};
use crate::policy::virtual_time::{Claims, PARTS};
use crate::types::ratio::quotient;
use crate::types::time::{Duration, Instant};

#[derive(Clone, Copy, Default)]
pub(super) struct Account {
    pub(super) claims: Claims,
    pub(super) tag: i64,
    /// Disk time that it was debited, as seen last.
    pub(super) used: i64,
    pub(super) state: State,
    pub(super) idle_since: Instant,
    pub(super) think: Think,
    pub(super) pace: Pace,
    /// The time that its slices lose to switches, at their beginnings and ends, and its part in the costs of a round:
    /// zero until its pace was seen.
    pub(super) switch: [Mean<16>; 2],
    /// The time that flushes of the device take at the ends of its slices, and that for each write in these.
    pub(super) flush: Mean<16>,
    pub(super) flush_each: Mean<16>,
    pub(super) counted: i64,
    /// As owner of slices: the time that guests took from them, and what these pieces take alone.
    pub(super) guests: Guests,
    pub(super) habits: Habits,
}

/// Whether a stream wants to run. Its tag counts in the virtual time unless it is away.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    #[default]
    Away,
    /// It has nothing to send since a moment ago.
    Resting(Turn),
    Ready(Turn),
}

/// When a stream's pieces go out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// In its slice, and in others' where it shares the device.
    Slice,
    /// At once: it came back from idleness with a positive lag, which it still has.
    Now,
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
    /// Slices that it has begun, or begun anew.
    pub(super) slices: u64,
    /// It was not ready though it had work: for its limit, or its depth.
    pub(super) blocked: bool,
    /// On a device that tells tiers: its price is known.
    pub(super) mixes: bool,
}

impl Account {
    pub(super) fn new(used: i64) -> Self {
        Self { used, tag: i64::MIN / 2, ..Self::default() }
    }

    /// Whether others' pieces may be at the device with its own: it does not fill the device, and loses nothing to
    /// switches. One piece at a time it reads. Where several are at the device at once, a guest is charged what its
    /// pieces take alone: that has to be known.
    pub(super) fn shares(&self, depth: u32, is_known: bool) -> bool {
        let Habits { writes, goes_on, .. } = self.habits;
        if depth == 1 {
            return !writes && !goes_on && !self.loses(1);
        }
        is_known && !self.fills(depth) && !self.is_new_writer(depth) && !self.loses(depth)
    }

    /// Whether switches cost it more than the pieces that it has at the device at once, which a switch waits for; while
    /// one was seen, more than one piece. A sequential stream, which seeks back after each piece of a guest, may lose
    /// one piece's time, and gain no more: a cache would take its writes. One that writes here and there loses what
    /// others left in the cache, as it would as a guest.
    fn loses(&self, depth: u32) -> bool {
        let Habits { goes_on, writes, peak, .. } = self.habits;
        let seen = self.switch[0].count;
        let Some(piece) = self.pace.piece().filter(|_| seen > 0) else { return goes_on };
        let at_once = if depth == 1 || goes_on || seen == 1 { 1 } else { peak.max(1) };
        let [began, ended] = self.switch.map(|it| it.value);
        let gains = writes && (seen == 1 || -began > piece);
        (goes_on || !writes) && (gains || began + ended > piece.saturating_mul(i64::from(at_once)))
    }

    /// Whether it writes, and is no guest yet for that: a cache may have taken all that its first slice showed.
    pub(super) fn is_new_writer(&self, depth: u32) -> bool {
        let Habits { writes, slices, .. } = self.habits;
        writes && slices < 2 && self.pace.seen_at.is_some() && !self.fills(depth)
    }

    /// Whether it goes here and there, one request at a time.
    pub(super) fn is_lone(&self) -> bool {
        !self.habits.goes_on && self.habits.peak <= 1
    }

    /// Whether it keeps more than half of what the device takes at once.
    pub(super) fn fills(&self, depth: u32) -> bool {
        self.habits.peak.saturating_mul(2) > depth
    }

    /// Whether a stream of that share ([`PARTS`]) has less than its share among others, however soon it asks again:
    /// as many requests as it has at the device at once, and the think time after them, take longer than alone by more
    /// than the share allows.
    pub(super) fn starves(&self, share: i64) -> bool {
        let Some(beside) = self.pace.beside() else { return false };
        let think = i128::from(self.think.mean());
        let alone = i128::from(self.pace.of(self.pace.at_once.value).unwrap_or(0)) + think;
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
    /// How long the device holds one of its pieces beside others', and the modelled time of these pieces.
    response: Mean<16>,
    modelled_beside: Mean<16>,
    /// The modelled time of as many as it had at the device at once then.
    at_once: Mean<16>,
}

impl Pace {
    /// Sums are over so much time at most, in ns.
    pub(super) const MEMORY: i64 = 2_000_000_000;

    pub(super) fn add(&mut self, now: Instant, took: i64, modelled: i64, pieces: i64) {
        if modelled <= 0 || pieces <= 0 {
            return;
        }
        if self.took > Self::MEMORY {
            (self.took, self.modelled, self.pieces) =
                (self.took / 2, self.modelled / 2, self.pieces / 2);
        }
        self.took = self.took.saturating_add(took);
        self.modelled = self.modelled.saturating_add(modelled);
        self.pieces += pieces;
        self.seen_at = Some(now);
    }

    /// All that was seen before has the weight of so many pieces at most.
    pub(super) fn fade(&mut self, most: i64) {
        let (pieces, left) = (self.pieces.max(1), self.pieces.min(most));
        (self.took, self.modelled) = (self.took / pieces * left, self.modelled / pieces * left);
        self.pieces = left;
    }

    /// Whether many pieces took half as long again as by this pace, or less than two thirds: chance is smaller with 32,
    /// and not with 8 (docs/appendix/tried-guests.md).
    pub(super) fn differs(self, Sum { took, modelled, pieces }: Sum) -> bool {
        let differs = |alone: i64| took.max(alone) / 3 > took.min(alone) / 2;
        pieces >= 32 && self.of(modelled).is_some_and(differs)
    }

    /// Pieces of that modelled time took no longer than that beside others'.
    pub(super) fn correct(&mut self, took: i64, modelled: i64) {
        let Some(seen_at) = self.seen_at else { return };
        let pieces = quotient(self.pieces, modelled, self.modelled.max(1)).unwrap_or(1);
        self.add(seen_at, took, modelled, pieces.max(1));
    }

    /// Pieces took so long with all that a switch costs: if its pace says more than twice that, it says too much. A
    /// slice that estimates use up shows nothing else, and of many requests a device answers those first that take it
    /// half of the time.
    pub(super) fn correct_down(&mut self, Sum { took, modelled, .. }: Sum) {
        if self.of(modelled).is_some_and(|alone| alone / 2 > took) {
            self.correct(took, modelled);
        }
    }

    /// The device held one of its pieces for so long, beside others': alone such pieces take no longer on average.
    pub(super) fn respond(&mut self, response: Duration, modelled: Duration, at_once: u32) {
        self.at_once.add(modelled.as_tokens().saturating_mul(i64::from(at_once)));
        self.response.add(response.as_tokens());
        self.modelled_beside.add(modelled.as_tokens());
        let (held, modelled) = (self.response.value, self.modelled_beside.value.max(1));
        if self.response.is_full() && self.of(modelled).is_some_and(|alone| alone > held) {
            self.took = quotient(self.modelled, held, modelled).unwrap_or(i64::MAX).max(1);
        }
    }

    /// The time that pieces of that modelled time take alone.
    pub(super) fn of(self, modelled: i64) -> Option<i64> {
        self.seen_at?;
        Some(quotient(modelled, self.took, self.modelled.max(1)).unwrap_or(i64::MAX))
    }

    /// How long the device holds one of its pieces beside others', if that was seen.
    pub(super) fn beside(self) -> Option<i64> {
        (self.response.count > 0).then_some(self.response.value)
    }

    /// The time of one of its pieces.
    pub(super) fn piece(self) -> Option<i64> {
        self.seen_at.map(|_| self.took / self.pieces.max(1))
    }
}

/// The doings of guests in an owner's slices.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Guests {
    /// The time by which they made the owner's pieces longer.
    took: i64,
    /// The time that their pieces take alone.
    alone: i64,
    /// One piece at a time: the time by which the owner's pieces were shorter beside guests than alone, which is to be
    /// made up for before guests pay again, as a sum below zero; and what guests pay of the window that is divided.
    gained: i64,
    pub(super) excess: Duration,
}

impl Guests {
    pub(super) fn add(&mut self, took: i64, alone: i64) {
        if self.took.saturating_abs().max(self.alone) > Pace::MEMORY {
            (self.took, self.alone) = (self.took / 2, self.alone / 2);
        }
        self.took = self.took.saturating_add(took);
        self.alone = self.alone.saturating_add(alone);
    }

    /// One piece at a time: the owner's pieces `took` that beside guests, and take so much alone. Guests pay the
    /// difference, summed over windows: chance makes pieces shorter as often as longer. `most` of that is remembered.
    pub(super) fn pass_on(&mut self, took: i64, alone: i64, most: i64) {
        let longer = self.gained.saturating_add(took.saturating_sub(alone));
        self.gained = longer.clamp(-most, 0);
        self.excess = Duration::from_nanos(longer.max(0).unsigned_abs());
    }

    /// The cost of a guest's pieces that take so long alone: no less than that.
    pub(super) fn share(self, alone: i64) -> i64 {
        let took = self.took.max(self.alone).max(1);
        quotient(alone, took, self.alone.max(1)).unwrap_or(i64::MAX)
    }

    /// The cost of guests' pieces by what they take alone, in permille, if there were any.
    pub(super) fn price(self) -> Option<u32> {
        let price = self.share(self.alone).checked_mul(1_000)?.checked_div(self.alone)?;
        Some(u32::try_from(price).unwrap_or(u32::MAX))
    }

    /// Whether guests take less of the owner's time than they would of their own.
    pub(super) fn pay(self) -> bool {
        self.took <= self.alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// A device that is twice as slow from now on: a stream's pace follows within seconds of its own slices.
    #[test]
    fn a_pace_is_half_way_to_a_slower_device_after_a_second_and_a_half_of_slices() {
        let mut pace = Pace::default();
        (0..3_000).for_each(|_| pace.add(Instant::ZERO, 10 * MS, 10 * MS, 10));
        assert_eq!(pace.of(1_000), Some(1_000));
        (0..75).for_each(|_| pace.add(Instant::ZERO, 20 * MS, 10 * MS, 10));
        let of = pace.of(1_000).expect("it was seen");
        assert!((1_400..=1_600).contains(&of), "{of}");
    }

    /// A guest whose pace is old shows sixteen pieces: they count as much as all before.
    #[test]
    fn an_old_pace_has_the_weight_of_a_few_pieces() {
        let after = |before: i64| {
            let mut pace = Pace::default();
            pace.add(Instant::ZERO, before * MS, before * MS, before);
            pace.fade(16);
            pace.add(Instant::ZERO, 32 * MS, 16 * MS, 16);
            pace.of(MS)
        };
        assert_eq!([100, 16, 8].map(after), [1_500_000, 1_500_000, 1_666_666].map(Some));
    }

    /// The mean of eight random reads is half as long again by chance now and then, that of 32 is not.
    #[test]
    fn a_pace_is_another_if_many_pieces_took_half_as_long_again() {
        let mut pace = Pace::default();
        let sum = |took, pieces| Sum { took, modelled: 10 * MS, pieces };
        assert!(!pace.differs(sum(100 * MS, 32)), "none was seen");
        pace.add(Instant::ZERO, 10 * MS, 10 * MS, 10);
        let differs = [6, 7, 15, 16].map(|took| pace.differs(sum(took * MS, 32)));
        assert_eq!(differs, [true, false, false, true]);
        assert!(!pace.differs(sum(100 * MS, 31)));
        assert!(!pace.differs(sum(i64::MAX, 31)) && pace.differs(sum(i64::MAX, 32)));
    }

    /// Guests whose pieces take twice as long as alone from now on pay for that within seconds.
    #[test]
    fn the_price_of_guests_is_half_way_after_a_second_and_a_half_of_their_time() {
        let mut guests = Guests::default();
        (0..3_000).for_each(|_| guests.add(10 * MS, 10 * MS));
        (0..75).for_each(|_| guests.add(20 * MS, 10 * MS));
        let share = guests.share(1_000);
        assert!((1_400..=1_600).contains(&share), "{share}");
    }

    /// A pace may be as long as a number can be: the sums stay what they are.
    #[test]
    fn what_guests_cost_is_bounded() {
        let mut guests = Guests::default();
        for _ in 0..3 {
            guests.add(-i64::MAX, i64::MAX);
            guests.pass_on(0, i64::MAX, 100 * MS);
        }
        assert_eq!((guests.share(1_000), guests.excess), (1_000, Duration::ZERO));
    }

    /// Four pieces of a millisecond at once: a switch that takes less than they do only waits for them. A sequential
    /// stream seeks back for as long, and one slice may show chance.
    #[test]
    fn a_guest_may_lose_as_much_as_its_pieces_at_once_take() {
        let shares = |loss: i64, slices: u32, change: fn(&mut Habits), depth: u32| {
            let mut account = Account::new(0);
            account.pace.add(Instant::ZERO, 10 * MS, 10 * MS, 10);
            account.habits = Habits { peak: 4, slices: 9, ..Habits::default() };
            change(&mut account.habits);
            (0..slices).for_each(|_| account.switch[0].add(loss + 8 * MS));
            (0..slices).for_each(|_| account.switch[1].add(-8 * MS));
            account.shares(depth, true)
        };
        let most = |slices, change, depth| {
            (1..=100).rev().find(|tenths| shares(tenths * MS / 10, slices, change, depth))
        };
        let here_and_there: fn(&mut Habits) = |_| ();
        assert_eq!(most(2, here_and_there, 8), Some(40));
        assert_eq!(most(2, |it| it.peak = 0, 8), Some(10));
        assert_eq!(most(1, here_and_there, 8), Some(10));
        assert_eq!(most(2, |it| it.goes_on = true, 8), Some(10));
        assert_eq!(most(2, here_and_there, 1), Some(10));
        assert_eq!(most(2, here_and_there, 7), None, "it fills the device");
        assert_eq!(most(2, |it| it.writes = true, 8), Some(100));
        assert_eq!(most(2, |it| it.writes = true, 1), None);
    }

    /// The beginnings of its slices are shorter than what comes after by more than a piece's time.
    #[test]
    fn a_sequential_stream_whose_writes_a_cache_takes_is_no_guest() {
        let shares = |gain: i64, slices: u32| {
            let mut account = Account::new(0);
            account.pace.add(Instant::ZERO, 10 * MS, 10 * MS, 10);
            account.habits = Habits { writes: true, goes_on: true, slices: 9, ..account.habits };
            (0..slices).for_each(|_| account.switch[0].add(-gain));
            account.shares(8, true)
        };
        assert_eq!([9, 11].map(|tenths| shares(tenths * MS / 10, 2)), [true, false]);
        assert!(!shares(0, 1) && !shares(0, 0), "one slice does not show that");
    }

    /// Guests that make nothing longer pay what they take alone.
    #[test]
    fn the_price_of_guests_is_by_what_they_take_alone_and_no_less_than_that() {
        let price = |took, alone| {
            let mut guests = Guests::default();
            guests.add(took, alone);
            guests.price()
        };
        assert_eq!(Guests::default().price(), None);
        assert_eq!([price(15, 10), price(10, 10), price(-3, 10)], [1_500, 1_000, 1_000].map(Some));
        assert_eq!(price(i64::MAX / 2_000, 1), Some(u32::MAX));
    }

    /// Three windows are longer than alone by 5 ms, and one is shorter by as much: guests pay for two.
    #[test]
    fn guests_pay_for_the_sum_of_windows_and_not_for_chance() {
        let mut guests = Guests::default();
        let mut paid = |took| {
            guests.pass_on(took * MS, 10 * MS, 100 * MS);
            guests.excess.as_nanos() / MS.unsigned_abs()
        };
        assert_eq!([15, 5, 15, 15].map(&mut paid), [5, 0, 0, 5]);
        // A pace that was far too long is forgotten, but for a slice's time.
        (0..100).for_each(|_| _ = paid(0));
        assert_eq!([90, 40, 15].map(paid), [0, 10, 5]);
    }

    /// A stream that goes over from long pieces to short ones, which the device holds for less beside others', is
    /// not taken for one whose pieces have all become as short.
    #[test]
    fn short_pieces_beside_others_say_nothing_of_what_long_ones_take() {
        let mut pace = Pace::default();
        (0..100).for_each(|_| pace.add(Instant::ZERO, 10 * MS, 10 * MS, 10));
        let short = Duration::from_micros(100);
        (0..100).for_each(|_| pace.respond(short, short, 1));
        assert_eq!(pace.of(MS), Some(MS));
        (0..100).for_each(|_| pace.respond(Duration::from_micros(50), short, 1));
        let of = pace.of(MS).expect("it was seen");
        assert!((500_000..=510_000).contains(&of), "{of}");
    }

    /// A stream of six tenths whose short pieces take twice as long beside others' starves, whatever its long ones
    /// took before.
    #[test]
    fn a_stream_starves_by_what_the_pieces_that_it_has_beside_others_take_alone() {
        let mut account = Account::new(0);
        account.pace.add(Instant::ZERO, 10 * MS, 10 * MS, 10);
        let short = Duration::from_micros(100);
        (0..16).for_each(|_| account.pace.respond(Duration::from_micros(200), short, 1));
        assert!(account.starves(PARTS * 6 / 10) && !account.starves(PARTS * 4 / 10));
        // Two of them at once take as long alone.
        (0..100).for_each(|_| account.pace.respond(Duration::from_micros(200), short, 2));
        assert!(!account.starves(PARTS * 9 / 10));
    }

    /// One slice says little of what a switch costs, and sixteen say most of it.
    #[test]
    fn switch_costs_and_responses_are_means_over_a_dozen_or_two() {
        let mut account = Account::new(0);
        let response = Duration::from_millis;
        (0..100).for_each(|_| account.pace.respond(response(0), response(1), 1));
        (0..16).for_each(|_| account.pace.respond(response(1), response(1), 1));
        let beside = account.pace.beside().expect("it was seen");
        assert!((MS * 55 / 100..=MS * 70 / 100).contains(&beside), "{beside}");
        for switch in &mut account.switch {
            (0..100).for_each(|_| switch.add(0));
            (0..16).for_each(|_| switch.add(MS));
            assert!((MS * 55 / 100..=MS * 70 / 100).contains(&switch.value), "{}", switch.value);
        }
    }
}
