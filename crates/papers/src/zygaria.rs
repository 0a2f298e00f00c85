//! Paper `zygaria`: virtual disks by utilization.
//!
//! One set of parameters for every figure, in `reservation_splits.rs`; a figure says only what the paper varies.

use crate::Paper;

mod elevator;
mod fig1;
mod fig10;
mod fig11;
mod fig2;
mod fig4;
mod fig5;
mod fig6;
mod fig7;
mod fig8;
mod fig9;
mod reservation_splits;
mod splits_on_a_mount;

pub(crate) use splits_on_a_mount::MOUNTED;

pub(crate) const PAPER: Paper = Paper {
    id: "zygaria",
    title: "Virtual disks by utilization",
    parameters: reservation_splits::parameters,
    experiments: &[
        fig1::EXPERIMENT,
        fig2::EXPERIMENT,
        fig4::EXPERIMENT,
        fig5::EXPERIMENT,
        fig6::EXPERIMENT,
        fig7::EXPERIMENT,
        fig8::EXPERIMENT,
        fig9::EXPERIMENT,
        fig10::EXPERIMENT,
        fig11::EXPERIMENT,
    ],
};
