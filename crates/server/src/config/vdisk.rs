//! A virtual disk's table: its size, its contract, its place.

use std::path::{Path, PathBuf};

use disktime_config::quantity::{parse_rate, parse_size, size_text};
use disktime_config::{NOT_PROMISED, Named, ValueError, access};
use disktime_core::{Access, Admission, Class, Contract, Rate};
use disktime_plan::goal::{Demand, Goal, GoalError};
use rustls::pki_types::ServerName;

use super::{ConfigError, check_name};
use crate::bitmap::{BITMAPS_MAX, BLOCKS_MAX, GRANULARITIES, GRANULARITY};
use crate::layout::Side;
use crate::tls::TlsFiles;
use crate::vdisk_name::{NAME_MAX, is_name};

/// The largest virtual disk in bytes.
const SIZE_MAX: u64 = 1 << 50;
/// The smallest one. One that is no multiple of 512 has bytes at its end that clients which count in
/// sectors (the kernel's, say) don't see.
const SIZE_MIN: u64 = 512;
/// The longest description in bytes.
const DESCRIPTION_MAX: usize = 1000;
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
    /// The virtual disk of whose contract its own is a part.
    pub parent: Option<String>,
    /// At which end of the device it lies.
    pub zone: Option<Side>,
    /// Where its requests are recorded as a trace, if at all.
    pub record: Option<PathBuf>,
    /// The goal that its reservation follows from once its device's profile is at hand. Until then the
    /// contract reserves nothing.
    pub goal: Option<VdiskGoal>,
    /// How clients see it.
    pub export: ExportConfig,
    /// Bitmaps of blocks that have changed.
    pub bitmaps: BitmapsConfig,
}

/// The bitmaps of a virtual disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitmapsConfig {
    /// Their names.
    pub names: Vec<String>,
    /// Bytes of a block.
    pub granularity: u64,
}

/// How clients see a virtual disk.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ExportConfig {
    /// It is what a client gets that names no export.
    pub is_default: bool,
    /// Clients can't change it.
    pub read_only: bool,
    /// Text for a person; else its device's name.
    pub description: Option<String>,
    /// Names of certificates, one of which a client must show; else any client may come.
    pub clients: Vec<String>,
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
        parent: Option<String>,
        iops: Option<u64>,
        bandwidth: Option<String>,
        request: Option<String>,
        run: Option<u64>,
        record: Option<PathBuf>,
        default: Option<bool>,
        read_only: Option<bool>,
        description: Option<String>,
        clients: Option<Vec<String>>,
        bitmaps: Option<Vec<String>>,
        bitmap_granularity: Option<String>,
    }
}

/// Errors of virtual disks beside each other and beside the server: two defaults, names of clients that
/// can show no certificate, or bitmaps without a place to be kept.
pub(super) fn check_together(
    tables: &[VdiskTable],
    tls: Option<&TlsFiles>,
    state: Option<&Path>,
) -> Vec<ConfigError> {
    let mut wrong: Vec<ConfigError> = Vec::new();
    let mut defaults = tables.iter().filter(|table| table.default == Some(true));
    if let (Some(first), Some(second)) = (defaults.next(), defaults.next()) {
        let reason = format!("vdisk {} is the default already: there is one at most", first.name);
        wrong.push(Named::new("vdisk", &second.name).wrong("default", "true", reason).into());
    }
    let shows = tls.is_some_and(|tls| tls.client_ca.is_some());
    if let Some(table) = tables.iter().find(|table| table.clients.is_some() && !shows) {
        let names = table.clients.iter().flatten().cloned().collect::<Vec<_>>().join(", ");
        let reason = "clients show certificates only if `[tls]` names their authority, `client_ca`";
        wrong.push(Named::new("vdisk", &table.name).wrong("clients", &names, reason).into());
    }
    let has = |table: &&VdiskTable| table.bitmaps.as_ref().is_some_and(|it| !it.is_empty());
    if let (Some(table), None) = (tables.iter().find(has), state) {
        let names = table.bitmaps.iter().flatten().cloned().collect::<Vec<_>>().join(", ");
        let reason = "bitmaps are kept in the directory that `state` in [server] names: name one";
        wrong.push(Named::new("vdisk", &table.name).wrong("bitmaps", &names, reason).into());
    }
    wrong
}

impl VdiskTable {
    /// Whether its class is one with deadlines.
    pub(super) fn is_real_time(&self) -> bool {
        self.contract().is_real_time()
    }

    /// Its class as it is written.
    pub(super) fn class_text(&self) -> &str {
        self.class.as_deref().unwrap_or_default()
    }

    pub(super) fn check(&self) -> Result<VdiskConfig, ConfigError> {
        check_name("vdisk", &self.name)?;
        let of = Named::new("vdisk", &self.name);
        let size = parse_size(&self.size).map_err(|why| of.wrong("size", &self.size, why))?;
        if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
            let reason = format!("a size is {SIZE_MIN} to {SIZE_MAX} bytes");
            return Err(of.wrong("size", &self.size, reason).into());
        }
        let zone = of.read("zone", self.zone.as_deref(), str::parse)?;
        let (name, record) = (self.name.clone(), self.record.clone());
        let goal = self.goal(&of)?;
        let contract = self.contract().check(&of, goal.is_some())?;
        let export = self.export(&of)?;
        let bitmaps = self.bitmaps(&of, size)?;
        let parent = self.parent.clone();
        if let (Some(parent), Some(_)) = (&parent, &goal) {
            let reason = "a goal makes a reservation of its own: state `reserve` in its place";
            return Err(of.wrong("parent", parent, reason).into());
        }
        Ok(VdiskConfig { name, size, contract, parent, zone, record, goal, export, bitmaps })
    }

    fn bitmaps(&self, of: &Named, size: u64) -> Result<BitmapsConfig, ValueError> {
        let names = self.bitmaps.clone().unwrap_or_default();
        if names.len() > BITMAPS_MAX {
            let reason = format!("at most {BITMAPS_MAX} bitmaps");
            return Err(of.wrong("bitmaps", names.join(", "), reason));
        }
        for (at, name) in names.iter().enumerate() {
            if !is_name(name) {
                let reason = format!("1 to {NAME_MAX} letters, digits, `-`, `_` and `.`");
                return Err(of.wrong("bitmaps", name, reason));
            }
            if names[..at].contains(name) {
                return Err(of.wrong("bitmaps", name, "the name of another one too"));
            }
        }
        let text = self.bitmap_granularity.as_deref();
        let granularity = of.read("bitmap_granularity", text, parse_size)?.unwrap_or(GRANULARITY);
        let [least, most] = GRANULARITIES;
        if !granularity.is_power_of_two() || !(least..=most).contains(&granularity) {
            let reason = format!("a power of two from {} to {}", size_text(least), size_text(most));
            return Err(of.wrong("bitmap_granularity", text.unwrap_or_default(), reason));
        }
        if !names.is_empty() && size.div_ceil(granularity) > BLOCKS_MAX {
            let least = size.div_ceil(BLOCKS_MAX).next_power_of_two();
            let reason = format!(
                "a bitmap has at most {BLOCKS_MAX} blocks: for {} at least {}",
                size_text(size),
                size_text(least)
            );
            return Err(of.wrong("bitmap_granularity", size_text(granularity), reason));
        }
        Ok(BitmapsConfig { names, granularity })
    }

    fn export(&self, of: &Named) -> Result<ExportConfig, ValueError> {
        if let Some(text) = &self.description
            && (text.len() > DESCRIPTION_MAX || text.contains('\0'))
        {
            let reason = format!("a description has at most {DESCRIPTION_MAX} bytes and no NUL");
            return Err(of.wrong("description", text, reason));
        }
        let clients = self.clients.clone().unwrap_or_default();
        if clients.is_empty() && self.clients.is_some() {
            let reason = "name at least one, or leave it out to let any client come";
            return Err(of.wrong("clients", "[]", reason));
        }
        let no_name = |name: &&String| ServerName::try_from(name.as_str()).is_err();
        if let Some(name) = clients.iter().find(no_name) {
            let reason = "a name of a certificate is like `backup.example.org`";
            return Err(of.wrong("clients", name, reason));
        }
        let (is_default, read_only) = (self.default == Some(true), self.read_only == Some(true));
        Ok(ExportConfig { is_default, read_only, description: self.description.clone(), clients })
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
            let reason = format!(
                "it follows from `{key}`: leave one of both out; `vdisk set --reserve ''` takes it away"
            );
            return Err(of.wrong("reserve", reserve, reason));
        }
        if self.rate.is_some() || self.class.as_deref() == Some("guaranteed-rate") {
            let reason = "class `guaranteed-rate` has its `rate`: leave this out";
            return Err(of.wrong(key, text, reason));
        }
        if self.class.as_deref() == Some("background") {
            return Err(of.wrong(key, text, NOT_PROMISED));
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
