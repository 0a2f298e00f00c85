//! Programs that use the source beside the mount, and a source that the mount may not search.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use disktime_config::read_contract;
use disktime_fuse::{Options, client};
use rustix::mount::MountFlags;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::support::{Mount, fill, lacks, skip};

/// A file's end was where the kernel knew it a second ago: the write lay on bytes that were there since.
#[test]
fn an_append_takes_nothing_away_that_the_source_got_meanwhile() {
    if lacks("an_append_takes_nothing_away_that_the_source_got_meanwhile") {
        return;
    }
    let mount = Mount::new(|_| {});
    std::fs::write(mount.source("log"), "first\n").unwrap();
    let append = |path| OpenOptions::new().append(true).open(path).unwrap();
    let (mut through, mut beside) = (append(mount.path("log")), append(mount.source("log")));
    let mut expected = "first\n".to_owned();
    for contract in ["", "weight=50"] {
        if !contract.is_empty() {
            client::set(&through, &read_contract(contract).unwrap()).unwrap();
        }
        for number in 0..20 {
            let lines = [format!("source {number}\n"), format!("mount {number} {contract}\n")];
            beside.write_all(lines[0].as_bytes()).unwrap();
            through.write_all(lines[1].as_bytes()).unwrap();
            expected.extend(lines);
        }
    }
    assert_eq!(std::fs::read_to_string(mount.source("log")).unwrap(), expected);
    assert_eq!(std::fs::read_to_string(mount.path("log")).unwrap(), expected);
}

/// Half a second before 1970 was set as one and a half.
#[test]
fn times_before_1970_are_set_as_they_are() {
    if lacks("times_before_1970_are_set_as_they_are") {
        return;
    }
    let mount = Mount::new(|_| {});
    let file = File::create(mount.path("old")).unwrap();
    for nanos in [1, 500_000_000, 1_000_000_000, 1_500_000_001, 86_400_000_000_000] {
        let time: SystemTime = UNIX_EPOCH - Duration::from_nanos(nanos);
        file.set_modified(time).unwrap();
        for path in [mount.source("old"), mount.path("old")] {
            let stat = std::fs::metadata(path).unwrap();
            let found = stat.mtime() * 1_000_000_000 + stat.mtime_nsec();
            assert_eq!(-found, i64::try_from(nanos).unwrap());
        }
    }
}

/// Takes rights from this thread and those that it starts.
fn give_up(rights: CapabilitySet) {
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None).unwrap();
    let [effective, permitted] = [effective, permitted].map(|set| set.difference(rights));
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable }).unwrap();
}

/// A mount whose thread of before has changed its options, and maybe its own rights.
fn apart(change: impl FnOnce(&mut Options) + Send) -> Mount {
    std::thread::scope(|scope| scope.spawn(|| Mount::new(change)).join().unwrap())
}

/// Users who are not the superuser were told to say `--recover`, which they had said.
#[test]
fn a_user_who_may_not_unmount_recovers_a_mount_with_the_helper() {
    const TEST: &str = "a_user_who_may_not_unmount_recovers_a_mount_with_the_helper";
    if lacks(TEST) {
        return;
    }
    if std::process::Command::new("fusermount3").arg("-V").output().is_err() {
        return skip(TEST, "fusermount3 is not installed");
    }
    let mount = apart(|options| {
        options.recover = true;
        std::fs::write(options.source.join("film"), "film").unwrap();
        let kernel = File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", kernel.as_raw_fd());
        let data = std::ffi::CString::new(data).unwrap();
        rustix::mount::mount("dead", &options.at, "fuse", MountFlags::empty(), &*data).unwrap();
        drop(kernel);
        std::fs::read_dir(&options.at).unwrap_err();
        give_up(CapabilitySet::SYS_ADMIN);
    });
    assert_eq!(std::fs::read_to_string(mount.path("film")).unwrap(), "film");
}

/// A copy of such a listing lacked files, and no program was told.
#[test]
fn a_listing_has_names_whose_inodes_cannot_be_had() {
    if lacks("a_listing_has_names_whose_inodes_cannot_be_had") {
        return;
    }
    // The mount may list the directory, not search it.
    let rights = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let mount = apart(|_| give_up(rights));
    std::fs::create_dir(mount.source("films")).unwrap();
    for number in 0..20 {
        fill(&mount.source(&format!("films/{number}")), 10);
    }
    let rights = std::fs::Permissions::from_mode(0o444);
    std::fs::set_permissions(mount.source("films"), rights).unwrap();
    let listed = || std::fs::read_dir(mount.path("films")).unwrap().count();
    assert_eq!(listed(), 20);
    std::fs::metadata(mount.path("films/1")).unwrap_err();
    assert_eq!(listed(), 20, "the kernel asks for attributes, too, once a program has");
}
