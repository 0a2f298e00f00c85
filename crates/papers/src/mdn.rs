//! Paper `mdn`: soft real time by shaping and missed-deadline notification.
//!
//! One set of parameters for every figure, in `setup.rs`; a figure says only what the paper varies.

mod setup;
