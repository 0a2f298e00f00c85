//! Paper `reward`: tiers reward the well-behaved.
//!
//! One set of parameters for every figure, in `setup.rs`; a figure says only what the paper varies.

use crate::Paper;

mod depth;
mod example;
mod falling;
mod fig2;
mod fig3;
mod goal;
mod insulated;
mod learned;
mod live;
mod looping;
mod setup;
mod shares;
mod table1;
mod table2;

pub(crate) use live::LIVE;
pub(crate) use setup::REQUEST_BYTES;

pub(crate) const PAPER: Paper = Paper {
    id: "reward",
    title: "Tiers reward the well-behaved",
    parameters: setup::parameters,
    experiments: &[
        example::EXPERIMENT,
        table1::EXPERIMENT,
        table2::EXPERIMENT,
        fig2::EXPERIMENT,
        fig3::EXPERIMENT,
        looping::EXPERIMENT,
        shares::EXPERIMENT,
        falling::EXPERIMENT,
        goal::EXPERIMENT,
        depth::EXPERIMENT,
        learned::EXPERIMENT,
        learned::LOOP,
        insulated::EXPERIMENT,
        insulated::DISK,
    ],
};
