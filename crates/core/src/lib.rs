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
pub use account::stream_accounts::StreamCounters;
pub use classes::admission;
pub use classes::lane::Head;
pub use classes::profile::{Positioning, Profile, ProfileError, Transfer, Zone};
pub use classes::promise;
pub use engine::error::{ChangeError, ConfigError, Refusal, StreamError};
pub use engine::event::{BrokenBy, Event};
pub use engine::{BestEffort, Cancel, Change, Completion, Config, Engine, Limits};
pub use policy::view::{StreamView, Streams};
pub use shaping::claims::Ignored;
pub use shaping::feedback;
pub use types::bucket::TokenBucket;
pub use types::contract::{Access, Admission, Class, Contract, Rate, StreamSpec};
pub use types::heap::IndexedHeap;
pub use types::ids::{PieceId, RequestId, StreamId};
pub use types::order::StreamOrder;
pub use types::request::{Dispatch, Kind, Outcome, Request};
pub use types::share::Share;
pub use types::tiers::Tier;
pub use types::time::{Duration, Instant};
