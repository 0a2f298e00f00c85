//! A load: what `workload` generates, put on one connection from one thread, and measured.
//!
//! Does not know: what shares the server with it. It counts as it goes, for callers that watch
//! rates; latencies are in the last report.

mod counters;
mod driver;
pub(crate) mod file;
mod outbox;
mod report;
mod tally;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use disktime_nbd::{ExportInfo, TransmissionFlags};
use disktime_workload::{Extent, Pace, Spec, SpecError};
use rustix::io::Errno;

pub use self::counters::Counters;
pub use self::report::{Latency, LoadReport};

use self::counters::Shared;
use self::driver::Driver;
use self::file::FileDriver;
use self::tally::Ended;
use crate::OUTSTANDING_MAX;
use crate::error::ConnectError;
use crate::handshake::{self, Options};
use crate::misses::MissReports;
use crate::uri::Uri;

/// Longest operation of a load in bytes: what servers take without a word about block sizes.
const OPERATION_BYTES_MAX: u32 = 32 << 20;

/// The load to put on an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSpec {
    /// The load's name: of its report, its thread and its random numbers.
    pub name: String,
    /// Which operations. Data read is thrown away, data written is noise that depends on the seed.
    pub workload: Spec,
    /// When. At most [`OUTSTANDING_MAX`] are outstanding; an open loop that gets there sends the
    /// rest late, which its latencies show.
    pub pace: Pace,
    /// The seed of the random numbers, together with the name.
    pub seed: u64,
    /// How to connect. The timeout is also how long [`Load::stop`] waits for outstanding replies; a
    /// running load waits for its replies without end.
    pub options: Options,
}

/// Why a load can't be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The workload or its pace makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A load with more outstanding than a connection takes.
    #[error("outstanding: {outstanding}; 1 to {OUTSTANDING_MAX} are possible")]
    Outstanding {
        /// As asked.
        outstanding: u32,
    },
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The load would leave the export.
    #[error("extent: ends at byte {}; the export ends at {export_bytes}", extent.end)]
    PastEnd {
        /// As asked.
        extent: Extent,
        /// The export's size in bytes.
        export_bytes: u64,
    },
    /// Operations longer than the server, or this driver, takes.
    #[error("sizes: {bytes} bytes; at most {bytes_max} are possible here")]
    TooLong {
        /// As asked.
        bytes: u64,
        /// The longest, in bytes.
        bytes_max: u32,
    },
    /// Operations that don't keep to the server's blocks.
    #[error("extent and sizes: {bytes} bytes is not a multiple of the export's {block_bytes}")]
    Unaligned {
        /// The extent's start or a size, as asked.
        bytes: u64,
        /// The export's smallest block, in bytes.
        block_bytes: u32,
    },
    /// Writes to an export that takes none.
    #[error("reads: {permille} of a thousand; the export is read-only, so only 1000 is possible")]
    ReadOnly {
        /// As asked.
        permille: u16,
    },
    /// The file would be written to, and something else has it.
    #[error("{}: it is mounted, or a server has it open: its data would be overwritten", path.display())]
    InUse {
        /// Which.
        path: PathBuf,
    },
    /// The system does not open the file.
    #[error("{}: {errno}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// A directory, a pipe, a terminal.
    #[error("{}: neither a file nor a block device", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// The system has no thread or no descriptor to give.
    #[error("starting a load: {0}")]
    System(Errno),
}

/// A load that runs. Dropped, it is told to stop and not waited for.
#[derive(Debug)]
pub struct Load {
    name: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Ended>>,
}

impl Load {
    /// Connects and starts.
    ///
    /// # Errors
    /// If the load makes no sense, or there is no connection.
    pub fn start(uri: &Uri, spec: LoadSpec) -> Result<Self, LoadError> {
        Self::start_reporting(uri, spec, None)
    }

    /// As [`start`](Self::start); what a player misses is reported.
    ///
    /// # Errors
    /// As [`start`](Self::start). A report that can't be sent is counted, and is no error.
    pub fn start_reporting(
        uri: &Uri,
        spec: LoadSpec,
        reports: Option<MissReports>,
    ) -> Result<Self, LoadError> {
        check(&spec)?;
        let opened = handshake::open(uri, spec.options)?;
        fits(&spec.workload, &opened.export)?;

        let shared = Arc::new(Shared::new().map_err(LoadError::System)?);
        let name = spec.name.clone();
        let driver = Driver::new(opened, spec, Arc::clone(&shared), reports)?;
        Self::spawn(name, shared, move || driver.run())
    }

    /// Starts on a file or block device instead of an export, through direct I/O if it takes that.
    /// The options' timeout means nothing there: stopping waits for what is outstanding.
    ///
    /// # Errors
    /// If the load makes no sense, or the file can't be used.
    pub fn start_on_file(
        path: &Path,
        spec: LoadSpec,
        reports: Option<MissReports>,
    ) -> Result<Self, LoadError> {
        check(&spec)?;
        let shared = Arc::new(Shared::new().map_err(LoadError::System)?);
        let name = spec.name.clone();
        let driver = FileDriver::new(path, spec, Arc::clone(&shared), reports)?;
        Self::spawn(name, shared, move || driver.run())
    }

    /// The bytes of a file or block device.
    ///
    /// # Errors
    /// Why it can't be used.
    pub fn file_bytes(path: &Path) -> Result<u64, LoadError> {
        file::size(path)
    }

    fn spawn(
        name: String,
        shared: Arc<Shared>,
        run: impl FnOnce() -> Ended + Send + 'static,
    ) -> Result<Self, LoadError> {
        let thread = std::thread::Builder::new()
            .name(format!("load-{name}").replace('\0', ""))
            .spawn(run)
            .map_err(|error| {
                LoadError::System(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
            })?;
        Ok(Self { name, shared, thread: Some(thread) })
    }

    /// The counts so far. The difference of two snapshots is what was done between them.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// Whether the load ended by itself, that is, has lost its connection.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops sending, waits for outstanding replies as long as the options' timeout, says good-bye
    /// and hangs up.
    #[must_use]
    pub fn stop(mut self) -> LoadReport {
        self.shared.stop();
        let thread = self.thread.take().expect("only this method takes it, and it takes self");
        let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        report::report(std::mem::take(&mut self.name), &ended)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

/// Whether the load makes sense, wherever it goes.
fn check(spec: &LoadSpec) -> Result<(), LoadError> {
    spec.workload.check()?;
    spec.pace.check()?;
    let outstanding = spec.pace.outstanding_max();
    match outstanding.filter(|most| *most as usize > OUTSTANDING_MAX) {
        Some(outstanding) => Err(LoadError::Outstanding { outstanding }),
        None => Ok(()),
    }
}

/// Whether every operation is one that the export should carry out.
fn fits(workload: &Spec, export: &ExportInfo) -> Result<(), LoadError> {
    let Spec { extent, sizes, reads_permille, .. } = workload;
    if extent.end > export.size_bytes {
        return Err(LoadError::PastEnd { extent: *extent, export_bytes: export.size_bytes });
    }
    let bytes_max = export.block_sizes.max().min(OPERATION_BYTES_MAX);
    let sizes = sizes.iter().map(|size| size.bytes);
    if let Some(bytes) = sizes.clone().find(|&bytes| bytes > bytes_max.into()) {
        return Err(LoadError::TooLong { bytes, bytes_max });
    }
    let block_bytes = export.block_sizes.min();
    let unaligned = |bytes: &u64| !bytes.is_multiple_of(block_bytes.into());
    if let Some(bytes) = sizes.chain([extent.start]).find(unaligned) {
        return Err(LoadError::Unaligned { bytes, block_bytes });
    }
    if *reads_permille < 1000 && export.flags.contains(TransmissionFlags::READ_ONLY) {
        return Err(LoadError::ReadOnly { permille: *reads_permille });
    }
    Ok(())
}
