//! Foreign suites through `disktime mount`, and its speed beside a plain FUSE pass-through: `cargo xtask
//! bench files [--rounds N] [--only CASE] [--json]`.
//!
//! The suites are `fsx`, `pjdfstest`, fio with verification, stress-ng, git, and a source tree that is
//! unpacked, compared and deleted; a mount that is killed is recovered. Each runs with files of no contract and with
//! a reservation for every file. Speeds are ratios to `bindfs`, or to the source itself, in the same round:
//! the median of the rounds counts. A program that is not installed is skipped, aloud. While others take
//! more than 5 % of the processors' time a speed that misses is `not judged`. Exits with 0 if all pass, 1 if
//! one fails, and else 3 if one is not judged.
#![allow(missing_docs, reason = "a program")]
#![expect(clippy::print_stdout, reason = "a command line's answers go to standard output")]

#[path = "../live/machine.rs"]
mod machine;
mod mounts;
mod speeds;
mod suites;

use std::process::ExitCode;

use anyhow::{Context, bail};
use serde::Serialize;

/// The outcome of a case.
enum Found {
    /// It passes; with its figure, if it has one.
    Passed(String),
    Failed(String),
    /// It can't run here.
    Skipped(String),
    /// A ratio, what is asked of it, and others' part of the processors' time.
    Ratio {
        got: f64,
        asked: f64,
        said: String,
        foreign: f64,
    },
}

#[derive(Serialize)]
struct Row {
    case: &'static str,
    verdict: &'static str,
    said: String,
    got: Option<f64>,
    asked: Option<f64>,
    foreign_cpu: Option<f64>,
}

impl Row {
    fn of(case: &'static str, found: Found) -> Self {
        let plain = |verdict, said| (verdict, said, None, None, None);
        let (verdict, said, got, asked, foreign_cpu) = match found {
            Found::Passed(said) => plain("ok", said),
            Found::Failed(said) => plain("FAIL", said),
            Found::Skipped(said) => plain("skipped", said),
            Found::Ratio { got, asked, said, foreign } => {
                let verdict = match (got >= asked, foreign > machine::FOREIGN_MAX) {
                    (true, _) => "ok",
                    (false, true) => "not judged",
                    (false, false) => "FAIL",
                };
                (verdict, said, Some(got), Some(asked), Some(foreign))
            }
        };
        Self { case, verdict, said, got, asked, foreign_cpu }
    }

    fn tell(&self) {
        let Self { case, verdict, said, got, asked, foreign_cpu } = self;
        let ratio = got.zip(*asked).map_or_else(String::new, |(got, asked)| {
            let others = foreign_cpu.unwrap_or_default() * 100.0;
            format!("{got:.2} of {asked:.2} asked, others had {others:.0} % of the processors; ")
        });
        println!("{case:26} {verdict:10} {ratio}{said}");
    }
}

type Case = (&'static str, fn(usize) -> anyhow::Result<Found>);

/// Each file has a contract, which no other file of a suite is refused for.
const WITH_CONTRACT: &[&str] = &["--default", "weight=90"];

const CASES: [Case; 21] = [
    ("fsx", |_| suites::fsx(&[])),
    ("fsx-contract", |_| suites::fsx(WITH_CONTRACT)),
    ("pjdfstest", |_| suites::pjdfstest(&[])),
    ("pjdfstest-contract", |_| suites::pjdfstest(WITH_CONTRACT)),
    ("fsx-pass-through", |_| suites::fsx(&["--pass-through"])),
    ("fio-verify-pass-through", |_| suites::fio(&["--pass-through"])),
    ("fio-verify", |_| suites::fio(&[])),
    ("fio-verify-contract", |_| suites::fio(WITH_CONTRACT)),
    ("stress-ng", |_| suites::stress(&[])),
    ("stress-ng-contract", |_| suites::stress(WITH_CONTRACT)),
    ("git-clone", |_| suites::git(&[])),
    ("source-tree", |_| suites::tree(&[])),
    ("source-tree-contract", |_| suites::tree(WITH_CONTRACT)),
    ("source-tree-built", |_| suites::built(&[])),
    ("source-tree-built-contract", |_| suites::built(WITH_CONTRACT)),
    ("kill-and-recover", |_| suites::killed()),
    ("read-with-contract", speeds::read_with_contract),
    ("read-cached", speeds::read_cached),
    ("read-pass-through", speeds::read_passed_through),
    ("find", speeds::find),
    ("tar", speeds::tar),
];

fn main() -> ExitCode {
    match run(std::env::args().skip(1).filter(|word| word != "--bench")) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(mut words: impl Iterator<Item = String>) -> anyhow::Result<ExitCode> {
    let (mut rounds, mut only, mut as_json) = (5, None, false);
    while let Some(word) = words.next() {
        if word == "--json" {
            as_json = true;
            continue;
        }
        let value = words.next().with_context(|| format!("{word}: takes a value"))?;
        match word.as_str() {
            "--rounds" => {
                let number = value.parse::<usize>().ok().filter(|number| (1..=99).contains(number));
                rounds = number.with_context(|| format!("--rounds {value}: 1 to 99"))?;
            }
            "--only" => only = Some(value),
            _ => bail!("{word}: --rounds, --only CASE, --json"),
        }
    }
    let names = CASES.map(|(name, _)| name);
    if let Some(only) = only.as_deref().filter(|only| !names.contains(only)) {
        bail!("--only {only}: there are {}", names.join(", "));
    }
    if !rustix::process::geteuid().is_root() || !std::path::Path::new("/dev/fuse").exists() {
        bail!("mounts need /dev/fuse and the superuser");
    }
    let mut rows = Vec::new();
    for (name, case) in CASES {
        if only.as_deref().is_none_or(|only| only == name) {
            let row = Row::of(name, case(rounds).with_context(|| name.to_owned())?);
            if !as_json {
                row.tell();
            }
            rows.push(row);
        }
    }
    if as_json {
        println!("{}", serde_json::to_string(&rows)?);
    }
    let has = |verdict| rows.iter().any(|row| row.verdict == verdict);
    Ok(ExitCode::from(if has("FAIL") { 1 } else { u8::from(has("not judged")) * 3 }))
}
