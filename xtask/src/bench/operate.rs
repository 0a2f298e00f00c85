//! `cargo xtask bench operate`: what it takes to operate a large daemon, by
//! `crates/cli/benches/operate.rs`, which judges and takes the words.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::workspace::{Workspace, cargo};

/// Runs the command; see the module.
///
/// # Errors
/// When cargo can't be run.
pub(super) fn run(words: &[String]) -> Result<bool> {
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root).args(["bench", "-p", "disktime", "--bench", "operate"]);
    command.arg("--").args(words).stdin(Stdio::null());
    Ok(command.status().context("cargo can't be run")?.success())
}
