//! A device that changes while it serves: writes cost twice as much after 20 s.
//!
//! The oracle is the same engine on the same device, told what each stream's pieces cost it: exactly,
//! measured alone, as the device is after the change. Insulation is by throughput alone on the device
//! as it is at the time. For comparison, the same engine told the prices from before the change: what
//! a cost that was measured once gives.

use super::{Load, SECOND, load, mean, rates};
use crate::experiment::{Check, Experiment, Sample};
use disktime_config::Scheduling;
use disktime_core::cost::{CostParameters, Price};
use disktime_core::{Contract, Duration, Instant, Share};
use disktime_model::flash::{Flash, FlashSpec, Later};
use disktime_model::preset;
use disktime_report::chart::{Axis, Line, Marks, Panel, Series};
use disktime_sim::{Outcome, Plan, StreamPlan, simulate};
use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, Spec};

pub(super) const DRIFT: Experiment = Experiment {
    id: "blackbox-drift",
    title: "Flash whose writes cost twice as much after 20 s: learned costs beside an oracle's",
    claim: "Ours: 30 s after writes got slower, learned costs are as good as known ones",
    note: "Our own bar: 30 s after the change every stream is within 7 points of the \
           insulation that an oracle gives it, with streams that are always backlogged and with \
           streams that are on and off.",
    reason: "The foil does no harm: the policy measures what pieces take in slices, so that prices from \
             before the change are 0 points off where streams are always backlogged. The learned costs \
             themselves hold.",
    open: &[],
    measure,
};

/// When the device changes,
const CHANGE: u64 = 20;
/// from when on streams are judged,
const JUDGED: usize = 50;
/// and until when.
const END: u64 = 70;
/// For throughput alone, and before that is steady.
const ALONE: u64 = 8;
const WARM: usize = 2;
/// The length of windows in the figure.
const WINDOW: usize = 5;
const BEFORE: Duration = Duration::from_micros(600);
const AFTER: Duration = Duration::from_micros(1200);
const DEPTH: u32 = 64;
const REGION: u64 = 512 << 20;

/// `flash-generic` with a quarter of its dies.
fn device(program: Duration, later: Option<Later>) -> FlashSpec {
    let (channels, dies_per_channel) = (2, 4);
    let capacity_bytes = 64 << 30;
    let generic = preset::flash_generic();
    FlashSpec { channels, dies_per_channel, capacity_bytes, program, later, ..generic }
}

fn loads() -> [Load; 3] {
    [
        load("random 4 KiB", 20, Pattern::Random, 4, 32),
        load("random 128 KiB", 30, Pattern::Random, 128, 16),
        Load { reads: false, ..load("random 4 KiB writes", 50, Pattern::Random, 4, 32) },
    ]
}

/// Seconds that a stream is on, and then off.
type Spells = [(u64, u64); 3];

const ALWAYS: Spells = [(END, 0); 3];
const ON_OFF: Spells = [(3, 2), (5, 3), (4, 1)];

fn is_on((on, off): (u64, u64), second: u64) -> bool {
    second % (on + off) < on
}

fn measure(seed: u64) -> Sample {
    let alone = [BEFORE, AFTER].map(|program| alone(program, seed));
    let (mut checks, mut panels) = (Vec::new(), Vec::new());
    for (name, spells) in [("always backlogged", ALWAYS), ("on and off", ON_OFF)] {
        let run = |prices| shared(spells, prices, seed);
        let learned = run(None);
        let [stale, oracle] = alone.map(|alone| run(Some(alone)));
        let insulation = |outcome: &Outcome, stream| insulation(outcome, stream, spells, &alone);
        let mut series = Vec::new();
        let mut worst = 0.0_f64;
        for (stream, load) in loads().iter().enumerate() {
            let seen = |outcome: &Outcome| insulation(outcome, stream);
            let [learned, stale, oracle] = [&learned, &stale, &oracle].map(seen);
            let after = |of: &[Option<f64>]| mean_of(&of[JUDGED..]);
            let points = |of: &[Option<f64>]| (after(of) - after(&oracle)).abs() * 100.0;
            let check = format!("{name}: {}, from the oracle's insulation, points", load.name);
            checks.push(Check::deviation(check, points(&learned), 7.0));
            worst = worst.max(points(&stale));
            series.push(Series::new(load.name, windows(&learned)));
            series.push(Series::new(&format!("{}, oracle", load.name), windows(&oracle)));
        }
        let check = format!("{name}: prices from before the change, worst stream, points");
        checks.push(Check::at_least(check, worst, 7.0));
        panels.push(Panel {
            title: format!("Insulation over {WINDOW} s: {name}"),
            marks: Marks::Lines,
            x: Axis::linear("time (s)"),
            y: Axis::linear("by share and throughput alone then"),
            series,
            level: Some(Line { name: "its share".to_owned(), at: 1.0 }),
        });
    }
    let streams = loads().len() as u64;
    Sample { seconds: (6 * END + 2 * streams * ALONE) as f64, panels, checks }
}

/// Requests per second of each stream alone.
fn alone(program: Duration, seed: u64) -> [f64; 3] {
    [0, 1, 2].map(|stream| {
        let device = device(program, None);
        let outcome = run(&[(stream, (ALONE, 0))], device, None, ALONE, seed);
        mean(&rates(&outcome, 0, WARM))
    })
}

/// All together; told prices by throughput alone, or learning them.
fn shared(spells: Spells, alone: Option<[f64; 3]>, seed: u64) -> Outcome {
    let later = Later { after: Duration::from_secs(CHANGE), program: AFTER };
    let streams: Vec<_> = (0..).zip(spells).collect();
    let prices = alone.map(|alone| {
        let mut prices = CostParameters::default().prices;
        for (price, rate) in prices.iter_mut().zip(alone) {
            *price = Price { each: price_of(rate), per_mib: Duration::ZERO };
        }
        CostParameters { prices, ..CostParameters::default() }
    });
    run(&streams, device(BEFORE, Some(later)), prices, END, seed)
}

fn run(
    streams: &[(usize, (u64, u64))],
    device: FlashSpec,
    prices: Option<CostParameters>,
    seconds: u64,
    seed: u64,
) -> Outcome {
    let stream = |(index, spells): &(usize, (u64, u64))| stream(*index, *spells, seconds, seed);
    let plan = Plan {
        streams: streams.iter().map(stream).collect(),
        device: Box::new(Flash::new(device)),
        profile: None,
        scheduling: Scheduling::new(
            "disktime",
            if prices.is_some() { "priced" } else { "learned" },
        ),
        cost: prices.unwrap_or_default(),
        reports: Vec::new(),
        depth: DEPTH,
        changes: Vec::new(),
        duration: Duration::from_secs(seconds),
        window: SECOND,
        decisions: None,
    };
    simulate(plan).expect("the cases can be run")
}

fn stream(index: usize, (on, off): (u64, u64), seconds: u64, seed: u64) -> StreamPlan {
    let load = loads()[index];
    let start = REGION * index as u64;
    let spec = Spec::reads(load.pattern, Extent { start, end: start + REGION }, load.bytes);
    let spec = Spec { reads_permille: if load.reads { 1000 } else { 0 }, ..spec };
    let pace = Pace::Closed { outstanding: load.outstanding, think: Duration::ZERO };
    let phase = |begin: u64| Phase {
        start: Duration::from_secs(begin),
        stop: Some(Duration::from_secs(begin + on)),
        spec: spec.clone(),
        pace,
    };
    let begins = (0..seconds).step_by(usize::try_from(on + off).unwrap_or(usize::MAX));
    let traffic = Phases::new(begins.map(phase).collect(), seed, load.name, Instant::ZERO);
    let share = Share::from_percent(load.percent).expect("at most 100 %");
    StreamPlan {
        name: load.name.to_owned(),
        contract: Contract { weight: load.percent, ..Contract::reserving(share) },
        base: 0,
        parent: None,
        extent: None,
        traffic: traffic.expect("the loads make sense").into(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "of thousands of requests per second: some microseconds"
)]
fn price_of(rate: f64) -> Duration {
    Duration::from_nanos((1e9 / rate).round() as u64)
}

/// In each second that it is on.
fn insulation(
    outcome: &Outcome,
    stream: usize,
    spells: Spells,
    alone: &[[f64; 3]; 2],
) -> Vec<Option<f64>> {
    let share = f64::from(loads()[stream].percent) / 100.0;
    let each = (0..).zip(rates(outcome, stream, 0)).map(|(second, rate)| {
        let alone = alone[usize::from(second >= CHANGE)][stream];
        is_on(spells[stream], second).then_some(rate / alone / share)
    });
    each.collect()
}

fn windows(insulation: &[Option<f64>]) -> impl Iterator<Item = (f64, f64)> {
    let windows = (0..).zip(insulation.chunks(WINDOW));
    windows.map(|(at, window)| (((at + 1) * WINDOW) as f64, mean_of(window)))
}

fn mean_of(insulation: &[Option<f64>]) -> f64 {
    mean(&insulation.iter().flatten().copied().collect::<Vec<_>>())
}
