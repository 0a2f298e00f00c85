//! Figures that are run live, at a length that shows that they run, not what they show: `cargo xtask
//! bench live` compares rates.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::process::Command;

use serde_json::Value;

#[test]
fn a_live_run_stands_beside_the_simulated_one() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    let output = command
        .args(["paper", "run", "reward-2", "--seeds", "1", "--live", "1s", "--json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // In so short a run a check may miss.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = |key: &str| reports[0][key].as_array().unwrap().clone();
    let live = all("checks")
        .into_iter()
        .filter(|check| check["name"].as_str().is_some_and(|name| name.starts_with("live")));
    assert_eq!(live.count(), 7, "{said}");
    let panel = "Live beside simulated: workload 1";
    let series = all("series").into_iter().filter(|series| series["panel"] == panel);
    let rates = series.map(|series| {
        let points = series["points"].as_array().unwrap().clone();
        let rates: Vec<f64> = points.iter().map(|point| point[1].as_f64().unwrap()).collect();
        assert_eq!(rates.len(), 6);
        (series["name"].as_str().unwrap().to_owned(), rates)
    });
    for (name, rates) in rates {
        assert!(rates.iter().all(|rate| *rate > 0.0), "{name}: {rates:?}\n{said}");
    }
}
