//! Postings: which stream pays how much of the device's time, and why.
//!
//! Time is attributed by two functions: [`piece`], where a piece's own time is seen, and [`window`], where
//! pieces of several streams came back together. Both are pure. Each tells postings whose times sum to
//! the time that it was given, to the last ns. `Books::post` is the only place that posts them to accounts.

use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::ratio::scaled;
use crate::types::request::Direction;
use crate::types::time::Duration;

/// A part of the device's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posting<'a> {
    /// The stream that is charged, if any is.
    pub(crate) payer: Option<StreamId>,
    pub(crate) time: Duration,
    pub(crate) why: Why<'a>,
}

/// Why time is charged, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why<'a> {
    /// The device served pieces of the payer, which were debited at dispatch.
    Service(&'a Debited),
    /// The device was left idle for the payer on purpose.
    Hold,
    /// A piece of that stream took longer because of what the payer had written.
    WriteBack { of: StreamId },
    /// The device did nothing: that is no stream's doing.
    Stall,
    /// The device could have done more.
    Spare,
}

/// The debits of one stream's pieces at dispatch, to be corrected by their charges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debited {
    pub(crate) pieces: u32,
    pub(crate) modelled: u64,
    /// The time from the completions before them to theirs, if one at a time was at the device.
    pub(crate) took: u64,
    /// The part of `modelled` that belongs to each class.
    pub(crate) by_rank: [u64; Rank::COUNT],
    pub(crate) estimates: i64,
    /// The parts of `modelled` and `estimates` for which tokens were taken, by direction.
    pub(crate) paid: [(u64, i64); Direction::COUNT],
}

impl Debited {
    /// More pieces.
    pub(crate) fn add(&mut self, more: &Self) {
        self.pieces += more.pieces;
        self.modelled += more.modelled;
        self.took += more.took;
        self.estimates += more.estimates;
        for (sum, part) in self.by_rank.iter_mut().zip(more.by_rank) {
            *sum += part;
        }
        for (sum, (modelled, estimates)) in self.paid.iter_mut().zip(more.paid) {
            *sum = (sum.0 + modelled, sum.1 + estimates);
        }
    }
}

/// A closed window.
pub(crate) struct Span {
    /// How long the device was busy in it.
    pub(crate) busy: Duration,
    /// The part of `busy` that is to be divided among the streams touched, in ns; and why the rest is nobody's.
    pub(crate) divide: u64,
    pub(crate) rest: Why<'static>,
}

/// A stream's write-back debt that is paid from the time of another stream's piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) payer: StreamId,
    pub(crate) time: Duration,
}

/// A piece of `stream` came back, and its own time is seen: `busy`. The time beyond `most` is a stall.
/// Other streams pay the `debts` from the rest. Answers the time that is left for the stream itself.
pub(crate) fn piece<'a>(
    stream: StreamId,
    debited: &'a Debited,
    busy: Duration,
    most: Duration,
    debts: &[Debt],
    mut post: impl FnMut(Posting<'a>),
) -> Duration {
    let mut left = busy.min(most);
    let stall = busy.saturating_sub(left);
    if stall > Duration::ZERO {
        post(Posting { payer: None, time: stall, why: Why::Stall });
    }
    for debt in debts {
        let time = debt.time.min(left);
        left = left.saturating_sub(time);
        let why = Why::WriteBack { of: stream };
        post(Posting { payer: Some(debt.payer), time, why });
    }
    let why = Why::Service(debited);
    post(Posting { payer: Some(stream), time: left, why });
    left
}

/// A stream's part of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) stream: StreamId,
    pub(crate) debited: Debited,
    /// Its weight when the window is divided, in ns.
    pub(crate) cost: u64,
}

/// A window is closed: what of it is to be divided goes to the streams whose pieces came back in it, in
/// proportion to cost.
pub(crate) fn window<'a>(span: &Span, parts: &'a [Part], mut post: impl FnMut(Posting<'a>)) {
    let time = span.busy.saturating_sub(Duration::from_nanos(span.divide));
    if time > Duration::ZERO {
        post(Posting { payer: None, time, why: span.rest });
    }
    let mut left = span.divide;
    let mut costs = parts.iter().map(|part| part.cost).sum::<u64>();
    for part in parts {
        let time = share(left, part.cost, costs);
        (left, costs) = (left - time, costs - part.cost);
        let (payer, time) = (Some(part.stream), Duration::from_nanos(time));
        post(Posting { payer, time, why: Why::Service(&part.debited) });
    }
    assert!(left == 0, "a window is divided to the last ns");
}

/// Divides time in proportion to parts: each gets its share of what is left, so that the last one gets the
/// rest.
pub(crate) fn share(left: u64, part: u64, parts: u64) -> u64 {
    if part >= parts {
        return left;
    }
    scaled(left, part, parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const ID: [StreamId; 3] = [StreamId(0), StreamId(1), StreamId(2)];

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn debited(modelled: u64) -> Debited {
        let mut debited = Debited { pieces: 1, modelled, ..Debited::default() };
        debited.by_rank[Rank::Best.at()] = modelled;
        debited
    }

    fn sum(postings: &[Posting<'_>]) -> u64 {
        postings.iter().map(|posting| posting.time.as_nanos()).sum()
    }

    #[test]
    fn the_debits_of_a_window_are_the_sums_of_its_pieces() {
        let piece = |modelled: u64, estimates, rank: Rank, way: Direction| {
            let mut one = Debited { modelled, took: 3, estimates, ..debited(0) };
            one.by_rank[rank.at()] = modelled;
            one.paid[way as usize] = (modelled, estimates);
            one
        };
        let mut sum = piece(10, 7, Rank::Best, Direction::Reads);
        sum.add(&piece(20, 50, Rank::Best, Direction::Writes));
        sum.add(&piece(300, 400, Rank::Background, Direction::Writes));
        assert_eq!((sum.pieces, sum.modelled, sum.took, sum.estimates), (3, 330, 9, 457));
        assert_eq!(sum.by_rank, [0, 0, 30, 300]);
        assert_eq!(sum.paid, [(10, 7), (320, 450)]);
    }

    #[test]
    fn a_pieces_time_is_its_streams_but_for_a_stall_and_for_debts() {
        let mut postings = Vec::new();
        let one = debited(1);
        let debts = [Debt { payer: ID[1], time: ms(3) }, Debt { payer: ID[2], time: ms(1) }];
        let left = piece(ID[0], &one, ms(130), ms(100), &debts, |it| postings.push(it));
        assert_eq!((left, sum(&postings)), (ms(96), ms(130).as_nanos()));
        let of = |posting: &Posting| (posting.payer, posting.time);
        let all: Vec<_> = postings.iter().map(of).collect();
        let [own, first, second] = ID.map(Some);
        assert_eq!(all, [(None, ms(30)), (first, ms(3)), (second, ms(1)), (own, ms(96))]);
    }

    #[test]
    fn debts_are_paid_up_to_what_the_piece_took() {
        let mut postings = Vec::new();
        let one = debited(1);
        let debts = [Debt { payer: ID[1], time: ms(8) }, Debt { payer: ID[2], time: ms(8) }];
        let left = piece(ID[0], &one, ms(10), ms(100), &debts, |it| postings.push(it));
        let times: Vec<_> = postings.iter().map(|posting| posting.time).collect();
        assert_eq!((left, &times[..]), (ms(0), &[ms(8), ms(2), ms(0)][..]));
    }

    fn parts(costs: [u64; 3]) -> [Part; 3] {
        core::array::from_fn(|at| Part {
            stream: ID[at],
            debited: debited(costs[at]),
            cost: costs[at],
        })
    }

    #[test]
    fn a_window_is_divided_by_modelled_cost_to_the_last_nanosecond() {
        let mut postings = Vec::new();
        let (busy, divide) = (Duration::from_nanos(1000), 700);
        let span = Span { busy, divide, rest: Why::Spare };
        let unlike = parts([2, 2, 3]);
        window(&span, &unlike, |it| postings.push(it));
        let times: Vec<_> = postings.iter().map(|posting| posting.time.as_nanos()).collect();
        assert_eq!(times, [300, 200, 200, 300]);
        assert_eq!(postings[0].why, Why::Spare);
        let mut postings = Vec::new();
        let span = Span { divide: 701, ..span };
        let alike = parts([1, 1, 1]);
        window(&span, &alike, |it| postings.push(it));
        assert_eq!(sum(&postings), 1000, "what rounding leaves goes to the last one");
    }
}
