//! Paper `reward`: tiers reward the well-behaved.
//!
//! One set of parameters for every figure, in `cached_servers.rs`; a figure says only what the paper varies.

use crate::Paper;

mod cached_servers;
mod depth;
mod emulated_tiers;
mod example;
mod falling;
mod fig2;
mod fig3;
mod goal;
mod insulated;
mod learned;
mod looping;
mod shares;
mod table1;
mod table2;
mod tier_times;

pub(crate) use emulated_tiers::LIVE;

pub(crate) const PAPER: Paper = Paper {
    id: "reward",
    title: "Tiers reward the well-behaved",
    parameters: cached_servers::parameters,
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
