//! The verdict on live rows: how far each contender is from the shares, and which bars `disktime`
//! misses.

use super::live_row::LiveRow;
use super::scene::LiveDevice;
use crate::insulation::OWN;
use disktime_report::statistics::mean;

/// How far live insulation may be from the simulated.
const SIMULATED: f64 = 0.03;
/// The least insulation that each stream is to have on another server's export.
const BOXED: f64 = 0.9;
/// To whose distance ours is compared on a file.
const RIVAL: &str = "linux-bfq";

/// How far a contender's streams are from what their shares would give them alone.
#[derive(Clone, PartialEq, Debug)]
pub struct Distance {
    /// The contender.
    pub policy: &'static str,
    /// Where.
    pub device: &'static str,
    /// With which shares.
    pub split: String,
    /// The streams' loads.
    pub streams: String,
    /// The mean over streams of |insulation - 1|.
    pub mean: f64,
    /// The least insulation of a stream.
    pub worst: f64,
    /// The least if alone is what the best contender does alone.
    pub worst_of_best: f64,
    /// As in the rows.
    pub work_conservation: f64,
}

/// Every contender's in every scene, in the order of the rows.
#[must_use]
pub fn distances(rows: &[LiveRow]) -> Vec<Distance> {
    scenes(rows).into_iter().map(distance).collect()
}

/// Rows that are one contender's in one scene.
fn scenes(rows: &[LiveRow]) -> Vec<&[LiveRow]> {
    let mut rest = rows;
    let mut scenes = Vec::new();
    while let Some(first) = rest.first() {
        let (own, others) = rest.split_at(rest.len().min(first.split.split('/').count()));
        scenes.push(own);
        rest = others;
    }
    scenes
}

fn distance(rows: &[LiveRow]) -> Distance {
    let first = &rows[0];
    let off: Vec<f64> = rows.iter().map(|row| (row.figures.insulation_mean - 1.0).abs()).collect();
    let least = |figure: fn(&LiveRow) -> f64| rows.iter().map(figure).fold(f64::INFINITY, f64::min);
    Distance {
        policy: first.policy,
        device: first.device,
        split: first.split.clone(),
        streams: format!("{} + {}", first.victim, first.antagonist),
        mean: mean(&off),
        worst: least(|row| row.figures.insulation_mean),
        worst_of_best: least(|row| row.insulation_of_best),
        work_conservation: first.figures.work_conservation,
    }
}

/// A live figure on the wrong side of its bar.
#[derive(Clone, PartialEq, Debug)]
pub struct LiveMiss {
    /// Where, and which figure.
    pub what: String,
    /// The measured value.
    pub measured: f64,
    /// The bar, in words.
    pub bar: String,
}

/// The bars that policy [`OWN`] misses. Without a rival on a file there is nothing to miss there.
#[must_use]
pub fn missed(rows: &[LiveRow]) -> Vec<LiveMiss> {
    let mut missed = Vec::new();
    for row in rows.iter().filter(|row| row.policy == OWN) {
        let place = format!("{} at {} beside {}", row.victim, row.split, row.antagonist);
        let what = format!("{}: {place}", row.device);
        let measured = row.figures.insulation_mean;
        // Nothing that is no number passes.
        if let Some(simulated) = row.simulated
            && !(..=SIMULATED).contains(&(measured - simulated).abs())
        {
            let bar = format!("within {SIMULATED} of {simulated:.3}, as simulated");
            missed.push(LiveMiss { what: what.clone(), measured, bar });
        }
        let boxed = [LiveDevice::Nbdkit, LiveDevice::QemuNbd].map(LiveDevice::name);
        if boxed.contains(&row.device) && !(BOXED..).contains(&measured) {
            missed.push(LiveMiss { what, measured, bar: format!("at least {BOXED}") });
        }
    }
    let distances = distances(rows);
    for own in
        distances.iter().filter(|it| it.policy == OWN && it.device == LiveDevice::File.name())
    {
        let rival = distances
            .iter()
            .find(|it| it.policy == RIVAL && it.device == own.device && it.split == own.split);
        if let Some(rival) = rival.filter(|rival| !(..rival.mean).contains(&own.mean)) {
            let what = format!("{} at {}: mean |insulation - 1|", own.device, own.split);
            let bar = format!("below {:.3}, {RIVAL}'s", rival.mean);
            missed.push(LiveMiss { what, measured: own.mean, bar });
        }
    }
    missed
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::live_row::Figures;
    use super::*;

    pub(in super::super) fn scene(
        policy: &'static str,
        device: LiveDevice,
        split: &str,
        insulation: &[f64],
    ) -> Vec<LiveRow> {
        let row = |insulation_mean: &f64| LiveRow {
            policy,
            device: device.name(),
            victim: "random-4k-deep",
            antagonist: "sequential-128k-deep".to_owned(),
            share: 0.7,
            figures: Figures {
                insulation_mean: *insulation_mean,
                insulation_p01: 0.9,
                windows_above_0_9: 1.0,
                share_error_points: None,
                work_conservation: 0.9,
                gap_ms_max: 10.0,
                p99_ratio: 1.0,
            },
            split: split.to_owned(),
            iops: 700.0,
            alone_iops: 1000.0,
            insulation_of_best: insulation_mean / 2.0,
            simulated: None,
            rounds: 1,
            foreign_cpu: 0.0,
        };
        insulation.iter().map(row).collect()
    }

    fn whats(rows: &[LiveRow]) -> Vec<String> {
        missed(rows).into_iter().map(|miss| format!("{}, {}", miss.what, miss.bar)).collect()
    }

    #[test]
    fn a_file_takes_being_nearer_than_the_rival_at_each_split() {
        let rows = |own: [f64; 2]| {
            let all = [
                scene(OWN, LiveDevice::File, "70/30", &own),
                scene("linux-bfq", LiveDevice::File, "70/30", &[0.8, 1.2]),
                scene(OWN, LiveDevice::File, "30/70", &[1.0, 1.0]),
                scene("linux-bfq", LiveDevice::File, "30/70", &[0.9, 1.1]),
            ];
            all.concat()
        };
        assert_eq!(whats(&rows([0.81, 1.19])), [""; 0]);
        let missed = whats(&rows([0.8, 1.2]));
        assert_eq!(missed, ["live-file at 70/30: mean |insulation - 1|, below 0.200, linux-bfq's"]);
        assert_eq!(whats(&rows([f64::NAN, 1.0])).len(), 1);
        let alone = scene(OWN, LiveDevice::File, "70/30", &[0.1, 3.0]);
        assert_eq!(whats(&alone), [""; 0], "nobody to compare with");
    }

    #[test]
    fn a_box_takes_nine_tenths_of_every_stream_and_rivals_miss_nothing() {
        let own = scene(OWN, LiveDevice::Nbdkit, "20/30/50", &[0.95, 0.89, 2.0]);
        let missed = whats(&own);
        assert_eq!(missed.len(), 1);
        assert!(missed[0].starts_with("live-nbdkit: ") && missed[0].ends_with("at least 0.9"));
        assert_eq!(whats(&scene("none", LiveDevice::Nbdkit, "20/30/50", &[0.1; 3])), [""; 0]);
    }

    #[test]
    fn the_emulated_disk_takes_what_is_simulated() {
        let mut rows = scene(OWN, LiveDevice::Emulated, "50/50", &[0.97, 1.02]);
        rows[0].simulated = Some(0.99);
        rows[1].simulated = Some(0.98);
        let missed = whats(&rows);
        assert_eq!(missed.len(), 1);
        assert!(missed[0].ends_with("within 0.03 of 0.980, as simulated"), "{missed:?}");
    }

    #[test]
    fn distances_are_by_contender_and_scene() {
        let all = [
            scene(OWN, LiveDevice::File, "70/30", &[0.9, 1.2]),
            scene("none", LiveDevice::Nbdkit, "20/30/50", &[0.4, 1.0, 1.0]),
        ];
        let found = distances(&all.concat());
        let [own, none] = &found[..] else { panic!("{found:?}") };
        assert!((own.mean - 0.15).abs() < 1e-9 && (none.mean - 0.2).abs() < 1e-9);
        assert_eq!((own.worst, own.worst_of_best, none.worst), (0.9, 0.45, 0.4));
    }
}
