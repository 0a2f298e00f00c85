//! Admission over random sets of streams, against an oracle that tries them.
//!
//! A set is a sequence of streams: rates log-uniform from 0.5 to 16 MB/s, cycles uniform from 0.5 to
//! 4 s, as many readers as writers, each in an extent of its own of 1 GB at a random place. Each asks
//! for a cycle's worth at the start of every cycle. Beside them a best-effort stream always has 8
//! random reads of 128 KiB waiting.
//!
//! The **oracle** takes the first streams of the sequence, as many as are kept in a trial: the same
//! engine and disk, admission best-effort, no profile, 20 of the longest cycles without a miss. It
//! finds how many by halving, as if fewer always fit where more do. **Admission** is offered the
//! oracle's streams and the first that it refused, one by one, and skips what it refuses; what it
//! admits is then run as long.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::{
    Access, Admission, Change, Class, Config, Contract, Duration, Engine, Instant, Profile, Rate,
    StreamId, StreamSpec,
};
use disktime_model::{Device, preset};
use disktime_sim::{Outcome, Plan, StreamPlan, measure, simulate};
use disktime_workload::{Cycles, Extent, Pace, Pattern, Source, Spec};

use super::cyclic_streams::percent;

/// The disks that admission is measured on.
pub const DISKS: [&str; 3] = ["deskstar-34gxp", "nearline-7200", "st318437lw"];

const REQUEST_BYTES: u64 = 128 << 10;
const EXTENT_BYTES: u64 = 8_000 * REQUEST_BYTES;
const RATE_MIN: f64 = 0.5e6;
const RATE_MAX: f64 = 16e6;
const CYCLE_MS: std::ops::Range<u64> = 500..4_001;
/// More than fit on any of the disks.
const STREAMS: usize = 96;
/// The longest cycle by this is the length of a run.
const CYCLES: u64 = 20;
const SECONDS: u64 = CYCLES * 4;
/// The misses that a statistical promise allows.
const MISS_PERCENT: u32 = 1;

/// The streams that a kind of admission let in, and their results, summed over sets.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Kept {
    /// Bytes per second that were admitted.
    pub rate: f64,
    /// Cycles in which something was to be done.
    pub cycles: u64,
    /// Cycles that were missed.
    pub missed: u64,
    /// Sets with a miss.
    pub sets_missed: u32,
}

/// The totals of one disk's sets.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Totals {
    /// Sets.
    pub sets: u32,
    /// Bytes per second that the oracle took.
    pub oracle: f64,
    /// Deterministic admission.
    pub deterministic: Kept,
    /// Statistical admission at 1 %.
    pub statistical: Kept,
}

#[derive(Clone, Copy)]
struct Offer {
    rate: Rate,
    start: u64,
}

/// Runs the sets of these seeds on a disk of [`DISKS`], on two threads.
///
/// # Panics
/// If there is no such disk.
#[must_use]
pub fn measure_sets(disk: &str, seeds: std::ops::Range<u64>) -> Totals {
    let profile = measure(build(disk, 1), disk, 1).expect("a disk can be profiled").profile;
    let next = AtomicU64::new(seeds.start);
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let one = measure_set(disk, &profile, seed);
                    totals.lock().expect("adding does not panic").add(&one);
                }
            });
        }
    });
    totals.into_inner().expect("adding does not panic")
}

fn measure_set(disk: &str, profile: &Profile, seed: u64) -> Totals {
    let offers = offers(profile.size(), seed);
    let kept = |count: usize| {
        let offers = with(&offers[..count], Admission::BestEffort);
        missed(&run(disk, &offers, None, seed)).1 == 0
    };
    let counts: Vec<usize> = (1..=offers.len()).collect();
    let oracle = counts.partition_point(|count| kept(*count));
    let offered = &offers[..(oracle + 1).min(offers.len())];
    let admit = |kind: Admission| {
        let admitted = admitted(profile, &with(offered, kind));
        let (cycles, missed) = missed(&run(disk, &admitted, Some(profile.clone()), seed));
        Kept { rate: rate(&admitted), cycles, missed, sets_missed: u32::from(missed > 0) }
    };
    Totals {
        sets: 1,
        oracle: rate(&offers[..oracle]),
        deterministic: admit(Admission::Deterministic),
        statistical: admit(Admission::Statistical { miss: percent(MISS_PERCENT) }),
    }
}

/// A tiny generator (Knuth's MMIX): a set is its seed and this.
fn offers(size: u64, seed: u64) -> Vec<Offer> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let offer = |_| {
        let part = draw() as f64 / f64::from(1_u32 << 31);
        let bytes_per_second = (RATE_MIN * (RATE_MAX / RATE_MIN).powf(part)).round();
        let cycle = CYCLE_MS.start + draw() % (CYCLE_MS.end - CYCLE_MS.start);
        let access = if draw() % 2 == 0 { Access::Read } else { Access::Write };
        let places = (size - EXTENT_BYTES) / REQUEST_BYTES;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is between the two constants"
        )]
        let rate = Rate {
            bytes_per_second: bytes_per_second as u64,
            cycle: Some(Duration::from_millis(cycle)),
            admission: Admission::BestEffort,
            access,
        };
        Offer { rate, start: draw() % places * REQUEST_BYTES }
    };
    (0..STREAMS).map(offer).collect()
}

fn with(offers: &[Offer], admission: Admission) -> Vec<Offer> {
    let of = |offer: &Offer| Offer { rate: Rate { admission, ..offer.rate }, ..*offer };
    offers.iter().map(of).collect()
}

fn rate(offers: &[Offer]) -> f64 {
    offers.iter().map(|offer| offer.rate.bytes_per_second as f64).sum()
}

impl Offer {
    fn contract(&self) -> Contract {
        let class = Class::GuaranteedRate;
        Contract { class, rate: Some(self.rate), ..Contract::default() }
    }

    fn extent(&self) -> (u64, u64) {
        (self.start, self.start + EXTENT_BYTES)
    }
}

/// The streams that the engine takes, one by one, beside the best-effort stream.
fn admitted(profile: &Profile, offers: &[Offer]) -> Vec<Offer> {
    let mut engine = Engine::new(&Config::default()).expect("the defaults are in range");
    let mut change = |change: Change<'_>| engine.handle_change(Instant::ZERO, change).is_ok();
    assert!(change(Change::SetProfile(profile)), "it was measured");
    assert!(change(Change::AddStream(StreamId(0), StreamSpec::default())), "it reserves nothing");
    let mut taken = Vec::new();
    for (id, offer) in (1..).map(StreamId).zip(offers) {
        let (contract, extent) = (offer.contract(), Some(offer.extent()));
        let spec = StreamSpec { contract, extent, ..StreamSpec::default() };
        if change(Change::AddStream(id, spec)) {
            taken.push(*offer);
        }
    }
    taken
}

fn run(disk: &str, offers: &[Offer], profile: Option<Profile>, seed: u64) -> Outcome {
    let device = build(disk, seed);
    let everywhere = Extent { start: 0, end: device.capacity_bytes() };
    let spec = Spec::reads(Pattern::Random, everywhere, REQUEST_BYTES);
    let pace = Pace::Closed { outstanding: 8, think: Duration::ZERO };
    let source = |spec, pace, name: &str| {
        Source::new(spec, pace, seed, name, Instant::ZERO).expect("the loads make sense")
    };
    let mut streams = vec![StreamPlan {
        name: "best effort".to_owned(),
        contract: Contract::default(),
        base: 0,
        parent: None,
        extent: None,
        traffic: source(spec, pace, "best effort").into(),
    }];
    for (index, offer) in offers.iter().enumerate() {
        let (start, end) = offer.extent();
        let reads_permille = if offer.rate.access == Access::Write { 0 } else { 1000 };
        let reads = Spec::reads(Pattern::Sequential, Extent { start, end }, REQUEST_BYTES);
        let pace = Pace::Cycles(Cycles {
            bytes_per_second: offer.rate.bytes_per_second,
            cycle: offer.rate.cycle.expect("it was drawn"),
        });
        let name = format!("stream {index}");
        streams.push(StreamPlan {
            contract: offer.contract(),
            base: 0,
            parent: None,
            extent: Some((start, end)),
            traffic: source(Spec { reads_permille, ..reads }, pace, &name).into(),
            name,
        });
    }
    let plan = Plan {
        device,
        profile,
        scheduling: Scheduling::new("elevator", "fixed"),
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: 1,
        streams,
        changes: Vec::new(),
        duration: Duration::from_secs(SECONDS),
        window: Duration::from_secs(SECONDS),
        decisions: None,
    };
    simulate(plan).expect("what is run was admitted")
}

/// Cycles, and those missed, of all streams together.
fn missed(outcome: &Outcome) -> (u64, u64) {
    let counters = outcome.streams.iter().map(|stream| stream.counters);
    counters.fold((0, 0), |sum, it| (sum.0 + it.cycles, sum.1 + it.cycles_missed))
}

fn build(disk: &str, seed: u64) -> Box<dyn Device> {
    (preset::find(disk).expect("a disk of the list").build)(seed)
}

impl Totals {
    fn add(&mut self, one: &Self) {
        self.sets += one.sets;
        self.oracle += one.oracle;
        self.deterministic.add(&one.deterministic);
        self.statistical.add(&one.statistical);
    }
}

impl Kept {
    fn add(&mut self, one: &Self) {
        self.rate += one.rate;
        self.cycles += one.cycles;
        self.missed += one.missed;
        self.sets_missed += one.sets_missed;
    }
}
