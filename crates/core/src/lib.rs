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

mod account;
mod classes;
pub mod cost;
mod engine;
pub mod policy;
mod shaping;
mod types;

pub use account::ledger::DeviceTime;
pub use classes::admission;
pub use classes::profile::{Positioning, Profile, ProfileError, Transfer, Zone};
pub use classes::stream::{Head, StreamCounters, StreamView, Streams};
pub use engine::error::{ChangeError, ConfigError, Refusal};
pub use engine::event::Event;
pub use engine::{BestEffort, Cancel, Completion, Config, Engine, Limits};
pub use shaping::claims::Ignored;
pub use shaping::depth::{DepthError, DepthLaw, DepthTerms};
pub use shaping::feedback;
pub use types::bucket::TokenBucket;
pub use types::contract::{Access, Admission, Change, Class, Contract, Rate, StreamSpec};
pub use types::heap::IndexedHeap;
pub use types::request::{Dispatch, Kind, Outcome, PieceId, Request, RequestId, StreamId};
pub use types::share::{ParseShareError, Share};
pub use types::tiers::{Tier, TierTimes};
pub use types::time::{Duration, Instant};
