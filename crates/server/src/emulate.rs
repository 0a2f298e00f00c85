//! A timing model in front of a back end, in real time: a piece is done when the back end has done
//! it *and* the model says that this device would have.
//!
//! The model keeps its own timeline, so a late look distorts no completion time; how late each was
//! handed on is recorded.

use disktime_core::Instant;
use disktime_model::{Completion, Device, Op};

/// One emulated device.
pub struct Emulator {
    device: Box<dyn Device>,
    done: Vec<Completion>,
}

impl Emulator {
    /// Drives this model.
    #[must_use]
    pub fn new(device: Box<dyn Device>) -> Self {
        Self { device, done: Vec::new() }
    }

    /// The device begins a piece, named by the caller.
    pub fn start(&mut self, now: Instant, piece: u32, op: Op) {
        self.device.submit(now, u64::from(piece), op);
    }

    /// When the next piece will be done.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.device.next_completion()
    }

    /// Hands every piece that is done by now to `each`, with the time at which it was.
    pub fn collect(&mut self, now: Instant, mut each: impl FnMut(u32, Instant)) {
        self.device.advance(now, &mut self.done);
        for Completion { tag, at } in self.done.drain(..) {
            each(u32::try_from(tag).expect("tags are pieces' names"), at);
        }
    }
}
