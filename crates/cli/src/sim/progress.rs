//! How far a simulation has come.

use std::time::Duration;

use disktime_sim::Moment;

use crate::progress::Progress;

/// How often a person is told.
const PERIOD: Duration = Duration::from_millis(200);

/// A run that is watched.
pub(super) struct Watch {
    progress: Progress,
    seed: u64,
    told: Duration,
}

impl Watch {
    /// A run of so many virtual seconds.
    pub(super) fn new(seconds: f64, seed: u64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 10^9 s"
        )]
        let progress = Progress::new((seconds * 1e9) as u64);
        progress.at(0, &format!("simulating {seconds} s with seed {seed}"));
        Self { progress, seed, told: Duration::ZERO }
    }

    /// The run has come so far.
    pub(super) fn see(&mut self, moment: Moment) {
        let wall = self.progress.elapsed();
        if wall < self.told + PERIOD {
            return;
        }
        self.told = wall;
        let text = text(self.seed, moment, wall);
        self.progress.at(moment.now.as_nanos(), &text);
    }
}

/// At most 40 columns, unless figures are long.
#[expect(clippy::cast_precision_loss, reason = "for display")]
fn text(seed: u64, Moment { now, requests }: Moment, wall: Duration) -> String {
    let simulated = now.as_nanos() as f64 / 1e9;
    let (speed, millions) = (simulated / wall.as_secs_f64(), requests as f64 / 1e6);
    format!("seed {seed}: {millions:.2} M requests, {speed:.0} x real time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_how_far_and_how_fast() {
        let now = disktime_core::Instant::from_nanos(30_000_000_000);
        let text = text(1, Moment { now, requests: 2_000_000 }, Duration::from_secs(10));
        assert_eq!(text, "seed 1: 2.00 M requests, 3 x real time");
        assert!(text.len() <= 40);
    }
}
