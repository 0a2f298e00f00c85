//! The result of a stream of a scene under a contender.

use serde::Serialize;

use super::measured::Round;
use super::scene::Scene;
use crate::insulation::windows::{share_error_points, sliding};
use disktime_report::statistics::{mean, quantile};

/// One line of the live table: the columns of the simulated one, and what only a live run has.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LiveRow {
    /// A policy of the daemon, or another way of sharing, by name.
    pub policy: &'static str,
    /// The shared device.
    pub device: &'static str,
    /// The stream whose row it is, by its load.
    pub victim: &'static str,
    /// The others, by theirs.
    pub antagonist: String,
    /// The victim's, 0 to 1.
    pub share: f64,
    /// The figures of the rounds' windows.
    #[serde(flatten)]
    pub figures: Figures,
    /// All shares of the scene.
    pub split: String,
    /// The victim's requests per second, median over the rounds.
    pub iops: f64,
    /// The same, alone.
    pub alone_iops: f64,
    /// `iops` by (share × the best `alone_iops` of any contender): a contender that is slow alone
    /// looks insulated easily.
    pub insulation_of_best: f64,
    /// `insulation_mean` of the same in virtual time, where there is a simulator.
    pub simulated: Option<f64>,
    /// Rounds measured.
    pub rounds: usize,
    /// Part of the machine's CPU time that neither the loads nor the servers used, while all were
    /// on the device; the worst round's.
    pub foreign_cpu: f64,
}

/// Figures that the live table and the simulated one have in common.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// The median over the rounds of mean insulation over a round's windows.
    pub insulation_mean: f64,
    /// The value that insulation is not below in 99 of 100 windows of all rounds.
    pub insulation_p01: f64,
    /// In which part of these it is above 0.9.
    pub windows_above_0_9: f64,
    /// The largest difference of the victim's part of the time from its share in any window, in
    /// points of a hundred; of servers that keep accounts of time only.
    pub share_error_points: Option<f64>,
    /// The sum over all streams of throughput by throughput alone; the median over the rounds.
    pub work_conservation: f64,
    /// The longest time without a completion of the victim, within 10 ms.
    pub gap_ms_max: f64,
    /// The victim's 99th percentile of response times by (that alone by its share), median.
    pub p99_ratio: f64,
}

/// A row for each stream, without what takes others' rows.
pub(super) fn rows(scene: &Scene, policy: &'static str, rounds: &[Round]) -> Vec<LiveRow> {
    let work = median(rounds, |round| {
        let parts = (0..scene.tenants.len())
            .map(|stream| round.together.per_second(stream) / round.alone[stream].per_second);
        parts.sum()
    });
    let row = |(stream, tenant): (usize, &super::LiveTenant)| {
        let share = tenant.share();
        let insulation = |round: &Round| -> Vec<f64> {
            let due = share * round.alone[stream].per_second * round.together.window_secs();
            sliding(&round.together.done[stream]).into_iter().map(|done| done / due).collect()
        };
        let windows: Vec<f64> = rounds.iter().flat_map(&insulation).collect();
        let above = windows.iter().filter(|it| **it > 0.9).count();
        let errors: Option<Vec<f64>> = rounds
            .iter()
            .map(|round| {
                let charged = round.together.charged[stream].as_ref()?;
                Some(share_error_points(charged, share, round.together.window_secs()))
            })
            .collect();
        LiveRow {
            policy,
            device: scene.device.name(),
            victim: tenant.load.name,
            antagonist: scene.beside(stream),
            share,
            figures: Figures {
                insulation_mean: median(rounds, |round| mean(&insulation(round))),
                insulation_p01: quantile(&windows, 0.01),
                windows_above_0_9: above as f64 / windows.len() as f64,
                share_error_points: errors.map(|all| all.into_iter().fold(0.0, f64::max)),
                work_conservation: work,
                gap_ms_max: worst(rounds, |round| round.together.gap_ms[stream]),
                p99_ratio: median(rounds, |round| {
                    round.together.p99_us[stream] / (round.alone[stream].p99_us / share)
                }),
            },
            split: scene.split(),
            iops: median(rounds, |round| round.together.per_second(stream)),
            alone_iops: median(rounds, |round| round.alone[stream].per_second),
            insulation_of_best: 0.0,
            simulated: None,
            rounds: rounds.len(),
            foreign_cpu: worst(rounds, |round| round.foreign_cpu),
        }
    };
    scene.tenants.iter().enumerate().map(row).collect()
}

/// Fills in what the best contender's figures alone make of each row of a scene; every contender
/// has a row for each stream, in their order.
pub(super) fn compare(rows: &mut [LiveRow], streams: usize) {
    for stream in 0..streams {
        let of_stream = rows.iter().skip(stream).step_by(streams);
        let best = of_stream.map(|row| row.alone_iops).fold(0.0, f64::max);
        for row in rows.iter_mut().skip(stream).step_by(streams) {
            row.insulation_of_best = row.iops / (row.share * best);
        }
    }
}

fn median(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> f64 {
    quantile(&rounds.iter().map(figure).collect::<Vec<_>>(), 0.5)
}

fn worst(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> f64 {
    rounds.iter().map(figure).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::measured::Together;
    use super::super::world::Alone;
    use super::*;

    /// Two streams, 70/30, windows of 20 s: they do so many requests in every second.
    fn round(per_second: [f64; 2], alone: [f64; 2], charged: Option<f64>) -> Round {
        let alone = alone.map(|per_second| Alone { per_second, p99_us: 100.0 });
        let together = Together {
            spell_secs: 1.0,
            done: per_second.map(|done| vec![done; 40]).to_vec(),
            charged: [0.7, 0.3].map(|share| charged.map(|off| vec![share + off; 40])).to_vec(),
            gap_ms: vec![20.0, 40.0],
            p99_us: vec![200.0, 1000.0],
        };
        Round { alone: alone.to_vec(), together, foreign_cpu: 0.02 }
    }

    #[test]
    fn a_row_is_the_median_of_its_rounds_and_windows_are_of_all() {
        let scene = &Scene::on_file(1 << 30)[0];
        let rounds = [
            round([700.0, 30.0], [1000.0, 100.0], Some(0.01)),
            round([350.0, 30.0], [1000.0, 100.0], Some(0.0)),
            round([770.0, 30.0], [1000.0, 100.0], Some(-0.02)),
        ];
        let rows = rows(scene, "disktime", &rounds);
        let [random, sequential] = &rows[..] else { panic!("two streams") };
        let is = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        assert!(is(random.figures.insulation_mean, 1.0), "{random:?}");
        assert!(
            is(random.figures.insulation_p01, 0.5)
                && is(random.figures.windows_above_0_9, 2.0 / 3.0)
        );
        assert!(is(random.figures.share_error_points.expect("charged"), 2.0), "{random:?}");
        assert!(
            is(random.figures.work_conservation, 1.0) && is(random.foreign_cpu, 0.02),
            "{random:?}"
        );
        assert!(
            is(random.figures.gap_ms_max, 20.0) && is(random.figures.p99_ratio, 1.4),
            "{random:?}"
        );
        assert!(is(random.iops, 700.0) && is(random.alone_iops, 1000.0), "{random:?}");
        assert_eq!(
            (random.antagonist.as_str(), random.split.as_str(), random.rounds),
            ("sequential-128k-deep", "70/30", 3)
        );
        assert!(
            is(sequential.figures.insulation_mean, 1.0) && is(sequential.figures.p99_ratio, 3.0)
        );
    }

    #[test]
    fn a_server_without_accounts_has_no_share_error_and_a_slow_one_is_seen() {
        let scene = &Scene::on_file(1 << 30)[0];
        let mut all = rows(scene, "none", &[round([500.0, 50.0], [1000.0, 100.0], None)]);
        all.extend(rows(scene, "disktime", &[round([350.0, 15.0], [500.0, 50.0], None)]));
        compare(&mut all, 2);
        assert_eq!(all[0].figures.share_error_points, None);
        let of_best: Vec<_> =
            all.iter().map(|row| (row.insulation_of_best * 1e3).round()).collect();
        assert_eq!(of_best, [714.0, 1667.0, 500.0, 500.0]);
        assert!((all[2].figures.insulation_mean - 1.0).abs() < 1e-9);
        let json = serde_json::to_value(&all[0]).expect("a row is JSON");
        let known = [
            "policy",
            "device",
            "victim",
            "antagonist",
            "share",
            "insulation_mean",
            "insulation_p01",
            "windows_above_0_9",
            "share_error_points",
            "work_conservation",
            "gap_ms_max",
            "p99_ratio",
            "split",
            "iops",
            "alone_iops",
            "insulation_of_best",
            "simulated",
            "rounds",
            "foreign_cpu",
        ];
        assert!(
            known.iter().all(|key| json.get(key).is_some()),
            "columns stand side by side: {json}"
        );
        assert_eq!(json.as_object().map(serde_json::Map::len), Some(known.len()));
        assert!(json["share_error_points"].is_null() && json["simulated"].is_null(), "{json}");
    }
}
