//! Paper `qbox`: guaranteeing I/O performance on black box storage systems.
//!
//! One set of parameters for every figure, in `black_boxes.rs`; a figure says only what the paper varies.
//! The column `qbox` is the policy as published; it is judged by whether its biased shares are within
//! 15 points, and shown with the sign of that bias. The column `learned` will be the check: see
//! [`black_boxes::Column`].

use crate::Paper;
use crate::recorded::Recorded;

mod black_box_on_a_mount;
mod black_boxes;
mod fig10;
mod fig12;
mod fig13;
mod fig14;
mod fig15;
mod fig17;
mod fig2;
mod fig7;
mod fig8;
mod overhead;
mod pauses;
mod striped;

pub(crate) use black_box_on_a_mount::MOUNTED;

pub(crate) const PAPER: Paper = Paper {
    id: "qbox",
    title: "Guarantees on a black box",
    parameters: black_boxes::parameters,
    experiments: &[
        fig2::THROUGHPUT,
        fig2::FIFO,
        fig7::EXPERIMENT,
        fig8::EXPERIMENT,
        fig8::COSTS,
        fig10::EXPERIMENT,
        fig10::COSTS,
        fig12::EXPERIMENT,
        fig13::EXPERIMENT,
        fig14::SEQUENTIAL,
        fig15::EXPERIMENT,
        fig14::RANDOM,
        fig17::PLAIN,
        fig17::PLAIN_FOIL,
        fig17::CACHED,
        fig17::CACHED_FOIL,
        overhead::EXPERIMENT,
    ],
};

/// The figures of days of a file server, with a recorded trace in place of one day.
pub(crate) const RECORDED: &[Recorded] = &[
    Recorded { id: "qbox-17", measure: |trace, seed| fig17::recorded_ours(false, trace, seed) },
    Recorded { id: "qbox-18", measure: |trace, seed| fig17::recorded_foil(false, trace, seed) },
    Recorded { id: "qbox-19", measure: |trace, seed| fig17::recorded_ours(true, trace, seed) },
    Recorded { id: "qbox-20", measure: |trace, seed| fig17::recorded_foil(true, trace, seed) },
];
