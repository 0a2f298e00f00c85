//! Paper `ucsb`: streams, priorities and files.
//!
//! One set of parameters for every figure, in `setup.rs`; a figure says only what the paper varies.

use crate::Paper;

mod eq1;
mod fig5;
mod fig6;
mod fig7;
pub mod sets;
mod setup;

pub(crate) const PAPER: Paper = Paper {
    id: "ucsb",
    title: "Streams, priorities and files",
    parameters: setup::parameters,
    experiments: &[eq1::EXPERIMENT, fig5::EXPERIMENT, fig6::EXPERIMENT, fig7::EXPERIMENT],
};
