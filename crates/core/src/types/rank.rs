//! The order of classes.

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
