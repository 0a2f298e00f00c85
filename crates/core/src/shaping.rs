//! Shaping: how much may go to the device for the sake of others, by what is reported or measured; no
//! controller knows the queues, or who applies what it says.

pub(crate) mod claims;
pub mod feedback;
pub(crate) mod filter;
