//! The device, and the pieces that it has.

use disktime_core::{Duration, Instant, Kind, PieceId, StreamId};
use disktime_model::{Completion, Device, Op};

/// A piece on its way.
#[derive(Clone, Copy)]
pub(super) struct Flight {
    pub(super) piece: PieceId,
    pub(super) stream: StreamId,
    pub(super) bytes: u64,
    pub(super) estimate: Duration,
    /// It ends with a flush, still to come.
    pub(super) flush: bool,
    pub(super) released: Instant,
}

/// A piece that came back.
pub(super) struct Landed {
    pub(super) flight: Flight,
    /// The time since the completion before it, or since it was released.
    pub(super) service: Duration,
    /// The same of the tier that served it, if the device tells.
    pub(super) of_tier: Duration,
}

pub(super) struct Flights {
    device: Box<dyn Device>,
    /// By piece: what is at the device.
    flights: Vec<Option<Flight>>,
    pub(super) done: Vec<Completion>,
    last_completion: Instant,
    /// The last completion on each tier.
    on_tiers: [Instant; 2],
}

impl Flights {
    pub(super) fn new(device: Box<dyn Device>) -> Self {
        let (last_completion, on_tiers) = (Instant::ZERO, [Instant::ZERO; 2]);
        Self { device, flights: Vec::new(), done: Vec::new(), last_completion, on_tiers }
    }

    pub(super) fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// Gives a piece to the device.
    pub(super) fn release(&mut self, flight: Flight, op: Op) {
        let slot = flight.piece.slot;
        if slot as usize >= self.flights.len() {
            self.flights.resize(slot as usize + 1, None);
        }
        self.flights[slot as usize] = Some(flight);
        self.device.submit(flight.released, u64::from(slot), op);
    }

    /// Takes the list `done`, with all that the device has finished by now. The list is to be put back.
    pub(super) fn finished(&mut self, now: Instant) -> Vec<Completion> {
        let mut done = std::mem::take(&mut self.done);
        self.device.advance(now, &mut done);
        done
    }

    /// A piece that the device has finished; `None` if it now goes on with the flush that ends it.
    pub(super) fn land(&mut self, now: Instant, done: &Completion) -> Option<Landed> {
        let Completion { tag, at, tier } = *done;
        let slot = usize::try_from(tag).expect("tags are pieces' slots");
        let mut flight = self.flights[slot].take().expect("a piece completes once");
        if std::mem::take(&mut flight.flush) {
            self.flights[slot] = Some(flight);
            let op = Op { kind: Kind::Flush, offset: 0, bytes: 0, fua: false };
            self.device.submit(now, tag, op);
            return None;
        }
        let since = |last: &mut Instant| at.since(std::mem::replace(last, at).max(flight.released));
        let service = since(&mut self.last_completion);
        let of_tier = tier.map_or(service, |tier| since(&mut self.on_tiers[tier as usize]));
        Some(Landed { flight, service, of_tier })
    }
}
