//! Scenario files: a device, a policy, streams with their contracts and loads, in TOML.
//!
//! `docs/simulator.md` explains every key. Unknown keys are errors, and every error names the file,
//! the key and what is allowed.

use std::path::{Path, PathBuf};

use disktime_config::quantity;
use disktime_core::cost::{self, CostParameters};
use disktime_core::feedback::{self, FeedbackConfig, Token};
use disktime_core::{Config, Contract, Duration, Instant, Profile, Share, StreamId};
use disktime_workload::{Extent, Phase, ReplaySpec, Stream, StreamSpec};
use serde::{Deserialize, Deserializer};

use crate::device_spec::{DeviceError, DeviceSpec, Model};
use crate::plan::{Plan, StreamPlan};
use crate::promise::{self, AccessName, AdmissionName, ClassName, Promise};
use crate::simulated_profile;

/// The longest that can be simulated.
const DURATION_MAX: Duration = Duration::from_secs(10_000 * 3600);
/// Windows of a run: each stream's figures in each are kept.
const WINDOWS_MAX: u64 = 1_000_000;
/// Runs of a scenario.
const SEEDS_MAX: usize = 1000;
/// What a cost model may take requests to cost at first.
const ESTIMATES: std::ops::RangeInclusive<Duration> =
    Duration::from_nanos(1)..=Duration::from_secs(60);
/// The longest name of a stream in bytes, as that of a virtual disk.
const NAME_MAX: usize = 64;

/// Why a scenario can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file can't be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value that can't be read.
    #[error("{}: {source}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A value that is not allowed.
    #[error("{}: {key}: {reason}", path.display())]
    Value {
        /// Which file.
        path: PathBuf,
        /// Which key, with its table.
        key: String,
        /// What it is, and what is allowed.
        reason: String,
    },
}

/// A scenario as its file says it, checked as far as that goes without a seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    path: PathBuf,
    file: File,
    model: Model,
    capacity_bytes: u64,
    feedback: FeedbackConfig<'static>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenario: General,
    device: Device,
    #[serde(default, rename = "stream")]
    streams: Vec<StreamTable>,
    #[serde(default, rename = "change")]
    changes: Vec<ChangeTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct General {
    #[serde(deserialize_with = "duration")]
    duration: Duration,
    #[serde(default = "second", deserialize_with = "duration")]
    window: Duration,
    #[serde(default = "one_seed")]
    seeds: Vec<u64>,
    #[serde(default = "policy")]
    policy: String,
    cost_model: Option<String>,
    #[serde(default = "sequential", deserialize_with = "duration")]
    sequential_estimate: Duration,
    #[serde(default = "random", deserialize_with = "duration")]
    random_estimate: Duration,
    #[serde(default = "nominal_iops")]
    nominal_iops: u32,
    feedback: Option<String>,
    feedback_token: Option<String>,
    feedback_min: Option<u32>,
    feedback_rate: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    preset: Option<String>,
    model: Option<DeviceSpec>,
    #[serde(default = "one")]
    queue_depth: u32,
    /// `measured`, or a profile's file.
    profile: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamTable {
    name: String,
    #[serde(default)]
    reserve: ShareText,
    #[serde(default = "full")]
    limit: ShareText,
    #[serde(default = "weight")]
    weight: u32,
    /// First byte on the device of what the load calls byte 0.
    #[serde(default, deserialize_with = "size")]
    base: u64,
    #[serde(default)]
    class: ClassName,
    #[serde(default, deserialize_with = "promise::rate")]
    rate: Option<u64>,
    #[serde(default, deserialize_with = "promise::span")]
    cycle: Option<Duration>,
    admission: Option<AdmissionName>,
    access: Option<AccessName>,
    #[serde(default, deserialize_with = "promise::span")]
    latency: Option<Duration>,
    phases: Option<Vec<Phase>>,
    replay: Option<ReplaySpec>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeTable {
    #[serde(deserialize_with = "duration")]
    at: Duration,
    stream: String,
    #[serde(default)]
    reserve: ShareText,
    #[serde(default = "full")]
    limit: ShareText,
    #[serde(default = "weight")]
    weight: u32,
}

impl General {
    /// Whether it ends, and its figures fit; or which key is wrong, and what is allowed.
    fn bounds(&self) -> Result<(), (&'static str, String)> {
        let Self { duration, window, seeds, .. } = self;
        if *duration > DURATION_MAX {
            return Err((
                "duration",
                format!("{duration:?}; at most {DURATION_MAX:?} is possible"),
            ));
        }
        if duration.as_nanos() / WINDOWS_MAX > window.as_nanos() {
            let least = Duration::from_nanos(duration.as_nanos().div_ceil(WINDOWS_MAX));
            let reason = format!("{window:?}; at least {least:?} is needed for so long a run");
            return Err(("window", reason));
        }
        if seeds.len() > SEEDS_MAX {
            return Err(("seeds", format!("{}; at most {SEEDS_MAX} are possible", seeds.len())));
        }
        let estimates = [
            ("sequential_estimate", self.sequential_estimate),
            ("random_estimate", self.random_estimate),
        ];
        match estimates.into_iter().find(|(_, estimate)| !ESTIMATES.contains(estimate)) {
            Some((key, estimate)) => {
                let (least, most) = (ESTIMATES.start(), ESTIMATES.end());
                Err((key, format!("{estimate:?}; {least:?} to {most:?} is needed")))
            }
            None => Ok(()),
        }
    }

    /// How best effort is shaped; or which key is wrong, and why.
    fn feedback(&self) -> Result<FeedbackConfig<'static>, (&'static str, String)> {
        let mut config = FeedbackConfig::default();
        if let Some(name) = &self.feedback {
            let unknown = || disktime_core::ConfigError::UnknownController(name.clone());
            let entry = feedback::find(name).ok_or_else(|| ("feedback", unknown().to_string()))?;
            config.controller = entry.name;
        }
        if let Some(name) = &self.feedback_token {
            let names = Token::NAMES.map(|(name, _)| name).join(", ");
            let unknown = || format!("`{name}` is no token; there are: {names}");
            config.token = Token::find(name).ok_or_else(|| ("feedback_token", unknown()))?;
        }
        config.rate_min = self.feedback_min.unwrap_or(config.rate_min);
        config.check().map_err(|error| ("feedback_min", error.to_string()))?;
        match (config.controller, self.feedback_rate) {
            ("fixed", Some(rate)) => config.rate_start = rate,
            ("fixed", None) => return Err(("feedback", "`fixed` needs a `feedback_rate`".into())),
            (_, Some(_)) => return Err(("feedback_rate", "only `fixed` has a rate".into())),
            _ => {}
        }
        config.check().map_err(|error| ("feedback_rate", error.to_string()))?;
        Ok(config)
    }
}

impl StreamTable {
    /// What it owns from the start.
    fn contract(&self) -> Result<Contract, &'static str> {
        let Self { class, rate, cycle, admission, access, latency, .. } = *self;
        let promise = Promise { class, rate, cycle, admission, access, latency };
        promise.contract(shares(self.reserve, self.limit, self.weight))
    }
}

/// A share in a file.
#[derive(Clone, Copy, Debug, Default)]
struct ShareText(Share);

impl<'de> Deserialize<'de> for ShareText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse()
            .map(Self)
            .map_err(|error| serde::de::Error::custom(format!("`{text}`: {error}")))
    }
}

impl Scenario {
    /// Reads a scenario file. Traces that it names are looked for beside it.
    ///
    /// # Errors
    /// If it can't be read or used.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScenarioError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// Checks a scenario's text; the path is for messages and for finding traces.
    ///
    /// # Errors
    /// If it can't be used.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        let file: File = toml::from_str(text).map_err(|source| ScenarioError::Syntax {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let value = |key: &str, reason: String| {
            Err(ScenarioError::Value { path: path.to_owned(), key: key.to_owned(), reason })
        };
        let (within, spec) = match (&file.device.preset, &file.device.model) {
            (Some(name), None) => ("device", &DeviceSpec::preset(name)),
            (None, Some(spec)) => ("device.model", spec),
            _ => {
                return value("device", "exactly one of `preset` and `model` is needed".to_owned());
            }
        };
        let model = match spec.check() {
            Ok(model) => model,
            Err(DeviceError { field, value: found, allowed }) => {
                return value(&format!("{within}.{field}"), format!("{found}; {allowed}"));
            }
        };
        if file.scenario.seeds.is_empty() {
            return value("scenario.seeds", "none; at least 1 is needed".to_owned());
        }
        if let Err((key, reason)) = file.scenario.bounds() {
            return value(&format!("scenario.{key}"), reason);
        }
        for StreamTable { name, .. } in &file.streams {
            if !(1..=NAME_MAX).contains(&name.len()) || name.contains(char::is_control) {
                let bytes = name.len();
                return value("stream.name", format!("{bytes} bytes; 1 to {NAME_MAX}, printable"));
            }
        }
        for change in &file.changes {
            if !file.streams.iter().any(|stream| stream.name == change.stream) {
                return value("change.stream", format!("`{}` is no stream's name", change.stream));
            }
        }
        let feedback = match file.scenario.feedback() {
            Ok(feedback) => feedback,
            Err((key, reason)) => return value(&format!("scenario.{key}"), reason),
        };
        let capacity_bytes = model.capacity_bytes();
        Ok(Self { path: path.to_owned(), file, model, capacity_bytes, feedback })
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
        let usual = cost::usual(&general.policy, self.file.device.queue_depth);
        let cost_model = general.cost_model.as_deref().unwrap_or(usual);
        let streams = self.file.streams.iter().map(|table| self.stream(table, seed));
        let mut changes: Vec<_> =
            self.file.changes.iter().filter_map(|change| self.change(change)).collect();
        changes.sort_by_key(|(at, stream, _)| (*at, *stream));
        Ok(Plan {
            device: self.model.build(seed),
            profile: self.profile(seed)?,
            policy: general.policy.clone(),
            cost_model: cost_model.to_owned(),
            cost: CostParameters {
                sequential: general.sequential_estimate,
                random: general.random_estimate,
                ..CostParameters::default()
            },
            nominal_iops: general.nominal_iops,
            feedback: self.feedback,
            reports: Vec::new(),
            depth: self.file.device.queue_depth,
            streams: streams.collect::<Result<_, _>>()?,
            changes,
            duration: general.duration,
            window: general.window,
            decisions: None,
        })
    }

    /// Measured on a copy of the device, or read from a file beside the scenario.
    fn profile(&self, seed: u64) -> Result<Option<Profile>, ScenarioError> {
        let Some(profile) = &self.file.device.profile else { return Ok(None) };
        let found = if profile == Path::new("measured") {
            simulated_profile::measure(self.model.build(seed), "measured", seed)
                .map_err(|error| error.to_string())
        } else {
            let beside = self.path.parent().unwrap_or(Path::new(""));
            simulated_profile::read(&beside.join(profile), self.capacity_bytes)
                .map_err(|error| format!("{}: {error}", profile.display()))
        };
        let found = found.map_err(|reason| ScenarioError::Value {
            path: self.path.clone(),
            key: "device.profile".to_owned(),
            reason,
        })?;
        Ok(Some(found.profile))
    }

    fn stream(&self, table: &StreamTable, seed: u64) -> Result<StreamPlan, ScenarioError> {
        let value = |key: &str, reason: String| ScenarioError::Value {
            path: self.path.clone(),
            key: format!("stream {}: {key}", table.name),
            reason,
        };
        let spec = match (&table.phases, &table.replay) {
            (Some(phases), None) => StreamSpec::Phases(phases.clone()),
            (None, Some(replay)) => {
                let beside = self.path.parent().unwrap_or(Path::new(""));
                let path = beside.join(&replay.path);
                StreamSpec::Replay(ReplaySpec { path, ..replay.clone() })
            }
            _ => {
                return Err(value(
                    "phases",
                    "exactly one of `phases` and `replay` is needed".to_owned(),
                ));
            }
        };
        let extents: Vec<Extent> = match &spec {
            StreamSpec::Phases(phases) => phases.iter().map(|phase| phase.spec.extent).collect(),
            StreamSpec::Replay(replay) => vec![replay.extent],
        };
        let capacity = self.capacity_bytes;
        let end = extents.iter().map(|extent| extent.end).max().unwrap_or(0);
        if table.base.checked_add(end).is_none_or(|end| end > capacity) {
            let reason =
                format!("base + end is {} + {end}; the device ends at {capacity}", table.base);
            return Err(value("extent", reason));
        }
        let traffic = Stream::new(&spec, seed, &table.name, Instant::ZERO);
        let traffic = traffic.map_err(|error| value("load", error.to_string()))?;
        let contract =
            table.contract().map_err(|key| value(key, "stated without a rate".to_owned()))?;
        let start = extents.iter().map(|extent| extent.start).min().unwrap_or(0);
        let extent = (start < end).then_some((table.base + start, table.base + end));
        Ok(StreamPlan { name: table.name.clone(), contract, base: table.base, extent, traffic })
    }

    fn change(&self, change: &ChangeTable) -> Option<(Instant, StreamId, Contract)> {
        let place = self.file.streams.iter().position(|stream| stream.name == change.stream)?;
        let stream = StreamId(u32::try_from(place).ok()?);
        // Its class and what that promises stay.
        let before = self.file.streams[place].contract().ok()?;
        let Contract { reserve, limit, weight, .. } =
            shares(change.reserve, change.limit, change.weight);
        let contract = Contract { reserve, limit, weight, ..before };
        Some((Instant::ZERO + change.at, stream, contract))
    }
}

fn shares(reserve: ShareText, limit: ShareText, weight: u32) -> Contract {
    Contract { limit: limit.0, weight, ..Contract::reserving(reserve.0) }
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    quantity::parse_duration(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    quantity::parse_size(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

fn second() -> Duration {
    Duration::from_secs(1)
}

fn one_seed() -> Vec<u64> {
    vec![1]
}

fn policy() -> String {
    Config::default().policy.to_owned()
}

fn sequential() -> Duration {
    CostParameters::default().sequential
}

fn random() -> Duration {
    CostParameters::default().random
}

fn nominal_iops() -> u32 {
    Config::default().nominal_iops
}

fn one() -> u32 {
    1
}

fn full() -> ShareText {
    ShareText(Share::FULL)
}

fn weight() -> u32 {
    100
}
