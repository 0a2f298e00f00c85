//! Threads that make files durable, so that reads and writes of others don't wait for a thread meanwhile.

use std::io;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::fs;

use crate::file_system::{Answer, SyncReply};
use crate::nodes::lock;
use crate::open_files::Open;
use crate::scheduler::spawn;

/// Threads; calls beyond wait in the order of their arrival.
const THREADS: u32 = 8;

/// An open file or directory, whether its data alone are to be durable, and who waits for it.
type Call = (Open, bool, SyncReply);

/// The threads; they end when this is dropped.
pub(crate) struct Syncs {
    to: Option<Sender<Call>>,
    threads: Vec<JoinHandle<()>>,
}

impl Syncs {
    pub(crate) fn start() -> io::Result<Self> {
        // Each is a call of a program that waits.
        let (to, calls) = unbounded();
        let threads = (0..THREADS).map(|number| {
            let calls = calls.clone();
            spawn(&format!("sync-{number}"), move || run(&calls))
        });
        Ok(Self { to: Some(to), threads: threads.collect::<io::Result<_>>()? })
    }

    pub(crate) fn sync(&self, open: Open, data_only: bool, reply: SyncReply) {
        if let Some(to) = &self.to {
            to.send((open, data_only, reply)).expect("the threads run as long as this is there");
        }
    }
}

impl Drop for Syncs {
    fn drop(&mut self) {
        self.to = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that makes files durable panicked");
            }
        }
    }
}

fn run(calls: &Receiver<Call>) {
    for (open, data_only, reply) in calls {
        let done = durable(&open, data_only);
        // The program may close it as soon as it has its answer.
        drop(open);
        reply(done);
    }
}

fn durable(open: &Open, data_only: bool) -> Answer<()> {
    let sync = |descriptor: &OwnedFd| {
        if data_only { fs::fdatasync(descriptor) } else { fs::fsync(descriptor) }
    };
    match open {
        Open::File(file) => sync(&file.descriptor),
        Open::Directory(descriptor) => {
            let copy = rustix::io::fcntl_dupfd_cloexec(&*lock(descriptor), 0)?;
            sync(&copy)
        }
        Open::Virtual(..) => Ok(()),
    }
}
