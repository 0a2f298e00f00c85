//! `disktime bench random` as scripts use it.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use serde_json::Value;
use std::process::{Command, Output};

fn bench(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(["bench", "random"]).args(words).output().unwrap()
}

#[test]
fn json_is_one_array_of_cells_with_their_streams() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("alone");
    let words = ["--seed", "3", "--cell", "0", "--policy", "zygaria", "--policy", "fifo", "--json"];
    let words: Vec<&str> =
        words.into_iter().chain(["--alone-cache", cache.to_str().unwrap()]).collect();
    let output = bench(&words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["zygaria", "fifo"]);
    for row in rows {
        for column in ["cell", "seed", "depth", "seconds", "work_conservation", "promises_broken"] {
            assert!(row[column].is_number(), "{column}: {row}");
        }
        assert_eq!((row["group"].as_str(), row["cell"].as_u64()), (Some("depth1"), Some(0)));
        for stream in row["streams"].as_array().unwrap() {
            for column in ["share", "due", "got", "alone", "insulation", "utilization", "p99_ms"] {
                assert!(stream[column].is_number(), "{column}: {stream}");
            }
            for column in ["gap_ms_max", "p99_own_disk_ms"] {
                assert!(
                    stream[column].is_number() || stream[column].is_null(),
                    "{column}: {stream}"
                );
            }
            assert!(stream["name"].is_string() && stream["what"].is_string());
        }
    }
    let [zygaria, fifo] = [0, 1].map(|row| &rows[row]["streams"]);
    assert_eq!(zygaria[0]["due"], fifo[0]["due"], "the same figures alone");
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 1, "kept");
    let again = bench(&words).stdout == output.stdout;
    assert!(again, "one seed, one answer, from the cache as well");
}

#[test]
fn the_report_names_the_command_of_each_of_the_worst_streams_and_a_page_shows_them() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("report");
    let words = ["--seed", "3", "--group", "depth1", "--policy", "fifo", "--out"];
    let words: Vec<&str> = words.into_iter().chain([out.to_str().unwrap()]).collect();
    let output = bench(&words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("disktime bench random --seed 3 --cell 0 --policy fifo"), "{text}");
    let wide = text.lines().find(|line| line.trim_end().chars().count() > 80);
    assert_eq!(wide, None, "80 columns");
    let page = std::fs::read_to_string(out.join("random.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("--seed 3 --cell 0"), "{page}");
    assert!(out.join("random.svg").exists() && out.join("random.json").exists());
}

/// The command printed for a cell that ran without its latency bounds ran it with them.
#[test]
fn the_command_of_a_worst_stream_runs_the_cell_as_it_was() {
    let output = bench(&["--seed", "3", "--cells", "1", "--policy", "fifo", "--no-latency"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let command = "disktime bench random --seed 3 --cell 0 --policy fifo --no-latency\n";
    assert!(text.contains(command), "{text}");
}

#[test]
fn wrong_arguments_are_named_with_what_is_allowed() {
    let cases: [(&[&str], &[&str]); 10] = [
        // No device is old enough for seed 0: a draw panicked.
        (&["--seed", "0"], &["--seed", "0", "1.."]),
        (&["--seeds", "0-2"], &["--seeds", "0-2", "at least 1"]),
        // Its cells counted twice in every sum.
        (
            &["--policy", "fifo", "--policy", "argon", "--policy", "fifo"],
            &["--policy fifo", "named twice", "each policy once"],
        ),
        (&["--cells", "0"], &["--cells", "0", "1..=10000"]),
        (&["--cell", "10000"], &["--cell", "10000", "0..10000"]),
        (&["--group", "tape"], &["--group", "tape", "depth1, disks, flash"]),
        (&["--seeds", "9-3"], &["--seeds", "9-3", "A-B"]),
        (&["--seeds", "1-99999"], &["--seeds", "10000"]),
        (&["--policy", "magic"], &["--policy", "magic", "disktime"]),
        (&["--cells", "1", "--group", "flash"], &["--cells", "3 or more"]),
    ];
    for (words, expected) in cases {
        let output = bench(words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert!(expected.iter().all(|part| text.contains(part)), "{words:?}: {text}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}
