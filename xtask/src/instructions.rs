//! Instructions of the core's paths: counted under valgrind, compared with those that are committed.
//!
//! A path is a program's: `paths` of a crate takes one so often. The difference between two numbers of
//! times has neither the program's start nor its end in it. Counts are of one compiler: with another
//! one they are not judged until somebody blesses them. Does not know: what a path does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::finding::{Finding, Report};
use crate::stream::{Deadline, capture};
use crate::workspace::{Workspace, cargo};

/// The crates that have a program `paths`.
const CRATES: [&str; 2] = ["disktime-core", "disktime-nbd"];
/// The committed counts, one a line, after the compiler's version.
const FILE: &str = "xtask/instructions.txt";
/// Times that a path is taken before those that count, so that tables are as large as they become.
const BEFORE: u64 = 2_000;
/// Times that count.
const TIMES: u64 = 5_000;
/// A count above the committed one by more than so many hundredths is a failure.
const PERCENT_MAX: u64 = 2;

/// Instructions of one time, by path.
type Counts = BTreeMap<String, u64>;

/// The committed file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Committed {
    compiler: String,
    counts: Counts,
}

/// Counts, and compares.
///
/// # Errors
/// When the programs can't be built or run.
pub(crate) fn gate(workspace: &Workspace, deadline: Deadline) -> Result<Report> {
    let note = |what: &str| Report {
        failures: Vec::new(),
        notes: vec![Finding::new(FILE, what.to_owned())],
    };
    if !has_valgrind() {
        return Ok(note("is not compared: valgrind is not installed"));
    }
    let committed = read(workspace)?;
    if committed.compiler != compiler()? {
        let what = format!(
            "is of {}: `cargo xtask bench instructions --bless` writes down this compiler's counts",
            committed.compiler
        );
        return Ok(note(&what));
    }
    Ok(compare(&committed.counts, &count(workspace, deadline)?))
}

/// Prints the counts; with `--bless` writes them down.
///
/// # Errors
/// When a word is not understood, or the programs can't be built or run.
pub(crate) fn run(words: &[String]) -> Result<bool> {
    let blesses = match words {
        [] => false,
        [word] if word == "--bless" => true,
        _ => bail!("`bench instructions` takes --bless or nothing, not {words:?}"),
    };
    if !has_valgrind() {
        bail!("valgrind is not installed: apt-get install valgrind");
    }
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let counts = count(&workspace, Deadline::new(None))?;
    let committed = read(&workspace)?;
    for (path, now) in &counts {
        let before = committed.counts.get(path).map_or("new".to_owned(), u64::to_string);
        println!("{path:<32}{before:>8}{now:>8}");
    }
    if blesses {
        let text = write(&Committed { compiler: compiler()?, counts });
        std::fs::write(workspace.root.join(FILE), text).context(FILE)?;
        return Ok(true);
    }
    let report = compare(&committed.counts, &counts);
    report.failures.iter().for_each(|failure| println!("{failure}"));
    Ok(report.passed())
}

fn has_valgrind() -> bool {
    let mut command = Command::new("valgrind");
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The compiler's version, and the kind of machine.
fn compiler() -> Result<String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(rustc).arg("--version").output().context("rustc can't be run")?;
    let version = String::from_utf8_lossy(&output.stdout);
    let version = version.split(" (").next().unwrap_or_default().trim();
    Ok(format!("{version} on {}", std::env::consts::ARCH))
}

fn read(workspace: &Workspace) -> Result<Committed> {
    let Some(file) = workspace.text(FILE) else { return Ok(Committed::default()) };
    parse(&file.text).with_context(|| FILE.to_owned())
}

fn parse(text: &str) -> Result<Committed> {
    let mut lines = text.lines();
    let compiler = lines.next().unwrap_or_default().to_owned();
    let count = |line: &str| {
        let (path, count) = line.split_once(' ').context("a line is `PATH COUNT`")?;
        Ok((path.to_owned(), count.trim().parse().with_context(|| format!("`{line}`"))?))
    };
    Ok(Committed { compiler, counts: lines.map(count).collect::<Result<_>>()? })
}

fn write(committed: &Committed) -> String {
    let lines = committed.counts.iter().map(|(path, count)| format!("{path} {count}\n"));
    format!("{}\n{}", committed.compiler, lines.collect::<String>())
}

fn compare(committed: &Counts, counted: &Counts) -> Report {
    let mut report = Report::default();
    for (path, now) in counted {
        match committed.get(path) {
            Some(before) if now * 100 > before * (100 + PERCENT_MAX) => {
                let what = format!(
                    "takes {now} instructions, {before} before: make it shorter, or bless it with a \
                     reason (`cargo xtask bench instructions --bless`)"
                );
                report.failures.push(Finding::new(path, what));
            }
            Some(before) if now * 100 < before * (100 - PERCENT_MAX) => {
                let what = format!("takes {now} instructions, {before} before: bless what was won");
                report.notes.push(Finding::new(path, what));
            }
            Some(_) => {}
            None => {
                report
                    .failures
                    .push(Finding::new(path, format!("takes {now}, and is not in {FILE}")));
            }
        }
    }
    let gone = committed.keys().filter(|path| !counted.contains_key(*path));
    report.failures.extend(gone.map(|path| Finding::new(path, format!("is only in {FILE}"))));
    report
}

fn count(workspace: &Workspace, deadline: Deadline) -> Result<Counts> {
    let mut counts = Counts::new();
    for package in CRATES {
        let program = build(workspace, deadline, package)?;
        let names = Command::new(&program).output().context("a program of paths can't be run")?;
        let names = String::from_utf8_lossy(&names.stdout).into_owned();
        for name in names.lines() {
            let [less, more] = both(&program, deadline, name)?;
            let path = format!("{}/{name}", package.trim_start_matches("disktime-"));
            counts.insert(path, (more - less) / TIMES);
        }
    }
    Ok(counts)
}

/// Builds a crate's program of paths; answers where it is.
fn build(workspace: &Workspace, deadline: Deadline, package: &str) -> Result<PathBuf> {
    let mut command = deadline.command(&cargo());
    command.current_dir(&workspace.root);
    command.args(["build", "--profile", "counts", "--locked", "-p", package, "--bench", "paths"]);
    command.args(["--message-format", "json"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let built = command.output().context("cargo can't be run")?;
    if !built.status.success() {
        bail!("{package}: its paths can't be built");
    }
    let messages = String::from_utf8_lossy(&built.stdout);
    executable(&messages).with_context(|| format!("cargo names no program of {package}"))
}

/// The program in cargo's messages, one a line.
fn executable(messages: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_ours = message["target"]["name"] == "paths";
        message["executable"].as_str().filter(|_| is_ours).map(PathBuf::from)
    })
}

/// The instructions of a run that is short and of one that is longer, side by side.
fn both(program: &PathBuf, deadline: Deadline, name: &str) -> Result<[u64; 2]> {
    let one = |times: u64| {
        let mut command = deadline.command("valgrind");
        command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
        command.arg(program).arg(name).arg(times.to_string());
        let ended = capture(command)?;
        let found = ended.lines.iter().find_map(|line| refs(line));
        found.with_context(|| format!("{name}: valgrind says: {}", ended.lines.join(" / ")))
    };
    let (less, more) = std::thread::scope(|scope| {
        let less = scope.spawn(|| one(BEFORE));
        let more = one(BEFORE + TIMES);
        (less.join(), more)
    });
    let less = less.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Ok([less, more?])
}

/// `==123== I   refs:      1,234,567`, also without `refs` in newer versions.
fn refs(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("== I ")?;
    let (label, number) = rest.split_once(':')?;
    if !matches!(label.trim(), "refs" | "") {
        return None;
    }
    number.trim().replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, u64)]) -> Counts {
        all.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect()
    }

    #[test]
    fn a_path_may_grow_by_two_hundredths_and_no_more() {
        let committed = counts(&[("core/a", 1000)]);
        for (now, failures, notes) in [(1020, 0, 0), (1021, 1, 0), (980, 0, 0), (979, 0, 1)] {
            let report = compare(&committed, &counts(&[("core/a", now)]));
            assert_eq!((report.failures.len(), report.notes.len()), (failures, notes), "{now}");
        }
    }

    #[test]
    fn paths_that_come_and_go_are_named() {
        let report = compare(&counts(&[("core/a", 1)]), &counts(&[("core/b", 1)]));
        let shown: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "core/b: takes 1, and is not in xtask/instructions.txt",
                "core/a: is only in xtask/instructions.txt",
            ]
        );
    }

    #[test]
    fn a_file_reads_as_it_was_written() {
        let compiler = "rustc 1.0.0 on z80".to_owned();
        let committed = Committed { compiler, counts: counts(&[("core/a", 1), ("nbd/b", 22)]) };
        assert_eq!(parse(&write(&committed)).unwrap(), committed);
        assert!(parse("rustc 1.0.0\ncore/a many\n").is_err());
    }

    #[test]
    fn the_count_is_read_from_both_forms_of_the_line() {
        assert_eq!(refs("==7== I   refs:      1,234,567"), Some(1_234_567));
        assert_eq!(refs("==7== I refs:        12"), Some(12));
        assert_eq!(refs("==7== I1  misses:    12"), None);
    }
}
