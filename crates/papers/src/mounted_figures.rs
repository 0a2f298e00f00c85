//! Figures that are run live as well: by programs that read files of a mount, whose device is emulated.
//!
//! A [`Mounted`] states its runs once, each as the [`Plan`] that the simulator takes. A caller with a
//! mount plays the same plan in real time: each stream is an open file with a contract of its own,
//! which lies on the device where the stream's extent does. Both sides answer a [`Played`].
//!
//! In one simulation the angle of the spindle at which a stream is gone back to hardly changes from round to
//! round. Live it does, as each request begins a little later than it could. So the simulated side of
//! a run is a mean over placements of its files where the angle matters.
//!
//! Does not know: mounts, files, real time.

use disktime_core::{Duration, Instant};
use disktime_model::preset::Preset;
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::{Outcome, Plan, simulate};

use crate::experiment::{Check, Sample};

/// The seed of runs on a mount: that of the device which a mount emulates.
pub const SEED: u64 = 1;
/// How far a live figure may be from the simulated one: the bound of every live comparison.
const APART: f64 = 0.07;

/// A figure's runs on a mount.
pub struct Mounted {
    /// The experiment's.
    pub id: &'static str,
    /// The device.
    pub device: fn() -> &'static Preset,
    /// The runs, one after the other.
    pub runs: fn() -> Vec<Run>,
    /// The sample that follows from the runs as they were played live, beside simulations of the same.
    pub judge: fn(live: &[Played]) -> Sample,
}

/// Streams side by side. Each has an extent: its file, which begins at a multiple of a MiB, unless extents
/// overlap. Then all have the device as their file.
pub struct Run {
    /// The name for it.
    pub name: String,
    /// The most reads that a stream has outstanding. One whose reads are due however many are has so many
    /// at the mount, and the others wait.
    pub outstanding: u32,
    placements: u64,
    plan: Box<dyn Fn(Start) -> Plan>,
}

/// When a run begins, and which placement of its files it has.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    pub(crate) begin: Instant,
    pub(crate) placement: u64,
}

/// The result of a run, live or simulated.
#[derive(Clone, PartialEq, Debug)]
pub struct Played {
    /// The length of a window.
    pub window: Duration,
    /// Each stream's.
    pub streams: Vec<Counts>,
}

/// The counts of a stream's reads over a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Counts {
    /// Bytes that were read in each window.
    pub bytes: Vec<f64>,
    /// Reads that ended.
    pub reads: f64,
    /// The sum of their times from when they were due to their ends, in seconds.
    pub seconds: f64,
    /// Times that a player had no data.
    pub misses: f64,
}

impl Run {
    pub(crate) fn new(
        name: impl Into<String>,
        outstanding: u32,
        plan: impl Fn(Start) -> Plan + 'static,
    ) -> Self {
        Self { name: name.into(), outstanding, placements: 1, plan: Box::new(plan) }
    }

    /// The same, simulated as the mean over so many placements. Live it has the first.
    pub(crate) fn over(self, placements: u64) -> Self {
        Self { placements, ..self }
    }

    /// The run from `begin` on, a multiple of four seconds of a clock that begins at zero.
    #[must_use]
    pub fn plan(&self, begin: Instant) -> Plan {
        (self.plan)(Start { begin, placement: 0 })
    }

    fn simulated(&self) -> Played {
        let of = |placement| {
            let plan = (self.plan)(Start { begin: Instant::ZERO, placement });
            Played::of(&simulate(plan).expect("the paper's plans can be run"))
        };
        Played::mean((0..self.placements).map(of).collect())
    }
}

impl Played {
    fn of(outcome: &Outcome) -> Self {
        let counts = outcome.streams.iter().enumerate().map(|(at, stream)| {
            let of_stream = outcome.windows.iter().filter(|it| it.stream.0 as usize == at);
            let reads = stream.response.count() as f64;
            Counts {
                bytes: of_stream.map(|window| window.bytes as f64).collect(),
                reads,
                seconds: stream.response.mean_secs() * reads,
                misses: outcome.misses[at].len() as f64,
            }
        });
        Self { window: outcome.window, streams: counts.collect() }
    }

    /// The mean of runs that differ in their placements.
    fn mean(runs: Vec<Self>) -> Self {
        let part = 1.0 / runs.len() as f64;
        let mut runs = runs.into_iter();
        let mut sum = runs.next().expect("a run has a placement");
        let add = |sum: &mut Counts, more: &Counts| {
            sum.bytes.iter_mut().zip(&more.bytes).for_each(|(sum, more)| *sum += more);
            sum.reads += more.reads;
            sum.seconds += more.seconds;
            sum.misses += more.misses;
        };
        for run in runs {
            sum.streams.iter_mut().zip(&run.streams).for_each(|(sum, more)| add(sum, more));
        }
        for Counts { bytes, reads, seconds, misses } in &mut sum.streams {
            bytes.iter_mut().chain([reads, seconds, misses]).for_each(|it| *it *= part);
        }
        sum
    }

    /// MB/s of these streams together from one second to another.
    pub(crate) fn mb(&self, streams: impl IntoIterator<Item = usize>, from: u64, to: u64) -> f64 {
        let window = self.window.as_secs_f64();
        let within = |index: usize| (from as f64..to as f64).contains(&(index as f64 * window));
        let of = |stream: usize| {
            let windows = self.streams[stream].bytes.iter().enumerate();
            windows.filter(|(index, _)| within(*index)).map(|(_, bytes)| *bytes).sum::<f64>()
        };
        streams.into_iter().map(of).sum::<f64>() / (to - from) as f64 / 1e6
    }

    /// The same in each span of so many seconds, at the second at which it begins.
    pub(crate) fn by_span(&self, streams: std::ops::Range<usize>, span: u64) -> Vec<(f64, f64)> {
        let windows = self.streams[0].bytes.len() as f64;
        let mut starts = Vec::new();
        let mut start = 0;
        while (start + span) as f64 <= windows * self.window.as_secs_f64() {
            starts.push(start);
            start += span;
        }
        let mean = |at: u64| (at as f64, self.mb(streams.clone(), at, at + span));
        starts.into_iter().map(mean).collect()
    }

    /// The mean response of these streams' reads, in ms.
    pub(crate) fn response_ms(&self, streams: std::ops::Range<usize>) -> f64 {
        let of = &self.streams[streams];
        let reads: f64 = of.iter().map(|counts| counts.reads).sum();
        of.iter().map(|counts| counts.seconds).sum::<f64>() / reads * 1e3
    }

    pub(crate) fn misses(&self, stream: usize) -> f64 {
        self.streams[stream].misses
    }
}

impl Mounted {
    pub(crate) fn simulated(&self) -> Vec<Played> {
        (self.runs)().iter().map(Run::simulated).collect()
    }
}

/// A quantity of a run on a mount: its live value is shown with the simulated one in place of what was
/// published, and judged by how far one is from the other.
pub(crate) fn beside(name: &str, [live, simulated]: [f64; 2]) -> [Check; 2] {
    [
        shown(name, [live, simulated]),
        Check::near(format!("live by simulated: {name}"), 1.0, live / simulated, APART),
    ]
}

/// The same, not judged.
pub(crate) fn shown(name: &str, [live, simulated]: [f64; 2]) -> Check {
    Check::reported(
        format!("live, beside simulated in place of published: {name}"),
        simulated,
        live,
    )
}

/// Lines of simulated and live values.
pub(crate) fn panel(title: &str, (x, y): (Axis, Axis), series: Vec<Series>) -> Panel {
    let title = format!("Live on a mount beside simulated: {title}");
    Panel { title, marks: Marks::Lines, x, y, series, level: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MOUNTED;

    const MIB: u64 = 1 << 20;

    /// A file's place on a mount is a multiple of a MiB.
    #[test]
    fn extents_can_be_files_of_a_mount() {
        for mounted in MOUNTED {
            for run in (mounted.runs)() {
                let plan = run.plan(Instant::ZERO);
                let capacity = plan.device.capacity_bytes();
                let extents = plan.streams.iter().map(|stream| stream.extent.expect("a file"));
                let mut extents: Vec<_> = extents.collect();
                extents.sort_unstable();
                assert!(extents.iter().all(|(_, end)| *end <= capacity), "{extents:?}");
                let apart = extents.windows(2).all(|pair| pair[0].1 <= pair[1].0);
                let whole = extents.iter().all(|(start, _)| start % MIB == 0);
                assert!(whole || !apart, "{}: {extents:?}", mounted.id);
                assert!(plan.streams.iter().all(|stream| stream.base == 0));
            }
        }
    }

    /// Judged by its own simulation a figure agrees with it; with a tenth of each stream's reads
    /// missing it does not.
    #[test]
    fn a_live_run_that_is_slower_by_a_tenth_is_found() {
        for mounted in MOUNTED {
            let mut played = mounted.simulated();
            let agrees = |played: &[Played]| {
                let checks = (mounted.judge)(played).checks;
                let mut beside = checks.into_iter().filter(|it| it.name.starts_with("live by "));
                beside.all(|check| check.pass())
            };
            assert!(agrees(&played), "{}", mounted.id);
            for counts in played.iter_mut().flat_map(|played| &mut played.streams) {
                counts.bytes.iter_mut().for_each(|bytes| *bytes *= 0.9);
                counts.seconds *= 1.1;
            }
            assert!(!agrees(&played), "{}", mounted.id);
        }
    }

    #[test]
    fn means_are_over_whole_windows_of_the_span() {
        let counts = Counts { bytes: vec![1.0, 2.0, 4.0, 8.0, 16.0, 32.0], ..Counts::default() };
        let window = Duration::from_millis(500);
        let played = Played { window, streams: vec![counts] };
        let near = |measured: f64, expected: f64| (measured - expected).abs() < 1e-12;
        assert!(near(played.mb([0], 1, 3), 60.0 / 2.0 / 1e6));
        let spans = played.by_span(0..1, 2);
        assert!(spans.len() == 1 && near(spans[0].1, 15.0 / 2.0 / 1e6), "{spans:?}");
    }
}
