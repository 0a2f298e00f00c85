//! The cells' bars that policy `disktime` promises, and the results of rows against them.

use super::cells::{Cell, Device};
use super::insulation_row::Row;
use disktime_report::statistics::quantile;

/// The policy that has to meet the bars.
pub const OWN: &str = "disktime";

/// The least, or for the share error the most, that a cell's figures may be.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Bars {
    insulation_mean: f64,
    insulation_p01: f64,
    /// Hard disks only.
    share_error_points: Option<f64>,
    /// Hard disks only.
    work_conservation: Option<f64>,
}

impl Bars {
    /// None for a cell whose antagonist rests: the victim has its time then, too.
    fn of(cell: Cell) -> Option<Self> {
        if !cell.antagonist.is_backlogged() {
            return None;
        }
        if cell.device == Device::Flash {
            return Some(Self {
                insulation_mean: 0.98,
                insulation_p01: 0.95,
                share_error_points: None,
                work_conservation: None,
            });
        }
        let insulation_mean = match cell.share_percent {
            _ if cell.victim.is_random() => 0.99,
            50.. => 0.98,
            30.. => 0.97,
            _ => 0.95,
        };
        Some(Self {
            insulation_mean,
            insulation_p01: if cell.share_percent >= 30 { 0.95 } else { 0.90 },
            share_error_points: Some(1.0),
            work_conservation: Some(0.96),
        })
    }
}

/// A figure on the wrong side of its bar.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Miss {
    /// Where.
    pub cell: Cell,
    /// Which figure.
    pub figure: &'static str,
    /// The measured value.
    pub measured: f64,
    /// The least value that passes, or for the share error the largest.
    pub bar: f64,
}

/// The figures of a row that miss their bars, under any policy.
fn misses(row: &Row) -> Vec<Miss> {
    let Some(bars) = Bars::of(row.cell) else { return Vec::new() };
    let miss = |figure, measured, bar| Miss { cell: row.cell, figure, measured, bar };
    let mut misses = Vec::new();
    let mut at_least = |figure, measured: f64, bar: Option<f64>| {
        if let Some(bar) = bar.filter(|bar| !(*bar..).contains(&measured)) {
            misses.push(miss(figure, measured, bar));
        }
    };
    at_least("insulation_mean", row.insulation_mean, Some(bars.insulation_mean));
    at_least("insulation_p01", row.insulation_p01, Some(bars.insulation_p01));
    at_least("work_conservation", row.work_conservation, bars.work_conservation);
    let error = row.share_error_points;
    if let Some(bar) = bars.share_error_points.filter(|bar| !(..=*bar).contains(&error)) {
        misses.push(miss("share_error_points", error, bar));
    }
    misses
}

/// The bars that policy [`OWN`] misses.
#[must_use]
pub fn missed(rows: &[Row]) -> Vec<Miss> {
    rows.iter().filter(|row| row.policy == OWN).flat_map(misses).collect()
}

/// A policy over all cells with bars.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// Its name.
    pub policy: &'static str,
    /// Cells with bars.
    pub cells: usize,
    /// Cells that meet all of theirs.
    pub met: usize,
    /// The median and the worst of the cells' mean insulation.
    pub insulation_mean: (f64, f64),
    /// The worst first percentile of insulation.
    pub insulation_p01_worst: f64,
    /// The median and the worst.
    pub work_conservation: (f64, f64),
}

/// Each policy's, in the order in which rows have them; none of a policy without cells with bars.
#[must_use]
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let mut policies: Vec<&'static str> = rows.iter().map(|row| row.policy).collect();
    policies.dedup();
    policies.into_iter().filter_map(|policy| summary(policy, rows)).collect()
}

fn summary(policy: &'static str, rows: &[Row]) -> Option<Summary> {
    let own = rows.iter().filter(|row| row.policy == policy && Bars::of(row.cell).is_some());
    let own: Vec<&Row> = own.collect();
    let figures = |figure: fn(&Row) -> f64| own.iter().map(|row| figure(row)).collect::<Vec<_>>();
    let means = figures(|row| row.insulation_mean);
    let firsts = figures(|row| row.insulation_p01);
    let work = figures(|row| row.work_conservation);
    (!own.is_empty()).then(|| Summary {
        policy,
        cells: own.len(),
        met: own.iter().filter(|row| misses(row).is_empty()).count(),
        insulation_mean: (quantile(&means, 0.5), quantile(&means, 0.0)),
        insulation_p01_worst: quantile(&firsts, 0.0),
        work_conservation: (quantile(&work, 0.5), quantile(&work, 0.0)),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::insulation::cells::Selection;

    pub(in crate::insulation) fn row(
        policy: &'static str,
        cell: &str,
        insulation_mean: f64,
    ) -> Row {
        let selection: Selection = cell.parse().expect("a cell");
        Row {
            policy,
            cell: selection.cells().next().expect("one"),
            insulation_mean,
            insulation_p01: 0.96,
            windows_above_0_9: 1.0,
            share_error_points: 0.5,
            work_conservation: 0.97,
            gap_ms_max: 100.0,
            p99_ratio: 1.0,
        }
    }

    #[test]
    fn bars_depend_on_device_victim_and_share() {
        let bar = |cell| misses(&row(OWN, cell, 0.0)).first().map(|miss| miss.bar);
        assert_eq!(bar("deskstar-34gxp/random-4k/random-4k/10"), Some(0.99));
        assert_eq!(bar("raid0-deskstar/half-writes/late-joiner/90"), Some(0.99));
        assert_eq!(bar("nearline-7200/runs-1024/write-1m/50"), Some(0.98));
        assert_eq!(bar("deskstar-34gxp/sequential-4k/random-4k/30"), Some(0.97));
        assert_eq!(bar("deskstar-34gxp/sequential-4k/random-4k/10"), Some(0.95));
        assert_eq!(bar("flash-generic/random-4k/random-4k/10"), Some(0.98));
        assert_eq!(bar("deskstar-34gxp/random-4k/on-off/10"), None);
    }

    #[test]
    fn each_figure_has_its_bar_and_nothing_passes_that_is_no_number() {
        let cell = "deskstar-34gxp/sequential-4k/random-4k/50";
        let names = |row: Row| misses(&row).iter().map(|miss| miss.figure).collect::<Vec<_>>();
        let good = row(OWN, cell, 0.98);
        assert_eq!(names(good), [""; 0]);
        assert_eq!(names(Row { insulation_p01: 0.9, ..good }), ["insulation_p01"]);
        assert_eq!(names(Row { share_error_points: 1.1, ..good }), ["share_error_points"]);
        assert_eq!(names(Row { work_conservation: f64::NAN, ..good }), ["work_conservation"]);
    }

    #[test]
    fn summaries_are_by_policy_and_only_the_own_policy_misses() {
        let cells = ["deskstar-34gxp/random-4k/random-4k/10", "flash-generic/*/ten-at-once/50"];
        let rows = [
            row("zygaria", cells[0], 0.5),
            row("zygaria", cells[1], 0.99),
            row(OWN, cells[0], 0.98),
            row(OWN, cells[1], 1.0),
            row(OWN, "deskstar-34gxp/random-4k/on-off/10", 9.0),
        ];
        let [zygaria, own] = summaries(&rows)[..] else { panic!("two policies") };
        assert_eq!((zygaria.policy, zygaria.cells, zygaria.met), ("zygaria", 2, 1));
        assert_eq!(zygaria.insulation_mean, (0.5, 0.5));
        assert_eq!((own.cells, own.met, own.insulation_mean), (2, 1, (0.98, 0.98)));
        let missed = missed(&rows);
        assert_eq!(missed.len(), 1);
        assert_eq!(
            (missed[0].figure, missed[0].measured, missed[0].bar),
            ("insulation_mean", 0.98, 0.99)
        );
    }
}
