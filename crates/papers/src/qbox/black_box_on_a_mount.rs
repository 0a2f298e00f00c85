//! Figure 7 by programs that read a file of a mount, as long as the disk, beside simulations of the same.

use super::black_boxes::{self, Column, ONE_DISK, OUTSTANDING, SECONDS, SETTLED};
use super::fig7::LOADS;
use crate::experiment::{Check, Sample};
use crate::mounted_figures::{self, Mounted, Played, Run, beside};
use disktime_report::chart::{Axis, Series};

/// Other places of the random requests: a simulated run is a mean over so many.
const PLACEMENTS: u64 = 8;
const REQUESTS_PER_MB: f64 = 1e6 / 4096.0;
/// Length of a point of the plot, in seconds.
const SPAN: u64 = 5;

pub(crate) const MOUNTED: [Mounted; 1] =
    [Mounted { id: "qbox-7", device: || &ONE_DISK, runs, judge }];

fn runs() -> Vec<Run> {
    let run = |column: Column| {
        let plan = move |start| black_boxes::mounted(&LOADS, column, start);
        Run::new(column.name(), OUTSTANDING, plan).over(PLACEMENTS)
    };
    Column::ALL.map(run).into()
}

fn judge(live: &[Played]) -> Sample {
    let simulated = MOUNTED[0].simulated();
    let (mut checks, mut panels) = (Vec::<Check>::new(), Vec::new());
    for ((column, live), simulated) in Column::ALL.into_iter().zip(live).zip(&simulated) {
        let both = [live, simulated];
        let mut series = Vec::new();
        for (sort, streams) in [("sequential", 0..2), ("random", 2..4)] {
            let iops =
                |played: &Played| played.mb(streams.clone(), SETTLED, SECONDS) * REQUESTS_PER_MB;
            checks.extend(beside(&format!("{}: {sort}, IOPS", column.name()), both.map(iops)));
            for (side, played) in ["live", "simulated"].into_iter().zip(both) {
                let points = played.by_span(streams.clone(), SPAN).into_iter();
                let points = points.map(|(at, mb)| (at, mb * REQUESTS_PER_MB));
                series.push(Series::new(&format!("{sort}, {side}"), points));
            }
        }
        let axes = (Axis::linear("time (s)"), Axis::log("throughput (IOPS)"));
        let title = format!("throughput under {}", column.name());
        panels.push(mounted_figures::panel(&title, axes, series));
    }
    Sample { seconds: 2.0 * SECONDS as f64, panels, checks }
}
