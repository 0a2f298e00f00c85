//! Profiles a device on the real clock: a file or block device, or an export.
//!
//! Requests go out one at a time from the calling thread. Files are opened for direct I/O, so that the
//! device answers and not the page cache.
//!
//! Does not know: what the times mean; [`profiler`](disktime_profiler) does.

use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use disktime_core::{Instant, Kind};
use disktime_nbd::TransmissionFlags;
use disktime_profiler::{
    BLOCK_BYTES, Found, Issue, Profiler, ProfilerError, ProfilerOptions, Progress,
    REQUEST_BYTES_MAX,
};
use disktime_workload::IoOp;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::aligned::Buffer;
use crate::clock;
use crate::connection::Connection;
use crate::error::{ConnectError, RequestError};
use crate::load::file::alone;
use crate::uri::Uri;

/// Waits shorter than this are spun: a sleep's end is not more exact.
const SPIN_NS: u64 = 80_000;

/// Why a device can't be profiled.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The system does not open it.
    #[error("{}: {errno}", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// The file system has no direct I/O.
    #[error("{}: its file system has no direct I/O; use a file or device on one that has", path.display())]
    NoDirect {
        /// The path.
        path: PathBuf,
    },
    /// A directory, a pipe, a terminal.
    #[error("{}: neither a file nor a block device", path.display())]
    NoDevice {
        /// The path.
        path: PathBuf,
    },
    /// It has no bytes.
    #[error("{name}: size 0 bytes; there is nothing to profile")]
    Empty {
        /// The target's name.
        name: String,
    },
    /// Writes were allowed, and something else has it.
    #[error(
        "{}: it is mounted, or a server has it open: its data would be lost; leave out --destructive",
        path.display()
    )]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Writes were allowed, and can't be done.
    #[error("{name}: read-only; its writes can't be measured: leave out --destructive")]
    ReadOnly {
        /// The target's name.
        name: String,
    },
    /// The export takes only other requests.
    #[error(
        "{name}: takes requests of {min} to {max} bytes; profiling needs {BLOCK_BYTES} to \
         {REQUEST_BYTES_MAX}"
    )]
    Blocks {
        /// The target's name.
        name: String,
        /// Smallest request in bytes.
        min: u32,
        /// Largest request in bytes.
        max: u32,
    },
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The export failed a request.
    #[error("{name}: at byte {offset}: {error}")]
    Request {
        /// The target's name.
        name: String,
        /// The request's first byte.
        offset: u64,
        /// Why.
        error: RequestError,
    },
    /// The file failed a request.
    #[error("{name}: at byte {offset}: {error}")]
    File {
        /// The target's name.
        name: String,
        /// The request's first byte.
        offset: u64,
        /// Why.
        error: std::io::Error,
    },
    /// It can't be profiled so, or not so soon.
    #[error("{name}: {error}")]
    Profiler {
        /// The target's name.
        name: String,
        /// Why.
        error: ProfilerError,
    },
}

/// A device to profile.
#[derive(Debug)]
pub struct ProfileTarget {
    name: String,
    size: u64,
    writes: bool,
    device: Device,
    buffer: Buffer,
}

#[derive(Debug)]
enum Device {
    File(File),
    Export { connection: Box<Connection>, flushes: bool },
}

impl ProfileTarget {
    /// A file or block device, for reading, or for both if `writes`: then its content is lost.
    ///
    /// # Errors
    /// Why it can't be profiled.
    pub fn file(path: &Path, writes: bool) -> Result<Self, ProfileError> {
        let name = path.display().to_string();
        let open = |errno| match errno {
            Errno::INVAL => ProfileError::NoDirect { path: path.to_owned() },
            Errno::ROFS | Errno::ACCESS | Errno::PERM if writes => {
                ProfileError::ReadOnly { name: path.display().to_string() }
            }
            Errno::BUSY if writes => ProfileError::InUse { path: path.to_owned() },
            errno => ProfileError::Open { path: path.to_owned(), errno },
        };
        let kind = std::fs::metadata(path)
            .map_err(|error| open(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?
            .file_type();
        if !kind.is_file() && !std::os::unix::fs::FileTypeExt::is_block_device(&kind) {
            return Err(ProfileError::NoDevice { path: path.to_owned() });
        }
        let access = match writes {
            // Fails while it is mounted, or a server has it.
            true if !kind.is_file() => OFlags::RDWR | OFlags::EXCL,
            true => OFlags::RDWR,
            false => OFlags::RDONLY,
        };
        let flags = access | OFlags::DIRECT | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(open)?);
        if writes {
            alone(&file).map_err(open)?;
        }
        // A block device's metadata have no size.
        let size = file.seek(SeekFrom::End(0));
        let size =
            size.map_err(|error| ProfileError::File { name: name.clone(), offset: 0, error })?;
        Self::new(name, size, writes, Device::File(file))
    }

    /// An export, for reading, or for both if `writes`: then its content is lost.
    ///
    /// # Errors
    /// Why it can't be profiled.
    pub fn export(uri: &Uri, writes: bool) -> Result<Self, ProfileError> {
        let connection = Box::new(Connection::open(uri)?);
        let name = uri.to_string();
        let export = connection.export();
        let (size, flags, blocks) = (export.size_bytes, export.flags, export.block_sizes);
        if writes && flags.contains(TransmissionFlags::READ_ONLY) {
            return Err(ProfileError::ReadOnly { name });
        }
        let (min, max) = (blocks.min(), blocks.max());
        if u64::from(min) > BLOCK_BYTES || u64::from(max) < REQUEST_BYTES_MAX {
            return Err(ProfileError::Blocks { name, min, max });
        }
        let flushes = flags.contains(TransmissionFlags::FLUSH);
        Self::new(name, size, writes, Device::Export { connection, flushes })
    }

    fn new(name: String, size: u64, writes: bool, device: Device) -> Result<Self, ProfileError> {
        if size == 0 {
            return Err(ProfileError::Empty { name });
        }
        let longest = usize::try_from(REQUEST_BYTES_MAX).unwrap_or(1 << 20);
        Ok(Self { name, size, writes, device, buffer: Buffer::new(longest) })
    }

    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Profiles it within the budget, telling `watch` before each request how far it is.
    ///
    /// # Errors
    /// If the device's size or the budget makes no sense, or a request failed.
    pub fn profile(
        mut self,
        name: &str,
        budget: disktime_core::Duration,
        mut watch: impl FnMut(Progress),
    ) -> Result<Found, ProfileError> {
        let options = ProfilerOptions {
            name: name.to_owned(),
            size: self.size,
            writes: self.writes,
            budget,
            seed: 1,
        };
        let failed = |error| ProfileError::Profiler { name: name.to_owned(), error };
        let mut profiler = Profiler::new(options).map_err(failed)?;
        while let Some(Issue { at, op }) = profiler.next(clock::now()) {
            watch(profiler.progress());
            wait_until(at);
            let issued = clock::now();
            self.carry_out(op)?;
            let now = clock::now();
            profiler.completed(now, now.since(issued));
        }
        profiler.finish().map_err(failed)
    }

    fn carry_out(&mut self, op: IoOp) -> Result<(), ProfileError> {
        let IoOp { kind, offset, bytes } = op;
        let buffer = self.buffer.bytes(usize::try_from(bytes).unwrap_or(0));
        match &mut self.device {
            Device::File(file) => {
                let done = match kind {
                    Kind::Read => file.read_exact_at(buffer, offset),
                    Kind::Write => file.write_all_at(buffer, offset),
                    _ => file.sync_data(),
                };
                let name = &self.name;
                done.map_err(|error| ProfileError::File { name: name.clone(), offset, error })
            }
            Device::Export { connection, flushes } => {
                let done = match kind {
                    Kind::Read => connection.read(offset, buffer),
                    Kind::Write => connection.write(offset, buffer, false),
                    _ if *flushes => connection.flush(),
                    _ => Ok(()),
                };
                let name = &self.name;
                done.map_err(|error| ProfileError::Request { name: name.clone(), offset, error })
            }
        }
    }
}

/// Sleeps, then spins: the end of a sleep is late by more than a platter's turning allows.
fn wait_until(at: Instant) {
    loop {
        let left = at.since(clock::now()).as_nanos();
        if left == 0 {
            return;
        }
        if left > SPIN_NS {
            let nanos = left - SPIN_NS;
            let time = Timespec {
                tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or(0),
            };
            // Woken early, the loop goes on.
            let _woken = rustix::thread::nanosleep(&time);
        } else {
            std::hint::spin_loop();
        }
    }
}

impl ProfileError {
    /// Whether another command line may do: as against a device that fails.
    #[must_use]
    pub fn is_input(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Request { .. } | Self::File { .. } => false,
            Self::Open { errno, .. } => errno.kind() != ErrorKind::Other,
            _ => true,
        }
    }
}
