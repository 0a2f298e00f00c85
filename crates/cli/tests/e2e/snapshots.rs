//! Snapshots on file systems that have clones, made and mounted here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use disktime_client::Connection;
use serde_json::Value;
use tempfile::TempDir;

use crate::control::Served;
use crate::needs;
use crate::support::{finish, skip};

/// Bytes of a block.
const BLOCK: u64 = 4096;

/// A file system of its own in a file.
struct Mounted(PathBuf);

impl Mounted {
    /// Nothing where none can be mounted; then the test's skip is told.
    fn make(test: &str, kind: &str, directory: &Path) -> Option<Self> {
        let (image, at) = (directory.join("image"), directory.join("mounted"));
        if kind == "tmpfs" {
            std::fs::create_dir(&at).unwrap();
            if !succeeds(&["mount", "-t", "tmpfs", "tmpfs", at.to_str().unwrap()]) {
                skip(test, "no file system can be mounted");
                return None;
            }
            return Some(Self(at));
        }
        // XFS takes no less than 300 MiB.
        std::fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        std::fs::create_dir(&at).unwrap();
        let [image, to] = [&image, &at].map(|path| path.to_str().unwrap());
        let made = succeeds(&[&format!("mkfs.{kind}"), "-q", image]);
        if !made || !succeeds(&["mount", "-o", "loop", image, to]) {
            skip(test, &format!("no {kind} can be mounted"));
            return None;
        }
        Some(Self(at))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        succeeds(&["umount", "-l", self.0.to_str().unwrap()]);
    }
}

fn succeeds(words: &[&str]) -> bool {
    finish(Command::new(words[0]).args(&words[1..])).status.success()
}

/// A daemon with `db` of 64 MiB in a pool at that path.
fn served(directory: &Path, pool: &Path) -> Served {
    let served = Served::start(directory);
    let back_end = format!("file:{}", pool.display());
    served.exits(0, &["device", "add", "disk", "--back-end", &back_end, "--create"]);
    served.exits(0, &["vdisk", "create", "db", "--device", "disk", "--size", "64MiB"]);
    served
}

fn connect(served: &Served, vdisk: &str) -> Connection {
    let shown = served.exits(0, &["vdisk", "show", vdisk]);
    Connection::open(&shown["uris"][0].as_str().unwrap().parse().unwrap()).unwrap()
}

fn put(client: &mut Connection, block: u64, number: u64) {
    let mut bytes = [0; 4096];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    client.write(block * BLOCK, &bytes, false).unwrap();
}

fn number(client: &mut Connection, block: u64) -> u64 {
    let mut bytes = [0; 4096];
    client.read(block * BLOCK, &mut bytes).unwrap();
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn names(served: &Served) -> Vec<String> {
    let listed = served.exits(0, &["vdisk", "list"]);
    let name = |it: &Value| it["name"].as_str().unwrap().to_owned();
    listed.as_array().unwrap().iter().map(name).collect()
}

/// A writer that waits for each reply writes a number to the first block and then to the last one: at any
/// moment the two are the same, or the first is one ahead.
fn snapshots_are_of_a_moment(test: &str, kind: &str) {
    let directory = TempDir::new().unwrap();
    let Some(mounted) = Mounted::make(test, kind, directory.path()) else { return };
    let served = served(directory.path(), &mounted.0.join("pool"));
    let last = (64 << 20) / BLOCK - 1;
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut writer = connect(&served, "db");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                put(&mut writer, 0, round);
                put(&mut writer, last, round);
                acknowledged.store(round, Ordering::SeqCst);
            }
        });
        let mut before = 0;
        for at in 0..10 {
            let name = format!("db-{at}");
            let least = acknowledged.load(Ordering::SeqCst);
            let made = served.exits(0, &["vdisk", "snapshot", "db", &name]);
            assert_eq!((&made["name"], &made["size_bytes"]), (&name.into(), &(64 << 20).into()));
            assert_eq!((&made["class"], &made["reserve"]), (&"best-effort".into(), &0.0.into()));
            let mut snapshot = connect(&served, made["name"].as_str().unwrap());
            let (first, then) = (number(&mut snapshot, 0), number(&mut snapshot, last));
            assert!(first == then || first == then + 1, "{at}: {first}, {then}: of two moments");
            assert!(then >= least, "{at}: {then}, but {least} was acknowledged before");
            assert!(acknowledged.load(Ordering::SeqCst) >= before, "its writer goes on");
            before = then;
        }
        stop.store(true, Ordering::SeqCst);
    });
    let now = acknowledged.load(Ordering::SeqCst);
    assert!(now > 0);

    // Each goes its own way from then on, also when the other one is gone.
    served.exits(0, &["vdisk", "snapshot", "db", "mine", "--reserve", "30%", "--limit", "60%"]);
    let mut mine = connect(&served, "mine");
    put(&mut writer, 0, now + 1);
    assert_eq!(number(&mut mine, 0), now);
    put(&mut mine, last, 7);
    assert_eq!(number(&mut writer, last), now);
    drop(writer);
    served.exits(0, &["vdisk", "delete", "db"]);
    assert_eq!((number(&mut mine, 0), number(&mut mine, last)), (now, 7));
    mine.flush().unwrap();
    drop(mine);
    served.kill();
    let served = Served::start(directory.path());
    let mut mine = connect(&served, "mine");
    assert_eq!((number(&mut mine, 0), number(&mut mine, last)), (now, 7));
    assert_eq!(served.exits(0, &["vdisk", "show", "mine"])["reserve"], Value::from(0.3));
    drop(served);
}

#[test]
fn snapshots_on_xfs_are_of_a_moment_and_independent() {
    needs!("snapshots_on_xfs_are_of_a_moment_and_independent", "mkfs.xfs");
    snapshots_are_of_a_moment("snapshots_on_xfs_are_of_a_moment_and_independent", "xfs");
}

#[test]
fn snapshots_on_btrfs_are_of_a_moment_and_independent() {
    needs!("snapshots_on_btrfs_are_of_a_moment_and_independent", "mkfs.btrfs");
    snapshots_are_of_a_moment("snapshots_on_btrfs_are_of_a_moment_and_independent", "btrfs");
}

#[test]
fn a_snapshot_is_made_once_and_one_that_can_not_be_made_leaves_nothing() {
    const TEST: &str = "a_snapshot_is_made_once_and_one_that_can_not_be_made_leaves_nothing";
    needs!("a_snapshot_is_made_once_and_one_that_can_not_be_made_leaves_nothing", "mkfs.xfs");
    let directory = TempDir::new().unwrap();
    let Some(mounted) = Mounted::make(TEST, "xfs", directory.path()) else { return };
    let pool = mounted.0.join("pool");
    let served = served(directory.path(), &pool);
    let snapshot = |more: &[&str], code| {
        served.exits(code, &[&["vdisk", "snapshot", "db"][..], more].concat())
    };
    snapshot(&["s", "--weight", "7"], 0);
    let mut s = connect(&served, "s");
    put(&mut s, 0, 9);
    snapshot(&["s", "--weight", "7"], 0);
    assert_eq!(number(&mut s, 0), 9, "it was not made anew");
    // The same as far as its keys go, but with no data of `db`.
    let empty = ["vdisk", "create", "empty", "--device", "disk", "--size", "64MiB"];
    served.exits(0, &empty);
    for (wish, says) in [
        (&["s"][..], "asked for in other words"),
        (&["empty"], "is no snapshot of db"),
        (&["db"], "is no snapshot of db"),
        (&["a/b"], "letters"),
        (&["t", "--reserve", "120%"], "reserve"),
        (&["t", "--class", "best"], "class"),
    ] {
        let refused = snapshot(wish, 2);
        assert!(refused["error"].as_str().unwrap().contains(says), "{wish:?}: {refused}");
    }
    served.exits(0, &["vdisk", "set", "db", "--reserve", "80%"]);
    let refused = snapshot(&["t", "--reserve", "30%"], 2);
    assert!(refused["error"].as_str().unwrap().contains("20.0000% would fit"), "{refused}");
    std::fs::write(pool.join("mine.raw"), "mine").unwrap();
    let refused = snapshot(&["mine"], 2);
    assert!(refused["error"].as_str().unwrap().contains("data of that name"), "{refused}");
    served.exits(2, &["vdisk", "snapshot", "nobody", "t"]);
    assert_eq!(names(&served), ["db", "s", "empty"]);
    assert!(!pool.join("t.raw").exists());
    let events = served.exits(0, &["events"]);
    let made = events.as_array().unwrap().iter().filter(|it| it["kind"] == "snapshot");
    let made: Vec<_> = made.map(|it| (&it["name"], it["text"].as_str().unwrap())).collect();
    assert!(made.len() == 1 && made[0].0 == "s" && made[0].1.contains("\"db\""), "{made:?}");
    // The size of the first one is no part of what was asked for.
    served.exits(0, &["vdisk", "grow", "db", "--size", "65MiB"]);
    snapshot(&["s", "--weight", "7"], 0);
    drop(served);
}

/// A kill between the clone and the record would leave a file of no virtual disk, or a virtual disk whose
/// file is not whole.
#[test]
fn a_kill_leaves_a_whole_snapshot_or_nothing() {
    needs!("a_kill_leaves_a_whole_snapshot_or_nothing", "mkfs.xfs");
    let directory = TempDir::new().unwrap();
    let test = "a_kill_leaves_a_whole_snapshot_or_nothing";
    let Some(mounted) = Mounted::make(test, "xfs", directory.path()) else { return };
    let pool = mounted.0.join("pool");
    let mut daemon = served(directory.path(), &pool);
    let last = (64 << 20) / BLOCK - 1;
    let mut whole = 0;
    for round in 1..=30_u64 {
        let mut client = connect(&daemon, "db");
        put(&mut client, 0, round);
        put(&mut client, last, round);
        client.flush().unwrap();
        drop(client);
        let api = daemon.api();
        let asked = std::thread::spawn(move || {
            let body = (Some(&b"{\"name\": \"s\"}"[..]), None);
            api.request("POST", "/v1/vdisks/db/snapshot", body).is_ok_and(|it| it.status == 201)
        });
        crate::control::sleep(round);
        daemon.kill();
        let told = asked.join().unwrap();
        daemon = Served::start(directory.path());
        let files = std::fs::read_dir(&pool).unwrap().map(|it| it.unwrap().file_name());
        let files = files.filter(|it| it.to_str().unwrap().ends_with(".raw")).count();
        let names = names(&daemon);
        assert_eq!(files, names.len(), "round {round}: {names:?}");
        if names == ["db", "s"] {
            whole += 1;
            let mut s = connect(&daemon, "s");
            assert_eq!((number(&mut s, 0), number(&mut s, last)), (round, round));
            drop(s);
            daemon.exits(0, &["vdisk", "delete", "s"]);
        } else {
            assert_eq!((told, names), (false, vec!["db".to_owned()]), "round {round}");
        }
    }
    assert!(
        (1..30).contains(&whole),
        "{whole} of 30 were there: kills came too late, or too early"
    );
}

#[test]
fn where_there_are_no_clones_the_refusal_says_what_would_work() {
    let directory = TempDir::new().unwrap();
    let served = Served::start(directory.path());
    let refused_on = |device: &str, back_end: &[&str]| {
        served.exits(0, &[&["device", "add", device, "--back-end"], back_end].concat());
        let db = format!("on-{device}");
        served.exits(0, &["vdisk", "create", &db, "--device", device, "--size", "1MiB"]);
        let refused = served.exits(2, &["vdisk", "snapshot", &db, "s"]);
        let says = refused["error"].as_str().unwrap();
        assert!(says.contains(&db) && says.contains("XFS") && says.contains("btrfs"), "{says}");
        assert!(!says.contains("would fit"), "no reservation was asked for: {says}");
        // The name is free.
        served.exits(0, &["vdisk", "create", "s", "--device", device, "--size", "1MiB"]);
        served.exits(0, &["vdisk", "delete", "s"]);
    };
    refused_on("ram", &["memory"]);
    let image = directory.path().join("disk.img");
    std::fs::write(&image, vec![0; 4 << 20]).unwrap();
    refused_on("image", &[&format!("file:{}", image.display())]);
    // A file system in memory has no clones.
    let test = "where_there_are_no_clones_the_refusal_says_what_would_work";
    let Some(mounted) = Mounted::make(test, "tmpfs", directory.path()) else { return };
    let pool = mounted.0.join("pool");
    refused_on("pool", &[&format!("file:{}", pool.display()), "--create"]);
    assert!(!pool.join("s.raw").exists());
    served.kill();
}
