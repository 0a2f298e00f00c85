//! The order of classes, and what of a stream waits in each.

use alloc::boxed::Box;
use core::ops::{Index, IndexMut};

use crate::classes::requests::Queue;
use crate::classes::stream::Head;
use crate::types::contract::Class;

/// Which of the classes' queues; smaller goes first. Soft real-time has no queue of its own: it
/// ranks with best effort.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    Latency,
    Rate,
    Best,
    Background,
}

impl Rank {
    pub(crate) const ALL: [Self; 4] = [Self::Latency, Self::Rate, Self::Best, Self::Background];
    pub(crate) const COUNT: usize = Self::ALL.len();

    pub(crate) const fn at(self) -> usize {
        self as usize
    }
}

/// A set of ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ranks(u8);

impl Ranks {
    pub(crate) fn of(rank: Rank) -> Self {
        Self(1 << rank.at())
    }

    pub(crate) fn insert(&mut self, rank: Rank) {
        self.0 |= 1 << rank.at();
    }

    pub(crate) fn remove(&mut self, rank: Rank) {
        self.0 &= !(1 << rank.at());
    }
}

impl Iterator for Ranks {
    type Item = Rank;

    /// Takes out the first.
    fn next(&mut self) -> Option<Rank> {
        let first = *Rank::ALL.get(self.0.trailing_zeros() as usize)?;
        self.remove(first);
        Some(first)
    }
}

impl From<Class> for Rank {
    fn from(class: Class) -> Self {
        match class {
            Class::GuaranteedLatency => Self::Latency,
            Class::GuaranteedRate => Self::Rate,
            Class::SoftRealTime | Class::BestEffort => Self::Best,
            Class::Background => Self::Background,
        }
    }
}

/// Whether the next piece of a lane may go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Gate {
    /// Nothing waits, or a limit or depth holds it back.
    #[default]
    Shut,
    /// A guarantee is used up: it goes when nobody of best effort wants the device.
    Overdrawn,
    /// In its class's turn.
    Ready,
}

/// What of a stream waits in one class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) queue: Queue,
    pub(crate) head: Option<Head>,
    pub(crate) gate: Gate,
    /// Bytes queued that have not gone out.
    pub(crate) bytes: u64,
}

/// A stream's lanes. Most streams use one, which lies in the stream itself; the others are made when
/// they are first used, so that ten thousand streams stay small.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    usual: Rank,
    lane: Lane,
    others: Option<Box<[Lane; Rank::COUNT]>>,
}

impl Lanes {
    pub(crate) fn new(usual: Rank) -> Self {
        Self { usual, lane: Lane::default(), others: None }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane> {
        Rank::ALL.iter().map(|rank| &self[*rank])
    }
}

impl Index<Rank> for Lanes {
    type Output = Lane;

    fn index(&self, rank: Rank) -> &Lane {
        const EMPTY: &Lane = &Lane { queue: Queue::EMPTY, head: None, gate: Gate::Shut, bytes: 0 };
        if rank == self.usual {
            return &self.lane;
        }
        self.others.as_ref().map_or(EMPTY, |others| &others[rank.at()])
    }
}

impl IndexMut<Rank> for Lanes {
    fn index_mut(&mut self, rank: Rank) -> &mut Lane {
        if rank == self.usual {
            return &mut self.lane;
        }
        &mut self.others.get_or_insert_default()[rank.at()]
    }
}
