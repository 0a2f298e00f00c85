//! Why the daemon could not start, named by device and virtual disk.

use std::io;
use std::path::PathBuf;

use disktime_config::{Named, ValueError};
use disktime_core::{ChangeError, ConfigError as EngineError};
use disktime_profiler::ProfileFileError;
use rustix::process::{Resource, getrlimit};

use crate::backend::PoolError;
use crate::config::{ConfigError, Listen};
use crate::layout::{LayoutError, RecordError};
use crate::listener::BindError;
use crate::place::PlaceError;
use crate::tls::TlsError;

/// Why a device can't keep what its configuration promises.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfit {
    /// No engine is made so.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The engine refuses a contract, or the profile.
    #[error(transparent)]
    Change(#[from] ChangeError<Named>),
    /// A goal takes more than can be had.
    #[error(transparent)]
    Goal(#[from] ValueError),
}

/// Why the daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener can't be bound.
    #[error("{listen}: {error}")]
    Listen {
        /// Which.
        listen: Listen,
        /// Why.
        error: BindError,
    },
    /// TLS can't be offered.
    #[error("tls: {0}")]
    Tls(TlsError),
    /// A device's back end can't be opened.
    #[error("device {device}: its back end can't be opened: {error}")]
    BackEnd {
        /// Which.
        device: String,
        /// Why.
        error: io::Error,
    },
    /// A device's back end is not where it should be, or is not what it was.
    #[error("device {device}: {error}")]
    Place {
        /// Which.
        device: String,
        /// Why.
        error: Box<PlaceError>,
    },
    /// Two devices, or two parts of one, are the same thing.
    #[error(
        "device {device}: {} is the same as {} of device {other}: each needs a back end of its own",
        path.display(),
        other_path.display()
    )]
    Shared {
        /// Which.
        device: String,
        /// Its path.
        path: PathBuf,
        /// The device that has it already.
        other: String,
        /// By which path.
        other_path: PathBuf,
    },
    /// The configuration does not fit the opened device.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device's virtual disks can't be placed.
    #[error("device {device}: {error}")]
    Layout {
        /// Which.
        device: String,
        /// Why.
        error: LayoutError,
    },
    /// Where a device's virtual disks lie can't be recorded, or is recorded wrong.
    #[error("device {device}: its layout: {error}")]
    Record {
        /// Which.
        device: String,
        /// Why.
        error: RecordError,
    },
    /// A device's profile can't be used.
    #[error("device {device}: {error}")]
    Profile {
        /// Which.
        device: String,
        /// Why.
        error: ProfileFileError,
    },
    /// A trace can't be written.
    #[error("vdisk {vdisk}: record: {error}")]
    Trace {
        /// The virtual disk that is traced.
        vdisk: String,
        /// Why.
        error: io::Error,
    },
    /// The engine refuses the device's configuration.
    #[error("device {device}: {error}")]
    Engine {
        /// Which.
        device: String,
        /// Why.
        error: Box<Unfit>,
    },
    /// The process may not have as many descriptors as it needs.
    #[error(
        "device {device}: too many open files: this process may have {limit} descriptors, and needs {needed} for \
         {vdisks} virtual disks, each with a file of its own, and their clients: raise its hard limit \
         (RLIMIT_NOFILE) to that: `ulimit -Hn {needed}`, or LimitNOFILE={needed} in the unit"
    )]
    Descriptors {
        /// The device that was being opened.
        device: String,
        /// The limit.
        limit: u64,
        /// Descriptors that are enough.
        needed: u64,
        /// Virtual disks of the configuration.
        vdisks: usize,
    },
    /// The running daemon that was to be taken over did not let go.
    #[error(
        "the running daemon was not taken over: {0}: see whether it still runs, then start this one again"
    )]
    TakeOver(io::Error),
    /// The system gives no thread, ring or event.
    #[error("the system refuses: {0} ({remedy})", remedy = crate::ring::remedy(.0))]
    System(io::Error),
}

// Not `#[from]`: its text has the cause, which would be said twice as its source.
impl From<TlsError> for StartError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl StartError {
    /// Whether it is what the configuration says, or names, that can't be used; else the system fails.
    #[must_use]
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::System(_) | Self::TakeOver(_))
    }

    /// The system's own error, if it refused something at a device.
    fn refusal(&self) -> Option<&io::Error> {
        match self {
            Self::BackEnd { error, .. } | Self::System(error) => Some(error),
            Self::Record { error: RecordError::Io { error, .. }, .. } => Some(error),
            Self::Place { error, .. } => match &**error {
                PlaceError::Io { error, .. } | PlaceError::Pool(PoolError::Io { error, .. }) => {
                    Some(error)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The same with the remedy, if the process has as many descriptors as it may: `device` was being opened, of a
    /// server of so many virtual disks.
    pub(crate) fn with_descriptors(self, device: &str, vdisks: usize) -> Self {
        // The number is in the text, also where a path was put before it.
        let too_many = io::Error::from_raw_os_error(libc::EMFILE).to_string();
        if !self.refusal().is_some_and(|error| error.to_string().ends_with(&too_many)) {
            return self;
        }
        Self::few_descriptors(device, vdisks)
    }

    /// The lack of descriptors that shows at a device of a server of so many virtual disks.
    pub(crate) fn few_descriptors(device: &str, vdisks: usize) -> Self {
        let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u32::MAX.into());
        // As much again for clients and the daemon's own, in whole thousands.
        let needed = (2 * vdisks as u64 + 1024).max(limit.saturating_add(1)).next_multiple_of(1024);
        Self::Descriptors { device: device.to_owned(), limit, needed, vdisks }
    }

    /// Whether the file system is full, or can't be written.
    #[must_use]
    pub fn lacks_room(&self) -> bool {
        let (Self::BackEnd { .. } | Self::Place { .. }) = self else { return false };
        let Some(error) = self.refusal() else { return false };
        use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        matches!(error.kind(), QuotaExceeded | ReadOnlyFilesystem | StorageFull)
    }

    /// Whether another process has what it needs, which may be about to end.
    pub(crate) fn is_in_use(&self) -> bool {
        match self {
            Self::BackEnd { error, .. } => error.kind() == io::ErrorKind::ResourceBusy,
            Self::Place { error, .. } => error.is_in_use(),
            _ => false,
        }
    }
}
