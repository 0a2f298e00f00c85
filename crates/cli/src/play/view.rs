//! The output of `disktime play`: a live table, then a verdict.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use disktime_client::Counters;

use super::{Report, now, seconds};
use crate::table;

/// Without a terminal a line is written this often.
const LINES_EVERY: Duration = Duration::from_secs(5);

/// The live view. On a terminal the table is drawn in place; else a line is written now and then.
pub(super) struct View {
    json: bool,
    terminal: bool,
    began: Instant,
    /// When, and the bytes of each stream by then.
    last: (Duration, Vec<u64>),
    next_line: Duration,
    drawn: usize,
}

impl View {
    pub(super) fn new(json: bool) -> Self {
        let terminal = !json && std::io::stdout().is_terminal();
        let last = (Duration::ZERO, Vec::new());
        Self { json, terminal, began: now(), last, next_line: LINES_EVERY, drawn: 0 }
    }

    pub(super) fn elapsed(&self) -> Duration {
        now() - self.began
    }

    /// Shows how each stream does.
    pub(super) fn draw(&mut self, of: Option<Duration>, rate: u64, rows: &[(&str, Counters)]) {
        let at = self.elapsed();
        if !self.terminal && at < self.next_line {
            return;
        }
        self.next_line = at + LINES_EVERY;
        let bytes: Vec<_> = rows.iter().map(|(_, it)| it.bytes_read + it.bytes_written).collect();
        let span = (at - self.last.0).as_secs_f64().max(1e-9);
        let before = |index: usize| self.last.1.get(index).copied().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let got = |index: usize| (bytes[index] - before(index)) as f64 / span / 1e6;
        let total = of.map_or(String::new(), |of| format!(" of {:.0}", of.as_secs_f64()));
        let time = format!("{:.0}{total} s", at.as_secs_f64());
        if self.terminal {
            let mut lines = vec![
                time,
                format!(
                    "  {:16}  {:>6}  {:>6}  {:>6}  {:>10}  {:>9}",
                    "", "asked", "now", "misses", "worst late", "stalled"
                ),
            ];
            lines.extend(rows.iter().enumerate().map(|(index, (name, it))| {
                format!(
                    "  {name:16}  {:>6.2}  {:>6.2}  {:>6}  {:>7.0} ms  {:>7.1} s",
                    mb(rate),
                    got(index),
                    it.misses,
                    seconds(it.stalled_ns_max) * 1e3,
                    seconds(it.stalled_ns)
                )
            }));
            self.place(&lines);
        } else {
            let row = |(index, (name, it)): (usize, &(&str, Counters))| {
                format!("{name} {:.2} MB/s, {} misses", got(index), it.misses)
            };
            let rows: Vec<_> = rows.iter().enumerate().map(row).collect();
            self.say(&format!("{time}: {}", rows.join("; ")));
        }
        self.last = (at, bytes);
    }

    /// Draws lines over those before.
    fn place(&mut self, lines: &[String]) {
        let mut out = std::io::stdout().lock();
        let up = if self.drawn > 0 { format!("\x1b[{}A", self.drawn) } else { String::new() };
        let drawn = write!(out, "{up}");
        let drawn =
            drawn.and_then(|()| lines.iter().try_for_each(|line| writeln!(out, "\x1b[2K{line}")));
        let _closed = drawn.and_then(|()| out.flush());
        self.drawn = lines.len();
    }

    fn say(&self, text: &str) {
        // Under --json nobody watches.
        if !self.json {
            println!("{text}");
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The figures, and in words what they mean.
pub(super) fn verdict(report: &Report) {
    let header =
        ["stream", "asked MB/s", "got", "misses", "worst late ms", "on time s", "stalled s"];
    let mut table = table::new(&header, 1..7);
    for stream in &report.streams {
        table.add_row([
            stream.name.clone(),
            format!("{:.2}", mb(stream.rate)),
            format!("{:.2}", stream.bytes_per_second / 1e6),
            stream.misses.to_string(),
            format!("{:.0}", stream.worst_lateness_ms),
            format!("{:.1}", stream.seconds_on_time),
            format!("{:.1}", stream.seconds_stalled),
        ]);
    }
    println!("\n{table}\n");
    let sum = |of: fn(&super::Stream) -> u64| report.streams.iter().map(of).sum::<u64>();
    let (failed, late) = (sum(|it| it.failed), sum(|it| it.misses_late));
    if failed > 0 {
        println!("FAILED: {failed} requests failed.");
    } else if late > 0 {
        println!("MISSED: data were late {late} times.");
    } else if sum(|it| it.misses) > 0 {
        println!("SMOOTH: no data were late after the grace.");
    } else {
        println!("SMOOTH: no data were late.");
    }
    let unreported = sum(|it| it.misses_unreported);
    if unreported > 0 {
        println!("  {unreported} misses could not be reported: is the daemon still there?");
    }
}
