//! The same calls in a directory of the source's file system and through the mount give the same
//! results and leave the same tree: the kernel's own file system is the oracle.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use disktime_config::read_contract;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{
    self, AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, SeekFrom,
    Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io;

use crate::support::{Mount, lacks};

/// Places of a directory at which calls are made: files and directories, one in another.
const NAMES: [&[u8]; 7] = [b"a", b"b", b"d", b"d/a", b"d/e", b"d/e/\xff\xfe", &[b'n'; 255]];
/// Files that stay open from call to call.
const OPEN: usize = 3;

#[derive(Clone, Debug)]
enum Call {
    /// A file is opened to stay so, with flags.
    Open(usize, usize, u32, u32),
    Close(usize),
    Write(usize, u64, usize),
    Read(usize, u64, usize),
    /// By the file's own place, which the program shares with nobody.
    WriteOn(usize, usize),
    Truncate(usize, u64),
    Allocate(usize, u32, u64, u64),
    SeekTo(usize, bool, u64),
    CopyRange(usize, u64, usize, u64, usize),
    Sync(usize),
    Rename(usize, usize, u32),
    Link(usize, usize),
    Symlink(usize, usize),
    ReadLink(usize),
    MakeDirectory(usize, u32),
    RemoveDirectory(usize),
    Unlink(usize),
    MakeFifo(usize),
    Chmod(usize, u32),
    Chown(usize, u32, u32),
    Times(usize, i64),
    SetAttribute(usize, usize, usize),
    RemoveAttribute(usize, usize),
    List(usize),
}

fn call() -> impl Strategy<Value = Call> {
    let name = 0..NAMES.len();
    let open = 0..OPEN;
    let at = prop_oneof![0_u64..64, 4_000_u64..4_200, 0_u64..300_000];
    let bytes = prop_oneof![0_usize..50, 4_000_usize..4_200, Just(150_000_usize)];
    let flags = prop::sample::select(vec![
        OFlags::RDWR | OFlags::CREATE,
        OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC,
        OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE,
        OFlags::RDWR | OFlags::APPEND,
        OFlags::RDONLY,
        OFlags::WRONLY,
        OFlags::RDONLY | OFlags::DIRECTORY,
        OFlags::RDWR | OFlags::NOFOLLOW,
    ]);
    let mode = prop::sample::select(vec![0o644, 0o600, 0o4755, 0o2755, 0o1777, 0o000, 0o640]);
    let range = prop::sample::select(vec![
        FallocateFlags::empty(),
        FallocateFlags::KEEP_SIZE,
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        FallocateFlags::ZERO_RANGE,
    ]);
    let rename = prop::sample::select(vec![
        RenameFlags::empty(),
        RenameFlags::empty(),
        RenameFlags::NOREPLACE,
        RenameFlags::EXCHANGE,
    ]);
    prop_oneof![
        4 => (open.clone(), name.clone(), flags, mode.clone())
            .prop_map(|(o, n, f, m)| Call::Open(o, n, f.bits(), m)),
        1 => open.clone().prop_map(Call::Close),
        5 => (open.clone(), at.clone(), bytes.clone()).prop_map(|(o, a, b)| Call::Write(o, a, b)),
        4 => (open.clone(), at.clone(), bytes.clone()).prop_map(|(o, a, b)| Call::Read(o, a, b)),
        2 => (open.clone(), bytes.clone()).prop_map(|(o, b)| Call::WriteOn(o, b)),
        2 => (open.clone(), at.clone()).prop_map(|(o, a)| Call::Truncate(o, a)),
        2 => (open.clone(), range, at.clone(), at.clone())
            .prop_map(|(o, f, a, b)| Call::Allocate(o, f.bits(), a, b)),
        1 => (open.clone(), any::<bool>(), at.clone()).prop_map(|(o, d, a)| Call::SeekTo(o, d, a)),
        2 => (open.clone(), at.clone(), open.clone(), at, bytes)
            .prop_map(|(o, a, p, b, n)| Call::CopyRange(o, a, p, b, n)),
        1 => open.prop_map(Call::Sync),
        3 => (name.clone(), name.clone(), rename).prop_map(|(n, m, f)| Call::Rename(n, m, f.bits())),
        2 => (name.clone(), name.clone()).prop_map(|(n, m)| Call::Link(n, m)),
        1 => (name.clone(), name.clone()).prop_map(|(n, m)| Call::Symlink(n, m)),
        1 => name.clone().prop_map(Call::ReadLink),
        3 => (name.clone(), mode.clone()).prop_map(|(n, m)| Call::MakeDirectory(n, m)),
        1 => name.clone().prop_map(Call::RemoveDirectory),
        2 => name.clone().prop_map(Call::Unlink),
        1 => name.clone().prop_map(Call::MakeFifo),
        1 => (name.clone(), mode).prop_map(|(n, m)| Call::Chmod(n, m)),
        1 => (name.clone(), 0_u32..3, 0_u32..3).prop_map(|(n, u, g)| Call::Chown(n, u, g)),
        1 => (name.clone(), -5_i64..2_000_000_000).prop_map(|(n, t)| Call::Times(n, t)),
        1 => (name.clone(), 0_usize..3, 0_usize..200)
            .prop_map(|(n, a, b)| Call::SetAttribute(n, a, b)),
        1 => (name.clone(), 0_usize..3).prop_map(|(n, a)| Call::RemoveAttribute(n, a)),
        1 => name.prop_map(Call::List),
    ]
}

/// One of the two trees, with its open files.
struct Tree {
    top: PathBuf,
    open: [Option<OwnedFd>; OPEN],
}

/// The answer to a call, comparable: numbers and bytes.
type Given = io::Result<Vec<u8>>;

impl Tree {
    fn new(top: PathBuf) -> Self {
        std::fs::create_dir(&top).unwrap();
        Self { top, open: [const { None }; OPEN] }
    }

    fn path(&self, name: usize) -> PathBuf {
        self.top.join(OsStr::from_bytes(NAMES[name]))
    }

    fn file(&self, open: usize) -> io::Result<&OwnedFd> {
        self.open[open].as_ref().ok_or(io::Errno::BADF)
    }

    fn run(&mut self, call: &Call) -> Given {
        let nothing = |()| Vec::new();
        let number = |number: u64| number.to_le_bytes().to_vec();
        match *call {
            Call::Open(open, name, flags, mode) => {
                // Opening a fifo waits for another program.
                let flags = OFlags::from_bits_retain(flags) | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let path = self.path(name);
                self.open[open] = None;
                let opened = fs::open(path, flags, Mode::from_raw_mode(mode))?;
                let regular = FileType::from_raw_mode(fs::fstat(&opened)?.st_mode);
                self.open[open] = (regular == FileType::RegularFile).then_some(opened);
                Ok(Vec::new())
            }
            Call::Close(open) => {
                self.open[open] = None;
                Ok(Vec::new())
            }
            Call::Write(open, at, bytes) => {
                let data: Vec<u8> = (0..bytes).map(|byte| (at as usize + byte) as u8).collect();
                // With O_APPEND Linux writes at the end whatever the place.
                let flags = fs::fcntl_getfl(self.file(open)?)?;
                if flags.contains(OFlags::APPEND) {
                    return io::write(self.file(open)?, &data).map(|done| number(done as u64));
                }
                io::pwrite(self.file(open)?, &data, at).map(|done| number(done as u64))
            }
            Call::Read(open, at, bytes) => {
                let mut data = vec![0; bytes];
                let done = io::pread(self.file(open)?, &mut data, at)?;
                data.truncate(done);
                Ok(data)
            }
            Call::WriteOn(open, bytes) => {
                io::write(self.file(open)?, &vec![7; bytes]).map(|done| number(done as u64))
            }
            Call::Truncate(open, bytes) => fs::ftruncate(self.file(open)?, bytes).map(nothing),
            Call::Allocate(open, flags, at, bytes) => {
                let flags = FallocateFlags::from_bits_retain(flags);
                fs::fallocate(self.file(open)?, flags, at, bytes).map(nothing)
            }
            Call::SeekTo(open, data, at) => {
                // A file system may take for a hole what is not on the medium yet, or not: it is to be there.
                fs::fsync(self.file(open)?)?;
                let to = if data { SeekFrom::Data(at) } else { SeekFrom::Hole(at) };
                fs::seek(self.file(open)?, to).map(number)
            }
            Call::CopyRange(open, mut from, other, mut to, bytes) => {
                let (source, target) = (self.file(open)?, self.file(other)?);
                let (from, to) = (Some(&mut from), Some(&mut to));
                fs::copy_file_range(source, from, target, to, bytes).map(|it| number(it as u64))
            }
            Call::Sync(open) => fs::fsync(self.file(open)?).map(nothing),
            Call::Rename(from, to, flags) => {
                let flags = RenameFlags::from_bits_retain(flags);
                fs::renameat_with(CWD, self.path(from), CWD, self.path(to), flags).map(nothing)
            }
            Call::Link(from, to) => fs::link(self.path(from), self.path(to)).map(nothing),
            Call::Symlink(to, at) => {
                fs::symlink(OsStr::from_bytes(NAMES[to]), self.path(at)).map(nothing)
            }
            Call::ReadLink(name) => {
                fs::readlink(self.path(name), Vec::new()).map(std::ffi::CString::into_bytes)
            }
            Call::MakeDirectory(name, mode) => {
                // Without the right to search a directory nobody but the superuser sees what is in it.
                fs::mkdir(self.path(name), Mode::from_raw_mode(mode | 0o700)).map(nothing)
            }
            Call::RemoveDirectory(name) => fs::rmdir(self.path(name)).map(nothing),
            Call::Unlink(name) => fs::unlink(self.path(name)).map(nothing),
            Call::MakeFifo(name) => {
                let mode = Mode::from_raw_mode(0o644);
                fs::mknodat(CWD, self.path(name), FileType::Fifo, mode, 0).map(nothing)
            }
            Call::Chmod(name, mode) => {
                fs::chmod(self.path(name), Mode::from_raw_mode(mode)).map(nothing)
            }
            Call::Chown(name, uid, gid) => {
                let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
                let follow = AtFlags::SYMLINK_NOFOLLOW;
                fs::chownat(CWD, self.path(name), Some(uid), Some(gid), follow).map(nothing)
            }
            Call::Times(name, seconds) => {
                let at = Timespec { tv_sec: seconds, tv_nsec: 123_456_789 };
                let times = Timestamps { last_access: at, last_modification: at };
                let follow = AtFlags::SYMLINK_NOFOLLOW;
                fs::utimensat(CWD, self.path(name), &times, follow)?;
                let stat = fs::statat(CWD, self.path(name), follow)?;
                Ok(format!("{} {}", stat.st_mtime, stat.st_mtime_nsec).into_bytes())
            }
            Call::SetAttribute(name, attribute, bytes) => {
                let (path, value) = (self.path(name), vec![b'v'; bytes]);
                fs::lsetxattr(path, format!("user.{attribute}"), &value, XattrFlags::empty())
                    .map(nothing)
            }
            Call::RemoveAttribute(name, attribute) => {
                fs::lremovexattr(self.path(name), format!("user.{attribute}")).map(nothing)
            }
            Call::List(name) => Ok(format!("{:?}", self.names(&self.path(name))?).into_bytes()),
        }
    }

    fn names(&self, at: &Path) -> io::Result<Vec<(Vec<u8>, FileType)>> {
        let directory = fs::open(at, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(directory)? {
            let entry = entry?;
            names.push((entry.file_name().to_bytes().to_vec(), entry.file_type()));
        }
        names.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(names)
    }

    /// Everything that is in it, by path.
    fn all(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.top.clone()];
        while let Some(at) = left.pop() {
            let stat = fs::lstat(&at).unwrap();
            let kind = FileType::from_raw_mode(stat.st_mode);
            let mut said = format!("{:o} {} {}", stat.st_mode, stat.st_uid, stat.st_gid);
            if kind != FileType::Directory {
                said += &format!(" {} {} bytes", stat.st_nlink, stat.st_size);
            }
            match kind {
                FileType::RegularFile => {
                    let data = std::fs::read(&at).unwrap();
                    let sum = data.iter().fold(0_u64, |sum, byte| {
                        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
                    });
                    said += &format!(" {sum:x}");
                }
                FileType::Symlink => said += &format!(" {:?}", std::fs::read_link(&at).unwrap()),
                FileType::Directory => {
                    let names = self.names(&at).unwrap();
                    let below = names.iter().filter(|(name, _)| name != b"." && name != b"..");
                    left.extend(below.map(|(name, _)| at.join(OsStr::from_bytes(name))));
                }
                _ => {}
            }
            for attribute in 0..3 {
                let mut value = vec![0; 300];
                let got = fs::lgetxattr(&at, format!("user.{attribute}"), &mut value[..]);
                said += &format!(" {got:?}");
            }
            found.insert(at.strip_prefix(&self.top).unwrap().to_owned(), said);
        }
        found
    }
}

/// Runs many sequences of calls on both.
fn conforms(mount: &Mount, cases: u32) {
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let number = std::cell::Cell::new(0);
    let sequences = prop::collection::vec(call(), 1..60);
    let outcome = runner.run(&sequences, |calls| {
        number.set(number.get() + 1);
        let name = format!("case-{}", number.get());
        let mut plain = Tree::new(mount.source(&format!("plain-{name}")));
        let mut through = Tree::new(mount.path(&name));
        for call in &calls {
            let (expected, got) = (plain.run(call), through.run(call));
            prop_assert_eq!(got, expected, "{:?}", call);
        }
        prop_assert_eq!(through.all(), plain.all());
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn calls_through_a_mount_answer_as_on_the_source() {
    if lacks("calls_through_a_mount_answer_as_on_the_source") {
        return;
    }
    conforms(&Mount::new(|_| {}), 150);
}

#[test]
fn calls_that_go_through_the_engine_answer_as_on_the_source() {
    if lacks("calls_that_go_through_the_engine_answer_as_on_the_source") {
        return;
    }
    let mount = Mount::new(|options| options.default = Some(read_contract("weight=50").unwrap()));
    conforms(&mount, 80);
    assert!(mount.figure("streams").contains("weight=100"));
}

#[test]
fn calls_of_files_that_the_kernel_takes_over_answer_as_on_the_source() {
    if lacks("calls_of_files_that_the_kernel_takes_over_answer_as_on_the_source") {
        return;
    }
    conforms(&Mount::new(|options| options.pass_through = true), 80);
}

#[test]
fn an_inode_is_forgotten_when_the_kernel_forgets_it() {
    if lacks("an_inode_is_forgotten_when_the_kernel_forgets_it") {
        return;
    }
    let mount = Mount::new(|_| {});
    for number in 0..500 {
        File::create(mount.path(&format!("{number}"))).unwrap();
    }
    assert!(mount.inodes() >= 500);
    for number in 0..500 {
        std::fs::remove_file(mount.path(&format!("{number}"))).unwrap();
    }
    assert!(mount.inodes() < 10, "{} are still known", mount.inodes());
}
