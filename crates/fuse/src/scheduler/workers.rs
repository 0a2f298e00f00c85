//! Threads that move bytes: as many as pieces may be at the device, so that none waits for another.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::fs;

use super::spawn;
use crate::file_system::{Answer, ReadReply};
use crate::open_files::OpenFile;
use crate::transfer::{Aligned, Buffers, Data, read_at, read_cached};

/// The most threads: pieces beyond wait in the channel.
const WORKERS_MAX: u32 = 64;
/// The longest piece that the engine's thread reads itself: some 100 us for two copies, in which it gives no
/// turns. To wake a worker costs some 40 us.
const OWN_READ_MAX: usize = 256 << 10;

/// A piece that is to be moved.
pub(super) struct Job {
    /// The flight that is told when it is done.
    pub(super) flight: usize,
    pub(super) file: Arc<OpenFile>,
    pub(super) offset: u64,
    pub(super) action: Action,
}

pub(super) enum Action {
    Read(usize),
    /// All that a request asks for, which is answered at once.
    ReadAll(usize, ReadReply),
    /// A range of the data; then it is to be on the medium, if the flag says so.
    Write(Arc<Data>, Range<usize>, bool),
}

impl Action {
    /// The bytes that it reads, if it reads.
    fn reads(&self) -> Option<usize> {
        match self {
            Self::Read(bytes) | Self::ReadAll(bytes, _) => Some(*bytes),
            Self::Write(..) => None,
        }
    }
}

/// The outcome of a piece that did not fail.
pub(super) enum Moved {
    /// A buffer and how many bytes of it were read.
    Read(Aligned, usize),
    /// The program has its answer.
    Answered,
    Written(usize),
}

/// A flight whose bytes were moved, and how that went.
pub(super) type Landed = (usize, Answer<Moved>);

/// Workers that were started.
pub(super) struct Workers {
    /// Where they take jobs.
    pub(super) jobs: Sender<Job>,
    /// Where they say that one is done.
    pub(super) landed: Receiver<Landed>,
    pub(super) threads: Vec<JoinHandle<()>>,
}

/// Starts workers for a device that holds so many pieces at most.
pub(super) fn start(depth_max: u32, buffers: &Arc<Buffers>) -> io::Result<Workers> {
    // No thread waits here: there are no more jobs than pieces at the device.
    let (jobs, taken) = bounded(depth_max as usize);
    let (to, landed) = bounded(depth_max as usize);
    let threads = (0..depth_max.min(WORKERS_MAX)).map(|number| {
        let (taken, to, buffers) = (taken.clone(), to.clone(), Arc::clone(buffers));
        spawn(&format!("worker-{number}"), move || work(&taken, &to, &buffers))
    });
    Ok(Workers { jobs, landed, threads: threads.collect::<io::Result<_>>()? })
}

/// Reads on the calling thread what is in the system's cache: no device is waited for. Gives other jobs back.
pub(super) fn read_if_cached(job: Job, buffers: &Buffers) -> Result<Landed, Job> {
    // A read past the cache waits for the device whatever it asks for.
    let bytes = job.action.reads().filter(|bytes| *bytes <= OWN_READ_MAX && !job.file.is_direct);
    let Some(bytes) = bytes else { return Err(job) };
    let mut buffer = buffers.take();
    match read_cached(&job.file.descriptor, job.offset, buffer.first(bytes)) {
        Some(done) => Ok((job.flight, have_read(job.action, Ok(done), buffer, buffers))),
        None => {
            buffers.give_back(buffer);
            Err(job)
        }
    }
}

fn work(jobs: &Receiver<Job>, to: &Sender<Landed>, buffers: &Buffers) {
    for Job { flight, file, offset, action } in jobs {
        let moved = match action {
            Action::Write(data, range, durable) => {
                let descriptor = file.to_write(data.is_direct);
                let written = descriptor.and_then(|it| data.write(it, offset, range));
                let written = written.map(Moved::Written);
                if durable {
                    written.and_then(|it| fs::fdatasync(&file.descriptor).map(|()| it))
                } else {
                    written
                }
            }
            action => {
                let mut buffer = buffers.take();
                let bytes = action.reads().unwrap_or_default();
                let read = read_at(&file.descriptor, offset, buffer.first(bytes));
                have_read(action, read, buffer, buffers)
            }
        };
        // Its file may be closed by the time that the engine hears of it.
        drop(file);
        if to.send((flight, moved)).is_err() {
            return;
        }
    }
}

/// A piece was read. A request that is one piece has its answer now, by the thread that has its bytes.
fn have_read(
    action: Action,
    read: Answer<usize>,
    mut buffer: Aligned,
    buffers: &Buffers,
) -> Answer<Moved> {
    match (read, action) {
        (Ok(done), Action::ReadAll(_, reply)) => reply(Ok(buffer.first(done))),
        (Err(error), Action::ReadAll(_, reply)) => reply(Err(error)),
        (Ok(done), _) => return Ok(Moved::Read(buffer, done)),
        (Err(_), _) => {}
    }
    buffers.give_back(buffer);
    read.map(|_| Moved::Answered)
}
