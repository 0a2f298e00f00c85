//! The result of a cell under a policy.

use serde::{Serialize, Serializer};

use super::cells::Cell;

/// One line of the table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// A policy by name.
    pub policy: &'static str,
    /// The situation.
    pub cell: Cell,
    /// The victim's mean insulation over the windows.
    pub insulation_mean: f64,
    /// The value that insulation is not below in 99 of 100 windows.
    pub insulation_p01: f64,
    /// In which part of the windows it is above 0.9.
    pub windows_above_0_9: f64,
    /// The largest difference of a stream's part of the time from its share in any window, in
    /// points of a hundred. For an antagonist that pauses, only windows of the spells in which it
    /// doesn't.
    pub share_error_points: f64,
    /// The sum over streams of throughput by throughput alone.
    pub work_conservation: f64,
    /// The longest time without a completion of the victim.
    pub gap_ms_max: f64,
    /// The victim's 99th percentile of response times by (that alone by its share).
    pub p99_ratio: f64,
}

impl Row {
    /// The insulation of the side that is worse off, of the victim or of the antagonists together,
    /// with at most 1 for what is above it. The antagonists have what of the work conserved isn't the
    /// victim's.
    pub(super) fn worse_off(&self) -> f64 {
        let share = self.cell.share();
        let others = (self.work_conservation - share * self.insulation_mean) / (1.0 - share);
        self.insulation_mean.min(others).min(1.0)
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat {
            policy: &'static str,
            device: &'static str,
            victim: &'static str,
            antagonist: &'static str,
            share: f64,
            insulation_mean: f64,
            insulation_p01: f64,
            windows_above_0_9: f64,
            share_error_points: f64,
            work_conservation: f64,
            gap_ms_max: f64,
            p99_ratio: f64,
        }
        let flat = Flat {
            policy: self.policy,
            device: self.cell.device.name(),
            victim: self.cell.victim.name(),
            antagonist: self.cell.antagonist.name(),
            share: self.cell.share(),
            insulation_mean: self.insulation_mean,
            insulation_p01: self.insulation_p01,
            windows_above_0_9: self.windows_above_0_9,
            share_error_points: self.share_error_points,
            work_conservation: self.work_conservation,
            gap_ms_max: self.gap_ms_max,
            p99_ratio: self.p99_ratio,
        };
        flat.serialize(serializer)
    }
}
