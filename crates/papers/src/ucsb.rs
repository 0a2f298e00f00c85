//! Paper `ucsb`: streams, priorities and files.
//!
//! One set of parameters for every figure, in `cyclic_streams.rs`; a figure says only what the paper varies.

use crate::Paper;

mod cycles_on_a_mount;
mod cyclic_streams;
mod eq1;
mod fig5;
mod fig6;
mod fig7;
pub mod sets;

pub(crate) use cycles_on_a_mount::MOUNTED;

pub(crate) const PAPER: Paper = Paper {
    id: "ucsb",
    title: "Streams, priorities and files",
    parameters: cyclic_streams::parameters,
    experiments: &[eq1::EXPERIMENT, fig5::EXPERIMENT, fig6::EXPERIMENT, fig7::EXPERIMENT],
};
