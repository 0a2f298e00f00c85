//! Sans-IO scheduling of a storage device's *time*.
//!
//! [`Engine`] takes requests, completions and changes with the time at which they happen, and
//! answers what the device shall do next. It owns queues, limits, accounts, pieces and events; a
//! [`policy`] orders ready streams, a [`cost`] model says what a piece will take.
//!
//! Does not know: clocks, threads, sockets, files, logs, virtual disks' names. The daemon and the
//! simulator run it unchanged. Accounts are in integers: tokens are signed nanoseconds of disk
//! time, shares are parts per million with the remainder carried.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod admission;
mod bucket;
mod claims;
mod contract;
pub mod cost;
mod cycle;
mod depth;
mod engine;
mod error;
mod event;
pub mod feedback;
mod filter;
mod heap;
mod ledger;
mod pieces;
pub mod policy;
mod profile;
mod rank;
mod request;
mod requests;
mod served;
mod settling;
mod share;
mod stream;
mod tiers;
mod time;
mod usage;

pub use bucket::TokenBucket;
pub use claims::Ignored;
pub use contract::{Access, Admission, Change, Class, Contract, Rate, StreamSpec};
pub use depth::{DepthError, DepthLaw, DepthTerms};
pub use engine::{BestEffort, Cancel, Completion, Config, Engine, Limits};
pub use error::{ChangeError, ConfigError, Refusal};
pub use event::Event;
pub use heap::IndexedHeap;
pub use ledger::DeviceTime;
pub use profile::{Positioning, Profile, ProfileError, Transfer, Zone};
pub use request::{Dispatch, Kind, Outcome, PieceId, Request, RequestId, StreamId};
pub use share::{ParseShareError, Share};
pub use stream::{Head, StreamCounters, StreamView, Streams};
pub use tiers::{Tier, TierTimes};
pub use time::{Duration, Instant};
