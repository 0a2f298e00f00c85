//! A cell of the insulation bench on the daemon with an emulated disk, against the simulator on the
//! same cell. The runner gives it both cores (`.config/nextest.toml`).
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::path::Path;
use std::time::{Duration, Instant};

use disktime_client::workload::{Extent, Pace, Pattern, Spec};
use disktime_client::{Load, LoadSpec, Options};
use disktime_papers::sim::{Scenario, simulate};
use disktime_server::{Config, Server};

/// How far live insulation may be from the simulated.
const INSULATION: f64 = 0.03;
/// How long each is measured alone, and both together: turns make shares vary by a swing of up to
/// 350 ms, which is 3 points of a stream at 30 % in 39 s.
const ALONE: Duration = Duration::from_secs(10);
const TOGETHER: Duration = Duration::from_secs(90);
/// What passes before.
const WARM_UP: Duration = Duration::from_secs(2);

/// Sequential 4 KiB, four at once, on so many per cent beside random 4 KiB on the rest.
#[test]
#[ignore = "four minutes on an idle machine: by hand"]
fn live_insulation_is_within_3_points_of_the_simulated() {
    let alone = [0, 1].map(|stream| live_rates([50, 50], &[stream], ALONE)[0]);
    let alone_simulated = [0, 1].map(|stream| simulated_rates([50, 50], &[stream])[0]);
    for share in [50_u32, 30] {
        let split = [share, 100 - share];
        let insulation = |together: &[f64], alone: [f64; 2]| {
            [0, 1]
                .map(|stream| together[stream] * 100.0 / (f64::from(split[stream]) * alone[stream]))
        };
        let simulated = insulation(&simulated_rates(split, &[0, 1]), alone_simulated);
        // Whoever else uses the machine shows as a device that is late: then once more.
        let near = (0..2).any(|attempt| {
            let live = insulation(&live_rates(split, &[0, 1], TOGETHER), alone);
            println!("{split:?} {attempt}: live {live:.3?}, simulated {simulated:.3?}");
            [0, 1].iter().all(|at: &usize| (live[*at] - simulated[*at]).abs() <= INSULATION)
        });
        assert!(near, "{split:?}");
    }
}

/// What a cell's stream asks for, and its place on the disk: at its start, or anywhere.
fn spec(stream: usize) -> Spec {
    let (pattern, end) = [(Pattern::Sequential, 512 << 20), (Pattern::Random, 9 << 30)][stream];
    Spec::reads(pattern, Extent { start: 0, end }, 4096)
}

const NAMES: [&str; 2] = ["sequential", "random"];

/// Requests per second of these streams, on a daemon with both virtual disks.
fn live_rates(split: [u32; 2], streams: &[usize], length: Duration) -> Vec<f64> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    let mut text = format!(
        "[server]\nnbd = [\"unix:{path}/nbd.sock\"]\n\
         [[device]]\nname = \"disk\"\nback_end = \"file:{path}\"\nemulate = \"deskstar-34gxp\"\n"
    );
    for (name, reserve) in NAMES.iter().zip(split) {
        text += &format!(
            "[[vdisk]]\nname = \"{name}\"\ndevice = \"disk\"\nsize = \"9GiB\"\n\
             reserve = \"{reserve}%\"\n"
        );
    }
    let server = Server::start(Config::parse(&text).unwrap()).unwrap();
    let load = |stream: &usize| {
        let disk = &server.vdisks()[*stream];
        let pace = Pace::Closed { outstanding: 4, think: disktime_client::Duration::ZERO };
        let (name, options) = (NAMES[*stream].to_owned(), Options::default());
        let spec = LoadSpec { name, workload: spec(*stream), pace, seed: 1, options };
        Load::start(&disk.uris[0].parse().unwrap(), spec).unwrap()
    };
    let loads: Vec<_> = streams.iter().map(load).collect();
    let done = || -> Vec<u64> { loads.iter().map(|load| load.counters().completed).collect() };
    sleep(WARM_UP);
    let (begin, before) = (now(), done());
    sleep(length);
    let (after, seconds) = (done(), (now() - begin).as_secs_f64());
    let rate =
        |(after, before): (u64, u64)| f64::from(u32::try_from(after - before).unwrap()) / seconds;
    let rates = after.into_iter().zip(before).map(rate).collect();
    for load in loads {
        assert!(load.stop().lost.is_none());
    }
    rates
}

/// The same in virtual time, for long: what the cell is expected to give.
fn simulated_rates(split: [u32; 2], streams: &[usize]) -> Vec<f64> {
    const SECONDS: u32 = 180;
    let mut text = format!(
        "[scenario]\nduration = \"{}s\"\n[device]\npreset = \"deskstar-34gxp\"\n",
        SECONDS + 2
    );
    for stream in streams {
        let (pattern, end) = [("sequential", "512MiB"), ("random", "9GiB")][*stream];
        text += &format!(
            "[[stream]]\nname = \"{}\"\nreserve = \"{}%\"\nbase = \"{}GiB\"\n[[stream.phases]]\n\
             spec = {{ pattern = \"{pattern}\", extent = {{ end = \"{end}\" }}, sizes = \"4KiB\" }}\n\
             pace = {{ closed = {{ outstanding = 4 }} }}\n",
            NAMES[*stream],
            split[*stream],
            9 * stream,
        );
    }
    let scenario = Scenario::parse(Path::new("cell.toml"), &text).unwrap();
    let outcome = simulate(scenario.plan(1).unwrap()).unwrap();
    assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    let rate = |stream: usize| {
        let windows = outcome.windows.iter().filter(|it| it.stream.0 as usize == stream);
        let windows = windows.filter(|it| it.index >= 2);
        let done = windows.map(|it| u32::try_from(it.requests).map(f64::from).unwrap());
        done.sum::<f64>() / f64::from(SECONDS)
    };
    (0..streams.len()).map(rate).collect()
}

#[expect(clippy::disallowed_methods, reason = "the test compares with real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the test measures in real time")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}
