//! Figures 4 and 5: a soft real-time stream joins two of best effort that fill the disk.

use super::players_and_load::{self, At, JOIN, JOINED, Knobs, Shaped};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::Outcome;

const SECONDS: u64 = 180;

pub(super) const STREAMS: Experiment = Experiment {
    id: "mdn-4",
    title: "Two streams of 10 MB/s, joined by a third at 60 s: not boosted, optimistic, pessimistic",
    claim: "A soft real-time stream that joins two has its 10 MB/s; without boosting all three have as much",
    note: "\"Get their 20\" is read as 99 %, from 5 s on: by then buffers are full.",
    reason: "As mdn-2a: the inner places are too slow for 10 MB/s beside another stream, so that two have \
             12.8 to 19.1 MB/s by their places. With all files in the outer 6 of 21 places they have \
             their 20, and three are within 2 % (seed 1).",
    open: players_and_load::open!(streams),
    measure: |seed| players_and_load::placed(seed, Knobs::SHOWN, streams),
};

pub(super) const TOTAL: Experiment = Experiment {
    id: "mdn-5",
    title: "Total throughput of figure 4's streams",
    claim: "Not boosted has the highest total, 17.37 MB/s, pessimistic the lowest, 15.48",
    note: "From the third stream's start on, as the paper says.",
    reason: "The medians of the three totals hold; by the places each is 14.2 to 18.5 MB/s, which is wider \
             than the 7 % allowed. Not boosted and optimistic are alike where the paper has .7 MB/s \
             between them. With all files in the outer 8, 12 and 16 of 21 places not boosted is .6, .4 \
             and .4 MB/s above (seed 1), and the totals are up to 4 MB/s too high.",
    open: players_and_load::open!(total),
    measure: |seed| players_and_load::placed(seed, Knobs::SHOWN, total),
};

fn streams(at: At) -> Sample {
    let outcomes = run(at);
    let [none, optimistic, pessimistic] = &outcomes;
    let two = |outcome| players_and_load::mean_mb(outcome, [0, 1], 5, JOINED);
    let third = |outcome| players_and_load::mean_mb(outcome, [2], JOINED, SECONDS);
    let rates: Vec<f64> =
        (0..3).map(|it| players_and_load::mean_mb(none, [it], JOINED + 5, SECONDS)).collect();
    let mean = rates.iter().sum::<f64>() / 3.0;
    let off = rates.iter().map(|rate| (rate / mean - 1.0).abs() * 100.0).fold(0.0, f64::max);
    let checks = vec![
        Check::at_least("two streams before, MB/s", two(none), 19.8),
        Check::deviation("not boosted: farthest from the three's mean, %", off, 10.0),
        Check::at_least("optimistic: soft real-time, MB/s", third(optimistic), 9.5),
        Check::at_least("pessimistic: soft real-time, MB/s", third(pessimistic), 9.5),
        players_and_load::kept(&[none, optimistic, pessimistic]),
    ];
    let titles = ["(a) Not boosted", "(b) Optimistic", "(c) Pessimistic"];
    let panels = outcomes.iter().zip(titles).map(|(it, title)| players_and_load::lines(it, title));
    Sample { seconds: 3.0 * SECONDS as f64, panels: panels.collect(), checks }
}

fn total(at: At) -> Sample {
    let outcomes = run(at);
    let totals = outcomes.each_ref().map(|it| players_and_load::mean_mb(it, 0..3, JOINED, SECONDS));
    let [none, optimistic, pessimistic] = totals;
    let checks = vec![
        players_and_load::within("not boosted, MB/s", 17.37, none, 7.0),
        players_and_load::within("optimistic, MB/s", 16.63, optimistic, 7.0),
        players_and_load::within("pessimistic, MB/s", 15.48, pessimistic, 7.0),
        Check::at_least("not boosted above optimistic, MB/s", none - optimistic, 0.0),
        Check::at_least("optimistic above pessimistic, MB/s", optimistic - pessimistic, 0.0),
    ];
    let names = ["not boosted", "optimistic", "pessimistic"];
    let total = |outcome: &Outcome| {
        let second = |at| (at as f64, players_and_load::mean_mb(outcome, 0..3, at, at + 1));
        (0..SECONDS).map(second).collect::<Vec<_>>()
    };
    let series = outcomes.iter().zip(names).map(|(it, name)| Series::new(name, total(it)));
    let panel = Panel {
        title: "Total throughput".to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("time (s)"),
        y: Axis::linear("throughput (MB/s)"),
        series: series.collect::<Vec<_>>(),
        level: None,
    };
    Sample { seconds: 3.0 * SECONDS as f64, panels: vec![panel], checks }
}

fn run(at: At) -> [Outcome; 3] {
    ["none", "optimistic", "pessimistic"]
        .map(|controller| players_and_load::run(Shaped::By(controller), &JOIN, SECONDS, at))
}
