//! `cargo xtask bench nbd`: `disktime bench nbd`, which takes the words, as it is built for release.

use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

use super::NotJudged;
use crate::workspace::{Workspace, cargo};

/// How the program exits that found the machine too busy to judge.
const NOT_JUDGED: i32 = 3;

/// Runs the command; see the module.
///
/// # Errors
/// When cargo can't be run, or the machine was too busy.
pub(super) fn run(words: &[String]) -> Result<bool> {
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root);
    command.args(["run", "--release", "--locked", "-p", "disktime", "--", "bench", "nbd"]);
    // Cargo exits as the program does.
    let status = command.args(words).stdin(Stdio::null()).status();
    judge(status.context("cargo can't be run")?)
}

fn judge(status: ExitStatus) -> Result<bool> {
    match status.code() {
        Some(NOT_JUDGED) => Err(NotJudged.into()),
        _ => Ok(status.success()),
    }
}
