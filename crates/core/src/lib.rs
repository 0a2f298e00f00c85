#![no_std]
//! Sans-IO scheduling of disk time.
extern crate alloc;

mod contract;
mod request;
mod share;
mod time;

pub use contract::{Change, Class, Contract, StreamSpec};
pub use request::{Dispatch, Kind, Outcome, PieceId, Request, RequestId, StreamId};
pub use share::Share;
pub use time::{Duration, Instant};
