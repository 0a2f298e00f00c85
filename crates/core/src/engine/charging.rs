//! Charging: how busy and held time becomes streams' debts.

use super::admit::Booked;
use super::{Engine, Hold};
use crate::account::posting::{Posting, Why};
use crate::account::stream_accounts::StreamCounters;
use crate::classes::lane::{Gate, Lane};
use crate::classes::stream::Stream;
use crate::cost::Costs;
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::time::{Duration, Instant};

impl Engine {
    pub(super) fn in_turn(&mut self) -> bool {
        self.between && self.policies[Rank::Best.at()].turns().is_some_and(|turns| turns.in_turn())
    }

    /// Whether a piece that comes back now is charged the time that it took. At depth 1 it is not
    /// while a window is open: the depth was lowered in it. Deeper, a turn closes the window first.
    pub(super) fn charges_alone(&mut self) -> bool {
        let (shallow, in_turn) = (self.limits.depth == 1, self.in_turn());
        let window = shallow && self.ledger.pieces() > 0;
        !window && (in_turn || (shallow && self.in_flight == 0))
    }

    /// The device has nothing to do. Answers whether that closed a window.
    pub(super) fn close_idle(&mut self) -> bool {
        let open = self.ledger.pieces() > 0;
        if open {
            self.close_window(self.ledger.last_completion());
            self.flush();
        }
        self.ledger.idle();
        open
    }

    /// The device stays idle for `stream`; a new hold ends the old one.
    pub(super) fn hold_for(&mut self, stream: StreamId, until: Instant) {
        if self.hold.is_none_or(|hold| hold.stream != stream) {
            self.release_hold();
            self.hold = Some(Hold { stream, since: None, until });
        }
        if let Some(hold) = &mut self.hold {
            hold.until = until;
            if self.in_flight == 0 {
                hold.since.get_or_insert(self.now);
            }
        }
    }

    /// Ends a hold and charges it.
    pub(super) fn release_hold(&mut self) {
        let Some(hold) = self.hold.take() else { return };
        let held = hold.since.map_or(Duration::ZERO, |since| self.now.since(since));
        self.charge_held(hold.stream, held);
    }

    /// The device was idle for so long because whoever drives it was at work for that stream: as if it
    /// had been held for it. While it is held anyway that is no one's.
    pub fn handle_idled(&mut self, now: Instant, stream: StreamId, time: Duration) {
        self.observe(now);
        if self.hold.is_none() {
            self.charge_held(stream, time);
            self.flush();
        }
    }

    fn charge_held(&mut self, id: StreamId, time: Duration) {
        if time > Duration::ZERO && self.stream(id).is_some() {
            self.post(Posting { payer: Some(id), time, why: Why::Hold });
        }
    }

    /// All recent usage loses the doublings that the clock scaled out; orders stay, keys change.
    pub(super) fn fade(&mut self, bits: u32) {
        for stream in self.streams.iter_mut().flatten() {
            stream.fade(bits);
            self.marked.push(stream.id);
        }
        self.flush();
    }

    /// The costs of requests, if the policy works them out or the cost model learns them.
    #[must_use]
    pub fn costs(&mut self) -> Option<Costs> {
        self.policies[Rank::Best.at()].costs().or_else(|| self.prices.costs())
    }

    /// Checks every sum that must hold; O(streams).
    ///
    /// # Panics
    /// If one does not: a bug in the engine.
    pub fn assert_conserved(&self) {
        self.ledger.assert_conserved(self.now, self.in_flight > 0);
        let streams = || self.streams.iter().flatten();
        for stream in streams() {
            let Stream { id, counters: c, live, lanes, .. } = stream;
            let over = c.refused + c.completed + c.cancelled;
            assert_eq!(c.arrived, over + u64::from(*live), "requests of {id:?} are conserved");
            let queued = lanes.iter().map(|lane| lane.queue.len()).sum::<u32>();
            assert_eq!(queued, stream.queued, "{id:?} has requests queued that it does not count");
            assert!(queued <= *live, "{id:?} has queued requests that do not live");
            let ready = |lane: &Lane| lane.gate == Gate::Shut || lane.head.is_some();
            assert!(lanes.iter().all(ready), "{id:?} is ready without work");
            let empty = |lane: &&Lane| lane.queue.len() == 0;
            let bytes = lanes.iter().filter(empty).map(|lane| lane.bytes).sum::<u64>();
            assert_eq!(bytes, 0, "{id:?} has bytes queued without requests");
        }
        let by_class = self.by_class.iter().map(|charged| charged.as_nanos()).sum::<u64>();
        assert_eq!(by_class, self.ledger.charged().as_nanos(), "all charges are a class's");
        let charged = streams().map(|stream| stream.counters.charged.as_nanos()).sum::<u64>();
        let total = self.ledger.charged().as_nanos();
        assert_eq!(charged + self.departed.as_nanos(), total, "all charges are on an account");
        let passed = streams().map(|stream| {
            let StreamCounters { afterwards, relieved, .. } = stream.counters;
            i128::from(afterwards.as_nanos()) - i128::from(relieved.as_nanos())
        });
        assert_eq!(passed.sum::<i128>(), self.departed_passed, "who is relieved, another pays for");
        let pieces = streams().map(|stream| stream.pieces).sum::<u32>();
        assert_eq!(pieces, self.in_flight, "pieces are conserved");
        assert_eq!(self.pieces.len(), self.in_flight as usize, "pieces are conserved");
        for rank in Rank::ALL {
            let ready = |stream: &&Stream| stream.lanes[rank].gate == Gate::Ready;
            let count = streams().filter(ready).count();
            assert_eq!(count, self.ready[rank.at()] as usize, "ready streams are counted");
        }
        let idle = |stream: &&Stream| stream.in_window.pieces == 0;
        let mut booked = Booked::default();
        streams().for_each(|stream| booked.add(&stream.spec.contract));
        assert_eq!(booked, self.booked, "contracts are booked once");
        let undivided = streams().filter(|stream| !idle(stream)).count();
        assert!(undivided == 0 || self.ledger.cut_at().is_some(), "a window was forgotten");
    }
}
