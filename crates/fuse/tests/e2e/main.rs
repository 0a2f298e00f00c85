//! Directories that are really mounted: calls through a mount answer as on its source, and open files
//! with contracts get what they are promised.

mod conformance;
mod contracts;
mod header;
mod hostile;
mod shares;
mod support;
