//! Records a virtual disk's requests as a trace that the simulator replays.
//!
//! The shard hands each request to the recorder's thread through a bounded channel and never waits:
//! what does not fit is left out and counted. The format is the workload crate's own:
//! `time_ns,op,offset,bytes`, times from the first request on.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};
use disktime_core::{Instant, Kind};

/// Requests that may wait to be written.
const WAITING_MAX: usize = 65_536;

/// A request as it arrived; the offset is in the virtual disk.
pub(crate) struct Record {
    pub(crate) at: Instant,
    pub(crate) kind: Kind,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Where a shard hands its requests. The recording ends when it is dropped.
pub(crate) struct Recorder {
    records: Sender<Record>,
    left_out: u64,
}

impl Recorder {
    /// Makes the trace's file and starts its thread. Blocks; not to be called on a shard.
    pub(crate) fn start(path: &Path) -> io::Result<(Self, JoinHandle<io::Result<()>>)> {
        let mut to = BufWriter::new(File::create(path)?);
        to.write_all(b"time_ns,op,offset,bytes\n")?;
        to.flush()?;
        let (records, incoming) = crossbeam_channel::bounded(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("record".to_owned())
            .spawn(move || write_all(&incoming, to))?;
        Ok((Self { records, left_out: 0 }, thread))
    }

    /// Notes a request, without waiting.
    pub(crate) fn note(&mut self, record: Record) {
        if self.records.try_send(record).is_err() {
            self.left_out += 1;
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.left_out > 0 {
            tracing::warn!(requests = self.left_out, "the recording could not keep up: left out");
        }
    }
}

/// Writes until the recorder is dropped; what is waiting is on disk whenever there is a lull.
fn write_all(incoming: &Receiver<Record>, mut to: BufWriter<File>) -> io::Result<()> {
    let mut start = None;
    while let Ok(first) = incoming.recv() {
        for Record { at, kind, offset, bytes } in std::iter::once(first).chain(incoming.try_iter())
        {
            let nanos = at.since(*start.get_or_insert(at)).as_nanos();
            writeln!(to, "{nanos},{},{offset},{bytes}", name(kind))?;
        }
        to.flush()?;
    }
    Ok(())
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Flush => "flush",
        Kind::Trim => "trim",
        Kind::Zeroes => "zeroes",
        Kind::Cache => "cache",
    }
}
