//! How far a simulation has come: one line, rewritten, if a person watches.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use disktime_sim::Moment;

/// How often the line is rewritten.
const PERIOD: Duration = Duration::from_millis(200);

/// The line on stderr.
pub(super) struct Progress {
    terminal: bool,
    seconds: f64,
    seed: u64,
    begun: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    /// The progress of a run of so many virtual seconds. Nothing is said with `json`.
    pub(super) fn new(json: bool, seconds: f64, seed: u64) -> Self {
        let terminal = !json && std::io::stderr().is_terminal();
        if !json && !terminal {
            eprintln!("simulating {seconds} s with seed {seed}");
        }
        Self { terminal, seconds, seed, begun: now(), drawn: None }
    }

    /// Notes how far it is.
    pub(super) fn watch(&mut self, moment: Moment) {
        if !self.terminal {
            return;
        }
        let now = now();
        if now.duration_since(self.drawn.unwrap_or(self.begun)) < PERIOD {
            return;
        }
        self.drawn = Some(now);
        let line = line(self.seed, self.seconds, moment, now.duration_since(self.begun));
        write(&format!("\r\x1b[K{line}"));
    }

    /// Wipes the line.
    pub(super) fn end(&self) {
        if self.drawn.is_some() {
            write("\r\x1b[K");
        }
    }
}

/// Below 80 columns.
#[expect(clippy::cast_precision_loss, reason = "for display")]
fn line(seed: u64, seconds: f64, moment: Moment, wall: Duration) -> String {
    let Moment { now, requests } = moment;
    let simulated = now.as_nanos() as f64 / 1e9;
    let wall = wall.as_secs_f64();
    format!(
        "seed {seed}: {:.0} % of {seconds} s, {requests} requests, {:.0}/s, {:.0} x real time",
        simulated / seconds * 100.0,
        requests as f64 / wall,
        simulated / wall,
    )
}

fn write(text: &str) {
    let mut stderr = std::io::stderr();
    // A progress line that can't be written is no reason to fail.
    let _told = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[expect(clippy::disallowed_methods, reason = "how fast it goes is told to a person")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_fast() {
        let now = disktime_core::Instant::from_nanos(30_000_000_000);
        let line = line(1, 60.0, Moment { now, requests: 2_000_000 }, Duration::from_secs(10));
        assert_eq!(line, "seed 1: 50 % of 60 s, 2000000 requests, 200000/s, 3 x real time");
    }
}
