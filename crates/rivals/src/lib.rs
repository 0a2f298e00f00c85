//! Policies and feedback controllers for comparison: schedulers that divide storage today, that papers
//! propose, or that were measured against `disktime`'s own. Each is one short file.
//!
//! Policies implement [`disktime_core::policy::Policy`] and see of a stream what any policy sees; controllers
//! implement [`disktime_core::feedback::Controller`]. The product's own are in `disktime_core`; [`all`], [`find`]
//! and [`controllers`] answer both, for programs that compare. The daemon takes a rival for a device with
//! `experimental = true` only.
//!
//! Does not know: how requests are kept, how charges are made, clocks, `std`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::String;
use core::fmt;

use disktime_core::feedback::{self, FeedbackEntry};
use disktime_core::policy::{self, PolicyEntry};

mod argon;
mod bfq;
mod cello;
mod deadline;
mod drr;
mod elevator;
mod fifo;
mod gss;
mod mclock;
mod optimistic;
mod pessimistic;
mod proportional;
mod qbox;
mod rate_monotonic;
mod reward;
mod round_robin;
mod served;
mod sfq;
mod time_division;
mod zygaria_iops;
mod zygaria_reward;

pub use elevator::elevator_with_batch;

/// Every rival.
pub static REGISTRY: &[PolicyEntry] = &[
    zygaria_reward::ENTRY,
    zygaria_iops::ENTRY,
    fifo::ENTRY,
    elevator::ENTRY,
    rate_monotonic::ENTRY,
    gss::ENTRY,
    cello::ENTRY,
    drr::ENTRY,
    deadline::ENTRY,
    round_robin::ENTRY,
    sfq::ENTRY,
    mclock::ENTRY,
    argon::ENTRY,
    bfq::ENTRY,
    proportional::ENTRY,
    reward::ENTRY,
    reward::SERVICE_ENTRY,
    qbox::ENTRY,
];

/// The oracle of random cells, in turns of several lengths: found by name, and among no rivals.
pub static TIME_DIVISIONS: &[PolicyEntry] = time_division::ENTRIES;

/// The feedback controllers to compare with.
pub static CONTROLLERS: &[&FeedbackEntry] = &[&optimistic::ENTRY, &pessimistic::ENTRY];

/// Every feedback controller there is: the product's and those to compare with.
pub fn controllers() -> impl Iterator<Item = &'static FeedbackEntry> + Clone {
    feedback::REGISTRY.iter().chain(CONTROLLERS).copied()
}

/// The feedback controller of that name, of the product or to compare with.
#[must_use]
pub fn controller(name: &str) -> Option<&'static FeedbackEntry> {
    controllers().find(|entry| entry.name == name)
}

/// Every policy there is: the product's and the rivals.
pub fn all() -> impl Iterator<Item = &'static PolicyEntry> + Clone {
    policy::REGISTRY.iter().chain(REGISTRY)
}

/// The policy of that name, of the product, a rival, or the oracle.
///
/// # Errors
/// If no policy has that name.
pub fn find(name: &str) -> Result<&'static PolicyEntry, UnknownPolicy> {
    all()
        .chain(TIME_DIVISIONS)
        .find(|entry| entry.name == name)
        .ok_or_else(|| UnknownPolicy(name.into()))
}

/// No policy has this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownPolicy(pub String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy `{}` is not known; known are:", self.0)?;
        all().try_for_each(|known| write!(f, " {}", known.name))
    }
}

impl core::error::Error for UnknownPolicy {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_a_name_of_its_own() {
        let entries = || all().chain(TIME_DIVISIONS);
        for entry in entries() {
            assert_eq!(entries().filter(|other| other.name == entry.name).count(), 1, "{entry:?}");
            assert_eq!(find(entry.name), Ok(entry));
        }
        let error = find("best").expect_err("no policy has this name");
        let text = alloc::string::ToString::to_string(&error);
        assert!(
            text.starts_with("policy `best` is not known; known are: disktime zygaria"),
            "{text}"
        );
        assert!(text.ends_with(" qbox"), "{text}");
    }
}
