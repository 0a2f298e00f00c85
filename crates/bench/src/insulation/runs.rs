//! Runs: every load alone, then every cell under every policy.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use disktime_config::Scheduling;
use disktime_core::Duration;
use disktime_core::cost::{self, CostParameters};
use disktime_core::policy::PolicyEntry;
use disktime_sim::{Outcome, Plan, Window, simulate};

use super::cells::{Cell, Device};
use super::cover::effort;
use super::insulation_row::Row;
use super::loads::{Load, Scale, Tenant, Times};
use super::windows::{share_error_points, sliding};
use disktime_report::statistics::{mean, quantile};

/// How to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Decides every load's requests and what a device leaves open.
    pub seed: u64,
    /// Windows that count, each a quarter of its length after the one before.
    pub windows: NonZero<usize>,
    /// How many cells run at once; results don't depend on it.
    pub threads: NonZero<usize>,
}

impl Settings {
    /// As many windows as a first percentile takes.
    pub const WINDOWS: NonZero<usize> = NonZero::new(100).expect("more than 0");
}

/// How far a bench has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Loads measured alone, of so many.
    Alone(usize, usize),
    /// Rows done, of so many.
    Rows(usize, usize),
}

/// Runs every cell under every policy: rows by policy, then cell, in the order given.
/// `watch` is told of everything that is done, on its thread.
///
/// # Panics
/// If a policy breaks what the simulator checks of its engine.
pub fn run(
    policies: &[&'static PolicyEntry],
    cells: &[Cell],
    settings: Settings,
    watch: impl Fn(Progress) + Sync,
) -> Vec<Row> {
    let loads = cells.iter().flat_map(|cell| Load::of(*cell).map(|load| (cell.device, load)));
    let mut loads: Vec<(Device, Load)> = loads.collect();
    loads.sort_unstable();
    loads.dedup();
    let done = AtomicUsize::new(0);
    let tell = |progress: fn(usize, usize) -> Progress, of: usize| {
        watch(progress(done.fetch_add(1, Ordering::Relaxed) + 1, of));
    };
    let measured = disktime_sim::each(&loads, settings.threads, |(device, load)| {
        let alone = Alone::measure(*device, *load, settings);
        tell(Progress::Alone, loads.len());
        alone
    });
    let alone: Measured = loads.iter().copied().zip(measured).collect();

    done.store(0, Ordering::Relaxed);
    let mut jobs: Vec<(usize, &'static PolicyEntry, Cell)> = policies
        .iter()
        .flat_map(|policy| cells.iter().map(move |cell| (*policy, *cell)))
        .enumerate()
        .map(|(place, (policy, cell))| (place, policy, cell))
        .collect();
    // The longest first, so that no thread is left with one at the end.
    jobs.sort_by_key(|(place, _, cell)| (std::cmp::Reverse(effort(*cell)), *place));
    let rows = disktime_sim::each(&jobs, settings.threads, |(place, policy, cell)| {
        let row = row(policy.name, *cell, &alone, settings);
        tell(Progress::Rows, jobs.len());
        (*place, row)
    });
    let mut rows = rows;
    rows.sort_unstable_by_key(|(place, _)| *place);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Runs one cell under a policy, after the cell's loads alone, on this thread.
///
/// # Panics
/// As [`run`].
pub(crate) fn run_alone(policy: &'static str, cell: Cell, settings: Settings) -> Row {
    let measured = |load| ((cell.device, load), Alone::measure(cell.device, load, settings));
    row(policy, cell, &Load::of(cell).map(measured).into(), settings)
}

/// A load alone.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Alone {
    per_second: f64,
    p99: Duration,
}

type Measured = BTreeMap<(Device, Load), Alone>;

impl Alone {
    fn measure(device: Device, load: Load, settings: Settings) -> Self {
        let scale = Scale::of(device);
        let windows = settings.windows.get() + Scale::WINDOW / Scale::SLIDE;
        let windows = if load.is_fast() { windows.div_ceil(8) } else { windows };
        let spells = windows * Scale::SLIDE + Scale::WINDOW;
        let shared =
            Shared { device, policy: "fifo", end: scale.after(spells), seed: settings.seed };
        let outcome = shared.run(&[Tenant::alone(load)], None);
        let done = completed(&outcome, 0);
        let counted = &done[Scale::WINDOW..];
        let seconds = scale.after(counted.len()).as_secs_f64();
        let per_second = counted.iter().sum::<f64>() / seconds;
        Self { per_second, p99: outcome.streams[0].response.quantile(0.99) }
    }

    fn mean_cost(&self) -> Duration {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole ns")]
        Duration::from_nanos((1e9 / self.per_second).round() as u64)
    }
}

/// A device with its tenants.
struct Shared<'a> {
    device: Device,
    policy: &'a str,
    end: Duration,
    seed: u64,
}

impl Shared<'_> {
    /// With prices where the device does several things at once: there a piece's part of the time
    /// is reckoned, not seen. One command at a time costs what it takes. On disks `disktime` has no
    /// use for them: it sees what its turns cost.
    fn run(&self, tenants: &[Tenant], alone: Option<&Measured>) -> Outcome {
        let deep = self.device.depth() > 1;
        let priced = deep && (self.device == Device::Flash || self.policy != "disktime");
        let mut cost = CostParameters::default();
        if let Some(alone) = alone.filter(|_| priced) {
            for (price, tenant) in cost.prices.iter_mut().zip(tenants) {
                *price = tenant.load.price(alone[&(self.device, tenant.load)].mean_cost());
            }
        }
        let usual = cost::usual(self.policy);
        let cost_model = if priced { "priced" } else { usual };
        let plan = Plan {
            device: self.device.build(self.seed),
            profile: None,
            scheduling: Scheduling::new(self.policy, cost_model),
            cost,
            reports: Vec::new(),
            depth: self.device.depth(),
            streams: tenants.iter().map(|tenant| tenant.plan(self.device, self.seed)).collect(),
            changes: Vec::new(),
            duration: self.end,
            window: Scale::of(self.device).spell,
            decisions: None,
        };
        simulate(plan).expect("the bench's plans can be run")
    }
}

fn row(policy: &'static str, cell: Cell, alone: &Measured, settings: Settings) -> Row {
    let times = Times::of(cell, settings.windows.get());
    let tenants = Tenant::of(cell, &times);
    let shared = Shared { device: cell.device, policy, end: times.end, seed: settings.seed };
    let outcome = shared.run(&tenants, Some(alone));
    let alone_of = |tenant: &Tenant| alone[&(cell.device, tenant.load)];
    let victim = alone_of(&tenants[0]);
    let scale = Scale::of(cell.device);
    let Times { counted, .. } = times;

    let due = cell.share() * victim.per_second * scale.window_secs();
    let windows = sliding(&completed(&outcome, 0)[counted.clone()]);
    let insulation: Vec<f64> = windows.into_iter().map(|done| done / due).collect();
    let above = insulation.iter().filter(|it| **it > 0.9).count();

    let mut work_conservation = 0.0;
    let mut share_error = 0.0_f64;
    for (stream, tenant) in tenants.iter().enumerate() {
        let done: f64 = completed(&outcome, stream)[counted.clone()].iter().sum();
        let alone = alone_of(tenant).per_second * scale.after(counted.len()).as_secs_f64();
        work_conservation += done / alone;
        let charged = per_spell(&outcome, stream, |window| window.charged.as_secs_f64());
        let contended = counted.clone().filter(|spell| Times::is_contended(cell, *spell));
        let charged: Vec<f64> = contended.map(|spell| charged[spell]).collect();
        let error = share_error_points(&charged, tenant.share(), scale.window_secs());
        share_error = share_error.max(error);
    }
    let gaps = per_spell(&outcome, 0, |window| window.gap_max.as_secs_f64() * 1e3);
    let p99 = outcome.streams[0].response.quantile(0.99).as_secs_f64();
    Row {
        policy,
        cell,
        insulation_mean: mean(&insulation),
        insulation_p01: quantile(&insulation, 0.01),
        windows_above_0_9: above as f64 / insulation.len() as f64,
        share_error_points: share_error,
        work_conservation,
        gap_ms_max: gaps[counted].iter().copied().fold(0.0, f64::max),
        p99_ratio: p99 / (victim.p99.as_secs_f64() / cell.share()),
    }
}

/// Requests of a stream that completed in each spell.
fn completed(outcome: &Outcome, stream: usize) -> Vec<f64> {
    per_spell(outcome, stream, |window| window.requests as f64)
}

fn per_spell(outcome: &Outcome, stream: usize, figure: impl Fn(&Window) -> f64) -> Vec<f64> {
    outcome.windows.iter().skip(stream).step_by(outcome.streams.len()).map(figure).collect()
}
