//! `disktime plan`: goals and traces on a device's profile, and what can't be planned.

use std::process::Command;

use crate::support::{Daemon, finish, run};

/// A disk of 7200 rpm: 100 random reads a second, 125 at depth 4; in one batch of twenty half as many.
const PROFILE: &str = r#"{ "name": "disk", "size_bytes": 1000000000000, "rotation_ns": 8334000,
    "zones": [ { "end_bytes": 1000000000000,
        "read": { "per_request_ns": 0, "bytes_per_second": 20480000 },
        "write": { "per_request_ns": 0, "bytes_per_second": 20480000 } } ],
    "positioning": [ { "distance_bytes": 1, "mean_ns": 9, "deviation_ns": 1, "worst_ns": 20 } ],
    "seeks": [ { "distance_bytes": 4096, "from_bytes": 0, "time_ns": 16000000, "samples": 3 } ],
    "prices": {
        "sequential_read": { "each_ns": 0, "per_mib_ns": 51200000 },
        "random_read": { "each_ns": 8000000, "per_mib_ns": 0 },
        "sequential_write": { "each_ns": 0, "per_mib_ns": 51200000 },
        "random_write": { "each_ns": 4000000, "per_mib_ns": 0 } },
    "speeds": { "kinds": [ { "kind": "random_read", "best_depth": 4, "parallelism_permille": 1250,
        "cells": [
            { "bytes": 4096, "depth": 1, "requests": 100, "each_ns": 10000000 },
            { "bytes": 4096, "depth": 4, "requests": 400, "each_ns": 8000000,
              "batches_ns": [8000000, 9000000, 10000000, 16000000, 16000000] } ] } ] } }"#;

const CONFIG: &str = r#"
[server]
nbd = ["unix:DIRECTORY/disktime.sock"]

[[device]]
name = "disk"
back_end = "memory"
profile = "DIRECTORY/disk.json"
headroom = "10%"

[[vdisk]]
name = "db"
device = "disk"
size = "64MiB"
reserve = "40%"

[[vdisk]]
name = "mail"
device = "disk"
size = "64MiB"
iops = 10
"#;

struct Planned {
    directory: tempfile::TempDir,
}

impl Planned {
    fn new() -> Self {
        let planned = Self { directory: tempfile::tempdir().unwrap() };
        planned.write("disk.json", PROFILE);
        planned.write("disktime.toml", CONFIG);
        planned
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        let directory = self.directory.path().to_str().unwrap();
        std::fs::write(self.path(name), text.replace("DIRECTORY", directory)).unwrap();
    }

    fn plan(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        command.current_dir(self.directory.path()).arg("plan").args(arguments.split_whitespace());
        command
    }

    /// Its output, with its exit code.
    fn say(&self, arguments: &str) -> (String, Option<i32>) {
        let directory = self.directory.path().to_str().unwrap();
        let absolute = arguments.replace(" @", &format!(" {directory}/"));
        let output = finish(&mut self.plan(&absolute));
        let said = [output.stdout, output.stderr].concat();
        (String::from_utf8(said).unwrap(), output.status.code())
    }

    fn json(&self, arguments: &str) -> serde_json::Value {
        let (said, _) = self.say(&format!("{arguments} --json"));
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{arguments}: {said}: {error}"))
    }
}

fn near(value: &serde_json::Value, expected: f64) {
    assert!((value.as_f64().unwrap() - expected).abs() < 1e-9, "{value}, not {expected}");
}

#[test]
fn a_goal_is_a_share() {
    let planned = Planned::new();
    // 20 · 16 ms · 10/8 one at a time; 20 · 10 ms; 20 · (8 + 4.167 + .2) ms.
    let plan = planned.json("--profile @disk.json --iops 20 --depth 1");
    let of = |at: usize| (&plan["answers"][at]["method"], &plan["answers"][at]["share"]);
    assert_eq!(of(0).0, "batches");
    near(of(0).1, 0.4);
    near(of(1).1, 0.2);
    near(of(2).1, 0.24734);
    assert_eq!((&plan["fits"], &plan["would_fit"]), (&true.into(), &serde_json::Value::Null));
    near(&planned.json("--profile @disk.json --iops 20 --depth 4")["share"], 0.32);
    // p + s·.6/.4 + c/.4 + c, of c = 51.2 ms for a MiB and 20 ns.
    assert_eq!(plan["behind_ns_max"], 1_704_200_070);
    // Its fastest depth, unless an option says otherwise.
    near(&planned.json("--profile @disk.json --iops 20")["share"], 0.32);
    near(&planned.json("--profile @disk.json --iops 20 --depth 4 --confidence 50")["share"], 0.16);
    // Runs of 64 · 4 KiB: 20 ms at the confidence and 63 · .2 ms for 256 KiB.
    let plan = planned
        .json("--profile @disk.json --bandwidth 2621440B/s --run 64 --request 4KiB --depth 1");
    near(&plan["answers"][1]["share"], 10.0 * (10.0 + 63.0 * 0.2) / 1e3);
    near(&plan["answers"][2]["share"], 10.0 * (12.167 + 64.0 * 0.2) / 1e3);
    // c/s + a piece of 10·2 ms ahead: 20 ms / .25 + 20 ms.
    let plan = planned.json("--profile @disk.json --latency 100ms --percentile 95 --depth 1");
    near(&plan["share"], 0.25);
}

#[test]
fn a_goal_that_does_not_fit_exits_with_1_and_says_what_would() {
    let planned = Planned::new();
    let (said, code) = planned.say("--profile @disk.json --iops 2000 --request 4KiB --depth 1");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the goal takes 4000.0% (in 95% of batches of 20)"), "{said}");
    assert!(said.contains("100% can be had: does not fit\n50 requests/s would fit"), "{said}");
    assert_eq!(planned.json("--profile @disk.json --iops 2000 --depth 1")["would_fit"]["iops"], 50);
    let (said, code) = planned.say("--profile @disk.json --latency 5ms --depth 1");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("more than any share") && said.contains("40ms could be kept"), "{said}");
    let (said, code) = planned.say("--profile @disk.json --iops 20");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("fits"), "{said}");
}

#[test]
fn beside_what_is_reserved_less_fits() {
    let planned = Planned::new();
    let plan = planned.json("--config @disktime.toml --iops 20");
    assert_eq!(plan["reserved"][1]["name"], "mail");
    near(&plan["reserved"][1]["share"], 0.2);
    let behind = |at: usize| plan["reserved"][at]["behind_ns_max"].as_u64().unwrap();
    assert!(behind(0) > 1_000_000_000 && behind(0) < behind(1), "{plan}");
    near(&plan["available"], 0.3);
    assert_eq!(plan["fits"], false);
    let (said, code) = planned.say("--config @disktime.toml --device disk --iops 20");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("reserved: db 40%, mail 20%"), "{said}");
    assert!(said.contains("takes 40% (in 95% of batches of 20), 30% can be had"), "{said}");
    assert!(said.contains("15 requests/s would fit"), "{said}");
    let (said, code) = planned.say("--config @disktime.toml --iops 15");
    assert_eq!(code, Some(0), "{said}");
}

/// The daemon takes the same configuration, and refuses what the plan refuses.
#[test]
fn the_daemon_admits_what_was_planned() {
    let planned = Planned::new();
    planned.write("config.toml", CONFIG);
    let daemon = Daemon::start_in(planned.directory);
    assert!(daemon.end("TERM").1);
    let planned = Planned::new();
    planned.write("disktime.toml", &CONFIG.replace("iops = 10", "iops = 2000"));
    let mut serve = Command::new(env!("CARGO_BIN_EXE_disktime"));
    serve.args(["serve", "--config", &planned.path("disktime.toml")]);
    let output = finish(&mut serve);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains(
            "vdisk mail: iops = \"2000\": takes 4000.0% of device disk, 50% can be had: 25"
        ) && said.contains("requests/s would fit"),
        "{said}"
    );
}

#[test]
fn a_trace_is_a_share() {
    let planned = Planned::new();
    // Each second 10 reads at random and 90 behind them, for 20 s; ten times as many in the last.
    let mut trace = "time_ns,op,offset,bytes,stream\n".to_owned();
    for second in 0..20_u64 {
        let runs = if second == 19 { 100 } else { 10 };
        for run in 0..runs {
            for block in 0..10 {
                let at = second * 1_000_000_000 + run * 1_000_000 + block;
                let offset = (run * 7919 + second * 104_729) % 100_000 * 10_000_000 + block * 4096;
                trace += &format!("{at},read,{offset},4096,1\n");
            }
        }
    }
    planned.write("trace.csv", &trace);
    let plan = planned.json("--profile @disk.json --trace @trace.csv --depth 1");
    let prices = &plan["traces"][0];
    assert_eq!((&prices["requests"], &prices["sequential"]), (&2_900.into(), &2_610.into()));
    // One at a time: 10 · (10 + 9 · .2) ms.
    near(&plan["share"], 0.118);
    near(&prices["share_worst"], 1.18);
    near(&prices["share_mean"], 0.118 * 29.0 / 20.0);
    assert_eq!(plan["fits"], true);
    let (said, code) =
        planned.say("--profile @disk.json --trace @trace.csv --percentile 99 --depth 1");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("0 % writes, 90 % in sequence") && said.contains("118.0%"), "{said}");
    let (said, code) = planned.say("--profile @disk.json --trace @trace.csv --stream 7");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no operations"), "{said}");
}

#[test]
fn a_goal_that_cannot_be_planned_is_refused() {
    let planned = Planned::new();
    planned.write("none.json", "{}");
    planned.write(
        "still.json",
        &PROFILE.replace("\"prices\"", "\"costs\"").replace("rotation_ns", "x"),
    );
    let refused = |arguments: &str, why: &str| {
        let (said, code) = planned.say(arguments);
        assert_eq!(code, Some(2), "{arguments}: {said}");
        assert!(said.contains(why), "{arguments}: {said}");
    };
    refused("--iops 5", "required");
    refused("--profile @disk.json", "required");
    refused("--profile @no.json --iops 5", "No such file");
    refused("--profile @none.json --iops 5", "make it with `disktime device profile`");
    refused("--profile @still.json --iops 5", "neither prices nor a rotation");
    refused("--profile @disk.json --config @disktime.toml --iops 5", "cannot be used with");
    refused("--profile @disk.json --iops 5 --bandwidth 1MB/s", "cannot be used with");
    refused("--profile @disk.json --iops 0", "rate: 0 each second");
    refused("--profile @disk.json --iops 18446744073709551615", "1 to 1000000000000 are possible");
    refused("--profile @disk.json --iops -5", "-5");
    refused("--profile @disk.json --iops 5 --request 0B", "request: 0 bytes");
    refused("--profile @disk.json --iops 5 --request 9GiB", "request: 9663676416 bytes");
    refused("--profile @disk.json --iops 5 --run 0", "run: 0 requests");
    refused("--profile @disk.json --bandwidth 80 --run 4", "a rate is a size per second");
    refused("--profile @disk.json --latency 0s", "latency: 0");
    refused("--profile @disk.json --latency 5ms --percentile 100", "at most 99.999%");
    refused("--profile @disk.json --iops 5 --depth 0", "0 is not in 1..=1024");
    refused("--profile @disk.json --iops 5 --stay 0s", "a horizon is 1ms to 10s");
    refused("--profile @disk.json --iops 5 --access some", "`read`, `write` or `both`");
    refused("--profile @disk.json --iops 5 --device d", "cannot be used with");
    refused("--config @disktime.toml --device d --iops 5", "no device d; there are: disk");
    refused("--profile @disk.json --trace @disk.json", "no format");
}

/// A file, profiled and planned on.
#[test]
fn a_profile_as_it_is_saved_is_planned_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("image"), vec![5; 32 << 20]).unwrap();
    let disktime = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        command.args(arguments);
        run(&mut command)
    };
    let profile = ["device", "profile", &path("image"), "--budget", "4s", "--out", &path("i.json")];
    disktime(&profile);
    let goal = ["--iops", "1", "--depth", "8", "--json"];
    let said = disktime(&[&["plan", "--profile", &path("i.json")], &goal[..]].concat());
    let plan: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&plan["method"], &plan["fits"]), (&"batches".into(), &true.into()), "{said}");
}
