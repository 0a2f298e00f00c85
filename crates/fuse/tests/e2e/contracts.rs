//! Contracts of open files: asked for by ioctl, by attribute and by default, granted and refused.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use disktime_config::read_contract;
use disktime_core::{Contract, Share};
use disktime_fuse::{abi, client};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::support::{Mount, fill, lacks};

const NAME: &str = "user.disktime.contract";

fn reserving(percent: u32) -> Contract {
    Contract::reserving(Share::from_percent(percent).unwrap())
}

fn contract_of(file: &File) -> Contract {
    abi::contract(&client::get(file).unwrap()).unwrap()
}

#[test]
fn a_contract_is_granted_while_the_device_has_the_time_and_ends_with_its_file() {
    if lacks("a_contract_is_granted_while_the_device_has_the_time_and_ends_with_its_file") {
        return;
    }
    let mount = Mount::new(|_| {});
    let data = fill(&mount.source("film"), 300_000);
    let open = || File::open(mount.path("film")).unwrap();
    let (first, second) = (open(), open());
    assert_eq!(contract_of(&first), Contract::default(), "best effort at open");
    client::set(&first, &reserving(70)).unwrap();
    assert_eq!(contract_of(&first), reserving(70));
    let (error, answer) = client::set(&second, &reserving(40)).unwrap_err();
    assert_eq!(error, Errno::NOSPC);
    let refused = abi::refused(&answer);
    assert_eq!(refused.reason, abi::Reason::Overbooked);
    assert_eq!(refused.fits, Share::from_percent(30).unwrap());
    assert_eq!(contract_of(&second), Contract::default(), "a refusal changes nothing");
    assert_eq!(abi::refused(&client::get(&second).unwrap()), refused);
    client::set(&second, &reserving(30)).unwrap();
    // A copy of the descriptor is the same open file.
    let copy = first.try_clone().unwrap();
    drop(first);
    assert_eq!(contract_of(&copy), reserving(70));
    let mut read = vec![0; data.len()];
    copy.read_exact_at(&mut read, 0).unwrap();
    assert!(read == data);
    assert!(mount.figure("streams").contains("film"), "{}", mount.figure("streams"));
    drop((copy, second));
    let third = open();
    // The kernel tells of the end of a file after `close` has returned.
    let granted = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        client::set(&third, &reserving(100)).is_ok()
    });
    assert!(granted, "{}", mount.figure("streams"));
}

#[test]
fn calls_that_are_none_and_contracts_that_cannot_be_are_refused() {
    if lacks("calls_that_are_none_and_contracts_that_cannot_be_are_refused") {
        return;
    }
    let mount = Mount::new(|_| {});
    fill(&mount.source("film"), 1000);
    let file = File::open(mount.path("film")).unwrap();
    let refused = |text: &str| {
        let (error, answer) = client::set(&file, &read_contract(text).unwrap()).unwrap_err();
        (error, abi::refused(&answer).reason)
    };
    let rate = "class=guaranteed-rate rate=8MB/s";
    assert_eq!(refused(rate), (Errno::OPNOTSUPP, abi::Reason::NoProfile));
    let bound = "class=guaranteed-latency reserve=10% latency=60ms";
    assert_eq!(refused(bound), (Errno::OPNOTSUPP, abi::Reason::NoProfile));
    // As the C header's words would say it: a rate without its class.
    let mut contract = read_contract(rate).unwrap();
    contract.class = disktime_core::Class::BestEffort;
    let (error, answer) = client::set(&file, &contract).unwrap_err();
    assert_eq!((error, abi::refused(&answer).reason), (Errno::INVAL, abi::Reason::Invalid));
    assert_eq!(client::prioritize(&file, 3), Err(Errno::INVAL));
    assert_eq!(client::late(&file), Err(Errno::INVAL), "nothing was promised to it");
    client::prioritize(&file, 2).unwrap();
    client::late(&file).unwrap();
    client::prioritize(&file, 1).unwrap();
    assert_eq!(contract_of(&file), Contract::default());
    let directory = File::open(mount.at()).unwrap();
    assert_eq!(client::prioritize(&directory, 2), Err(Errno::NOTTY));
    let plain = File::open(mount.source("film")).unwrap();
    assert_eq!(client::prioritize(&plain, 2), Err(Errno::NOTTY));
}

#[test]
fn defaults_are_inherited_from_directories_and_an_attribute_changes_open_files() {
    if lacks("defaults_are_inherited_from_directories_and_an_attribute_changes_open_files") {
        return;
    }
    let mount = Mount::new(|options| options.default = Some(read_contract("weight=90").unwrap()));
    std::fs::create_dir_all(mount.source("films/new")).unwrap();
    fill(&mount.source("films/new/one"), 1000);
    fill(&mount.source("other"), 1000);
    let set = |path: &str, text: &str| {
        rustix::fs::setxattr(mount.path(path), NAME, text.as_bytes(), XattrFlags::empty())
    };
    set("films", "reserve=40%").unwrap();
    let one = File::open(mount.path("films/new/one")).unwrap();
    let other = File::open(mount.path("other")).unwrap();
    assert_eq!(contract_of(&one), reserving(40));
    assert_eq!(contract_of(&other), read_contract("weight=90").unwrap());
    // Not granted: the program has best effort and is told why.
    set("other", "reserve=10%").unwrap();
    assert_eq!(contract_of(&other), reserving(10));
    assert_eq!(set("other", "reserve=70%"), Err(Errno::NOSPC));
    assert_eq!(contract_of(&other), reserving(10));
    let mut value = [0; 100];
    let length = rustix::fs::getxattr(mount.path("other"), NAME, &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"reserve=10%", "the refused one is not kept");
    assert_eq!(set("films/new/one", "reserve=95%"), Err(Errno::NOSPC));
    let two = File::create(mount.path("films/new/two")).unwrap();
    let refused = abi::refused(&client::get(&two).unwrap());
    assert_eq!(contract_of(&two), reserving(40), "{refused:?}");
    let three = File::create(mount.path("films/three")).unwrap();
    let refused = abi::refused(&client::get(&three).unwrap());
    assert_eq!(contract_of(&three), Contract::default());
    assert_eq!(refused.reason, abi::Reason::Overbooked);
    // A file that is moved away inherits from its new place.
    std::fs::rename(mount.path("films/three"), mount.path("three")).unwrap();
    drop(three);
    let three = File::open(mount.path("three")).unwrap();
    assert_eq!(contract_of(&three), read_contract("weight=90").unwrap());
    for text in ["reserve", "reserve=200%", "\u{fc}"] {
        assert_eq!(set("films", text), Err(Errno::INVAL), "{text}");
    }
}

/// A file that was closed while the attribute was set kept its stream, and its reservation, for good.
#[test]
fn a_file_that_is_closed_while_its_default_changes_keeps_no_stream() {
    if lacks("a_file_that_is_closed_while_its_default_changes_keeps_no_stream") {
        return;
    }
    let mount = Mount::new(|_| {});
    fill(&mount.source("film"), 1000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| drop(File::open(mount.path("film")).unwrap())));
        }
        for round in 0..1000 {
            let text = if round % 2 == 0 { "reserve=0.01%" } else { "weight=50" };
            let flags = XattrFlags::empty();
            rustix::fs::setxattr(mount.path("film"), NAME, text.as_bytes(), flags).unwrap();
        }
    });
    let began = Instant::now();
    while mount.figure("streams").lines().count() > 2 {
        assert!(began.elapsed() < Duration::from_secs(10), "{}", mount.figure("streams"));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_rule_holds_where_no_attribute_does() {
    if lacks("a_rule_holds_where_no_attribute_does") {
        return;
    }
    let rules = ["user=4711 weight=1", "process=nobody weight=2", "user=root weight=3"];
    let mount = Mount::new(|options| {
        options.rules = rules.map(|rule| disktime_fuse::Rule::read(rule).unwrap()).into();
        options.default = Some(read_contract("weight=4").unwrap());
    });
    let film = File::create(mount.path("film")).unwrap();
    assert_eq!(contract_of(&film).weight, 3);
    rustix::fs::fsetxattr(&film, NAME, b"weight=5", XattrFlags::empty()).unwrap();
    assert_eq!(contract_of(&film).weight, 5, "the attribute changes a file that is open");
    assert_eq!(contract_of(&File::open(mount.path("film")).unwrap()).weight, 5);
}

#[test]
fn parameters_are_read_and_written_as_files() {
    if lacks("parameters_are_read_and_written_as_files") {
        return;
    }
    let mount = Mount::new(|_| {});
    fill(&mount.source("film"), 1000);
    let write = |name: &str, text: &str| std::fs::write(mount.path(".disktime").join(name), text);
    write("headroom", "20%\n").unwrap();
    assert_eq!(mount.figure("headroom"), "20%\n");
    let file = File::open(mount.path("film")).unwrap();
    let (_, answer) = client::set(&file, &reserving(90)).unwrap_err();
    assert_eq!(abi::refused(&answer).fits, Share::from_percent(80).unwrap());
    write("shared", "limit=50% weight=10").unwrap();
    assert_eq!(mount.figure("shared"), "class=best-effort reserve=0% limit=50% weight=10\n");
    for (name, text) in [("headroom", "120%"), ("queue_depth", "0"), ("shared", "weight=0")] {
        write(name, text).unwrap_err();
    }
    write("streams", "x").unwrap_err();
    client::set(&file, &reserving(30)).unwrap();
    let text = mount.figure("device");
    for line in ["queue_depth 32", "headroom 20%", "reserved_ppm 300000", "slack_ns 0"] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    let device = client::device(&file).unwrap();
    let words: Vec<u32> =
        device.chunks(4).map(|it| u32::from_ne_bytes(it.try_into().unwrap())).collect();
    assert_eq!(words[..8], [abi::VERSION, 32, 0, 200_000, 300_000, 0, 0, 0]);
    // It is found by name and in no listing.
    let names = std::fs::read_dir(mount.at()).unwrap().map(|it| it.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["film"]);
    std::fs::create_dir(mount.path(".disktime/new")).unwrap_err();
    // A name of the source that is hidden is not reached by removing or moving what hides it.
    std::fs::create_dir(mount.source(".disktime")).unwrap();
    std::fs::remove_dir(mount.path(".disktime")).unwrap_err();
    std::fs::rename(mount.path(".disktime"), mount.path("x")).unwrap_err();
    assert!(mount.source(".disktime").exists());
    let listed = std::fs::read_dir(mount.path(".disktime")).unwrap().count();
    assert_eq!(listed, 5);
}

/// A file that was opened while its attribute was set had the contract of neither before nor after.
#[test]
fn a_file_that_opens_while_its_attribute_is_set_has_the_contract() {
    const TEST: &str = "a_file_that_opens_while_its_attribute_is_set_has_the_contract";
    if lacks(TEST) {
        return;
    }
    let mount = Mount::new(|_| {});
    fill(&mount.source("film"), 1000);
    let path = &mount.path("film");
    let together = &Barrier::new(2);
    for round in 0..2000 {
        let weight = 5 + round % 2;
        let text = format!("weight={weight}");
        let file = std::thread::scope(|threads| {
            let opens = threads.spawn(move || {
                together.wait();
                File::open(path).unwrap()
            });
            together.wait();
            rustix::fs::setxattr(path, NAME, text.as_bytes(), XattrFlags::empty()).unwrap();
            opens.join().unwrap()
        });
        assert_eq!(contract_of(&file).weight, weight, "round {round}");
    }
    // One that is refused changes nothing for files that are opened later.
    let open = || File::open(path).unwrap();
    let both = [open(), open()];
    let refused = rustix::fs::setxattr(path, NAME, b"reserve=60%", XattrFlags::empty());
    assert_eq!(refused, Err(Errno::NOSPC));
    drop(both);
    assert_eq!(contract_of(&open()), Contract { weight: 6, ..Contract::default() });
}
