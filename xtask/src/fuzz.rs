//! The fuzz targets of the NBD codec (`crates/nbd/fuzz`): libFuzzer looks for bytes that break a promise,
//! and goes by what they reach. The stable toolchain can build that: it lacks the sanitizers only, and
//! the codec has no `unsafe`.
//!
//! The crate is a workspace of its own, since all that it links is instrumented. Inputs that reach
//! something new stay in `target/fuzz`, and the next run goes on from there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context as _, Result, bail};

use crate::finding::{Finding, Report};
use crate::stream::{Deadline, Ended, capture, stream};
use crate::workspace::{Workspace, cargo};

const CRATE: &str = "crates/nbd/fuzz";
/// The targets' first inputs, which `crates/nbd/tests/corpus.rs` replays.
const CORPUS: &str = "crates/nbd/corpus";
/// Time of each target.
const SECONDS: u64 = 60;
/// The target with a mistake that only bytes in the right order reach. It has to be found, or the
/// others' silence says nothing.
const PLANTED: &str = "planted";
/// Time for the planted mistake, which takes less than a second of it.
const PLANTED_SECONDS: u64 = 30;

/// The flags that `cargo fuzz` passes for a build without a sanitizer: counters at all edges, compared
/// values, and the checks of a debug build.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks \
    -Ccodegen-units=1";
/// With it stated, flags are for the targets alone and not for build scripts.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Input in bytes, time of one input in seconds, and memory in MiB that no input may exceed.
const LIMITS: [&str; 3] = ["-max_len=4096", "-timeout=10", "-rss_limit_mb=512"];

/// The options of a run.
#[derive(PartialEq, Eq, Debug)]
struct Wish {
    seconds: u64,
    seed: u64,
    only: Option<String>,
}

/// Runs the bench.
///
/// # Errors
/// When the words are not understood, or a command can't be run.
pub(crate) fn run(words: &[String]) -> Result<bool> {
    let wish = parse(words)?;
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let report = judge(&workspace, Deadline::new(None), &wish)?;
    report.notes.iter().for_each(|note| println!("{note}"));
    report.failures.iter().for_each(|failure| eprintln!("{failure}"));
    Ok(report.passed())
}

/// Runs every target for [`SECONDS`].
///
/// # Errors
/// When a command can't be run.
pub(crate) fn gate(workspace: &Workspace, deadline: Deadline) -> Result<Report> {
    judge(workspace, deadline, &Wish { seconds: SECONDS, seed: 1, only: None })
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
    // libFuzzer takes 0 for "no limit", and for "draw one".
    if wish.seconds == 0 || wish.seed == 0 {
        bail!("--seconds and --seed are at least 1");
    }
    Ok(wish)
}

fn judge(workspace: &Workspace, deadline: Deadline, wish: &Wish) -> Result<Report> {
    let place = Place::of(workspace);
    let folder = place.crate_dir.join("fuzz_targets");
    let mut report = Report::default();
    if !folder.exists() && !place.corpus.exists() {
        report.notes.push(Finding::new(CRATE, "is not there, nor a corpus: nothing is fuzzed"));
        return Ok(report);
    }
    let mut targets = targets(&folder)?;
    targets.retain(|target| target != PLANTED);
    if let Some(only) = &wish.only {
        targets.retain(|target| target == only);
        if targets.is_empty() {
            bail!("--only {only}: no such target");
        }
    }
    if let Some(why) = place.lacks(deadline)? {
        report.notes.push(Finding::new("fuzz", format!("SKIPPED: {why}")));
        return Ok(report);
    }
    let built = place.build(deadline)?;
    if let Some(why) = built.build_failure() {
        report.failures.push(Finding::new(CRATE, format!("the targets' build failed: {why}")));
        return Ok(report);
    }
    let planted = place.fuzz(PLANTED, PLANTED_SECONDS, wish.seed, deadline)?;
    if planted.failure.is_none() {
        let what = "its mistake was not found, so the other targets can't be trusted";
        report.failures.push(Finding::new(PLANTED, what));
    }
    let queue = Mutex::new(targets.into_iter());
    let next = || queue.lock().ok()?.next();
    let work = || -> Result<Vec<(String, Ended)>> {
        std::iter::from_fn(next)
            .map(|target| {
                Ok((target.clone(), place.fuzz(&target, wish.seconds, wish.seed, deadline)?))
            })
            .collect()
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut all = thread::scope(|scope| -> Result<Vec<_>> {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let ended = running.into_iter().map(|it| it.join().expect("a worker does not panic"));
        Ok(ended.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    })?;
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let mut sum = 0;
    for (target, ended) in &all {
        let tried = executions(&ended.lines);
        sum += tried;
        println!("{target:<22}{tried:>12} inputs");
        if ended.failure.is_some() {
            report.failures.push(place.finding(target, &ended.lines));
        }
    }
    println!("{:<22}{sum:>12} inputs", "all");
    Ok(report)
}

/// Where things are.
struct Place {
    crate_dir: PathBuf,
    corpus: PathBuf,
    /// Builds, and what runs have found.
    scratch: PathBuf,
}

impl Place {
    fn of(workspace: &Workspace) -> Self {
        Self {
            crate_dir: workspace.root.join(CRATE),
            corpus: workspace.root.join(CORPUS),
            scratch: workspace.target.join("fuzz"),
        }
    }

    /// Says if this machine lacks a compiler for libFuzzer, or its source.
    fn lacks(&self, deadline: Deadline) -> Result<Option<&'static str>> {
        let mut compiler = Command::new("c++");
        compiler.arg("--version");
        if capture(compiler).map_or(true, |ended| ended.failure.is_some()) {
            return Ok(Some("there is no C++ compiler for libFuzzer: install g++"));
        }
        let fetch = capture(self.cargo(deadline, &["fetch", "--locked"]))?;
        let why = "libFuzzer's crate can't be fetched: is there a network?";
        Ok(is_out_of_reach(&fetch).then_some(why))
    }

    fn build(&self, deadline: Deadline) -> Result<Ended> {
        stream(self.cargo(deadline, &["build", "--release", "--locked"]))
    }

    fn cargo(&self, deadline: Deadline, words: &[&str]) -> Command {
        let mut command = deadline.command(&cargo());
        command.current_dir(&self.crate_dir).args(words).args(["--target", TRIPLE]);
        command.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", self.scratch.join("build"));
        command
    }

    fn binary(&self, target: &str) -> PathBuf {
        self.scratch.join("build").join(TRIPLE).join("release").join(target)
    }

    fn fuzz(&self, target: &str, seconds: u64, seed: u64, deadline: Deadline) -> Result<Ended> {
        let found = self.scratch.join("found").join(target);
        std::fs::create_dir_all(&found).with_context(|| found.display().to_string())?;
        let mut command = deadline.command(&self.binary(target).to_string_lossy());
        command.args(LIMITS).arg("-print_final_stats=1");
        command.arg(format!("-max_total_time={seconds}"));
        command.arg(format!("-seed={seed}"));
        command.arg(format!("-artifact_prefix={}/{target}-", self.scratch.display()));
        command.arg(found);
        let corpus = self.corpus.join(target);
        command.args(corpus.is_dir().then_some(corpus));
        capture(command)
    }

    /// Says why a target failed, and how to see it again.
    fn finding(&self, target: &str, lines: &[String]) -> Finding {
        let why = lines
            .iter()
            .find(|line| line.contains("panicked at") || line.contains("ERROR: libFuzzer"))
            .map_or("failed", String::as_str);
        let file = lines.iter().find_map(|line| line.split_once("Test unit written to "));
        let file = file.map_or("", |(_, file)| file);
        let again = format!("again: {} {file}", self.binary(target).display());
        Finding::new(target, format!("{why}; {again}"))
    }
}

/// Whether `cargo fetch --locked` failed for want of a network. An old lock file is a mistake on any machine: the
/// build fails for it.
fn is_out_of_reach(fetch: &Ended) -> bool {
    fetch.failure.is_some() && !fetch.lines.iter().any(|line| line.contains("--locked was passed"))
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

/// The inputs that a run has tried.
fn executions(lines: &[String]) -> u64 {
    let number =
        |line: &String| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
    lines.iter().find_map(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn words_are_understood_or_named() {
        let parse =
            |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let only = Some("server_session".to_owned());
        let wish = parse("--only server_session --seed 7 --seconds 1").unwrap();
        assert_eq!(wish, Wish { seconds: 1, seed: 7, only });
        assert_eq!(parse("").unwrap().seconds, SECONDS);
        for (text, says) in [
            ("--seconds", "takes a value"),
            ("--sed 1", "`--sed` is none"),
            ("--seconds 0", "at least 1"),
        ] {
            assert!(parse(text).unwrap_err().to_string().contains(says), "{text}");
        }
    }

    #[test]
    fn a_finding_says_where_and_how_to_repeat_it() {
        let lines = ["INFO: Seed: 1", "thread '<unnamed>' panicked at src/frame.rs:7:3:"];
        let more = ["artifact_prefix='/t/'; Test unit written to /t/session-crash-12"];
        let lines: Vec<_> = lines.iter().chain(&more).map(|&line| line.to_owned()).collect();
        let place = Place { crate_dir: "/c".into(), corpus: "/k".into(), scratch: "/t".into() };
        let said = place.finding("session", &lines).to_string();
        assert!(said.contains("panicked at src/frame.rs:7:3"), "{said}");
        assert!(said.ends_with("/release/session /t/session-crash-12"), "{said}");
    }

    /// Taken for a machine without a network, it kept every target from running for as long as nobody read the notes.
    #[test]
    fn an_old_lock_file_is_a_mistake_and_no_network_is_none() {
        let ended = |lines: &[&str], failed: bool| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            is_out_of_reach(&Ended {
                lines,
                failure: failed.then(|| "ended with exit status: 101".to_owned()),
            })
        };
        let old = "error: cannot update the lock file /c/Cargo.lock because --locked was passed to prevent this";
        assert!(!ended(&[old], true));
        assert!(ended(
            &["error: failed to download from `https://…`", "Could not resolve host"],
            true
        ));
        assert!(!ended(&["Downloaded arbitrary v1.5.0"], false));
    }

    /// The words by which cargo says that are its own, and may change.
    #[test]
    fn cargo_says_of_an_old_lock_file_what_is_read() {
        let fixture = Fixture::new(&[
            ("Cargo.toml", "[package]\nname = \"one\"\nversion = \"0.2.0\"\nedition = \"2024\"\n"),
            ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"one\"\nversion = \"0.1.0\"\n"),
            ("src/lib.rs", ""),
        ]);
        let mut command = Command::new(cargo());
        command.current_dir(fixture.root()).args(["fetch", "--locked", "--offline"]);
        let fetch = capture(command).unwrap();
        assert!(fetch.failure.is_some() && !is_out_of_reach(&fetch), "{:?}", fetch.lines);
    }

    #[test]
    fn executions_are_read() {
        let line = "stat::number_of_executed_units: 627528".to_owned();
        assert_eq!(executions(&[line]), 627_528);
        assert_eq!(executions(&[]), 0);
    }
}
