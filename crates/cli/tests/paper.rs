//! `disktime paper` as scripts use it.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use serde_json::Value;
use std::process::{Command, Output};

fn paper(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_disktime")).arg("paper").args(words).output().unwrap()
}

#[test]
fn the_list_is_one_document_of_ids_and_titles() {
    let output = paper(&["list", "--json"]);
    assert!(output.status.success());
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(listed[0]["id"], "zygaria-1");
    assert!(listed.as_array().unwrap().iter().all(|figure| figure["title"].is_string()));
}

#[test]
fn an_unknown_id_is_bad_input_and_the_known_ones_are_named() {
    let output = paper(&["run", "zygaria-1", "zygaria-3"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("`zygaria-3`") && error.contains("zygaria-11"), "{error}");
}

#[test]
fn a_run_answers_one_document_and_writes_what_a_browser_opens() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("reports");
    let output =
        paper(&["run", "zygaria-10", "--seeds", "1", "--json", "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = &reports[0];
    assert_eq!((&report["id"], &report["seconds"]), (&"zygaria-10".into(), &85.0.into()));
    assert!(report["series"][0]["points"].as_array().unwrap().len() > 100);
    for check in report["checks"].as_array().unwrap() {
        assert!(check["published"].is_number() && check["measured"].is_number(), "{check}");
        assert_eq!(check["pass"], true, "{check}");
    }
    let page = std::fs::read_to_string(out.join("zygaria.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("zygaria-10") && !page.contains("src="));
    assert!(out.join("zygaria-10.svg").exists() && out.join("reports.json").exists());
    // A reader finds what a paper leaves open, a page over all papers, and a table for the docs.
    assert!(page.contains("requests outstanding of each stream"), "{page}");
    let index = std::fs::read_to_string(out.join("index.html")).unwrap();
    assert!(index.contains("<a href=\"zygaria.html#zygaria-10\">zygaria-10</a>"), "{index}");
    let table = std::fs::read_to_string(out.join("reproduction.md")).unwrap();
    assert!(table.contains("| zygaria-10 | Reserving I/Os keeps both rates"), "{table}");
    assert!(out.join("reproduction-missed.md").exists());
    assert_eq!(report["bands"][0]["values"].as_array().unwrap().len(), 5);
}

/// Seeds 1 to 3 were the only ones that anybody had seen.
#[test]
fn other_seeds_give_other_numbers() {
    let measured = |first: &str| {
        let words =
            ["run", "zygaria-10", "--seeds", "1", "--first-seed", first, "--no-bands", "--json"];
        let reports: Value = serde_json::from_slice(&paper(&words).stdout).unwrap();
        assert_eq!(reports[0]["bands"], Value::Array(Vec::new()));
        reports[0]["checks"][0]["measured"].as_f64().unwrap()
    };
    assert!((measured("1") - measured("11")).abs() > 0.0);
    let output = paper(&["run", "zygaria-10", "--first-seed", "0"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("1 to 1000000000 is possible"), "{error}");
}

#[test]
fn a_missed_check_shows_in_the_exit_code() {
    // Known: see the figure's note and `xtask/expected-red.txt`.
    let output = paper(&["run", "zygaria-11", "--seeds", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("MISSED"));
}

#[test]
fn a_figure_that_cannot_run_live_is_bad_input() {
    for (words, says) in [
        (
            &["run", "zygaria-2", "--live"][..],
            "none of zygaria-2 is run live; those are: reward-t1",
        ),
        (&["run", "reward-2", "--live", "1ms"], "--live 1ms: 1s to 1h a cell"),
    ] {
        let output = paper(words);
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(says), "{error}");
    }
}

/// The recorded traces at hand joined no figure, though their readers were there.
#[test]
fn a_recorded_trace_joins_the_figures_that_it_can() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.csv");
    let trace = trace.to_str().unwrap();
    let wrong = |words: &[&str], says: &str| {
        let output = paper(words);
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(says), "{error}");
    };
    wrong(&["run", "zygaria-1", "--trace", trace], "none of these figures, but qbox-17, qbox-18");
    wrong(&["run", "qbox-18", "--trace", trace], "--trace: ");
    let reads: String = (0..100).map(|at| format!("0.{at:02},R,{},8\n", at * 8)).collect();
    std::fs::write(trace, "time_s,op,lbn,sectors\n".to_owned() + &reads).unwrap();
    let output =
        paper(&["run", "qbox-18", "--seeds", "1", "--no-bands", "--trace", trace, "--json"]);
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = reports[0]["checks"].as_array().unwrap();
    let joined = |check: &&Value| {
        check["name"].as_str().unwrap().starts_with("with a recorded trace: recorded")
    };
    // Its share of all requests, and its throughput by that under `qbox`.
    assert_eq!(checks.iter().filter(joined).count(), 2, "{checks:#?}");
    assert_eq!(reports[0]["seconds"], 240.0);
    assert_eq!(reports[0]["left_out"], Value::Null);
}

/// A run without a trace had fewer rows, and nobody was told.
#[test]
fn a_figure_without_its_recorded_trace_says_so_aloud_and_in_its_report() {
    let output = paper(&["run", "qbox-18", "qbox-4.7", "--seeds", "1", "--no-bands", "--json"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("qbox-18: left out with a recorded trace"), "{error}");
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    let left_out = reports[0]["left_out"].as_str().unwrap();
    assert!(left_out.contains("--trace FILE"), "{left_out}");
    assert_eq!(reports[1]["left_out"], Value::Null);
}
