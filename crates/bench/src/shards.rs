//! A device with one thread and with two, measured in turns; and with up to eight carriers, by a model of the
//! measured times.
//!
//! A load of this project's client goes to two daemons with the same bytes in memory. The second has a thread
//! that decides and a carrier. Processor time is each thread's own, from `/proc/PID/task/*/schedstat`.

mod model;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::live::World;
use crate::nbd::{Figures, NbdError, Peer, Places, Server, Work, sharded};

pub use model::{Costs, throughput};

/// The most carriers that the model is asked about.
pub const CARRIERS_MAX: usize = 8;

/// One measurement.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The load.
    pub workload: &'static str,
    /// Threads of the device.
    pub shards: u32,
    /// The round, from 1.
    pub round: u32,
    /// Whether the machine was quiet enough.
    pub judged: bool,
    /// Requests per second.
    pub iops: f64,
    /// The shard's processor time of a request in µs.
    pub shard_us: f64,
    /// The carrier's processor time of a request in µs.
    pub carriers_us: f64,
}

/// A load as it was measured, and by the model.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Scale {
    /// The load.
    pub workload: &'static str,
    /// Processor time of a request in µs, the median of rounds: of a thread alone.
    pub alone_us: f64,
    /// The same of the thread that decides.
    pub decides_us: f64,
    /// The same of the carrier.
    pub carries_us: f64,
    /// Measured requests per second with two threads ÷ with one: the median of the rounds' ratios.
    pub measured_ratio: f64,
    /// A thread alone: requests per second of a core that does nothing else.
    pub alone_iops: f64,
    /// By the model, with 1 to 8 carriers; nothing of a load whose requests are one at a time, which waits for
    /// wake-ups.
    pub model_iops: Vec<f64>,
}

/// Both daemons, with one thread and with two.
pub struct Pair(Vec<(u32, Peer)>);

impl Pair {
    /// Starts both in a directory.
    ///
    /// # Errors
    /// If one does not serve, or somebody wants the bench to end.
    pub fn start(directory: &Path, places: &Places, world: &dyn World) -> Result<Self, NbdError> {
        let start = |(shards, server): (u32, &'static Server)| {
            let at = directory.join(format!("{shards}"));
            std::fs::create_dir(&at)?;
            let peer = Peer::start(server, &at, places, world)?;
            Ok(peer.map(|peer| (shards, peer)))
        };
        let peers = sharded().filter_map(|it| start(it).transpose());
        peers.collect::<Result<_, NbdError>>().map(Self)
    }

    /// Measures a load once with each, the other one first in every second round.
    ///
    /// # Errors
    /// If a load can't be started or loses its connection, or somebody wants the bench to end.
    pub fn round(
        &self,
        work: &Work,
        round: u32,
        length: Duration,
        world: &dyn World,
    ) -> Result<Vec<Row>, NbdError> {
        let mut peers: Vec<_> = self.0.iter().collect();
        peers.rotate_left(round as usize % 2);
        let measure = |(shards, peer): &(u32, Peer)| {
            let before = peer.threads()?;
            let figures = peer.measure(work, crate::nbd::Generator::Disktime, length, world)?;
            // Warming up is in the threads' times and in the requests that they are divided by.
            let after = peer.threads()?;
            Ok(row(work, (*shards, round), figures, [before, after]))
        };
        peers.into_iter().map(measure).collect()
    }
}

/// The processor time of a request is the process's, divided as its threads used theirs.
fn row(
    work: &Work,
    (shards, round): (u32, u32),
    figures: Figures,
    [before, after]: [[f64; 2]; 2],
) -> Row {
    let used = [after[0] - before[0], after[1] - before[1]];
    let all = (used[0] + used[1]).max(f64::MIN_POSITIVE);
    let [shard_us, carriers_us] = used.map(|it| figures.server_cpu_us_per_request * it / all);
    let (judged, iops) = (figures.is_quiet(), figures.iops);
    Row { workload: work.name, shards, round, judged, iops, shard_us, carriers_us }
}

/// A load by its rows.
#[must_use]
pub fn scale(work: &Work, rows: &[Row]) -> Scale {
    let workload = work.name;
    let of = |shards, figure: fn(&Row) -> f64| {
        let rows = rows.iter().filter(|row| row.shards == shards && row.workload == workload);
        median(rows.map(figure).collect())
    };
    let (alone_us, decides_us, carries_us) =
        (of(1, |row| row.shard_us), of(2, |row| row.shard_us), of(2, |row| row.carriers_us));
    let ratio = |row: &Row| {
        let alone = rows
            .iter()
            .find(|it| (it.workload, it.round, it.shards) == (row.workload, row.round, 1));
        alone.map(|alone| row.iops / alone.iops)
    };
    let pairs = rows.iter().filter(|row| row.shards == 2 && row.workload == workload);
    let measured_ratio = median(pairs.filter_map(ratio).collect());
    let costs = Costs { decides: ns(decides_us), carries: ns(carries_us) };
    let carriers = (1..=CARRIERS_MAX).filter(|_| work.outstanding > 1);
    let model_iops = carriers.map(|carriers| throughput(costs, carriers)).collect();
    let alone_iops = 1e6 / alone_us;
    Scale { workload, alone_us, decides_us, carries_us, measured_ratio, alone_iops, model_iops }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are short")]
fn ns(us: f64) -> u64 {
    (us * 1000.0).round().max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_time_is_divided_as_its_threads_used_theirs() {
        let work = &crate::nbd::WORKS[0];
        let figures = Figures { server_cpu_us_per_request: 4.0, ..Figures::default() };
        let it = row(work, (2, 1), figures, [[1.0, 2.0], [2.0, 5.0]]);
        assert_eq!((it.shard_us, it.carriers_us), (1.0, 3.0));
    }

    #[test]
    fn a_scale_has_the_medians_and_the_ratio_of_rounds() {
        let [alone, work] = [&crate::nbd::WORKS[0], &crate::nbd::WORKS[1]];
        let row = |shards, round, iops, shard_us, carriers_us| Row {
            workload: work.name,
            shards,
            round,
            judged: true,
            iops,
            shard_us,
            carriers_us,
        };
        let rows = [
            row(1, 1, 100.0, 4.0, 0.0),
            row(2, 1, 150.0, 1.0, 2.0),
            row(2, 2, 90.0, 1.0, 2.0),
            row(1, 2, 50.0, 4.0, 0.0),
            row(1, 3, 10.0, 5.0, 0.0),
            row(2, 3, 10.0, 1.0, 2.0),
        ];
        assert!(scale(alone, &rows).model_iops.is_empty());
        let scale = scale(work, &rows);
        assert_eq!((scale.alone_us, scale.decides_us, scale.carries_us), (4.0, 1.0, 2.0));
        assert_eq!((scale.measured_ratio, scale.alone_iops), (1.5, 250_000.0));
        assert!((scale.model_iops[0] / 5e5 - 1.0).abs() < 0.02, "{:?}", scale.model_iops);
    }
}
