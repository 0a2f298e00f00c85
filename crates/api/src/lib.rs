//! The objects of the control API, as they are in JSON: devices, virtual disks, answers to plans,
//! events, problems.
//!
//! Keys and their texts are those of the configuration file: a size is `"10GiB"`, a share is `"30%"`.
//! Figures in answers are numbers with their unit in the name, and shares are fractions from 0 to 1.
//! Does not know: HTTP, the daemon's types, what a value may be; the daemon checks.
#![deny(unsafe_code)]

mod figures;
mod specs;

pub use figures::{
    Contract, Device, Event, Figures, Held, History, Latency, Live, LiveDevice, LiveVdisk, Mount,
    MountStream, Plan, Problem, Promises, Server, Track, Vdisk, Waited,
};
pub use specs::{DeviceSpec, VdiskChange, VdiskSpec};
