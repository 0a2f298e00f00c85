#![forbid(unsafe_code)]
//! The figures of the papers as experiments: what was published, what we measure, whether it holds.
//!
//! - [`PAPERS`]: every paper with its experiments; [`find`] looks one up.
//! - [`run`]: runs experiments, each once per seed and per value of a number that its paper leaves
//!   open ([`Open`]); a [`Report`] has the means and the bands.
//! - [`live_figures`], [`mounted_figures`]: figures that are run against a daemon, or on a mount, as well,
//!   and what is compared then.
//! - [`recorded`]: figures that a recorded trace joins.
//! - [`paper_page`]: a paper's reports as one page, and each figure as a drawing.
//! - [`reproduction`]: all reports as a table in Markdown, and the checks that are missed.
//!
//! An experiment is a short file that is listed in its paper. Runs are simulated: one seed gives one
//! report, to the byte, whatever the machine and however many threads.
//!
//! Does not know: clocks, files, terminals.

mod blackbox;
mod claims;
mod drawn;
mod experiment;
pub mod live_figures;
mod mdn;
pub mod mounted_figures;
mod open;
pub mod paper_page;
mod qbox;
pub mod recorded;
pub mod reproduction;
mod reward;
mod runner;
mod ucsb;
mod zygaria;

pub use experiment::{Check, Experiment, Report, Sample, SeedMiss};
pub use open::{Band, Course, Open, Values};
pub use runner::{Runs, run};
pub use ucsb::sets;

/// A paper that is reproduced.
pub struct Paper {
    /// Its name here; its experiments' ids begin with it.
    pub id: &'static str,
    /// The subject.
    pub title: &'static str,
    /// Every parameter, name and value: one set for all its figures.
    pub parameters: fn() -> Vec<(&'static str, String)>,
    /// Its figures.
    pub experiments: &'static [Experiment],
}

impl Paper {
    /// The ids of its figures that can be run live.
    #[must_use]
    pub fn live(&self) -> Vec<&'static str> {
        let ids = self.experiments.iter().map(|experiment| experiment.id);
        ids.filter(|id| live_ids().any(|live| live == *id)).collect()
    }

    /// How its figures are run.
    #[must_use]
    pub fn ways(&self) -> &'static str {
        if self.live().is_empty() { "simulated" } else { "live and simulated" }
    }
}

/// Every paper.
pub static PAPERS: &[Paper] =
    &[zygaria::PAPER, mdn::PAPER, reward::PAPER, ucsb::PAPER, qbox::PAPER, blackbox::PAPER];

/// Every figure that a recorded trace can join.
pub static RECORDED: &[recorded::Recorded] = qbox::RECORDED;

/// Every figure that can be run live on tiers.
pub static LIVE: &[live_figures::Live] = reward::LIVE;

/// Every figure that can be run live on a mount.
pub static MOUNTED: &[mounted_figures::Mounted] = {
    let [progress] = zygaria::MOUNTED;
    let [optimistic, pessimistic] = mdn::MOUNTED;
    let [five, six, seven] = ucsb::MOUNTED;
    let [one_disk] = qbox::MOUNTED;
    &[progress, optimistic, pessimistic, five, six, seven, one_disk]
};

/// The figures that can be run live, on tiers or on a mount.
pub fn live_ids() -> impl Iterator<Item = &'static str> {
    LIVE.iter().map(|live| live.id).chain(MOUNTED.iter().map(|mounted| mounted.id))
}

/// Every experiment, by paper.
pub fn experiments() -> impl Iterator<Item = &'static Experiment> {
    PAPERS.iter().flat_map(|paper| paper.experiments)
}

/// The experiment of that id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Experiment> {
    experiments().find(|experiment| experiment.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only one of the five papers was once run live.
    #[test]
    fn every_published_paper_is_run_live_and_simulated() {
        for paper in PAPERS {
            let ours = paper.id == "blackbox";
            let ways = if ours { "simulated" } else { "live and simulated" };
            assert_eq!(paper.ways(), ways, "{}", paper.id);
            assert!(paper.live().iter().all(|id| find(id).is_some()));
        }
        assert!(live_ids().all(|id| PAPERS.iter().any(|paper| paper.live().contains(&id))));
    }
}
