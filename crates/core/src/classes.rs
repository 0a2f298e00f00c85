//! Classes: streams, their queues by class, cycles, and what the classes' promises take of the device; a
//! class does not know which of its streams goes next, or when the device has room.

pub mod admission;
pub(crate) mod cycle;
pub(crate) mod lane;
pub(crate) mod profile;
pub mod promise;
pub(crate) mod requests;
pub(crate) mod stream;
