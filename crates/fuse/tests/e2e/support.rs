//! A directory that is mounted for a test.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use disktime_config::{DepthText, DeviceFacts, Named, SchedulingKeys};
use disktime_fuse::{Askers, Engine, MountError, Mounted, Options};
use disktime_model::preset;
use disktime_server::emulate::Emulate;
use fuser::{
    BackgroundSession, Config, FileAttr, FileType, Filesystem, INodeNo, MountOption, Session,
};
use tempfile::TempDir;

/// Tells that a test can't run here.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIP: {test}: {reason}");
    eprintln!("{line}");
    if let Ok(path) = std::env::var("DISKTIME_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        writeln!(file.unwrap(), "{line}").unwrap();
    }
}

/// Whether this machine can't mount; then the test's skip is told.
pub fn lacks(test: &str) -> bool {
    let reason = match std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) if rustix::process::geteuid().is_root() => return false,
        Ok(_) => "only the superuser mounts without fusermount3".to_owned(),
        Err(error) => format!("/dev/fuse: {error}"),
    };
    skip(test, &reason);
    true
}

/// A source with its mount; both go when this is dropped.
pub struct Mount {
    mounted: Option<Mounted>,
    pub directory: TempDir,
}

/// The keys of the engine of a mount.
pub fn keys() -> SchedulingKeys {
    SchedulingKeys::default()
}

impl Mount {
    /// Mounts a new directory.
    pub fn new(change: impl FnOnce(&mut Options)) -> Self {
        Self::emulating(None, &keys(), change)
    }

    /// As [`new`](Self::new), at the speed of a device, with these keys for its engine.
    pub fn emulating(
        device: Option<&str>,
        keys: &SchedulingKeys,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        Self::make(device, keys, change).unwrap()
    }

    /// As [`new`](Self::new), where it may be refused.
    pub fn try_new(change: impl FnOnce(&mut Options)) -> Result<Self, MountError> {
        Self::make(None, &keys(), change)
    }

    fn make(
        device: Option<&str>,
        keys: &SchedulingKeys,
        change: impl FnOnce(&mut Options),
    ) -> Result<Self, MountError> {
        let directory = TempDir::new().unwrap();
        let [source, at] = ["source", "mount"].map(|name| directory.path().join(name));
        std::fs::create_dir(&source).unwrap();
        std::fs::create_dir(&at).unwrap();
        let emulate = device.map(|name| Emulate::One(preset::find(name).unwrap()));
        let depth_max = emulate.map_or(64, Emulate::queue_depth);
        let facts = DeviceFacts { depth_max, timed: true, real_time: false };
        let scheduling = keys.check(&Named::only("mount"), facts).unwrap();
        let mut options = Options {
            source,
            at,
            engine: Engine::Own { scheduling: Box::new(scheduling), emulate },
            rules: Vec::new(),
            default: None,
            askers: Askers::Only(Vec::new()),
            read_only: false,
            threads: 4,
            pass_through: false,
            recover: false,
        };
        change(&mut options);
        let mounted = Mounted::new(&options)?;
        Ok(Self { mounted: Some(mounted), directory })
    }

    /// The path of a name at the source.
    pub fn source(&self, name: &str) -> PathBuf {
        self.directory.path().join("source").join(name)
    }

    /// The path of a name through the mount.
    pub fn path(&self, name: &str) -> PathBuf {
        self.at().join(name)
    }

    pub fn at(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    pub fn passes_not_through(&self) -> Option<&'static str> {
        self.mounted.as_ref().unwrap().passes_not_through()
    }

    pub fn is_left(&self) -> bool {
        self.mounted.as_ref().unwrap().is_left()
    }

    pub fn inodes(&self) -> usize {
        self.mounted.as_ref().unwrap().inodes()
    }

    /// A file of the mount's own directory.
    pub fn figure(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(".disktime").join(name)).unwrap()
    }

    pub fn unmount(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            mounted.unmount().unwrap();
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            // A test that fails says why; that its mount is in use is its own fault.
            let _in_use = mounted.unmount();
        }
    }
}

/// One piece at the device at once.
pub fn depth(count: i64) -> Option<DepthText> {
    Some(DepthText::Count(count))
}

/// A file of so many bytes that tell their places.
pub fn fill(path: &Path, bytes: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..bytes).map(|at| (at / 251 + at % 251) as u8).collect();
    std::fs::write(path, &data).unwrap();
    data
}

/// Serves a file system as a source, until it is unmounted.
pub fn serve(files: impl Filesystem + 'static, at: &Path) -> BackgroundSession {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("source".to_owned())];
    Session::new(files, at, &config).unwrap().spawn().unwrap()
}

/// Attributes of such a source's file, or of its top.
pub fn attributes(ino: INodeNo, size: u64) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    let (kind, size) = match ino {
        INodeNo::ROOT => (FileType::Directory, 0),
        _ => (FileType::RegularFile, size),
    };
    FileAttr {
        ino,
        size,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: 0o777,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
