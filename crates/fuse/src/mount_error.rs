//! Why a directory can't be mounted, in words.

use std::io;

use disktime_core::{ChangeError, ConfigError};

/// Why a directory can't be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The source can't be shown.
    #[error("SRC {path}: {error}: name a directory that can be opened")]
    Source {
        /// Its path.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The kernel does not mount.
    #[error("MNT {path}: {error}: name an empty directory{hint}")]
    Mount {
        /// The path of the place.
        path: String,
        /// Why.
        error: io::Error,
        /// Advice beside that.
        hint: &'static str,
    },
    /// A mount is there whose daemon is gone.
    #[error(
        "MNT {path}: a mount is there whose daemon is gone: take it away with `umount -l`, or say \
         --recover"
    )]
    Dead {
        /// The path of the place.
        path: String,
    },
    /// Another mount is there.
    #[error("MNT {path}: a FUSE mount is there already: unmount it, or name another directory")]
    Taken {
        /// The path of the place.
        path: String,
    },
    /// The mount would show itself.
    #[error(
        "MNT {path}: it lies within SRC and would show itself: name a directory outside of SRC"
    )]
    Within {
        /// The path of the place.
        path: String,
    },
    /// The profile can't be used.
    #[error("--profile {path}: {error}")]
    Profile {
        /// Its path.
        path: String,
        /// Why.
        error: disktime_profiler::ProfileFileError,
    },
    /// The engine can't be made so.
    #[error("{0}")]
    Engine(ConfigError),
    /// The engine does not take what its profile or its parameters say.
    #[error("{0}")]
    Contract(ChangeError),
    /// No daemon takes the mount in.
    #[error("--device: {0}")]
    Daemon(disktime_server::AskError),
    /// The engine does not take the stream that files without a contract share.
    #[error("files without a contract: {0}")]
    Shared(crate::abi::Refused),
    /// The system gives no thread.
    #[error("a thread can't be started: {0}")]
    Thread(#[from] io::Error),
}
