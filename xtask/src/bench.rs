//! `cargo xtask bench NAME`: measurements that are too long for the check, of the product as it is
//! built for release.

mod crash;
mod figures;
mod files;
mod guest;
mod hostile;
mod live;
mod nbd;
mod operate;
pub(crate) mod same;

use std::fmt;

use anyhow::{Result, bail};

/// One bench: add a line to [`BENCHES`] and the help follows.
struct Bench {
    name: &'static str,
    help: &'static str,
    /// Gets the words after the name; `Ok(false)` when it found something.
    run: fn(&[String]) -> Result<bool>,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "instructions",
        help: "instructions of the core's paths beside those in xtask/instructions.txt; --bless writes them down",
        run: crate::instructions::run,
    },
    Bench {
        name: "crash",
        help: "kills and power losses on all back ends; --rounds N --seed N --only ROW --json",
        run: crash::run,
    },
    Bench {
        name: "figures",
        help: "every figure over five seeds and its bands; ID… --seeds N --first-seed N --out DIR",
        run: figures::run,
    },
    Bench {
        name: "files",
        help: "foreign suites through `disktime mount`, its speed beside bindfs; --rounds N --only CASE --json",
        run: files::run,
    },
    Bench {
        name: "fuzz",
        help: "libFuzzer at the NBD codec, each target a minute; --seconds N --seed N --only TARGET",
        run: crate::fuzz::run,
    },
    Bench {
        name: "guest",
        help: "a guest's kernel attaches an export, discards, zeroes, makes a file system; --kernel DIR",
        run: guest::run,
    },
    Bench {
        name: "hostile",
        help: "a good client beside hostile ones; --rounds N --seconds N --only ATTACK --on STORE --policy NAME --shards N --json",
        run: hostile::run,
    },
    Bench {
        name: "live",
        help: "the daemon against the simulator on a quiet machine; --only CASE --long --json",
        run: live::run,
    },
    Bench {
        name: "nbd",
        help: "`disktime bench nbd` as it is built for release: ours and each peer found; --help",
        run: nbd::run,
    },
    Bench {
        name: "operate",
        help: "a daemon with 10,000 virtual disks, 100,000, and killed 200 times; --only CASE --json",
        run: operate::run,
    },
    Bench {
        name: "same",
        help: "every scenario decides what it did when it was blessed; NAME… for some",
        run: same::run,
    },
];

/// A bench found the machine too busy to say anything.
#[derive(Debug)]
pub(crate) struct NotJudged;

impl fmt::Display for NotJudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not judged: this machine is too busy; run the bench when less else runs")
    }
}

impl std::error::Error for NotJudged {}

/// Runs the bench that the first word names.
///
/// # Errors
/// When there is none of that name, or it can't be run.
pub(crate) fn run(words: &[String]) -> Result<bool> {
    let found = words.split_first().and_then(|(name, rest)| {
        BENCHES.iter().find(|bench| bench.name == name).map(|bench| (bench, rest))
    });
    let Some((bench, rest)) = found else {
        bail!("`bench` takes the name of one:\n{}", list());
    };
    (bench.run)(rest)
}

/// A line for each bench.
pub(crate) fn list() -> String {
    BENCHES.iter().map(|it| format!("  {:<14}{}\n", it.name, it.help)).collect()
}
