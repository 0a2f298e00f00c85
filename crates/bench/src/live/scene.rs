//! The setting of a live scene: devices, loads, shares, regions, length.

use std::time::Duration;

use disktime_workload::{Extent, Pace, Pattern, Spec};

use crate::insulation::cells::{Antagonist, Cell, Device, SelectionError};
use crate::insulation::loads::Load;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Bytes of each stream's part of the emulated disk (9 GiB): two nearly fill it.
const EMULATED_BYTES: u64 = 9 << 30;
/// Where what is sequential stays on it, from its part's start.
const EMULATED_REGION: u64 = 512 * MIB;

/// The shared device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LiveDevice {
    /// The daemon's emulated disk, which the simulator has, too.
    Emulated,
    /// A plain file, on whatever it lies.
    File,
    /// The export of an `nbdkit` that delays requests, one after another.
    Nbdkit,
    /// The export of a `qemu-nbd` over a file.
    QemuNbd,
}

impl LiveDevice {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Emulated, Self::File, Self::Nbdkit, Self::QemuNbd];

    /// Its name in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Emulated => "live-deskstar-34gxp",
            Self::File => "live-file",
            Self::Nbdkit => "live-nbdkit",
            Self::QemuNbd => "live-qemu-nbd",
        }
    }

    /// A description in one line.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Emulated => "the daemon's emulated IBM Deskstar 34GXP, in real time",
            Self::File => "a plain file, with direct I/O",
            Self::Nbdkit => {
                "an nbdkit that does one request at a time, a read in 1 ms and a write in 2 ms"
            }
            Self::QemuNbd => "a qemu-nbd over the plain file, with direct I/O",
        }
    }
}

/// A load, over NBD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveLoad {
    /// Its name in rows.
    pub name: &'static str,
    /// Which operations, from the start of its stream's part of the device.
    pub spec: Spec,
    /// How many at once.
    pub outstanding: u32,
}

impl LiveLoad {
    /// Its pace: a closed loop.
    pub(super) const fn pace(&self) -> Pace {
        Pace::Closed { outstanding: self.outstanding, think: disktime_core::Duration::ZERO }
    }

    /// Bytes of its operations.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.spec.sizes[0].bytes
    }
}

/// A stream of a scene.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveTenant {
    /// The load.
    pub load: LiveLoad,
    /// Per cent of the device's time that it reserves.
    pub share_percent: u32,
}

impl LiveTenant {
    /// The reservation, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        f64::from(self.share_percent) / 100.0
    }
}

/// Streams on a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scene {
    /// The shared device.
    pub device: LiveDevice,
    /// The streams that share it, in the order in which they lie on it.
    pub tenants: Vec<LiveTenant>,
    /// Bytes of each stream's part of the device.
    pub bytes: u64,
    /// How much longer it takes than others, once instead of in rounds: a disk from 1999 does few
    /// requests a second.
    pub slower: u32,
}

impl Scene {
    /// A cell of the simulated matrix on the emulated disk.
    ///
    /// # Errors
    /// If the cell is of another device, or its antagonist isn't one stream that always asks.
    pub fn emulated(cell: Cell) -> Result<Self, SelectionError> {
        let antagonists = [Antagonist::Random, Antagonist::SequentialLarge, Antagonist::Writes];
        if cell.device != Device::Deskstar {
            return Err(unknown("device", cell.device.name(), &[Device::Deskstar.name()]));
        }
        if !antagonists.contains(&cell.antagonist) {
            let known = antagonists.map(Antagonist::name);
            return Err(unknown("antagonist", cell.antagonist.name(), &known));
        }
        let names = [cell.victim.name(), cell.antagonist.name()];
        let shares = [cell.share_percent, 100 - cell.share_percent];
        let tenant = |place: usize| {
            let load = Load::of(cell)[place];
            let end = if load.is_spread() { EMULATED_BYTES } else { EMULATED_REGION };
            let (spec, outstanding) = load.operations(Extent { start: 0, end });
            let load = LiveLoad { name: names[place], spec, outstanding };
            LiveTenant { load, share_percent: shares[place] }
        };
        Ok(Self {
            device: LiveDevice::Emulated,
            tenants: vec![tenant(0), tenant(1)],
            bytes: EMULATED_BYTES,
            slower: 5,
        })
    }

    /// The cells of the emulated disk that are measured unless others are asked for: a sequence
    /// and random places as victims, each beside what hurts it most.
    #[must_use]
    pub fn emulated_chosen() -> [&'static str; 4] {
        [
            "deskstar-34gxp/sequential-128k/random-4k/50",
            "deskstar-34gxp/sequential-128k/random-4k/10",
            "deskstar-34gxp/random-4k/sequential-1m/50",
            "deskstar-34gxp/half-writes/random-4k/50",
        ]
    }

    /// Unlike streams on a plain file of that size: small ones anywhere and long ones in order, at
    /// 70/30 and at 30/70, and the three that boxes have.
    #[must_use]
    pub fn on_file(file_bytes: u64) -> [Self; 3] {
        let [most_small, most_long] = [[70, 30], [30, 70]].map(|shares| {
            let bytes = part(file_bytes, 2);
            let loads = [
                load("random-4k-deep", Pattern::Random, bytes, 4 * KIB, 1000, 16),
                load("sequential-128k-deep", Pattern::Sequential, bytes, 128 * KIB, 1000, 4),
            ];
            Self::of(LiveDevice::File, loads.to_vec(), &shares, bytes)
        });
        [most_small, most_long, Self::on_box(LiveDevice::File, file_bytes)]
    }

    /// Three streams on another server's export of that size, or on a file, at 20/30/50.
    #[must_use]
    pub fn on_box(device: LiveDevice, box_bytes: u64) -> Self {
        let bytes = part(box_bytes, 3);
        let loads = [
            load("sequential-128k-deep", Pattern::Sequential, bytes, 128 * KIB, 1000, 4),
            load("random-4k-deep", Pattern::Random, bytes, 4 * KIB, 1000, 16),
            load("write-64k", Pattern::Random, bytes, 64 * KIB, 0, 8),
        ];
        Self::of(device, loads.to_vec(), &[20, 30, 50], bytes)
    }

    fn of(device: LiveDevice, loads: Vec<LiveLoad>, shares: &[u32], bytes: u64) -> Self {
        let tenant = |(load, share): (LiveLoad, &u32)| LiveTenant { load, share_percent: *share };
        let tenants = loads.into_iter().zip(shares).map(tenant).collect();
        Self { device, tenants, bytes, slower: 1 }
    }

    /// The shares, as people write them: `70/30`.
    #[must_use]
    pub fn split(&self) -> String {
        let shares = self.tenants.iter().map(|tenant| tenant.share_percent.to_string());
        shares.collect::<Vec<_>>().join("/")
    }

    /// How long everyone is on the device, if it is `length` where requests are fast.
    pub(super) fn together(&self, length: Duration) -> Duration {
        length * self.slower
    }

    /// How often, if it is `rounds` times where requests are fast.
    pub(super) const fn rounds(&self, rounds: usize) -> usize {
        if self.slower > 1 { 1 } else { rounds }
    }

    /// The others' loads by name.
    pub(super) fn beside(&self, stream: usize) -> String {
        let others = self.tenants.iter().enumerate().filter(|(place, _)| *place != stream);
        others.map(|(_, tenant)| tenant.load.name).collect::<Vec<_>>().join(" + ")
    }
}

/// A stream's part of so many bytes, in whole MiB.
fn part(bytes: u64, streams: u64) -> u64 {
    bytes / streams / MIB * MIB
}

fn load(
    name: &'static str,
    pattern: Pattern,
    end: u64,
    bytes: u64,
    reads_permille: u16,
    outstanding: u32,
) -> LiveLoad {
    let spec = Spec { reads_permille, ..Spec::reads(pattern, Extent { start: 0, end }, bytes) };
    LiveLoad { name, spec, outstanding }
}

fn unknown(part: &'static str, text: &str, known: &[&str]) -> SelectionError {
    let known = known.iter().map(|name| (*name).to_owned()).collect();
    SelectionError::Unknown { part, text: text.to_owned(), known }
}

/// A load's name: of its random numbers, so the simulator's is the same.
pub(super) fn name_of(stream: usize) -> String {
    format!("stream-{stream}")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::insulation::cells::Selection;

    pub(in super::super) fn emulated(name: &str) -> Result<Scene, SelectionError> {
        let selection: Selection = name.parse().expect("a cell");
        Scene::emulated(selection.cells().next().expect("one"))
    }

    #[test]
    fn shares_are_all_of_the_device_and_loads_stay_in_their_parts() {
        let chosen = Scene::emulated_chosen().map(|cell| emulated(cell).expect("can be live"));
        let boxes = [LiveDevice::Nbdkit, LiveDevice::QemuNbd].map(|it| Scene::on_box(it, 3 << 30));
        for scene in chosen.into_iter().chain(Scene::on_file(1 << 30)).chain(boxes) {
            let shares = scene.tenants.iter().map(|tenant| tenant.share_percent);
            assert_eq!(shares.sum::<u32>(), 100, "{scene:?}");
            for LiveTenant { load, .. } in &scene.tenants {
                assert_eq!(load.spec.check(), Ok(()), "{scene:?}");
                assert!(load.spec.extent.end <= scene.bytes && scene.bytes.is_multiple_of(MIB));
            }
        }
    }

    #[test]
    fn names_are_those_of_rows() {
        let scene = Scene::on_box(LiveDevice::Nbdkit, 1 << 30);
        assert_eq!((scene.split(), scene.bytes), ("20/30/50".to_owned(), 341 * MIB));
        assert_eq!(scene.beside(1), "sequential-128k-deep + write-64k");
    }

    #[test]
    fn cells_that_cannot_be_live_say_which_can() {
        let error = emulated("nearline-7200/random-4k/random-4k/50").expect_err("another disk");
        assert!(error.to_string().contains("deskstar-34gxp"), "{error}");
        let error = emulated("deskstar-34gxp/random-4k/ten-at-once/50").expect_err("ten");
        assert!(error.to_string().contains("write-1m"), "{error}");
    }
}
