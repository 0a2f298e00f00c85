//! Whether a configuration could be served, found out without serving it: beside a running daemon
//! too, so nothing is locked, made or changed, and back ends are read from at most.
//!
//! Does not know: what is only found out by opening for writing (another daemon has it, say).

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use disktime_client::{Connection, Options, Uri};
use disktime_config::ValueError;
use disktime_core::Duration;
use rustix::fs::{Access, access};
use rustix::process::{Pid, Resource, getrlimit};

use crate::backend::{BackEndKind, IDENTITY, OneFile, SeenPool, TwoTiers};
use crate::claims::Claims;
use crate::config::{Config, ConfigError, DeviceConfig, Listen, VdiskConfig};
use crate::durable::{self, directory_of};
use crate::emulate::Emulate;
use crate::layout::{Record, RecordError, Recorded};
use crate::listener;
use crate::opened_device::{Ground, record_of};
use crate::place::{self, Before, Place, PlaceError};
use crate::room::misplaced;
use crate::start_error::StartError;
use crate::tls::Tls;

/// How long a server may take to describe its export.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Descriptors that a daemon has for itself at least: standard ones, the ring, sockets and events of one device.
const OWN_DESCRIPTORS: u64 = 16;

/// A back end as it is seen from outside.
struct Seen {
    /// In bytes; none if virtual disks have no places on it.
    size: Option<u64>,
    block_device: bool,
}

/// Everything that would keep this configuration from being served, as far as that can be seen.
#[must_use]
pub fn check(config: &Config) -> Vec<StartError> {
    let misses = config.misses.clone().map(Listen::Unix);
    let control = config.control.clone().map(Listen::Unix);
    let control = control.into_iter().chain(config.web.as_ref().map(|it| Listen::Tcp(it.address)));
    let control: Vec<Listen> = control.collect();
    let doors: Vec<Listen> = config.doors().into_iter().map(|door| door.listen).collect();
    let tls = config.tls_files.as_ref().and_then(|files| Tls::load(files).err());
    let sockets = doors.iter().chain(&misses).chain(&control).filter_map(|listen| {
        let error = listener::check(listen).err()?;
        Some(StartError::Listen { listen: listen.clone(), error })
    });
    let state = config.state.as_deref().and_then(|state| is_state(state).err());
    let mut claims = Claims::default();
    let shared = config.devices.iter().filter_map(|device| claims.claim(device).err());
    let devices = config.devices.iter();
    let devices = devices.filter_map(|device| examine(device, config.state.as_deref()).err());
    let descriptors = few_descriptors(config);
    let traces = config.vdisks().filter_map(|(_, vdisk)| {
        let error = is_directory(parent(vdisk.record.as_deref()?)).err()?;
        Some(StartError::Trace { vdisk: vdisk.name.clone(), error })
    });
    sockets
        .chain(tls.map(StartError::from))
        .chain(state)
        .chain(shared)
        .chain(devices)
        .chain(descriptors)
        .chain(traces)
        .collect()
}

/// The error of a start that would run out of descriptors, before minutes of work: each virtual disk of a pool has a
/// file of its own, and so has each trace.
pub(crate) fn few_descriptors(config: &Config) -> Option<StartError> {
    let mut pools = config.devices.iter().filter(|device| match &device.back_end {
        BackEndKind::File(path) => path.is_dir() || (device.create && !path.exists()),
        _ => false,
    });
    let files = pools.clone().map(|device| device.vdisks.len() as u64).sum::<u64>();
    let traces = config.vdisks().filter(|(_, vdisk)| vdisk.record.is_some()).count() as u64;
    let files = files + traces + config.doors().len() as u64;
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let device = pools.next_back().filter(|_| files + OWN_DESCRIPTORS > limit)?;
    Some(StartError::few_descriptors(&device.name, config.vdisks().count()))
}

/// Sees, before a running daemon lets go, that this one can have the devices, and that their records can be
/// written: that would show only afterwards, and end both.
pub(crate) fn rehearse(config: &Config, running: Option<Pid>) -> Result<(), StartError> {
    for device in &config.devices {
        let failed = |error| StartError::BackEnd { device: device.name.clone(), error };
        for path in device.back_end.paths() {
            let identity = path.is_dir().then(|| path.join(IDENTITY));
            is_free(identity.as_ref().unwrap_or(&path), running).map_err(failed)?;
            if let Some(identity) = identity {
                can_list(&path, &identity, device).map_err(failed)?;
            }
        }
        if let Some(record) = examine(device, config.state.as_deref())? {
            let of = |error| StartError::Record { device: device.name.clone(), error };
            record.rehearse(device.vdisks.len()).map_err(of)?;
        }
    }
    Ok(())
}

/// Whether a pool's virtual disks can be listed in its identity, as far as they are not.
fn can_list(pool: &Path, identity: &Path, device: &DeviceConfig) -> io::Result<()> {
    let seen = SeenPool::look(pool).map_err(io::Error::other)?;
    let sizes = |it: &VdiskConfig| seen.as_ref().is_some_and(|pool| pool.lists(&it.name, it.size));
    if device.vdisks.iter().all(sizes) {
        return Ok(());
    }
    durable::rehearse(identity, 512 + 128 * device.vdisks.len())
        .map_err(|error| named(identity, &error))
}

/// Whether nobody has a file or block device, or the running daemon has it.
fn is_free(path: &Path, running: Option<Pid>) -> io::Result<()> {
    let Ok(about) = std::fs::metadata(path) else { return Ok(()) };
    let exclusive = if about.file_type().is_block_device() { libc::O_EXCL } else { 0 };
    let taken = match File::options().read(true).custom_flags(exclusive).open(path) {
        Ok(file) => matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
        Err(error) => error.kind() == io::ErrorKind::ResourceBusy,
    };
    if !taken || has_open(running, &about) {
        return Ok(());
    }
    let why = "it is mounted, or another server than the running daemon has it open";
    Err(named(path, &why))
}

/// Whether a process has a file open; also if that can't be seen.
fn has_open(process: Option<Pid>, file: &Metadata) -> bool {
    let files = |it: Pid| std::fs::read_dir(format!("/proc/{}/fd", it.as_raw_nonzero())).ok();
    let Some(mut files) = process.and_then(files) else { return true };
    // Another node may be the same block device.
    let identity = |it: &Metadata| {
        let node = it.file_type().is_block_device();
        if node { (None, it.rdev()) } else { (Some(it.dev()), it.ino()) }
    };
    let same = |it: Metadata| identity(&it) == identity(file);
    files.any(|open| open.is_ok_and(|it| std::fs::metadata(it.path()).is_ok_and(same)))
}

/// A state directory, which is there or can be made.
pub(crate) fn is_state(state: &Path) -> Result<(), StartError> {
    let there = state.ancestors().find(|at| at.exists());
    let Some(at) = there.filter(|at| !at.is_dir()) else { return Ok(()) };
    let reason = format!("{} is no directory: name one that is, or a new one", at.display());
    Err(ConfigError::from(ValueError::new("server", "state", state.display(), reason)).into())
}

/// A device's back end, layout, profile and contracts. Answers the record that a start would write.
fn examine(device: &DeviceConfig, state: Option<&Path>) -> Result<Option<Record>, StartError> {
    let name = || device.name.clone();
    let of = |error| StartError::Record { device: name(), error };
    let mut news = None;
    if let Some(at) = beside(&device.back_end) {
        let record = Record::of(&at, &device.name, state);
        let recorded = match &device.back_end {
            BackEndKind::File(_) => record.load(),
            kind => record.clone().naming(kind.identity()).load(),
        };
        let recorded = recorded.map_err(of)?;
        let before = Before { record: record.path(), recorded: &recorded };
        in_place(device, &before).map_err(|error| misplaced(device, error))?;
        let is_pool = matches!(&device.back_end, BackEndKind::File(path) if path.is_dir());
        news = (is_pool && recorded.pool.is_none()).then_some(record);
    }
    let seen = see(&device.back_end, device.emulate.and_then(Emulate::fast_bytes));
    let seen = seen.map_err(|error| StartError::BackEnd { device: name(), error })?;
    let recorded = match record(device, &seen, state).map_err(of)? {
        Some(record) => {
            let recorded = record.load().map_err(of)?;
            // A start writes one that is news: of tiers also what becomes of the fast one.
            let tiers = matches!(device.back_end, BackEndKind::Tiered { .. });
            let tiers = tiers && (!recorded.fast_tier || device.empties_fast);
            let listed = |name: &str| recorded.extents.iter().find(|it| it.name == name);
            let is_new = |it: &VdiskConfig| listed(&it.name).is_none_or(|old| old.size < it.size);
            if tiers || device.vdisks.iter().any(is_new) {
                let writable = can_be_kept(record.path());
                let path = || record.path().to_owned();
                writable.map_err(|error| of(RecordError::Io { path: path(), error }))?;
                news = Some(record);
            }
            recorded
        }
        None => Recorded::default(),
    };
    let ground = Ground::examined(device, seen.size, &recorded.extents)?;
    let refused = |error| StartError::Engine { device: name(), error: Box::new(error) };
    ground.engine(device).map_err(refused)?;
    Ok(news)
}

/// Whether what is to be there is there, and the one that was there before.
fn in_place(device: &DeviceConfig, before: &Before<'_>) -> Result<(), PlaceError> {
    match &device.back_end {
        BackEndKind::File(path) => {
            let found = place::find(path, device.create, before, SeenPool::look)?;
            let disks = device.vdisks.iter().map(|vdisk| (&*vdisk.name, vdisk.size));
            match found {
                Place::Pool(pool) => Ok(pool.check_all(&disks.collect::<Vec<_>>())?),
                Place::OneFile | Place::New => Ok(()),
            }
        }
        BackEndKind::Raid0 { members, .. } => {
            members.iter().try_for_each(|path| place::must_be_there(path, before))
        }
        BackEndKind::Tiered { fast, slow } => {
            [fast, slow].into_iter().try_for_each(|path| place::must_be_there(path, before))?;
            place::must_have_map(fast, before)
        }
        BackEndKind::Memory | BackEndKind::Nbd { .. } => Ok(()),
    }
}

/// Where the layout is recorded, of what has one.
fn record(
    device: &DeviceConfig,
    seen: &Seen,
    state: Option<&Path>,
) -> Result<Option<Record>, RecordError> {
    if seen.size.is_none() {
        return Ok(None);
    }
    let path = beside(&device.back_end).unwrap_or_default();
    match &device.back_end {
        BackEndKind::Nbd { uri, .. } if state.is_none() => {
            return Err(RecordError::Remote(uri.to_string()));
        }
        _ if seen.block_device && state.is_none() => return Err(RecordError::NoState(path)),
        _ => {}
    }
    Ok(record_of(device, state))
}

/// The path beside which a layout is recorded, if there is one.
fn beside(kind: &BackEndKind) -> Option<PathBuf> {
    match kind {
        BackEndKind::File(path) | BackEndKind::Tiered { slow: path, .. } => Some(path.clone()),
        BackEndKind::Raid0 { members, .. } => Some(members[0].clone()),
        BackEndKind::Memory | BackEndKind::Nbd { .. } => None,
    }
}

fn see(kind: &BackEndKind, emulated: Option<u64>) -> io::Result<Seen> {
    let none = Seen { size: None, block_device: false };
    match kind {
        BackEndKind::Memory => Ok(none),
        BackEndKind::File(path) => match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Ok(none),
            Ok(_) => one(path),
            // A start makes the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                is_directory(parent(path)).map(|()| none)
            }
            Err(error) => Err(named(path, &error)),
        },
        BackEndKind::Raid0 { members, chunk } => {
            let members = members.iter().map(|path| one(path)).collect::<io::Result<Vec<_>>>()?;
            let block_device = members.iter().any(|member| member.block_device);
            let smallest = members.iter().filter_map(|member| member.size).min().unwrap_or(0);
            if smallest < *chunk {
                let why = format!("a member has {smallest} bytes, less than a chunk of {chunk}");
                return Err(io::Error::other(why));
            }
            let size = (smallest / chunk * chunk).checked_mul(members.len() as u64);
            Ok(Seen { size, block_device })
        }
        BackEndKind::Tiered { fast, slow } => {
            let (first, second) = (one(fast)?, one(slow)?);
            let bytes = |seen: &Seen| seen.size.unwrap_or(0);
            TwoTiers::look((fast, bytes(&first)), (slow, bytes(&second)), emulated)?;
            Ok(Seen { block_device: first.block_device || second.block_device, ..second })
        }
        BackEndKind::Nbd { uri, .. } => remote(uri),
    }
}

fn one(path: &Path) -> io::Result<Seen> {
    let file = OneFile::open_to_read(path).map_err(|error| named(path, &error))?;
    let wrong = "neither a regular file nor a block device";
    let OneFile { size, .. } = file.ok_or_else(|| named(path, &wrong))?;
    let kind = std::fs::metadata(path).map_err(|error| named(path, &error))?.file_type();
    // A start opens it to write, also where all virtual disks are read-only.
    may_write(path)?;
    Ok(Seen { size: Some(size), block_device: kind.is_block_device() })
}

fn remote(uri: &Uri) -> io::Result<Seen> {
    let options = Options { timeout: TIMEOUT, ..Options::default() };
    let connection = Connection::open_with(uri, options).map_err(io::Error::other)?;
    let size = Some(connection.export().size_bytes);
    if let Err(error) = connection.disconnect() {
        tracing::debug!(%error, "the server hears no farewell");
    }
    Ok(Seen { size, block_device: false })
}

fn is_directory(path: &Path) -> io::Result<()> {
    let meta = std::fs::metadata(path).map_err(|error| named(path, &error))?;
    if meta.is_dir() { Ok(()) } else { Err(named(path, &"no directory")) }
}

/// Whether a start can write a file of that path: it makes directories that are missing.
fn can_be_kept(path: &Path) -> io::Result<()> {
    let there = directory_of(path).ancestors().find(|at| at.exists() || at.as_os_str().is_empty());
    let there = there.filter(|at| !at.as_os_str().is_empty()).unwrap_or(Path::new("."));
    is_directory(there)?;
    access(there, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| named(there, &error))
}

/// Whether this user may write to it.
fn may_write(path: &Path) -> io::Result<()> {
    access(path, Access::READ_OK | Access::WRITE_OK).map_err(|error| named(path, &error))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn named(path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", path.display()))
}
