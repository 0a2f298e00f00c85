//! The measurements of a round, before they are made rows.

use super::world::Alone;
use crate::insulation::loads::Scale;

/// Streams that were measured at one time, each list in the scene's order.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Together {
    /// How long a spell is.
    pub(super) spell_secs: f64,
    /// Requests done, by stream and spell.
    pub(super) done: Vec<Vec<f64>>,
    /// Seconds charged, by stream and spell, where there are accounts.
    pub(super) charged: Vec<Option<Vec<f64>>>,
    /// Longest times without a completion.
    pub(super) gap_ms: Vec<f64>,
    /// The 99th percentiles of response times, warming up included.
    pub(super) p99_us: Vec<f64>,
}

impl Together {
    pub(super) fn per_second(&self, stream: usize) -> f64 {
        let done = &self.done[stream];
        done.iter().sum::<f64>() / (self.spell_secs * done.len() as f64)
    }

    /// How long a window is, in seconds.
    pub(super) fn window_secs(&self) -> f64 {
        self.spell_secs * Scale::WINDOW as f64
    }
}

/// A contender's turn.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Round {
    pub(super) alone: Vec<Alone>,
    pub(super) together: Together,
    /// Part of the CPU time that others used, while all were on the device.
    pub(super) foreign_cpu: f64,
}
