//! A mount: from its options to its end.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use disktime_config::Scheduling;
use disktime_core::Contract;
use disktime_profiler::DeviceProfile;
use disktime_server::emulate::Emulate;
use disktime_server::guests::{GuestLine, GuestTerms};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::contracts::{Askers, Contracts};
use crate::files::Files;
use crate::kernel::{self, Kernel};
use crate::mount_error::MountError;
use crate::open_files::OpenTable;
use crate::rules::Rule;
use crate::scheduler::{Scheduler, Terms};
use crate::source::Source;
use crate::syncs::Syncs;

/// Descriptors that a mount wants: about as many inodes of a large tree can be known at once.
const DESCRIPTORS: u64 = 1 << 20;

/// The number by which the system knows a FUSE file system (`statfs(2)`).
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;

/// The engine of a mount.
#[derive(Clone, Debug)]
pub enum Engine {
    /// One of its own, whose device is whatever is below the source.
    Own {
        /// How the device's time is shared.
        scheduling: Box<Scheduling>,
        /// A device whose times are kept to.
        emulate: Option<Emulate>,
    },
    /// A daemon's, beside its virtual disks.
    Daemon {
        /// The daemon's state directory.
        state: PathBuf,
        /// The name of its device.
        device: String,
    },
}

impl Engine {
    /// Starts the scheduler for files of the source's file system, which is mounted there.
    fn start(&self, source: &Source, path: &str, at: &Path) -> Result<Scheduler, MountError> {
        let (scheduling, emulate) = match self {
            Self::Own { scheduling, emulate } => (&**scheduling, *emulate),
            Self::Daemon { state, device } => {
                let medium = source.medium();
                let path = path.to_owned();
                let medium =
                    medium.map_err(|error| MountError::Source { path, error: error.into() })?;
                let at = std::path::absolute(at).unwrap_or_else(|_| at.to_owned());
                let line = GuestLine::connect(&GuestTerms {
                    state: state.clone(),
                    device: device.clone(),
                    medium,
                    name: at.display().to_string(),
                });
                return Scheduler::start_as_guest(line.map_err(MountError::Daemon)?);
            }
        };
        let profile = scheduling.profile.as_ref().map(|path| {
            let size = emulate.map(Emulate::capacity_bytes);
            DeviceProfile::load(path, size)
                .map_err(|error| MountError::Profile { path: path.display().to_string(), error })
        });
        let scheduling = scheduling.clone();
        Scheduler::start(&Terms { scheduling, emulate, profile: profile.transpose()? })
    }
}

/// The terms of a mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory that is shown.
    pub source: PathBuf,
    /// The directory in whose place it is shown.
    pub at: PathBuf,
    /// The engine that shares the device's time.
    pub engine: Engine,
    /// Contracts by who opens a file, where no attribute states one; the first that holds counts.
    pub rules: Vec<Rule>,
    /// The contract of files for which neither an attribute nor a rule states one.
    pub default: Option<Contract>,
    /// Users to whom promises are made.
    pub askers: Askers,
    /// Nothing can be changed through the mount.
    pub read_only: bool,
    /// Threads that take the kernel's calls: 1 to [`Options::THREADS_MAX`].
    pub threads: usize,
    /// The kernel takes files over that have no contract when they are opened. No engine sees these.
    pub pass_through: bool,
    /// A mount whose daemon is gone is taken away first.
    pub recover: bool,
}

impl Options {
    /// The most threads that take the kernel's calls.
    pub const THREADS_MAX: usize = 64;
}

/// A directory that is mounted. It is unmounted when this is dropped.
pub struct Mounted {
    kernel: Kernel,
    files: Arc<Files>,
    at: PathBuf,
    /// The number by which the system knows the mount as a device.
    device: Option<u64>,
}

impl Mounted {
    /// Mounts a directory.
    ///
    /// # Errors
    /// If the source can't be opened, the place not be mounted on, or the engine not be made.
    pub fn new(options: &Options) -> Result<Self, MountError> {
        if let Some(dead) = is_dead(&options.at) {
            if !options.recover {
                return Err(MountError::Dead { path: options.at.display().to_string() });
            }
            take_away(&options.at).map_err(|_| dead)?;
        }
        if is_taken(&options.at) {
            return Err(MountError::Taken { path: options.at.display().to_string() });
        }
        let places = [&options.source, &options.at].map(std::fs::canonicalize);
        if let [Ok(source), Ok(at)] = &places
            && at != source
            && at.starts_with(source)
        {
            return Err(MountError::Within { path: at.display().to_string() });
        }
        raise_descriptors();
        // The kernel has applied the program's mask to modes.
        rustix::process::umask(Mode::empty());
        let named = options.source.display().to_string();
        let source = Source::open(&options.source)
            .map_err(|error| MountError::Source { path: named.clone(), error })?;
        let scheduler = Arc::new(options.engine.start(&source, &named, &options.at)?);
        let contracts = Contracts {
            scheduler: Arc::clone(&scheduler),
            askers: options.askers.clone(),
            rules: options.rules.clone(),
            default: options.default,
        };
        let syncs = Syncs::start()?;
        let open = OpenTable::new();
        let files = Arc::new(Files { source, open, scheduler, contracts, syncs });
        let terms = kernel::Terms {
            source: named,
            read_only: options.read_only,
            for_all: rustix::process::geteuid().is_root(),
            threads: options.threads,
            pass_through: options.pass_through,
        };
        let kernel = Kernel::mount(Arc::clone(&files), &options.at, &terms);
        let kernel = kernel.map_err(|error| MountError::Mount {
            path: options.at.display().to_string(),
            hint: if error.kind() == io::ErrorKind::NotFound {
                ", and see that /dev/fuse and fusermount3 are there"
            } else {
                ""
            },
            error,
        })?;
        let at = options.at.clone();
        Ok(Self { kernel, files, device: device_at(&at), at })
    }

    /// Whether it has been unmounted from outside.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.kernel.is_over()
    }

    /// Why the kernel takes no files over, if it should.
    #[must_use]
    pub fn passes_not_through(&self) -> Option<&'static str> {
        self.kernel.pass_through().off_because()
    }

    /// Whether the daemon whose engine it uses has ended. Files go on without it, straight to the source.
    #[must_use]
    pub fn is_left(&self) -> bool {
        self.files.scheduler.is_left()
    }

    /// Inodes that the kernel knows beside the top.
    #[must_use]
    pub fn inodes(&self) -> usize {
        self.files.source.nodes.count()
    }

    /// Unmounts it. While a program has a file of it open, new programs don't find it any more, and it
    /// ends with the last of these files.
    ///
    /// # Errors
    /// If the system does not unmount it.
    pub fn unmount(self) -> io::Result<()> {
        // Another mount may be in its place if somebody else has unmounted it, maybe while files were open.
        if self.is_over() || self.device.is_none() || self.device != device_at(&self.at) {
            return self.kernel.end();
        }
        match unmount(&self.at, UnmountFlags::empty()) {
            Err(Errno::BUSY) => {
                tracing::warn!(at = %self.at.display(), "in use: it ends with the last open file");
                unmount(&self.at, UnmountFlags::DETACH)?;
            }
            // Not the superuser: the session asks the helper for it.
            Err(Errno::PERM) => return self.kernel.unmount(),
            // It is gone already.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        self.kernel.end()
    }
}

/// The device on which a directory is.
fn device_at(at: &Path) -> Option<u64> {
    rustix::fs::stat(at).ok().map(|stat| stat.st_dev)
}

/// Whether a mount is there whose daemon is gone; then the error that names it. The kernel knows the
/// attributes of a directory for a while, so the directory is also opened.
fn is_dead(at: &Path) -> Option<MountError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(at, flags, Mode::empty());
    let tried = [rustix::fs::stat(at).err(), opened.err()];
    let dead = tried.contains(&Some(Errno::NOTCONN));
    dead.then(|| MountError::Dead { path: at.display().to_string() })
}

/// Takes a mount away whose daemon is gone. The helper does it for users who may not.
fn take_away(at: &Path) -> io::Result<()> {
    match unmount(at, UnmountFlags::DETACH) {
        Err(Errno::PERM) => {
            let helped = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(at).status()?;
            if helped.success() { Ok(()) } else { Err(Errno::PERM.into()) }
        }
        unmounted => Ok(unmounted?),
    }
}

/// Whether another FUSE mount is there.
fn is_taken(at: &Path) -> bool {
    let is_fuse = rustix::fs::statfs(at).is_ok_and(|it| it.f_type == FUSE_SUPER_MAGIC);
    is_fuse && device_at(at) != device_at(&at.join(".."))
}

/// Each inode that the kernel knows takes a descriptor: as many as the system gives.
fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Only the superuser may go beyond the limit of limits.
    let wanted = maximum.map(|most| most.max(DESCRIPTORS));
    let limits = [wanted, maximum].map(|most| Rlimit { current: most, maximum: most });
    if !limits.into_iter().any(|limit| setrlimit(Resource::Nofile, limit).is_ok()) {
        tracing::warn!("the limit of open files can't be raised");
    }
}
