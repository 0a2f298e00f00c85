//! A source that is slow to make files durable.

use std::ffi::OsStr;
use std::fs::File;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use fuser::{
    FileHandle, Filesystem, FopenFlags, Generation, INodeNo, OpenFlags, ReplyAttr, ReplyEmpty,
    ReplyEntry, ReplyOpen, Request,
};

use crate::support::{Mount, attributes, lacks, serve};

/// A file system with a file of each name, which hands calls of `fsync` over to the test.
struct Slow(Sender<ReplyEmpty>);

const TTL: Duration = Duration::ZERO;

impl Filesystem for Slow {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = INodeNo(2 + name.len() as u64);
        reply.entry(&TTL, &attributes(ino, 0), Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &attributes(ino, 0));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.send(reply).unwrap();
    }
}

/// Programs that made files durable had all threads that take calls, so that everybody else waited for the
/// source as well.
#[test]
fn others_go_on_while_files_become_durable() {
    if lacks("others_go_on_while_files_become_durable") {
        return;
    }
    let (to, calls) = channel();
    let mut source = None;
    let mut mount = Mount::new(|options| {
        source = Some(serve(Slow(to), &options.source));
        options.threads = 2;
    });
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
    source.unwrap().umount_and_join().unwrap();
}
