//! A virtual disk's table: its size, its contract, its place.

use std::path::PathBuf;

use disktime_core::{Access, Admission, Class, Contract, Duration, ParseShareError, Rate, Share};
use disktime_plan::goal::{Demand, Goal, GoalError};
use serde::Deserialize;

use super::quantity::{parse_rate, parse_span};
use super::{ConfigError, check_name, parse_size, share, value};
use crate::layout::Side;

/// The largest virtual disk in bytes.
const SIZE_MAX: u64 = 1 << 50;
/// The highest rate in bytes per second.
const RATE_MAX: u64 = 1_000_000_000_000;
/// Bytes of a request, where only a rate is said: of requests, and of bytes.
pub const REQUEST_IOPS: u64 = 4096;
/// See [`REQUEST_IOPS`].
pub const REQUEST_BANDWIDTH: u64 = disktime_core::admission::REQUEST;
/// The longest bound on response times.
const LATENCY_MAX: Duration = Duration::from_secs(60);

/// Classes by name.
pub(super) const CLASSES: [(&str, Class); 5] = [
    ("guaranteed-latency", Class::GuaranteedLatency),
    ("guaranteed-rate", Class::GuaranteedRate),
    ("soft-real-time", Class::SoftRealTime),
    ("best-effort", Class::BestEffort),
    ("background", Class::Background),
];

/// A virtual disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VdiskConfig {
    /// Its name, and its export's.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its contract.
    pub contract: Contract,
    /// At which end of the device it lies.
    pub zone: Option<Side>,
    /// Where its requests are recorded as a trace, if at all.
    pub record: Option<PathBuf>,
    /// What its reservation follows from once its device's profile is at hand; until then the
    /// contract reserves nothing.
    pub goal: Option<VdiskGoal>,
}

/// What a virtual disk's reservation shall be enough for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VdiskGoal {
    /// A rate of requests or bytes.
    pub goal: Goal,
    /// What they do.
    pub access: Access,
}

impl VdiskGoal {
    /// The key that states the rate, and what it says.
    #[must_use]
    pub fn said(&self) -> (&'static str, String) {
        match self.goal.demand {
            Some(Demand::Bytes(rate)) => ("bandwidth", format!("{rate}B/s")),
            Some(Demand::Requests(rate)) => ("iops", rate.to_string()),
            None => ("iops", "0".to_owned()),
        }
    }
}

impl VdiskConfig {
    /// What it asks that takes a profile of its device: the key and what it says.
    pub(super) fn needs_profile(&self) -> Option<(&'static str, String)> {
        if let Some(goal) = &self.goal {
            return Some(goal.said());
        }
        let checked = |rate: &Rate| rate.admission != Admission::BestEffort;
        let rate = self.contract.rate.filter(checked);
        let rate = rate.map(|rate| ("rate", format!("{}B/s", rate.bytes_per_second)));
        let latency =
            self.contract.latency.filter(|_| self.contract.class == Class::GuaranteedLatency);
        rate.or_else(|| latency.map(|bound| ("latency", format!("{bound:?}"))))
    }
}

/// `"deterministic"`, `"best-effort"`, or `{ statistical = "1%" }`: so many cycles may be missed.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AdmissionName {
    Deterministic,
    Statistical(String),
    BestEffort,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VdiskTable {
    pub(super) name: String,
    pub(super) device: String,
    size: String,
    zone: Option<String>,
    class: Option<String>,
    reserve: Option<String>,
    limit: Option<String>,
    weight: Option<u32>,
    rate: Option<String>,
    cycle: Option<String>,
    admission: Option<AdmissionName>,
    access: Option<String>,
    iops: Option<u64>,
    bandwidth: Option<String>,
    request: Option<String>,
    run: Option<u64>,
    latency: Option<String>,
    record: Option<PathBuf>,
}

impl VdiskTable {
    /// Whether its class is one with deadlines.
    pub(super) fn is_real_time(&self) -> bool {
        let deadlines = |class: &str| class.starts_with("guaranteed-") || class == "soft-real-time";
        self.class.as_deref().is_some_and(deadlines)
    }

    pub(super) fn check(&self) -> Result<VdiskConfig, ConfigError> {
        check_name("vdisk", &self.name)?;
        let size = parse_size(&self.size).map_err(|why| self.wrong("size", &self.size, why))?;
        if !(512..=SIZE_MAX).contains(&size) || !size.is_multiple_of(512) {
            let reason = format!("a size is a multiple of 512 bytes, up to {SIZE_MAX}");
            return Err(self.wrong("size", &self.size, reason));
        }
        let zone = self.parsed("zone", self.zone.as_deref(), str::parse)?;
        let (name, record) = (self.name.clone(), self.record.clone());
        let goal = self.goal()?;
        Ok(VdiskConfig { name, size, contract: self.contract()?, zone, record, goal })
    }

    fn contract(&self) -> Result<Contract, ConfigError> {
        let class = self.class.as_deref().unwrap_or("best-effort");
        let class = CLASSES.iter().find(|(name, _)| *name == class).ok_or_else(|| {
            let known = CLASSES.map(|(name, _)| name).join(", ");
            self.wrong("class", class, format!("no such class; there are: {known}"))
        })?;
        let class = class.1;
        let key = |key: &str| format!("vdisk {}: {key}", self.name);
        let reserve = share(&key("reserve"), self.reserve.as_deref(), Share::ZERO)?;
        let limit = share(&key("limit"), self.limit.as_deref(), Share::FULL)?;
        if limit == Share::ZERO {
            let reason = "above 0%: else the virtual disk could never run".to_owned();
            return Err(self.wrong("limit", "0%", reason));
        }
        if reserve > limit {
            let reason = format!("at most the limit, {limit}");
            return Err(self.wrong("reserve", &reserve.to_string(), reason));
        }
        let weight = self.weight.unwrap_or(100);
        if !(1..=Contract::WEIGHT_MAX).contains(&weight) {
            let reason = format!("a weight is 1 to {}", Contract::WEIGHT_MAX);
            return Err(self.wrong("weight", &weight.to_string(), reason));
        }
        let (rate, latency) = (self.rate(class)?, self.latency(class, reserve)?);
        Ok(Contract { reserve, limit, weight, class, rate, latency })
    }

    /// What the reservation is to be enough for.
    fn goal(&self) -> Result<Option<VdiskGoal>, ConfigError> {
        let (iops, run) = (self.iops.map(|it| it.to_string()), self.run.map(|it| it.to_string()));
        let (key, text, demand) = match (self.iops, &iops, &self.bandwidth) {
            (Some(_), Some(text), Some(_)) => {
                let reason = "either this or `bandwidth`: leave one of both out".to_owned();
                return Err(self.wrong("iops", text, reason));
            }
            (Some(rate), Some(text), None) => ("iops", text, Demand::Requests(rate)),
            (_, _, Some(text)) => {
                let rate = parse_rate(text).map_err(|why| self.wrong("bandwidth", text, why))?;
                ("bandwidth", text, Demand::Bytes(rate))
            }
            _ => {
                let mut rest =
                    [("request", self.request.as_ref()), ("run", run.as_ref())].into_iter();
                return rest.find_map(|(key, text)| Some((key, text?))).map_or(Ok(None), |stray| {
                    let reason = "only beside `iops` or `bandwidth`: state one, or leave this out";
                    Err(self.wrong(stray.0, stray.1, reason.to_owned()))
                });
            }
        };
        if let Some(reserve) = &self.reserve {
            let reason = format!("it follows from `{key}`: leave one of both out");
            return Err(self.wrong("reserve", reserve, reason));
        }
        if self.rate.is_some() || self.class.as_deref() == Some("guaranteed-rate") {
            let reason = "class `guaranteed-rate` has its `rate`: leave this out".to_owned();
            return Err(self.wrong(key, text, reason));
        }
        let request = self.parsed("request", self.request.as_deref(), parse_size)?;
        let usual = if self.iops.is_some() { REQUEST_IOPS } else { REQUEST_BANDWIDTH };
        let request = request.unwrap_or(usual);
        let goal = Goal { demand: Some(demand), bound: None, request, run: self.run.unwrap_or(1) };
        goal.check().map_err(|error| {
            let (key, text) = match error {
                GoalError::Request(_) => ("request", self.request.clone()),
                GoalError::Run(_) => ("run", run.clone()),
                _ => (key, Some(text.clone())),
            };
            self.wrong(key, &text.unwrap_or_default(), error.to_string())
        })?;
        let access = self.parsed("access", self.access.as_deref(), access)?;
        Ok(Some(VdiskGoal { goal, access: access.unwrap_or(Access::Read) }))
    }

    /// The rate that is to be kept, which only one class has.
    fn rate(&self, class: Class) -> Result<Option<Rate>, ConfigError> {
        let guaranteed = class == Class::GuaranteedRate;
        let Some(text) = &self.rate else {
            if guaranteed {
                let reason = "state the rate to be kept, like `rate = \"8MB/s\"`".to_owned();
                return Err(self.wrong("class", "guaranteed-rate", reason));
            }
            let admission = self.admission.as_ref().map(|_| "…");
            let rest = [("cycle", self.cycle.as_deref()), ("admission", admission)];
            let goal = self.iops.is_some() || self.bandwidth.is_some();
            let access = self.access.as_deref().filter(|_| !goal);
            let mut rest = rest.into_iter().chain([("access", access)]);
            return rest.find_map(|(key, text)| Some((key, text?))).map_or(Ok(None), |stray| {
                let reason = "only beside a `rate`: state one, or leave this out".to_owned();
                Err(self.wrong(stray.0, stray.1, reason))
            });
        };
        if !guaranteed {
            let reason = "only with `class = \"guaranteed-rate\"`: set that".to_owned();
            return Err(self.wrong("rate", text, reason));
        }
        if let Some(reserve) = &self.reserve {
            let reason = "it follows from the rate: leave it out".to_owned();
            return Err(self.wrong("reserve", reserve, reason));
        }
        let bytes_per_second = parse_rate(text).map_err(|why| self.wrong("rate", text, why))?;
        if !(1..=RATE_MAX).contains(&bytes_per_second) {
            return Err(self.wrong("rate", text, "a rate is 1B/s to 1TB/s".to_owned()));
        }
        let cycle = self.parsed("cycle", self.cycle.as_deref(), cycle)?;
        let admission = self.admission.as_ref().map(AdmissionName::parsed).transpose();
        let admission = admission.map_err(|(text, why)| self.wrong("admission", text, why))?;
        let access = self.parsed("access", self.access.as_deref(), access)?;
        let (admission, access) = (admission.unwrap_or_default(), access.unwrap_or_default());
        Ok(Some(Rate { bytes_per_second, cycle, admission, access }))
    }

    /// The bound that is to be kept: what a class promises, or what policy `disktime` turns to
    /// while the virtual disk is owed time.
    fn latency(&self, class: Class, reserve: Share) -> Result<Option<Duration>, ConfigError> {
        let guaranteed = class == Class::GuaranteedLatency;
        if guaranteed && self.latency.is_none() {
            let reason = "state the bound to be kept, like `latency = \"60ms\"`".to_owned();
            return Err(self.wrong("class", "guaranteed-latency", reason));
        }
        let follows = self.iops.is_some() || self.bandwidth.is_some();
        if guaranteed && reserve == Share::ZERO && !follows {
            let reason = "above 0% with a latency bound: it is the time that goes first".to_owned();
            return Err(self.wrong("reserve", "0%", reason));
        }
        let Some(text) = &self.latency else { return Ok(None) };
        if matches!(class, Class::GuaranteedRate | Class::Background) {
            let reason = "only with class `guaranteed-latency`, `soft-real-time` or `best-effort`";
            return Err(self.wrong("latency", text, reason.to_owned()));
        }
        self.parsed("latency", Some(text), latency)
    }

    fn parsed<T>(
        &self,
        key: &str,
        text: Option<&str>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        text.map(|text| parse(text).map_err(|why| self.wrong(key, text, why))).transpose()
    }

    fn wrong(&self, key: &str, text: &str, reason: String) -> ConfigError {
        value(&format!("vdisk {}: {key}", self.name), text, reason)
    }
}

fn cycle(text: &str) -> Result<Duration, String> {
    let (min, max) = (Rate::CYCLE_MIN, Rate::CYCLE_MAX);
    let fits = |cycle: &Duration| (min..=max).contains(cycle);
    let why = || format!("a cycle is {min:?} to {max:?}; leave it out to have one chosen");
    parse_span(text).and_then(|cycle| Some(cycle).filter(fits).ok_or_else(why))
}

fn latency(text: &str) -> Result<Duration, String> {
    let fits = |bound: &Duration| *bound > Duration::ZERO && *bound <= LATENCY_MAX;
    let why = || format!("a latency bound is above 0s and at most {LATENCY_MAX:?}");
    parse_span(text).and_then(|bound| Some(bound).filter(fits).ok_or_else(why))
}

fn access(text: &str) -> Result<Access, String> {
    match text {
        "read" => Ok(Access::Read),
        "write" => Ok(Access::Write),
        "both" => Ok(Access::Both),
        _ => Err("an access is `read`, `write` or `both`".to_owned()),
    }
}

impl AdmissionName {
    fn parsed(&self) -> Result<Admission, (&str, String)> {
        let Self::Statistical(text) = self else {
            let firm = matches!(self, Self::Deterministic);
            return Ok(if firm { Admission::Deterministic } else { Admission::BestEffort });
        };
        let miss: Share =
            text.parse().map_err(|error: ParseShareError| (text.as_str(), error.to_string()))?;
        if miss == Share::ZERO || miss == Share::FULL {
            let reason = "above 0% and below 100% of cycles may be missed: ask for \
                          `deterministic` or `best-effort` instead";
            return Err((text, reason.to_owned()));
        }
        Ok(Admission::Statistical { miss })
    }
}
