//! `cargo xtask bench figures`: every figure of the papers over five seeds and over the range of each
//! number that a paper leaves open, as the product's command runs them.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::workspace::{Workspace, cargo};

/// Runs of each figure, unless the words say otherwise.
const SEEDS: &str = "5";
/// The recorded trace that joins the figures which one can join, from the workspace's root.
const TRACE: &str = "../shared/traces/cloudphysics_w_sample.csv.gz";
/// These figures.
const JOINED: [&str; 4] = ["qbox-17", "qbox-18", "qbox-19", "qbox-20"];

/// Runs the command; `Ok(false)` when a check misses.
///
/// # Errors
/// When cargo can't be run.
pub(super) fn run(words: &[String]) -> Result<bool> {
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root).args(["run", "--release", "-p", "disktime", "--"]);
    let trace = workspace.root.join(TRACE).exists();
    if !trace {
        eprintln!("SKIP: {}: with a recorded trace: {TRACE} is not there", JOINED.join(", "));
    }
    command.args(arguments(words, trace)).stdin(Stdio::null());
    Ok(command.status().context("cargo can't be run")?.success())
}

/// The words of the product's command: all figures, or those that are named first; with the recorded
/// trace where there is one and a figure has a use for it.
fn arguments(words: &[String], trace: bool) -> Vec<String> {
    let named = words.iter().take_while(|word| !word.starts_with("--")).count();
    let mut arguments = vec!["paper".to_owned()];
    arguments.push(if named == 0 { "all" } else { "run" }.to_owned());
    arguments.extend(words.iter().cloned());
    let says = |option: &str| {
        let with_value = format!("{option}=");
        words.iter().any(|word| word == option || word.starts_with(&with_value))
    };
    if !says("--seeds") {
        arguments.extend(["--seeds", SEEDS].map(str::to_owned));
    }
    let joined = named == 0 || words[..named].iter().any(|id| JOINED.contains(&id.as_str()));
    if trace && joined && !says("--trace") {
        arguments.extend(["--trace", TRACE].map(str::to_owned));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn five_seeds_are_run_unless_others_are_asked_for() {
        let arguments = |text| arguments(&words(text), false);
        assert_eq!(arguments(""), words("paper all --seeds 5"));
        assert_eq!(arguments("mdn-3a --json"), words("paper run mdn-3a --json --seeds 5"));
        assert_eq!(
            arguments("--seeds 2 --first-seed 11"),
            words("paper all --seeds 2 --first-seed 11")
        );
    }

    /// The recorded trace at hand joined no figure of the table unless somebody thought of it.
    #[test]
    fn a_recorded_trace_that_is_there_joins_the_figures_that_have_a_use_for_it() {
        let last = |text| arguments(&words(text), true).pop();
        assert_eq!(last("").as_deref(), Some(TRACE));
        assert_eq!(last("mdn-3a qbox-19 --seeds 1").as_deref(), Some(TRACE));
        assert_eq!(last("mdn-3a").as_deref(), Some("5"));
        assert_eq!(last("qbox-17 --trace other.csv --seeds 1").as_deref(), Some("1"));
    }
}
