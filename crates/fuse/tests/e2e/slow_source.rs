//! A source that is slow to make files durable.

use std::ffi::OsStr;
use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, MountOption, OpenFlags, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyOpen, Request,
    Session,
};

use crate::support::{Mount, lacks};

/// A file system with a file of each name, which hands calls of `fsync` over to the test.
struct Slow(Sender<ReplyEmpty>);

const TTL: Duration = Duration::ZERO;

fn attributes(ino: INodeNo) -> FileAttr {
    let (kind, time) = match ino {
        INodeNo::ROOT => (FileType::Directory, SystemTime::UNIX_EPOCH),
        _ => (FileType::RegularFile, SystemTime::UNIX_EPOCH),
    };
    FileAttr {
        ino,
        size: 0,
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

impl Filesystem for Slow {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = INodeNo(2 + name.len() as u64);
        reply.entry(&TTL, &attributes(ino), Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.send(reply).unwrap();
    }
}

fn slow(at: &std::path::Path) -> (BackgroundSession, Receiver<ReplyEmpty>) {
    let (to, calls) = channel();
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("slow".to_owned())];
    (Session::new(Slow(to), at, &config).unwrap().spawn().unwrap(), calls)
}

/// Programs that made files durable had all threads that take calls, so that everybody else waited for the
/// source as well.
#[test]
fn others_go_on_while_files_become_durable() {
    if lacks("others_go_on_while_files_become_durable") {
        return;
    }
    let mut source = None;
    let mut mount = Mount::new(|options| {
        source = Some(slow(&options.source));
        options.threads = 2;
    });
    let (session, calls) = source.unwrap();
    let (done, is_done) = channel();
    std::thread::scope(|scope| {
        for name in ["a", "bb", "ccc"] {
            let path = mount.path(name);
            scope.spawn(|| File::open(path).unwrap().sync_all().unwrap());
        }
        let first = [calls.recv().unwrap(), calls.recv().unwrap()];
        let path = mount.path("another");
        scope.spawn(move || done.send(std::fs::metadata(path).is_ok()));
        let answered = is_done.recv_timeout(Duration::from_secs(10));
        first.into_iter().for_each(ReplyEmpty::ok);
        calls.recv().unwrap().ok();
        assert_eq!(answered, Ok(true));
    });
    mount.unmount();
    session.umount_and_join().unwrap();
}
