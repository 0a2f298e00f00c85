//! `cargo xtask bench fuzz`: the targets of `crates/nbd/fuzz`, each for some time, by the mutations of
//! `crates/nbd/tests/corpus.rs`, which a stable toolchain runs. They do not go by coverage.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::stream::now;
use crate::workspace::{Workspace, cargo};

/// Time of each target.
const SECONDS: u64 = 60;
/// Mutants of one call of the test: some seconds.
const MUTANTS: u64 = 500_000;

/// The options of a run.
#[derive(PartialEq, Eq, Debug)]
struct Wish {
    seconds: u64,
    seed: u64,
    only: Option<String>,
}

/// Runs the command; see the module.
///
/// # Errors
/// When the words are not understood, or cargo can't be run.
pub(super) fn run(words: &[String]) -> Result<bool> {
    let wish = parse(words)?;
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let mut targets = targets(&workspace.root.join("crates/nbd/fuzz/fuzz_targets"))?;
    if let Some(only) = &wish.only {
        targets.retain(|target| target == only);
        if targets.is_empty() {
            bail!("--only {only}: no such target");
        }
    }
    if !test(&workspace.root).arg("--no-run").status().context("cargo can't be run")?.success() {
        bail!("the targets can't be built");
    }
    let (mut table, mut all) = (String::new(), 0);
    for target in targets {
        let (begun, mut seed, mut tried) = (now(), wish.seed, 0);
        while begun.elapsed() < Duration::from_secs(wish.seconds) {
            let mut command = test(&workspace.root);
            command.args(["-q", "--", "--exact", "mutants_break_no_promise"]);
            command.env("NBD_TARGET", &target).env("NBD_SEED", seed.to_string());
            command.env("NBD_MUTANTS", MUTANTS.to_string());
            let output = command.stdin(Stdio::null()).output().context("cargo can't be run")?;
            if !output.status.success() {
                eprintln!("{}", String::from_utf8_lossy(&output.stdout));
                eprintln!(
                    "again: cargo xtask bench fuzz --only {target} --seed {seed} --seconds 1"
                );
                return Ok(false);
            }
            tried += MUTANTS;
            seed += 1;
        }
        let _never_fails = writeln!(table, "{target:<22}{tried:>12} mutants");
        all += tried;
    }
    println!("{table}{:<22}{all:>12} mutants, none broke a promise", "all");
    Ok(true)
}

fn parse(words: &[String]) -> Result<Wish> {
    let mut wish = Wish { seconds: SECONDS, seed: 1, only: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} takes a value"));
        match word.as_str() {
            "--only" => wish.only = Some(value()?.clone()),
            "--seconds" => wish.seconds = value()?.parse().context("--seconds takes a number")?,
            "--seed" => wish.seed = value()?.parse().context("--seed takes a number")?,
            _ => bail!("`{word}` is none of --seconds N, --seed N, --only TARGET"),
        }
    }
    Ok(wish)
}

/// The names of the targets: one file for each.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let files = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut targets: Vec<_> =
        files.filter_map(Result::ok).filter_map(|entry| stem(&entry.path())).collect();
    targets.sort();
    Ok(targets)
}

fn test(root: &Path) -> Command {
    let mut command = Command::new(cargo());
    command.current_dir(root);
    command.args(["test", "--release", "-p", "disktime-nbd", "--test", "corpus"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood_or_named() {
        let parse =
            |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let only = Some("server_session".to_owned());
        let wish = parse("--only server_session --seed 7 --seconds 1").unwrap();
        assert_eq!(wish, Wish { seconds: 1, seed: 7, only });
        assert_eq!(parse("").unwrap().seconds, SECONDS);
        for (text, says) in [("--seconds", "takes a value"), ("--sed 1", "`--sed` is none")] {
            assert!(parse(text).unwrap_err().to_string().contains(says), "{text}");
        }
    }
}
