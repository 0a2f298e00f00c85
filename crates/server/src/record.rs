//! Records a virtual disk's requests as a trace that the simulator replays.
//!
//! The shard hands each request to the recorder's thread through a bounded channel and never waits:
//! what does not fit is left out and counted. The format is the workload crate's own:
//! `time_ns,op,offset,bytes`, times from the first request on.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};
use disktime_core::{Instant, Kind};

/// Requests that may wait to be written.
const WAITING_MAX: usize = 65_536;

/// The first line of a trace of ours.
const HEADER: &[u8] = b"time_ns,op,offset,bytes\n";
/// Traces of one name that are kept beside each other.
const SUCCESSORS_MAX: u32 = 10_000;

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

/// The traces of a daemon: those begun for virtual disks that are not served yet, by name, and the threads that
/// write.
#[derive(Default)]
pub(crate) struct Recorders {
    begun: BTreeMap<String, Begun>,
    pub(crate) threads: Vec<JoinHandle<io::Result<()>>>,
}

/// A trace's file that has no requests yet. It goes again when this is dropped.
struct Begun {
    file: File,
    path: PathBuf,
    is_kept: bool,
}

impl Recorders {
    /// Makes a virtual disk's trace, or a numbered one if there is a trace. Blocks; not to be called on a shard.
    ///
    /// # Errors
    /// If there is anything but a trace of ours, or the file can't be made.
    pub(crate) fn begin(&mut self, path: &Path, vdisk: &str) -> io::Result<()> {
        let (file, path) = new_file(path)?;
        let begun = Begun { file, path, is_kept: false };
        (&begun.file).write_all(HEADER)?;
        self.begun.insert(vdisk.to_owned(), begun);
        Ok(())
    }

    /// Starts the thread of a virtual disk's trace, which is begun if it was not. Blocks; not to be called on a
    /// shard.
    ///
    /// # Errors
    /// As [`begin`](Self::begin), or if there is no thread.
    pub(crate) fn start(&mut self, path: &Path, vdisk: &str) -> io::Result<Recorder> {
        if !self.begun.contains_key(vdisk) {
            self.begin(path, vdisk)?;
        }
        let mut begun = self.begun.remove(vdisk).expect("it was begun just now, or before");
        tracing::info!(vdisk, file = %begun.path.display(), "requests are recorded");
        let to = BufWriter::new(begun.file.try_clone()?);
        let (records, incoming) = crossbeam_channel::bounded(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("record".to_owned())
            .spawn(move || write_all(&incoming, to))?;
        begun.is_kept = true;
        self.threads.push(thread);
        Ok(Recorder { records, left_out: 0 })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.is_kept {
            let _gone_already = std::fs::remove_file(&self.path);
        }
    }
}

impl Recorder {
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

/// A file that was not there: at the path, or, if a trace is there, at the first number that is free.
fn new_file(path: &Path) -> io::Result<(File, PathBuf)> {
    let create = |path: &Path| File::options().write(true).create_new(true).open(path);
    let at =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    match create(path) {
        Ok(file) => return Ok((file, path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(at(error)),
    }
    if !is_trace(path).map_err(at)? {
        let why = "something else than a trace is there, and is not overwritten: name another file";
        return Err(at(io::Error::new(io::ErrorKind::AlreadyExists, why)));
    }
    for number in 1..SUCCESSORS_MAX {
        let path = numbered(path, number);
        match create(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(at(error)),
        }
    }
    let why =
        format!("{SUCCESSORS_MAX} traces are there: move them elsewhere, or name another file");
    Err(at(io::Error::new(io::ErrorKind::AlreadyExists, why)))
}

/// `trace.csv` becomes `trace.1.csv`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn is_trace(path: &Path) -> io::Result<bool> {
    // Opening a pipe would wait for its other end.
    if !std::fs::metadata(path)?.is_file() {
        return Ok(false);
    }
    let mut first = Vec::new();
    File::open(path)?.take(HEADER.len() as u64).read_to_end(&mut first)?;
    Ok(first == HEADER)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace that was begun for a take-over that failed would be one more file for each attempt.
    #[test]
    fn a_trace_that_was_begun_and_not_started_goes_again() {
        let directory = tempfile::tempdir().unwrap();
        let [first, second] = ["a.csv", "b.csv"].map(|name| directory.path().join(name));
        let mut recorders = Recorders::default();
        recorders.begin(&first, "a").unwrap();
        recorders.begin(&second, "b").unwrap();
        assert!(recorders.begin(&directory.path().join("none/c.csv"), "c").is_err());
        drop(recorders.start(&first, "a").unwrap());
        recorders.threads.pop().unwrap().join().unwrap().unwrap();
        drop(recorders);
        assert_eq!(std::fs::read(&first).unwrap(), HEADER);
        assert!(!second.exists());
    }

    /// A restart truncated the last run's trace, and a typing error in the configuration any file of
    /// the daemon's user: `record` overwrote what it found.
    #[test]
    fn a_recording_overwrites_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.csv");
        let made = || {
            new_file(&path).map(|(mut file, path)| {
                file.write_all(HEADER).unwrap();
                path.file_name().unwrap().to_str().unwrap().to_owned()
            })
        };
        assert_eq!(made().unwrap(), "trace.csv");
        assert_eq!(made().unwrap(), "trace.1.csv");
        std::fs::write(directory.path().join("trace.2.csv"), "someone's notes").unwrap();
        assert_eq!(made().unwrap(), "trace.3.csv");
        let kept = std::fs::read_to_string(directory.path().join("trace.2.csv")).unwrap();
        assert_eq!(kept, "someone's notes");
        for other in ["", "time_ns,op,offset", "time,latency\n"] {
            std::fs::write(&path, other).unwrap();
            let said = made().unwrap_err().to_string();
            assert!(said.contains("trace.csv: something else than a trace is there"), "{said}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        }
        let pipe = rustix::fs::Mode::from_raw_mode(0o600);
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, pipe, 0).unwrap();
        assert!(made().is_err());
        assert_eq!(numbered(Path::new("/a.b/trace"), 7), Path::new("/a.b/trace.7"));
    }
}
