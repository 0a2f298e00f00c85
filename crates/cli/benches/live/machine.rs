//! Tells what part of the machine others took.

use std::time::Instant;

use anyhow::Context;

/// Others' part of the processors' time above which a miss is not judged.
pub(crate) const FOREIGN_MAX: f64 = 0.05;

/// Processor time so far in ticks of 10 ms: of everybody, and of this process and its ended children.
pub(crate) struct Processors {
    all: u64,
    ours: u64,
    at: Instant,
}

impl Processors {
    /// The children of a case have ended, and been waited for, before and after it.
    pub(crate) fn now() -> anyhow::Result<Self> {
        let text = std::fs::read_to_string("/proc/stat")?;
        let line = text.lines().next().context("/proc/stat is empty")?;
        let fields: Vec<u64> =
            line.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>()?;
        // User, nice, system, then idle and iowait, irq, softirq, steal.
        let all = fields.iter().take(3).chain(fields.iter().skip(5).take(3)).sum();
        let text = std::fs::read_to_string("/proc/self/stat")?;
        let (_, rest) = text.rsplit_once(')').context("/proc/self/stat has no name")?;
        // User, system, and those of ended children, are fields 14 to 17 of all.
        let own = rest.split_whitespace().skip(11).take(4).map(str::parse::<u64>);
        let ours = own.sum::<Result<u64, _>>()?;
        Ok(Self { all, ours, at: now() })
    }

    /// The part of the machine's time that others took since, 0 to 1.
    pub(crate) fn foreign(&self, later: &Self) -> f64 {
        let seconds = (later.at - self.at).as_secs_f64();
        let foreign = (later.all - self.all).saturating_sub(later.ours - self.ours);
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        #[expect(clippy::cast_precision_loss, reason = "ticks of a few minutes")]
        let part = foreign as f64 / 100.0 / (seconds.max(0.01) * count as f64);
        part
    }
}

#[expect(clippy::disallowed_methods, reason = "what is measured passes in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
