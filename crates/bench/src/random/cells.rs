//! Cells: a device and its streams, drawn from a seed and a number.

use std::ops::Range;

use disktime_core::{Contract, Duration, Instant, Share};
use disktime_workload::{Pattern, Phase, Phases};

use disktime_sim::StreamPlan;

use super::devices::{DEVICES, DeviceKind, Group};
use super::loads::{Family, Load, Rhythm};
use super::numbers::Numbers;
use super::shares;
use super::times::scale;

const MIB: u64 = 1 << 20;
/// The smallest extent, if the device is large enough: more than what disks remember of what they
/// read.
const EXTENT_MIN: u64 = 1 << 30;

/// Cells of a seed that make one of each group.
pub const SEED_CELLS: u32 = 3;

/// The name of a cell: everything in it follows from these two numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CellId {
    /// Decides everything.
    pub seed: u64,
    /// Which of the seed's cells; its group is this modulo the number of groups.
    pub number: u32,
}

impl CellId {
    /// The group of its device.
    #[must_use]
    pub fn group(self) -> Group {
        Group::ALL[self.number as usize % Group::ALL.len()]
    }
}

/// How requests are priced where several are at the device at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Costs {
    /// By what a policy is used to: `disktime` learns them.
    Learned,
    /// Every stream's saturation cost is told.
    Stated,
}

/// A device and its streams.
#[derive(Debug)]
pub struct Cell {
    /// Its name.
    pub id: CellId,
    /// The shared device.
    pub device: &'static DeviceKind,
    /// Pieces at the device at once.
    pub depth: u32,
    /// How requests are priced.
    pub costs: Costs,
    pub(super) tenants: Vec<Tenant>,
}

/// When a stream is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Presence {
    Always,
    /// From when the others have warmed up.
    Joins,
    /// Until a time to warm up before the others' end.
    Leaves,
}

/// A stream of a cell.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) load: Load,
    pub(super) reserve_percent: u32,
    pub(super) weight: u32,
    pub(super) limit_percent: Option<u32>,
    /// A latency bound, by p99 on a disk of its own.
    pub(super) latency: Option<f64>,
    pub(super) presence: Presence,
    /// Where it is: first byte and length.
    pub(super) base: u64,
    pub(super) bytes: u64,
}

/// The cell of that name.
#[must_use]
pub fn draw(id: CellId) -> Cell {
    let group = id.group();
    let mut numbers = Numbers::new(id.seed, u64::from(id.number) + 1);
    let devices: Vec<_> = DEVICES
        .iter()
        .filter(|device| device.group == group && device.first_seed <= id.seed)
        .collect();
    let device = *numbers.choose(&devices);
    let depth = *numbers.choose(device.depths);
    let many = numbers.chance(8);
    let count = if many { numbers.within(16, 40) } else { numbers.within(3, 12) } as usize;
    // All of the device is reserved, or some of it, or not by all.
    let mode = numbers.weighted(&[40, 40, 20]);
    let reserving = if mode == 2 { count - count / 3 } else { count };
    let least = u32::try_from(reserving).expect("at most 40");
    let total = if mode == 0 { 100 } else { numbers.within(40, 95) }.max(least);
    let mut reserves = shares::draw(reserving, total, &mut numbers);
    reserves.resize(count, 0);
    let spread = numbers.chance(50);
    let stated = depth > 1 && count <= 16 && numbers.chance(20);
    let costs = if stated { Costs::Stated } else { Costs::Learned };
    let capacity = (device.build)(id.seed).capacity_bytes();
    let place = Placing { device, capacity, region: capacity / count as u64, spread };
    let tenant = |(index, reserve): (usize, u32)| place.tenant(index, reserve, &mut numbers);
    let tenants = reserves.into_iter().enumerate().map(tenant).collect();
    Cell { id, device, depth, costs, tenants }
}

/// Where the streams of a cell are.
struct Placing {
    device: &'static DeviceKind,
    capacity: u64,
    /// Bytes for each stream.
    region: u64,
    /// Whether random streams go everywhere.
    spread: bool,
}

impl Placing {
    fn tenant(&self, index: usize, reserve_percent: u32, numbers: &mut Numbers) -> Tenant {
        let load = Load::draw(self.device, numbers);
        let part = *numbers.choose(&[1, 1, 4, 16]);
        let room = load.room().next_multiple_of(MIB);
        let mut bytes = (self.region / part).max(room).max(EXTENT_MIN).min(self.region / MIB * MIB);
        let mut base = index as u64 * self.region / MIB * MIB;
        let jumps = matches!(load.pattern, Pattern::Random | Pattern::Skewed { .. });
        if let Some(cache) = self.device.cache_bytes.filter(|_| load.hot) {
            bytes = cache / 16 * u64::from(numbers.within(2, 10));
        } else if self.spread && jumps {
            (base, bytes) = (0, self.capacity / MIB * MIB);
        }
        let weight = *numbers.choose(&[100, 100, 100, 50, 200, 400]);
        let limited = numbers.chance(10);
        let slack = numbers.within(0, 20);
        let bounded = load.family() == Family::Light && numbers.chance(35);
        let latency = bounded.then(|| *numbers.choose(&[0.5, 1.0, 2.0]));
        let presence = match numbers.within(1, 20) {
            1 | 2 => Presence::Joins,
            3 => Presence::Leaves,
            _ => Presence::Always,
        };
        Tenant {
            name: format!("s{index}"),
            load,
            reserve_percent,
            weight,
            limit_percent: limited.then(|| (reserve_percent + slack).clamp(2, 100)),
            latency,
            presence,
            base,
            bytes,
        }
    }
}

impl Cell {
    /// Each stream's share: its reservation, and its part by weight of what nobody reserved, within
    /// its limit.
    pub(super) fn shares(&self) -> Vec<f64> {
        let reserved: u32 = self.tenants.iter().map(|it| it.reserve_percent).sum();
        let weights: u32 = self.tenants.iter().map(|it| it.weight).sum();
        let free = f64::from(100 - reserved) / 100.0;
        let share = |it: &Tenant| {
            let own = f64::from(it.reserve_percent) / 100.0;
            let share = own + free * f64::from(it.weight) / f64::from(weights);
            it.limit_percent.map_or(share, |limit| share.min(f64::from(limit) / 100.0))
        };
        self.tenants.iter().map(share).collect()
    }

    /// Whether the cost model is told what each stream's requests cost.
    pub(super) fn prices_are_told(&self) -> bool {
        self.costs == Costs::Stated
    }

    /// How long it takes, in times to warm up.
    pub(super) const WARMS: u64 = 4;
    /// Windows of a run in each of those.
    pub(super) const WINDOWS: u64 = 20;

    /// The time that it takes to reach the steady state: the unit of a cell's times.
    pub(super) fn warm(&self) -> Duration {
        Duration::from_millis(self.device.tempo.warm_ms())
    }
}

impl Presence {
    /// When a stream is measured: from its steady state on, in times to warm up.
    pub(super) const fn measured(self) -> Range<u64> {
        match self {
            Self::Always => 1..Cell::WARMS,
            Self::Joins => 2..Cell::WARMS,
            Self::Leaves => 1..Cell::WARMS - 1,
        }
    }
}

impl Tenant {
    pub(super) fn contract(&self) -> Contract {
        let share = |percent| Share::from_percent(percent).expect("at most 100");
        Contract {
            weight: self.weight,
            limit: self.limit_percent.map_or(Share::FULL, share),
            ..Contract::reserving(share(self.reserve_percent))
        }
    }

    /// The stream as it is in the cell, with all times of its own and of its presence so many times
    /// as long. One seed and one name give one sequence of requests, in a cell as alone.
    pub(super) fn plan(&self, cell: &Cell, per_second: f64, times: f64) -> StreamPlan {
        let warm = scale(cell.warm(), times);
        let always = Phase::always(self.load.spec(self.bytes), self.load.pace(per_second, times));
        let phase = match self.presence {
            Presence::Always => always,
            Presence::Joins => Phase { start: warm, ..always },
            Presence::Leaves => {
                Phase { stop: Some(scale(warm, (Cell::WARMS - 1) as f64)), ..always }
            }
        };
        self.stream(cell, phase)
    }

    /// The stream with so many requests at once, all the time.
    pub(super) fn busy(&self, cell: &Cell, outstanding: u32) -> StreamPlan {
        let load = Load { rhythm: Rhythm::Busy, outstanding, ..self.load.clone() };
        self.stream(cell, Phase::always(load.spec(self.bytes), load.pace(1.0, 1.0)))
    }

    fn stream(&self, cell: &Cell, phase: Phase) -> StreamPlan {
        let traffic = Phases::new(vec![phase], cell.id.seed, &self.name, Instant::ZERO);
        StreamPlan {
            name: self.name.clone(),
            contract: self.contract(),
            base: self.base,
            parent: None,
            extent: Some((self.base, self.base + self.bytes)),
            traffic: traffic.expect("the drawn loads make sense").into(),
        }
    }

    /// Whether it reads what fits into a cache that all streams share: alone it finds it there.
    pub(super) fn lives_in_cache(&self, device: &DeviceKind) -> bool {
        let skewed = matches!(self.load.pattern, Pattern::Skewed { .. });
        let fits = |cache: u64| skewed || self.bytes <= 2 * cache;
        self.load.reads_permille > 0 && device.cache_bytes.is_some_and(fits)
    }

    /// The stream in words.
    pub(super) fn words(&self) -> String {
        let mut words = self.load.words();
        match self.presence {
            Presence::Always => {}
            Presence::Joins => words += ", joins",
            Presence::Leaves => words += ", leaves",
        }
        if let Some(factor) = self.latency {
            words += &format!(", latency {factor} of its own disk's p99");
        }
        if let Some(limit) = self.limit_percent {
            words += &format!(", limit {limit} %");
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn cells(seeds: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = Cell> {
        let of = |seed| (0..SEED_CELLS).map(move |number| draw(CellId { seed, number }));
        seeds.flat_map(of)
    }

    fn words(cell: &Cell) -> String {
        format!("{cell:?}")
    }

    #[test]
    fn a_seed_and_a_number_are_a_cell_and_others_another() {
        let texts: Vec<String> = cells(1..=5).map(|cell| words(&cell)).collect();
        assert_eq!(texts, cells(1..=5).map(|cell| words(&cell)).collect::<Vec<_>>());
        let different: BTreeSet<&str> =
            texts.iter().filter_map(|text| text.split_once('}')).map(|(_, rest)| rest).collect();
        assert_eq!(different.len(), texts.len());
    }

    #[test]
    fn a_device_that_came_later_changes_no_cell_of_a_smaller_seed() {
        // The devices of seeds 1 to 4 before any came later.
        let names: Vec<&str> = cells(1..=4).map(|cell| cell.device.name).collect();
        let known = [
            "ibm18es",
            "raid0-faster",
            "tiered-90",
            "deskstar-pauses",
            "raid5-nearline",
            "flash-slower",
            "nearline-depth1",
            "nearline-through",
            "flash-8",
            "cheetah9lp",
            "nearline-256mib",
            "flash-pauses",
        ];
        assert_eq!(names, known);
        assert!(cells(1..=100).all(|cell| cell.device.first_seed == 1));
        assert!(cells(101..=110).any(|cell| cell.device.first_seed > 1));
    }

    #[test]
    fn every_device_load_and_kind_of_contract_occurs_within_a_hundred_seeds() {
        let (mut devices, mut families) = (BTreeSet::new(), BTreeSet::new());
        let (mut bands, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for cell in cells(101..=200) {
            devices.insert(cell.device.name);
            seen.insert(format!("{:?}", cell.costs));
            seen.insert(if cell.tenants.len() > 12 { "many" } else { "few" }.to_owned());
            for (tenant, share) in cell.tenants.iter().zip(cell.shares()) {
                families.insert(tenant.load.family());
                seen.insert(format!("{:?}", tenant.presence));
                seen.insert(format!("latency {}", tenant.latency.is_some()));
                seen.insert(format!("limit {}", tenant.limit_percent.is_some()));
                seen.insert(format!("trims {}", tenant.load.trims_permille > 0));
                seen.insert(format!("flush {}", tenant.load.flush_after.is_some()));
                let bars = [0.02, 0.05, 0.1, 0.2, 0.4, 1.0];
                bands.insert(bars.iter().position(|bar| share <= *bar));
            }
        }
        let all: BTreeSet<_> = DEVICES.iter().map(|device| device.name).collect();
        assert_eq!(devices, all);
        assert_eq!(families, Family::ALL.into_iter().collect());
        assert_eq!(bands, (0..6).map(Some).collect());
        let kinds = ["Always", "Joins", "Leaves", "Learned", "Stated", "many", "few"];
        let kinds = kinds.into_iter().chain([
            "limit true",
            "limit false",
            "flush true",
            "trims true",
            "latency true",
        ]);
        for kind in kinds {
            assert!(seen.contains(kind), "{kind}");
        }
    }

    #[test]
    fn contracts_are_within_what_a_device_has_to_give_and_loads_within_the_device() {
        for cell in cells(1..=100) {
            let reserved: u32 = cell.tenants.iter().map(|it| it.reserve_percent).sum();
            assert!((20..=100).contains(&reserved), "{:?}", cell.id);
            let total: f64 = cell.shares().iter().sum();
            assert!(total <= 1.0 + 1e-9, "{:?}: {total}", cell.id);
            let capacity = (cell.device.build)(1).capacity_bytes();
            assert!((3..=40).contains(&cell.tenants.len()), "{:?}", cell.id);
            for tenant in &cell.tenants {
                assert!(tenant.reserve_percent <= shares::SHARE_MAX, "{:?}", cell.id);
                assert!(tenant.limit_percent.is_none_or(|it| it >= tenant.reserve_percent));
                assert!(tenant.base + tenant.bytes <= capacity, "{:?} {tenant:?}", cell.id);
                assert_eq!(tenant.load.spec(tenant.bytes).check(), Ok(()), "{:?}", cell.id);
            }
        }
    }
}
