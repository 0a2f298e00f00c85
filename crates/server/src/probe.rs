//! Carries a pricer's requests out on a back end, before anybody is served: many at a time, as a
//! shard would, on a ring of the calling thread's own.
//!
//! Does not know: what the times mean ([`Pricer`] does), and which devices may be asked to write.

use std::io;
use std::path::Path;

use disktime_client::Uri;
use disktime_core::{Duration, Instant, Kind};
use disktime_model::Op;
use disktime_profiler::{
    Ask, DEPTH_MAX, Priced, Pricer, PricerOptions, ProfilerError, Progress, REQUEST_BYTES_MAX,
};

use crate::backend::{BackEnd, DeviceError, Export, FileBackEnd, Io, Job, OneFile, Step};
use crate::buffers::{ALIGN, Buffer, Pool};
use crate::clock;
use crate::emulate::{Emulate, Emulator};
use crate::ring::{Finished, Ring, Token};

/// How long a device may be silent before it is given up, unless the caller sets a shorter time.
const TIMEOUT: Duration = Duration::from_secs(30);
/// For a time of the timing model that is nearer than this the thread waits awake, as a shard does.
const SPIN: Duration = Duration::from_micros(80);
const BLOCK: u64 = ALIGN as u64;

/// Why there are no prices.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It can't be opened, or is no device.
    #[error("{0}")]
    Open(io::Error),
    /// The system gives no ring.
    #[error("the system refuses: {0} ({remedy})", remedy = crate::ring::remedy(.0))]
    System(io::Error),
    /// Writes were allowed, and can't be done.
    #[error("read-only: its writes can't be measured")]
    ReadOnly,
    /// A request failed.
    #[error("{kind:?} at byte {offset}: {error}")]
    Device {
        /// The operation.
        kind: Kind,
        /// The request's first byte.
        offset: u64,
        /// Why.
        error: DeviceError,
    },
    /// Nothing completed any more.
    #[error("nothing has completed for {timeout:?}: the device stalls")]
    Stalled {
        /// For how long.
        timeout: Duration,
    },
    /// It can't be priced so, or not so soon.
    #[error(transparent)]
    Pricer(#[from] ProfilerError),
}

/// How to probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeOptions {
    /// Whether everything on it may be overwritten.
    pub writes: bool,
    /// Most requests at once.
    pub depth_max: u32,
    /// When to stop.
    pub budget: Duration,
    /// Whether to look at switching and caches as well.
    pub thorough: bool,
    /// How long it may be silent.
    pub timeout: Duration,
}

impl ProbeOptions {
    /// All there is to know within a budget; writes only where nothing is to be kept.
    #[must_use]
    pub fn thorough(budget: Duration, writes: bool) -> Self {
        Self { writes, depth_max: DEPTH_MAX, budget, thorough: true, timeout: TIMEOUT }
    }
}

/// A part of a back end that may be probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Which virtual disk, by its place on the device.
    pub disk: u32,
    /// Its first byte on the device, for a timing model.
    pub base: u64,
    /// Its length.
    pub bytes: u64,
}

/// Prices a file or block device; it is opened for reading alone unless it may be overwritten.
///
/// # Errors
/// Why there are no prices.
pub fn price_file(
    path: &Path,
    options: &ProbeOptions,
    watch: impl FnMut(Progress),
) -> Result<Priced, ProbeError> {
    let file = if options.writes { OneFile::open(path) } else { OneFile::open_to_read(path) };
    let file = file.map_err(ProbeError::Open)?;
    let file = file.ok_or_else(|| {
        ProbeError::Open(io::Error::other(format!("{}: no file or block device", path.display())))
    })?;
    let bytes = file.size / BLOCK * BLOCK;
    let mut back_end = FileBackEnd::extents(&file, &[(0, bytes)]);
    price(&mut back_end, None, &[Space { disk: 0, base: 0, bytes }], options, watch)
}

/// Prices a server's export.
///
/// # Errors
/// Why there are no prices.
pub fn price_export(
    uri: &Uri,
    options: &ProbeOptions,
    watch: impl FnMut(Progress),
) -> Result<Priced, ProbeError> {
    let export = Export::open(uri, None).map_err(ProbeError::Open)?;
    if options.writes && !export.abilities().write {
        return Err(ProbeError::ReadOnly);
    }
    let bytes = export.size() / BLOCK * BLOCK;
    let mut back_end = export.on_shard(&[(0, bytes)]);
    price(&mut back_end, None, &[Space { disk: 0, base: 0, bytes }], options, watch)
}

/// Prices a back end in these spaces, taken for one device; behind a timing model, if there is one.
///
/// It takes at most the budget and, if the device falls silent, the timeout.
///
/// # Errors
/// Why there are no prices.
pub fn price(
    back_end: &mut dyn BackEnd,
    emulate: Option<Emulate>,
    spaces: &[Space],
    options: &ProbeOptions,
    mut watch: impl FnMut(Progress),
) -> Result<Priced, ProbeError> {
    let spaces = usable(spaces);
    let size = spaces.iter().map(|space| space.bytes).sum();
    let ProbeOptions { writes, depth_max, budget, thorough, timeout } = *options;
    let options = PricerOptions { size, writes, depth_max, budget, thorough, seed: 1 };
    let mut pricer = Pricer::new(options)?;
    let pool = back_end.pool();
    let ring = Ring::new(pool.arena()).map_err(ProbeError::System)?;
    let begun = clock::now();
    let mut bench = Bench {
        ring,
        pool,
        back_end,
        emulator: emulate.map(|emulate| Emulator::new(emulate, 0)),
        flights: Vec::new(),
        landed: Vec::new(),
        failed: None,
        spun: false,
    };
    bench.begin();
    let mut heard = begun;
    loop {
        let now = clock::now();
        match pricer.next(now) {
            Ask::Done => return Ok(pricer.finish()?),
            Ask::Issue(name, op) => {
                let place = place(&spaces, op.offset, op.bytes);
                let mut job = Job::new(place.disk, op.kind, place.offset, op.bytes);
                job.buffer = (op.bytes > 0).then(|| bench.buffer(op.kind, op.bytes));
                bench.start(name, job, place.base);
            }
            Ask::Wait => {
                watch(pricer.progress());
                bench.wait(heard + timeout)?;
            }
        }
        let mut landed = std::mem::take(&mut bench.landed);
        for (name, at) in landed.drain(..) {
            pricer.completed(at, name);
            heard = at;
        }
        bench.landed = landed;
        if let Some(error) = bench.failed.take() {
            return Err(error);
        }
        let over = begun + budget + timeout;
        if now > heard + timeout || now > over {
            return Err(ProbeError::Stalled { timeout });
        }
    }
}

/// Whole blocks, of spaces that hold the longest request.
fn usable(spaces: &[Space]) -> Vec<Space> {
    let whole = |space: &Space| Space { bytes: space.bytes / BLOCK * BLOCK, ..*space };
    let spaces = spaces.iter().map(whole);
    spaces.filter(|space| space.bytes >= REQUEST_BYTES_MAX).collect()
}

/// Where a request goes.
struct Place {
    disk: u32,
    /// In the virtual disk.
    offset: u64,
    /// The virtual disk's first byte on the device.
    base: u64,
}

/// Spaces lie one behind the other; a request that would cross an end stays before it.
fn place(spaces: &[Space], mut offset: u64, bytes: u64) -> Place {
    let last = spaces.len().saturating_sub(1);
    for (at, space) in spaces.iter().enumerate() {
        if offset < space.bytes || at == last {
            let offset = offset.min(space.bytes - bytes);
            return Place { disk: space.disk, offset, base: space.base };
        }
        offset -= space.bytes;
    }
    Place { disk: 0, offset: 0, base: 0 }
}

/// A request at the device.
struct Flight {
    job: Job,
    done: bool,
    /// The timing model says so as well, if there is one.
    timed: bool,
}

/// A back end with a ring to itself.
struct Bench<'a> {
    /// Dropped before the pool: it may still hold its memory.
    ring: Ring,
    pool: Pool,
    back_end: &'a mut dyn BackEnd,
    emulator: Option<Emulator>,
    /// By name.
    flights: Vec<Option<Flight>>,
    /// Names of what is over, with the time.
    landed: Vec<(u32, Instant)>,
    failed: Option<ProbeError>,
    spun: bool,
}

impl Bench<'_> {
    fn begin(&mut self) {
        self.back_end.begin(&mut Io { ring: &mut self.ring, pool: &mut self.pool });
    }

    /// Memory for a request; writes find bytes there that no device leaves out.
    fn buffer(&mut self, kind: Kind, bytes: u64) -> Buffer {
        let length = usize::try_from(bytes).expect("requests are at most 1 MiB");
        let buffer = self.pool.take_for_data(length).expect("a request's memory can be had");
        if kind == Kind::Write {
            let block: Vec<u8> = (1..=251).cycle().take(length).collect();
            buffer.put(0, &block);
        }
        buffer
    }

    fn start(&mut self, name: u32, job: Job, base: u64) {
        let (at, timed) = (name as usize, self.emulator.is_none());
        if self.flights.len() <= at {
            self.flights.resize_with(at + 1, || None);
        }
        if let Some(emulator) = &mut self.emulator {
            let Job { kind, offset, bytes, fua, .. } = job;
            emulator.start(clock::now(), name, Op { kind, offset: base + offset, bytes, fua }, &[]);
        }
        let flight = self.flights[at].insert(Flight { job, done: false, timed });
        let mut io = Io { ring: &mut self.ring, pool: &mut self.pool };
        let step = self.back_end.start(name, &mut flight.job, &mut io);
        self.stepped(name, step);
    }

    /// Waits until something has completed, at most until then.
    fn wait(&mut self, until: Instant) -> Result<(), ProbeError> {
        let now = clock::now();
        let emulated = self.emulator.as_ref().and_then(Emulator::next);
        let next = emulated.map_or(until, |at| at.min(until));
        let left = next.since(now);
        let near = emulated.is_some() && left <= SPIN && !self.spun;
        self.spun = near;
        if near {
            self.ring.submit().map_err(ProbeError::System)?;
            while clock::now() < next {
                std::hint::spin_loop();
            }
        } else if self.landed.is_empty() {
            let early = if emulated.is_some() { SPIN } else { Duration::ZERO };
            let sleep = left.saturating_sub(early).as_nanos();
            let sleep = std::time::Duration::from_nanos(sleep);
            self.ring.wait(Some(sleep)).map_err(ProbeError::System)?;
        }
        let mut finished = Vec::new();
        self.ring.reap(&mut finished);
        for operation in finished {
            self.finished(operation);
        }
        self.collect();
        Ok(())
    }

    fn finished(&mut self, Finished { token, keep, result }: Finished) {
        let mut io = Io { ring: &mut self.ring, pool: &mut self.pool };
        match token {
            Token::Job { job: name, step } => {
                let Some(flight) = self.flights[name as usize].as_mut() else { return };
                let done = (keep, result);
                let step = self.back_end.finished(name, step, &mut flight.job, done, &mut io);
                self.stepped(name, step);
            }
            Token::BackEnd(what) => {
                self.back_end.heard(what, (keep, result), &mut io);
                self.go_on();
            }
            Token::Wakeup
            | Token::Carriers
            | Token::Receive(_)
            | Token::Send(_)
            | Token::Cancel => {}
        }
    }

    fn stepped(&mut self, name: u32, step: Step) {
        self.note(name, step);
        self.go_on();
    }

    fn go_on(&mut self) {
        while let Some(next) = self.back_end.unblocked() {
            let Some(flight) = self.flights[next as usize].as_mut() else { continue };
            let mut io = Io { ring: &mut self.ring, pool: &mut self.pool };
            let step = self.back_end.resume(next, &mut flight.job, &mut io);
            self.note(next, step);
        }
    }

    fn note(&mut self, name: u32, step: Step) {
        let Step::Done(result) = step else { return };
        let Some(flight) = self.flights[name as usize].as_mut() else { return };
        if let Err(error) = result {
            let Job { kind, offset, .. } = flight.job;
            self.failed.get_or_insert(ProbeError::Device { kind, offset, error });
        }
        flight.done = true;
        if flight.timed {
            self.land(name);
        }
    }

    /// Notes what the timing model has done by now.
    fn collect(&mut self) {
        let Some(emulator) = &mut self.emulator else { return };
        let mut timed = Vec::new();
        emulator.collect(clock::now(), |name, _| timed.push(name));
        for name in timed {
            let Some(flight) = self.flights[name as usize].as_mut() else { continue };
            flight.timed = true;
            if flight.done {
                self.land(name);
            }
        }
    }

    fn land(&mut self, name: u32) {
        let flight = self.flights[name as usize].take();
        if let Some(buffer) = flight.and_then(|flight| flight.job.buffer) {
            self.pool.give_back(buffer);
        }
        self.landed.push((name, clock::now()));
    }
}

#[cfg(test)]
mod tests;
