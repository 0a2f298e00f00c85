//! Runs: each cell's loads alone, then the cell under every policy.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use disktime_config::Scheduling;
use disktime_core::cost::{self, CostParameters, Price};
use disktime_core::policy::PolicyEntry;
use disktime_core::{Duration, Instant};
use disktime_sim::{Outcome, Plan, PlanError, Window, simulate_timed};

use super::cells::{Cell, CellId, Costs, Tenant, draw};
use super::due::{Alone, AloneStore, alone};
use super::learned_cost;
use super::loads::{Family, Rhythm};
use super::random_row::{Row, StreamRow, Throughput};
use super::times::seconds;

const MIB: f64 = (1 << 20) as f64;

/// How far a bench has come: cells done, of so many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Cells that are done.
    pub done: usize,
    /// All of them.
    pub of: usize,
}

/// How to run.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// How many cells run at once; results don't depend on it.
    pub threads: NonZero<usize>,
    /// Whether contracts have the latency bounds that were drawn.
    pub latency: bool,
    /// Whether cells are run in turns, too, which says what shares of the time can give.
    pub oracle: bool,
    /// Where figures alone are kept.
    pub store: &'a dyn AloneStore,
}

/// Runs every cell under every policy: rows by cell, then policy, in the order given; the rows of a
/// cell together. `watch` is told of every cell that is done, on its thread.
///
/// # Panics
/// If a policy breaks what the simulator checks of its engine.
pub fn run(
    policies: &[&'static PolicyEntry],
    cells: &[CellId],
    settings: Settings<'_>,
    watch: impl Fn(Progress) + Sync,
) -> Vec<Row> {
    let done = AtomicUsize::new(0);
    let rows = disktime_sim::each(cells, settings.threads, |id| {
        let cell = draw(*id);
        let mut alone = alone(&cell, settings.store);
        if !settings.latency {
            alone.iter_mut().for_each(|it| it.latency_ms = None);
        }
        let mut rows: Vec<Row> =
            policies.iter().map(|policy| row(policy.name, &cell, &alone)).collect();
        if settings.oracle {
            let turns = disktime_rivals::TIME_DIVISIONS.iter();
            ask(&mut rows, &turns.map(|it| row(it.name, &cell, &alone)).collect::<Vec<_>>());
        }
        watch(Progress { done: done.fetch_add(1, Ordering::Relaxed) + 1, of: cells.len() });
        rows
    });
    rows.into_iter().flatten().collect()
}

/// Notes in a cell's rows the most that each stream got in the oracle's.
fn ask(rows: &mut [Row], oracle: &[Row]) {
    for stream in rows.iter_mut().flat_map(|row| row.streams.iter_mut().enumerate()) {
        let (place, stream) = stream;
        let whole = oracle.iter().filter(|row| row.ended_early.is_none());
        let got = whole.map(|row| row.streams[place].smaller());
        stream.time_division = got.max_by(f64::total_cmp);
    }
}

pub(super) fn row(policy: &'static str, cell: &Cell, alone: &[Alone]) -> Row {
    let (outcome, alone, latency_refused) = match simulate(policy, cell, alone) {
        Ok(outcome) => (outcome, alone.to_vec(), false),
        Err(_) => {
            let unbounded: Vec<_> =
                alone.iter().map(|it| Alone { latency_ms: None, ..*it }).collect();
            let outcome = simulate(policy, cell, &unbounded);
            (outcome.expect("the drawn plans can be run"), unbounded, true)
        }
    };
    let seconds = cell.warm().as_secs_f64() * Cell::WARMS as f64;
    let shares = cell.shares();
    let each = cell.tenants.iter().zip(&alone).zip(shares).enumerate();
    let streams: Vec<StreamRow> = each
        .map(|(place, ((tenant, alone), share))| {
            stream(cell, tenant, *alone, share, &Seen { outcome: &outcome, place })
        })
        .collect();
    Row {
        policy,
        seed: cell.id.seed,
        cell: cell.id.number,
        group: cell.device.group.name(),
        device: cell.device.name,
        depth: cell.depth,
        costs: match cell.costs {
            Costs::Learned => "learned",
            Costs::Stated => "stated",
        },
        seconds,
        work_conservation: streams
            .iter()
            .map(|StreamRow { throughput, .. }| throughput.got / throughput.alone)
            .sum(),
        streams,
        promises_broken: outcome.promises_broken,
        latency_refused,
        ended_early: outcome.failures.first().map(|(_, reason)| reason.clone()),
    }
}

/// A stream of a run.
struct Seen<'a> {
    outcome: &'a Outcome,
    place: usize,
}

impl Seen<'_> {
    fn windows(&self, measured: Range<u64>) -> impl Iterator<Item = &Window> {
        let streams = self.outcome.streams.len();
        let at = |warms: u64| usize::try_from(warms * Cell::WINDOWS).expect("a few");
        let counted = at(measured.start)..at(measured.end);
        let own = self.outcome.windows.iter().skip(self.place).step_by(streams);
        own.skip(counted.start).take(counted.len())
    }
}

fn stream(cell: &Cell, tenant: &Tenant, alone: Alone, share: f64, seen: &Seen<'_>) -> StreamRow {
    let measured = tenant.presence.measured();
    let seconds = cell.warm().as_secs_f64() * (measured.end - measured.start) as f64;
    let windows = || seen.windows(measured.clone());
    let got = windows().map(|window| window.requests).sum::<u64>() as f64 / seconds;
    let charged: f64 = windows().map(|window| window.charged.as_secs_f64()).sum();
    let gap = windows().map(|window| window.gap_max).max().unwrap_or_default();
    let busy = tenant.load.rhythm == Rhythm::Busy;
    StreamRow {
        name: tenant.name.clone(),
        what: tenant.words(),
        family: tenant.load.family().name(),
        share,
        throughput: Throughput {
            due: alone.due,
            got,
            alone: alone.per_second,
            insulation: if alone.due > 0.0 { got / alone.due } else { 0.0 },
            of_alone: got / (share * alone.per_second),
        },
        utilization: charged / seconds,
        gap_ms_max: busy.then_some(gap.as_secs_f64() * 1e3),
        p99_ms: seen.outcome.streams[seen.place].response.quantile(0.99).as_secs_f64() * 1e3,
        p99_own_disk_ms: alone.p99_own_disk_ms,
        learned_cost: learned_cost::of(
            cell,
            tenant,
            alone.per_second,
            &seen.outcome.estimates[seen.place],
        ),
        light: tenant.load.family() == Family::Light,
        latency_ms: alone.latency_ms,
        hot: tenant.lives_in_cache(cell.device),
        few: alone.due * seconds < StreamRow::FEW,
        time_division: None,
    }
}

fn simulate(policy: &'static str, cell: &Cell, alone: &[Alone]) -> Result<Outcome, PlanError> {
    let warm = cell.warm();
    let after = |warms: u64| Duration::from_nanos(warm.as_nanos() * warms);
    let mut cost = CostParameters::default();
    if cell.prices_are_told() {
        for ((price, tenant), alone) in cost.prices.iter_mut().zip(&cell.tenants).zip(alone) {
            *price = stated(tenant, alone.saturated.unwrap_or(alone.per_second));
        }
    }
    let told = cell.prices_are_told();
    let cost_model = if told { "priced" } else { cost::usual(policy) };
    let streams = cell.tenants.iter().zip(alone).zip(cell.shares());
    let plan = Plan {
        device: cell.device.make(cell.id.seed, 1.0),
        profile: None,
        scheduling: Scheduling::new(policy, cost_model),
        cost,
        reports: Vec::new(),
        depth: cell.depth,
        streams: streams
            .map(|((tenant, alone), share)| {
                let mut stream = tenant.plan(cell, share * alone.per_second, 1.0);
                stream.contract.latency = alone.latency_ms.map(|ms| seconds(ms / 1e3));
                stream
            })
            .collect(),
        changes: Vec::new(),
        duration: after(Cell::WARMS),
        window: Duration::from_nanos(warm.as_nanos() / Cell::WINDOWS),
        decisions: None,
    };
    let span = |tenant: &Tenant| {
        let Range { start, end } = tenant.presence.measured();
        Instant::ZERO + after(start)..Instant::ZERO + after(end)
    };
    let spans = cell.tenants.iter().map(span).collect();
    simulate_timed(plan, spans)
}

/// The price of a stream's requests; large ones by length.
fn stated(tenant: &Tenant, saturated: f64) -> Price {
    match tenant.load.sizes[..] {
        [only] if only.bytes >= 64 << 10 => {
            Price { each: Duration::ZERO, per_mib: seconds(MIB / only.bytes as f64 / saturated) }
        }
        _ => Price { each: seconds(1.0 / saturated), per_mib: Duration::ZERO },
    }
}

#[cfg(test)]
mod tests {
    use super::super::due::measure;
    use super::super::samples::{busy, cell, with};
    use super::*;

    /// A load that asks for ten million requests a second, of a disk that does a hundred.
    #[test]
    fn a_run_that_ends_early_says_why_and_is_no_oracle() {
        let loads = vec![(with(Rhythm::Poisson(1.0)), 50), (busy(4), 50)];
        let cell = cell("deskstar-34gxp", 1, loads);
        let mut alone = measure(&cell);
        let whole = row("zygaria", &cell, &alone);
        assert_eq!(whole.ended_early, None);
        alone[0].per_second = 2e7;
        let ended = row("zygaria", &cell, &alone);
        let reason = ended.ended_early.clone().expect("more wait than the simulator holds");
        assert!(reason.contains("s0"), "{reason}");
        let mut asked = [whole.clone()];
        ask(&mut asked, &[ended]);
        assert_eq!(asked[0].streams[1].time_division, None);
        ask(&mut asked, &[whole]);
        assert!(asked[0].streams[1].time_division.is_some());
    }

    /// Two that read here and there, and a cell of which the second stream has far less in short turns.
    #[test]
    fn the_oracle_is_the_best_of_its_turns_for_each_stream() {
        let cell = cell("deskstar-34gxp", 1, vec![(busy(4), 95), (busy(4), 5)]);
        let alone = measure(&cell);
        let rows = ["time-division-20ms", "time-division-500ms"].map(|it| row(it, &cell, &alone));
        let got = |place: usize| rows.each_ref().map(|row| row.streams[place].smaller());
        let mut asked = [row("zygaria", &cell, &alone)];
        assert_eq!(asked[0].streams[0].time_division, None);
        ask(&mut asked, &rows);
        for (place, stream) in asked[0].streams.iter().enumerate() {
            let most = got(place).into_iter().fold(0.0, f64::max);
            assert_eq!(stream.time_division, Some(most), "stream {place} of {:?}", got(place));
        }
        assert!(got(1)[0] + 0.05 < got(1)[1], "{:?}", got(1));
    }
}
