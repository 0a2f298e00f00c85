//! `cargo xtask bless` and `cargo xtask bench same`: what every scenario does, written down and
//! compared, by `crates/bench/benches/same.rs`, which judges and takes the words.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::workspace::{Workspace, cargo};

/// Compares; see the module.
///
/// # Errors
/// When cargo can't be run.
pub(super) fn run(words: &[String]) -> Result<bool> {
    call("compare", words)
}

/// Writes down; see the module.
///
/// # Errors
/// When cargo can't be run.
pub(crate) fn bless(words: &[String]) -> Result<bool> {
    call("bless", words)
}

fn call(action: &str, words: &[String]) -> Result<bool> {
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root);
    command.args(["bench", "-p", "disktime-bench", "--bench", "same", "--", action]);
    command.args(words).stdin(Stdio::null());
    Ok(command.status().context("cargo can't be run")?.success())
}
