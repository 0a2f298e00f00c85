#![forbid(unsafe_code)]
//! Measures a device from outside: profiles, prices, speeds.
//!
//! - [`Profiler`]: rotation, rates and seeks, with one request at a time.
//! - [`Pricer`]: what each kind of requests costs on any device, deep queues included.
//! - [`Found`] and [`Priced`]: what came of it, and the file that it is saved in.
//! - [`DeviceProfile`]: a saved profile as admission, cost models and goals reckon with it.
//! - [`Costs`]: what requests of one size take of a device's time.
//!
//! Does not know: clocks, sockets, devices, device models. [`DeviceProfile::load`] reads one file.

mod asked;
mod assemble;
mod costs;
mod found;
mod places;
mod pricer;
mod profiler;
mod rotation;
mod saved_profile;
mod seeks;
mod segments;
mod speeds;
mod streams;
#[cfg(test)]
mod tests;

pub use asked::{
    BLOCK_BYTES, BUDGET_DEFAULT, BUDGET_MAX, BUDGET_MIN, Issue, ProfilerError, ProfilerOptions,
    Progress, REQUEST_BYTES_MAX, SIZE_MIN,
};
pub use costs::Costs;
pub use found::{Found, Misfit, Rate, Seek};
pub use pricer::{Ask, DEPTH_MAX, PRICER_BUDGET_MIN, Pricer, PricerOptions, QUICK_BUDGET};
pub use profiler::Profiler;
pub use saved_profile::{
    DeviceProfile, Method, ProfileFileError, read_bytes, read_text, read_text_of_any,
};
pub use speeds::{
    BATCH, CONFIDENCES, Caches, Cell, Priced, PricesFile, Speeds, Switching, Work, WorkSpeed,
};
