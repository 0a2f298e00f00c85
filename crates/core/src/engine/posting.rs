//! A completion's way into the accounts: its time is attributed ([`posting`]), and posted here.
//!
//! Deeper than 1, where streams mix, a piece joins the open window and is charged when that closes. A piece
//! whose own time is seen (depth 1, slices) is charged when it comes back.
//!
//! Does not know: why a stream pays, or how windows are divided.

use super::Engine;
use super::pieces::Piece;
use crate::account::ledger::longest;
use crate::account::posting::{self, Debited, Debt, Part, Posting, Why};
use crate::cost::Trust;
use crate::policy::Window;
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::request::Kind;
use crate::types::time::{Duration, Instant};

/// So many of an owner's pieces show what the guests before them cost: the way back, and what its next pieces lose.
/// In 200 cells of depth 1, of seeds that the policy was tuned on, 7.9 % of the streams were below .9 of their due by
/// 4 pieces; by 1, 2, 3 and 8 it was 9.0, 9.1, 8.9 and 8.3, by all in 100 ms 8.5 (docs/appendix/tried-guests.md).
const BACK: u32 = 4;

impl Engine {
    /// A piece came back: a stall before it is nobody's. Answers the most that the piece is charged.
    pub(super) fn skip_stall(&mut self, piece: &Piece) -> Duration {
        let silent = self.books.ledger.silent(self.now);
        let alone = self.limits.depth == 1 && self.in_flight() == 0;
        let learned = self.prices.trust == Trust::Learned && self.limits.depth > 1;
        let silence =
            self.device.stalls.completed(&piece.shape, piece.estimate, silent, alone, learned);
        if silence.is_stall {
            let (time, stalled) = self.books.ledger.skip_stall(self.now, silence.likely);
            self.post(&Posting { payer: None, time, why: Why::Stall });
            self.prices.skip(stalled);
        }
        longest(silence.likely)
    }

    /// Notes a piece's end in the ledger. Answers its charge: what it took if that is seen, and `most` at the
    /// most; else what was debited, until the window closes. Other streams pay their debts of it.
    pub(super) fn settle(&mut self, piece: &Piece, most: Duration) -> [Duration; 2] {
        if piece.writes() && self.streams[piece.stream].cycle.is_none() {
            // A flush will bring to the medium what it wrote.
            self.books.write_back.wrote(piece.stream, piece.modelled);
        }
        let in_slice = self.books.slice.is_some_and(|owner| owner.alone);
        if in_slice && !self.is_shallow() && self.books.ledger.pieces() > 0 {
            // The window was of the streams that mixed before the slice.
            self.close_window(self.books.ledger.last_completion());
        }
        let shallow = self.is_shallow() && self.in_flight() == 0;
        if (shallow || in_slice) && self.books.ledger.pieces() == 0 {
            return self.charge_alone(piece, most);
        }
        self.join_window(piece);
        // A window of one piece at a time ends with the last of the owner's that show what guests cost. Without slices
        // the depth was lowered while it was open: it is divided as a deep one.
        if shallow || self.is_back(piece.stream) {
            self.close_window(self.now);
        }
        [piece.estimate; 2]
    }

    /// One piece at a time: whether the slice's owner has had [`BACK`] pieces in the window.
    fn is_back(&self, id: StreamId) -> bool {
        let one = self.limits.depth == 1 && self.in_flight() == 0;
        one && self.books.owner == Some(id) && self.streams[id].in_window.pieces >= BACK
    }

    /// A piece came back whose own time is seen: since the mark.
    fn charge_alone(&mut self, piece: &Piece, most: Duration) -> [Duration; 2] {
        let busy = self.books.ledger.completed_alone(self.now);
        let most = match self.slices() {
            Some(slices) if busy > most => most.max(piece.estimate + slices.room(piece.stream)),
            _ => most,
        };
        let took = busy.min(most);
        if self.books.unit.is_none() && piece.may_owe() && piece.shape.kind == Kind::Flush {
            self.books.write_back.flushed(piece.stream, took, &mut self.books.debts);
        }
        if self.books.debts.is_empty() && self.books.unit.is_none() && piece.may_owe() {
            let debt = self.slices().and_then(|slices| slices.debt(piece.stream, took));
            let debt = debt.filter(|(payer, _)| self.streams.get(*payer).is_some());
            self.books.debts.extend(debt.map(|(payer, time)| Debt { payer, time }));
        }
        let (debited, mut debts) = (piece.debited(), core::mem::take(&mut self.books.debts));
        let charge =
            posting::piece(piece.stream, &debited, busy, most, &debts, |part| self.post(&part));
        debts.clear();
        self.books.debts = debts;
        self.prices.charged(&piece.shape, charge);
        if piece.on_slack {
            self.guarantees.correct_slack(piece.estimate, took);
        }
        [charge, took]
    }

    /// A piece came back among others': its part of the window is not known yet.
    fn join_window(&mut self, piece: &Piece) {
        if piece.may_owe() && piece.shape.kind == Kind::Flush {
            self.books.write_back.forget_written();
        }
        let one = self.limits.depth == 1 && self.in_flight() == 0;
        let took = if one { self.books.ledger.silent(self.now) } else { Duration::ZERO };
        let in_window = &mut self.streams[piece.stream].in_window;
        let first = in_window.pieces == 0;
        in_window.add(&Debited { took: took.as_nanos(), ..piece.debited() });
        self.books.ledger.completed(self.now, piece.stream, piece.modelled.as_nanos(), first);
    }

    /// Closes the open window at `end`: its busy time is divided among the streams whose pieces came back in
    /// it.
    pub(super) fn close_window(&mut self, end: Instant) {
        let touched = self.books.ledger.touched();
        let streams = &self.streams;
        let of = |id| streams.get(id).map_or(Debited::default(), |stream| stream.in_window);
        let modelled = |id: StreamId| Duration::from_nanos(of(id).modelled);
        let took = |id: StreamId| Duration::from_nanos(of(id).took);
        let (owner, busy) = (self.books.owner, self.books.ledger.busy(end));
        let window = Window { busy, owner, streams: &touched, modelled: &modelled, took: &took };
        let mut slices = self.policies[Rank::Best.at()].slices();
        if let Some(slices) = &mut slices {
            slices.window(self.now, &window);
            self.books.slice = slices.owner();
        }
        let mut parts = core::mem::take(&mut self.books.parts);
        for id in &touched {
            let cost = slices.as_ref().map_or(modelled(*id), |slices| slices.cost(&window, *id));
            parts.push(Part {
                stream: *id,
                debited: streams[*id].in_window,
                cost: cost.as_nanos(),
            });
        }
        for id in &touched {
            self.streams[*id].in_window = Debited::default();
        }
        // A device that takes one piece at a time is never busy with less than it could do.
        let one = self.books.slices && self.limits.depth == 1;
        let cost = if one { u64::MAX } else { parts.iter().map(|part| part.cost).sum() };
        let room = || {
            let Some(slices) = &slices else { return Duration::ZERO };
            let debits = parts.iter().map(|part| part.debited.estimates).sum::<i64>();
            let rooms = parts.iter().map(|part| slices.room(part.stream));
            rooms.fold(Duration::from_nanos(debits.max(0).unsigned_abs()), |sum, room| sum + room)
        };
        let span = self.books.ledger.close(end, cost, room);
        posting::window(&span, &parts, |part| self.post(&part));
        parts.clear();
        self.books.parts = parts;
        self.books.ledger.recycle(touched);
    }

    /// Posts to the books. Nothing else changes what a stream is charged.
    pub(super) fn post(&mut self, posting: &Posting<'_>) {
        let families = !self.families.is_empty();
        posting.payer.filter(|_| families).into_iter().for_each(|payer| self.take_part(payer));
        let shaping = self.shaping.as_deref_mut();
        let tokens = self.books.post(self.now, &mut self.streams, shaping, posting);
        if let Some(payer) = posting.payer {
            if families {
                self.used_in_family(payer, tokens);
            }
            self.gates.mark(payer);
        }
        if posting.why == Why::Stall {
            // No stream is behind for it.
            for stream in self.streams.iter_mut() {
                stream.behind.stalled(stream.accounts.own, posting.time, self.now);
            }
        }
    }
}
