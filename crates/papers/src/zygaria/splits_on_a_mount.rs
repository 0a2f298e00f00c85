//! Figure 1 by programs that read a file of a mount, as long as the disk, beside simulations of the same.

use super::fig1::RESERVED;
use super::reservation_splits::{self, DISK, Load, OUTSTANDING, SECONDS};
use crate::experiment::{Check, Sample};
use crate::mounted_figures::{self, Mounted, Played, Run, beside};
use disktime_model::preset::{self, Preset};
use disktime_report::chart::{Axis, Series};

/// Other places of the random requests: a simulated run is a mean over so many.
const PLACEMENTS: u64 = 8;
/// Until both buckets are as they stay.
const FROM: u64 = 5;
const REQUESTS_PER_MB: f64 = 1e6 / 4096.0;

pub(crate) const MOUNTED: [Mounted; 1] = [Mounted { id: "zygaria-1", device, runs, judge }];

fn device() -> &'static Preset {
    preset::find(DISK).expect("the paper's disk is a preset")
}

fn runs() -> Vec<Run> {
    let plan = |start| {
        let loads = [Load::sequential(RESERVED[0]), Load::random(RESERVED[1])];
        reservation_splits::mounted(&loads, start)
    };
    vec![Run::new("70 % sequential, 30 % random", OUTSTANDING, plan).over(PLACEMENTS)]
}

fn judge(live: &[Played]) -> Sample {
    let simulated = MOUNTED[0].simulated();
    let both = [&live[0], &simulated[0]];
    let mut checks: Vec<Check> = Vec::new();
    let mut series = Vec::new();
    for (stream, name) in ["sequential", "random"].into_iter().enumerate() {
        let iops = both.map(|played| played.mb([stream], FROM, SECONDS) * REQUESTS_PER_MB);
        checks.extend(beside(&format!("{name}, IOPS"), iops));
        for (side, played) in ["live", "simulated"].into_iter().zip(both) {
            let points = played.by_span(stream..stream + 1, FROM).into_iter();
            let points = points.map(|(at, mb)| (at, mb * REQUESTS_PER_MB));
            series.push(Series::new(&format!("{name}, {side}"), points));
        }
    }
    let axes = (Axis::linear("time (s)"), Axis::log("throughput (IOPS)"));
    let panels = vec![mounted_figures::panel("throughput", axes, series)];
    Sample { seconds: SECONDS as f64, panels, checks }
}
