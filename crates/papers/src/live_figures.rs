//! Figures that are run live as well: against a daemon, in real time, on tiers that it emulates.
//!
//! A [`Live`] states the devices, the virtual disks whose bytes are fast, and the loads that go
//! there side by side; a caller with a daemon runs them and hands back the rates; they are judged
//! beside a simulation of the same.
//!
//! Does not know: the daemon, its clients, real time.

use disktime_workload::Extent;

use crate::experiment::{Report, Sample};

/// A figure's live runs. Two virtual disks of [`Live::DISK_BYTES`] each, one after the other on a
/// tiered device, the first [`Live::FAST_BYTES`] of each on its fast tier.
pub struct Live {
    /// The experiment's.
    pub id: &'static str,
    /// Presets of the tiers, the fast one's and the slow one's.
    pub tiers: [&'static str; 2],
    /// Pieces at the device at once.
    pub depth: u32,
    /// The cells to run, one after the other.
    pub cells: fn() -> Vec<Cell>,
    /// The sample that follows from the cells' rates, each in requests per second over so many
    /// seconds.
    pub judge: fn(rates: &[[f64; 2]], seconds: f64) -> Sample,
}

impl Live {
    /// Bytes of each virtual disk.
    pub const DISK_BYTES: u64 = 200 << 20;
    /// Bytes on the fast tier: from its start.
    pub const FAST_BYTES: u64 = 40 << 20;
    /// Bytes of a request; all are reads, anywhere in their extent.
    pub const REQUEST_BYTES: u64 = 4096;

    /// Requests that each load has outstanding at all times.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        100 + self.depth
    }
}

/// Two loads side by side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The name for it.
    pub name: String,
    /// The device's policy.
    pub policy: &'static str,
    /// The virtual disks' weights.
    pub weights: [u32; 2],
    /// The bytes of each virtual disk that its load reads.
    pub extents: [Extent; 2],
}

impl Report {
    /// Puts what was run live beside what was simulated.
    pub fn add_live(&mut self, live: Sample) {
        let experiment = crate::find(self.id).expect("a report is of an experiment");
        self.absorb(Self::new(experiment, 1, &[live], Vec::new()));
    }
}
