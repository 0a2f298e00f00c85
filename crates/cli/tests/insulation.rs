//! `disktime bench insulation` as scripts use it.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use serde_json::Value;
use std::process::{Command, Output};

const CELL: &str = "deskstar-34gxp/random-4k/random-4k/50";

fn bench(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(["bench", "insulation"]).args(words).output().unwrap()
}

#[test]
fn json_is_one_array_of_rows_with_every_column() {
    let words = ["--policy", "zygaria", "--policy", "fifo", "--cell", CELL, "--json"];
    let output = bench(&words);
    assert_eq!(output.status.code(), Some(0));
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["zygaria", "fifo"]);
    for row in rows {
        let row = row.as_object().unwrap();
        let columns: Vec<_> = row.keys().map(String::as_str).collect();
        let mut expected = vec![
            "policy",
            "device",
            "victim",
            "antagonist",
            "share",
            "insulation_mean",
            "insulation_p01",
            "windows_above_0_9",
            "share_error_points",
            "work_conservation",
            "gap_ms_max",
            "p99_ratio",
        ];
        expected.sort_unstable();
        assert_eq!(columns.len(), expected.len());
        assert!(expected.iter().all(|column| columns.contains(column)), "{columns:?}");
        assert!(row.iter().skip(5).all(|(_, value)| value.is_number() || value.is_string()));
        assert_eq!(row["share"], 0.5);
    }
    assert_eq!(bench(&words).stdout, output.stdout, "one seed, one answer");
}

#[test]
fn the_table_has_rows_and_a_summary_and_a_page_shows_them() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("report");
    let words = ["--policy", "zygaria", "--cell", CELL, "--out", out.to_str().unwrap()];
    let output = bench(&words);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("zygaria") && text.contains("1 of 1"), "{text}");
    let page = std::fs::read_to_string(out.join("insulation.html")).unwrap();
    assert!(page.contains("<svg") && page.contains(CELL) && !page.contains("src="));
    assert!(out.join("insulation.svg").exists() && out.join("insulation.json").exists());
}

#[test]
fn an_unknown_name_is_bad_usage_and_known_names_are_listed() {
    for (words, named) in [
        (&["--policy", "fastest"][..], "zygaria"),
        (&["--cell", "deskstar-34gxp/random-4k"], "DEVICE/VICTIM/ANTAGONIST/SHARE"),
        (&["--cell", "deskstar-34gxp/random-4k/random-4k/55"], "50"),
        (&["--quick", "--cell", CELL], "--cell"),
        (&["--seed", "one"], "one"),
        (&["--rounds", "2"], "--live"),
        (&["--live", "--quick"], "--quick"),
        (&["--live", "--for", "1ms"], "100ms"),
        (&["--live", "--rounds", "0"], "1 to 100"),
        (&["--live", "--on", "tape"], "qemu-nbd"),
        (&["--live", "--against", "cfq"], "linux-bfq"),
        (&["--live", "--on", "emulated", "--cost-model", "guessed"], "fixed"),
        (&["--live", "--on", "file", "--size", "1MiB"], "67108864"),
        (&["--live", "--on", "nbdkit", "--depth", "0"], "1..=1024"),
        (&["--live", "--cell", "raid0-deskstar/random-4k/random-4k/50"], "deskstar-34gxp"),
    ] {
        let output = bench(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(named), "{words:?}");
        assert!(output.stdout.is_empty());
    }
}
