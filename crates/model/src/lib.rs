#![forbid(unsafe_code)]
//! Device timing models: when would this device have finished that request?
//!
//! Pure functions of time and requests. The same object runs under the discrete-event simulator and,
//! in real time, in front of a back end (`emulate = "<preset>"`); it can't tell which.
//!
//! Does not know: any clock, data, errors, streams, shares. A model holds no bytes: it only says
//! when. Nothing in it differs from run to run: one seed and one sequence of calls give one timeline.
//!
//! - [`Device`]: the contract between a model and its driver.
//! - [`disk`]: a hard disk with zones, a seek curve, a turning spindle, read-ahead, a write cache and
//!   a queue.
//! - [`flash`]: a flash drive with channels, dies, a write buffer and garbage collection.
//! - [`exponential`]: a FIFO server with exponential or constant service times.
//! - [`cloud`]: a volume with caps on operations and bytes, credit for bursts, and a time of day.
//! - [`elevator`]: an operating system's deadline elevator in front of any of them.
//! - [`faulty`]: pauses, changes of speed, slow requests and cleaning, in front of any of them.
//! - [`shingled`]: a disk whose tracks overlap, with a persistent cache and cleaning.
//! - [`raid0`]: a stripe set over any of them; [`parity`]: one of RAID level 4 or 5; [`tiered`]: a fast and a slow one side by side.
//! - [`preset`]: the devices one can ask for by name. A new model is registered there and has to
//!   pass `tests/conformance.rs`, which runs over the whole registry.

pub mod cloud;
mod device;
pub mod disk;
mod drawn;
pub mod elevator;
pub mod exponential;
pub mod faulty;
pub mod flash;
mod members;
pub mod parity;
mod pending;
pub mod preset;
pub mod raid0;
pub mod shingled;
pub mod tiered;

pub use device::{Completion, Device, Op};
