//! A virtual disk's table: its size, its contract, its place.

use std::path::PathBuf;

use disktime_config::quantity::{parse_rate, parse_size};
use disktime_config::{Named, ValueError, access};
use disktime_core::{Access, Admission, Class, Contract, Rate};
use disktime_plan::goal::{Demand, Goal, GoalError};

use super::{ConfigError, check_name};
use crate::layout::Side;

/// The largest virtual disk in bytes.
const SIZE_MAX: u64 = 1 << 50;
/// Bytes of a request, where only a rate is said: of requests, and of bytes.
pub const REQUEST_IOPS: u64 = 4096;
/// See [`REQUEST_IOPS`].
pub const REQUEST_BANDWIDTH: u64 = disktime_core::admission::REQUEST;

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
    /// The goal that its reservation follows from once its device's profile is at hand. Until then the
    /// contract reserves nothing.
    pub goal: Option<VdiskGoal>,
}

/// The load that a virtual disk's reservation shall be enough for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VdiskGoal {
    /// A rate of requests or bytes.
    pub goal: Goal,
    /// The operations of its requests.
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
    /// The first key that needs a profile of the device, and its value.
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

disktime_config::contract_table! {
    /// The table `[[vdisk]]`.
    pub(super) struct VdiskTable {
        pub(super) name: String,
        pub(super) device: String,
        size: String,
        zone: Option<String>,
        iops: Option<u64>,
        bandwidth: Option<String>,
        request: Option<String>,
        run: Option<u64>,
        record: Option<PathBuf>,
    }
}

impl VdiskTable {
    /// Whether its class is one with deadlines.
    pub(super) fn is_real_time(&self) -> bool {
        self.contract().is_real_time()
    }

    pub(super) fn check(&self) -> Result<VdiskConfig, ConfigError> {
        check_name("vdisk", &self.name)?;
        let of = Named::new("vdisk", &self.name);
        let size = parse_size(&self.size).map_err(|why| of.wrong("size", &self.size, why))?;
        if !(512..=SIZE_MAX).contains(&size) || !size.is_multiple_of(512) {
            let reason = format!("a size is a multiple of 512 bytes, up to {SIZE_MAX}");
            return Err(of.wrong("size", &self.size, reason).into());
        }
        let zone = of.read("zone", self.zone.as_deref(), str::parse)?;
        let (name, record) = (self.name.clone(), self.record.clone());
        let goal = self.goal(&of)?;
        let contract = self.contract().check(&of, goal.is_some())?;
        Ok(VdiskConfig { name, size, contract, zone, record, goal })
    }

    /// The load that the reservation is to be enough for, if keys state one.
    fn goal(&self, of: &Named) -> Result<Option<VdiskGoal>, ValueError> {
        let (iops, run) = (self.iops.map(|it| it.to_string()), self.run.map(|it| it.to_string()));
        let (key, text, demand) = match (self.iops, &iops, &self.bandwidth) {
            (Some(_), Some(text), Some(_)) => {
                let reason = "either this or `bandwidth`: leave one of both out";
                return Err(of.wrong("iops", text, reason));
            }
            (Some(rate), Some(text), None) => ("iops", text, Demand::Requests(rate)),
            (_, _, Some(text)) => {
                let rate = parse_rate(text).map_err(|why| of.wrong("bandwidth", text, why))?;
                ("bandwidth", text, Demand::Bytes(rate))
            }
            _ => {
                let mut rest =
                    [("request", self.request.as_ref()), ("run", run.as_ref())].into_iter();
                return rest.find_map(|(key, text)| Some((key, text?))).map_or(Ok(None), |stray| {
                    let reason = "only beside `iops` or `bandwidth`: state one, or leave this out";
                    Err(of.wrong(stray.0, stray.1, reason))
                });
            }
        };
        if let Some(reserve) = &self.reserve {
            let reason = format!("it follows from `{key}`: leave one of both out");
            return Err(of.wrong("reserve", reserve, reason));
        }
        if self.rate.is_some() || self.class.as_deref() == Some("guaranteed-rate") {
            let reason = "class `guaranteed-rate` has its `rate`: leave this out";
            return Err(of.wrong(key, text, reason));
        }
        let request = of.read("request", self.request.as_deref(), parse_size)?;
        let usual = if self.iops.is_some() { REQUEST_IOPS } else { REQUEST_BANDWIDTH };
        let request = request.unwrap_or(usual);
        let goal = Goal { demand: Some(demand), bound: None, request, run: self.run.unwrap_or(1) };
        goal.check().map_err(|error| {
            let (key, text) = match error {
                GoalError::Request(_) => ("request", self.request.clone()),
                GoalError::Run(_) => ("run", run.clone()),
                _ => (key, Some(text.clone())),
            };
            of.wrong(key, text.unwrap_or_default(), error.to_string())
        })?;
        let access = of.read("access", self.access.as_deref(), access)?;
        Ok(Some(VdiskGoal { goal, access: access.unwrap_or(Access::Read) }))
    }
}
