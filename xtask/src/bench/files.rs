//! `cargo xtask bench files`: foreign suites through `disktime mount` and its speed beside a plain FUSE
//! pass-through, by `crates/cli/benches/files`, which judges and takes the words.

use anyhow::Result;

/// Runs the command; see the module.
///
/// # Errors
/// When the program can't be built or run, or did not judge.
pub(super) fn run(words: &[String]) -> Result<bool> {
    super::live::run_bench("files", words)
}
