//! A device's profile for admission: measured on a copy of it, or read from a file.
//!
//! Does not know: what a profiler asks, what admission makes of the answers.

use std::path::Path;

use disktime_core::Instant;
use disktime_model::{Device, Op};
use disktime_profiler::{
    Ask, BUDGET_DEFAULT, Found, Issue, Priced, Pricer, PricerOptions, Profiler, ProfilerError,
    ProfilerOptions,
};

/// Profiles a device in virtual time, its writes as well, within
/// [`BUDGET_DEFAULT`]. The device is used up: a simulation takes a fresh one.
///
/// # Errors
/// If there is nothing to find out: it is too small.
pub fn measure(mut device: Box<dyn Device>, name: &str, seed: u64) -> Result<Found, ProfilerError> {
    let (name, size) = (name.to_owned(), device.capacity_bytes());
    let options = ProfilerOptions { name, size, writes: true, budget: BUDGET_DEFAULT, seed };
    let mut profiler = Profiler::new(options)?;
    let mut now = Instant::ZERO;
    let mut done = Vec::new();
    while let Some(Issue { at, op }) = profiler.next(now) {
        let issued = at.max(now);
        let op = Op { kind: op.kind, offset: op.offset, bytes: op.bytes, fua: false };
        device.submit(issued, 0, op);
        while done.is_empty() {
            now = device.next_completion().expect("what was submitted completes");
            device.advance(now, &mut done);
        }
        now = done.drain(..).fold(now, |_, completion| completion.at);
        profiler.completed(now, now.since(issued));
    }
    profiler.finish()
}

/// Finds out in virtual time what requests of each kind cost on a device. Its size and queue are
/// the device's, whatever the options say. The device is used up: a simulation takes a fresh one.
///
/// # Errors
/// As [`Pricer::new`] and [`Pricer::finish`].
pub fn price(mut device: Box<dyn Device>, options: PricerOptions) -> Result<Priced, ProfilerError> {
    let (size, depth_max) = (device.capacity_bytes(), device.queue_depth());
    let depth_max = depth_max.min(options.depth_max);
    let mut pricer = Pricer::new(PricerOptions { size, depth_max, ..options })?;
    let mut now = Instant::ZERO;
    let mut done = Vec::new();
    loop {
        match pricer.next(now) {
            Ask::Done => return pricer.finish(),
            Ask::Issue(name, op) => {
                let op = Op { kind: op.kind, offset: op.offset, bytes: op.bytes, fua: false };
                device.submit(now, name.into(), op);
            }
            Ask::Wait => {
                now = device.next_completion().expect("what was submitted completes");
                device.advance(now, &mut done);
                for completion in done.drain(..) {
                    let name = u32::try_from(completion.tag).expect("names are of 32 bits");
                    pricer.completed(completion.at, name);
                }
            }
        }
    }
}

/// Reads the file of `disktime device profile`, for a device of `size` bytes.
pub(crate) fn read(path: &Path, size: u64) -> Result<Found, String> {
    let text = disktime_profiler::read_text(path).map_err(|error| error.to_string())?;
    let found: Found = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    found.fits(size).map_err(|misfit| misfit.to_string())?;
    Ok(found)
}
