//! A device's table, and what only shows with all its virtual disks at hand.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use disktime_core::feedback::{self, FeedbackConfig, Token};
use disktime_core::policy::{self, Currency, PolicyEntry};
use disktime_core::{Config as Engine, Duration, Share};
use disktime_model::preset;
use disktime_profiler::Speeds;
use serde::Deserialize;

use super::quantity::parse_span;
use super::{ConfigError, VdiskConfig, check_name, parse_size, share, value};
use crate::backend::{BackEndKind, check_chunk};
use crate::emulate::Emulate;
use crate::layout::{Extent, LayoutError, Wanted, lay_out};
use crate::shard::Depths;
use disktime_profiler::DeviceProfile;

/// All virtual disks of one memory back end together, in bytes.
const MEMORY_MAX: u64 = 1 << 40;

/// The shortest and the longest that a horizon may be.
const HORIZONS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);
/// What a device may be taken for, in requests per second; the core's bounds.
const NOMINAL_IOPS: RangeInclusive<u32> = 1..=1_000_000_000;
/// The controller that has a rate of its own.
const FIXED: &str = "fixed";
/// The least and the most that a device's response may be to shrink depths.
const LATENCIES: RangeInclusive<Duration> = Duration::from_micros(10)..=Duration::from_secs(10);
/// The cost model that goes on from what a quick profile has found.
const LEARNER: &str = "learned";
/// Pieces at a device at once.
const DEPTH_MAX: u32 = 1024;
/// Connections to one server.
const CONNECTIONS_MAX: u32 = 16;
/// What moving extents between tiers may take at most, unless `promotion` says otherwise: 10 %.
const PROMOTION: Share = Share::from_percent(10).expect("a part of the whole");

/// Pieces at the device at once where nobody says so and nothing can be found out.
const DEPTH_UNKNOWN: u32 = 32;

/// How much longer pieces may take than at the depth at which the device is fastest, in thousandths:
/// for the last tenth depths double, and who asks for little waits behind all of it.
const SLOWER_PERMILLE: u64 = 100;

/// How many pieces a device has at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueDepth {
    /// So many.
    Is(u32),
    /// As few as make it fast, within a tenth, and at most so many.
    Auto(u32),
}

impl QueueDepth {
    /// With no other bound than the engine's.
    pub const AUTO: Self = Self::Auto(DEPTH_MAX);

    /// The most it can come to.
    #[must_use]
    pub fn most(self) -> u32 {
        match self {
            Self::Is(depth) | Self::Auto(depth) => depth,
        }
    }

    /// What it is on a device that is so fast; on one of which that is not known 32, or the most.
    #[must_use]
    pub fn on(self, speeds: Option<&Speeds>) -> u32 {
        match (self, speeds) {
            (Self::Is(depth), _) => depth,
            (Self::Auto(most), None) => most.min(DEPTH_UNKNOWN),
            (Self::Auto(most), Some(speeds)) => {
                let depths = speeds.works.iter().map(|work| work.shallowest(SLOWER_PERMILLE));
                depths.max().unwrap_or(1).clamp(1, most)
            }
        }
    }

    /// What it is on a device of that profile: one without speeds is of one piece at a time.
    #[must_use]
    pub fn by(self, profile: &DeviceProfile) -> u32 {
        match self {
            Self::Auto(_) if profile.speeds.is_none() => 1,
            _ => self.on(profile.speeds.as_ref()),
        }
    }
}

/// A device and its virtual disks.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Its name.
    pub name: String,
    /// What stores its bytes.
    pub back_end: BackEndKind,
    /// Whether a directory of raw files is made where nothing is and nothing was.
    pub create: bool,
    /// The timing model in front of it.
    pub emulate: Option<Emulate>,
    /// Of tiers, the most disk time that moving extents between them may take, as a share; zero if
    /// none are moved.
    pub promotion: Share,
    /// Of tiers, whether everything is to go back to the slow one.
    pub empties_fast: bool,
    /// A file that says what it does, as `disktime device profile` saves it.
    pub profile: Option<PathBuf>,
    /// A name in the core's registry of policies.
    pub policy: String,
    /// Requests per second that the whole device is taken for, by policies that count requests.
    pub nominal_iops: u32,
    /// A name in the core's registry of cost models.
    pub cost_model: String,
    /// The longest swing of a stream's service about its due, for policies that have horizons; else
    /// the policy's own.
    pub horizon: Option<Duration>,
    /// How best effort is shaped for soft real time that misses deadlines.
    pub feedback: FeedbackConfig<'static>,
    /// Pieces at the device at once.
    pub queue_depth: QueueDepth,
    /// The response of the device above which a virtual disk's part of these shrinks, if it shall.
    pub depth_latency: Option<Duration>,
    /// Share kept free by admission.
    pub headroom: Share,
    /// Whether to look at it for a moment before serving, to know what requests cost about.
    pub quick_profile: bool,
    /// Its virtual disks.
    pub vdisks: Vec<VdiskConfig>,
}

impl DeviceConfig {
    /// Where its virtual disks lie when it has `room` for them and these are placed already.
    ///
    /// # Errors
    /// If they don't fit, or are not as recorded.
    pub fn lay_out(&self, room: u64, recorded: &[Extent]) -> Result<Vec<Extent>, LayoutError> {
        let wanted = self.vdisks.iter().map(|vdisk| {
            let VdiskConfig { name, size, zone, .. } = vdisk;
            Wanted { name, size: *size, zone: *zone }
        });
        lay_out(room, recorded, &wanted.collect::<Vec<_>>())
    }

    /// Its virtual disks' names, for the log.
    pub(crate) fn vdisk_names(&self) -> String {
        let names = self.vdisks.iter().map(|vdisk| &*vdisk.name);
        names.collect::<Vec<_>>().join(", ")
    }

    /// The emulated device's size in bytes.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        self.emulate.map(Emulate::capacity_bytes)
    }

    /// Whether extents are moved between tiers.
    #[must_use]
    pub fn promotes(&self) -> bool {
        matches!(self.back_end, BackEndKind::Tiered { .. }) && self.promotion != Share::ZERO
    }

    /// Whether the shard's own thread does the device's work, a piece at a time, and nothing else
    /// meanwhile.
    pub fn works_on_the_shard(&self) -> bool {
        self.back_end == BackEndKind::Memory && self.emulate.is_none()
    }

    /// Laws for its virtual disks' parts of so many pieces at the device, if they go by latency.
    pub(crate) fn depths(&self, depth: u32) -> Option<Depths> {
        let weights = self.vdisks.iter().map(|vdisk| vdisk.contract.weight);
        Some(Depths::new(self.depth_latency?, depth, weights))
    }

    /// Room for virtual disks as far as the configuration alone says.
    pub(crate) fn room(&self) -> u64 {
        let memory = self.back_end == BackEndKind::Memory;
        self.capacity().unwrap_or(if memory { MEMORY_MAX } else { u64::MAX })
    }

    /// Why a zone means nothing here, where it does not; `size` is the device's, if it has one.
    pub(crate) fn check_zones(&self, size: Option<u64>) -> Result<(), ConfigError> {
        let zoned = || self.vdisks.iter().find_map(|vdisk| vdisk.zone.map(|zone| (vdisk, zone)));
        if let (None, Some((vdisk, zone))) = (size, zoned()) {
            let reason = format!(
                "device {} has no start and end: `emulate` one, or give a file or a block device \
                 as its back end",
                self.name
            );
            return Err(value(&format!("vdisk {}: zone", vdisk.name), &zone.to_string(), reason));
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let name = &self.name;
        let reserved = self.vdisks.iter().map(|vdisk| u64::from(vdisk.contract.reserve.ppm()));
        let reserved = reserved.sum::<u64>();
        let available = Share::PARTS - self.headroom.ppm();
        if reserved > u64::from(available) {
            let percent = |ppm: u64| format!("{}.{:04}%", ppm / 10_000, ppm % 10_000);
            return Err(ConfigError::Whole(format!(
                "device {name}: reservations come to {}, {} may be reserved: lower one, or the headroom",
                percent(reserved),
                Share::from_ppm(available).expect("a part of the whole"),
            )));
        }
        let mut promised = self.vdisks.iter().filter(|_| self.profile.is_none());
        let promised = promised.find_map(|vdisk| Some((vdisk, vdisk.needs_profile()?)));
        if let Some((vdisk, (key, text))) = promised {
            let reason = format!(
                "device {name} has no `profile` to reckon with: make one with `disktime device \
                 profile` and name its file there{}",
                if key == "rate" { ", or set `admission = \"best-effort\"`" } else { "" }
            );
            return Err(value(&format!("vdisk {}: {key}", vdisk.name), &text, reason));
        }
        // A file's or block device's own size, and what is recorded of it, show when it is opened.
        if self.back_end == BackEndKind::Memory {
            self.check_zones(self.capacity())?;
        }
        let whole = |error: LayoutError| ConfigError::Whole(format!("device {name}: {error}"));
        self.lay_out(self.room(), &[]).map(drop).map_err(whole)
    }
}

/// What `queue_depth` says.
#[derive(Deserialize)]
#[serde(untagged)]
enum DepthText {
    Count(i64),
    Word(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceTable {
    pub(super) name: String,
    back_end: String,
    create: Option<bool>,
    chunk: Option<String>,
    connections: Option<u32>,
    promotion: Option<String>,
    empty_fast: Option<bool>,
    emulate: Option<String>,
    profile: Option<PathBuf>,
    policy: Option<String>,
    slack: Option<String>,
    nominal_iops: Option<u32>,
    cost_model: Option<String>,
    horizon: Option<String>,
    feedback: Option<String>,
    feedback_token: Option<String>,
    feedback_min: Option<u32>,
    feedback_rate: Option<u32>,
    queue_depth: Option<DepthText>,
    depth_latency: Option<String>,
    headroom: Option<String>,
    quick_profile: Option<bool>,
}

impl DeviceTable {
    /// The device, without its virtual disks; `real_time` says whether some of them have deadlines.
    pub(super) fn check(&self, real_time: bool) -> Result<DeviceConfig, ConfigError> {
        let key = |key: &str| format!("device {}: {key}", self.name);
        check_name("device", &self.name)?;
        let back_end = self.check_back_end()?;
        let tiers = matches!(back_end, BackEndKind::Tiered { .. });
        let emulated = |text| emulate(text, tiers).map_err(|why| value(&key("emulate"), text, why));
        let emulate = self.emulate.as_deref().map(emulated).transpose()?;
        let promotion = share(&key("promotion"), self.promotion.as_deref(), PROMOTION)?;
        if let Some(text) = self.promotion.as_deref().filter(|_| !tiers) {
            let why = "only a `tiered:` back end promotes extents: leave it out";
            return Err(value(&key("promotion"), text, why.to_owned()));
        }
        let empties_fast = self.empty_fast.unwrap_or(false);
        if let (true, Some(why)) = (empties_fast, cannot_empty(tiers, promotion)) {
            return Err(value(&key("empty_fast"), "true", why.to_owned()));
        }
        let policy = self.policy.clone().unwrap_or_else(|| Engine::default().policy.to_owned());
        let entry = policy::find(&policy).ok_or_else(|| {
            let error = disktime_core::ConfigError::UnknownPolicy(policy.clone());
            value(&key("policy"), &policy, error.to_string())
        })?;
        let nominal_iops = self.check_nominal_iops(entry)?;
        let policy = match self.slack.as_deref() {
            None => policy,
            Some(text) => {
                slack(text, &policy).map_err(|why| value(&key("slack"), text, why))?.to_owned()
            }
        };
        let horizon = self
            .horizon
            .as_deref()
            .map(|text| horizon(text).map_err(|why| value(&key("horizon"), text, why)));
        let horizon = horizon.transpose()?;
        // Memory has no time of its own to be found out.
        let timed = back_end != BackEndKind::Memory || emulate.is_some();
        let queue_depth = self.check_depth(emulate, &policy, timed && !real_time)?;
        let depth_latency = self.check_depth_latency(queue_depth)?;
        let usual = disktime_core::cost::usual(&policy, queue_depth.most());
        let cost_model = self.cost_model.clone().unwrap_or_else(|| usual.to_owned());
        if disktime_core::cost::find(&cost_model).is_none() {
            let error = disktime_core::ConfigError::UnknownCostModel(cost_model.clone());
            return Err(value(&key("cost_model"), &cost_model, error.to_string()));
        }
        let headroom = share(&key("headroom"), self.headroom.as_deref(), Share::ZERO)?;
        if let (Some(true), Some(profile)) = (self.quick_profile, &self.profile) {
            let reason =
                format!("profile = \"{}\" says more: leave one of both out", profile.display());
            return Err(value(&key("quick_profile"), "true", reason));
        }
        let looks = self.profile.is_none() && timed && cost_model == LEARNER;
        Ok(DeviceConfig {
            name: self.name.clone(),
            quick_profile: self.quick_profile.unwrap_or(looks),
            back_end,
            create: self.create.unwrap_or(false),
            emulate,
            promotion,
            empties_fast,
            profile: self.profile.clone(),
            policy,
            nominal_iops,
            cost_model,
            horizon,
            feedback: self.check_feedback()?,
            queue_depth,
            depth_latency,
            headroom,
            vdisks: Vec::new(),
        })
    }

    /// What a policy that counts requests takes the device for.
    fn check_nominal_iops(&self, policy: &PolicyEntry) -> Result<u32, ConfigError> {
        let Some(count) = self.nominal_iops else { return Ok(Engine::default().nominal_iops) };
        let key = format!("device {}: nominal_iops", self.name);
        let bad = |why| Err(value(&key, &count.to_string(), why));
        let counts = |entry: &&PolicyEntry| entry.currency == Currency::Requests;
        if !counts(&policy) {
            let counting = policy::REGISTRY.iter().filter(counts);
            let counting = counting.map(|entry| entry.name).collect::<Vec<_>>().join(", ");
            let name = policy.name;
            return bad(format!(
                "policy {name} counts disk time, only {counting} count requests: leave it out"
            ));
        }
        if !NOMINAL_IOPS.contains(&count) {
            let (min, max) = (NOMINAL_IOPS.start(), NOMINAL_IOPS.end());
            return bad(format!("a device does {min} to {max} requests a second"));
        }
        Ok(count)
    }

    /// How many pieces at the device. It is found out where costs are learned, of a device that has
    /// time and no virtual disk with deadlines: those are kept best one piece at a time.
    fn check_depth(
        &self,
        emulate: Option<Emulate>,
        policy: &str,
        open: bool,
    ) -> Result<QueueDepth, ConfigError> {
        let most = emulate.map_or(DEPTH_MAX, Emulate::queue_depth);
        let bad = |text: &str| {
            let why = format!("this device takes 1 to {most}, or `auto`");
            Err(value(&format!("device {}: queue_depth", self.name), text, why))
        };
        match &self.queue_depth {
            Some(DepthText::Count(count)) => match u32::try_from(*count) {
                Ok(depth) if (1..=most).contains(&depth) => Ok(QueueDepth::Is(depth)),
                _ => bad(&count.to_string()),
            },
            Some(DepthText::Word(word)) if word != "auto" => bad(word),
            _ => {
                let usual = disktime_core::cost::usual(policy, most);
                let learns = self.cost_model.as_deref().unwrap_or(usual) == LEARNER;
                let auto = open && learns && usual == LEARNER;
                Ok(if auto { QueueDepth::Auto(most) } else { QueueDepth::Is(1) })
            }
        }
    }

    /// Whether streams' parts of the pieces at the device go by latency.
    fn check_depth_latency(&self, depth: QueueDepth) -> Result<Option<Duration>, ConfigError> {
        let latency = self.depth_latency.as_deref().map(|text| {
            let latency = depth_latency(text, depth.most());
            let key = || format!("device {}: depth_latency", self.name);
            latency.map_err(|why| value(&key(), text, why))
        });
        latency.transpose()
    }

    /// The controller, with the keys that mean nothing without one.
    fn check_feedback(&self) -> Result<FeedbackConfig<'static>, ConfigError> {
        let key = |key: &str| format!("device {}: {key}", self.name);
        let mut config = FeedbackConfig::default();
        if let Some(name) = &self.feedback {
            let entry = feedback::find(name).ok_or_else(|| {
                let error = disktime_core::ConfigError::UnknownController(name.clone());
                value(&key("feedback"), name, error.to_string())
            })?;
            config.controller = entry.name;
        }
        let shapes = feedback::find(config.controller).is_some_and(|entry| entry.build.is_some());
        let needs = || "only a `feedback` controller has it: name one, or leave it out".to_owned();
        if let Some(name) = &self.feedback_token {
            let bad = |why| value(&key("feedback_token"), name, why);
            let names = || Token::NAMES.map(|(name, _)| name).join(", ");
            let known = Token::find(name);
            config.token =
                known.ok_or_else(|| bad(format!("no such token; there are: {}", names())))?;
            if !shapes {
                return Err(bad(needs()));
            }
        }
        if let Some(least) = self.feedback_min {
            let bad = |why| value(&key("feedback_min"), &least.to_string(), why);
            config.rate_min = least;
            config.check().map_err(|error| bad(error.to_string()))?;
            if !shapes {
                return Err(bad(needs()));
            }
        }
        if let Some(rate) = self.feedback_rate {
            let bad = |why| value(&key("feedback_rate"), &rate.to_string(), why);
            if config.controller != FIXED {
                let why = "only controller `fixed` has a rate, the others find it: leave it out";
                return Err(bad(why.to_owned()));
            }
            config.rate_start = rate;
            config.check().map_err(|error| {
                bad(format!("{error}; `feedback_min` is the least that can be stated"))
            })?;
        } else if config.controller == FIXED {
            let why = "state `feedback_rate`, in tokens per second: it does nothing without";
            return Err(value(&key("feedback"), FIXED, why.to_owned()));
        }
        Ok(config)
    }

    /// The back end, with the keys that belong to some kinds of it only.
    fn check_back_end(&self) -> Result<BackEndKind, ConfigError> {
        let key = |key: &str| format!("device {}: {key}", self.name);
        let back_end = self.back_end.parse();
        let mut back_end = back_end.map_err(|why| value(&key("back_end"), &self.back_end, why))?;
        if let (Some(true), false) = (self.create, matches!(back_end, BackEndKind::File(_))) {
            let why = "only a `file:` back end's directory is made: leave it out; files for members \
                       and tiers are made by `disktime device init PATH --size SIZE`";
            return Err(value(&key("create"), "true", why.to_owned()));
        }
        if let Some(text) = &self.chunk {
            let bad = |why| value(&key("chunk"), text, why);
            let BackEndKind::Raid0 { chunk, .. } = &mut back_end else {
                return Err(bad("only a `raid0:` back end has chunks: leave it out".to_owned()));
            };
            *chunk = parse_size(text).map_err(bad)?;
            check_chunk(*chunk).map_err(bad)?;
        }
        if let Some(count) = self.connections {
            let bad = |why| value(&key("connections"), &count.to_string(), why);
            let BackEndKind::Nbd { connections, .. } = &mut back_end else {
                let why = "only an `nbd:` or `nbd+unix:` back end has connections: leave it out";
                return Err(bad(why.to_owned()));
            };
            if !(1..=CONNECTIONS_MAX).contains(&count) {
                return Err(bad(format!("a server gets 1 to {CONNECTIONS_MAX}")));
            }
            *connections = Some(count);
        }
        Ok(back_end)
    }
}

/// Why the fast tier can't be emptied.
fn cannot_empty(tiers: bool, promotion: Share) -> Option<&'static str> {
    if !tiers {
        Some("only a `tiered:` back end has a fast tier: leave it out")
    } else if promotion == Share::ZERO {
        Some("moving needs time, and `promotion` gives it none: leave that out")
    } else {
        None
    }
}

/// What to emulate: a preset, or one for each of the tiers.
fn emulate(text: &str, tiers: bool) -> Result<Emulate, String> {
    let find = |name: &str| {
        let known = || preset::PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>();
        preset::find(name.trim())
            .ok_or_else(|| format!("no such preset; there are: {}", known().join(", ")))
    };
    match (tiers, text.split_once(',')) {
        (true, Some((fast, slow))) => Ok(Emulate::Tiers { fast: find(fast)?, slow: find(slow)? }),
        (true, None) => {
            Err("tiers are emulated one by one: name two presets, the fast tier's and \
                             the slow one's, with a comma between them"
                .to_owned())
        }
        (false, Some(_)) => Err("only a `tiered:` back end has two presets".to_owned()),
        (false, None) => find(text).map(Emulate::One),
    }
}

/// The policy that orders slack so.
fn slack(text: &str, policy: &str) -> Result<&'static str, String> {
    match (text, policy) {
        ("usage", "zygaria") => Ok("zygaria"),
        ("reward", "zygaria") => Ok("zygaria-reward"),
        ("usage" | "reward", _) => Err(format!(
            "policy {policy} has no such rule, only `zygaria` has; the shares of time of `disktime` \
             reward cheap requests by themselves: leave it out"
        )),
        _ => Err("slack goes by `usage` or in the order of `reward`".to_owned()),
    }
}

fn horizon(text: &str) -> Result<Duration, String> {
    let (min, max) = (HORIZONS.start(), HORIZONS.end());
    let why = || format!("a horizon is {min:?} to {max:?}; leave it out for the policy's own");
    parse_span(text)
        .and_then(|horizon| Some(horizon).filter(|it| HORIZONS.contains(it)).ok_or_else(why))
}

fn depth_latency(text: &str, queue_depth: u32) -> Result<Duration, String> {
    let (min, max) = (LATENCIES.start(), LATENCIES.end());
    let why = || format!("the device may take {min:?} to {max:?} before depths shrink");
    let latency = parse_span(text)
        .and_then(|latency| Some(latency).filter(|it| LATENCIES.contains(it)).ok_or_else(why))?;
    if queue_depth == 1 {
        return Err(
            "with a queue_depth of 1 no depth can shrink: raise it, or leave this out".into()
        );
    }
    Ok(latency)
}
