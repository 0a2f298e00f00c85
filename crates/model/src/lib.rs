#![forbid(unsafe_code)]
//! Device timing models: when would this device have finished that request?
//!
//! Pure functions of time and requests. The same object runs under the discrete-event simulator and,
//! in real time, in front of a back end (`emulate = "<preset>"`); it can't tell which.
//!
//! Does not know: any clock, data, errors, streams, shares. A model holds no bytes: it only says
//! when. Nothing in it differs from run to run: one seed and one sequence of calls give one timeline.
//!
//! - [`Device`]: the contract between a model and who drives it.
//! - [`disk`]: a hard disk with zones, a seek curve, a turning spindle, read-ahead and a queue.
//! - [`preset`]: the devices one can ask for by name. A new model is registered there and has to
//!   pass `tests/conformance.rs`, which runs over the whole registry.

mod device;
pub mod disk;
pub mod preset;

pub use device::{Completion, Device, Op};
