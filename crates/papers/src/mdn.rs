//! Paper `mdn`: soft real time by shaping and missed-deadline notification.
//!
//! One set of parameters for every figure, in `players_and_load.rs`; a figure says only what the paper varies.

use crate::Paper;

mod anticipatory;
mod cheat;
mod fig2;
mod fig3;
mod fig4;
mod fig6;
mod fig7;
mod fig8;
mod players_and_load;
mod players_on_a_mount;
mod reach;

pub(crate) use players_on_a_mount::MOUNTED;

pub(crate) const PAPER: Paper = Paper {
    id: "mdn",
    title: "Missed-deadline notification",
    parameters: players_and_load::parameters,
    experiments: &[
        fig2::NONE,
        fig2::AT_90,
        fig2::AT_50,
        fig3::OPTIMISTIC,
        fig3::PESSIMISTIC,
        fig4::STREAMS,
        fig4::TOTAL,
        fig6::EXPERIMENT,
        fig7::EXPERIMENT,
        fig8::EXPERIMENT,
        reach::EXPERIMENT,
        cheat::EXPERIMENT,
    ],
};
