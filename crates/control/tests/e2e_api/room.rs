//! File systems that are full, or can't be written: changes are refused whole, and made when that ends.

use std::path::{Path, PathBuf};

use disktime_api::{Device, Problem, Vdisk};
use serde_json::json;

use crate::{Daemon, db, read, skip, succeeds};

const MIB: u64 = 1 << 20;

/// A small file system of its own, which can be filled.
struct Small(PathBuf);

impl Small {
    fn mount(path: &Path) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let words = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", path.to_str().unwrap()];
        succeeds(&words).then(|| Self(path.to_owned()))
    }

    fn fill(&self) -> PathBuf {
        use std::io::Write;
        let path = self.0.join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        path
    }
}

/// Ends a daemon; its successor on the same state has so many virtual disks.
fn restarted(daemon: Daemon, state: &Path, vdisks: usize) -> Daemon {
    drop(daemon);
    let daemon = Daemon::of_state(state);
    let all: Vec<Vdisk> = read(&daemon.ask("GET", "/v1/vdisks", None));
    assert_eq!(all.len(), vdisks);
    daemon
}

impl Drop for Small {
    fn drop(&mut self) {
        succeeds(&["umount", "-l", self.0.to_str().unwrap()]);
    }
}

/// A change that is refused for want of room has not happened, and one that finds room again is made:
/// the store used to refuse everything after its first failed write, until the daemon was started anew.
#[test]
fn a_full_state_directory_refuses_changes_and_goes_on_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let Some(small) = Small::mount(&state) else {
        let name = "a_full_state_directory_refuses_changes_and_goes_on_when_there_is_room";
        return skip(name, "no file system can be mounted");
    };
    let daemon = Daemon::of_state(&state);
    let pool = directory.path().join("pool");
    daemon.add_pool(&pool);
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({})))).status, 201);
    let filler = small.fill();
    let name = |at: u32| format!("v{at}");
    let long = "x".repeat(1000);
    let put = |at: u32| {
        let spec = json!({"name": name(at), "device": "disk", "size": "1MiB", "description": long});
        daemon.ask("PUT", &format!("/v1/vdisks/{}", name(at)), Some(&spec))
    };
    let refused = (0..3000).find(|at| put(*at).status != 201).expect("it is full");
    let answer = put(refused);
    let problem: Problem = read(&answer);
    assert_eq!(answer.status, 507, "{problem:?}");
    assert!(problem.detail.contains("not full"), "{problem:?}");
    let vdisks: Vec<Vdisk> = read(&daemon.ask("GET", "/v1/vdisks", None));
    assert_eq!(vdisks.len(), 1 + refused as usize);
    assert!(!pool.join(format!("v{refused}.raw")).exists());
    let raised = daemon.ask("PATCH", "/v1/vdisks/db", Some(&json!({"weight": 9})));
    if raised.status != 200 {
        let vdisk: Vdisk = read(&daemon.ask("GET", "/v1/vdisks/db", None));
        assert_eq!(vdisk.contract.weight, 100, "it was refused");
    }
    std::fs::remove_file(filler).unwrap();
    assert_eq!(put(refused).status, 201, "there is room again");
    let daemon = restarted(daemon, &state, 2 + refused as usize);
    drop(daemon);
}

/// A file that could not be entered in the pool's identity stayed there, and its name could not be had
/// any more.
#[test]
fn a_full_pool_refuses_virtual_disks_whole_and_goes_on_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(&directory.path().join("small")) else {
        let name = "a_full_pool_refuses_virtual_disks_whole_and_goes_on_when_there_is_room";
        return skip(name, "no file system can be mounted");
    };
    let state = directory.path().join("state");
    let daemon = Daemon::of_state(&state);
    let pool = small.0.join("pool");
    daemon.add_pool(&pool);
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({})))).status, 201);
    let filler = small.fill();
    let put = |at: u32| {
        let spec = json!({"name": format!("v{at}"), "device": "disk", "size": "1MiB"});
        daemon.ask("PUT", &format!("/v1/vdisks/v{at}"), Some(&spec))
    };
    let refused = (0..3000).find(|at| put(*at).status != 201).expect("it is full");
    let answer = put(refused);
    let problem: Problem = read(&answer);
    assert_eq!(answer.status, 507, "{problem:?}");
    assert!(problem.detail.contains("No space left"), "{problem:?}");
    assert!(problem.detail.contains("make room"), "{problem:?}");
    let raw = pool.join(format!("v{refused}.raw"));
    assert!(!raw.exists());
    std::fs::remove_file(filler).unwrap();
    assert_eq!(put(refused).status, 201, "there is room again");
    let daemon = restarted(daemon, &state, 2 + refused as usize);
    assert!(raw.exists());
    drop(daemon);
}

/// A file that nobody may change until this is dropped, not even through what is open.
struct Immutable<'a>(&'a Path);

impl<'a> Immutable<'a> {
    fn make(path: &'a Path) -> Option<Self> {
        succeeds(&["chattr", "+i", path.to_str().unwrap()]).then_some(Self(path))
    }
}

impl Drop for Immutable<'_> {
    fn drop(&mut self) {
        succeeds(&["chattr", "-i", self.0.to_str().unwrap()]);
    }
}

/// A file system that has an error becomes read-only under a daemon that runs.
#[test]
fn a_state_that_becomes_read_only_refuses_changes_whole_and_goes_on_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let (state, pool) = (directory.path().join("state"), directory.path().join("pool"));
    let daemon = Daemon::of_state(&state);
    daemon.add_pool(&pool);
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({})))).status, 201);
    let empty = json!({"name": "empty", "back_end": "memory"});
    assert_eq!(daemon.ask("PUT", "/v1/devices/empty", Some(&empty)).status, 201);
    let file = state.join("state.redb");
    let client = daemon.connect("db");
    let Some(read_only) = Immutable::make(&file) else {
        let name = "a_state_that_becomes_read_only_refuses_changes_whole_and_goes_on_afterwards";
        return skip(name, "no file can be made immutable here");
    };
    // A change that is refused was recorded for a moment: a start after a kill made it, or failed.
    let shrink = json!({"size": "512KiB", "shrink": true});
    assert_eq!(daemon.ask("PATCH", "/v1/vdisks/db", Some(&shrink)).status, 409, "a client has it");
    drop(client);
    let new = json!({"name": "new", "device": "disk", "size": "1MiB"});
    let memory = json!({"name": "m", "back_end": "memory"});
    for (method, target, body) in [
        ("PUT", "/v1/vdisks/new", Some(&new)),
        ("PATCH", "/v1/vdisks/db", Some(&json!({"weight": 9}))),
        ("PATCH", "/v1/vdisks/db", Some(&json!({"name": "other"}))),
        ("PATCH", "/v1/vdisks/db", Some(&json!({"size": "2MiB"}))),
        ("DELETE", "/v1/vdisks/db", None),
        ("PUT", "/v1/devices/m", Some(&memory)),
        ("DELETE", "/v1/devices/empty", None),
    ] {
        let answer = daemon.ask(method, target, body);
        let problem: Problem = read(&answer);
        assert_eq!(answer.status, 507, "{method} {target}: {problem:?}");
        assert!(problem.detail.contains("state.redb"), "{problem:?}");
        assert!(problem.detail.contains("can be written"), "{problem:?}");
    }
    let vdisks: Vec<Vdisk> = read(&daemon.ask("GET", "/v1/vdisks", None));
    let seen: Vec<_> = vdisks.iter().map(|it| (&*it.name, it.contract.weight)).collect();
    assert_eq!(seen, [("db", 100)]);
    assert!(pool.join("db.raw").exists() && !pool.join("new.raw").exists());
    let devices: Vec<Device> = read(&daemon.ask("GET", "/v1/devices", None));
    assert_eq!(devices.len(), 2, "what is served is shown");
    daemon.connect("db").write(0, &[1; 4096], true).unwrap();
    drop(read_only);
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/new", Some(&new)).status, 201);
    assert_eq!(daemon.ask("PATCH", "/v1/vdisks/db", Some(&json!({"weight": 9}))).status, 200);
    assert_eq!(daemon.ask("DELETE", "/v1/devices/empty", None).status, 204);
    drop(daemon);
    let daemon = Daemon::of_state(&state);
    let vdisks: Vec<Vdisk> = read(&daemon.ask("GET", "/v1/vdisks", None));
    let seen: Vec<_> = vdisks.iter().map(|it| (&*it.name, it.contract.weight)).collect();
    assert_eq!(seen, [("db", 9), ("new", 100)]);
}

/// A virtual disk that was refused a larger size had a longer file than its record said, with which no daemon
/// starts.
#[test]
fn a_pool_that_can_not_record_a_larger_size_keeps_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let (state, pool) = (directory.path().join("state"), directory.path().join("pool"));
    let daemon = Daemon::of_state(&state);
    daemon.add_pool(&pool);
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({})))).status, 201);
    let identity = pool.join(".disktime-pool");
    let Some(read_only) = Immutable::make(&identity) else {
        let name = "a_pool_that_can_not_record_a_larger_size_keeps_the_old_one";
        return skip(name, "no file can be made immutable here");
    };
    let grow = |size| daemon.ask("PATCH", "/v1/vdisks/db", Some(&json!({"size": size}))).status;
    assert!(grow("2MiB") >= 400);
    let size = |daemon: &Daemon| daemon.connect("db").export().size_bytes;
    assert_eq!((size(&daemon), pool.join("db.raw").metadata().unwrap().len()), (MIB, MIB));
    drop(read_only);
    let daemon = restarted(daemon, &state, 1);
    assert_eq!(size(&daemon), MIB);
    let grown = daemon.ask("PATCH", "/v1/vdisks/db", Some(&json!({"size": "3MiB"})));
    assert_eq!(grown.status, 200);
    assert_eq!(size(&restarted(daemon, &state, 1)), 3 * MIB);
}
