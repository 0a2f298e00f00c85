//! The books: the device's ledger, the sums of what streams and classes were charged, and the means of
//! working out who pays.
//!
//! Does not know: why a stream pays, or how windows are divided.

use alloc::vec::Vec;

use super::shaping::Shaping;
use crate::account::ledger::Ledger;
use crate::account::posting::{self, Debited, Debt, Part, Posting, Why};
use crate::account::stream_accounts::StreamCounters;
use crate::account::usage::UsageClock;
use crate::account::write_back::WriteBack;
use crate::classes::promise::ROUND;
use crate::classes::stream::{Stream, StreamTable};
use crate::cost::Trust;
use crate::policy::Owner;
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::time::{Duration, Instant};

#[derive(Default)]
pub(super) struct Books {
    pub(super) ledger: Ledger,
    pub(super) write_back: WriteBack,
    pub(super) usage_clock: UsageClock,
    /// The policy gives slices: a piece is charged the time since the previous completion while one stream has
    /// the device to itself, at any depth, and beside guests by windows, at depth 1, too.
    pub(super) slices: bool,
    /// The unit that accounts count for each piece, if not its disk time.
    pub(super) unit: Option<Duration>,
    /// The time that each class was charged.
    pub(super) by_class: [Duration; Rank::COUNT],
    /// The time that removed streams had been charged.
    departed: Duration,
    /// The payments of streams for each other that removed streams leave one-sided, in ns.
    departed_passed: i128,
    /// The parts of a flush's time that other streams pay.
    pub(super) debts: Vec<Debt>,
    /// Lists of parts of windows are made in this.
    pub(super) parts: Vec<Part>,
    /// The stream that owns the device, under a policy that gives slices.
    pub(super) slice: Option<Owner>,
    /// The owner of the open window.
    pub(super) owner: Option<StreamId>,
}

impl Books {
    pub(super) fn new(window: Duration, trust: Trust, slices: bool) -> Self {
        let ledger = Ledger::new(window, trust == Trust::Learned);
        Self { ledger, slices, ..Self::default() }
    }

    /// The only place that changes what streams, classes and the device's ledger are charged. Answers by how much
    /// the payer's debits were too low.
    pub(super) fn post(
        &mut self,
        now: Instant,
        streams: &mut StreamTable,
        shaping: Option<&mut Shaping>,
        &Posting { payer, time, ref why }: &Posting<'_>,
    ) -> i64 {
        self.ledger.post(time, why);
        if let Why::WriteBack { of } = why {
            streams[*of].counters.relieved += time;
        }
        let Some(id) = payer else { return 0 };
        let stream = &mut streams[id];
        stream.counters.charged += time;
        let (mut count, mut estimates, mut used) = (1, 0, time);
        match why {
            Why::Service(debited) => {
                (count, estimates) = (debited.pieces.max(1), debited.estimates);
                let by_unit = Duration::from_nanos(estimates.unsigned_abs());
                used = self.unit.map_or(time, |_| by_unit);
                split(time, debited, &mut self.by_class);
                shaping.into_iter().for_each(|it| it.correct(now, id, debited, time));
            }
            Why::WriteBack { .. } => {
                stream.counters.afterwards += time;
                self.by_class[stream.home().at()] += time;
            }
            _ => {
                stream.counters.held += time;
                self.by_class[Rank::Best.at()] += time;
                shaping.into_iter().for_each(|it| it.held_idle(now, stream, time));
            }
        }
        let each = Duration::from_nanos(used.as_nanos() / u64::from(count));
        let weight = self.usage_clock.weight(now);
        // Slices may take a stream ahead of its reservation by a round, which is no debt to forgive.
        let round = if self.slices { ROUND } else { Duration::ZERO };
        stream.charge(each + round, estimates, used, weight, now);
        used.as_tokens() - estimates
    }

    /// A stream goes.
    pub(super) fn forget(&mut self, gone: &Stream) {
        self.departed += gone.counters.charged;
        self.departed_passed -= passed(gone);
        self.write_back.forget(gone.id);
    }

    /// Checks the sums of the accounts of all streams.
    pub(super) fn assert_conserved(&self, now: Instant, at_work: bool, streams: &StreamTable) {
        self.ledger.assert_conserved(now, at_work);
        let total = self.ledger.charged().as_nanos();
        let by_class = self.by_class.iter().map(|charged| charged.as_nanos()).sum::<u64>();
        assert_eq!(by_class, total, "all charges are a class's");
        let charged = streams.iter().map(|stream| stream.counters.charged.as_nanos()).sum::<u64>();
        assert_eq!(charged + self.departed.as_nanos(), total, "all charges are on an account");
        let passed = streams.iter().map(passed).sum::<i128>();
        assert_eq!(passed, self.departed_passed, "a stream is relieved of what others pay");
        let undivided = streams.iter().any(|stream| stream.in_window.pieces > 0);
        assert!(!undivided || self.ledger.cut_at().is_some(), "a window was forgotten");
    }
}

/// The time that a stream paid for others, less what others paid for it, in ns.
fn passed(stream: &Stream) -> i128 {
    let StreamCounters { afterwards, relieved, .. } = stream.counters;
    i128::from(afterwards.as_nanos()) - i128::from(relieved.as_nanos())
}

/// Adds a charge to the classes whose pieces it was for, in proportion to modelled cost; every nanosecond
/// goes to one.
fn split(charge: Duration, debited: &Debited, by_class: &mut [Duration; Rank::COUNT]) {
    let (mut left, mut parts) = (charge.as_nanos(), debited.modelled);
    for (modelled, charged) in debited.by_rank.iter().zip(by_class).filter(|(it, _)| **it > 0) {
        let part = posting::share(left, *modelled, parts);
        *charged += Duration::from_nanos(part);
        (left, parts) = (left - part, parts - modelled);
    }
}
