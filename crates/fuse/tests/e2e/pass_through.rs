//! Files that the kernel has taken over.

use std::io::{Read, Write};

use disktime_config::read_contract;
use disktime_core::Contract;
use disktime_fuse::{abi, client};

use crate::support::{Mount, fill, lacks, skip};

#[test]
fn files_without_a_contract_are_taken_over_and_get_none_later() {
    const NAME: &str = "files_without_a_contract_are_taken_over_and_get_none_later";
    if lacks(NAME) {
        return;
    }
    let mount = Mount::new(|options| options.pass_through = true);
    let data = fill(&mount.source("film"), 3_000_000);
    let film = mount.path("film");
    let mut taken_over = std::fs::File::options().read(true).write(true).open(film).unwrap();
    if let Some(why) = mount.passes_not_through() {
        return skip(NAME, why);
    }
    let mut found = Vec::new();
    taken_over.read_to_end(&mut found).unwrap();
    assert!(found == data);
    taken_over.write_all(b"more").unwrap();
    assert_eq!(std::fs::metadata(mount.path("film")).unwrap().len(), 3_000_004);
    // It can't have one any more, and beside it one with a contract comes through the engine, and reads the same.
    let set = |file: &str, value: &[u8]| {
        let (path, name) = (mount.path(file), "user.disktime.contract");
        rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty())
    };
    assert_eq!(set("film", b"weight=5"), Err(rustix::io::Errno::BUSY));
    let (_, answer) = client::set(&taken_over, &read_contract("weight=5").unwrap()).unwrap_err();
    assert_eq!(abi::refused(&answer).reason, abi::Reason::PassThrough);
    client::set(&taken_over, &Contract::default()).unwrap();
    std::fs::create_dir(mount.path("classed")).unwrap();
    set("classed", b"weight=5").unwrap();
    std::fs::hard_link(mount.source("film"), mount.source("classed/film")).unwrap();
    let mut classed = std::fs::File::open(mount.path("classed/film")).unwrap();
    let mut found = Vec::new();
    classed.read_to_end(&mut found).unwrap();
    assert!(found == [&*data, b"more"].concat());
    let streams = mount.figure("streams");
    assert!(streams.contains("weight=5"), "{streams}");
    // While it is open no other file is taken over.
    fill(&mount.source("other"), 1000);
    let other = std::fs::File::open(mount.path("other")).unwrap();
    client::set(&other, &read_contract("weight=6").unwrap()).unwrap();
    drop((classed, other, taken_over));
    assert!(std::fs::read(mount.path("film")).unwrap().ends_with(b"more"));
}

/// The kernel refuses (EIO) a file that is taken over to another descriptor than its inode is already.
#[test]
fn files_that_close_beside_others_that_open_do_not_break_them() {
    const NAME: &str = "files_that_close_beside_others_that_open_do_not_break_them";
    if lacks(NAME) {
        return;
    }
    let mount = Mount::new(|options| options.pass_through = true);
    let names: [_; 16] = std::array::from_fn(|file| format!("{file}"));
    let paths = names.map(|name| {
        fill(&mount.source(&name), 1000);
        mount.path(&name)
    });
    let first = std::fs::File::open(&paths[0]).unwrap();
    if let Some(why) = mount.passes_not_through() {
        return skip(NAME, why);
    }
    drop(first);
    std::thread::scope(|threads| {
        for path in paths {
            threads.spawn(move || {
                for round in 0..1000 {
                    for file in [0; 3].map(|_| std::fs::File::open(&path)) {
                        assert!(file.is_ok(), "{}, round {round}: {file:?}", path.display());
                    }
                }
            });
        }
    });
}
