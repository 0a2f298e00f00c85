//! Rows of policies in sum.

use std::collections::HashSet;

use disktime_report::statistics::{mean, quantile};
use serde::Serialize;

use super::devices::Group;
use super::loads::Family;
use super::random_row::{Row, StreamRow};

/// A policy in a group of devices. Streams that are not judged are counted, and left out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// A policy by name.
    pub policy: &'static str,
    /// A group of devices.
    pub group: &'static str,
    /// How many cells and streams it sums up.
    #[serde(flatten)]
    pub counts: Counts,
    /// The insulation that 19 of 20 streams have at least.
    pub insulation_p05: f64,
    /// The median insulation.
    pub insulation_median: f64,
    /// The part of the streams below .9.
    pub below_0_9: f64,
    /// The part of the streams below .5.
    pub below_0_5: f64,
    /// The same three by share × throughput alone, of closed loops only, think time or not.
    pub of_alone: Option<[f64; 3]>,
    /// The streams to which time division gives .9, where the oracle was asked.
    pub possible: Option<Possible>,
    /// The median over cells of the worst stream's insulation.
    pub worst_median: f64,
    /// The mean over cells of throughput by throughput alone, summed over streams.
    pub work_mean: f64,
    /// How long streams wait.
    #[serde(flatten)]
    pub waits: Waits,
    /// Streams whose learned cost has a truth beside it.
    pub costs: Option<LearnedCosts>,
    /// How often a stream was behind for longer than its promise bound.
    pub promises_broken: u64,
}

/// Streams to which time division gives .9 of the smaller due, by what the policy gives them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Possible {
    /// How many they are,
    pub streams: usize,
    /// and how many others are left out: their share of the time is not enough, whoever else is there.
    pub left_out: usize,
    /// The part of the smaller due that 19 of 20 have at least.
    pub p05: f64,
    /// The part of them below .9.
    pub below_0_9: f64,
    /// The part of them below .5.
    pub below_0_5: f64,
}

impl Possible {
    /// The bar that the bench counts streams by.
    const GIVEN: f64 = 0.9;

    fn of(streams: &[&StreamRow]) -> Option<Self> {
        let asked = || streams.iter().filter_map(|it| Some((it.time_division?, it.smaller())));
        let possible = asked().filter(|(given, _)| *given >= Self::GIVEN);
        let values: Vec<f64> = possible.map(|(_, got)| got).collect();
        (!values.is_empty()).then(|| Self {
            streams: values.len(),
            left_out: asked().count() - values.len(),
            p05: quantile(&values, 0.05),
            below_0_9: below(&values, 0.9),
            below_0_5: below(&values, 0.5),
        })
    }
}

/// The part of the values that is below a bar.
fn below(values: &[f64], bar: f64) -> f64 {
    values.iter().filter(|it| **it < bar).count() as f64 / values.len() as f64
}

/// Learned costs beside the time that requests take alone.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LearnedCosts {
    /// How many streams' costs these are.
    pub streams: usize,
    /// The part of them whose time alone is within twice the spread that is shown.
    pub within: f64,
    /// By how much they are off, as a part of the cost: median and 95th percentile.
    pub off: (f64, f64),
}

/// The cells and streams of a [`Summary`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Counts {
    /// Cells.
    pub cells: usize,
    /// Streams of these that are judged.
    pub streams: usize,
    /// Streams that live in a cache that others can empty: no policy can help them.
    pub hot: usize,
    /// Streams to which too few requests are due.
    pub few: usize,
}

/// The waits of a [`Summary`]'s streams.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Waits {
    /// p99 of light streams by that on a disk of their own: median and 95th percentile.
    pub light_p99: Option<(f64, f64)>,
    /// The same of light streams with a latency bound.
    pub latency_p99: Option<(f64, f64)>,
    /// The longest gap of streams that are always busy, in ms: median and 95th percentile.
    pub gap_ms: Option<(f64, f64)>,
}

/// A policy beside others in the same cells.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Versus {
    /// A policy by name.
    pub policy: &'static str,
    /// The part of the cells in which a rival's worst stream is better by .05; by rival.
    pub rival_worst_better: Vec<(&'static str, f64)>,
    /// Work by that of the rival that does most in the cell: median and fifth percentile.
    pub work_by_best: Option<(f64, f64)>,
}

/// By how much a worst stream has to be better.
const BETTER: f64 = 0.05;

/// The rows of cells that ran to their end under every policy, as policies are compared cell by cell; and those of
/// the other cells.
#[must_use]
pub fn whole(rows: Vec<Row>) -> (Vec<Row>, Vec<Row>) {
    let ended = rows.iter().filter(|row| row.ended_early.is_some());
    let ended: HashSet<(u64, u32)> = ended.map(|row| (row.seed, row.cell)).collect();
    rows.into_iter().partition(|row| !ended.contains(&(row.seed, row.cell)))
}

/// Each policy's in each group, and in all; in the order in which rows name the policies.
#[must_use]
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let mut summaries = Vec::new();
    for policy in policies(rows) {
        let groups = Group::ALL.map(|group| Some(group.name())).into_iter().chain([None]);
        for group in groups {
            let within =
                |row: &&Row| row.policy == policy && group.is_none_or(|it| row.group == it);
            let own: Vec<&Row> = rows.iter().filter(within).collect();
            summaries.extend(summary(policy, group.unwrap_or("all"), &own));
        }
    }
    summaries
}

/// The policies of rows, in order.
#[must_use]
pub(super) fn policies(rows: &[Row]) -> Vec<&'static str> {
    let mut policies: Vec<&'static str> = Vec::new();
    for row in rows {
        if !policies.contains(&row.policy) {
            policies.push(row.policy);
        }
    }
    policies
}

fn summary(policy: &'static str, group: &'static str, rows: &[&Row]) -> Option<Summary> {
    let all = || rows.iter().flat_map(|row| &row.streams);
    let streams: Vec<&StreamRow> = all().filter(|stream| stream.is_judged()).collect();
    if streams.is_empty() {
        return None;
    }
    let insulation: Vec<f64> = streams.iter().map(|stream| stream.throughput.insulation).collect();
    let closed = streams.iter().filter(|it| !Family::is_open(it.family));
    let closed: Vec<f64> = closed.map(|stream| stream.throughput.of_alone).collect();
    let of_alone = (!closed.is_empty())
        .then(|| [quantile(&closed, 0.05), below(&closed, 0.9), below(&closed, 0.5)]);
    let worst: Vec<f64> = rows.iter().map(|row| row.worst()).filter(|it| it.is_finite()).collect();
    let work: Vec<f64> = rows.iter().map(|row| row.work_conservation).collect();
    let p99 = |latency: bool| {
        let light = streams.iter().filter(|it| it.light && it.latency_ms.is_some() == latency);
        let ratios = light.filter_map(|it| Some(it.p99_ms / it.p99_own_disk_ms?));
        spread(&ratios.collect::<Vec<_>>(), 0.95)
    };
    let gaps: Vec<f64> = streams.iter().filter_map(|stream| stream.gap_ms_max).collect();
    Some(Summary {
        policy,
        group,
        counts: Counts {
            cells: rows.len(),
            streams: streams.len(),
            hot: all().filter(|stream| stream.hot).count(),
            few: all().filter(|stream| stream.few && !stream.hot).count(),
        },
        insulation_p05: quantile(&insulation, 0.05),
        insulation_median: quantile(&insulation, 0.5),
        below_0_9: below(&insulation, 0.9),
        below_0_5: below(&insulation, 0.5),
        of_alone,
        possible: Possible::of(&streams),
        worst_median: quantile(&worst, 0.5),
        work_mean: mean(&work),
        waits: Waits { light_p99: p99(false), latency_p99: p99(true), gap_ms: spread(&gaps, 0.95) },
        costs: costs(&streams),
        promises_broken: rows.iter().map(|row| row.promises_broken).sum(),
    })
}

fn costs(streams: &[&StreamRow]) -> Option<LearnedCosts> {
    let costs: Vec<_> = streams.iter().filter_map(|stream| stream.learned_cost).collect();
    let off = spread(&costs.iter().map(|cost| cost.off()).collect::<Vec<_>>(), 0.95)?;
    let within = costs.iter().filter(|cost| cost.is_honest()).count() as f64 / costs.len() as f64;
    Some(LearnedCosts { streams: costs.len(), within, off })
}

/// The median and another percentile, if there are values.
fn spread(values: &[f64], fraction: f64) -> Option<(f64, f64)> {
    (!values.is_empty()).then(|| (quantile(values, 0.5), quantile(values, fraction)))
}

/// Each policy beside the others in the same cells; nothing if there is only one.
#[must_use]
pub fn versus(rows: &[Row]) -> Vec<Versus> {
    let policies = policies(rows);
    if policies.len() < 2 {
        return Vec::new();
    }
    let cell = |row: &Row| (row.seed, row.cell);
    let of = |policy: &'static str| rows.iter().filter(move |row| row.policy == policy);
    let each = policies.iter().map(|policy| {
        let rivals: Vec<&'static str> =
            policies.iter().copied().filter(|it| it != policy).collect();
        let better = |rival: &'static str| {
            let cells = of(policy).count();
            let better = of(policy).filter(|own| {
                let its = of(rival).find(|row| cell(row) == cell(own));
                its.is_some_and(|its| its.worst() >= own.worst() + BETTER)
            });
            (rival, better.count() as f64 / cells.max(1) as f64)
        };
        let work = of(policy).filter_map(|own| {
            let others = rows.iter().filter(|row| cell(row) == cell(own) && row.policy != *policy);
            let best = others.map(|row| row.work_conservation).max_by(f64::total_cmp)?;
            Some(own.work_conservation / best)
        });
        let work: Vec<f64> = work.collect();
        Versus {
            policy,
            rival_worst_better: rivals.into_iter().map(better).collect(),
            work_by_best: spread(&work, 0.05),
        }
    });
    each.collect()
}

/// The streams that are worst off under a policy, worst first; at most so many, judged ones
/// only.
#[must_use]
pub fn worst<'a>(rows: &'a [Row], policy: &str, count: usize) -> Vec<(&'a Row, &'a StreamRow)> {
    let own = rows.iter().filter(|row| row.policy == policy);
    let streams = own.flat_map(|row| row.streams.iter().map(move |stream| (row, stream)));
    let mut streams: Vec<_> = streams.filter(|(_, stream)| stream.is_judged()).collect();
    streams.sort_by(|a, b| a.1.throughput.insulation.total_cmp(&b.1.throughput.insulation));
    streams.truncate(count);
    streams
}

#[cfg(test)]
mod tests {
    use super::super::learned_cost::LearnedCost;
    use super::super::random_row::Throughput;
    use super::*;

    fn stream(insulation: f64) -> StreamRow {
        StreamRow {
            name: "s0".to_owned(),
            what: "random 4KiB reads, 1 at once".to_owned(),
            family: Family::RandomReads.name(),
            share: 0.5,
            throughput: Throughput {
                due: 10.0,
                got: 10.0 * insulation,
                alone: 20.0,
                insulation,
                of_alone: insulation,
            },
            utilization: 0.5,
            gap_ms_max: Some(100.0 * insulation),
            p99_ms: 10.0,
            p99_own_disk_ms: Some(20.0),
            learned_cost: None,
            light: false,
            latency_ms: None,
            hot: false,
            few: false,
            time_division: None,
        }
    }

    fn row(policy: &'static str, cell: u32, streams: Vec<StreamRow>, work: f64) -> Row {
        Row {
            policy,
            seed: 1,
            cell,
            group: "disks",
            device: "nearline-7200",
            depth: 8,
            costs: "learned",
            seconds: 80.0,
            streams,
            work_conservation: work,
            promises_broken: 1,
            latency_refused: false,
            ended_early: None,
        }
    }

    #[test]
    fn percentiles_are_of_judged_streams_and_worst_ones_of_cells() {
        let streams =
            |from: u32| (from..from + 50).map(|at| stream(f64::from(at) / 100.0)).collect();
        let mut rows = vec![row("a", 0, streams(1), 1.0), row("a", 1, streams(51), 2.0)];
        rows[0].streams.push(StreamRow { hot: true, ..stream(0.0) });
        rows[0].streams.push(StreamRow { few: true, ..stream(0.0) });
        rows[1].streams[0] = StreamRow { light: true, ..stream(0.51) };
        rows[1].streams[1] =
            StreamRow { light: true, latency_ms: Some(5.0), p99_ms: 40.0, ..stream(0.52) };
        let [disks, all] = &summaries(&rows)[..] else { panic!("its group, and all") };
        assert_eq!((disks.group, all.group), ("disks", "all"));
        assert_eq!(disks.counts, Counts { cells: 2, streams: 100, hot: 1, few: 1 });
        assert_eq!((disks.insulation_p05, disks.insulation_median), (0.05, 0.5));
        assert_eq!((disks.below_0_9, disks.below_0_5), (0.89, 0.49));
        assert_eq!(disks.worst_median, 0.01, "of .01 and .51 the one that half of them reach");
        assert_eq!(disks.work_mean, 1.5);
        let Waits { light_p99, latency_p99, gap_ms } = disks.waits;
        assert_eq!((light_p99, latency_p99), (Some((0.5, 0.5)), Some((2.0, 2.0))));
        assert_eq!(gap_ms, Some((50.0, 95.0)));
        assert_eq!(disks.promises_broken, 2);
        let worst: Vec<f64> =
            worst(&rows, "a", 3).iter().map(|it| it.1.throughput.insulation).collect();
        assert_eq!(worst, [0.01, 0.02, 0.03]);
    }

    #[test]
    fn a_cell_that_ended_early_under_one_policy_is_left_out_for_all() {
        let mut rows: Vec<Row> = ["a", "b"]
            .into_iter()
            .flat_map(|policy| [0, 1].map(|cell| row(policy, cell, vec![stream(0.5)], 1.0)))
            .collect();
        rows[3].ended_early = Some("too many requests wait".to_owned());
        rows.push(Row { seed: 2, ..row("a", 1, vec![stream(0.5)], 1.0) });
        let (whole, ended) = whole(rows);
        let ids = |rows: &[Row]| -> Vec<_> {
            rows.iter().map(|row| (row.policy, row.seed, row.cell)).collect()
        };
        assert_eq!(ids(&whole), [("a", 1, 0), ("b", 1, 0), ("a", 2, 1)]);
        assert_eq!(ids(&ended), [("a", 1, 1), ("b", 1, 1)]);
    }

    #[test]
    fn streams_that_have_less_with_the_device_to_themselves_are_left_out() {
        let asked =
            |given, insulation| StreamRow { time_division: Some(given), ..stream(insulation) };
        let smaller = |it: StreamRow| StreamRow {
            throughput: Throughput { of_alone: 0.95, ..it.throughput },
            ..it
        };
        let streams =
            [asked(0.9, 0.4), asked(0.89, 0.1), asked(1.2, 0.8), smaller(asked(1.0, 0.2))];
        let few = StreamRow { few: true, ..asked(1.0, 0.0) };
        let rows = [row("a", 0, streams.into_iter().chain([few]).collect(), 1.0)];
        let (below_0_9, below_0_5) = (2.0 / 3.0, 1.0 / 3.0);
        let expected = Possible { streams: 3, left_out: 1, p05: 0.4, below_0_9, below_0_5 };
        assert_eq!(summaries(&rows)[0].possible, Some(expected));
        assert_eq!(summaries(&[row("a", 0, vec![stream(0.1)], 1.0)])[0].possible, None);
    }

    #[test]
    fn costs_are_honest_within_twice_their_spread() {
        let cost = |learned_us, plus_minus_percent| StreamRow {
            learned_cost: Some(LearnedCost { learned_us, plus_minus_percent, alone_us: 110.0 }),
            ..stream(1.0)
        };
        let judged = vec![cost(100.0, 5.1), cost(100.0, 4.9), cost(55.0, 50.1), stream(1.0)];
        let few = StreamRow { few: true, ..cost(1.0, 0.0) };
        let rows = [row("a", 0, judged.into_iter().chain([few]).collect(), 1.0)];
        let costs = summaries(&rows)[0].costs.expect("three were learned");
        assert_eq!((costs.streams, costs.within), (3, 2.0 / 3.0));
        assert!((costs.off.0 - 0.1).abs() < 1e-9 && (costs.off.1 - 1.0).abs() < 1e-9, "{costs:?}");
    }

    /// Figures that are grouped here stand side by side in a document.
    #[test]
    fn documents_have_each_figure_as_a_key_of_its_row() {
        let rows = [row("a", 0, vec![stream(0.5)], 1.0)];
        let keys = |value: serde_json::Value| value.as_object().map_or(0, serde_json::Map::len);
        let stream = serde_json::to_value(&rows[0].streams[0]).expect("a row is JSON");
        let summary = serde_json::to_value(&summaries(&rows)[0]).expect("a summary is JSON");
        for key in ["due", "got", "alone", "insulation", "of_alone"] {
            assert!(stream[key].is_number(), "{key}: {stream}");
        }
        for key in ["cells", "streams", "hot", "few"] {
            assert!(summary[key].is_number(), "{key}: {summary}");
        }
        assert_eq!((keys(stream), keys(summary)), (19, 19));
    }

    #[test]
    fn policies_are_compared_cell_by_cell() {
        let rows = [
            row("a", 0, vec![stream(0.80), stream(1.2)], 2.0),
            row("b", 0, vec![stream(0.86)], 1.0),
            row("a", 1, vec![stream(0.80)], 1.0),
            row("b", 1, vec![stream(0.84)], 4.0),
        ];
        let [a, b] = &versus(&rows)[..] else { panic!("two policies") };
        assert_eq!(a.rival_worst_better, [("b", 0.5)], "by .05, in one of two cells");
        assert_eq!(b.rival_worst_better, [("a", 0.0)]);
        assert_eq!(a.work_by_best, Some((0.25, 0.25)));
        assert_eq!(b.work_by_best, Some((0.5, 0.5)));
        assert_eq!(versus(&rows[..1]), []);
    }
}
