//! Classes: streams, their queues by class, cycles, and what the classes' promises take of the device.
//! It does not know which stream goes next within a class, or when the device has room.

pub mod admission;
pub(crate) mod cycle;
pub(crate) mod lane;
pub(crate) mod profile;
pub(crate) mod requests;
pub(crate) mod stream;
