//! Scenario files: a device, a policy, streams with their contracts and loads, in TOML.
//!
//! `docs/simulator.md` explains every key. Unknown keys are errors, and every error names the file,
//! the key and what is allowed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use disktime_config::quantity;
use disktime_config::{
    ContractKeys, DepthText, DeviceFacts, Named, Scheduling, SchedulingKeys, SyntaxError,
    ValueError,
};
use disktime_core::cost::{CostParameters, PriceList};
use disktime_core::{Contract, Duration, Instant, Profile, StreamId};
use disktime_profiler::{PricerOptions, QUICK_BUDGET, Speeds};
use disktime_workload::{Extent, Phase, ReplaySpec, Stream, StreamError, StreamSpec};
use serde::Deserialize;

use crate::device_spec::{self, DeviceError, DeviceSpec, Model};
use crate::plan::{Plan, StreamPlan};
use crate::simulated_profile;

/// The longest that can be simulated.
const DURATION_MAX: Duration = Duration::from_secs(10_000 * 3600);
/// Windows of a run: each stream's figures in each are kept.
const WINDOWS_MAX: u64 = 1_000_000;
/// Windows of all streams together: some 400 MB.
const ROWS_MAX: u64 = 4_000_000;
/// Runs of a scenario.
const SEEDS_MAX: usize = 1000;
/// The range of a cost model's first estimates.
const ESTIMATES: std::ops::RangeInclusive<Duration> =
    Duration::from_nanos(1)..=Duration::from_secs(60);
/// The longest name of a stream in bytes, as that of a virtual disk.
const NAME_MAX: usize = 64;

/// Why a scenario can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file can't be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value that can't be read.
    #[error("{}: {error}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        error: SyntaxError,
    },
    /// A value that is not allowed.
    #[error("{}: {error}", path.display())]
    Value {
        /// Which file.
        path: PathBuf,
        /// Which key, what it says, and what is allowed.
        error: Box<ValueError>,
    },
    /// A load that can't be.
    #[error("{}: {stream}: load: {error}", path.display())]
    Load {
        /// Which file.
        path: PathBuf,
        /// The stream with the load.
        stream: Named,
        /// Why.
        error: Box<StreamError>,
    },
    /// A device that can't be.
    #[error("{}: {within}.{error}", path.display())]
    Device {
        /// Which file.
        path: PathBuf,
        /// In which table.
        within: &'static str,
        /// Which key, what it says, and what is allowed.
        error: DeviceError,
    },
}

/// A scenario as its file says it, checked as far as that goes without a seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    path: PathBuf,
    file: File,
    model: Model,
    capacity_bytes: u64,
    scheduling: Scheduling,
    /// Each stream's contract from the start.
    contracts: Vec<Contract>,
    /// Contracts that change while it runs, in order of time.
    changes: Vec<(Instant, StreamId, Contract)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenario: General,
    device: DeviceTable,
    #[serde(default, rename = "stream")]
    streams: Vec<StreamTable>,
    #[serde(default, rename = "change")]
    changes: Vec<ChangeTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct General {
    #[serde(deserialize_with = "quantity::duration")]
    duration: Duration,
    #[serde(default = "second", deserialize_with = "quantity::duration")]
    window: Duration,
    #[serde(default = "one_seed")]
    seeds: Vec<u64>,
    #[serde(default = "sequential", deserialize_with = "quantity::duration")]
    sequential_estimate: Duration,
    #[serde(default = "random", deserialize_with = "quantity::duration")]
    random_estimate: Duration,
    // Keys of `[device]` that stood here first.
    policy: Option<String>,
    cost_model: Option<String>,
    nominal_iops: Option<u32>,
    feedback: Option<String>,
    feedback_token: Option<String>,
    feedback_min: Option<u32>,
    feedback_rate: Option<u32>,
}

disktime_config::scheduling_table! {
    /// The device that is simulated, and how its time is shared.
    struct DeviceTable {
        emulate: Option<String>,
        /// An older name of `emulate` in scenarios.
        preset: Option<String>,
        model: Option<DeviceSpec>,
    }
}

disktime_config::contract_table! {
    struct StreamTable {
        name: String,
        /// First byte on the device of what the load calls byte 0.
        #[serde(default, deserialize_with = "quantity::size")]
        base: u64,
        /// The stream of whose contract its own is a part.
        parent: Option<String>,
        phases: Option<Vec<Phase>>,
        replay: Option<ReplaySpec>,
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeTable {
    #[serde(deserialize_with = "quantity::duration")]
    at: Duration,
    stream: String,
    reserve: Option<String>,
    limit: Option<String>,
    weight: Option<u32>,
}

impl General {
    /// Whether it ends, and its figures fit.
    fn check(&self, streams: usize) -> Result<(), ValueError> {
        let of = Named::only("scenario");
        let Self { duration, window, seeds, .. } = self;
        if *duration > DURATION_MAX {
            let allowed = format!("at most {DURATION_MAX:?} is possible");
            return Err(of.wrong("duration", format_args!("{duration:?}"), allowed));
        }
        let windows_max = WINDOWS_MAX.min(ROWS_MAX / streams.max(1) as u64).max(1);
        if duration.as_nanos() / windows_max > window.as_nanos() {
            let least = Duration::from_nanos(duration.as_nanos().div_ceil(windows_max));
            let allowed =
                format!("at least {least:?} is needed for so long a run of {streams} streams");
            return Err(of.wrong("window", format_args!("{window:?}"), allowed));
        }
        if !(1..=SEEDS_MAX).contains(&seeds.len()) {
            let value = format_args!("{} seeds", seeds.len());
            return Err(of.wrong("seeds", value, format!("1 to {SEEDS_MAX} are possible")));
        }
        let estimates = [
            ("sequential_estimate", self.sequential_estimate),
            ("random_estimate", self.random_estimate),
        ];
        match estimates.into_iter().find(|(_, estimate)| !ESTIMATES.contains(estimate)) {
            Some((key, estimate)) => {
                let (least, most) = (ESTIMATES.start(), ESTIMATES.end());
                let allowed = format!("{least:?} to {most:?} is needed");
                Err(of.wrong(key, format_args!("{estimate:?}"), allowed))
            }
            None => Ok(()),
        }
    }

    /// Takes the keys of `[device]` that are stated here over to the others; answers which.
    fn lend(&self, keys: &mut SchedulingKeys) -> Result<Vec<&'static str>, ValueError> {
        let mut lent = Vec::new();
        lend("policy", &self.policy, &mut keys.policy, &mut lent)?;
        lend("cost_model", &self.cost_model, &mut keys.cost_model, &mut lent)?;
        lend("feedback", &self.feedback, &mut keys.feedback, &mut lent)?;
        lend("feedback_token", &self.feedback_token, &mut keys.feedback_token, &mut lent)?;
        lend("feedback_min", &self.feedback_min, &mut keys.feedback_min, &mut lent)?;
        lend("feedback_rate", &self.feedback_rate, &mut keys.feedback_rate, &mut lent)?;
        // Here it may stand beside a policy that does not count requests, and says nothing.
        if keys.counts_requests() {
            lend("nominal_iops", &self.nominal_iops, &mut keys.nominal_iops, &mut lent)?;
        }
        Ok(lent)
    }
}

fn lend<T: Clone + std::fmt::Display>(
    key: &'static str,
    from: &Option<T>,
    to: &mut Option<T>,
    lent: &mut Vec<&'static str>,
) -> Result<(), ValueError> {
    let Some(value) = from else { return Ok(()) };
    if to.is_some() {
        let allowed = "`[device]` states it, too: leave it out here";
        return Err(Named::only("scenario").wrong(key, value, allowed));
    }
    *to = Some(value.clone());
    lent.push(key);
    Ok(())
}

impl File {
    /// How the device's time is shared. Where a key is left out, the daemon finds its value out; a
    /// scenario states it or does without. So a run depends on nothing but its file.
    fn scheduling(&self, depth_max: u32) -> Result<Scheduling, ValueError> {
        let mut keys = self.device.scheduling();
        let lent = self.scenario.lend(&mut keys)?;
        keys.queue_depth.get_or_insert(DepthText::Count(1));
        keys.quick_profile.get_or_insert(false);
        // Comparing is what simulations are for.
        keys.experimental.get_or_insert(true);
        let real_time = self.streams.iter().any(|stream| stream.contract().is_real_time());
        let facts = DeviceFacts { depth_max, timed: true, real_time };
        keys.check(&Named::only("device"), facts).map_err(|error| {
            let here = lent.iter().any(|key| *key == error.key);
            ValueError { table: if here { "scenario" } else { error.table }, ..error }
        })
    }

    /// Each stream's contract from the start.
    fn contracts(&self) -> Result<Vec<Contract>, ValueError> {
        let contract = |table: &StreamTable| {
            let name = &table.name;
            if !(1..=NAME_MAX).contains(&name.len()) || name.contains(char::is_control) {
                // Its length in place of the name, which may be as long as the file.
                let value = format_args!("{} bytes", name.len());
                let allowed = format!("a name has 1 to {NAME_MAX}, all printable");
                return Err(ValueError::new("stream", "name", value, allowed));
            }
            table.contract().check(&Named::new("stream", name), false)
        };
        let contracts = self.streams.iter().map(contract).collect::<Result<_, _>>()?;
        let mut names = BTreeSet::new();
        if let Some(twice) = self.streams.iter().find(|table| !names.insert(&table.name)) {
            let allowed =
                "another stream has this name, which decides its random numbers: rename one";
            return Err(ValueError::new("stream", "name", &twice.name, allowed));
        }
        Ok(contracts)
    }

    /// Contracts that change while it runs, in order of time: class, rate and latency stay.
    fn changes(
        &self,
        before: &[Contract],
    ) -> Result<Vec<(Instant, StreamId, Contract)>, ValueError> {
        let change = |change: &ChangeTable| {
            let ChangeTable { at, stream, reserve, limit, weight } = change;
            let place = self.streams.iter().position(|table| table.name == *stream);
            let place = place.ok_or_else(|| {
                ValueError::new("change", "stream", stream, "no stream has this name")
            })?;
            let keys = ContractKeys {
                reserve: reserve.clone(),
                limit: limit.clone(),
                weight: *weight,
                ..ContractKeys::default()
            };
            let shares = keys.check(&Named::new("change of stream", stream), false)?;
            let Contract { reserve, limit, weight, .. } = shares;
            let contract = Contract { reserve, limit, weight, ..before[place] };
            let id = StreamId(u32::try_from(place).expect("a file has fewer streams"));
            Ok((Instant::ZERO + *at, id, contract))
        };
        let changes = self.changes.iter().map(change).collect::<Result<Vec<_>, _>>();
        changes.map(|mut changes| {
            changes.sort_by_key(|(at, stream, _)| (*at, *stream));
            changes
        })
    }

    /// The device that is described; or in which table what is wrong.
    fn model(&self) -> Result<Model, (&'static str, DeviceError)> {
        let DeviceTable { emulate, preset, model, .. } = &self.device;
        let found = match (emulate, preset, model) {
            (Some(name), None, None) => device_spec::preset_of("emulate", name),
            (None, Some(name), None) => device_spec::preset_of("preset", name),
            (None, None, Some(spec)) => {
                return spec.check().map_err(|error| ("device.model", error));
            }
            (None, None, None) => Err(choose("none of them")),
            _ => Err(choose("more than one of them")),
        };
        found.map_err(|error| ("device", error))
    }
}

/// A device that is not described once.
fn choose(value: &str) -> DeviceError {
    let allowed = "state exactly one of `emulate` (or `preset`) and `model`";
    let (field, value) = ("emulate, preset, model".to_owned(), value.to_owned());
    DeviceError { field, value, allowed: allowed.to_owned() }
}

/// Findings about the device before a run.
#[derive(Default)]
struct Seen {
    profile: Option<Profile>,
    /// The cost table of the quick probe.
    anchor: Option<PriceList>,
    /// The fewest pieces with which the device is fast, if that is known.
    fast_from: Option<u32>,
}

impl Scenario {
    /// Reads a scenario file. Traces that it names are looked for beside it.
    ///
    /// # Errors
    /// If it can't be read or used.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text = disktime_profiler::read_text_of_any(path)
            .map_err(|error| ScenarioError::Read { path: path.to_owned(), error })?;
        Self::parse(path, &text)
    }

    /// Checks a scenario's text; the path is for messages and for finding traces.
    ///
    /// # Errors
    /// If it can't be used.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        let file: File = toml::from_str(text).map_err(|error| ScenarioError::Syntax {
            path: path.to_owned(),
            error: SyntaxError::new(text, error.span(), error.message()),
        })?;
        let wrong = |error| ScenarioError::Value { path: path.to_owned(), error: Box::new(error) };
        let model = file.model().map_err(|(within, error)| {
            let path = path.to_owned();
            ScenarioError::Device { path, within, error }
        })?;
        file.scenario.check(file.streams.len()).map_err(wrong)?;
        let device = model.build(0);
        let (capacity_bytes, depth_max) = (device.capacity_bytes(), device.queue_depth());
        let scheduling = file.scheduling(depth_max).map_err(wrong)?;
        let contracts = file.contracts().map_err(wrong)?;
        let changes = file.changes(&contracts).map_err(wrong)?;
        let path = path.to_owned();
        Ok(Self { path, file, model, capacity_bytes, scheduling, contracts, changes })
    }

    /// The files that a run reads: its own, its traces and its profile.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let beside = self.path.parent().unwrap_or(Path::new(""));
        let replays = self.file.streams.iter().filter_map(|table| table.replay.as_ref());
        let profile = self.scheduling.profile.iter();
        let named = replays.map(|replay| &replay.path).chain(profile);
        std::iter::once(self.path.clone()).chain(named.map(|path| beside.join(path)))
    }

    /// The seeds to run.
    #[must_use]
    pub fn seeds(&self) -> &[u64] {
        &self.file.scenario.seeds
    }

    /// How long it is.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.file.scenario.duration
    }

    /// The plan for a seed.
    ///
    /// # Errors
    /// If a stream's load can't be used: its numbers, or its trace; or the device's profile.
    pub fn plan(&self, seed: u64) -> Result<Plan, ScenarioError> {
        let general = &self.file.scenario;
        let Seen { profile, anchor, fast_from } = self.look(seed)?;
        let streams = self.file.streams.iter().zip(&self.contracts);
        let streams = streams.map(|(table, contract)| self.stream(table, *contract, seed));
        Ok(Plan {
            device: self.model.build(seed),
            profile,
            scheduling: self.scheduling.clone(),
            cost: CostParameters {
                sequential: general.sequential_estimate,
                random: general.random_estimate,
                anchor,
                ..CostParameters::default()
            },
            reports: Vec::new(),
            depth: self.scheduling.queue_depth.on(fast_from),
            streams: streams.collect::<Result<_, _>>()?,
            changes: self.changes.clone(),
            duration: general.duration,
            window: general.window,
            decisions: None,
        })
    }

    /// Looks at a copy of the device, or reads a file beside the scenario, as far as that is stated.
    fn look(&self, seed: u64) -> Result<Seen, ScenarioError> {
        let copy = || self.model.build(seed);
        let wrong = |key, value: &dyn std::fmt::Display, reason: String| {
            self.wrong(Named::only("device").wrong(key, value, reason))
        };
        if let Some(profile) = &self.scheduling.profile {
            let found = if profile == Path::new("measured") {
                let found = simulated_profile::measure(copy(), "measured", seed);
                found.map_err(|error| error.to_string())
            } else {
                let beside = self.path.parent().unwrap_or(Path::new(""));
                simulated_profile::read(&beside.join(profile), self.capacity_bytes)
            };
            let found = found.map_err(|reason| wrong("profile", &profile.display(), reason))?;
            let fast_from = Some(found.speeds.as_ref().map_or(1, Speeds::fast_from));
            return Ok(Seen { profile: Some(found.profile), anchor: None, fast_from });
        }
        if !self.scheduling.quick_profile {
            return Ok(Seen::default());
        }
        let options = PricerOptions {
            size: self.capacity_bytes,
            writes: false,
            depth_max: self.scheduling.queue_depth.most(),
            budget: QUICK_BUDGET,
            thorough: false,
            seed,
        };
        let priced = simulated_profile::price(copy(), options);
        let priced = priced.map_err(|error| wrong("quick_profile", &true, error.to_string()))?;
        let fast_from = Some(priced.speeds.fast_from());
        Ok(Seen { profile: None, anchor: Some(priced.prices), fast_from })
    }

    fn wrong(&self, error: ValueError) -> ScenarioError {
        ScenarioError::Value { path: self.path.clone(), error: Box::new(error) }
    }

    fn stream(
        &self,
        table: &StreamTable,
        contract: Contract,
        seed: u64,
    ) -> Result<StreamPlan, ScenarioError> {
        let of = Named::new("stream", &table.name);
        let spec = match (&table.phases, &table.replay) {
            (Some(phases), None) => StreamSpec::Phases(phases.clone()),
            (None, Some(replay)) => {
                let beside = self.path.parent().unwrap_or(Path::new(""));
                let path = beside.join(&replay.path);
                StreamSpec::Replay(ReplaySpec { path, ..replay.clone() })
            }
            _ => {
                let both = table.phases.is_some();
                let value = if both { "beside replay" } else { "left out" };
                let allowed = "state exactly one of `phases` and `replay`";
                return Err(self.wrong(of.wrong("phases", value, allowed)));
            }
        };
        let extents: Vec<Extent> = match &spec {
            StreamSpec::Phases(phases) => phases.iter().map(|phase| phase.spec.extent).collect(),
            StreamSpec::Replay(replay) => vec![replay.extent],
        };
        let capacity = self.capacity_bytes;
        let end = extents.iter().map(|extent| extent.end).max().unwrap_or(0);
        if table.base.checked_add(end).is_none_or(|end| end > capacity) {
            let value =
                format_args!("{} to {}", table.base, u128::from(table.base) + u128::from(end));
            let allowed =
                format!("base + end is above the device's end at {capacity}: lower one of both");
            return Err(self.wrong(of.wrong("extent", value, allowed)));
        }
        let traffic = Stream::new(&spec, seed, &table.name, Instant::ZERO);
        let traffic = traffic.map_err(|error| ScenarioError::Load {
            path: self.path.clone(),
            stream: of.clone(),
            error: Box::new(error),
        })?;
        let start = extents.iter().map(|extent| extent.start).min().unwrap_or(0);
        let extent = (start < end).then_some((table.base + start, table.base + end));
        let (name, base) = (table.name.clone(), table.base);
        let parent = table.parent.as_ref().map(|parent| self.parent(&of, parent)).transpose()?;
        Ok(StreamPlan { name, contract, base, extent, parent, traffic })
    }

    /// The stream of that name, which has no parent itself.
    fn parent(&self, of: &Named, parent: &str) -> Result<StreamId, ScenarioError> {
        let mut tables = self.file.streams.iter().zip(0..);
        let found = tables.find(|(table, _)| table.name == parent && table.parent.is_none());
        let allowed = "no stream without a parent has this name";
        let found = found.ok_or_else(|| self.wrong(of.wrong("parent", parent, allowed)));
        found.map(|(_, place)| StreamId(place))
    }
}

fn second() -> Duration {
    Duration::from_secs(1)
}

fn one_seed() -> Vec<u64> {
    vec![1]
}

fn sequential() -> Duration {
    CostParameters::default().sequential
}

fn random() -> Duration {
    CostParameters::default().random
}
