//! The loads of random cells: which requests, how many at once, and when.

use std::fmt::Write as _;

use disktime_core::Duration;
use disktime_workload::{Arrivals, Extent, Pace, Pattern, SizeWeight, Spans, Spec};

use super::devices::{DeviceKind, Tempo};
use super::numbers::Numbers;
use super::times::{scale, seconds};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Loads that are shown together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    /// Anywhere, reads only, always busy; so are the next eight.
    RandomReads,
    /// Anywhere, reads and writes.
    RandomMixed,
    /// Anywhere, writes only.
    RandomWrites,
    /// In order, at least half of them reads.
    Sequential,
    /// In order, writes.
    SequentialWrites,
    /// In order for a while, then elsewhere.
    Runs,
    /// In order, with jumps between.
    SemiSequential,
    /// Anywhere, the first places more often.
    Skewed,
    /// Anywhere within a set that fits into the device's cache.
    HotSet,
    /// Waits between a completion and the next request.
    Think,
    /// Rests after each burst.
    Bursts,
    /// Arrives by itself, for less than its share.
    Light,
    /// Arrives by itself, for more than its share.
    Above,
    /// Arrives by itself for a while, then not at all, for less than its share on average.
    OnOff,
}

/// When a load's requests come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Rhythm {
    /// So many at once, always.
    Busy,
    /// So many at once, each after a pause.
    Think(Duration),
    /// So many requests, then nothing for a time between the two.
    Bursts(u32, Duration, Duration),
    /// At random times, at this part of what the share would do.
    Poisson(f64),
    /// For a while at constant intervals, then not at all; on average at this part of what the share
    /// would do.
    OnOff(f64, Duration, Duration, Spans),
}

/// A load.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Load {
    pub(super) pattern: Pattern,
    pub(super) sizes: Vec<SizeWeight>,
    pub(super) reads_permille: u16,
    pub(super) trims_permille: u16,
    pub(super) flush_after: Option<u32>,
    pub(super) hot: bool,
    /// Requests at once, in a closed loop.
    pub(super) outstanding: u32,
    pub(super) rhythm: Rhythm,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::RandomReads,
        Self::RandomMixed,
        Self::RandomWrites,
        Self::Sequential,
        Self::SequentialWrites,
        Self::Runs,
        Self::SemiSequential,
        Self::Skewed,
        Self::HotSet,
        Self::Think,
        Self::Bursts,
        Self::Light,
        Self::Above,
        Self::OnOff,
    ];

    /// Its name in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RandomReads => "random reads",
            Self::RandomMixed => "random mixed",
            Self::RandomWrites => "random writes",
            Self::Sequential => "sequential",
            Self::SequentialWrites => "sequential writes",
            Self::Runs => "runs",
            Self::SemiSequential => "semi-sequential",
            Self::Skewed => "skewed",
            Self::HotSet => "hot set",
            Self::Think => "think",
            Self::Bursts => "bursts",
            Self::Light => "light",
            Self::Above => "above",
            Self::OnOff => "on-off",
        }
    }

    /// Whether loads of that name arrive by themselves.
    pub(super) fn is_open(name: &str) -> bool {
        [Self::Light, Self::Above, Self::OnOff].iter().any(|family| family.name() == name)
    }
}

impl Load {
    /// A load for a device.
    pub(super) fn draw(device: &DeviceKind, numbers: &mut Numbers) -> Self {
        let sizes = sizes(numbers);
        let largest = sizes.iter().map(|size| size.bytes).max().unwrap_or(KIB);
        let hot = device.cache_bytes.is_some() && numbers.chance(25);
        let pattern = if hot { Pattern::Random } else { pattern(largest, numbers) };
        let reads_permille = match numbers.weighted(&[55, 12, 8, 25]) {
            0 => 1000,
            1 => 700,
            2 => 500,
            _ => 0,
        };
        let reads_permille = if hot { 1000 } else { reads_permille };
        let flush_after =
            (reads_permille < 1000 && numbers.chance(12)).then(|| numbers.within(2, 64));
        let trims_permille = if reads_permille < 1000 && numbers.chance(10) { 200 } else { 0 };
        let outstanding = *numbers.choose(&[1, 1, 1, 2, 4, 4, 8, 16, 32, 64]);
        let rhythm = rhythm(device.tempo, numbers);
        Self {
            pattern,
            sizes,
            reads_permille,
            trims_permille,
            flush_after,
            hot,
            outstanding,
            rhythm,
        }
    }

    /// Where it is shown.
    pub(super) fn family(&self) -> Family {
        match self.rhythm {
            Rhythm::Think(_) => Family::Think,
            Rhythm::Bursts(..) => Family::Bursts,
            Rhythm::Poisson(part) if part < 1.0 => Family::Light,
            Rhythm::Poisson(_) => Family::Above,
            Rhythm::OnOff(..) => Family::OnOff,
            Rhythm::Busy if self.hot => Family::HotSet,
            Rhythm::Busy => match (self.pattern, self.reads_permille) {
                (Pattern::Skewed { .. }, _) => Family::Skewed,
                (Pattern::Random, 1000) => Family::RandomReads,
                (Pattern::Random, 0) => Family::RandomWrites,
                (Pattern::Random, _) => Family::RandomMixed,
                (Pattern::Sequential, 0) => Family::SequentialWrites,
                (Pattern::Sequential, _) => Family::Sequential,
                (Pattern::Runs { .. }, _) => Family::Runs,
                (Pattern::SemiSequential { .. }, _) => Family::SemiSequential,
            },
        }
    }

    /// Whether its requests come whether or not others complete.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.rhythm, Rhythm::Poisson(_) | Rhythm::OnOff(..))
    }

    /// The operations, within so many bytes.
    pub(super) fn spec(&self, bytes: u64) -> Spec {
        Spec {
            pattern: self.pattern,
            extent: Extent { start: 0, end: bytes },
            sizes: self.sizes.clone(),
            reads_permille: self.reads_permille,
            trims_permille: self.trims_permille,
            flush_after: self.flush_after,
        }
    }

    /// The fewest bytes in which it can be.
    pub(super) fn room(&self) -> u64 {
        let largest = self.sizes.iter().map(|size| size.bytes).max().unwrap_or(KIB);
        match self.pattern {
            Pattern::Runs { length } => largest * u64::from(length),
            _ => largest,
        }
    }

    /// Its pace where all times of its own are so many times as long. An open load offers its part of
    /// `per_second`, which is what the share would do.
    pub(super) fn pace(&self, per_second: f64, times: f64) -> Pace {
        let scaled = |time: Duration| scale(time, times);
        let outstanding = self.outstanding;
        match self.rhythm {
            Rhythm::Busy => Pace::Closed { outstanding, think: Duration::ZERO },
            Rhythm::Think(think) => Pace::Closed { outstanding, think: scaled(think) },
            Rhythm::Bursts(length, min, max) => {
                Pace::Bursts { outstanding, length, idle_min: scaled(min), idle_max: scaled(max) }
            }
            Rhythm::Poisson(part) => {
                Pace::Open(Arrivals::Poisson { mean: interval(part * per_second, times) })
            }
            Rhythm::OnOff(part, on, off, spans) => {
                let duty = on.as_secs_f64() / (on + off).as_secs_f64();
                let interval = interval(part / duty * per_second, times);
                Pace::Open(Arrivals::OnOff { interval, on: scaled(on), off: scaled(off), spans })
            }
        }
    }

    /// The load in words.
    pub(super) fn words(&self) -> String {
        let mut words = match self.pattern {
            _ if self.hot => "hot set".to_owned(),
            Pattern::Random => "random".to_owned(),
            Pattern::Skewed { operations_permille: often, part_permille: part } => {
                format!("skewed {}:{}", often / 10, part / 10)
            }
            Pattern::Sequential => "sequential".to_owned(),
            Pattern::Runs { length } => format!("runs of {length}"),
            Pattern::SemiSequential { random, sequential } => {
                format!("{random}:{sequential} semi-sequential")
            }
        };
        let sizes: Vec<_> = self.sizes.iter().map(|size| binary(size.bytes)).collect();
        let _ = write!(words, " {}", sizes.join("/"));
        match self.reads_permille {
            1000 => words += " reads",
            0 => words += " writes",
            permille => {
                let _ = write!(words, " {} % reads", permille / 10);
            }
        }
        if self.trims_permille > 0 {
            words += ", trims";
        }
        if let Some(writes) = self.flush_after {
            let _ = write!(words, ", flush after {writes}");
        }
        if !self.is_open() {
            let _ = write!(words, ", {} at once", self.outstanding);
        }
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let _ = match self.rhythm {
            Rhythm::Busy => Ok(()),
            Rhythm::Think(think) => write!(words, ", think {:.3} ms", ms(think)),
            Rhythm::Bursts(length, min, max) => {
                write!(words, ", bursts of {length}, idle {:.0}-{:.0} ms", ms(min), ms(max))
            }
            Rhythm::Poisson(part) => write!(words, ", Poisson at {part:.2} of its share"),
            Rhythm::OnOff(part, on, off, _) => {
                write!(words, ", {part:.2} of its share, on {:.0} off {:.0} ms", ms(on), ms(off))
            }
        };
        words
    }
}

fn binary(bytes: u64) -> String {
    match bytes {
        MIB.. => format!("{}MiB", bytes / MIB),
        KIB.. => format!("{}KiB", bytes / KIB),
        _ => format!("{bytes}B"),
    }
}

/// From one arrival to the next, in time that is so many times as long. No shorter than sources can
/// do.
fn interval(per_second: f64, times: f64) -> Duration {
    seconds(times / per_second).max(Duration::from_micros(1))
}

fn sizes(numbers: &mut Numbers) -> Vec<SizeWeight> {
    let one = |bytes| vec![SizeWeight { bytes, weight: 1 }];
    let two = |few, often, many, seldom| {
        vec![SizeWeight { bytes: few, weight: often }, SizeWeight { bytes: many, weight: seldom }]
    };
    match numbers.weighted(&[4, 34, 8, 8, 8, 12, 8, 3, 5, 5, 5]) {
        0 => one(512),
        1 => one(4 * KIB),
        2 => one(8 * KIB),
        3 => one(16 * KIB),
        4 => one(64 * KIB),
        5 => one(128 * KIB),
        6 => one(MIB),
        7 => one(4 * MIB),
        8 => two(4 * KIB, 4, 64 * KIB, 1),
        9 => two(4 * KIB, 9, MIB, 1),
        _ => two(512, 1, 16 * KIB, 1),
    }
}

fn pattern(largest: u64, numbers: &mut Numbers) -> Pattern {
    match numbers.weighted(&[38, 30, 14, 12, 6]) {
        0 => Pattern::Random,
        1 => Pattern::Sequential,
        2 => {
            let most = u32::try_from(16 * MIB / largest).unwrap_or(u32::MAX);
            let length = *numbers.choose(&[4, 16, 64, 256, 1024]);
            Pattern::Runs { length: length.min(most) }
        }
        3 => Pattern::SemiSequential {
            random: numbers.within(1, 25),
            sequential: numbers.within(25, 475),
        },
        _ => {
            let (part_permille, operations_permille) =
                *numbers.choose(&[(200, 800), (100, 900), (50, 700)]);
            Pattern::Skewed { part_permille, operations_permille }
        }
    }
}

fn rhythm(tempo: Tempo, numbers: &mut Numbers) -> Rhythm {
    // Times on a slow device; on others shorter by so much.
    let unit = if tempo == Tempo::Slow { 1.0 } else { 0.02 };
    let time = |ms: f64| scale(Duration::from_millis(1), ms * unit);
    match numbers.weighted(&[52, 10, 8, 18, 6, 6]) {
        0 => Rhythm::Busy,
        1 => Rhythm::Think(time(numbers.log(1.0, 200.0))),
        2 => {
            let length = *numbers.choose(&[16, 64, 256, 1024]);
            let min = numbers.log(100.0, 1000.0);
            Rhythm::Bursts(length, time(min), time(min * 2.0))
        }
        3 => Rhythm::Poisson(0.2 + 0.6 * numbers.part()),
        4 => Rhythm::Poisson(1.2 + 1.8 * numbers.part()),
        _ => {
            let spans = if numbers.chance(50) { Spans::Fixed } else { Spans::Exponential };
            let (on, off) = (numbers.log(500.0, 4000.0), numbers.log(500.0, 4000.0));
            Rhythm::OnOff(0.2 + 0.6 * numbers.part(), time(on), time(off), spans)
        }
    }
}
