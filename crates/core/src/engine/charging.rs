//! Charging: how busy and held time becomes streams' debts.

use super::pieces::Piece;
use super::{Engine, Hold};
use crate::account::ledger::Closing;
use crate::account::stream_accounts::StreamCounters;
use crate::classes::lane::{Gate, Lane};
use crate::classes::stream::Stream;
use crate::cost::{Costs, PieceKind};
use crate::policy::Window;
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::time::{Duration, Instant};

impl Engine {
    /// Notes a piece's end in the ledger. Answers its charge: what it used at depth 1, deeper what
    /// was debited, until the window closes. Others pay what is theirs of it (`written.rs`), of which
    /// `owed` is known. Charged by itself it is charged `most` at the most; the rest is spare.
    pub(super) fn settle(
        &mut self,
        piece: &Piece,
        owed: Option<(StreamId, Duration)>,
        most: Duration,
    ) -> Duration {
        let in_turn = self.in_turn();
        if in_turn && self.limits.depth > 1 && self.ledger.pieces() > 0 {
            // The window was of those who mixed before the turn.
            let closing = self.ledger.close(self.ledger.last_completion());
            self.divide(closing);
        }
        let modelled = piece.modelled.as_nanos();
        let shallow = self.limits.depth == 1 && self.in_flight == 0;
        if (shallow || in_turn) && self.ledger.pieces() == 0 {
            let took = self.ledger.completed_alone(self.now, most);
            let passed = self.pass_on(piece, took, owed);
            let charge = Duration::from_nanos(took.as_nanos() - passed.as_nanos());
            let round = self.round();
            let stream =
                self.streams[piece.stream.0 as usize].as_mut().expect("streams outlive pieces");
            stream.learn_usual(PieceKind::of(&piece.shape), charge);
            let weight = self.usage_clock.weight(self.now);
            let used = self.unit.unwrap_or(charge);
            stream.charge(used + round, piece.estimate.as_tokens(), used, weight, self.now);
            stream.counters.charged += charge;
            stream.counters.relieved += passed;
            if let (Some(shaping), Some(way)) = (&mut self.shaping, piece.paid) {
                let longer = charge.as_tokens() - piece.estimate.as_tokens();
                shaping.correct(self.now, piece.stream, way, longer);
            }
            self.by_class[piece.rank.at()] += charge;
            if piece.on_slack {
                self.guarantees.correct_slack(piece.estimate, took);
            }
            return charge;
        }
        self.note_in_window(piece);
        let stream =
            self.streams[piece.stream.0 as usize].as_mut().expect("streams outlive pieces");
        let window = &mut stream.in_window;
        self.ledger.completed(self.now, piece.stream, modelled, window.pieces == 0);
        window.pieces += 1;
        window.modelled += modelled;
        window.by_rank[piece.rank.at()] += modelled;
        window.estimates += piece.estimate.as_tokens();
        if let Some(way) = piece.paid {
            let (paid, estimates) = &mut window.paid[way as usize];
            *paid += modelled;
            *estimates += piece.estimate.as_tokens();
        }
        if shallow {
            // The depth was lowered while the window was open: it is divided as a deep one, and
            // write-back debt is not paid by it.
            self.written.skip_to(self.now);
            let closing = self.ledger.close(self.now);
            self.divide(closing);
        }
        piece.estimate
    }

    fn in_turn(&self) -> bool {
        self.between && self.policies[Rank::Best.at()].in_turn()
    }

    /// Whether a piece that comes back now is charged the time that it took. At depth 1 it is not
    /// while a window is open: the depth was lowered in it. Deeper, a turn closes the window first.
    pub(super) fn charges_alone(&self) -> bool {
        let (shallow, in_turn) = (self.limits.depth == 1, self.in_turn());
        let window = shallow && self.ledger.pieces() > 0;
        !window && (in_turn || (shallow && self.in_flight == 0))
    }

    /// The device has nothing to do. Answers whether that closed a window.
    pub(super) fn close_idle(&mut self) -> bool {
        let Some(closing) = self.ledger.idle() else { return false };
        self.divide(closing);
        true
    }

    /// Divides a window's busy time among the streams that completed pieces in it, in proportion
    /// to modelled cost; every nanosecond is given out.
    pub(super) fn divide(&mut self, mut closing: Closing) {
        let (weight, round) = (self.usage_clock.weight(self.now), self.round());
        let touched = core::mem::take(&mut closing.touched);
        let streams = &self.streams;
        let modelled = |id: StreamId| {
            let stream = streams[id.0 as usize].as_ref();
            Duration::from_nanos(stream.map_or(0, |stream| stream.in_window.modelled))
        };
        let window = Window { busy: closing.busy, streams: &touched, modelled: &modelled };
        self.policies[Rank::Best.at()].window(self.now, &window);
        for id in &touched {
            let stream = self.streams[id.0 as usize].as_mut().expect("removal closes the window");
            let window = core::mem::take(&mut stream.in_window);
            let charge = closing.part(window.modelled);
            let each = Duration::from_nanos(charge.as_nanos() / u64::from(window.pieces.max(1)));
            let used = match self.unit {
                Some(_) => Duration::from_nanos(window.estimates.unsigned_abs()),
                None => charge,
            };
            stream.charge(each + round, window.estimates, used, weight, self.now);
            stream.counters.charged += charge;
            if let Some(shaping) = &mut self.shaping {
                shaping.correct_window(self.now, *id, &window, charge);
            }
            split(charge, window.by_rank, &mut self.by_class);
            self.refresh(*id);
            self.tell_changed(*id);
        }
        assert!(closing.divide == 0 || touched.is_empty(), "a window is divided to the last ns");
        self.ledger.recycle(touched);
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
        }
    }

    fn charge_held(&mut self, id: StreamId, held: Duration) {
        let round = self.round();
        let Some(Some(stream)) = self.streams.get_mut(id.0 as usize) else { return };
        if held == Duration::ZERO {
            return;
        }
        self.ledger.held += held;
        self.ledger.charged += held;
        stream.counters.held += held;
        if let Some(shaping) = &mut self.shaping {
            shaping.held_idle(self.now, stream, held);
        }
        let weight = self.usage_clock.weight(self.now);
        stream.charge(held + round, 0, held, weight, self.now);
        stream.counters.charged += held;
        self.by_class[Rank::Best.at()] += held;
        self.refresh(id);
        self.tell_changed(id);
    }

    /// All recent usage loses the doublings that the clock scaled out; orders stay, keys change.
    pub(super) fn fade(&mut self, bits: u32) {
        for stream in self.streams.iter_mut().flatten() {
            stream.fade(bits);
        }
        for stream in self.streams.iter().flatten() {
            for rank in Rank::ALL {
                if stream.lanes[rank].gate == Gate::Ready {
                    self.policies[rank.at()].changed(self.now, stream.view(rank));
                }
            }
        }
    }

    /// What requests are taken to cost, if the policy works that out or the cost model learns it.
    #[must_use]
    pub fn costs(&self) -> Option<Costs> {
        self.policies[Rank::Best.at()].costs().or_else(|| self.cost.costs())
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
        assert_eq!(by_class, self.ledger.charged.as_nanos(), "all charges are a class's");
        let charged = streams().map(|stream| stream.counters.charged.as_nanos()).sum::<u64>();
        let total = self.ledger.charged.as_nanos();
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
        let undivided = streams().filter(|stream| !idle(stream)).count();
        assert!(undivided == 0 || self.ledger.cut_at().is_some(), "a window was forgotten");
    }
}

/// Adds a window's charge to the classes whose pieces it was for, in proportion to modelled cost;
/// every nanosecond goes to one.
fn split(charge: Duration, modelled: [u64; Rank::COUNT], by_class: &mut [Duration; Rank::COUNT]) {
    let mut left = charge.as_nanos();
    let mut parts = modelled.iter().sum::<u64>();
    for (modelled, charged) in modelled.into_iter().zip(by_class) {
        let part = u128::from(left) * u128::from(modelled) / u128::from(parts.max(1));
        let part = u64::try_from(part).unwrap_or(left);
        *charged += Duration::from_nanos(part);
        (left, parts) = (left - part, parts - modelled);
    }
}
