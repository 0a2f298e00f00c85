//! Inequality 1: the shortest cycle in which equal streams fit.

use super::cyclic_streams::percent;
use crate::experiment::{Check, Experiment, Sample};
use disktime_core::admission::{Demand, Others, admit};
use disktime_core::{Access, Admission, Duration, Positioning, Profile, Rate, Transfer, Zone};
use disktime_report::chart::{Axis, Marks, Panel, Series};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ucsb-eq1",
    title: "Inequality 1: the shortest cycle for N streams of 1 MB/s",
    claim: "Inequality 1 has the shortest cycle for N streams",
    note: "The engine's admission beside T = N L R / (r R - N B), with L = 13 ms, R = 30 MB/s, B = \
           1 MB/s, r = 0.8. It counts whole sectors, so its cycles are up to one sector's time at \
           1 MB/s longer, 0.5 ms.",
    reason: "",
    open: &[],
    measure,
};

const LATENCY: Duration = Duration::from_millis(13);
const TRANSFER: u64 = 30_000_000;
const STREAM: u64 = 1_000_000;
/// 1 - r.
const FREE_PERCENT: u32 = 20;

fn formula(streams: u64) -> f64 {
    let (n, r, b) = (streams as f64, TRANSFER as f64, STREAM as f64);
    let time = 1.0 - f64::from(FREE_PERCENT) / 100.0;
    n * LATENCY.as_secs_f64() * r / (time * r - n * b)
}

/// In seconds, to a microsecond.
fn admitted(streams: usize) -> f64 {
    let transfer = Transfer { per_request: Duration::ZERO, bytes_per_second: TRANSFER };
    let (distance, deviation) = (u64::MAX, Duration::ZERO);
    let profile = Profile {
        zones: vec![Zone { end: 1 << 40, read: transfer, write: transfer }],
        positioning: vec![Positioning { distance, mean: LATENCY, deviation, worst: LATENCY }],
        destage: Duration::ZERO,
        prices: None,
    };
    let others = Others { headroom: percent(FREE_PERCENT), ..Others::default() };
    let fits = |micros: u64| {
        let rate = Rate {
            bytes_per_second: STREAM,
            cycle: Some(Duration::from_micros(micros)),
            admission: Admission::Deterministic,
            access: Access::Read,
        };
        admit(&profile, &vec![Demand { rate, extent: None }; streams], &others).is_ok()
    };
    let (mut low, mut high) = (0, Rate::CYCLE_MAX.as_nanos() / 1_000);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) { high = middle } else { low = middle }
    }
    high as f64 / 1e6
}

fn measure(_seed: u64) -> Sample {
    let check = Check::near("shortest cycle for 10 streams, s", 0.2786, admitted(10), 0.000_512);
    let counts = [4, 6, 8, 10, 12, 14, 16, 18, 20];
    let series = |name: &str, cycle: &dyn Fn(u32) -> f64| {
        Series::new(name, counts.map(|count| (f64::from(count), cycle(count))))
    };
    let panel = Panel {
        title: "Shortest cycle".to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("streams of 1 MB/s"),
        y: Axis::linear("cycle (s)"),
        series: vec![
            series("Inequality 1", &|count| formula(count.into())),
            series("admission", &|count| admitted(count as usize)),
        ],
        level: None,
    };
    Sample { seconds: 0.0, panels: vec![panel], checks: vec![check] }
}
