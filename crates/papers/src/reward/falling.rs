//! Our own figure: reservations on tiers, while the hit ratio of one tenant falls and falls.

use super::cached_servers::{self, Load, OURS, Scheduler};
use crate::experiment::{Check, Experiment, Sample};
use disktime_core::Share;
use disktime_model::tiered::HitRatio;
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-falling",
    title: "Five reservations of 20 %: one tenant's hit ratio falls from 0.9 to 0.1, the others' stay 0.9",
    claim: "Ours: a tenant whose hits fall takes nothing from four others",
    note: "Insulation is what a tenant gets by its reservation of what it gets alone. Each hit ratio is \
           a run of its own, as prices are stated for a run; reward-learned has the same over learned \
           costs.",
    reason: "",
    open: &[],
    measure,
};

/// Hit ratios of the tenant that falls, per cent.
const HITS: [u32; 5] = [90, 70, 50, 30, 10];
/// The hit ratio of the others.
const STEADY: u32 = 90;
const TENANTS: usize = 5;
const NAMES: [&str; TENANTS] = ["falling", "steady 1", "steady 2", "steady 3", "steady 4"];
const RESERVE_PERCENT: u32 = 20;
/// Seconds that count: from when the array is filled.
const COUNTED: Counted = Counted { ours: [5, 60], others: [5, 60] };

fn placement(hits: &[u32], seed: u64) -> HitRatio {
    let ends = (1..).map(|end| end * cached_servers::REGION_BYTES);
    HitRatio::by_region(ends.zip(hits.iter().map(|percent| percent * 10_000)).collect(), seed)
}

/// The seconds that count, to the end of a run: under our own scheduler, and alone or under reward.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    pub(super) ours: [u64; 2],
    pub(super) others: [u64; 2],
}

/// A run at each hit ratio.
pub(super) struct Runs {
    counted: Counted,
    /// The tenant that falls, alone.
    alone: [Outcome; HITS.len()],
    ours: [Outcome; HITS.len()],
    reward: [Outcome; HITS.len()],
}

impl Runs {
    pub(super) fn new(cost_model: &'static str, counted: Counted, seed: u64) -> Self {
        let run_for = |seconds: u64, scheduler: Scheduler, hits: &[u32]| {
            let reserve = Share::from_percent(RESERVE_PERCENT).expect("a part of the whole");
            let load = |name| Load { reserve, ..Load::reads(name, 100) };
            let loads: Vec<Load> = NAMES[..hits.len()].iter().map(|name| load(name)).collect();
            let array = cached_servers::tiers(placement(hits, seed), seed);
            cached_servers::run(scheduler, array, &loads, seconds, seed)
        };
        let run = |scheduler, hits: &[u32]| run_for(counted.others[1], scheduler, hits);
        let hits = |percent| [percent, STEADY, STEADY, STEADY, STEADY];
        Self {
            counted,
            alone: HITS.map(|percent| run(Scheduler::plain("fifo"), &[percent])),
            ours: HITS.map(|percent| {
                let scheduler = cached_servers::ours(cost_model, &hits(percent));
                run_for(counted.ours[1], scheduler, &hits(percent))
            }),
            reward: HITS.map(|percent| run(Scheduler::plain("reward"), &hits(percent))),
        }
    }

    /// The rates of all tenants together: under our own scheduler, and under reward.
    fn totals(&self, stage: usize) -> [f64; 2] {
        let Counted { ours, others } = self.counted;
        [(&self.ours, ours), (&self.reward, others)].map(|(runs, [from, to])| {
            let of = |stream| cached_servers::iops(&runs[stage], stream, from, to);
            (0..TENANTS).map(of).sum()
        })
    }

    fn insulation(&self, stage: usize, stream: usize) -> f64 {
        // The others hit as the first does before it falls.
        let Counted { ours, others } = self.counted;
        let alone = &self.alone[if stream == 0 { stage } else { 0 }];
        let alone = cached_servers::iops(alone, 0, others[0], others[1]);
        let share = f64::from(RESERVE_PERCENT) / 100.0;
        cached_servers::iops(&self.ours[stage], stream, ours[0], ours[1]) / (share * alone)
    }

    pub(super) fn checks(&self) -> Vec<Check> {
        let of_stage = |(stage, percent): (usize, &u32)| {
            let ratio = f64::from(*percent) / 100.0;
            let others = (1..TENANTS).map(|stream| self.insulation(stage, stream));
            let worst = others.fold(f64::INFINITY, f64::min);
            let [ours, reward] = self.totals(stage);
            [
                (format!("hits {ratio}: the others' insulation, the worst of four"), worst),
                (format!("hits {ratio}: total by reward's"), ours / reward),
            ]
        };
        let all = HITS.iter().enumerate().flat_map(of_stage);
        all.map(|(name, measured)| Check::at_least(name, measured, 0.95)).collect()
    }

    pub(super) fn outcomes(&self) -> Vec<&Outcome> {
        self.alone.iter().chain(&self.ours).chain(&self.reward).collect()
    }

    /// Simulated seconds.
    pub(super) fn seconds(&self) -> u64 {
        let Counted { ours, others } = self.counted;
        HITS.len() as u64 * (ours[1] + 2 * others[1])
    }

    pub(super) fn panels(&self) -> [Panel; 2] {
        let by_hits = |value: &dyn Fn(usize) -> f64| -> Vec<(f64, f64)> {
            let stages = HITS.iter().enumerate();
            stages.map(|(stage, hits)| (f64::from(*hits) / 100.0, value(stage))).collect()
        };
        let panel = |title: &str, y, series| Panel {
            title: title.to_owned(),
            marks: Marks::Lines,
            x: Axis::linear("hit ratio of the tenant that falls"),
            y,
            series,
            level: None,
        };
        let insulated = (0..TENANTS).map(|stream| {
            Series::new(NAMES[stream], by_hits(&|stage| self.insulation(stage, stream)))
        });
        let totals = [("disktime", 0), ("reward", 1)]
            .map(|(name, of)| Series::new(name, by_hits(&|stage| self.totals(stage)[of])));
        [
            panel("Insulation under disktime", Axis::linear("insulation"), insulated.collect()),
            panel("All together", Axis::linear("throughput (IOPS)"), totals.into()),
        ]
    }
}

fn measure(seed: u64) -> Sample {
    let runs = Runs::new(OURS, COUNTED, seed);
    let mut checks = runs.checks();
    checks.push(cached_servers::kept(&runs.outcomes()));
    Sample { seconds: runs.seconds() as f64, panels: runs.panels().into(), checks }
}
