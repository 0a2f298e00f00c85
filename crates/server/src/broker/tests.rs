//! Goals on devices whose profiles are given.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use super::*;
use crate::config::Config;
use crate::standing::{Standing, standing};
use disktime_core::Access;
use disktime_plan::goal::{Demand, Goal};
use disktime_profiler::Method;

/// As the profiler saves it: 100 random reads of 4 KiB a second at depth 1, 200 at depth 4, and one
/// batch in twenty takes half as long again.
const SPEEDS: &str = r#""prices": {
        "sequential_read": { "each_ns": 0, "per_mib_ns": 10000000 },
        "random_read": { "each_ns": 5000000, "per_mib_ns": 0 },
        "sequential_write": { "each_ns": 0, "per_mib_ns": 20000000 },
        "random_write": { "each_ns": 10000000, "per_mib_ns": 0 } },
    "speeds": { "kinds": [ { "kind": "random_read", "best_depth": 4, "parallelism_permille": 2000,
        "cells": [
            { "bytes": 4096, "depth": 1, "requests": 100, "each_ns": 10000000 },
            { "bytes": 4096, "depth": 4, "requests": 400, "each_ns": 5000000,
              "batches_ns": [5000000, 5500000, 6000000, 7500000, 9000000] } ] } ] },"#;

fn profile(speeds: &str) -> String {
    format!(
        r#"{{ "name": "disk", "rotation_ns": 8334000, {speeds}
        "zones": [ {{ "end_bytes": 1000000000000,
            "read": {{ "per_request_ns": 0, "bytes_per_second": 20480000 }},
            "write": {{ "per_request_ns": 0, "bytes_per_second": 20480000 }} }} ],
        "positioning": [ {{ "distance_bytes": 1, "mean_ns": 9, "deviation_ns": 1, "worst_ns": 20 }} ],
        "seeks": [ {{ "time_ns": 9000000 }}, {{ "time_ns": 16000000 }}, {{ "time_ns": 2000000 }} ] }}"#
    )
}

fn load(speeds: &str) -> DeviceProfile {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.json");
    std::fs::write(&path, profile(speeds)).unwrap();
    DeviceProfile::load(&path, None).unwrap()
}

/// Reservations of these tables' virtual disks on a device with a profile.
fn standing_of(speeds: &str, device: &str, vdisks: &str) -> Result<Standing, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.json");
    std::fs::write(&path, profile(speeds)).unwrap();
    let text = format!(
        "[server]\nnbd = [\"unix:/x\"]\n[[device]]\nname = \"d\"\nback_end = \"memory\"\n\
         profile = \"{}\"\n{device}\n{vdisks}",
        path.display()
    );
    standing(&Config::parse(&text).unwrap(), None)
}

fn vdisk(name: &str, lines: &str) -> String {
    format!("[[vdisk]]\nname = \"{name}\"\ndevice = \"d\"\nsize = \"1GiB\"\n{lines}\n")
}

#[test]
fn each_method_says_what_it_takes_the_surest_first() {
    let profile = load(SPEEDS);
    let broker = Broker { profile: &profile, depth: 4, stay: goal::STAY, confidence: CONFIDENCE };
    let goal = Goal { demand: Some(Demand::Requests(50)), bound: None, request: 4096, run: 1 };
    let of = |broker: &Broker<'_>| {
        let answers = broker.answers(&goal, Access::Read).unwrap();
        answers.iter().map(|it| (it.method, it.needs.ppm())).collect::<Vec<_>>()
    };
    // 50 · 7.5 ms, 50 · 5 ms, 50 · (8 + 4.167 + 0.2) ms.
    let expected =
        [(Method::Batches, 375_000), (Method::Prices, 250_000), (Method::Mechanics, 618_350)];
    assert_eq!(of(&broker), expected);
    // One at a time they take twice as long; mechanics know no other.
    let shallow = Broker { depth: 1, ..broker.clone() };
    let expected =
        [(Method::Batches, 750_000), (Method::Prices, 500_000), (Method::Mechanics, 618_350)];
    assert_eq!(of(&shallow), expected);
    let surer = Broker { confidence: Share::from_percent(99).unwrap(), ..broker };
    assert_eq!(of(&surer)[0], (Method::Batches, 450_000));
    let old = load("");
    let broker = Broker { profile: &old, ..surer };
    assert_eq!(of(&broker), [(Method::Mechanics, 618_350)], "an old profile has no prices");
}

#[test]
fn a_goal_becomes_a_reservation() {
    let disks = vdisk("a", "reserve = \"20%\"") + &vdisk("b", "iops = 50") + &vdisk("c", "");
    let standing = standing_of(SPEEDS, "queue_depth = 4\nheadroom = \"5%\"", &disks).unwrap();
    let shares = standing.vdisks.iter().map(|(name, share)| format!("{name} {share}"));
    assert_eq!(shares.collect::<Vec<_>>(), ["a 20%", "b 37.5%", "c 0%"]);
    assert_eq!(standing.free.to_string(), "37.5%");
}

#[test]
fn a_goal_that_does_not_fit_says_what_would() {
    let disks = vdisk("a", "reserve = \"70%\"") + &vdisk("b", "iops = 2000");
    let says = standing_of(SPEEDS, "queue_depth = 4", &disks).unwrap_err();
    assert_eq!(
        says,
        "vdisk b: iops = \"2000\": takes 1500.0% of device d, 30% can be had: 40 requests/s would fit"
    );
    let limited = vdisk("b", "iops = 50\nlimit = \"10%\"");
    let says = standing_of(SPEEDS, "queue_depth = 4", &limited).unwrap_err();
    assert!(says.contains("takes 37.5% of device d, 10% can be had: 13 requests/s"), "{says}");
    let none = vdisk("a", "reserve = \"100%\"") + &vdisk("b", "bandwidth = \"1B/s\"");
    let says = standing_of(SPEEDS, "", &none).unwrap_err();
    assert!(says.contains("0% can be had: no rate would fit"), "{says}");
}

#[test]
fn a_profile_that_says_nothing_of_costs_is_made_again() {
    let disks = vdisk("b", "iops = 50");
    let still = profile("").replace("\"rotation_ns\": 8334000, ", "");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.json");
    std::fs::write(&path, still).unwrap();
    let text = format!(
        "[server]\nnbd = [\"unix:/x\"]\n[[device]]\nname = \"d\"\nback_end = \"memory\"\n\
         profile = \"{}\"\n{disks}",
        path.display()
    );
    let says = standing(&Config::parse(&text).unwrap(), Some("d")).unwrap_err();
    assert!(says.contains("vdisk b: iops = \"50\": the device's profile has neither"), "{says}");
    let says = standing(&Config::parse(&text).unwrap(), Some("e")).unwrap_err();
    assert_eq!(says, "no device e; there are: d");
}

#[test]
fn speeds_that_can_not_be_are_refused() {
    let refused = |from: &str, to: &str| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.json");
        let text = profile(SPEEDS);
        assert!(text.contains(from), "{from}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        DeviceProfile::load(&path, None).unwrap_err().to_string()
    };
    assert!(refused("\"depth\": 1", "\"depth\": 0").contains("each is at least 1"));
    assert!(refused("\"best_depth\": 4", "\"best_depth\": 0").contains("a depth of 0"));
    assert!(refused("random_read\", \"best", "sometimes\", \"best").contains("sometimes"));
    assert!(refused("\"each_ns\": 5000000, \"per", "\"each_ns\": -5, \"per").contains("-5"));
}
