//! Compares the daemon, in real time, with the simulator on the same scenario, and measures what only a
//! clock can tell: `cargo xtask bench live [--only CASE] [--long] [--json]`.
//!
//! Engine and device model are the same on both sides, so the figures must agree. They do on a machine
//! that has nothing else to do. Each case tells what part of the processors' time others took meanwhile:
//! above 5 % a case that misses is `not judged`, and so is one in which the emulated disk's answers were
//! too late. Exits with 0 if all cases pass, with 1 if one fails, and else with 3 if one is not judged.
#![allow(missing_docs, reason = "a program")]
#![expect(clippy::print_stdout, reason = "a command line's answers go to standard output")]

mod demo;
mod files;
mod machine;
mod mounted;
mod player;
mod rates;
mod tiers;
mod window;

use std::process::ExitCode;

use anyhow::{Context, bail};
use serde::Serialize;

use machine::Processors;

/// How the demo exits if the emulated disk's answers were too late.
const DEMO_NOT_JUDGED: i32 = 3;

/// One comparison: add a line to [`CASES`] and the help follows.
struct Case {
    name: &'static str,
    what: &'static str,
    /// Whether it takes minutes and runs with `--long` alone.
    long: bool,
    run: fn() -> anyhow::Result<Found>,
}

const CASES: &[Case] = &[
    Case {
        name: "demo-70-30",
        what: "the demo at 70/30",
        long: false,
        run: || demo::run([70, 30]),
    },
    Case {
        name: "demo-50-50",
        what: "the demo at 50/50",
        long: false,
        run: || demo::run([50, 50]),
    },
    Case {
        name: "demo-10-90",
        what: "the demo at 10/90",
        long: false,
        run: || demo::run([10, 90]),
    },
    Case { name: "rate-reads", what: "a guaranteed rate of reads", long: false, run: rates::reads },
    Case {
        name: "rate-writes",
        what: "a guaranteed rate of writes",
        long: false,
        run: rates::writes,
    },
    Case {
        name: "file-reads",
        what: "a guaranteed rate of a file on a mount",
        long: false,
        run: files::reads,
    },
    Case {
        name: "file-ucsb-5",
        what: "the same beside five files, as figure 5 of ucsb",
        long: false,
        run: files::ucsb_5,
    },
    Case {
        name: "mount-zygaria-1",
        what: "70 % sequential and 30 % random, by programs on a mount",
        long: true,
        run: || mounted::run("zygaria-1"),
    },
    Case {
        name: "mount-mdn-3a",
        what: "four players, optimistic, by programs on a mount",
        long: true,
        run: || mounted::run("mdn-3a"),
    },
    Case {
        name: "mount-mdn-3b",
        what: "four players, pessimistic, by programs on a mount",
        long: true,
        run: || mounted::run("mdn-3b"),
    },
    Case {
        name: "mount-ucsb-5",
        what: "8 MB/s joined by players, by programs on a mount",
        long: true,
        run: || mounted::run("ucsb-5"),
    },
    Case {
        name: "mount-ucsb-6",
        what: "8 MB/s joined by readers, by programs on a mount",
        long: true,
        run: || mounted::run("ucsb-6"),
    },
    Case {
        name: "mount-ucsb-7",
        what: "response times beside low priority, by programs on a mount",
        long: true,
        run: || mounted::run("ucsb-7"),
    },
    Case {
        name: "mount-qbox-7",
        what: "a black box, by programs on a mount",
        long: true,
        run: || mounted::run("qbox-7"),
    },
    Case { name: "player", what: "a player beside readers", long: false, run: player::short },
    Case { name: "player-long", what: "the same for minutes", long: true, run: player::long },
    Case { name: "video", what: "the demo's video scene", long: false, run: player::scene },
    Case { name: "tiers", what: "two tiers with few and more hits", long: false, run: tiers::run },
    Case { name: "window", what: "the end of a window of qbox", long: false, run: window::run },
];

/// The outcome of a case.
enum Found {
    /// All figures are as they must be; the figures.
    Ok(String),
    /// A figure is not as it must be: which.
    Missed(String),
    /// The case found by itself that the machine was too busy: how.
    TooBusy(String),
}

impl Found {
    /// [`Found::Ok`] if nothing missed.
    fn of(figures: &[String], missed: &[String]) -> Self {
        if missed.is_empty() {
            Self::Ok(figures.join("; "))
        } else {
            Self::Missed(missed.join("; "))
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Ok,
    Fail,
    NotJudged,
}

impl Verdict {
    fn of(found: &Found, foreign_cpu: f64) -> Self {
        match found {
            Found::Ok(_) => Self::Ok,
            Found::Missed(_) if foreign_cpu <= machine::FOREIGN_MAX => Self::Fail,
            Found::Missed(_) | Found::TooBusy(_) => Self::NotJudged,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fail => "FAIL",
            Self::NotJudged => "not judged",
        }
    }

    /// How the program exits, as the command line interface does.
    fn exit(all: &[Self]) -> u8 {
        match (all.contains(&Self::Fail), all.contains(&Self::NotJudged)) {
            (true, _) => 1,
            (false, true) => 3,
            (false, false) => 0,
        }
    }
}

#[derive(Serialize)]
struct Row {
    case: &'static str,
    verdict: Verdict,
    /// Others' part of the processors' time, 0 to 1.
    foreign_cpu: f64,
    said: String,
}

struct Arguments {
    only: Option<String>,
    long: bool,
    json: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let arguments = parse(&words)?;
    let mut rows = Vec::new();
    for case in CASES.iter().filter(|case| arguments.wants(case)) {
        eprintln!("{}: {}", case.name, case.what);
        let row = judge(case)?;
        if !arguments.json {
            let foreign = row.foreign_cpu * 100.0;
            println!(
                "{:<12} {:<10} {foreign:>5.1} % foreign  {}",
                row.case,
                row.verdict.name(),
                row.said
            );
        }
        rows.push(row);
    }
    if arguments.json {
        println!("{}", serde_json::to_string(&rows)?);
    }
    let verdicts: Vec<Verdict> = rows.iter().map(|row| row.verdict).collect();
    Ok(ExitCode::from(Verdict::exit(&verdicts)))
}

fn judge(case: &Case) -> anyhow::Result<Row> {
    let before = Processors::now()?;
    let found = (case.run)().with_context(|| format!("case {}", case.name))?;
    let foreign_cpu = before.foreign(&Processors::now()?);
    let verdict = Verdict::of(&found, foreign_cpu);
    let (Found::Ok(said) | Found::Missed(said) | Found::TooBusy(said)) = found;
    Ok(Row { case: case.name, verdict, foreign_cpu, said })
}

impl Arguments {
    fn wants(&self, case: &Case) -> bool {
        match &self.only {
            Some(only) => only == case.name,
            None => self.long || !case.long,
        }
    }
}

fn parse(words: &[String]) -> anyhow::Result<Arguments> {
    let mut arguments = Arguments { only: None, long: false, json: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--only" => arguments.only = Some(words.next().context("--only needs a case")?.clone()),
            "--long" => arguments.long = true,
            "--json" => arguments.json = true,
            _ => bail!("{word}: allowed are --only CASE, --long and --json; {}", cases()),
        }
    }
    if let Some(only) = &arguments.only
        && CASES.iter().all(|case| case.name != only)
    {
        bail!("--only {only}: there is no such case; {}", cases());
    }
    Ok(arguments)
}

fn cases() -> String {
    let names = CASES.iter().map(|case| case.name).collect::<Vec<_>>();
    format!("the cases are {}", names.join(", "))
}
