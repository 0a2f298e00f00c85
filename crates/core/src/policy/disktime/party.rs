//! Whether those who mix lose by it: what each of them does, by what it would do alone in the time that
//! it is charged.
//!
//! Pieces of several streams at the device at once may be a gain for all (a stream that asks for one
//! page at a time leaves most of a flash device idle), no matter, or a great loss (a sequential
//! stream among random ones, reads behind a backlog of writes). Which it is shows when they do: in
//! its windows each stream that wanted all it could get should have done as much, by its learned
//! price, as it was charged. How much of the time it was charged is another matter: tags see to that,
//! and who comes back with credit has more of it than its share, at no loss to anyone.

use crate::types::time::Duration;

/// A stream that has been among others for so long, and has done less than so many 64ths of what it was
/// charged, does not belong in shared mode; after the last bar it is clear that the others do.
const BARS: [(Duration, i128); 3] = [
    (Duration::from_millis(400), 48),
    (Duration::from_millis(1600), 58),
    (Duration::from_millis(6400), 62),
];
/// Prices must have changed if together they do so many 64ths more or less than before.
const CHANGE: i128 = 8;

/// How a stream did among others.
#[derive(Clone, Copy, Default)]
pub(super) struct Trial {
    pub(super) epoch: u32,
    /// Time of windows in which pieces of it completed, in ns,
    pub(super) busy: i128,
    /// what these take by its price,
    pub(super) reckoned: i128,
    /// and what they were charged.
    pub(super) charged: i128,
    /// How long it had no work.
    pub(super) idle: i128,
}

impl Trial {
    /// It did so much in a window in which all did `sum`.
    pub(super) fn window(&mut self, busy: Duration, reckoned: Duration, sum: i128) {
        let [busy, reckoned] = [busy, reckoned].map(|time| i128::from(time.as_nanos()));
        self.busy += busy;
        self.reckoned += reckoned;
        self.charged += busy * reckoned / sum.max(1);
    }

    /// Whether it wanted all it could get (seven eighths of the time) and paid too much for it.
    pub(super) fn loses(&self) -> bool {
        let seen = |(after, _): &&(Duration, i128)| self.busy >= i128::from(after.as_nanos());
        let bar = BARS.iter().rev().find(seen).map_or(0, |(_, bar)| *bar);
        self.idle * 8 < self.busy && self.reckoned * 64 < self.charged * bar
    }
}

/// Windows of those who mix, since the last one came or went.
#[derive(Default)]
pub(super) struct Party {
    busy: i128,
    /// How often they were judged.
    judged: usize,
    /// The work that all did when this was judged last, in 64ths of the time.
    before: Option<i128>,
    /// Counts companies.
    pub(super) epoch: u32,
}

impl Party {
    /// Somebody came or went.
    pub(super) fn begin(&mut self) {
        (self.busy, self.judged) = (0, 0);
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// It is another company, not the same once more.
    pub(super) fn change(&mut self) {
        self.before = None;
        self.begin();
    }

    /// A window is over. Answers whether it is time to judge.
    pub(super) fn window(&mut self, busy: Duration) -> bool {
        self.busy += i128::from(busy.as_nanos());
        let due = BARS
            .get(self.judged)
            .is_some_and(|(after, _)| self.busy >= i128::from(after.as_nanos()));
        self.judged += usize::from(due);
        due
    }

    /// The last bar is passed, with that much done together: whether some price must have changed.
    /// Begins anew.
    pub(super) fn passes(&mut self, reckoned: i128) -> Option<bool> {
        if self.judged < BARS.len() {
            return None;
        }
        let now = reckoned * 64 / self.busy.max(1);
        self.begin();
        let before = self.before.replace(now)?;
        Some((now - before).abs() > CHANGE.max(before / 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(100);

    /// So many windows in which a stream did so many ms, and others `theirs`.
    fn trial(windows: u32, own: u64, theirs: u64) -> Trial {
        let mut trial = Trial::default();
        for _ in 0..windows {
            let sum = Duration::from_millis(own + theirs).as_nanos();
            trial.window(WINDOW, Duration::from_millis(own), i128::from(sum));
        }
        trial
    }

    /// It was judged by its share of the time: beside one who came back with credit it had 31 64ths
    /// of that after four windows, and all had turns for 30 s, where nobody lost.
    #[test]
    fn who_has_little_beside_one_with_credit_does_not_lose() {
        assert!(!trial(64, 10, 90).loses() && !trial(64, 90, 10).loses());
        assert!(trial(64, 10, 80).loses(), "a tenth of the time is lost");
    }

    #[test]
    fn a_small_loss_takes_long_to_be_one() {
        assert!(trial(4, 35, 35).loses() && !trial(3, 35, 35).loses());
        assert!(trial(16, 44, 44).loses() && !trial(15, 44, 44).loses());
        assert!(trial(64, 48, 48).loses() && !trial(63, 48, 48).loses());
    }

    #[test]
    fn who_was_idle_for_an_eighth_of_the_time_did_not_want_all_it_could_get() {
        let mut light = trial(64, 20, 20);
        light.idle = 800_000_000;
        assert!(!light.loses());
        light.idle -= 1;
        assert!(light.loses());
    }

    /// Windows that a turn cuts short said as much as others: four of them were 2 ms.
    #[test]
    fn it_is_time_that_counts_not_windows() {
        let mut party = Party::default();
        for _ in 0..399 {
            assert!(!party.window(Duration::from_millis(1)));
        }
        assert!(party.window(Duration::from_millis(1)));
        assert!(!party.window(Duration::from_millis(1199)));
        assert!(party.window(Duration::from_millis(1)));
        assert_eq!(party.passes(1), None, "the last bar is to come");
        assert!(party.window(Duration::from_millis(4800)));
        assert_eq!(party.passes(6_400_000_000), None, "nothing to compare with");
    }
}
