//! A stream: its contract, its accounts and its queues.

use alloc::boxed::Box;

use super::cycle::Cycle;
use super::lane::Lanes;
use super::promise::Behind;
use crate::account::posting::Debited;
use crate::account::stream_accounts::{Accounts, StreamCounters};
use crate::types::by_stream::ByStream;
use crate::types::contract::{Class, Contract, StreamSpec};
use crate::types::ids::StreamId;
use crate::types::rank::{Rank, Ranks};
use crate::types::share::Share;
use crate::types::time::{Duration, Instant};

/// All streams of a device.
pub(crate) type StreamTable = ByStream<Stream>;

pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) spec: StreamSpec,
    /// Waiting requests, by class.
    pub(crate) lanes: Lanes,
    /// Its own class's lane, and those in which something waits or did when their policies were last
    /// told: the others are not touched.
    pub(crate) active: Ranks,
    /// Requests waiting in all lanes.
    pub(crate) queued: u32,
    /// The cycle of a guaranteed rate.
    pub(crate) cycle: Option<Box<Cycle>>,
    /// End of the piece that went out last, in bytes on the device.
    pub(crate) last_end: Option<u64>,
    /// Start of it.
    pub(crate) last_start: u64,
    /// Pieces at the device.
    pub(crate) pieces: u32,
    /// Requests that arrived and have not completed.
    pub(crate) live: u32,
    /// Its pieces that came back in the open window.
    pub(crate) in_window: Debited,
    pub(crate) counters: StreamCounters,
    /// How far it is behind its reservation.
    pub(crate) behind: Behind,
    /// Cycles missed in a row.
    pub(crate) misses: u32,
    pub(crate) accounts: Accounts,
}

impl Stream {
    pub(crate) fn new(id: StreamId, spec: StreamSpec, period: Duration, now: Instant) -> Self {
        Self {
            id,
            spec,
            lanes: Lanes::new(spec.contract.class.into()),
            active: Ranks::of(spec.contract.class.into()),
            queued: 0,
            cycle: None,
            last_end: None,
            last_start: 0,
            pieces: 0,
            live: 0,
            in_window: Debited::default(),
            counters: StreamCounters::default(),
            behind: Behind::new(spec.contract.reserve, now),
            misses: 0,
            accounts: Accounts::new(spec.contract, period, now),
        }
    }

    /// Where its own requests wait, if they state no class.
    pub(crate) fn home(&self) -> Rank {
        self.spec.contract.class.into()
    }

    /// Where a request waits that states this class. A higher one than the stream's own needs what
    /// that class is paid with: reserved time, or a rate.
    pub(crate) fn lane_of(&self, class: Option<Class>) -> Rank {
        let (home, contract) = (self.home(), self.spec.contract);
        let Some(asked) = class.map(Rank::from) else { return home };
        let paid = match asked {
            Rank::Latency => contract.reserve > Share::ZERO,
            Rank::Rate => contract.rate.is_some(),
            Rank::Best | Rank::Background => true,
        };
        if asked >= home || paid { asked } else { home }
    }

    /// Whether its requests of guaranteed latency still have reserved time, or when again, in ns.
    pub(crate) fn has_reserved_time(&mut self, now: Instant) -> Result<(), i64> {
        let reserve = &mut self.accounts.reserve;
        reserve.advance(now);
        if reserve.level() > 0 { Ok(()) } else { Err(reserve.holds_at(1)) }
    }

    pub(crate) fn set_contract(&mut self, contract: Contract, period: Duration, now: Instant) {
        let accounts = &mut self.accounts;
        accounts.own = contract.reserve;
        self.spec.contract = contract;
        self.active.insert(contract.class.into());
        if self.accounts.rests {
            self.lend(now);
        } else {
            self.serve_by(contract.reserve, contract.weight, period, now);
        }
    }

    /// The reservation and the weight by which it is served from now on: its contract's, or its part of its
    /// family's.
    pub(crate) fn serve_by(&mut self, reserve: Share, weight: u32, period: Duration, now: Instant) {
        let accounts = &mut self.accounts;
        accounts.reserve.advance(now);
        accounts.reserve.set_rate(reserve);
        accounts.weight = weight;
        accounts.set_bounds(Contract { reserve, ..self.spec.contract }, period, now);
        accounts.cap_credit();
        accounts.forgive_debt(0);
    }

    /// Others of its family are served by its part from now on. It keeps what it had saved up.
    pub(crate) fn lend(&mut self, now: Instant) {
        self.wake(now);
        self.accounts.reserve.set_rate(Share::ZERO);
        self.accounts.weight = 0;
    }

    /// The contract of its own requests: a parent's children have parts of its reservation.
    pub(crate) fn promised(&self) -> Contract {
        Contract { reserve: self.accounts.own, ..self.spec.contract }
    }

    /// The reservation that follows from its rate.
    pub(crate) fn grant_share(&mut self, share: Share, period: Duration, now: Instant) {
        if self.spec.contract.reserve != share {
            let contract = Contract { reserve: share, ..self.spec.contract };
            self.set_contract(contract, period, now);
        }
    }

    /// Its own depth, not the device's, keeps its next piece back: that is idleness by choice,
    /// and must not pile up credit.
    pub(crate) fn held_by_own_depth(&self, device_depth: u32) -> bool {
        self.pieces >= self.spec.depth_max && self.spec.depth_max < device_depth
    }

    /// One of its pieces is back from the device.
    #[inline]
    pub(crate) fn landed(&mut self, now: Instant, device_depth: u32) {
        if self.held_by_own_depth(device_depth) {
            self.wake(now);
        }
        self.pieces -= 1;
    }

    /// The stream may run again after its queue was empty or its own depth full: it keeps at
    /// most u.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.accounts.reserve.advance(now);
        self.accounts.cap_credit();
    }

    /// Debits an estimate at dispatch.
    pub(crate) fn debit(&mut self, estimate: Duration, weight: i64, now: Instant) {
        self.accounts.pending += estimate.as_tokens();
        self.take(estimate.as_tokens(), weight, now);
    }

    /// Corrects the debited estimates of pieces to what was really used, in what the accounts count.
    /// Debt is forgiven but for `kept`: a piece, and a round of the policy's slices.
    pub(crate) fn charge(
        &mut self,
        kept: Duration,
        estimates: i64,
        used: Duration,
        weight: i64,
        now: Instant,
    ) {
        self.behind.charged(used, now);
        self.accounts.pending -= estimates;
        self.take(used.as_tokens() - estimates, weight, now);
        self.accounts.forgive_debt(kept.as_tokens());
    }

    /// Takes tokens from all accounts, or gives them back if there are fewer than none.
    #[inline]
    fn take(&mut self, tokens: i64, weight: i64, now: Instant) {
        self.accounts.reserve.advance(now);
        self.accounts.reserve.take(tokens);
        self.accounts.limit.take(tokens, now);
        self.accounts.usage.add(tokens, weight);
        if let Some(cycle) = &mut self.cycle {
            cycle.used(tokens);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The disk time of a guaranteed rate's cycle is used by estimates, and corrected like accounts.
    #[test]
    fn pieces_use_the_time_of_their_streams_cycle() {
        let (now, ms) = (Instant::ZERO, Duration::from_millis);
        let mut stream = Stream::new(StreamId(0), StreamSpec::default(), ms(1_000), now);
        stream.cycle = Some(Cycle::new(ms(1_000), 4_096, Some(ms(10)), now).into());
        let open = |stream: &Stream| stream.cycle.as_ref().is_some_and(|cycle| cycle.open());
        stream.debit(ms(10), 1, now);
        assert!(!open(&stream), "all of it is debited");
        stream.charge(ms(0), ms(10).as_tokens(), ms(4), 1, now);
        assert!(open(&stream), "6 ms were not used");
    }
}
