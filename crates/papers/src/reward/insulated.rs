//! Our own: unlike tenants on tiers over learned costs, judged by what each does alone.

use super::cached_servers::{self, Load};
use crate::experiment::{Check, Experiment, Sample};
use disktime_core::Share;
use disktime_model::tiered::{HitRatio, Tiered};
use disktime_model::{Device, preset};
use disktime_report::chart::{Axis, Line, Marks, Panel, Series};
use disktime_sim::{Outcome, StreamPlan, simulate};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-insulated",
    title: "Tenants of hit ratios 1, 0.9, 0.5 and 0.1 reserve 10, 20, 30 and 40 %: disktime over learned costs",
    claim: "Ours: each of four tenants has what its share of the array would give it alone",
    note: "Our own bars: mean 0.95, first percentile over 10 s 0.9, shares within 3 points. Tiers work \
           side by side, so all get more than their part.",
    reason: "",
    open: &[],
    measure: |seed| measure(&PAPERS, seed),
};

pub(super) const DISK: Experiment = Experiment {
    id: "reward-insulated-disk",
    title: "The same on flash beside a disk of 7200 rpm",
    claim: "Ours: the same on flash beside a disk",
    note: "A tenant that always hits has a few requests on flash among others, each of which takes \
           ten times as long as of 64: it costs what it does alone, and loses nothing. Three \
           tenants' regions make the disk seek farther than one's, and that is what they pay.",
    reason: "Pieces of three tenants mix on the disk, which seeks farther than within one's region: 25, \
             17 and 13 % longer each, and the three pay for it.",
    open: &[],
    measure: |seed| measure(&FLASH_AND_DISK, seed),
};

const COST_MODEL: &str = "learned";
/// Hit ratio and reservation of each tenant, per cent.
const TENANTS: [(&str, u32, u32); 4] =
    [("hits 1", 100, 10), ("hits 0.9", 90, 20), ("hits 0.5", 50, 30), ("hits 0.1", 10, 40)];
/// Prices are known by the first.
const COUNTED: [u64; 2] = [20, 220];
const ALONE: [u64; 2] = [5, 65];
const WINDOW: usize = 10;
/// A region of a device as large as a disk is.
const REGION: u64 = 16 << 30;

/// Two tiers, and how large a tenant's region is on them.
struct Array {
    region: u64,
    build: fn(HitRatio, u64) -> Box<dyn Device>,
}

const PAPERS: Array = Array {
    region: cached_servers::REGION_BYTES,
    build: |hits, seed| cached_servers::tiers(hits, seed),
};

const FLASH_AND_DISK: Array = Array {
    region: REGION,
    build: |hits, seed| {
        let named = |name| (preset::find(name).expect("a preset's name").build)(seed);
        Box::new(Tiered::new(named("flash-generic"), named("nearline-7200"), Box::new(hits)))
    },
};

impl Array {
    fn device(&self, seed: u64) -> Box<dyn Device> {
        let ends = (1..).map(|end| end * self.region);
        let hits = ends.zip(TENANTS.map(|(_, hits, _)| hits * 10_000)).collect();
        (self.build)(HitRatio::by_region(hits, seed), seed)
    }

    /// The tenants side by side, or one of them; each in its region.
    fn run(&self, tenants: &[usize], policy: &'static str, seconds: u64, seed: u64) -> Outcome {
        let scheduler =
            cached_servers::Scheduler { policy, ..cached_servers::ours(COST_MODEL, &[]) };
        let stream = |at: &usize| {
            let (name, _, percent) = TENANTS[*at];
            let reserve = Share::from_percent(percent).expect("a part of the whole");
            let load = Load { reserve, bytes: self.region, ..Load::reads(name, 100) };
            StreamPlan {
                base: *at as u64 * self.region,
                ..load.plan(0, cached_servers::DEPTH, seed)
            }
        };
        let mut plan = cached_servers::plan(scheduler, self.device(seed), &[], seconds, seed);
        plan.streams = tenants.iter().map(stream).collect();
        simulate(plan).expect("the tenants can be run")
    }
}

fn measure(array: &Array, seed: u64) -> Sample {
    let all: Vec<usize> = (0..TENANTS.len()).collect();
    let shared = array.run(&all, "disktime", COUNTED[1], seed);
    let counted = || shared.windows.iter().filter(|it| u64::from(it.index) >= COUNTED[0]);
    let charged: f64 = counted().map(|window| window.charged.as_secs_f64()).sum();
    let (mut checks, mut series) = (Vec::new(), Vec::new());
    for (stream, (name, _, percent)) in TENANTS.into_iter().enumerate() {
        let of = |what: &str| format!("{name}: {what}");
        let alone = array.run(&[stream], "fifo", ALONE[1], seed);
        let share = f64::from(percent) / 100.0;
        let due = cached_servers::iops(&alone, 0, ALONE[0], ALONE[1]) * share;
        let mine: Vec<_> = counted().filter(|it| it.stream.0 as usize == stream).collect();
        let rates: Vec<f64> = mine.iter().map(|window| window.requests as f64 / due).collect();
        let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
        let mut windows: Vec<f64> = rates.windows(WINDOW).map(mean).collect();
        let end = |at: usize| (at + WINDOW) as f64 + COUNTED[0] as f64;
        let points = windows.iter().enumerate().map(|(at, value)| (end(at), *value));
        series.push(Series::new(name, points));
        windows.sort_by(f64::total_cmp);
        checks.push(Check::at_least(of("insulation, mean"), mean(&rates), 0.95));
        let first = windows[windows.len() / 100];
        checks.push(Check::at_least(of("insulation, first percentile of 10 s"), first, 0.9));
        let got = mine.iter().map(|window| window.charged.as_secs_f64()).sum::<f64>() / charged;
        checks.push(Check::deviation(of("share, points off"), ((got - share) * 100.0).abs(), 3.0));
    }
    checks.push(cached_servers::kept(&[&shared]));
    let panel = Panel {
        title: format!("Insulation over {WINDOW} s"),
        marks: Marks::Lines,
        x: Axis::linear("time (s)"),
        y: Axis::linear("by share and throughput alone"),
        series,
        level: Some(Line { name: "its share".to_owned(), at: 1.0 }),
    };
    let seconds = COUNTED[1] + TENANTS.len() as u64 * ALONE[1];
    Sample { seconds: seconds as f64, panels: vec![panel], checks }
}
