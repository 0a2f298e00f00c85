//! Figure 11: three streams that start and stop.

use super::reservation_splits::{self, Load, SAMPLE, Version};
use crate::experiment::{Check, Experiment, Sample};
use crate::open::Open;
use disktime_core::{Duration, Instant};
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::{Outcome, Window};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "zygaria-11",
    title: "Three streams that start and stop: random 0-60 s, sequential 10-30 s, random 20-50 s",
    claim: "Reservations hold while streams come and go; a stream that starts is ahead by a second of \
            its reservation at most",
    note: "Shares are means over windows of 2 s: in half a second one random request is up to 5 points. \
           Missed: the start overshoot. The paper explains it by tokens alone, at most 1 s of the \
           reservation, and that part holds. But a stream that starts also has the lowest recent \
           usage, so it gets all slack until the moving average has caught up, and there is always \
           slack: at 10 s at least what the absent stream 3 reserves. With shares f of stream 2, g of \
           stream 1, the average's 3 s and slack to stream 2 only, usages meet when \
           (1-g)(1-x) = x + g(1-x), x = exp(-t/3 s): for g = 20 % after 2.9 s, in which stream 2 is \
           (80 % - 50 %) 2.9 s = 0.88 s ahead, 1.8 s of its reservation. Stream 3 gets some of it, as \
           stream 1 has used more than its tokens at 20 s. The paper's own rules imply this; no \
           constant was changed.",
    reason: "The paper bounds the overshoot by tokens alone; its own rule for slack adds to it, as the \
             note derives. It holds from 70 % on, where little slack is left.",
    open: &[
        Open {
            name: "reservation of stream 2, %; streams 1 and 3 share the rest 2 to 3",
            values: &[30.0, 40.0, 50.0, 60.0, 70.0],
            shown: 50.0,
            stated: false,
            why: "lost; the sequential stream has the largest part of the published plot",
            measure: |seed, reserved| measure_loads(seed, loads(reserved)),
        },
        reservation_splits::outstanding(|seed, outstanding| {
            measure_loads(seed, loads(50.0).map(|load| load.keeping(outstanding)))
        }),
    ],
    measure: |seed| measure_loads(seed, loads(50.0)),
};

const SECONDS: u64 = 60;
/// When streams start or stop, in seconds.
const CHANGES: [f64; 5] = [0.0, 10.0, 20.0, 30.0, 50.0];

/// The paper's reservations are lost: stream 2 has this one, 1 and 3 have 2 and 3 fifths of the rest.
fn loads(reserved: f64) -> [Load; 3] {
    let second = reservation_splits::whole(reserved);
    let first = (100 - second) * 2 / 5;
    [
        Load { name: "stream 1", active: (0, None), ..Load::random(first) },
        Load { name: "stream 2", active: (10, Some(30)), ..Load::sequential(second) },
        Load { name: "stream 3", active: (20, Some(50)), ..Load::random(100 - second - first) },
    ]
}

fn measure_loads(seed: u64, loads: [Load; 3]) -> Sample {
    let log = (second(10), second(30));
    let outcome =
        reservation_splits::run_logged(Version::utilization(), &loads, SECONDS, log, seed);
    let percent = |window: &Window| window.charged.as_secs_f64() / SAMPLE.as_secs_f64() * 100.0;
    let shares: Vec<_> = (0..3).map(|stream| sampled(&outcome, stream, percent)).collect();
    let mut checks = Vec::new();
    for (load, points) in loads.iter().zip(&shares) {
        let name = format!("{}: least share 2 s after a change, %", load.name);
        let reserved = f64::from(load.reserve_percent);
        checks.push(Check {
            published: reserved,
            ..Check::at_least(name, least(load, points), reserved - 3.0)
        });
    }
    for stream in [1, 2] {
        let load = &loads[stream];
        let name = |what: &str| format!("{}: {what}, seconds of its reservation", load.name);
        let by_tokens = ahead_by_tokens(&outcome, stream, load);
        checks.push(Check::at_most(name("start overshoot by its tokens"), by_tokens, 1.0));
        checks.push(Check::at_most(name("start overshoot"), ahead(load, &shares[stream]), 1.0));
    }
    let mean = |from: f64, to: f64| {
        let values =
            shares[0].iter().filter(|(at, _)| (from..to).contains(at)).map(|point| point.1);
        values.sum::<f64>() / (to - from) * SAMPLE.as_secs_f64()
    };
    let rise = mean(30.0, 31.0) - mean(35.0, 50.0);
    checks.push(Check::at_least(
        "stream 1: more in the second after 30 s than from 35 s on, points",
        rise,
        3.0,
    ));
    checks.push(reservation_splits::kept(outcome.violations.len()));
    let series = |values: Vec<Vec<(f64, f64)>>| -> Vec<Series> {
        loads.iter().zip(values).map(|(load, points)| Series::new(load.name, points)).collect()
    };
    let iops = |window: &Window| window.requests as f64 / SAMPLE.as_secs_f64();
    let rates = (0..3).map(|stream| sampled(&outcome, stream, iops)).collect();
    let panel = |title: &str, y, series| Panel {
        title: title.to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("time (s)"),
        y,
        series,
        level: None,
    };
    let panels = vec![
        panel(
            "(a) Utilization, in half-second intervals",
            Axis::linear("disk time (%)"),
            series(shares),
        ),
        panel(
            "(b) Throughput, in half-second intervals",
            Axis::log("throughput (IOPS)"),
            series(rates),
        ),
    ];
    Sample { seconds: SECONDS as f64, panels, checks }
}

/// The least share over 2 s that begin at least 2 s after a change, while the stream is active.
fn least(load: &Load, points: &[(f64, f64)]) -> f64 {
    let (start, stop) = load.active;
    let settled = |from: f64| {
        let changed = CHANGES.iter().any(|change| (from - 2.0 < *change) && (*change < from + 2.0));
        !changed && from >= start as f64 && from + 2.0 <= stop.unwrap_or(SECONDS) as f64
    };
    let windows = points.windows(4).filter(|window| settled(window[0].0));
    windows
        .map(|window| window.iter().map(|point| point.1).sum::<f64>() / 4.0)
        .fold(f64::INFINITY, f64::min)
}

/// The most that a stream was ahead of its reservation in the 5 s after its start, at any sample.
fn ahead(load: &Load, points: &[(f64, f64)]) -> f64 {
    let reserved = f64::from(load.reserve_percent);
    let first = points.iter().filter(|(at, _)| (0.0..5.0).contains(&(at - load.active.0 as f64)));
    let mut ahead = 0.0;
    let over = first.map(|(_, share)| {
        ahead += (share - reserved) / reserved * SAMPLE.as_secs_f64();
        ahead
    });
    over.fold(0.0, f64::max)
}

/// The same of what it got because its deadline was due: the rest is slack, for which the scheduler's
/// other rule chose it. The disk is never idle, so each decision's request lasts until the next.
fn ahead_by_tokens(outcome: &Outcome, stream: usize, load: &Load) -> f64 {
    let reserved = f64::from(load.reserve_percent) / 100.0;
    let start = second(load.active.0);
    let (mut due, mut most) = (0.0, 0.0_f64);
    for pair in outcome.decisions.windows(2).filter(|pair| pair[0].at >= start) {
        if pair[0].stream.0 as usize == stream && pair[0].due {
            due += pair[1].at.since(pair[0].at).as_secs_f64();
            most = most.max(due / reserved - pair[1].at.since(start).as_secs_f64());
        }
    }
    most
}

/// A stream's windows, each at the time when it begins.
fn sampled(outcome: &Outcome, stream: usize, y: impl Fn(&Window) -> f64) -> Vec<(f64, f64)> {
    let windows = outcome.windows.iter().filter(|window| window.stream.0 as usize == stream);
    windows.map(|window| (f64::from(window.index) * SAMPLE.as_secs_f64(), y(window))).collect()
}

fn second(second: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(second)
}
