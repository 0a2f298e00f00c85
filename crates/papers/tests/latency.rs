//! Guaranteed latency on a disk of which admitted streams really use 80 %, beside background requests
//! of 1 MiB that take the rest.
#![allow(clippy::print_stdout, reason = "how near it came is worth reading")]

use disktime_config::Scheduling;
use disktime_core::admission::{REQUEST, latency_bound};
use disktime_core::cost::CostParameters;
use disktime_core::{
    Access, Admission, Change, Class, Config, Contract, Duration, Engine, Instant, Profile, Rate,
    Share, StreamId, StreamSpec,
};
use disktime_model::preset;
use disktime_sim::{Plan, StreamPlan, measure, simulate};
use disktime_workload::{Arrivals, Cycles, Extent, Pace, Pattern, Phase, Phases, Spec};

const MIB: u64 = 1 << 20;
/// The cycle of the rates: reservations and blocking times are taken off once a cycle.
const CYCLE: Duration = Duration::from_secs(10);
const SECONDS: u64 = 7_200;
/// The part of disk time that admitted streams must have used.
const LOAD: f64 = 0.8;
/// The reservation of guaranteed latency, per cent. A request is charged up to 80 ms, as it pays
/// for the worst seek back, and 50 on average: of one or two a second that is 5 to 10 %, and random
/// ones come in clusters.
const RESERVE: u32 = 15;
/// A user that waits for each answer and thinks.
const THINKING: Pace = Pace::Closed { outstanding: 1, think: Duration::from_millis(500) };
/// Many users, one request a second altogether.
const POISSON: Pace = Pace::Open(Arrivals::Poisson { mean: Duration::from_secs(1) });

fn percent(percent: u32) -> Share {
    Share::from_percent(percent).expect("at most 100")
}

fn stream(
    name: &str,
    contract: Contract,
    extent: Extent,
    load: (Pattern, u64, Pace),
) -> StreamPlan {
    let (pattern, bytes, pace) = load;
    let spec = Spec::reads(pattern, extent, bytes);
    let phase = Phase { start: Duration::ZERO, stop: None, spec, pace };
    let traffic =
        Phases::new(vec![phase], 1, name, Instant::ZERO).expect("a load that makes sense");
    let (name, extent) = (name.to_owned(), Some((extent.start, extent.end)));
    StreamPlan { name, contract, base: 0, parent: None, extent, traffic: traffic.into() }
}

/// A deterministic rate; four of them lie at equal distances.
fn film(bytes_per_second: u64, index: u64, size: u64) -> (Contract, Extent) {
    let start = size / 4 * index / MIB * MIB;
    let extent = Extent { start, end: start + 1_000 * MIB };
    let (cycle, admission) = (Some(CYCLE), Admission::Deterministic);
    let rate = Rate { bytes_per_second, cycle, admission, access: Access::Read };
    let class = Class::GuaranteedRate;
    (Contract { class, rate: Some(rate), ..Contract::default() }, extent)
}

/// The largest rate for each of four streams with which all are admitted; and what share of the disk
/// is granted then, the reservation included.
fn rate_of(profile: &Profile, click: Contract) -> (u64, u32) {
    let shares = |bytes_per_second: u64| -> Option<u32> {
        let mut engine = Engine::new(&Config::default()).expect("the defaults are in range");
        let mut change = |change: Change<'_>| engine.handle_change(Instant::ZERO, change).ok();
        change(Change::SetProfile(profile))?;
        for index in 0..4 {
            let (contract, Extent { start, end }) = film(bytes_per_second, index, profile.size());
            let extent = Some((start, end));
            let spec = StreamSpec { contract, extent, ..StreamSpec::default() };
            change(Change::AddStream(StreamId(u32::try_from(index).ok()?), spec))?;
        }
        change(Change::AddStream(
            StreamId(4),
            StreamSpec { contract: click, ..StreamSpec::default() },
        ))?;
        Some(engine.streams().map(|stream| stream.contract().reserve.ppm()).sum())
    };
    let (mut low, mut high) = (0, 1 << 30);
    while high - low > 1_000 {
        let middle = u64::midpoint(low, high);
        if shares(middle).is_some() { low = middle } else { high = middle }
    }
    (low, shares(low).unwrap_or(0))
}

/// The 99.9th percentile of response times in ms, and the longest by the bound.
fn click(disk: &str, pace: Pace) -> (f64, f64) {
    let build = preset::find(disk).expect("a preset").build;
    let profile = measure(build(1), disk, 1).expect("a disk can be profiled").profile;
    // The least that can be promised: one piece in the way.
    let latency = latency_bound(&profile, REQUEST, REQUEST, 1);
    let class = Class::GuaranteedLatency;
    let click = Contract { class, latency: Some(latency), ..Contract::reserving(percent(RESERVE)) };
    let (rate, load) = rate_of(&profile, click);
    let size = profile.size();
    let everywhere = Extent { start: 0, end: size / MIB * MIB };
    let cycles = Pace::Cycles(Cycles { bytes_per_second: rate, cycle: CYCLE });
    let mut streams: Vec<_> = (0..4)
        .map(|index| {
            let (contract, extent) = film(rate, index, size);
            let load = (Pattern::Sequential, REQUEST, cycles);
            stream(&format!("film {index}"), contract, extent, load)
        })
        .collect();
    streams.push(stream("click", click, everywhere, (Pattern::Random, 4096, pace)));
    let copy = Contract { class: Class::Background, ..Contract::default() };
    let closed = Pace::Closed { outstanding: 4, think: Duration::ZERO };
    streams.push(stream("copy", copy, everywhere, (Pattern::Random, MIB, closed)));
    let plan = Plan {
        device: build(1),
        profile: Some(profile),
        scheduling: Scheduling::new("elevator", "fixed"),
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: 1,
        streams,
        changes: Vec::new(),
        duration: Duration::from_secs(SECONDS),
        window: Duration::from_secs(1),
        decisions: None,
    };
    let outcome = simulate(plan).expect("it was admitted");
    let used: f64 = outcome.streams[..5].iter().map(|it| it.counters.charged.as_secs_f64()).sum();
    let missed: u64 = outcome.streams[..4].iter().map(|it| it.counters.cycles_missed).sum();
    let response = &outcome.streams[4].response;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let p999 = ms(response.quantile(0.999));
    println!(
        "{disk}: 4 x {:.2} MB/s, granted {:.1} % with the reservation, used {:.1} %; bound {latency:?}; \
         {} responses: mean {:.1}, p99 {:.1}, p99.9 {p999:.1}, at most {:.1} ms; {missed} cycles missed, \
         background {:.1} MB/s",
        rate as f64 / 1e6,
        f64::from(load) / 1e4,
        used / SECONDS as f64 * 100.0,
        response.count(),
        response.mean_secs() * 1e3,
        ms(response.quantile(0.99)),
        ms(response.max()),
        outcome.streams[5].counters.bytes_read as f64 / 1e6 / SECONDS as f64,
    );
    assert_eq!(outcome.violations, []);
    assert_eq!(missed, 0);
    assert!(used >= LOAD * SECONDS as f64, "{used} s of {SECONDS}");
    (p999, response.max().as_secs_f64() / latency.as_secs_f64())
}

const MS: [(&str, f64); 2] = [("deskstar-34gxp", 60.0), ("nearline-7200", 45.0)];

#[test]
fn one_user_who_waits_is_answered_within_the_bound() {
    for (disk, most) in MS {
        let (p999, of_bound) = click(disk, THINKING);
        assert!(p999 <= most, "{disk}: {p999}");
        assert!(of_bound <= 1.0, "{disk}: the bound itself, {of_bound}");
    }
}

/// A bound does not cover a stream's own requests that queue behind each other.
#[test]
fn many_users_within_the_reservation_are_answered_in_time() {
    for (disk, most) in MS {
        let (p999, _) = click(disk, POISSON);
        assert!(p999 <= most, "{disk}: {p999}");
    }
}
