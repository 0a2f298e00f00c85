//! Paper reward's figure 2 live, on two emulated tiers: with more hits a workload is faster.

use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::Found;

const PANEL: &str = "Live beside simulated: workload 1";

/// Workload 1 with few and with more hits, under each policy, live and simulated.
pub(crate) fn run() -> anyhow::Result<Found> {
    let output = Command::new(env!("CARGO_BIN_EXE_disktime"))
        .args(["paper", "run", "reward-2", "--seeds", "1", "--live", "1s", "--json"])
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let reports: Value = serde_json::from_slice(&output.stdout).context(errors)?;
    let series = reports[0]["series"].as_array().context("the report has no series")?;
    let (mut figures, mut missed) = (Vec::new(), Vec::new());
    for series in series.iter().filter(|series| series["panel"] == PANEL) {
        let rate = |at: usize| series["points"][at][1].as_f64().context("a rate is missing");
        let (few, more) = (rate(0)?, rate(1)?);
        let figure = format!("{}: {few:.0} and {more:.0} requests/s", series["name"]);
        if !(few > 20.0 && more > 2.0 * few && more < 6.0 * few) {
            missed.push(figure.clone());
        }
        figures.push(figure);
    }
    Ok(Found::of(&figures, &missed))
}
