//! `cargo xtask bench figures`: every figure of the papers over five seeds and over the range of each
//! number that a paper leaves open, as the product's command runs them.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::workspace::{Workspace, cargo};

/// Runs of each figure, unless the words say otherwise.
const SEEDS: &str = "5";

/// Runs the command; `Ok(false)` when a check misses.
///
/// # Errors
/// When cargo can't be run.
pub(super) fn run(words: &[String]) -> Result<bool> {
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root).args(["run", "--release", "-p", "disktime", "--"]);
    command.args(arguments(words)).stdin(Stdio::null());
    Ok(command.status().context("cargo can't be run")?.success())
}

/// The words of the product's command: all figures, or those that are named first.
fn arguments(words: &[String]) -> Vec<String> {
    let named = words.iter().take_while(|word| !word.starts_with("--")).count();
    let mut arguments = vec!["paper".to_owned()];
    arguments.push(if named == 0 { "all" } else { "run" }.to_owned());
    arguments.extend(words.iter().cloned());
    if !words.iter().any(|word| word == "--seeds" || word.starts_with("--seeds=")) {
        arguments.extend(["--seeds", SEEDS].map(str::to_owned));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_seeds_are_run_unless_others_are_asked_for() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(arguments(&[]), words("paper all --seeds 5"));
        assert_eq!(arguments(&words("mdn-3a --json")), words("paper run mdn-3a --json --seeds 5"));
        assert_eq!(
            arguments(&words("--seeds 2 --first-seed 11")),
            words("paper all --seeds 2 --first-seed 11")
        );
    }
}
