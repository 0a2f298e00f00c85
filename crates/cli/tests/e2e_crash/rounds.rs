//! Rounds of a crash each: load, the crash, a restart, and a look at what is there.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::load::{Model, Outcome, Random};
use crate::lower::{Below, lacking, nap};
use crate::stack::{Kind, Stack};

/// Rounds of each kind of crash in the check.
const ROUNDS: u32 = 20;
/// Connections that put load on the daemon.
const CLIENTS: u64 = 4;
/// The load lasts this many milliseconds at least, and less than so many more.
const MOMENT_MS: (u64, usize) = (20, 230);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Crash {
    /// The daemon is killed with SIGKILL: all that was acknowledged is spared.
    Kill,
    /// The disk below loses power, then the daemon is killed: all that was flushed is spared.
    Power,
    /// Another daemon takes over: no crash, all that was acknowledged is spared, and no client is
    /// refused anything.
    TakeOver,
}

impl Crash {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Power => "power",
            Self::TakeOver => "take",
        }
    }

    /// Connections that put load on the daemon.
    fn clients(self) -> u64 {
        if self == Self::TakeOver { 8 } else { CLIENTS }
    }
}

const KILLS: [(Kind, Below); 9] = [
    (Kind::Directory, Below::Own),
    (Kind::Image, Below::Own),
    (Kind::Raid0, Below::Own),
    (Kind::Tiers, Below::Own),
    (Kind::Directory, Below::Fuse),
    (Kind::Image, Below::Fuse),
    (Kind::Raid0, Below::Fuse),
    (Kind::Tiers, Below::Fuse),
    (Kind::Nbd, Below::Remote),
];

/// This machine's own file system can't lose power in a test: a disk that forgets lies below each.
const POWER_LOSSES: [(Kind, Below); 8] = [
    (Kind::Tiers, Below::Fuse),
    (Kind::Nbd, Below::Remote),
    (Kind::Image, Below::Fuse),
    (Kind::Tiers, Below::Loop),
    (Kind::Raid0, Below::Fuse),
    (Kind::Image, Below::Loop),
    (Kind::Directory, Below::Fuse),
    (Kind::Raid0, Below::Loop),
];

/// Back ends that a take-over is of.
const TAKE_OVERS: [(Kind, Below); 5] = [
    (Kind::Directory, Below::Own),
    (Kind::Image, Below::Own),
    (Kind::Raid0, Below::Own),
    (Kind::Tiers, Below::Own),
    (Kind::Nbd, Below::Remote),
];

/// Tells the skip, if this can't lie below a daemon here.
pub fn skips(test: &str, below: Below) -> bool {
    let Some(reason) = lacking(below) else { return false };
    let line = format!("SKIP: {test}: {}: {reason}", below.name());
    eprintln!("{line}");
    if let Ok(path) = std::env::var("DISKTIME_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        writeln!(file.unwrap(), "{line}").unwrap();
    }
    true
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Stops clients when it is dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One crash and what it left.
fn round(stack: &mut Stack, model: &Model, crash: Crash, seed: u64) -> Outcome {
    let mut random = Random(seed);
    let moment = Duration::from_millis(MOMENT_MS.0 + random.below(MOMENT_MS.1) as u64);
    let stop = AtomicBool::new(false);
    let clients: Vec<_> = (0..crash.clients()).map(|_| stack.connect()).collect();
    let longest = std::thread::scope(|scope| {
        let stop = &stop;
        let load = |(at, mut client)| {
            scope.spawn(move || model.load(&mut client, seed * (CLIENTS + 1) + at, stop))
        };
        let clients: Vec<_> = (1..).zip(clients).map(load).collect();
        // Clients end also if the round fails.
        let _stops = Stops(stop);
        nap(moment);
        if crash == Crash::Power {
            stack.lower.disk.cut(seed);
        }
        if crash == Crash::TakeOver {
            stack.take_over();
            nap(moment);
        } else {
            stack.kill();
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    if crash == Crash::Power {
        stack.lower.down();
        stack.lower.up();
    }
    if crash != Crash::TakeOver {
        stack.start();
        return model.verify(&mut stack.connect(), crash == Crash::Kill);
    }
    let pause = longest.into_iter().map(|longest| longest.expect("no client is refused anything"));
    let pause = pause.max().unwrap_or_default();
    Outcome { pause, ..model.verify(&mut stack.connect(), true) }
}

/// All rounds of a kind of crash, divided among the rows.
fn crash(test: &str, crash: Crash, table: &[(Kind, Below)]) {
    let rounds = number("DISKTIME_CRASH_ROUNDS").unwrap_or(u64::from(ROUNDS));
    let seed = number("DISKTIME_CRASH_SEED").unwrap_or(1);
    let only = std::env::var("DISKTIME_CRASH_ONLY").ok();
    let name = |(kind, below): (Kind, Below)| {
        format!("{}:{}:{}", crash.name(), kind.name(), below.name().replace(' ', "-"))
    };
    let rows = || {
        let wanted = |row: &(Kind, Below)| only.as_ref().is_none_or(|only| *only == name(*row));
        table.iter().copied().filter(wanted)
    };
    let rows: Vec<_> = rows().filter(|(_, below)| !skips(test, *below)).collect();
    let mut failures = Vec::new();
    for (at, (kind, below)) in (0..).zip(rows.iter().copied()) {
        let count = rows.len() as u64;
        let mine = rounds / count + u64::from(at < rounds % count);
        let (mut stack, model) = (Stack::new(kind, below), Model::new());
        let mut total = Outcome::default();
        for seed in seed..seed + mine {
            let Outcome { flushed, lost, pause } = round(&mut stack, &model, crash, seed);
            total.pause = total.pause.max(pause);
            total.flushed += flushed;
            total.lost += lost;
            if lost > 0 {
                failures.push(format!(
                    "{lost} of {flushed} bytes lost; cargo xtask bench crash --only {} --seed {seed} \
                     --rounds 1",
                    name((kind, below))
                ));
            }
        }
        tell(crash, (kind, below), mine, total);
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

fn tell(crash: Crash, (kind, below): (Kind, Below), rounds: u64, total: Outcome) {
    let Ok(path) = std::env::var("DISKTIME_CRASH_ROWS") else { return };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    writeln!(
        file,
        "{{\"crash\":\"{}\",\"back_end\":\"{}\",\"below\":\"{}\",\"rounds\":{rounds},\
         \"bytes_flushed\":{},\"bytes_lost\":{},\"pause_ms_max\":{}}}",
        crash.name(),
        kind.name(),
        below.name(),
        total.flushed,
        total.lost,
        total.pause.as_millis()
    )
    .unwrap();
}

/// Restarts at once, with a daemon that was killed at a random moment of its load.
#[test]
fn a_killed_daemon_loses_nothing_that_was_acknowledged() {
    let test = "a_killed_daemon_loses_nothing_that_was_acknowledged";
    crash(test, Crash::Kill, &KILLS);
}

/// FUA writes stayed volatile on FUSE, and entries of the tiers' map with them: 61,440 flushed bytes
/// were lost in 38 power losses.
#[test]
fn a_power_loss_takes_nothing_that_was_flushed() {
    crash("a_power_loss_takes_nothing_that_was_flushed", Crash::Power, &POWER_LOSSES);
}

/// Eight connections write, read and flush on while one daemon takes over from another.
#[test]
fn a_take_over_loses_nothing_and_refuses_nothing() {
    crash("a_take_over_loses_nothing_and_refuses_nothing", Crash::TakeOver, &TAKE_OVERS);
}
