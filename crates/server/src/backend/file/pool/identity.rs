//! The identity file of a pool: which pool it is, which virtual disks have files there, and a line for
//! each change since the file was written whole.
//!
//! A change is an append, so that it costs the same in a pool of ten virtual disks and of ten thousand.
//! Each line has a checksum: a crash in the middle of an append leaves a last line that does not count.
//! The lines are comments to TOML; the version keeps daemons away that don't know them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{IDENTITY, PoolDisk, PoolError, io_at};
use crate::backend::blocks::BLOCK;
use crate::backend::file::lock;
use crate::checksum::checksum;
use crate::durable::{Next, RECORD_MAX, read_open};
use crate::vdisk_name::is_name;

/// The version that is written, and the newest that is read. Version 1 had no lines for changes.
const VERSION: u32 = 2;
/// The first version with lines for changes.
const WITH_CHANGES: u32 = 2;
/// Lines after which the file is written whole again, if the virtual disks are not more: 1,024 lines are
/// some 60 KiB, and an append costs little beside a whole file of as many entries.
const LINES_MIN: usize = 1024;

const HEADER: &str = "\
# The identity of this directory of virtual disks. Written by disktime, which serves the directory only
# while this file is here. A virtual disk whose file is gone is an error: delete its entry, while the
# server is down, to give up its data. Lines that begin with `#+` and `#-` are virtual disks that came,
# changed their size or went since; the next start makes them entries.
";

/// Which pool it is, and the virtual disks that have files there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) id: String,
    /// The bytes that each virtual disk's file has at least.
    pub(super) vdisks: BTreeMap<String, u64>,
}

/// A virtual disk's entry from now on: the bytes that its file has at least, or none.
pub(super) type Change<'a> = (&'a str, Option<u64>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    version: u32,
    id: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    vdisk: Vec<PoolDisk>,
}

/// The text of an identity file, understood.
struct Understood {
    identity: Identity,
    version: u32,
    /// Lines for changes.
    lines: usize,
    /// Bytes up to the last line that counts.
    len: usize,
}

/// A pool's identity file, open and locked: no other server has the pool.
pub(super) struct IdentityFile {
    path: PathBuf,
    /// Replaced by each whole file.
    lock: Arc<File>,
    version: u32,
    lines: usize,
    /// Bytes that count; an append goes behind them.
    len: u64,
    /// Something may be behind the bytes that count.
    torn: bool,
}

impl Identity {
    /// Makes changes.
    pub(super) fn apply(&mut self, changes: &[Change<'_>]) {
        for (name, bytes) in changes {
            match bytes {
                Some(bytes) => drop(self.vdisks.insert((*name).to_owned(), *bytes)),
                None => drop(self.vdisks.remove(*name)),
            }
        }
    }

    /// Reads what is in an identity file.
    pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Self, PoolError> {
        understand(path, text).map(|it| it.identity)
    }
}

impl IdentityFile {
    /// The identity in a file that is open and locked. Changes in lines of their own become entries.
    ///
    /// # Errors
    /// If it can't be read.
    pub(super) fn open(directory: &Path, held: File) -> Result<(Self, Identity), PoolError> {
        let path = directory.join(IDENTITY);
        let text = read_open(&held, RECORD_MAX).map_err(io_at(&path))?;
        let Understood { identity, version, lines, len } = understand(&path, &text)?;
        let whole = lines == 0 && len == text.len();
        let (lock, len) = (Arc::new(held), len as u64);
        let mut file = Self { path, lock, version, lines, len, torn: !whole };
        if !whole && let Err(error) = file.rewrite(&identity) {
            // A full file system is no reason to serve nothing: lines count as entries do.
            tracing::warn!(%error, "changes of the pool stay lines of their own");
        }
        Ok((file, identity))
    }

    /// Writes the identity of a new pool.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn make(directory: &Path, identity: &Identity) -> Result<Self, PoolError> {
        let path = directory.join(IDENTITY);
        let (lock, len, durable) = put(&path, identity)?;
        durable.map_err(io_at(&path))?;
        Ok(Self { path, lock: Arc::new(lock), version: VERSION, lines: 0, len, torn: false })
    }

    /// As long as it is open, no other server has the pool.
    pub(super) fn lock(&self) -> &Arc<File> {
        &self.lock
    }

    /// Records changes durably, then makes them.
    ///
    /// # Errors
    /// If the system refuses: then nothing has changed.
    pub(super) fn change(
        &mut self,
        identity: &mut Identity,
        changes: &[Change<'_>],
    ) -> Result<(), PoolError> {
        let most = identity.vdisks.len().max(LINES_MIN);
        if self.version < WITH_CHANGES || self.lines.saturating_add(changes.len()) > most {
            let mut after = identity.clone();
            after.apply(changes);
            if let Err(error) = self.rewrite(&after) {
                // The new contents may be there, of a change that is refused.
                let _the_old_ones_are_there = self.rewrite(identity);
                return Err(error);
            }
            *identity = after;
            return Ok(());
        }
        self.append(changes).map_err(io_at(&self.path))?;
        identity.apply(changes);
        Ok(())
    }

    /// Enters a smaller size of a virtual disk, then has its file cut. If that fails the old size is entered again,
    /// unless the file is shorter already: the next daemon refuses a file that is not as long as its entry says.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn shrink(
        &mut self,
        identity: &mut Identity,
        (name, size): (&str, u64),
        (path, file): (&Path, &File),
        cut: impl FnOnce(u64) -> io::Result<()>,
    ) -> Result<(), PoolError> {
        let before = identity.vdisks.get(name).copied();
        let len = file.metadata().map_err(io_at(path))?.len();
        // First the identity: a crash leaves a file that is longer than it says.
        self.change(identity, &[(name, Some(size))])?;
        cut(size.next_multiple_of(BLOCK).min(len)).map_err(|error| {
            if file.metadata().is_ok_and(|it| it.len() == len)
                && let Err(error) = self.change(identity, &[(name, before)])
            {
                tracing::warn!(%error, vdisk = name, "its file stays longer than its entry in the pool");
            }
            io_at(path)(error)
        })
    }

    /// The whole file takes the place of what is there.
    ///
    /// # Errors
    /// If the system refuses: then the old one is there, or the new one and a crash may bring the old one back.
    pub(super) fn rewrite(&mut self, identity: &Identity) -> Result<(), PoolError> {
        let placed = put(&self.path, identity)?;
        self.have(placed)
    }

    /// A whole file is in its place: this is the one that others see and lock, durable or not.
    fn have(&mut self, (lock, len, durable): Placed) -> Result<(), PoolError> {
        self.lock = Arc::new(lock);
        (self.version, self.lines, self.len, self.torn) = (VERSION, 0, len, false);
        durable.map_err(io_at(&self.path))
    }

    fn append(&mut self, changes: &[Change<'_>]) -> io::Result<()> {
        let text: String = changes.iter().map(line).collect();
        // An append that failed may have left whole lines: they must not count.
        if self.torn {
            self.lock.set_len(self.len)?;
        }
        self.torn = true;
        let appended =
            self.lock.write_all_at(text.as_bytes(), self.len).and_then(|()| self.lock.sync_data());
        if let Err(error) = appended {
            let cut = self.lock.set_len(self.len).and_then(|()| self.lock.sync_data());
            self.torn = cut.is_err();
            return Err(error);
        }
        self.torn = false;
        self.lines += changes.len();
        self.len += text.len() as u64;
        Ok(())
    }
}

/// A change's line: its sign, the size, the name, and a checksum of all that.
fn line((name, bytes): &Change<'_>) -> String {
    let mut line = match bytes {
        Some(bytes) => format!("#+ {bytes} {name}"),
        None => format!("#- {name}"),
    };
    let sum = checksum(line.as_bytes());
    let _no_error = writeln!(line, " {sum:016x}");
    line
}

/// A line's change; nothing if the line is not as it was written.
fn change(line: &str) -> Option<Change<'_>> {
    let (text, sum) = line.rsplit_once(' ')?;
    let is_whole = u64::from_str_radix(sum, 16).ok()? == checksum(text.as_bytes());
    let (name, bytes) = match text.strip_prefix("#- ") {
        Some(name) => (name, None),
        None => {
            let (bytes, name) = text.strip_prefix("#+ ")?.split_once(' ')?;
            (name, Some(bytes.parse().ok()?))
        }
    };
    (is_whole && is_name(name)).then_some((name, bytes))
}

fn understand(path: &Path, text: &[u8]) -> Result<Understood, PoolError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let wrong = |reason: String| PoolError::Syntax { path: path.to_owned(), reason };
    let begins = |at: &usize| text[*at..].starts_with(b"#+") || text[*at..].starts_with(b"#-");
    let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let head = std::iter::once(0).chain(ends).find(begins).unwrap_or(text.len());
    let table = std::str::from_utf8(&text[..head]).map_err(|error| wrong(error.to_string()))?;
    let Versioned { version } = toml::from_str(table).map_err(|error| wrong(error.to_string()))?;
    if !(1..=VERSION).contains(&version) {
        return Err(wrong(format!(
            "version = {version}: this disktime knows versions up to {VERSION}"
        )));
    }
    let Table { id, vdisk, .. } =
        toml::from_str(table).map_err(|error| wrong(error.to_string()))?;
    let vdisks = vdisk.into_iter().map(|disk| (disk.name, disk.size)).collect();
    let (mut identity, mut lines, mut len) = (Identity { id, vdisks }, 0, head);
    let mut rest = text[head..].split_inclusive(|byte| *byte == b'\n').peekable();
    while let Some(bytes) = rest.next() {
        let whole = bytes.strip_suffix(b"\n").and_then(|it| std::str::from_utf8(it).ok());
        let Some(found) = whole.and_then(change) else {
            // The last one is an append that a crash has cut short: nobody was told of that change.
            if rest.peek().is_some() {
                let at = text[..len].iter().filter(|byte| **byte == b'\n').count() + 1;
                return Err(wrong(format!("line {at} is no change as it was written")));
            }
            break;
        };
        identity.apply(&[found]);
        (lines, len) = (lines + 1, len + bytes.len());
    }
    Ok(Understood { identity, version, lines, len })
}

/// A whole file in its place: locked, its bytes, and whether its place is durable.
type Placed = (File, u64, io::Result<()>);

/// The identity file's next contents take its place, locked before others can see them. Answers how
/// many bytes they are, and whether their place is durable.
fn put(path: &Path, identity: &Identity) -> Result<Placed, PoolError> {
    let vdisk = identity.vdisks.iter();
    let vdisk = vdisk.map(|(name, size)| PoolDisk { name: name.clone(), size: *size }).collect();
    let table = Table { version: VERSION, id: identity.id.clone(), vdisk };
    let text = toml::to_string(&table)
        .map_err(|error| PoolError::Syntax { path: path.to_owned(), reason: error.to_string() })?;
    let text = format!("{HEADER}{text}");
    let next = Next::write(path, text.as_bytes()).map_err(io_at(path))?;
    lock(next.file()).map_err(io_at(path))?;
    let (file, durable) = next.put_first().map_err(io_at(path))?;
    Ok((file, text.len() as u64, durable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served_file::ServedFile;

    fn identity(vdisks: &[(&str, u64)]) -> Identity {
        let vdisks = vdisks.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        Identity { id: "1".to_owned(), vdisks }
    }

    fn reopened(directory: &Path) -> Identity {
        let options = || File::options().read(true).write(true).open(directory.join(IDENTITY));
        let text = std::fs::read(directory.join(IDENTITY)).unwrap();
        let seen = Identity::parse(&directory.join(IDENTITY), &text).unwrap();
        let (_, found) = IdentityFile::open(directory, options().unwrap()).unwrap();
        assert_eq!(seen, found, "a look from outside sees the same");
        let text = std::fs::read_to_string(directory.join(IDENTITY)).unwrap();
        assert!(!text.contains("\n#+") && !text.contains("\n#-"), "lines became entries: {text}");
        found
    }

    /// Each change of a pool of 10,000 virtual disks wrote the whole file: 148 ms for a create.
    #[test]
    fn changes_are_lines_and_a_start_makes_them_entries() {
        let here = tempfile::tempdir().unwrap();
        let mut now = identity(&[("a", 4096)]);
        let mut file = IdentityFile::make(here.path(), &now).unwrap();
        let inode = std::os::unix::fs::MetadataExt::ino(&file.lock().metadata().unwrap());
        file.change(&mut now, &[("b", Some(8192)), ("c", Some(512))]).unwrap();
        file.change(&mut now, &[("a", None)]).unwrap();
        file.change(&mut now, &[("b", Some(512))]).unwrap();
        let path = here.path().join(IDENTITY);
        let named = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
        assert_eq!(named, inode, "the file was not written anew");
        drop(file);
        assert_eq!(now, identity(&[("b", 512), ("c", 512)]));
        assert_eq!(reopened(here.path()), now);
    }

    /// After a kill on a full file system a daemon could not start again.
    #[test]
    fn lines_that_cant_become_entries_count_all_the_same() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join(IDENTITY);
        let mut now = identity(&[("a", 4096)]);
        let mut file = IdentityFile::make(here.path(), &now).unwrap();
        file.change(&mut now, &[("b", Some(8192))]).unwrap();
        drop(file);
        let cut_short = [std::fs::read(&path).unwrap(), b"#+ 512 c".to_vec()].concat();
        std::fs::write(&path, cut_short).unwrap();
        let in_the_way = here.path().join(format!("{IDENTITY}.new"));
        std::fs::create_dir(&in_the_way).unwrap();
        let held = File::options().read(true).write(true).open(&path).unwrap();
        let (mut file, mut found) = IdentityFile::open(here.path(), held).unwrap();
        assert_eq!(found, now);
        file.change(&mut found, &[("d", Some(512))]).unwrap();
        drop(file);
        std::fs::remove_dir(&in_the_way).unwrap();
        assert_eq!(reopened(here.path()), identity(&[("a", 4096), ("b", 8192), ("d", 512)]));
    }

    /// A kill or a power loss may come in the middle of an append: what it cut short was told to nobody.
    #[test]
    fn a_last_line_that_was_cut_short_does_not_count() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join(IDENTITY);
        let mut now = identity(&[("a", 4096)]);
        let mut file = IdentityFile::make(here.path(), &now).unwrap();
        file.change(&mut now, &[("b", Some(8192))]).unwrap();
        let before = std::fs::read(&path).unwrap();
        file.change(&mut now.clone(), &[("c", Some(512))]).unwrap();
        let after = std::fs::read(&path).unwrap();
        drop(file);
        for len in before.len()..after.len() {
            std::fs::write(&path, &after[..len]).unwrap();
            assert_eq!(reopened(here.path()), now, "{} bytes of the line", len - before.len());
        }
        let mut zeroes = before.clone();
        zeroes.resize(after.len(), 0);
        std::fs::write(&path, &zeroes).unwrap();
        assert_eq!(reopened(here.path()), now, "a file system that kept the length alone");
    }

    #[test]
    fn a_damaged_line_before_the_last_is_an_error_that_names_it() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join(IDENTITY);
        let mut now = identity(&[]);
        let mut file = IdentityFile::make(here.path(), &now).unwrap();
        file.change(&mut now, &[("b", Some(8192)), ("c", Some(512))]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let damaged = text.replace("#+ 8192 b", "#+ 8193 b");
        assert_ne!(damaged, text);
        let error = Identity::parse(&path, damaged.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("line 7 is no change"), "{error}");
    }

    /// A pool of an earlier version has no lines: a daemon of that version, which would not read them,
    /// must not be able to open it any more.
    #[test]
    fn the_first_change_of_an_old_pool_writes_the_file_whole_with_the_new_version() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join(IDENTITY);
        let old = "version = 1\nid = \"1\"\n\n[[vdisk]]\nname = \"a\"\nsize = 4096\n";
        std::fs::write(&path, old).unwrap();
        let held = File::options().read(true).write(true).open(&path).unwrap();
        let (mut file, mut now) = IdentityFile::open(here.path(), held).unwrap();
        assert_eq!(now, identity(&[("a", 4096)]));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), old, "a look changes nothing");
        file.change(&mut now, &[("b", Some(512))]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("version = 2") && !text.contains("#+ 512"), "{text}");
        drop(file);
        assert_eq!(reopened(here.path()), identity(&[("a", 4096), ("b", 512)]));
    }

    /// The sync of the directory failed after the rename: the lock was on a file without a name, so that another
    /// server could have the pool, and later changes were written to it and lost.
    #[test]
    fn a_file_whose_place_is_not_durable_is_the_one_that_is_locked_and_written() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join(IDENTITY);
        let mut now = identity(&[("a", 4096)]);
        let mut file = IdentityFile::make(here.path(), &now).unwrap();
        let (lock, len, _) = put(&path, &now).unwrap();
        assert!(file.have((lock, len, Err(io::Error::other("no sync")))).is_err());
        let other = File::options().read(true).write(true).open(&path).unwrap();
        assert!(lock_is_taken(&other), "no other server has the pool");
        file.change(&mut now, &[("b", Some(512))]).unwrap();
        drop((file, other));
        assert_eq!(reopened(here.path()), identity(&[("a", 4096), ("b", 512)]));
    }

    /// The entry stayed small when the file could not be cut: the next daemon refused the file, which was larger.
    #[test]
    fn a_file_that_can_not_be_cut_has_its_old_size() {
        let here = tempfile::tempdir().unwrap();
        let mut now = identity(&[("a", 8192)]);
        let mut file = IdentityFile::make(here.path(), &now).unwrap();
        let path = here.path().join("a.raw");
        std::fs::write(&path, [0; 8192]).unwrap();
        // One that is open to read can't be cut.
        let served = ServedFile::new(File::open(&path).unwrap(), &path).unwrap();
        let cut = |bytes| served.set_length(bytes);
        file.shrink(&mut now, ("a", 4096), (&path, served.file()), cut).unwrap_err();
        assert!(!served.is_whole(1, 4096), "it has to be as long as before");
        let open = File::options().write(true).open(&path).unwrap();
        let cut = |bytes| open.set_len(bytes).and(Err(io::Error::other("no sync")));
        assert_eq!(now, identity(&[("a", 8192)]));
        file.shrink(&mut now, ("a", 4096), (&path, &open), cut).unwrap_err();
        drop(file);
        assert_eq!(reopened(here.path()), identity(&[("a", 4096)]), "it is cut, perhaps");
    }

    fn lock_is_taken(file: &File) -> bool {
        lock(file).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    }

    /// Lines are bounded: a daemon that runs for a year has no file of a million lines.
    #[test]
    fn many_changes_are_written_whole_again() {
        let here = tempfile::tempdir().unwrap();
        let mut now = identity(&[]);
        let mut file = IdentityFile::make(here.path(), &now).unwrap();
        let names: Vec<String> = (0..100).map(|at| format!("v{at}")).collect();
        for round in 1..=50 {
            let changes: Vec<_> = names.iter().map(|name| (&**name, Some(round * 512))).collect();
            file.change(&mut now, &changes).unwrap();
            assert!(file.lines <= LINES_MIN, "{} lines", file.lines);
        }
        drop(file);
        assert!(now.vdisks.values().all(|bytes| *bytes == 50 * 512));
        assert_eq!(reopened(here.path()), now);
    }
}
