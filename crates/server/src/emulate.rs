//! A timing model in front of a back end, in real time: a piece is done when the back end has done
//! it *and* the model says that this device would have.
//!
//! The model keeps its own timeline, so a late look distorts no completion time; how late each was
//! handed on is recorded.

use disktime_core::{Instant, Tier};
use disktime_model::preset::Preset;
use disktime_model::tiered::{HitRatio, Tiered};
use disktime_model::{Completion, Device, Op};

/// The device that is emulated.
#[derive(Clone, Copy, Debug)]
pub enum Emulate {
    /// A device.
    One(&'static Preset),
    /// A device for each tier. Where data are, the back end says.
    Tiers {
        /// The fast one.
        fast: &'static Preset,
        /// The slow one.
        slow: &'static Preset,
    },
}

impl Emulate {
    /// As configurations have it.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::One(preset) => preset.name.to_owned(),
            Self::Tiers { fast, slow } => format!("{},{}", fast.name, slow.name),
        }
    }

    /// The device's size in bytes.
    #[must_use]
    pub fn capacity_bytes(self) -> u64 {
        match self {
            Self::One(preset) | Self::Tiers { slow: preset, .. } => {
                (preset.build)(0).capacity_bytes()
            }
        }
    }

    /// The fast tier's, if there are tiers.
    #[must_use]
    pub fn fast_bytes(self) -> Option<u64> {
        match self {
            Self::One(_) => None,
            Self::Tiers { fast, .. } => Some((fast.build)(0).capacity_bytes()),
        }
    }

    /// How many pieces it takes at once.
    #[must_use]
    pub fn queue_depth(self) -> u32 {
        match self {
            Self::One(preset) => (preset.build)(0).queue_depth(),
            Self::Tiers { fast, slow } => tiers(fast, slow, 0).queue_depth(),
        }
    }
}

fn tiers(fast: &Preset, slow: &Preset, seed: u64) -> Tiered {
    // Apart, so that equal presets don't do the same.
    let seeds = [seed, seed ^ 0x7469_6572];
    // Every part says where it is: nothing is drawn.
    let nowhere = Box::new(HitRatio::everywhere(0, seed));
    Tiered::new((fast.build)(seeds[0]), (slow.build)(seeds[1]), nowhere)
}

enum Model {
    One(Box<dyn Device>),
    Tiers(Box<Tiered>),
}

/// One emulated device.
pub struct Emulator {
    model: Model,
    done: Vec<Completion>,
}

impl Emulator {
    /// Drives what is named. The seed decides what models leave open.
    #[must_use]
    pub fn new(emulate: Emulate, seed: u64) -> Self {
        let model = match emulate {
            Emulate::One(preset) => Model::One((preset.build)(seed)),
            Emulate::Tiers { fast, slow } => Model::Tiers(Box::new(tiers(fast, slow, seed))),
        };
        Self { model, done: Vec::new() }
    }

    /// The device begins a piece, named by the caller, which knows where its parts are if the
    /// device has tiers.
    pub fn start(&mut self, now: Instant, piece: u32, op: Op, parts: &[(Tier, Op)]) {
        match &mut self.model {
            Model::One(device) => device.submit(now, u64::from(piece), op),
            Model::Tiers(device) => {
                device.submit_parts(now, u64::from(piece), parts.iter().copied());
            }
        }
    }

    /// The device's size in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        match &self.model {
            Model::One(device) => device.capacity_bytes(),
            Model::Tiers(device) => device.capacity_bytes(),
        }
    }

    /// When the next piece will be done.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        match &self.model {
            Model::One(device) => device.next_completion(),
            Model::Tiers(device) => device.next_completion(),
        }
    }

    /// Hands every piece that is done by now to `each`, with the time at which it was.
    pub fn collect(&mut self, now: Instant, mut each: impl FnMut(u32, Instant)) {
        match &mut self.model {
            Model::One(device) => device.advance(now, &mut self.done),
            Model::Tiers(device) => device.advance(now, &mut self.done),
        }
        for Completion { tag, at, .. } in self.done.drain(..) {
            each(u32::try_from(tag).expect("tags are pieces' names"), at);
        }
    }
}
