#![forbid(unsafe_code)]
//! Load generators: what a client would ask for, and when.
//!
//! Pure functions of a seed and of time. The simulator and the live load driver use the same
//! objects; one seed gives one sequence of operations, on any machine.
//!
//! Does not know: any clock, sockets, devices, contracts.
//!
//! - [`Spec`] and [`Generator`]: which operations, one after another (pattern, sizes, kinds).
//! - [`Pace`] and [`Source`]: when each is issued (closed or open loop).

mod generator;
mod pace;
mod random;
mod source;
mod spec;

pub use disktime_core::{Duration, Instant, Kind};
pub use generator::Generator;
pub use pace::{Arrivals, Pace};
pub use source::Source;
pub use spec::{Extent, IoOp, Pattern, SizeWeight, Spec, SpecError};
