//! A run's drawings: each stream's disk time over time, and how long its requests took.

use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_report::drawing;
use disktime_report::page::File;
use disktime_sim::{Outcome, Summary, Times};

/// Streams in one drawing: as many as there are colours.
const STREAMS_MAX: usize = 4;
/// Letters of a name, and of all names in one drawing with six for each mark: what has room.
const NAME_MAX: usize = 32;
const LEGEND_MAX: usize = 86;
/// Bins of a histogram to a tenfold time.
const PER_DECADE: u32 = 10;

/// The drawings of a run.
pub(super) fn files(seed: u64, outcome: &Outcome) -> Vec<File> {
    let window = outcome.window.as_secs_f64();
    let utilization = |(id, _): (u32, &Summary)| {
        let of_stream = outcome.windows.iter().filter(move |row| row.stream.0 == id);
        let steps = of_stream.flat_map(move |row| {
            let percent = row.charged.as_secs_f64() / window * 100.0;
            let begin = f64::from(row.index) * window;
            [(begin, percent), (begin + window, percent)]
        });
        steps.collect()
    };
    let histogram = |times: &Times| {
        let mut begin = 1.0;
        let steps = times.bins(PER_DECADE).into_iter().flat_map(|(end, part)| {
            let steps = [(begin, part * 100.0), (end, part * 100.0)];
            begin = end;
            steps
        });
        // Down to the axis, as it came from there.
        let steps: Vec<_> = steps.skip_while(|step| step.1 == 0.0).collect();
        let [first, last] =
            [steps.first(), steps.last()].map(|step| step.map(|step| (step.0, 0.0)));
        first.into_iter().chain(steps.iter().copied()).chain(last).collect()
    };
    let by_time = [Axis::linear("time, s"), Axis::linear("disk time, %")];
    let by_length = [Axis::log("time, µs"), Axis::linear("requests, %")];
    let streams = || (0..).zip(&outcome.streams);
    let mut files = Vec::new();
    let mut add = |name: &str, title: &str, axes, curves: Vec<Vec<(f64, f64)>>| {
        let series = outcome.streams.iter().zip(curves);
        let series = series.map(|(stream, points)| Series::new(&shortened(&stream.name), points));
        files.extend(drawings(&format!("seed-{seed}-{name}"), title, axes, series.collect()));
    };
    add("utilization", "Disk time of each stream", by_time, streams().map(utilization).collect());
    let queue = streams().map(|(_, stream)| histogram(&stream.queue)).collect();
    add("queue-time", "Queue time, from arrival to dispatch", by_length, queue);
    let service = streams().map(|(_, stream)| histogram(&stream.service)).collect();
    add("service-time", "Service time, from dispatch to completion", by_length, service);
    files
}

/// `NAME.svg`, or `NAME-1.svg` and so on where one drawing has no room for all. A series that shows
/// nothing above the axis is left out.
fn drawings(name: &str, title: &str, [x, y]: [Axis; 2], series: Vec<Series>) -> Vec<File> {
    let groups = grouped(series);
    let count = groups.len();
    let visible = |group: &Vec<Series>| {
        group.iter().flat_map(|series| &series.points).any(|point| point.1 > 0.0)
    };
    let groups = groups.into_iter().enumerate().filter(|(_, group)| visible(group));
    let file = |(index, series)| {
        let panel =
            Panel { title: title.to_owned(), marks: Marks::Lines, x, y, series, level: None };
        let name =
            if count == 1 { format!("{name}.svg") } else { format!("{name}-{}.svg", index + 1) };
        File { name, text: drawing::svg(&panel) }
    };
    groups.map(file).collect()
}

/// As many streams together as a legend has room for.
fn grouped(series: Vec<Series>) -> Vec<Vec<Series>> {
    let mut groups: Vec<Vec<Series>> = Vec::new();
    let letters = |series: &Series| series.name.len() + 6;
    for series in series {
        match groups.last_mut() {
            Some(group)
                if group.len() < STREAMS_MAX
                    && group.iter().map(letters).sum::<usize>() + letters(&series)
                        <= LEGEND_MAX =>
            {
                group.push(series);
            }
            _ => groups.push(vec![series]),
        }
    }
    groups
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", &name[..end]),
    }
}
