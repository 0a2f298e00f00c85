//! A stream's waiting requests, by class.

use alloc::boxed::Box;
use core::ops::{Index, IndexMut};

use super::requests::Queue;
use crate::cost::PieceShape;
use crate::types::ids::RequestId;
use crate::types::rank::Rank;
use crate::types::time::{Duration, Instant};

/// The next piece of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The request that it is a piece of.
    pub request: RequestId,
    /// The request's place in the order of arrival over all streams.
    pub sequence: u64,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// When its client, its cycle or its class wants it done, if any does.
    pub deadline: Option<Instant>,
    /// The disk time it is expected to be charged: what is debited at dispatch.
    pub estimate: Duration,
    /// Its modelled cost: its weight when a window is divided.
    pub(crate) modelled: Duration,
    /// The piece as the cost model saw it.
    pub(crate) shape: PieceShape,
    /// Best effort's tokens that it takes, in grains; 0 where nothing shapes.
    pub(crate) grains: u64,
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

/// A stream's waiting requests in one class.
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
