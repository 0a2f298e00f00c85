//! Extents of one file: nobody reaches another's.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::os::unix::fs::FileExt;

use disktime_core::Kind;

use super::*;
use crate::backend::{BackEnd, DeviceError, Job, Step};
use crate::buffers::{ALIGN, Pool};
use crate::ring::{Finished, Ring, Token};

const KINDS: [Kind; 5] = [Kind::Read, Kind::Write, Kind::Trim, Kind::Zeroes, Kind::Flush];

/// Runs one job to its end.
fn run(back_end: &mut FileBackEnd, job: &mut Job, io: &mut Io<'_>) -> Result<(), DeviceError> {
    let mut step = back_end.start(0, job, io);
    let mut finished = Vec::new();
    loop {
        if let Step::Done(result) = step {
            return result;
        }
        io.ring.wait(None).unwrap();
        io.ring.reap(&mut finished);
        for Finished { token, keep, result } in finished.drain(..) {
            let Token::Job { step: part, .. } = token else { panic!("{token:?}") };
            step = back_end.finished(0, part, job, (keep, result), io);
        }
    }
}

/// Three disks side by side, the middle one 6,000 bytes long (two blocks), are asked for anything
/// at, before and past their ends, in any shape. The neighbours' bytes must not change, and what
/// leaves the disk must be refused, not cut.
#[test]
fn no_job_reaches_another_extent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let image = File::create(&path).unwrap();
    image.write_all_at(&[7; 4 * 4096], 0).unwrap();
    let file = OneFile::open(&path).unwrap().unwrap();
    let mut back_end = FileBackEnd::extents(&file, &[(0, 4096), (4096, 6000), (3 * 4096, 4096)]);
    let mut pool = Pool::for_files();
    let mut ring = Ring::new(pool.arena()).unwrap();
    for kind in KINDS {
        for offset in [0, 1, 511, 4096, 5999, 6000, 8191, 8192, 8193, 1 << 40, u64::MAX] {
            for bytes in [1, 512, 4095, 4096, 6000, 8192, 8193, 12_288] {
                let mut job = Job::new(1, kind, offset, bytes);
                let fits = offset.checked_add(bytes).is_some_and(|end| end <= 8192);
                job.at = usize::try_from(offset % BLOCK).unwrap();
                job.buffer = pool.take_for_data(6 * ALIGN);
                let mut io = Io { ring: &mut ring, pool: &mut pool };
                let result = run(&mut back_end, &mut job, &mut io);
                assert_eq!(result.is_ok(), fits, "{kind:?} at {offset} + {bytes}: {result:?}");
            }
        }
    }
    let mut all = vec![0; 5 * 4096];
    assert_eq!(File::open(&path).unwrap().read_at(&mut all, 0).unwrap(), 4 * 4096);
    assert!(all[..4096].iter().chain(&all[3 * 4096..4 * 4096]).all(|byte| *byte == 7));
    assert!(all[4096..3 * 4096].iter().any(|byte| *byte != 7), "the disk itself was written");
}

#[test]
fn a_file_has_one_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    std::fs::write(&path, [0; 4096]).unwrap();
    let first = OneFile::open(&path).unwrap();
    assert_eq!(first.as_ref().map(|file| (file.size, file.block_device)), Some((4096, false)));
    let error = OneFile::open(&path).err().unwrap().to_string();
    assert!(error.contains("another server has it open"), "{error}");
    drop(first);
    assert!(OneFile::open(&path).unwrap().is_some());
    assert!(OneFile::open(directory.path()).unwrap().is_none(), "a directory is none");
    assert!(OneFile::open(&directory.path().join("new")).unwrap().is_none());
}

/// A block device's metadata say that it has 0 bytes. So the hole that is punched past the end, to
/// see whether that can be, was made in its first block, and took the first virtual disk's data.
#[test]
fn a_block_device_is_not_tried_for_holes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    std::fs::write(&path, [7; 8192]).unwrap();
    let mut file = OneFile::open(&path).unwrap().unwrap();
    file.block_device = true;
    assert!(!FileBackEnd::extents(&file, &[(0, 8192)]).abilities().trim);
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7));
}
