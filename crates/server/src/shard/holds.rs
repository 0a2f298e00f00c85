//! Virtual disks whose requests wait for a moment: the device has none of them meanwhile, so that
//! their bytes don't change.
//!
//! Requests that the device has begun end first. The others leave the engine, and come to it again when
//! the hold is over.
//!
//! Does not know: why a virtual disk is held.

use disktime_core::{Cancel, RequestId, StreamId};

use super::changes::tell;
use super::vdisks::{Answer, Hold, VdiskError, VdiskId};
use super::{Operation, Shard, name};
use crate::clock;

impl Shard {
    /// Has a virtual disk's requests wait from now on. The answer comes when the device has none.
    pub(super) fn hold(&mut self, id: VdiskId, answer: Answer) {
        let stream = match self.vdisks.find(id) {
            Ok(stream) => stream,
            Err(error) => return tell(&answer, Err(error)),
        };
        let vdisk = &mut self.vdisks[stream.0 as usize];
        if vdisk.hold.is_some() {
            return tell(&answer, Err(VdiskError::Held));
        }
        vdisk.hold = Some(Hold::Ending(answer));
        for key in self.operations_of(stream, |it| it.arrived && !it.begun) {
            let cancelled = self.engine.handle_cancel(clock::now(), RequestId(key));
            assert_ne!(cancelled, Cancel::InFlight, "the device has not begun it");
            let operation = &mut self.operations[key as usize];
            (operation.arrived, operation.waits) = (false, true);
        }
        self.note_still(stream);
    }

    /// Answers a hold if the device has no request of the virtual disk any more.
    pub(super) fn note_still(&mut self, stream: StreamId) {
        let held = &self.vdisks[stream.0 as usize].hold;
        if !matches!(held, Some(Hold::Ending(_)))
            || !self.operations_of(stream, |it| it.arrived).is_empty()
        {
            return;
        }
        let held = self.vdisks[stream.0 as usize].hold.replace(Hold::Still);
        if let Some(Hold::Ending(answer)) = held {
            tell(&answer, Ok(()));
        }
    }

    /// Lets the requests of a virtual disk that was held go on.
    pub(super) fn release(&mut self, id: VdiskId) {
        // One that is to be removed has refused them.
        let Ok(stream) = self.vdisks.find(id) else { return };
        self.vdisks[stream.0 as usize].hold = None;
        for key in self.operations_of(stream, |it| it.waits) {
            self.operations[key as usize].waits = false;
            self.arrive(key);
        }
    }

    fn operations_of(&self, stream: StreamId, which: impl Fn(&Operation) -> bool) -> Vec<u32> {
        let of_it = self.operations.iter();
        let of_it = of_it.filter(|(_, it)| it.vdisk == stream.0 && which(it));
        of_it.map(|(key, _)| name(key)).collect()
    }
}
