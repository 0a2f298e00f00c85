//! How far a command is, on standard error: a bar with the time left where a person watches, else a
//! line now and then; nothing beside a JSON document.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Without a terminal a line is written this often.
const LINES_EVERY: Duration = Duration::from_secs(5);
/// The bar goes on counting the time between two steps.
const TICK: Duration = Duration::from_millis(500);
/// At most 79 columns: 40 of words, a bar of 14, percents and the time left.
const BAR: &str = "{msg:40!} [{bar:14}] {percent:>3} %, {eta_precise} left";
/// The same while it is not known how much there is to do.
const NO_BAR: &str = "{msg:60!} {elapsed_precise}";

/// Whether a bar is on the terminal.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// The steps of a command. It is told of them on any thread, and goes when it is dropped.
pub struct Progress {
    shown: Shown,
    begun: Instant,
    /// Steps to do; 0 until that is known.
    of: AtomicU64,
}

enum Shown {
    Nothing,
    Bar(ProgressBar),
    /// With the time of the next line.
    Lines(Mutex<Duration>),
}

impl Progress {
    /// So many steps are to be done; 0 if that is not known yet.
    pub fn new(of: u64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let shown = match (crate::terminal::is_json(), terminal) {
            (true, _) => Shown::Nothing,
            (false, false) => Shown::Lines(Mutex::new(Duration::ZERO)),
            (false, true) => {
                let bar = ProgressBar::with_draw_target(Some(of), ProgressDrawTarget::stderr());
                bar.enable_steady_tick(TICK);
                DRAWN.store(true, Ordering::Relaxed);
                Shown::Bar(bar)
            }
        };
        let progress = Self { shown, begun: now(), of: AtomicU64::new(0) };
        progress.set_of(of);
        progress
    }

    /// From now on so many steps are to be done.
    pub fn set_of(&self, of: u64) {
        self.of.store(of, Ordering::Relaxed);
        if let Shown::Bar(bar) = &self.shown {
            let template = if of > 0 { BAR } else { NO_BAR };
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.expect("a test draws both").progress_chars("=> "));
            bar.set_length(of);
        }
    }

    /// So many steps are done, and this one begins.
    pub fn at(&self, done: u64, what: &str) {
        let of = self.of.load(Ordering::Relaxed);
        match &self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                bar.set_message(what.to_owned());
                bar.set_position(done.min(of));
            }
            Shown::Lines(next) => {
                let elapsed = self.begun.elapsed();
                let Ok(mut next) = next.try_lock() else { return };
                if elapsed >= *next {
                    *next = elapsed + LINES_EVERY;
                    eprintln!("{}", line(elapsed, done, of, what));
                }
            }
        }
    }

    /// A line that stays.
    pub fn note(&self, text: &str) {
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(|| eprintln!("{text}")),
            Shown::Nothing | Shown::Lines(_) => eprintln!("{text}"),
        }
    }

    /// Time since the first step.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
            DRAWN.store(false, Ordering::Relaxed);
        }
    }
}

/// Wipes a bar that a signal leaves on the terminal.
pub fn wipe() {
    if DRAWN.load(Ordering::Relaxed) {
        crate::say::err(format_args!("\r\x1b[K"));
    }
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
fn line(elapsed: Duration, done: u64, of: u64, what: &str) -> String {
    let seconds = elapsed.as_secs_f64();
    let part = done.min(of) as f64 / of.max(1) as f64;
    let left = if part > 0.0 && part < 1.0 {
        format!(", about {:.0} s left", seconds * (1.0 - part) / part)
    } else {
        String::new()
    };
    let percent = if of > 0 { format!("{:.0} %{left}: ", part * 100.0) } else { String::new() };
    format!("{seconds:>4.0} s: {percent}{what}")
}

#[expect(clippy::disallowed_methods, reason = "how long it takes is told to a person")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_and_what_is_left() {
        let at = Duration::from_secs(10);
        assert_eq!(line(at, 1, 4, "cells"), "  10 s: 25 %, about 30 s left: cells");
        assert_eq!(line(at, 0, 4, "cells"), "  10 s: 0 %: cells");
        assert_eq!(line(at, 9, 4, "cells"), "  10 s: 100 %: cells");
        assert_eq!(line(at, 0, 0, "writing a file"), "  10 s: writing a file");
    }

    #[test]
    fn both_templates_are_understood() {
        for template in [BAR, NO_BAR] {
            ProgressStyle::with_template(template).unwrap();
        }
    }
}
