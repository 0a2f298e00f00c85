//! A few streams on the Deskstar: shares, promises, repeatability.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

#[path = "rig/run.rs"]
mod run;

use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::{Contract, Duration, Instant, Share};
use disktime_model::{Device, preset};
use disktime_sim::{Outcome, Plan, StreamPlan, Summary, simulate};
use disktime_workload::{Arrivals, Extent, Pace, Pattern, Phase, Phases, Source, Spec};

fn stream(name: &str, percent: u32, pattern: Pattern, seed: u64) -> StreamPlan {
    let spec = Spec::reads(pattern, Extent { start: 0, end: 19 << 30 }, 4096);
    let pace = Pace::Closed { outstanding: 8, think: Duration::ZERO };
    StreamPlan {
        name: name.to_owned(),
        contract: Contract::reserving(Share::from_percent(percent).unwrap()),
        base: 0,
        parent: None,
        extent: None,
        traffic: Source::new(spec, pace, seed, name, Instant::ZERO).unwrap().into(),
    }
}

fn run(policy: &str, percent: u32, seed: u64) -> Outcome {
    let streams = vec![
        stream("sequential", percent, Pattern::Runs { length: 1024 }, seed),
        stream("random", 100 - percent, Pattern::Random, seed),
    ];
    run_all(policy, streams, seed, Duration::from_secs(85))
}

/// On flash, with so many pieces there at once, under policy `disktime`.
fn run_on_flash(name: &str, streams: Vec<StreamPlan>, seconds: u64) -> Outcome {
    run_on((preset::find(name).unwrap().build)(1), 64, streams, seconds)
}

/// On a device, with so many pieces there at once, under policy `disktime`.
fn run_on(device: Box<dyn Device>, depth: u32, streams: Vec<StreamPlan>, seconds: u64) -> Outcome {
    run_under("disktime", device, depth, streams, seconds)
}

fn run_under(
    policy: &str,
    device: Box<dyn Device>,
    depth: u32,
    streams: Vec<StreamPlan>,
    seconds: u64,
) -> Outcome {
    run::run(Scheduling::new(policy, "learned"), device, depth, streams, seconds)
}

fn run_all(policy: &str, streams: Vec<StreamPlan>, seed: u64, duration: Duration) -> Outcome {
    let device = (preset::find("deskstar-34gxp").unwrap().build)(seed);
    let plan = Plan {
        device,
        profile: None,
        scheduling: Scheduling::new(policy, "fixed"),
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: 1,
        streams,
        changes: Vec::new(),
        duration,
        window: Duration::from_secs(1),
        decisions: Some((Instant::from_nanos(10_000_000_000), Instant::from_nanos(10_100_000_000))),
    };
    simulate(plan).unwrap()
}

#[test]
fn shares_follow_reservations_and_nothing_is_violated() {
    for percent in [10, 50, 70, 90] {
        let outcome = run("zygaria", percent, 1);
        assert_eq!(outcome.violations, []);
        let share = outcome.streams[0].counters.charged.as_secs_f64() / 0.85;
        assert!((share - f64::from(percent)).abs() < 1.0, "{percent}: {share}");
        assert_eq!(outcome.windows.len(), 2 * 85);
        assert!(!outcome.decisions.is_empty());
    }
}

#[test]
fn a_seed_gives_one_run() {
    let text = |seed| format!("{:?}", run("zygaria", 70, seed));
    assert_eq!(text(3), text(3));
    assert_ne!(text(3), text(4));
}

#[test]
fn a_policy_without_reservations_is_not_held_to_them() {
    assert_eq!(run("fifo", 70, 1).violations, []);
}

/// Ten random streams all over the disk: the stream with the nearest request goes first, and no
/// stream's share or wait suffers. In order of tags they do 68 together, with waits of up to 2.3 s in a hundred.
#[test]
fn positioning_is_saved_where_it_costs_no_stream_anything() {
    let minutes = Duration::from_secs(300);
    let percents = [5, 5, 5, 5, 10, 10, 10, 10, 20, 20];
    let named = (0..10).zip(percents);
    let streams = named.map(|(i, it)| stream(&format!("{i}"), it, Pattern::Random, 1)).collect();
    let outcome = run_all("disktime", streams, 1, minutes);
    assert_eq!(outcome.violations, []);
    let rate = outcome.requests as f64 / minutes.as_secs_f64();
    assert!(rate > 85.0, "{rate} a second");
    for (stream, percent) in outcome.streams.iter().zip(percents) {
        let share = stream.counters.charged.as_secs_f64() / minutes.as_secs_f64() * 100.0;
        assert!((share - f64::from(percent)).abs() < 0.5, "{}: {share}", stream.name);
        // Going by the nearest request does not harm a stream with a large lag: it does a share's
        // part of all requests.
        let part = stream.counters.completed as f64 / outcome.requests as f64 * 100.0;
        let insulation = part / f64::from(percent) * rate / 68.5;
        assert!(insulation > 1.1, "{}: {insulation}", stream.name);
        let gaps = outcome.windows.iter().filter(|it| it.stream.0.to_string() == stream.name);
        let settled = gaps.filter(|it| it.index >= 60).map(|it| it.gap_max.as_secs_f64());
        let longest = settled.fold(0.0, f64::max);
        assert!(longest < 2.5, "{} waits for {longest} s", stream.name);
    }
}

/// A slice that begins anew for its owner is another slice: whether guests pay is tried in one of 32. A sequence of a
/// tenth whose slice had begun as such a one kept its guests for good, and had .03 of a disk with a queue.
#[test]
fn guests_are_tried_in_one_slice_also_if_it_begins_anew_again_and_again() {
    let reads = |name: &str, percent, pattern, bytes, outstanding| {
        let spec = Spec::reads(pattern, Extent { start: 0, end: 3_700 << 30 }, bytes);
        let pace = Pace::Closed { outstanding, think: Duration::ZERO };
        let traffic = Source::new(spec, pace, 1, name, Instant::ZERO).unwrap().into();
        StreamPlan { traffic, ..stream(name, percent, pattern, 1) }
    };
    let victim = reads("sequence", 10, Pattern::Sequential, 128 << 10, 1);
    let other = reads("random", 90, Pattern::Random, 4096, 4);
    let device = (preset::find("nearline-7200").unwrap().build)(1);
    let seconds = 300;
    let outcome = run_on(device, 32, vec![victim, other], seconds);
    let share = outcome.streams[0].counters.charged.as_secs_f64() / seconds as f64;
    assert!((0.08..0.12).contains(&share), "{share}");
}

/// A stream asks three times a second of a device whose requests take 10 ms on average, by chance, beside two that are
/// always busy. While guests paid for what chance added, and had nothing back, it paid 15 ms a request.
#[test]
fn guests_do_not_pay_for_chance() {
    let light = |name: &str| {
        let spec = Spec::reads(Pattern::Random, Extent { start: 0, end: 1 << 30 }, 4096);
        let pace = Pace::Open(Arrivals::Poisson { mean: Duration::from_millis(333) });
        let traffic = Source::new(spec, pace, 1, name, Instant::ZERO).unwrap().into();
        StreamPlan { traffic, ..stream(name, 13, Pattern::Random, 1) }
    };
    let busy = |name| stream(name, 40, Pattern::Sequential, 1);
    let device = (preset::find("exp").unwrap().build)(1);
    let outcome = run_on(device, 1, vec![light("light"), busy("one"), busy("other")], 300);
    assert_eq!(outcome.violations, []);
    let counters = outcome.streams[0].counters;
    let each = counters.charged.as_secs_f64() / counters.completed as f64;
    assert!((0.008..0.0125).contains(&each), "{each} s");
}

/// Readers with one request each can't fill a flash drive. In slices of their own, drained one after the other,
/// 64 of them do as much as one; as guests of each other they do many times that.
#[test]
fn many_readers_that_do_not_fill_the_device_are_guests_of_each_other() {
    let readers = 64;
    let streams = (0..readers).map(|at| {
        let spec = Spec::reads(Pattern::Random, Extent { start: 0, end: 4 << 30 }, 4096);
        let pace = Pace::Closed { outstanding: 1, think: Duration::ZERO };
        let name = format!("reader {at}");
        let traffic = Source::new(spec, pace, 1, &name, Instant::ZERO).unwrap().into();
        let contract = Contract::reserving(Share::from_percent(1).unwrap());
        StreamPlan { name, contract, base: 0, parent: None, extent: None, traffic }
    });
    let outcome = run_on_flash("flash-generic", streams.collect(), 2);
    assert_eq!(outcome.violations, []);
    let (second, one) = (&outcome.windows[readers..], 11_000);
    let done = second.iter().map(|row| row.requests).sum::<u64>();
    assert!(done > 8 * one, "{done}");
}

/// A host with many small machines on one drive. While each of them showed its pace in a slice of its own they did
/// 16,000 requests a second together, and half of them had waited for more than a second.
#[test]
fn many_small_machines_are_served_from_the_first_second_on() {
    let machines = || {
        let machine = |at: usize| {
            let spec = Spec::reads(Pattern::Random, Extent { start: 0, end: 4 << 30 }, 4096);
            let pace = Pace::Closed { outstanding: 1, think: Duration::ZERO };
            let name = format!("machine {at}");
            let traffic = Source::new(spec, pace, 1, &name, Instant::ZERO).unwrap().into();
            let contract = Contract::reserving(Share::from_ppm(2_500).unwrap());
            StreamPlan { name, contract, base: 0, parent: None, extent: None, traffic }
        };
        (0..400).map(machine).collect()
    };
    let run = |policy: &str| {
        let device = (preset::find("nvme-970pro").unwrap().build)(1);
        run_under(policy, device, 64, machines(), 1)
    };
    let done = |outcome: &Outcome| outcome.windows.iter().map(|row| row.requests).sum::<u64>();
    let (shared, all) = (run("disktime"), run("fifo"));
    assert_eq!(shared.violations, []);
    assert!(done(&shared) * 10 > done(&all) * 9, "{} of {}", done(&shared), done(&all));
    let waited = |stream: &&Summary| stream.response.quantile(1.0) > Duration::from_millis(100);
    let waited = shared.streams.iter().filter(waited).count();
    assert!(waited < 40, "{waited} of 400 waited for more than 100 ms");
}

/// A host with twenty small machines that read and write, or have several requests at once. While streams that write
/// were no guests, and others none by chance, they did 21,000, 76,000 and 110,000 requests a second.
#[test]
fn small_machines_that_write_or_ask_for_several_things_are_guests_of_each_other() {
    let machines = |outstanding, reads_permille| {
        let machine = |at: usize| {
            let spec = Spec::reads(Pattern::Random, Extent { start: 0, end: 4 << 30 }, 4096);
            let spec = Spec { reads_permille, ..spec };
            let pace = Pace::Closed { outstanding, think: Duration::ZERO };
            let name = format!("machine {at}");
            let traffic = Source::new(spec, pace, 1, &name, Instant::ZERO).unwrap().into();
            let contract = Contract::reserving(Share::from_percent(5).unwrap());
            StreamPlan { name, contract, base: 0, parent: None, extent: None, traffic }
        };
        (0..20).map(machine).collect()
    };
    let of_all = |outstanding, reads_permille| {
        let [shared, all] = ["disktime", "fifo"].map(|policy| {
            let device = (preset::find("nvme-970pro").unwrap().build)(1);
            let outcome = run_under(policy, device, 64, machines(outstanding, reads_permille), 3);
            assert_eq!(outcome.violations, []);
            let last = outcome.windows.iter().filter(|row| row.index == 2);
            last.map(|row| row.requests).sum::<u64>()
        });
        shared as f64 / all as f64
    };
    let parts = [(1, 700), (4, 700), (4, 1000)].map(|(at_once, reads)| of_all(at_once, reads));
    assert!(parts.iter().all(|part| *part > 0.8), "{parts:.2?}");
}

/// The longest response of a stream that joins thirty others on a disk after 20 s, and is there for one request.
fn joins_after(name: &str, depth: u32) -> Duration {
    let stream = |name: &str, percent, phase: Phase| {
        let traffic = Phases::new(vec![phase], 1, name, Instant::ZERO).unwrap().into();
        let contract = Contract::reserving(Share::from_percent(percent).unwrap());
        StreamPlan { name: name.to_owned(), contract, base: 0, parent: None, extent: None, traffic }
    };
    let phase = |at: usize, from_ms: u64, until_ms: Option<u64>| {
        let (kib, outstanding) = [(4, 1), (64, 16), (1024, 4)][at % 3];
        let spec = Spec::reads(Pattern::Random, Extent { start: 0, end: 1 << 30 }, kib << 10);
        let pace = Pace::Closed { outstanding, think: Duration::ZERO };
        let (start, stop) = (Duration::from_millis(from_ms), until_ms.map(Duration::from_millis));
        Phase { start, stop, spec, pace }
    };
    let others = (0..30).map(|at| stream(&format!("other {at}"), 2, phase(at, 0, None)));
    let new = stream("new", 20, phase(0, 20_000, Some(20_001)));
    let device = (preset::find(name).unwrap().build)(1);
    let outcome = run_on(device, depth, others.chain([new]).collect(), 40);
    assert_eq!(outcome.violations, []);
    assert_eq!(outcome.streams[30].counters.completed, 1);
    outcome.streams[30].response.quantile(1.0)
}

/// By its tag it would wait for those that are farther behind, .26 and .49 s.
#[test]
fn a_new_stream_is_served_in_the_slice_in_which_it_comes() {
    for (device, depth) in [("deskstar-34gxp", 1), ("nearline-7200", 8)] {
        let waited = joins_after(device, depth);
        assert!(waited <= Duration::from_millis(100), "{device}: {waited:?}");
    }
}

/// Three unlike streams on fast flash. A slice once was over when the debits of the pieces at the device were as
/// long as it was: by a price list for disks these were the first few pieces, and a stream at 20 % had .21 of that.
#[test]
fn slices_on_fast_flash_last_as_long_as_they_are_to() {
    let stream = |name: &str, percent, pattern, kib: u64, outstanding, reads_permille| {
        let spec = Spec::reads(pattern, Extent { start: 0, end: 512 << 20 }, kib << 10);
        let spec = Spec { reads_permille, ..spec };
        let pace = Pace::Closed { outstanding, think: Duration::ZERO };
        let traffic = Source::new(spec, pace, 1, name, Instant::ZERO).unwrap().into();
        let contract = Contract::reserving(Share::from_percent(percent).unwrap());
        StreamPlan { name: name.to_owned(), contract, base: 0, parent: None, extent: None, traffic }
    };
    let all = || {
        [
            stream("random", 20, Pattern::Random, 4, 32, 1000),
            stream("sequential", 30, Pattern::Sequential, 128, 8, 1000),
            stream("writes", 50, Pattern::Random, 64, 16, 0),
        ]
    };
    let done = |outcome: &Outcome, stream: usize| {
        let rows = outcome.windows.iter().filter(|row| row.index > 0);
        rows.filter(|row| row.stream.0 as usize == stream).map(|row| row.requests).sum::<u64>()
    };
    let shared = run_on_flash("nvme-970pro", all().into(), 5);
    for (at, (stream, share)) in all().into_iter().zip([0.2, 0.3, 0.5]).enumerate() {
        let alone = run_on_flash("nvme-970pro", vec![stream], 5);
        let kept = done(&shared, at) as f64 / (share * done(&alone, 0) as f64);
        assert!(kept > 0.9, "stream {at} keeps {kept}");
    }
}

/// A client that answers after that long, with four reads at once and half of a flash drive, beside reads of 1 MiB,
/// so many at once. Answers its throughput by half of that alone.
fn kept_beside_long_reads(think: Duration, outstanding: u32) -> f64 {
    kept_by(4, think, outstanding)
}

/// The same with so many reads at once.
fn kept_by(reads: u32, think: Duration, outstanding: u32) -> f64 {
    let one = |name: &str, spec: Spec, outstanding: u32, think: Duration| {
        let pace = Pace::Closed { outstanding, think };
        let traffic = Source::new(spec, pace, 1, name, Instant::ZERO).unwrap().into();
        let contract = Contract::reserving(Share::from_percent(50).unwrap());
        StreamPlan { name: name.to_owned(), contract, base: 0, parent: None, extent: None, traffic }
    };
    let short = || {
        let spec = Spec::reads(Pattern::Random, Extent { start: 0, end: 1 << 30 }, 4096);
        one("short", spec, reads, think)
    };
    let extent = Extent { start: 1 << 30, end: 2 << 30 };
    let long = Spec::reads(Pattern::Runs { length: 32 }, extent, 1 << 20);
    let done = |outcome: &Outcome| {
        let of_first = outcome.windows.iter().filter(|row| row.stream.0 == 0);
        of_first.filter(|row| row.index >= 2).map(|row| row.requests).sum::<u64>() as f64
    };
    let alone = done(&run_on_flash("nvme-970pro", vec![short()], 8));
    let both = vec![short(), one("long", long, outstanding, Duration::ZERO)];
    2.0 * done(&run_on_flash("nvme-970pro", both, 8)) / alone
}

/// A client answers after 100 or 500 us, and so its four reads are not always there. As a guest in the slices of a
/// neighbour that fills the device with long reads it once had .04 of its due: each of its reads waited for all
/// that the device had before it. It is to have slices, in which the device waits for it.
#[test]
fn a_client_that_pauses_beside_long_reads_has_its_share() {
    for (think, outstanding) in [(100, 60), (500, 60), (500, 30)] {
        let kept = kept_beside_long_reads(Duration::from_micros(think), outstanding);
        assert!(kept > 0.9, "{kept} after {think} us beside {outstanding}");
    }
}

/// Long reads that are no more than half as many as the device takes were once taken for a reader that cannot fill
/// it, and went out in the client's own slices: it had .21 of its due.
#[test]
fn a_client_that_is_behind_has_its_slices_for_itself() {
    let kept = kept_beside_long_reads(Duration::from_millis(1), 30);
    assert!(kept > 0.9, "{kept}");
}

/// Each slice of the long reads lasts three times as long as it is to, since all that the device had before it ends
/// in it. A client with one read at once thinks, or its read is at the device, whenever its own slice is over: it lost
/// the device then, however far it was behind, and had half of its due.
#[test]
fn a_client_that_is_behind_keeps_the_device_while_it_thinks() {
    for (reads, think) in [(1, 100), (1, 1_500), (8, 3_000)] {
        let kept = kept_by(reads, Duration::from_micros(think), 60);
        assert!(kept > 0.9, "{kept} with {reads} at once after {think} us");
    }
}

/// A client that answers after longer than a switch takes is a guest. Where that leaves it behind, it is to have
/// slices, which do not end with its first four reads: it once had .2 of its due.
#[test]
fn a_client_that_starves_as_a_guest_has_slices_that_wait_for_it() {
    let kept = kept_beside_long_reads(Duration::from_millis(2), 60);
    assert!(kept > 0.9, "{kept}");
}

/// A stream that asks seldom came to a device of which nothing was known yet: it had the device to itself for four
/// slices, since its pace could not be seen sooner, and most of that time the device was held for it, at its charge.
/// Then it was served nothing for as long as it was ahead, which was 10 s in a random cell.
#[test]
fn the_device_is_held_no_longer_than_a_slice_for_a_stream_that_asks_seldom() {
    let stream = |name: &str, percent, pace| {
        let spec = Spec::reads(Pattern::Random, Extent { start: 0, end: 1 << 30 }, 4096);
        let traffic = Source::new(spec, pace, 1, name, Instant::ZERO).unwrap().into();
        let contract = Contract::reserving(Share::from_percent(percent).unwrap());
        StreamPlan { name: name.to_owned(), contract, base: 0, parent: None, extent: None, traffic }
    };
    let seldom = Pace::Open(Arrivals::Poisson { mean: Duration::from_micros(600) });
    let busy = |outstanding| Pace::Closed { outstanding, think: Duration::ZERO };
    let others = (0..5).map(|at| stream(&format!("busy {at}"), 18, busy(64)));
    let streams = [stream("seldom", 4, seldom)].into_iter().chain(others);
    let outcome = run_on_flash("flash-generic", streams.collect(), 1);
    let used = outcome.streams[0].counters.charged;
    assert!(used < Duration::from_millis(60), "{used:?} of a second, of which 40 ms are its share");
    assert!(outcome.streams[0].counters.completed > 1_000, "{:?}", outcome.streams[0].counters);
}
