//! Why the daemon could not start, named by device and virtual disk.

use std::io;
use std::path::PathBuf;

use disktime_config::{Named, ValueError};
use disktime_core::{ChangeError, ConfigError as EngineError};
use disktime_profiler::ProfileFileError;

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
        !matches!(self, Self::System(_))
    }

    /// Whether the file system is full, or can't be written.
    #[must_use]
    pub fn lacks_room(&self) -> bool {
        let error = match self {
            Self::BackEnd { error, .. } => error,
            Self::Place { error, .. } => match &**error {
                PlaceError::Io { error, .. } | PlaceError::Pool(PoolError::Io { error, .. }) => {
                    error
                }
                _ => return false,
            },
            _ => return false,
        };
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
