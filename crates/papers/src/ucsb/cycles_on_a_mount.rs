//! Figures 5 to 7 by programs that read files of a mount, beside simulations of the same.
//!
//! A program that has one read outstanding asks for the next one after the answer. The elevator has
//! gone on by then, which no simulation shows, as its streams ask in the same moment. So programs of
//! best effort have [`AHEAD`] reads outstanding here, as read-ahead has, on both sides.

use super::cyclic_streams::{self, CYCLE_SECONDS, DISK, JOINS, Load, MB, SECONDS};
use super::fig7;
use crate::experiment::{Check, Sample};
use crate::mounted_figures::{self, Mounted, Played, Run, SEED, beside};
use disktime_core::Duration;
use disktime_model::preset::{self, Preset};
use disktime_report::chart::{Axis, Series};
use disktime_sim::Plan;

/// Reads outstanding of a program of best effort.
const AHEAD: u32 = 4;
/// Reads of a cycle that are at the mount at once: eight of the elevator's batches.
const CYCLES: u32 = 64;
/// Cycles of each run of figure 7, whose seven runs one after the other take five minutes so.
const CYCLES_7: u64 = 8;
/// Placements of a simulated run.
const PLACEMENTS: u64 = 16;

pub(crate) const MOUNTED: [Mounted; 3] = [
    Mounted { id: "ucsb-5", device, runs: joined_by_players, judge: judge_5 },
    Mounted { id: "ucsb-6", device, runs: joined_by_readers, judge: judge_6 },
    Mounted { id: "ucsb-7", device, runs: beside_low_priority, judge: judge_7 },
];

fn device() -> &'static Preset {
    preset::find(DISK).expect("the paper's disk is a preset")
}

fn joined_by_players() -> Vec<Run> {
    vec![joined("players of 5 MB/s join", |start| Load::player(5 * MB, start))]
}

fn joined_by_readers() -> Vec<Run> {
    vec![joined("readers join", Load::greedy)]
}

fn joined(name: &str, best_effort: fn(u64) -> Load) -> Run {
    let profile = cyclic_streams::profile(SEED);
    let run = Run::new(name, CYCLES, move |start| {
        let loads = cyclic_streams::joining(|start| best_effort(start).ahead(AHEAD));
        cyclic_streams::mounted(&loads, Some(profile.clone()), start)
    });
    run.over(PLACEMENTS)
}

fn beside_low_priority() -> Vec<Run> {
    let run = |low: usize| {
        let name = format!("{low} of low priority");
        let plan = move |start| {
            let plan = cyclic_streams::mounted(&fig7::beside(low), None, start);
            Plan { duration: Duration::from_secs(CYCLES_7 * CYCLE_SECONDS), ..plan }
        };
        Run::new(name, CYCLES, plan).over(PLACEMENTS)
    };
    (1..=7).map(run).collect()
}

/// As the simulated figure judges it: in no cycle far from 8 MB/s.
fn rate_kept(live: &Played) -> Check {
    let cycles = live.by_span(0..1, CYCLE_SECONDS).into_iter();
    let off = cycles.map(|(_, mb)| (mb / 8.0 - 1.0).abs() * 100.0).fold(0.0, f64::max);
    Check::deviation("live: high priority, farthest from 8 MB/s in any cycle of 4 s, %", off, 2.0)
}

/// Both sides of a run with joins: a quantity of the live one and of the simulated one.
fn judge_joined(
    (live, mounted): (&[Played], &Mounted),
    name: &str,
    of: impl Fn(&Played) -> f64,
) -> Sample {
    let simulated = mounted.simulated();
    let both = [&live[0], &simulated[0]];
    let mut checks = vec![rate_kept(&live[0])];
    checks.extend(beside(name, both.map(of)));
    let total = |played: &Played| played.by_span(0..played.streams.len(), CYCLE_SECONDS);
    let series = ["live", "simulated"].into_iter().zip(both);
    let axes = (Axis::linear("time (s)"), Axis::linear("throughput of all (MB/s)"));
    let series = series.map(|(name, played)| Series::new(name, total(played))).collect();
    let panels = vec![mounted_figures::panel("all streams together", axes, series)];
    Sample { seconds: SECONDS as f64, panels, checks }
}

/// From when the last one's buffer is full, or never will be.
const FROM: u64 = JOINS[JOINS.len() - 1] + 3;

fn judge_5(live: &[Played]) -> Sample {
    let best_effort = |played: &Played| played.mb(1..=JOINS.len(), FROM, SECONDS);
    let name = "all five best-effort streams together, MB/s";
    judge_joined((live, &MOUNTED[0]), name, best_effort)
}

fn judge_6(live: &[Played]) -> Sample {
    let all = |played: &Played| played.mb(0..=JOINS.len(), FROM, SECONDS);
    judge_joined((live, &MOUNTED[1]), "all six streams together, MB/s", all)
}

fn judge_7(live: &[Played]) -> Sample {
    let simulated = MOUNTED[2].simulated();
    let high = |played: &Played| played.response_ms(0..1);
    let low = |played: &Played| played.response_ms(1..played.streams.len());
    let of = |played: &[Played], of: fn(&Played) -> f64| played.iter().map(of).collect::<Vec<_>>();
    let highs = [live, &simulated].map(|played| of(played, high));
    let lows = [live, &simulated].map(|played| of(played, low));
    let worst = (3..7).map(|index| highs[0][index] / lows[0][index]).fold(0.0, f64::max);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let usual = mean(&highs[0]);
    let off = highs[0].iter().map(|it| (it / usual - 1.0).abs() * 100.0).fold(0.0, f64::max);
    let mut checks = vec![
        Check::at_most("live: high by low priority's response from 4 on, at most", worst, 0.5),
        Check::deviation("live: high priority, farthest from its mean over all, %", off, 30.0),
    ];
    for (name, values) in [("high", &highs), ("low", &lows)] {
        let name = format!("{name} priority's mean response, mean over 1 to 7, ms");
        let both = [mean(&values[0]), mean(&values[1])];
        checks.extend(beside(&name, both));
    }
    let points =
        |values: &[f64]| (1..=7).map(f64::from).zip(values.iter().copied()).collect::<Vec<_>>();
    let series = [("high", &highs), ("low", &lows)].into_iter().flat_map(|(which, values)| {
        let sides = ["live", "simulated"].into_iter().zip(values);
        sides.map(move |(side, values)| Series::new(&format!("{which}, {side}"), points(values)))
    });
    let axes = (Axis::linear("low-priority streams"), Axis::linear("response time (ms)"));
    let panels = vec![mounted_figures::panel("mean response", axes, series.collect())];
    Sample { seconds: (7 * CYCLES_7 * CYCLE_SECONDS) as f64, panels, checks }
}
