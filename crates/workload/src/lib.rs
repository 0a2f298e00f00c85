#![forbid(unsafe_code)]
//! Load generators and trace readers: what a client would ask for, and when.
//!
//! Generators are pure functions of a seed and of time; a replay is one of its file and of time. The
//! simulator and the live load driver use the same objects; one seed gives one sequence of
//! operations, on any machine.
//!
//! Does not know: any clock, sockets, devices, contracts.
//!
//! - [`Stream`]: anything that issues operations in time, made from a [`StreamSpec`].
//! - [`Spec`] and [`Generator`]: which operations, one after another (pattern, sizes, kinds).
//! - [`Pace`] and [`Source`]: when each is issued (closed or open loop, bursts, a player, cycles).
//! - [`Phase`] and [`Phases`]: sources that start, stop and change.
//! - [`ReplaySpec`] and [`Replay`]: the operations of a trace.
//! - [`trace`]: formats, a reader for each, a writer for our own.
//! - [`random`]: named streams of random numbers.
//! - Specs are what scenario files say, with sizes and times as people write them.

mod batches;
mod error;
mod generator;
mod pace;
mod phases;
mod player;
pub mod random;
mod replay;
mod source;
mod spec;
mod stream;
pub mod trace;

pub use error::SpecError;
pub use generator::Generator;
pub use pace::{Arrivals, Cycles, Pace, Playback, Spans};
pub use phases::{Phase, PhaseError, Phases};
pub use player::{Miss, Stalls};
pub use replay::{OpenTrace, PastEnd, Repeat, Replay, ReplayPace, ReplaySpec};
pub use source::Source;
pub use spec::{Extent, IoOp, Pattern, SizeWeight, Spec};
pub use stream::{Stream, StreamError, StreamSpec};
