//! Figures of the papers by programs on a mount, beside simulations of the same: `disktime paper run` plays
//! and judges them.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::Found;

/// How a check begins that judges the live run.
const LIVE: &str = "live";

/// A figure's live checks.
pub(crate) fn run(id: &str) -> anyhow::Result<Found> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return Ok(Found::TooBusy("mounts need /dev/fuse and the superuser".to_owned()));
    }
    let output = Command::new(env!("CARGO_BIN_EXE_disktime"))
        .args(["paper", "run", id, "--seeds", "1", "--no-bands", "--live", "--json"])
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let reports: Value = serde_json::from_slice(&output.stdout).context(errors)?;
    let rows = |kind: &str| -> anyhow::Result<Vec<Value>> {
        let rows = reports[0][kind].as_array().context("the report has no checks")?;
        let live = |row: &&Value| row["name"].as_str().is_some_and(|it| it.starts_with(LIVE));
        Ok(rows.iter().filter(live).cloned().collect())
    };
    let (mut figures, mut missed) = (Vec::new(), Vec::new());
    for row in rows("reported")? {
        let number = |key: &str| row[key].as_f64().context("a number is missing");
        let (live, simulated) = (number("measured")?, number("published")?);
        let name = row["name"].as_str().unwrap_or_default();
        let (_, name) = name.rsplit_once("published: ").unwrap_or(("", name));
        let apart = (live / simulated - 1.0) * 100.0;
        figures.push(format!("{name}: {live:.2}, simulated {simulated:.2} ({apart:+.1} %)"));
    }
    for check in rows("checks")? {
        if check["pass"] != true {
            missed.push(format!("{}: {}", check["name"], check["measured"]));
        }
    }
    if !missed.is_empty() {
        missed.append(&mut figures);
    }
    Ok(Found::of(&figures, &missed))
}
