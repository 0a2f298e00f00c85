#![forbid(unsafe_code)]
//! Discrete-event simulation of one device under load: workload → engine → device model.
//!
//! The engine is the one that serves clients, unchanged; time is virtual, so every run can be
//! repeated to the byte and takes as long as its requests, not as its seconds.
//!
//! - [`Plan`]: what to simulate; [`simulate`] runs it.
//! - [`DeviceSpec`]: a device that a scenario describes; [`measure`] profiles one, [`price`] prices it.
//! - [`fingerprint`]: hashes of all that simulations decide; [`swarm`]: random ones, by number.
//! - [`each`]: independent simulations on several threads.
//! - [`Outcome`]: what came of it: windows, totals, histograms, violated promises, decisions.
//!
//! Does not know: clocks, files' formats on the wire, what a paper claims.

mod checks;
mod decisions;
mod device_spec;
mod fingerprint;
mod metrics;
mod parallel;
mod plan;
mod scenario;
mod simulated_profile;
pub mod swarm;
mod world;

pub use checks::{Check, Violation};
pub use decisions::{Candidate, Decision};
pub use device_spec::{DeviceError, DeviceSpec};
pub use fingerprint::{Cut, Fingerprint, fingerprint};
pub use metrics::{Summary, Times, Window};
pub use parallel::each;
pub use plan::{Plan, PlanError, StreamPlan};
pub use scenario::{Scenario, ScenarioError};
pub use simulated_profile::{measure, price};
pub use world::{Moment, Outcome, simulate, simulate_steered, simulate_timed, simulate_watched};
