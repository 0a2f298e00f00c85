//! `disktime bench insulation --live`: whatever can be had here is measured, the rest is left out
//! aloud, and nothing stays behind.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{finish, run};

fn bench(scratch: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(["bench", "insulation", "--live", "--rounds", "1", "--size", "64MiB"]);
    command.arg("--scratch").arg(scratch).args(arguments);
    command
}

/// Nothing of this run is left: no file, no loop device over it, no control group.
fn assert_clean(scratch: &Path, groups_before: &[String]) {
    assert_eq!(std::fs::read_dir(scratch).unwrap().count(), 0, "a scratch file is left");
    if let Ok(output) = Command::new("losetup").args(["--list", "--output", "BACK-FILE"]).output() {
        let list = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!list.contains(scratch.to_str().unwrap()), "a loop device is left: {list}");
    }
    let left: Vec<_> = groups().into_iter().filter(|it| !groups_before.contains(it)).collect();
    assert!(left.is_empty(), "control groups are left: {left:?}");
}

fn groups() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/sys/fs/cgroup/blkio") else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("disktime-bench-")).collect()
}

/// Shape only: so short a run says nothing of insulation.
#[test]
fn every_contender_is_measured_or_left_out_aloud() {
    let (scratch, before) = (tempfile::tempdir().unwrap(), groups());
    let out = tempfile::tempdir().unwrap();
    let cell = "deskstar-34gxp/random-4k/random-4k/50";
    let mut command = bench(scratch.path(), &["--for", "200ms", "--policy", "disktime", "--json"]);
    command.args(["--on", "emulated", "--on", "file", "--on", "nbdkit", "--cell", cell]);
    let output = finish(command.arg("--out").arg(out.path()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // 1 where a bar is missed, which is no matter here; an error prints no rows.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    let rows: Value = serde_json::from_slice(&output.stdout).expect(&said);
    let rows = rows.as_array().unwrap();
    let of = |device: &str, policy: &str| {
        rows.iter().filter(|row| row["device"] == device && row["policy"] == policy).count()
    };
    assert_eq!(of("live-deskstar-34gxp", "disktime"), 2, "{said}");
    assert_eq!(of("live-file", "disktime"), 7, "{said}");
    for policy in ["none", "linux-bfq", "qemu-throttle", "nbdkit-rate"] {
        let left_out = |device: &str| said.contains(&format!("left out: {policy} on {device}"));
        assert!(of("live-file", policy) == 7 || left_out("live-file"), "{policy}: {said}");
        assert!(of("live-nbdkit", policy) == 3 || left_out("live-nbdkit"), "{policy}: {said}");
    }
    for row in rows {
        let own = row["policy"] == "disktime";
        assert_eq!(row["share_error_points"].is_number(), own, "{row}");
        assert_eq!(row["simulated"].is_number(), row["device"] == "live-deskstar-34gxp", "{row}");
        for column in ["insulation_mean", "insulation_p01", "work_conservation", "alone_iops"] {
            assert!(row[column].as_f64().is_some_and(|it| it >= 0.0), "{column} of {row}");
        }
        for column in ["windows_above_0_9", "gap_ms_max", "p99_ratio", "share"] {
            assert!(row[column].is_number(), "{column} of {row}");
        }
        assert!(row["victim"].is_string() && row["antagonist"].is_string(), "{row}");
    }
    let page = std::fs::read_to_string(out.path().join("insulation-live.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Live and simulated"));
    assert_clean(scratch.path(), &before);
}

/// A signal ends it, in the middle of whatever contender it is at, and all is unmade.
#[test]
fn a_stopped_bench_leaves_nothing_behind() {
    let (scratch, before) = (tempfile::tempdir().unwrap(), groups());
    let mut command = bench(scratch.path(), &["--for", "600ms", "--policy", "fifo"]);
    command.args(["--on", "file", "--against", "linux-bfq", "--against", "none"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while errors.read_line(&mut said).unwrap() > 0 && !said.contains("linux-bfq") {}
    run(Command::new("kill").args(["-TERM", &child.id().to_string()]));
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    assert_clean(scratch.path(), &before);
}
