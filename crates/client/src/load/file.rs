//! A load on a file or block device: operations are carried out by threads that may wait, so that
//! the one that keeps the time doesn't.
//!
//! Direct I/O where the file system has it and every operation fits its blocks, so that the device
//! answers and not the page cache.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration as Span;

use disktime_core::{Duration, Instant, Kind};
use disktime_workload::{IoOp, Source, Spec};
use rustix::fs::{FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::counters::Shared;
use super::driver::TIMER_SLACK_NS;
use super::tally::{Ended, Tally};
use super::{LoadError, LoadSpec, OPERATION_BYTES_MAX};
use crate::aligned::{ALIGN, Buffer};
use crate::clock;
use crate::misses::MissReports;

/// Operations carried out at once; the others wait.
const THREADS_MAX: u32 = 64;
/// How long the thread that keeps the time may not see that it shall stop.
const NAP: Duration = Duration::from_millis(50);

/// An operation's end.
struct Done {
    op: IoOp,
    issued: Instant,
    well: bool,
}

pub(super) struct FileDriver {
    file: File,
    threads: u32,
    longest: usize,
    source: Source,
    shared: Arc<Shared>,
    tally: Tally,
}

/// The bytes of a file or block device.
pub(super) fn size(path: &Path) -> Result<u64, LoadError> {
    open(path, OFlags::RDONLY).map(|(_, size)| size)
}

fn open(path: &Path, flags: OFlags) -> Result<(File, u64), LoadError> {
    let failed = |errno| match errno {
        Errno::BUSY => LoadError::InUse { path: path.to_owned() },
        errno => LoadError::File { path: path.to_owned(), errno },
    };
    let kind = std::fs::metadata(path)
        .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?
        .file_type();
    if !kind.is_file() && !std::os::unix::fs::FileTypeExt::is_block_device(&kind) {
        return Err(LoadError::NoFile { path: path.to_owned() });
    }
    let flags = flags | OFlags::CLOEXEC;
    let writes = flags.contains(OFlags::RDWR);
    if writes && !kind.is_file() {
        // Opening a block device exclusively fails while it is mounted, or a server has it. Streams on
        // one device must not keep each other out, so it is opened again without.
        rustix::fs::open(path, flags | OFlags::EXCL, Mode::empty()).map_err(failed)?;
    }
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    if writes {
        alone(&file).map_err(failed)?;
    }
    // A block device's metadata have no size.
    let size = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(failed)?;
    Ok((file.into(), size))
}

/// Fails if a server has locked the file: what is written would be its clients' data.
pub(crate) fn alone(file: impl AsFd) -> Result<(), Errno> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Err(Errno::BUSY),
        // A file system without locks has no servers' either.
        _ => Ok(()),
    }
}

impl FileDriver {
    pub(super) fn new(
        path: &Path,
        spec: LoadSpec,
        shared: Arc<Shared>,
        reports: Option<MissReports>,
    ) -> Result<Self, LoadError> {
        let LoadSpec { name, workload, pace, seed, .. } = spec;
        let access = if workload.reads_permille < 1000 { OFlags::RDWR } else { OFlags::RDONLY };
        let direct = if in_blocks(&workload) { OFlags::DIRECT } else { OFlags::empty() };
        let opened = match open(path, access | direct) {
            Err(LoadError::File { errno: Errno::INVAL, .. }) => open(path, access),
            opened => opened,
        };
        let (file, file_bytes) = opened?;
        if workload.extent.end > file_bytes {
            return Err(LoadError::PastEnd { extent: workload.extent, export_bytes: file_bytes });
        }
        let longest = workload.sizes.iter().map(|size| size.bytes).max().unwrap_or(0);
        if longest > OPERATION_BYTES_MAX.into() {
            return Err(LoadError::TooLong { bytes: longest, bytes_max: OPERATION_BYTES_MAX });
        }
        let started = clock::now();
        Ok(Self {
            file,
            threads: pace.outstanding_max().unwrap_or(THREADS_MAX).min(THREADS_MAX),
            longest: usize::try_from(longest).expect("checked above"),
            source: Source::new(workload, pace, seed, &name, started)?,
            shared,
            tally: Tally::new(started, reports),
        })
    }

    pub(super) fn run(self) -> Ended {
        let Self { file, threads, longest, mut source, shared, mut tally } = self;
        // Without it waits are less exact, which is no reason to stop.
        let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
        let (jobs, waiting) = channel();
        let (finished, results) = channel();
        let waiting = Mutex::new(waiting);
        let elapsed = std::thread::scope(|scope| {
            for _ in 0..threads {
                let (file, waiting, finished) = (&file, &waiting, finished.clone());
                scope.spawn(move || work(file, waiting, &finished, longest));
            }
            drop(finished);
            serve(&shared, &mut source, &mut tally, &jobs, &results);
            let elapsed = tally.elapsed();
            // No more jobs: the threads end with those taken, and their results with them.
            drop(jobs);
            results.iter().for_each(|done| note(&done, clock::now(), &mut source, &mut tally));
            elapsed
        });
        shared.publish(&tally.counters);
        tally.end(elapsed, None)
    }
}

/// Issues what is due until it is to stop.
fn serve(
    shared: &Shared,
    source: &mut Source,
    tally: &mut Tally,
    jobs: &Sender<(IoOp, Instant)>,
    results: &Receiver<Done>,
) {
    while !shared.stopping() {
        let now = clock::now();
        while let Some(op) = source.poll(now) {
            tally.counters.issued += 1;
            jobs.send((op, now)).expect("the threads live as long as the sender");
        }
        tally.look(now, source);
        shared.publish(&tally.counters);
        let left = source.next_at().map_or(NAP, |at| at.since(now).min(NAP));
        match results.recv_timeout(Span::from_nanos(left.as_nanos())) {
            Ok(done) => note(&done, clock::now(), source, tally),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn note(done: &Done, now: Instant, source: &mut Source, tally: &mut Tally) {
    source.completed(now, &done.op);
    if done.well {
        tally.succeeded(&done.op, now.since(done.issued));
    } else {
        tally.failed();
    }
}

/// Carries operations out until there are no more.
fn work(
    file: &File,
    waiting: &Mutex<Receiver<(IoOp, Instant)>>,
    finished: &Sender<Done>,
    longest: usize,
) {
    let mut buffer = Buffer::new(longest);
    loop {
        let job = waiting.lock().expect("no thread panics with it").recv();
        let Ok((op, issued)) = job else { return };
        let bytes = buffer.bytes(usize::try_from(op.bytes).expect("checked before"));
        let done = match op.kind {
            Kind::Read => file.read_exact_at(bytes, op.offset),
            Kind::Write => file.write_all_at(bytes, op.offset),
            _ => file.sync_data(),
        };
        if finished.send(Done { op, issued, well: done.is_ok() }).is_err() {
            return;
        }
    }
}

/// Whether direct I/O can carry out all of it.
fn in_blocks(workload: &Spec) -> bool {
    let sizes = workload.sizes.iter().map(|size| size.bytes);
    sizes.chain([workload.extent.start]).all(|bytes| bytes.is_multiple_of(ALIGN as u64))
}
