//! The device: its back end and timing model, and the pieces that it has.

use std::collections::VecDeque;

use disktime_core::{PieceId, Tier};
use disktime_model::Op;
use slab::Slab;

use super::PieceMax;
use super::flushes::{Began, Flushes};
use crate::backend::{BackEnd, DeviceError, Job};
use crate::emulate::Emulator;

/// A piece at the device.
pub(super) struct Flight {
    /// Its request; none for a flush that the engine sent by itself.
    pub(super) operation: Option<u32>,
    pub(super) piece: PieceId,
    pub(super) job: Job,
    pub(super) result: Option<Result<(), DeviceError>>,
    /// The timing model says that it is done, if there is one.
    pub(super) timed: bool,
    /// It ends with a flush, still to come.
    pub(super) flush: bool,
    /// All of it is on this tier.
    pub(super) tier: Option<Tier>,
    /// When its job began, by the medium's time.
    pub(super) began: Began,
}

pub(super) struct AtDevice {
    pub(super) back_end: Box<dyn BackEnd>,
    pub(super) emulator: Option<Emulator>,
    pub(super) flights: Slab<Flight>,
    /// Flights with nothing left to wait for.
    pub(super) landed: VecDeque<u32>,
    pub(super) flushes: Flushes,
    /// The longest piece.
    pub(super) piece_max: PieceMax,
    /// Kept to save the allocation.
    pub(super) parts: Vec<(Tier, Op)>,
}
