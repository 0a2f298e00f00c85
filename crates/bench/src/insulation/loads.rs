//! The setting of a cell: devices, loads, their regions, and their shares.

use std::ops::Range;

use disktime_core::cost::Price;
use disktime_core::{Contract, Duration, Instant, Share};
use disktime_model::preset;
use disktime_sim::StreamPlan;
use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, Spec};

use super::cells::{Antagonist, Cell, Device, Victim};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A load that can be measured alone. Antagonists that rest or come late are measured as if they
/// did not, and of several the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Load {
    Victim(Victim),
    Antagonist(Antagonist),
}

/// How long things are on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scale {
    /// The unit of windows.
    pub(crate) spell: Duration,
    /// Spells for which an antagonist asks, and then rests. On flash whole windows of the engine's
    /// accounts, 100 ms, so that a spell's charges are in it.
    pub(crate) spells_on: usize,
}

impl Scale {
    /// Spells to a window: 60 s, of flash 1 s.
    pub(crate) const WINDOW: usize = 20;
    /// Spells from a window's start to the next one's.
    pub(crate) const SLIDE: usize = 5;

    pub(crate) fn of(device: Device) -> Self {
        match device {
            Device::Flash => Self { spell: Duration::from_millis(50), spells_on: 4 },
            Device::Deskstar | Device::Nearline | Device::Raid0 => {
                Self { spell: Duration::from_secs(3), spells_on: 1 }
            }
        }
    }

    /// How long so many spells are.
    pub(crate) fn after(self, spells: usize) -> Duration {
        Duration::from_nanos(self.spell.as_nanos() * spells as u64)
    }

    /// How long a window is, in seconds.
    pub(crate) fn window_secs(self) -> f64 {
        self.after(Self::WINDOW).as_secs_f64()
    }
}

impl Device {
    pub(crate) fn build(self, seed: u64) -> Box<dyn disktime_model::Device> {
        let named = |name| (preset::find(name).expect("a preset's name").build)(seed);
        match self {
            Self::Deskstar | Self::Nearline | Self::Flash => named(self.name()),
            Self::Raid0 => Box::new(preset::raid0("deskstar-34gxp", 2, 64 * KIB, seed)),
        }
    }

    /// Pieces at the device at once: as many as it has places where work is done, or its queue.
    pub(crate) fn depth(self) -> u32 {
        match self {
            Self::Deskstar => 1,
            Self::Raid0 => 2,
            Self::Nearline | Self::Flash => 32,
        }
    }

    /// Where a load is: first byte and length.
    ///
    /// On hard disks what jumps about is spread over all of it, as virtual disks do that fill a
    /// disk: jumping between two such loads costs what it costs each alone. A load that is
    /// sequential, if only for a run, has a region in the middle, victims and antagonists each
    /// their own, side by side; so a load alone is in the same zone and finds the same in the
    /// cache. (In regions of their own random loads would lose what keeping near saves them alone:
    /// no scheduler can give that back without long stays.) On flash distance costs nothing: all
    /// loads have regions.
    fn region(self, load: Load) -> (u64, u64) {
        let capacity = match self {
            Self::Deskstar => 20_520_000_000,
            Self::Nearline => 4_000_000_000_000,
            Self::Raid0 => 41_000_000_000,
            Self::Flash => 256_000_000_000,
        };
        let bytes = match self {
            Self::Flash => 4096 * MIB,
            _ if load.is_spread() => return (0, capacity / MIB * MIB),
            Self::Deskstar | Self::Nearline | Self::Raid0 => 512 * MIB,
        };
        let middle = capacity / 2 / MIB * MIB;
        match load {
            Load::Victim(_) => (middle, bytes),
            Load::Antagonist(_) => (middle + bytes, bytes),
        }
    }

    /// The number outstanding where a hard disk's load would have `outstanding`: on flash enough
    /// for a load alone to keep every die busy, since only a load with many outstanding requests
    /// can use a share of many dies.
    fn outstanding(self, outstanding: u32) -> u32 {
        match self {
            Self::Flash => (outstanding * 32).max(64),
            Self::Deskstar | Self::Nearline | Self::Raid0 => outstanding,
        }
    }
}

impl Load {
    /// Every load of a cell, each once.
    pub(crate) fn of(cell: Cell) -> [Self; 2] {
        [Self::Victim(cell.victim), Self::Antagonist(cell.antagonist)]
    }

    /// Which operations, and how many at once on a hard disk.
    pub(crate) fn operations(self, extent: Extent) -> (Spec, u32) {
        let reads = |pattern, bytes| Spec::reads(pattern, extent, bytes);
        let writes = |pattern, bytes| Spec { reads_permille: 0, ..reads(pattern, bytes) };
        let (random, sequential) = (Pattern::Random, Pattern::Sequential);
        match self {
            Self::Victim(Victim::Random) => (reads(random, 4 * KIB), 1),
            Self::Victim(Victim::Sequential) => (reads(sequential, 4 * KIB), 1),
            Self::Victim(Victim::SequentialDeep) => (reads(sequential, 4 * KIB), 32),
            Self::Victim(Victim::SequentialLarge) => (reads(sequential, 128 * KIB), 1),
            Self::Victim(Victim::SemiSequential) => {
                (reads(Pattern::SemiSequential { random: 25, sequential: 475 }, 4 * KIB), 4)
            }
            Self::Victim(Victim::Runs) => (reads(Pattern::Runs { length: 1024 }, 4 * KIB), 4),
            Self::Victim(Victim::HalfWrites) => {
                (Spec { reads_permille: 500, ..reads(random, 4 * KIB) }, 1)
            }
            Self::Antagonist(Antagonist::Random | Antagonist::LateJoiner | Antagonist::Ten) => {
                (reads(random, 4 * KIB), 4)
            }
            Self::Antagonist(Antagonist::SequentialLarge | Antagonist::OnOff) => {
                (reads(sequential, MIB), 2)
            }
            Self::Antagonist(Antagonist::Writes) => (writes(sequential, MIB), 2),
            Self::Antagonist(Antagonist::FlushStorm) => {
                (Spec { flush_after: Some(4), ..writes(random, 4 * KIB) }, 4)
            }
        }
    }

    /// Whether it jumps about wherever it may.
    pub(crate) fn is_spread(self) -> bool {
        match self {
            Self::Victim(victim) => victim.is_random(),
            Self::Antagonist(
                Antagonist::SequentialLarge | Antagonist::OnOff | Antagonist::Writes,
            ) => false,
            Self::Antagonist(_) => true,
        }
    }

    /// Whether a hard disk does thousands of its requests a second, so that an eighth of a run
    /// tells its throughput.
    pub(crate) fn is_fast(self) -> bool {
        use Victim::{Runs, SemiSequential, Sequential, SequentialDeep};
        matches!(self, Self::Victim(Sequential | SequentialDeep | Runs | SemiSequential))
    }

    /// The cost of a piece whose whole request takes `mean`: large ones by length, so that one that
    /// goes out in parts costs no more.
    pub(crate) fn price(self, mean: Duration) -> Price {
        let (spec, _) = self.operations(Extent { start: 0, end: MIB });
        match spec.sizes[0].bytes {
            MIB => Price { each: Duration::ZERO, per_mib: mean },
            _ => Price { each: mean, per_mib: Duration::ZERO },
        }
    }
}

/// When an antagonist asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    Always,
    From(Duration),
    /// For a spell, then not for a spell, and so on until the end.
    OnOff {
        spell: Duration,
        end: Duration,
    },
}

/// A stream of a cell.
pub(crate) struct Tenant {
    pub(crate) load: Load,
    /// Its place among several of a kind.
    pub(crate) index: u32,
    pub(crate) reserve_permille: u32,
    pub(crate) presence: Presence,
}

impl Tenant {
    /// Alone.
    pub(crate) fn alone(load: Load) -> Self {
        Self { load, index: 0, reserve_permille: 1000, presence: Presence::Always }
    }

    /// Everyone in a cell; the victim is the first.
    pub(crate) fn of(cell: Cell, times: &Times) -> Vec<Self> {
        let victim = Self {
            load: Load::Victim(cell.victim),
            index: 0,
            reserve_permille: cell.share_percent * 10,
            presence: Presence::Always,
        };
        let count = if cell.antagonist == Antagonist::Ten { 10 } else { 1 };
        let left = 1000 - victim.reserve_permille;
        let presence = match cell.antagonist {
            Antagonist::LateJoiner => Presence::From(times.joined),
            Antagonist::OnOff => {
                let scale = Scale::of(cell.device);
                Presence::OnOff { spell: scale.after(scale.spells_on), end: times.end }
            }
            _ => Presence::Always,
        };
        let antagonist = |index| Self {
            load: Load::Antagonist(cell.antagonist),
            index,
            reserve_permille: left / count,
            presence: presence.clone(),
        };
        std::iter::once(victim).chain((0..count).map(antagonist)).collect()
    }

    /// Its reservation, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.reserve_permille) / 1000.0
    }

    /// One seed and one name give one sequence of requests, in a cell as alone.
    pub(crate) fn plan(&self, device: Device, seed: u64) -> StreamPlan {
        let (base, bytes) = device.region(self.load);
        let (spec, outstanding) = self.load.operations(Extent { start: 0, end: bytes });
        let outstanding = device.outstanding(outstanding);
        let name = match self.load {
            Load::Victim(_) => "victim".to_owned(),
            Load::Antagonist(_) => format!("antagonist-{}", self.index),
        };
        let pace = Pace::Closed { outstanding, think: Duration::ZERO };
        let phases = self.presence.phases(&Phase::always(spec, pace));
        let traffic = Phases::new(phases, seed, &name, Instant::ZERO);
        let reserve = Share::from_ppm(self.reserve_permille * 1000).expect("at most all");
        StreamPlan {
            name,
            contract: Contract { weight: self.reserve_permille, ..Contract::reserving(reserve) },
            base,
            parent: None,
            extent: Some((base, base + bytes)),
            traffic: traffic.expect("the bench's loads make sense").into(),
        }
    }
}

impl Presence {
    fn phases(&self, always: &Phase) -> Vec<Phase> {
        match *self {
            Self::Always => vec![always.clone()],
            Self::From(start) => vec![Phase { start, ..always.clone() }],
            Self::OnOff { spell, end } => {
                let (spell, end) = (spell.as_nanos(), end.as_nanos());
                let on = |index: u64| Phase {
                    start: Duration::from_nanos(2 * index * spell),
                    stop: Some(Duration::from_nanos((2 * index + 1) * spell)),
                    ..always.clone()
                };
                (0..end.div_ceil(2 * spell)).map(on).collect()
            }
        }
    }
}

/// When what happens in a cell.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// The spells that count.
    pub(crate) counted: Range<usize>,
    /// When a late joiner comes.
    pub(crate) joined: Duration,
    /// When it is over.
    pub(crate) end: Duration,
}

impl Times {
    /// A window to warm up, then `windows` of them; after a late joiner has come, which it does at a
    /// third of the time.
    pub(crate) fn of(cell: Cell, windows: usize) -> Self {
        let scale = Scale::of(cell.device);
        let count = Scale::WINDOW + (windows.max(1) - 1) * Scale::SLIDE;
        let late = cell.antagonist == Antagonist::LateJoiner;
        let first = if late { Scale::WINDOW.max(count.div_ceil(2)) } else { Scale::WINDOW };
        let counted = first..first + count;
        Self { joined: scale.after(first), end: scale.after(counted.end), counted }
    }

    /// Whether everyone asks in a spell.
    pub(crate) fn is_contended(cell: Cell, spell: usize) -> bool {
        let spells_on = Scale::of(cell.device).spells_on;
        cell.antagonist != Antagonist::OnOff || (spell / spells_on).is_multiple_of(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insulation::cells::Selection;

    fn cell(name: &str) -> Cell {
        name.parse::<Selection>().expect("a cell").cells().next().expect("one")
    }

    /// Whether it has a request in each second, if everything completes at once and it asks once a
    /// second.
    fn asked_by(tenant: &Tenant, device: Device, seconds: u64) -> Vec<bool> {
        let mut traffic = tenant.plan(device, 1).traffic;
        let mut ask = |second| {
            let now = Instant::ZERO + Duration::from_secs(second);
            let op = traffic.poll(now);
            op.inspect(|op| traffic.completed(now, op)).is_some()
        };
        (0..seconds).map(&mut ask).collect()
    }

    #[test]
    fn reserves_are_all_of_the_device_and_weights_follow_them() {
        for cell in Cell::all() {
            let tenants = Tenant::of(cell, &Times::of(cell, 4));
            assert_eq!(tenants.iter().map(|it| it.reserve_permille).sum::<u32>(), 1000, "{cell}");
            assert_eq!(tenants.len(), if cell.antagonist == Antagonist::Ten { 11 } else { 2 });
            for tenant in tenants {
                let contract = tenant.plan(cell.device, 1).contract;
                assert_eq!(contract.weight * 1000, contract.reserve.ppm(), "{cell}");
            }
        }
    }

    #[test]
    fn every_load_lies_on_its_device_and_sequential_ones_apart() {
        for device in Device::ALL {
            let capacity = device.build(1).capacity_bytes();
            let extents = |load| {
                let (base, bytes) = device.region(load);
                assert!(base + bytes <= capacity, "{device:?} {load:?}");
                base..base + bytes
            };
            let victim = extents(Load::Victim(Victim::Sequential));
            let antagonist = extents(Load::Antagonist(Antagonist::Writes));
            assert_eq!(victim.end, antagonist.start);
            let random = extents(Load::Antagonist(Antagonist::Ten));
            let spread = random.end - random.start;
            assert!(device == Device::Flash || spread > capacity / 10 * 9, "{device:?}");
        }
    }

    #[test]
    fn a_late_joiner_comes_at_a_third_and_windows_count_from_then_on() {
        let late = cell("deskstar-34gxp/random-4k/late-joiner/50");
        let times = Times::of(late, 100);
        assert_eq!(times.counted, 258..258 + 515);
        assert_eq!(times.joined, Duration::from_secs(3 * 258));
        let usual = Times::of(cell("deskstar-34gxp/random-4k/random-4k/50"), 100);
        assert_eq!(usual.counted, 20..535, "a window of 60 s to warm up, then 99 of 15 s and one");
        assert_eq!(usual.end, Duration::from_secs(60 + 99 * 15 + 60));
    }

    #[test]
    fn an_on_off_stream_asks_in_every_second_spell() {
        let on_off = cell("deskstar-34gxp/random-4k/on-off/50");
        let times = Times::of(on_off, 1);
        let antagonist = &Tenant::of(on_off, &times)[1];
        for (second, asked) in asked_by(antagonist, on_off.device, 12).into_iter().enumerate() {
            assert_eq!(asked, Times::is_contended(on_off, second / 3), "in second {second}");
        }
    }
}
