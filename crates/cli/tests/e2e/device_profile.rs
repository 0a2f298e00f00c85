//! `disktime device`: a virtual disk is profiled, and what can't be is refused.

use std::process::Command;

use crate::support::{DISKS, Daemon, finish, run};

fn profile(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(["device", "profile"]).args(arguments);
    command
}

/// The text of a profile of `uri` that had time enough for all its parts: on a busy machine some are left out,
/// and it is taken again with more time.
fn complete(uri: &str, options: &[&str], is_complete: impl Fn(&str) -> bool) -> String {
    let said = |seconds: u32| {
        let budget = format!("{seconds}s");
        run(&mut profile(&[&[uri, "--budget", &budget], options].concat()))
    };
    let mut all = [3, 6, 12, 24].into_iter().map(said);
    all.find(|said| is_complete(said)).expect("a profile of 24 s has all its parts")
}

fn speeds(said: &str) -> serde_json::Value {
    let found: serde_json::Value = serde_json::from_str(said).unwrap();
    found["speeds"].clone()
}

#[test]
fn a_virtual_disk_is_profiled() {
    let daemon = Daemon::start(DISKS);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (out, svg) = (path("mem.json"), path("mem.svg"));
    let uri = daemon.uri("mem");
    let said = complete(&uri, &["--json", "--out", &out, "--svg", &svg], |said| {
        let speeds = speeds(said);
        speeds["switching_ns"]["streams"].is_u64() && speeds["cache"]["read_again_ns"].is_u64()
    });
    let saved = std::fs::read_to_string(&out).unwrap();
    assert_eq!(said, saved);
    let found: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert_eq!(found["size_bytes"], 64 << 20);
    assert_eq!(found["writes_measured"], false);
    assert!(found["rotation_ns"].is_null(), "{saved}");
    assert!(found["took_ns"].as_u64().unwrap() < 25_000_000_000, "{saved}");
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg "));
    let random = &found["prices"]["random_read"];
    assert!(random["each_ns"].as_u64().unwrap() + random["per_mib_ns"].as_u64().unwrap() > 0);
    assert_eq!(found["prices"]["random_write"], *random, "as reads, where writes are not measured");
    assert_eq!(found["speeds"]["kinds"].as_array().unwrap().len(), 2, "{saved}");

    complete(&uri, &["--scratch", "--json"], |said| {
        let speeds = speeds(said);
        speeds["kinds"].as_array().is_some_and(|kinds| kinds.len() == 4)
            && speeds["switching_ns"]["read_write"].is_u64()
    });
    let said = complete(&uri, &["--destructive"], |said| !said.contains("not measured"));
    assert!(said.contains("rotation: none found") && said.contains("zones"), "{said}");
    assert!(said.contains("prices, alone at the best depth") && said.contains("random write"));
}

/// Its profile said 37 GB/s, and nothing else.
#[test]
fn a_file_that_was_never_written_is_no_device() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("holes");
    std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let output = finish(&mut profile(&[path.to_str().unwrap(), "--budget", "3s"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("these are the times of memory"), "{said}");
}

#[test]
fn a_device_that_cannot_be_profiled_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let sized = |name: &str, bytes: u64| {
        std::fs::File::create(path(name)).unwrap().set_len(bytes).unwrap();
        path(name)
    };
    let refused = |arguments: &[&str], why: &str| {
        let output = finish(&mut profile(arguments));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    };
    refused(&[&path("none")], "No such file");
    refused(&[directory.path().to_str().unwrap()], "neither a file nor a block device");
    refused(&[&sized("empty", 0)], "size 0 bytes");
    refused(&[&sized("small", 1 << 20)], "at least 16777216 can be profiled");
    refused(&[&sized("big", 64 << 20), "--budget", "1s"], "budget: 1s; 2s to");
    refused(&["nbd://"], "host");
    refused(&[&path("big"), "--scratch"], "is no export; of a device of which all may be lost");
    refused(&[&path("big"), "--scratch", "--destructive"], "cannot be used with");
}
