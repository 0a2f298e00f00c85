//! The state directory's store: what devices and virtual disks there are, and what was asked of them.
//!
//! One redb file. Each change is one transaction, durable before it is acknowledged. Records are JSON
//! with a version. A virtual disk is recorded as `creating` before its file is made and as `deleting`
//! before its file goes: a start gives up what a crash has left half-way. One that gets another name or
//! becomes smaller is recorded as `moving` meanwhile: a start goes on with that.
//! Does not know: HTTP, the server.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use disktime_api::{DeviceSpec, VdiskSpec};
use disktime_server::read_small;
use redb::backends::{FileBackend, InMemoryBackend};
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend,
    StorageError, TableDefinition,
};
use serde::{Deserialize, Serialize};

/// The file's name in the state directory.
const NAME: &str = "state.redb";
/// The version of the records that this daemon writes, and the newest that it reads.
const VERSION: u32 = 1;

const META: TableDefinition<'_, &str, u32> = TableDefinition::new("meta");
const DEVICES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("devices");
const VDISKS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("vdisks");

/// Why the state can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another daemon has it.
    #[error("{}: another daemon uses this state: stop it, or name another --state", .0.display())]
    InUse(PathBuf),
    /// A newer daemon has written it.
    #[error(
        "{}: written in version {found} by a newer disktime; this one reads versions up to {VERSION}: \
         install the newer one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its records.
        found: u32,
    },
    /// A record is not what was written.
    #[error("{}: the record of {name} can't be read: {reason}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The name that the record is of.
        name: String,
        /// Why.
        reason: String,
    },
    /// The file can't be read or written.
    #[error("{}: {reason}: {advice}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
        /// The remedy.
        advice: &'static str,
    },
}

/// The most bytes of a store that is looked at in memory: one of a hundred thousand virtual disks has some 100 MB.
const LOOKED_AT_MAX: u64 = 1 << 30;

/// Where the system refuses.
const ROOM: &str = "check that the directory can be written and is not full";
/// Where the file is not what was written.
const RESTORE: &str = "its devices and virtual disks are not known any more: bring it back from a copy, or move it \
     away to begin anew";
/// Where something else lies.
const ELSEWHERE: &str = "name a directory by --state";

/// Whether a virtual disk is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Its file may or may not be there, and nobody was told that it is.
    Creating,
    /// It is served.
    Ready,
    /// Its file may or may not be gone.
    Deleting,
    /// It becomes another one: of another name, or smaller. Its file may or may not be so already.
    Moving,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record<T> {
    version: u32,
    phase: Phase,
    spec: T,
    /// The virtual disk that it becomes.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    to: Option<T>,
    /// The virtual disk of which it is a snapshot, until it is changed: a request for the same snapshot
    /// is known again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot_of: Option<String>,
}

impl<T> Record<T> {
    fn new(phase: Phase, spec: T) -> Self {
        Self { version: VERSION, phase, spec, to: None, snapshot_of: None }
    }
}

fn none<T>() -> Option<T> {
    None
}

/// A name, and the record that it has from now on, if any.
type Entry<'a> = (&'a str, Option<&'a [u8]>);

/// All records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Devices, by name.
    pub devices: Vec<DeviceSpec>,
    /// Virtual disks that are whole, by name.
    pub vdisks: Vec<VdiskSpec>,
    /// Virtual disks that a crash has left half-way between coming or going.
    pub unfinished: Vec<VdiskSpec>,
    /// Virtual disks that it has left half-way between two names or sizes: before and after.
    pub moving: Vec<(VdiskSpec, VdiskSpec)>,
}

impl Kept {
    /// Parents first, as a configuration has them.
    pub(crate) fn sort(&mut self) {
        let key = |it: &VdiskSpec| (it.parent.is_some(), it.name.clone());
        self.vdisks.sort_by_key(key);
    }
}

/// The store, open; no other daemon has it meanwhile.
pub struct Store {
    /// Closed after an error: redb refuses everything after the first write that failed, and opening it
    /// anew finds the last state that is whole.
    database: Mutex<Option<Database>>,
    path: PathBuf,
    /// Records that could not be written, by their names: virtual disks as they are.
    unwritten: Mutex<BTreeMap<String, VdiskSpec>>,
}

/// A record as an earlier version may have made it: class `background` could reserve time, and is promised none.
fn kept_promises(spec: VdiskSpec) -> VdiskSpec {
    let promises = spec.reserve.is_some() || spec.iops.is_some() || spec.bandwidth.is_some();
    if spec.class.as_deref() != Some("background") || !promises {
        return spec;
    }
    tracing::warn!(
        vdisk = spec.name,
        "class background is promised nothing: its reservation or goal is left out"
    );
    VdiskSpec { reserve: None, iops: None, bandwidth: None, request: None, run: None, ..spec }
}

impl Store {
    /// Opens the store of a state directory, which is made if it is not there. Only the daemon's user can
    /// read what is made.
    ///
    /// # Errors
    /// If another daemon has it, a newer one has written it, or the system refuses.
    pub fn open(state: &Path) -> Result<Self, StateError> {
        let path = state.join(NAME);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(state);
        made.map_err(|error| no_directory(state, error))?;
        Self::of(database(&path)?, path)
    }

    /// The records of a state directory as they are now. Nothing is made or changed there: moves that a
    /// crash has left half-way are taken for finished.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn look(state: &Path) -> Result<Kept, StateError> {
        let path = state.join(NAME);
        let bytes = match read_small(&path, LOOKED_AT_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Kept::default()),
            Err(error) if error.kind() == ErrorKind::Other => {
                return Err(StateError::Store { path, reason: error.to_string(), advice: RESTORE });
            }
            Err(error) => return Err(no_directory(state, error)),
            Ok(bytes) => bytes,
        };
        not_empty(&path, bytes.len() as u64)?;
        let copy = InMemoryBackend::new();
        let filled = copy.set_len(bytes.len() as u64).and_then(|()| copy.write(0, &bytes));
        filled.map_err(|error| refused(&path, error))?;
        let opened = Builder::new().create_with_backend(copy);
        let mut kept =
            Self::of(opened.map_err(|error| not_opened(&path, &error))?, path)?.load()?;
        kept.vdisks.extend(std::mem::take(&mut kept.moving).into_iter().map(|(_, after)| after));
        kept.sort();
        Ok(kept)
    }

    fn of(database: Database, path: PathBuf) -> Result<Self, StateError> {
        let store =
            Self { database: Mutex::new(Some(database)), path, unwritten: Mutex::default() };
        let found = store.with(|database| store.version(database))?;
        if found > VERSION {
            return Err(StateError::Newer { path: store.path, found });
        }
        Ok(store)
    }

    /// Does something with the open database; after an error it is opened anew for the next one.
    fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let mut kept = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match kept.take() {
            Some(open) => open,
            None => database(&self.path)?,
        };
        let done = work(&open)?;
        *kept = Some(open);
        Ok(done)
    }

    fn failed(&self, error: impl std::fmt::Display) -> StateError {
        refused(&self.path, error)
    }

    /// The version of the records; all tables are there afterwards.
    fn version(&self, database: &Database) -> Result<u32, StateError> {
        let failed = |error: redb::Error| self.failed(error);
        let write = database.begin_write().map_err(|error| failed(error.into()))?;
        let found = {
            let mut meta = write.open_table(META).map_err(|error| failed(error.into()))?;
            let found = meta.get("version").map_err(|error| failed(error.into()))?;
            let found = found.map(|version| version.value());
            if found.is_none() {
                meta.insert("version", VERSION).map_err(|error| failed(error.into()))?;
            }
            found.unwrap_or(VERSION)
        };
        if found <= VERSION {
            for table in [DEVICES, VDISKS] {
                write.open_table(table).map_err(|error| failed(error.into()))?;
            }
        }
        write.commit().map_err(|error| failed(error.into()))?;
        Ok(found)
    }

    /// All records.
    ///
    /// # Errors
    /// If one can't be read.
    pub fn load(&self) -> Result<Kept, StateError> {
        let mut kept = Kept { devices: self.devices()?, ..Kept::default() };
        self.each(VDISKS, |Record { phase, spec, to, .. }| match (phase, to) {
            (Phase::Moving, Some(to)) => kept.moving.push((spec, to)),
            (Phase::Creating | Phase::Deleting, _) => kept.unfinished.push(spec),
            (Phase::Ready | Phase::Moving, _) => kept.vdisks.push(kept_promises(spec)),
        })?;
        Ok(kept)
    }

    /// The devices, by name.
    ///
    /// # Errors
    /// If a record can't be read.
    pub fn devices(&self) -> Result<Vec<DeviceSpec>, StateError> {
        let mut devices = Vec::new();
        self.each(DEVICES, |record| devices.push(record.spec))?;
        Ok(devices)
    }

    /// A virtual disk that is whole.
    ///
    /// # Errors
    /// If its record can't be read.
    pub fn vdisk(&self, name: &str) -> Result<Option<VdiskSpec>, StateError> {
        Ok(self.whole(name)?.map(|record| record.spec))
    }

    /// The virtual disk of which one that is whole is a snapshot, if it is one and was not changed since.
    ///
    /// # Errors
    /// If its record can't be read.
    pub fn snapshot_of(&self, name: &str) -> Result<Option<String>, StateError> {
        Ok(self.whole(name)?.and_then(|record| record.snapshot_of))
    }

    fn whole(&self, name: &str) -> Result<Option<Record<VdiskSpec>>, StateError> {
        self.catch_up()?;
        self.with(|database| {
            let read = database.begin_read().map_err(|error| self.failed(error))?;
            let table = read.open_table(VDISKS).map_err(|error| self.failed(error))?;
            let Some(bytes) = table.get(name).map_err(|error| self.failed(error))? else {
                return Ok(None);
            };
            let record: Record<VdiskSpec> = self.parse(name, bytes.value())?;
            Ok((record.phase == Phase::Ready).then_some(record))
        })
    }

    fn parse<T: for<'de> Deserialize<'de>>(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<Record<T>, StateError> {
        serde_json::from_slice(bytes).map_err(|error| {
            let (path, name) = (self.path.clone(), name.to_owned());
            StateError::Record { path, name, reason: error.to_string() }
        })
    }

    fn each<T: for<'de> Deserialize<'de>>(
        &self,
        table: TableDefinition<'_, &str, &[u8]>,
        mut each: impl FnMut(Record<T>),
    ) -> Result<(), StateError> {
        self.with(|database| {
            let read = database.begin_read().map_err(|error| self.failed(error))?;
            let table = read.open_table(table).map_err(|error| self.failed(error))?;
            let entries = table.iter().map_err(|error| self.failed(error))?;
            for entry in entries {
                let (name, bytes) = entry.map_err(|error: StorageError| self.failed(error))?;
                let record: Record<T> = self.parse(name.value(), bytes.value())?;
                each(record);
            }
            Ok(())
        })
    }

    /// Keeps a device.
    ///
    /// # Errors
    /// If it can't be written: then nothing has changed.
    pub fn put_device(&self, spec: &DeviceSpec) -> Result<(), StateError> {
        self.put(DEVICES, &spec.name, Phase::Ready, spec)
    }

    /// Keeps a virtual disk.
    ///
    /// # Errors
    /// If it can't be written: then nothing has changed.
    pub fn put_vdisk(&self, spec: &VdiskSpec, phase: Phase) -> Result<(), StateError> {
        self.put(VDISKS, &spec.name, phase, spec)
    }

    /// Keeps a virtual disk that is a snapshot of another one.
    ///
    /// # Errors
    /// If it can't be written: then nothing has changed.
    pub fn put_snapshot(&self, spec: &VdiskSpec, phase: Phase, of: &str) -> Result<(), StateError> {
        let record = Record { snapshot_of: Some(of.to_owned()), ..Record::new(phase, spec) };
        self.write(VDISKS, &spec.name, &record)
    }

    /// Keeps many virtual disks in a phase, and others no longer, all at once.
    ///
    /// # Errors
    /// If they can't be written: then nothing has changed.
    pub fn settle(
        &self,
        phase: Phase,
        kept: &[&VdiskSpec],
        gone: &[&VdiskSpec],
    ) -> Result<(), StateError> {
        let bytes = kept.iter().map(|spec| serde_json::to_vec(&Record::new(phase, *spec)));
        let bytes = bytes.collect::<Result<Vec<_>, _>>().map_err(|error| self.failed(error))?;
        let kept = kept.iter().zip(&bytes).map(|(spec, bytes)| (&*spec.name, Some(&**bytes)));
        let gone = gone.iter().map(|spec| (&*spec.name, None));
        self.change(VDISKS, &kept.chain(gone).collect::<Vec<_>>())
    }

    /// Notes that a virtual disk becomes another one, of another name or smaller: a start after a crash
    /// goes on with that.
    ///
    /// # Errors
    /// If it can't be written: then nothing has changed.
    pub fn begin_move(&self, before: &VdiskSpec, after: &VdiskSpec) -> Result<(), StateError> {
        let record = Record { to: Some(after), ..Record::new(Phase::Moving, before) };
        self.write(VDISKS, &before.name, &record)
    }

    /// Notes that a virtual disk has become another one.
    ///
    /// # Errors
    /// If it can't be written: then nothing has changed.
    pub fn end_move(&self, before: &str, after: &VdiskSpec) -> Result<(), StateError> {
        let record = Record::new(Phase::Ready, after);
        let bytes = serde_json::to_vec(&record).map_err(|error| self.failed(error))?;
        let gone = (before != after.name).then_some((before, None));
        let changes = gone.into_iter().chain([(&*after.name, Some(&*bytes))]);
        self.change(VDISKS, &changes.collect::<Vec<_>>())
    }

    /// Notes under the name of its record how a virtual disk is after a change that failed. If that can't be
    /// written either, it is tried again before the next change, which is refused until then.
    pub fn leave(&self, record: &str, is: &VdiskSpec) {
        self.unwritten().insert(record.to_owned(), is.clone());
        if let Err(error) = self.catch_up() {
            tracing::warn!(vdisk = is.name, %error, "its record is written when that can be done");
        }
    }

    fn unwritten(&self) -> MutexGuard<'_, BTreeMap<String, VdiskSpec>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the records that could not be written.
    fn catch_up(&self) -> Result<(), StateError> {
        let mut unwritten = self.unwritten();
        while let Some((record, is)) = unwritten.first_key_value() {
            self.end_move(record, is)?;
            unwritten.pop_first();
        }
        Ok(())
    }

    /// Keeps a device no longer.
    ///
    /// # Errors
    /// If it can't be written: then nothing has changed.
    pub fn remove_device(&self, name: &str) -> Result<(), StateError> {
        self.change(DEVICES, &[(name, None)])
    }

    /// Keeps a virtual disk no longer.
    ///
    /// # Errors
    /// If it can't be written: then nothing has changed.
    pub fn remove_vdisk(&self, name: &str) -> Result<(), StateError> {
        self.change(VDISKS, &[(name, None)])
    }

    fn put<T: Serialize>(
        &self,
        table: TableDefinition<'_, &str, &[u8]>,
        name: &str,
        phase: Phase,
        spec: &T,
    ) -> Result<(), StateError> {
        self.write(table, name, &Record::new(phase, spec))
    }

    fn write<T: Serialize>(
        &self,
        table: TableDefinition<'_, &str, &[u8]>,
        name: &str,
        record: &Record<T>,
    ) -> Result<(), StateError> {
        let bytes = serde_json::to_vec(record).map_err(|error| self.failed(error))?;
        self.change(table, &[(name, Some(&bytes))])
    }

    /// One transaction, durable when it returns.
    fn change(
        &self,
        table: TableDefinition<'_, &str, &[u8]>,
        changes: &[Entry<'_>],
    ) -> Result<(), StateError> {
        self.with(|database| {
            let write = database.begin_write().map_err(|error| self.failed(error))?;
            {
                let mut table = write.open_table(table).map_err(|error| self.failed(error))?;
                for (name, record) in changes {
                    match record {
                        Some(bytes) => table.insert(name, *bytes).map(drop),
                        None => table.remove(name).map(drop),
                    }
                    .map_err(|error| self.failed(error))?;
                }
            }
            write.commit().map_err(|error| self.failed(error))
        })
    }
}

/// Opens the database. An earlier version made it so that others could read it.
fn database(path: &Path) -> Result<Database, StateError> {
    let refused = |error: std::io::Error| refused(path, error);
    let options = || OpenOptions::new().read(true).write(true).mode(0o600).clone();
    let file = match options().create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let file: File = options().open(path).map_err(refused)?;
            not_empty(path, file.metadata().map_err(refused)?.len())?;
            file.set_permissions(Permissions::from_mode(0o600)).map_err(refused)?;
            file
        }
        file => file.map_err(refused)?,
    };
    let opened = FileBackend::new(file).and_then(|file| Builder::new().create_with_backend(file));
    opened.map_err(|error| not_opened(path, &error))
}

/// A file without a byte is no new state: somebody has lost one.
fn not_empty(path: &Path, bytes: u64) -> Result<(), StateError> {
    if bytes > 0 {
        return Ok(());
    }
    let (path, reason) = (path.to_owned(), "the file is empty".to_owned());
    Err(StateError::Store { path, reason, advice: RESTORE })
}

/// A state directory that can't be made, or that is none.
fn no_directory(state: &Path, error: std::io::Error) -> StateError {
    if !matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory) {
        return refused(&state.join(NAME), error);
    }
    let reason = "no directory".to_owned();
    StateError::Store { path: state.to_owned(), reason, advice: ELSEWHERE }
}

fn not_opened(path: &Path, error: &DatabaseError) -> StateError {
    let advice = match error {
        DatabaseError::DatabaseAlreadyOpen => return StateError::InUse(path.to_owned()),
        DatabaseError::Storage(StorageError::Io(error))
            if error.kind() != ErrorKind::InvalidData =>
        {
            ROOM
        }
        _ => RESTORE,
    };
    StateError::Store { path: path.to_owned(), reason: error.to_string(), advice }
}

fn refused(path: &Path, error: impl std::fmt::Display) -> StateError {
    StateError::Store { path: path.to_owned(), reason: error.to_string(), advice: ROOM }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vdisk(name: &str) -> VdiskSpec {
        let (device, size) = ("disk".to_owned(), "1MiB".to_owned());
        VdiskSpec { name: name.to_owned(), device, size, ..VdiskSpec::default() }
    }

    /// `serve --check` read a file of 100 GB that lay there into memory.
    #[test]
    fn a_look_reads_no_file_that_is_far_too_long() {
        let state = tempfile::tempdir().unwrap();
        File::create(state.path().join(NAME)).unwrap().set_len(100 << 30).unwrap();
        let said = Store::look(state.path()).unwrap_err().to_string();
        assert!(said.contains("it has 107374182400 bytes") && said.contains("a copy"), "{said}");
        let said = Store::open(state.path()).err().unwrap().to_string();
        assert!(said.contains("a copy"), "{said}");
    }

    #[test]
    fn what_is_put_is_there_after_a_restart_with_its_phase() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        store.put_vdisk(&vdisk("a"), Phase::Ready).unwrap();
        store.put_vdisk(&vdisk("b"), Phase::Creating).unwrap();
        store.put_vdisk(&vdisk("c"), Phase::Ready).unwrap();
        store.put_vdisk(&vdisk("c"), Phase::Deleting).unwrap();
        store.put_vdisk(&vdisk("d"), Phase::Ready).unwrap();
        store.remove_vdisk("d").unwrap();
        drop(store);
        let kept = Store::open(state.path()).unwrap().load().unwrap();
        assert_eq!(kept.vdisks, [vdisk("a")]);
        assert_eq!(kept.unfinished, [vdisk("b"), vdisk("c")]);
    }

    /// The state can't be edited: a reservation that background was once allowed must not keep a daemon from its start.
    #[test]
    fn a_reservation_of_background_is_left_out() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        let text = |text: &str| Some(text.to_owned());
        let (class, reserve, run) = (text("background"), text("40%"), Some(4));
        let background = VdiskSpec { class, weight: Some(7), ..vdisk("a") };
        store.put_vdisk(&VdiskSpec { reserve, run, ..background.clone() }, Phase::Ready).unwrap();
        let reserving = VdiskSpec { reserve: text("10%"), ..vdisk("b") };
        store.put_vdisk(&reserving, Phase::Ready).unwrap();
        assert_eq!(store.load().unwrap().vdisks, [background, reserving]);
    }

    /// A name that was there twice, or not at all, after a crash would be two virtual disks on one file,
    /// or none.
    #[test]
    fn a_move_is_there_until_it_has_ended_and_then_its_end_alone() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        store.put_vdisk(&vdisk("a"), Phase::Ready).unwrap();
        store.begin_move(&vdisk("a"), &vdisk("b")).unwrap();
        assert_eq!(store.vdisk("a").unwrap(), None);
        let kept = store.load().unwrap();
        assert_eq!((kept.moving, kept.vdisks), (vec![(vdisk("a"), vdisk("b"))], vec![]));
        store.end_move("a", &vdisk("b")).unwrap();
        let kept = store.load().unwrap();
        assert_eq!((kept.moving, kept.vdisks), (vec![], vec![vdisk("b")]));
        let smaller = VdiskSpec { size: "512B".to_owned(), ..vdisk("b") };
        store.begin_move(&vdisk("b"), &smaller).unwrap();
        store.end_move("b", &smaller).unwrap();
        assert_eq!(store.load().unwrap().vdisks, [smaller]);
    }

    /// A full state directory left a record half-way: the virtual disk was there and was not, and a restart made
    /// the change that had been refused.
    #[test]
    fn a_record_that_could_not_be_written_is_written_before_the_next_change() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        store.put_vdisk(&vdisk("a"), Phase::Ready).unwrap();
        store.begin_move(&vdisk("a"), &vdisk("b")).unwrap();
        // Closed, as after an error, and not to be opened.
        drop(store.database.lock().unwrap().take());
        let (file, away) = (state.path().join(NAME), state.path().join("away"));
        std::fs::rename(&file, &away).unwrap();
        std::fs::create_dir(&file).unwrap();
        store.leave("a", &vdisk("a"));
        assert!(store.vdisk("a").is_err(), "no change is made meanwhile");
        std::fs::remove_dir(&file).unwrap();
        std::fs::rename(&away, &file).unwrap();
        assert_eq!(store.vdisk("a").unwrap(), Some(vdisk("a")));
        let kept = store.load().unwrap();
        assert_eq!((kept.moving, kept.vdisks), (vec![], vec![vdisk("a")]));
    }

    #[test]
    fn many_are_settled_by_one_transaction() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        let [a, b, c] = ["a", "b", "c"].map(vdisk);
        store.settle(Phase::Creating, &[&a, &b, &c], &[]).unwrap();
        assert_eq!(store.load().unwrap().unfinished, [a.clone(), b.clone(), c.clone()]);
        store.settle(Phase::Ready, &[&a, &c], &[&b]).unwrap();
        let kept = store.load().unwrap();
        assert_eq!((kept.vdisks, kept.unfinished), (vec![a, c], vec![]));
    }

    #[test]
    fn a_second_daemon_is_refused_by_name() {
        let state = tempfile::tempdir().unwrap();
        let _first = Store::open(state.path()).unwrap();
        let error = Store::open(state.path()).err().expect("it is in use");
        assert!(matches!(error, StateError::InUse(_)), "{error}");
        assert!(error.to_string().contains("state.redb"), "{error}");
    }

    #[test]
    fn a_state_of_a_newer_version_is_refused_and_stays() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        let newer = |database: &Database| {
            let write = database.begin_write().unwrap();
            write.open_table(META).unwrap().insert("version", VERSION + 1).unwrap();
            write.commit().unwrap();
            Ok(())
        };
        store.with(newer).unwrap();
        drop(store);
        for _ in 0..2 {
            let error = Store::open(state.path()).err().expect("it is newer");
            assert!(matches!(error, StateError::Newer { found: 2, .. }), "{error}");
        }
    }

    #[test]
    fn a_state_that_is_no_database_is_an_error() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join(NAME), [7; 5000]).unwrap();
        assert!(matches!(Store::open(state.path()), Err(StateError::Store { .. })));
        let said = Store::open(state.path()).err().expect("it is none").to_string();
        assert!(said.contains("bring it back from a copy") && !said.contains("full"), "{said}");
        assert_eq!(Store::look(state.path()).expect_err("it is none").to_string(), said);
    }

    /// A file that had lost its contents began as a new state: all devices were forgotten without a word.
    #[test]
    fn an_empty_file_or_no_directory_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join(NAME);
        File::create(&file).unwrap();
        let said = Store::open(state.path()).err().expect("it is empty").to_string();
        assert!(said.contains("state.redb: the file is empty"), "{said}");
        assert_eq!(Store::look(state.path()).expect_err("it is empty").to_string(), said);
        for at in [file.clone(), file.join("below")] {
            let said = Store::open(&at).err().expect("no directory").to_string();
            assert_eq!(
                said,
                format!("{}: no directory: name a directory by --state", at.display())
            );
            assert_eq!(Store::look(&at).expect_err("no directory").to_string(), said);
        }
    }

    #[test]
    fn others_can_read_neither_the_state_nor_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let (state, mode) = (directory.path().join("a/state"), |path: &Path| {
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777
        });
        drop(Store::open(&state).unwrap());
        let file = state.join(NAME);
        assert_eq!((mode(&state), mode(&file)), (0o700, 0o600));
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        drop(Store::open(&state).unwrap());
        assert_eq!(mode(&file), 0o600, "an earlier version's");
    }

    /// A check of a configuration made the state directory.
    #[test]
    fn a_look_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        assert_eq!(Store::look(&state).unwrap(), Kept::default());
        assert!(!state.exists());
        let store = Store::open(&state).unwrap();
        store.put_vdisk(&vdisk("a"), Phase::Ready).unwrap();
        store.put_vdisk(&vdisk("b"), Phase::Ready).unwrap();
        store.begin_move(&vdisk("a"), &vdisk("c")).unwrap();
        drop(store);
        let before = std::fs::read(state.join(NAME)).unwrap();
        assert_eq!(Store::look(&state).unwrap().vdisks, [vdisk("b"), vdisk("c")]);
        assert!(std::fs::read(state.join(NAME)).unwrap() == before);
    }
}
