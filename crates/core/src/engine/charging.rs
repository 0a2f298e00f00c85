//! Charging: how busy and held time becomes streams' debts.

use core::ops::Add;

use super::Engine;
use super::admit::Booked;
use super::device::Hold;
use crate::account::posting::{Posting, Why};
use crate::classes::lane::{Gate, Lane};
use crate::classes::stream::Stream;
use crate::cost::Costs;
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::time::{Duration, Instant};

impl Engine {
    /// Whether one piece at a time is at the device, and is charged the time that it took.
    pub(super) fn is_shallow(&self) -> bool {
        self.limits.depth == 1 && !self.books.slices
    }

    /// The device has nothing to do. Answers whether that closed a window.
    pub(super) fn close_idle(&mut self) -> bool {
        let open = self.books.ledger.pieces() > 0;
        if open {
            self.close_window(self.books.ledger.last_completion());
            self.flush();
        }
        self.books.ledger.idle();
        open
    }

    /// The device stays idle for `stream`; a new hold ends the old one.
    pub(super) fn hold_for(&mut self, stream: StreamId, until: Instant) {
        let same = self.device.hold.filter(|hold| hold.stream == stream);
        if same.is_none() {
            self.release_hold();
        }
        let idle = (self.in_flight() == 0).then_some(self.now);
        let since = same.and_then(|hold| hold.since).or(idle);
        self.device.hold = Some(Hold { stream, since, until });
    }

    /// Ends a hold and charges it.
    pub(super) fn release_hold(&mut self) {
        let Some(hold) = self.device.hold.take() else { return };
        let held = hold.since.map_or(Duration::ZERO, |since| self.now.min(hold.until).since(since));
        self.charge_held(hold.stream, held);
    }

    /// The device was idle for so long because whoever drives it was at work for that stream: as if it
    /// had been held for it. While it is held anyway that is no one's.
    pub fn handle_idled(&mut self, now: Instant, stream: StreamId, time: Duration) {
        self.observe(now);
        if self.device.hold.is_none() {
            self.charge_held(stream, time);
            self.flush();
        }
    }

    fn charge_held(&mut self, id: StreamId, time: Duration) {
        if time > Duration::ZERO && self.stream(id).is_some() {
            self.post(&Posting { payer: Some(id), time, why: Why::Hold });
        }
    }

    /// All recent usage loses the doublings that the clock scaled out; orders stay, keys change.
    pub(super) fn fade(&mut self, bits: u32) {
        for stream in self.streams.iter_mut() {
            stream.accounts.usage.shift(bits);
            self.gates.mark(stream.id);
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
        self.books.assert_conserved(self.now, self.in_flight() > 0, &self.streams);
        let mut booked = Booked::default();
        for stream in self.streams.iter() {
            let Stream { id, counters: c, live, lanes, spec, .. } = stream;
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
            booked.count(&spec.contract, spec.parent, u64::add);
        }
        self.assert_families();
        assert_eq!(booked, self.contracts.booked, "contracts are booked once");
        let pieces = self.streams.iter().map(|stream| stream.pieces).sum::<u32>();
        assert_eq!(pieces, self.in_flight(), "pieces are conserved");
        for rank in Rank::ALL {
            let gates = self.streams.iter().map(|stream| stream.lanes[rank].gate);
            let ready = gates.filter(|gate| *gate == Gate::Ready).count();
            assert_eq!(ready, self.gates.ready[rank.at()] as usize, "ready streams are counted");
        }
    }
}
