//! A stream's accounts: what it owns and has used, what was counted, what it has written.
//!
//! Does not know: the stream's queues, or the policy that orders them.

use super::usage::Usage;
use crate::types::bucket::TokenBucket;
use crate::types::contract::Contract;
use crate::types::limit::Limit;
use crate::types::share::Share;
use crate::types::time::{Duration, Instant};

/// Counts of a stream's requests by outcome, and the disk time that it was charged, since it was
/// added.
///
/// `arrived = refused + queued + in_flight + completed + cancelled`, always.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamCounters {
    /// Requests offered.
    pub arrived: u64,
    /// Requests that arrived and were refused.
    pub refused: u64,
    /// Done or failed.
    pub completed: u64,
    /// Requests that completed with an error; `completed` includes them.
    pub failed: u64,
    /// Given up before completion.
    pub cancelled: u64,
    /// Bytes of completed reads.
    pub bytes_read: u64,
    /// Bytes of completed writes.
    pub bytes_written: u64,
    /// Disk time charged, holding included.
    pub charged: Duration,
    /// Time for which the device was held idle for the stream; `charged` includes it.
    pub held: Duration,
    /// Time of others' pieces that went into the stream's writes; `charged` includes it.
    pub afterwards: Duration,
    /// Time of its own pieces that went into others' writes: they were charged for it.
    pub relieved: Duration,
    /// Cycles of a guaranteed rate that began with work waiting and are over.
    pub cycles: u64,
    /// Cycles that were not kept: the device did less than waited, up to what was granted.
    pub cycles_missed: u64,
}

/// Token buckets and recent usage (zygaria §2.1 and §3).
///
/// The reserve bucket's level stays in 0 ± u, u = reservation × period: an idle stream keeps at
/// most u, and a debt from slack is forgiven below -f·u (f the reservation), but for the request
/// that led there. With a plain floor of -u the guarantee would not hold: a stream that starts a
/// window at the floor gets nothing while its debt fills up and others use the slack, and then
/// waits f·(1-f)·p for streams that return with their u. -f·u keeps the sum at u
/// (`docs/appendix/guarantee-zygaria.md`).
#[derive(Default)]
pub(crate) struct Accounts {
    pub(crate) reserve: TokenBucket,
    pub(crate) limit: Limit,
    pub(crate) usage: Usage,
    /// Estimates debited and not yet corrected.
    pub(crate) pending: i64,
    /// Most credit kept while idle: u.
    pub(crate) credit_max: i64,
    /// Most debt kept from slack.
    debt_max: i64,
    /// The share that is reserved for its own requests: a parent's children have parts of its contract's.
    pub(crate) own: Share,
    /// The weight by which it is served now; 0 while it lends its part to its family.
    pub(crate) weight: u32,
    /// In a family: it has had nothing to do for a while.
    pub(crate) rests: bool,
}

impl Accounts {
    pub(crate) fn new(contract: Contract, period: Duration, now: Instant) -> Self {
        let reserve = TokenBucket::new(contract.reserve, now);
        let (own, weight) = (contract.reserve, contract.weight);
        let mut accounts = Self { reserve, own, weight, ..Self::default() };
        accounts.set_bounds(contract, period, now);
        accounts
    }

    pub(crate) fn set_bounds(&mut self, contract: Contract, period: Duration, now: Instant) {
        let of_tokens = |tokens: i64, share: Share| {
            let parts = i128::from(tokens) * i128::from(share.ppm());
            i64::try_from(parts / i128::from(Share::PARTS)).unwrap_or(i64::MAX)
        };
        self.credit_max = of_tokens(period.as_tokens(), contract.reserve);
        // The pieces at the device are corrected from their estimates when they come back.
        self.limit.set(contract.limit, period, self.pending, now);
        self.debt_max = of_tokens(self.credit_max, contract.reserve);
    }

    pub(crate) fn cap_credit(&mut self) {
        self.reserve.cap(self.credit_max.saturating_sub(self.pending));
    }

    /// Forgives what the debt exceeds its most by, but for the `last` request that led there.
    pub(crate) fn forgive_debt(&mut self, last: i64) {
        let settled = self.reserve.level().saturating_add(self.pending);
        let floor = self.debt_max.saturating_add(last).saturating_neg();
        if settled < floor {
            self.reserve.take(settled - floor);
        }
    }
}
