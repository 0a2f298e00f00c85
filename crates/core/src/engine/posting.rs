//! A completion's way into the accounts: its time is attributed ([`posting`]), and posted here.
//!
//! Deeper than 1, where streams mix, a piece joins the open window and is charged when that closes. A piece
//! whose own time is seen (depth 1, turns) is charged when it comes back.
//!
//! Does not know: why a stream pays, or how windows are divided.

use alloc::vec::Vec;

use super::Engine;
use super::pieces::Piece;
use crate::account::ledger::longest;
use crate::account::posting::{self, Debited, Posting, Why};
use crate::policy::Window;
use crate::types::ids::StreamId;
use crate::types::piece::PieceKind;
use crate::types::rank::Rank;
use crate::types::request::Kind;
use crate::types::time::{Duration, Instant};

impl Engine {
    /// A piece came back: a stall before it is nobody's. Answers the most that the piece is charged.
    pub(super) fn skip_stall(&mut self, piece: &Piece) -> Duration {
        let silent = self.ledger.silent(self.now);
        let alone = self.limits.depth == 1 && self.in_flight == 0;
        let learned = self.learns && self.limits.depth > 1;
        let silence = self.stalls.completed(&piece.shape, piece.estimate, silent, alone, learned);
        if silence.is_stall {
            let (time, stalled) = self.ledger.skip_stall(self.now, silence.likely);
            self.post(Posting { payer: None, time, why: Why::Stall });
            self.sole.skip(stalled);
        }
        longest(silence.likely)
    }

    /// Notes a piece's end in the ledger. Answers its charge: what it took if that is seen, and `most` at the
    /// most; else what was debited, until the window closes. Other streams pay their debts of it.
    pub(super) fn settle(&mut self, piece: &Piece, most: Duration) -> Duration {
        let in_turn = self.in_turn();
        if in_turn && self.limits.depth > 1 && self.ledger.pieces() > 0 {
            // The window was of the streams that mixed before the turn.
            self.close_window(self.ledger.last_completion());
        }
        let shallow = self.limits.depth == 1 && self.in_flight == 0;
        if (shallow || in_turn) && self.ledger.pieces() == 0 {
            return self.charge_alone(piece, most);
        }
        self.join_window(piece);
        if shallow {
            // The depth was lowered while the window was open: it is divided as a deep one, and
            // write-back debt is not paid by it.
            self.write_back.skip_to(self.now);
            self.close_window(self.now);
        }
        piece.estimate
    }

    /// A piece came back whose own time is seen: since the mark.
    fn charge_alone(&mut self, piece: &Piece, most: Duration) -> Duration {
        let busy = self.ledger.completed_alone(self.now);
        let took = busy.min(most);
        if self.unit.is_some() || !piece.may_owe() {
            self.debts.clear();
        } else if piece.shape.kind == Kind::Flush {
            self.debts.clear();
            self.write_back.flushed(piece.stream, took, &mut self.debts);
        }
        let mut postings = core::mem::take(&mut self.postings);
        let debited = piece.debited();
        let charge = posting::piece(piece.stream, debited, busy, most, &self.debts, &mut postings);
        if self.unit.is_none() && piece.writes() {
            self.note_written(piece, Some(charge));
        }
        let stream =
            self.streams[piece.stream.0 as usize].as_mut().expect("streams outlive pieces");
        stream.learn_usual(PieceKind::of(&piece.shape), charge);
        self.post_all(postings);
        self.debts.clear();
        if piece.on_slack {
            self.guarantees.correct_slack(piece.estimate, took);
        }
        charge
    }

    /// A piece came back among others': its part of the window is not known yet.
    fn join_window(&mut self, piece: &Piece) {
        if piece.writes() {
            self.note_written(piece, None);
        } else if piece.may_owe() && piece.shape.kind == Kind::Flush {
            self.write_back.forget_written();
        }
        let stream =
            self.streams[piece.stream.0 as usize].as_mut().expect("streams outlive pieces");
        let first = stream.in_window.pieces == 0;
        let Piece { rank, modelled, estimate, paid, .. } = *piece;
        stream.in_window.add(rank, modelled, estimate, paid);
        self.ledger.completed(self.now, piece.stream, modelled.as_nanos(), first);
    }

    /// A write came back, and was `paid` for if its own time is seen.
    fn note_written(&mut self, piece: &Piece, paid: Option<Duration>) {
        let stream = self.streams[piece.stream.0 as usize].as_ref();
        if stream.expect("streams outlive pieces").cycle.is_some() {
            return;
        }
        let long_run = if self.learns { self.cost.long_run(&piece.shape) } else { None };
        self.write_back.wrote(piece.stream, piece.modelled, long_run.zip(paid));
    }

    /// Closes the open window at `end`: its busy time is divided among the streams whose pieces came back in
    /// it.
    pub(super) fn close_window(&mut self, end: Instant) {
        let mut span = self.ledger.close(end);
        let touched = core::mem::take(&mut span.touched);
        let streams = &self.streams;
        let modelled = |id: StreamId| {
            let stream = streams[id.0 as usize].as_ref();
            Duration::from_nanos(stream.map_or(0, |stream| stream.in_window.modelled))
        };
        let window = Window { busy: span.busy, streams: &touched, modelled: &modelled };
        self.policies[Rank::Best.at()].window(self.now, &window);
        let mut postings = core::mem::take(&mut self.postings);
        let pieces = touched.iter().map(|id| {
            let stream = self.streams[id.0 as usize].as_mut().expect("removal closes the window");
            (*id, core::mem::take(&mut stream.in_window))
        });
        posting::window(&span, pieces, &mut postings);
        self.post_all(postings);
        self.ledger.recycle(touched);
    }

    /// Posts what was attributed; the list is used again.
    fn post_all(&mut self, mut postings: Vec<Posting>) {
        for posting in postings.drain(..) {
            self.post(posting);
        }
        self.postings = postings;
    }

    /// The only place that changes what streams, classes and the device's ledger are charged.
    pub(super) fn post(&mut self, Posting { payer, time, why }: Posting) {
        self.ledger.post(time, &why);
        if let Why::WriteBack { of } = why {
            let relieved = self.streams[of.0 as usize].as_mut().expect("its piece has just ended");
            relieved.counters.relieved += time;
        }
        let Some(id) = payer else { return };
        let lead = self.lead();
        let stream = self.streams[id.0 as usize].as_mut().expect("streams outlive their pieces");
        stream.counters.charged += time;
        let (mut pieces, mut used) = (Debited::default(), time);
        match why {
            Why::Service(debited) => {
                pieces = debited;
                let by_unit = Duration::from_nanos(pieces.estimates.unsigned_abs());
                used = self.unit.map_or(time, |_| by_unit);
                split(time, pieces.by_rank, &mut self.by_class);
                if let Some(shaping) = &mut self.shaping {
                    shaping.correct(self.now, id, &pieces, time);
                }
            }
            Why::WriteBack { .. } => {
                stream.counters.afterwards += time;
                self.by_class[stream.home().at()] += time;
            }
            _ => {
                stream.counters.held += time;
                self.by_class[Rank::Best.at()] += time;
                if let Some(shaping) = &mut self.shaping {
                    shaping.held_idle(self.now, stream, time);
                }
            }
        }
        let each = |time: Duration| time.as_nanos() / u64::from(pieces.pieces.max(1));
        self.dearest = self.dearest.max(Duration::from_nanos(each(time)));
        let kept = Duration::from_nanos(each(used)) + lead;
        let weight = self.usage_clock.weight(self.now);
        stream.charge(kept, pieces.estimates, used, weight, self.now);
        self.mark(id);
    }
}

/// Adds a charge to the classes whose pieces it was for, in proportion to modelled cost; every nanosecond
/// goes to one.
fn split(charge: Duration, modelled: [u64; Rank::COUNT], by_class: &mut [Duration; Rank::COUNT]) {
    let mut left = charge.as_nanos();
    let mut parts = modelled.iter().sum::<u64>();
    for (modelled, charged) in modelled.into_iter().zip(by_class) {
        let part = if modelled > 0 { posting::share(left, modelled, parts) } else { 0 };
        *charged += Duration::from_nanos(part);
        (left, parts) = (left - part, parts - modelled);
    }
}
