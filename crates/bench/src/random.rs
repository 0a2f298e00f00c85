//! The bench of random cells: does a share give what it would give alone, where nobody tuned for it?
//!
//! A [`Cell`] is a device, a queue depth, and streams with unequal contracts and loads; all of it
//! follows from a seed and a number ([`draw`]). Each load is first measured alone on a fresh instance
//! of its device; the same figures and the same requests are then used under every policy
//! ([`run`]), and a [`Row`] says what each stream got by what was due to it.
//!
//! - [`Group`]: devices that serve one command at a time, disks with a queue, flash and tiers.
//! - [`Summary`]: what the rows of a policy amount to; [`worst`] streams, with the cell of each.
//!
//! Does not know: clocks, files, terminals, how a policy works.

mod alone;
mod cells;
mod devices;
mod due;
mod learned_cost;
mod loads;
mod numbers;
mod random_page;
mod random_row;
mod runs;
#[cfg(test)]
mod samples;
mod shares;
mod summary;
mod times;

pub use cells::{Cell, CellId, Costs, SEED_CELLS, draw};
pub use devices::{DEVICES, Group};
pub use due::{AloneStore, NoStore};
pub use learned_cost::LearnedCost;
pub use loads::Family;
pub use random_page::files;
pub use random_row::{Row, StreamRow, Throughput};
pub use runs::{Progress, Settings, run};
pub use summary::{
    Counts, LearnedCosts, Possible, Summary, Versus, Waits, summaries, versus, whole, worst,
};
