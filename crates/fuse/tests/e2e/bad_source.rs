//! A source whose calls fail.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use disktime_config::read_contract;
use disktime_fuse::client;
use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, Request,
};
use nix::unistd::close;

use crate::support::{Mount, attributes, lacks, serve};

/// A file system with a file of each name. Some of its bytes can't be read, and it has no space when one is closed.
struct Bad;

const TTL: Duration = Duration::ZERO;
const BYTES: u64 = 512 << 10;
const UNREADABLE: Range<u64> = 200 << 10..204 << 10;

impl Filesystem for Bad {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = INodeNo(2 + name.len() as u64);
        reply.entry(&TTL, &attributes(ino, BYTES), Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &attributes(ino, BYTES));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let end = BYTES.min(offset + u64::from(size));
        if offset < UNREADABLE.end && end > UNREADABLE.start {
            return reply.error(Errno::EIO);
        }
        reply.data(&vec![b'y'; end.saturating_sub(offset) as usize]);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSPC);
    }
}

/// The kernel took what could be read before for the whole file, so that a copy of it ended there without an error;
/// and a program that checked how its file was closed was told that all was well.
#[test]
fn errors_in_the_middle_of_a_read_and_at_close_reach_the_program() {
    if lacks("errors_in_the_middle_of_a_read_and_at_close_reach_the_program") {
        return;
    }
    let mut source = None;
    let mut mount = Mount::new(|options| source = Some(serve(Bad, &options.source)));
    for contract in ["", "weight=50", "class=background"] {
        let mut file = File::open(mount.path("film")).unwrap();
        if !contract.is_empty() {
            client::set(&file, &read_contract(contract).unwrap()).unwrap();
        }
        let mut found = Vec::new();
        let error = file.read_to_end(&mut found).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{contract}");
        assert_eq!(found.len() as u64, UNREADABLE.start, "{contract}");
        let mut rest = vec![0; (BYTES - UNREADABLE.end) as usize];
        file.read_exact_at(&mut rest, UNREADABLE.end).unwrap();
        assert!(rest.iter().all(|byte| *byte == b'y'));
        assert_eq!(close(file), Err(nix::errno::Errno::ENOSPC), "{contract}");
    }
    mount.unmount();
    source.unwrap().umount_and_join().unwrap();
}
