//! How a device's time is shared: the policy, what it counts, and its bounds.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::depth_law::{DepthLaw, DepthTerms};
use disktime_core::cost::{self, CostParameters};
use disktime_core::feedback::{self, FeedbackConfig, FeedbackEntry, Token};
use disktime_core::policy::{self, Currency, PolicyEntry};
use disktime_core::{Change, Config, ConfigError, Duration, Limits, Share};
use serde::Deserialize;

use crate::quantity::{parse_duration, parse_share};
use crate::{Named, ValueError};

/// The most pieces at a device at once.
pub const DEPTH_MAX: u32 = 1024;
/// The shortest and the longest horizon.
const HORIZONS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);
/// Requests per second that a device may be taken for; the core's bounds.
const NOMINAL_IOPS: RangeInclusive<u32> = 1..=1_000_000_000;
/// Tokens of a feedback controller by name.
pub const TOKENS: [(&str, Token); 3] =
    [("time", Token::Time), ("data", Token::Data), ("request", Token::Request)];
/// The controller that has a rate of its own.
const FIXED: &str = "fixed";
/// The cost model that goes on from what a quick profile has found.
const LEARNER: &str = "learned";
/// Responses of a device from which on depths may shrink.
const LATENCIES: RangeInclusive<Duration> = Duration::from_micros(10)..=Duration::from_secs(10);
/// Pieces at the device at once with `auto`, where nothing is known of its speeds.
const DEPTH_UNKNOWN: u32 = 32;

/// How often the law of `depth_latency` sets depths, as its source has it.
pub const DEPTH_SPAN: Duration = Duration::from_secs(1);
/// γ of the law: four fifths of the way in a span.
const GAMMA: Share = Share::from_percent(80).expect("a part of the whole");
/// β of a stream of weight 1, in thousandths: a piece at weight 100.
const PART: u32 = 10;

/// The law by which a stream's part of a device's queue goes where `depth_latency` is stated: its
/// window is `depth_max` pieces while the device answers within the threshold.
///
/// # Panics
/// If the threshold or the depth is zero, or the weight out of 1 to 10000.
#[must_use]
pub fn depth_law(threshold: Duration, depth_max: u32, weight: u32) -> DepthLaw {
    let terms = DepthTerms { threshold, gamma: GAMMA, part: PART * weight, depth_max };
    DepthLaw::new(terms).expect("the configuration was checked")
}

/// The value of `queue_depth`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged, expecting = "a queue depth is a whole number, or `auto`")]
pub enum DepthText {
    /// A number.
    Count(i64),
    /// `auto`.
    Word(String),
}

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

    /// The depth on a device that is fast from `fast_from` on. If that is unknown, `auto` is 32, or the
    /// most that the device takes.
    #[must_use]
    pub fn on(self, fast_from: Option<u32>) -> u32 {
        match self {
            Self::Is(depth) => depth,
            Self::Auto(most) => fast_from.unwrap_or(DEPTH_UNKNOWN).clamp(1, most),
        }
    }
}

/// Facts of a device that decide which values its keys may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceFacts {
    /// Pieces that the device takes at once.
    pub depth_max: u32,
    /// Whether it has a time of its own that could be found out.
    pub timed: bool,
    /// Whether streams on it have deadlines: those are kept best one piece at a time.
    pub real_time: bool,
}

/// The policy of a device that has no time of its own, unless one is named: a switch between streams costs
/// nothing there, so that slices would only keep the others waiting.
const UNTIMED: &str = "zygaria";

/// How a device's time is shared, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scheduling {
    /// The policy: of the product, or where `experimental` says so a rival.
    pub policy: &'static PolicyEntry,
    /// Whether the policy and the controller may be some that are there to compare with.
    pub experimental: bool,
    /// Requests per second that the whole device is taken for, by policies that count requests.
    pub nominal_iops: u32,
    /// A name in the core's registry of cost models.
    pub cost_model: String,
    /// The range of a stream's lag, for policies that have a horizon; `None`: the policy's default.
    pub horizon: Option<Duration>,
    /// How best effort is shaped for soft real time that misses deadlines.
    pub feedback: FeedbackConfig,
    /// Pieces at the device at once.
    pub queue_depth: QueueDepth,
    /// The response of the device above which a stream's part of these shrinks, if it shall.
    pub depth_latency: Option<Duration>,
    /// Share kept free by admission.
    pub headroom: Share,
    /// A file that says what the device does, as `disktime device profile` saves it.
    pub profile: Option<PathBuf>,
    /// Whether the device is looked at for a moment first, to know what requests cost about.
    pub quick_profile: bool,
}

impl Scheduling {
    /// A policy and a cost model by name, one piece at a time, and the engine's defaults.
    ///
    /// # Panics
    /// If no policy has this name.
    #[must_use]
    pub fn new(policy: &str, cost_model: &str) -> Self {
        let Config { nominal_iops, feedback, headroom, .. } = Config::default();
        Self {
            policy: disktime_rivals::find(policy).expect("a name of a policy"),
            experimental: true,
            nominal_iops,
            cost_model: cost_model.to_owned(),
            horizon: None,
            feedback,
            queue_depth: QueueDepth::Is(1),
            depth_latency: None,
            headroom,
            profile: None,
            quick_profile: false,
        }
    }

    /// How the engine is made: with these bounds, and these numbers for its cost model. Changes that
    /// [`changes`](Self::changes) names make it complete.
    #[must_use]
    pub fn engine(&self, limits: Limits, cost: CostParameters) -> Config<'_> {
        Config {
            policy: self.policy,
            cost_model: &self.cost_model,
            limits,
            headroom: self.headroom,
            cost,
            nominal_iops: self.nominal_iops,
            feedback: self.feedback,
            flushes: true,
            ..Config::default()
        }
    }

    /// The changes that the engine gets before its first stream.
    pub fn changes(&self) -> impl Iterator<Item = Change<'static>> {
        self.horizon.map(Change::SetHorizon).into_iter()
    }
}

crate::scheduling_table! {}

impl Keys {
    /// Whether the policy is one that counts requests: only those are told `nominal_iops`.
    #[must_use]
    pub fn counts_requests(&self) -> bool {
        let entry = self.policy.as_deref().map(disktime_rivals::find);
        entry.is_some_and(|entry| entry.is_ok_and(|entry| entry.currency == Currency::Requests))
    }

    /// Checks these keys for a device.
    ///
    /// # Errors
    /// The first key whose value is not allowed, or is not allowed beside the others.
    pub fn check(&self, of: &Named, facts: DeviceFacts) -> Result<Scheduling, ValueError> {
        let experimental = self.experimental.unwrap_or(false);
        let usual = if facts.timed { Config::default().policy.name } else { UNTIMED };
        let named = self.policy.as_deref().unwrap_or(usual);
        let wrong = |allowed| of.wrong("policy", named, allowed);
        let policy = allowed(named, experimental).map_err(wrong)?;
        let nominal_iops = self.nominal_iops(of, policy)?;
        let slack = |text: &str| slack(text, named, experimental);
        let slack = of.read("slack", self.slack.as_deref(), slack)?;
        let policy = slack.map_or(Ok(policy), |name| allowed(name, true)).map_err(wrong)?;
        let horizon = of.read("horizon", self.horizon.as_deref(), horizon)?;
        // Where none is named costs are learned, with slices or without.
        let usual_costs = cost::usual(
            self.policy.as_deref().map_or(Config::default().policy.name, |_| policy.name),
        );
        let queue_depth = self.queue_depth(of, usual_costs, facts)?;
        let depth_latency = of.read("depth_latency", self.depth_latency.as_deref(), |text| {
            depth_latency(text, queue_depth.most())
        })?;
        let cost_model = self.cost_model.clone().unwrap_or_else(|| usual_costs.to_owned());
        if cost::find(&cost_model).is_none() {
            let error = ConfigError::UnknownCostModel(cost_model.clone());
            return Err(of.wrong("cost_model", &cost_model, error.to_string()));
        }
        let headroom = of.read("headroom", self.headroom.as_deref(), parse_share)?;
        if let (Some(true), Some(profile)) = (self.quick_profile, &self.profile) {
            let allowed =
                format!("profile = \"{}\" says more: leave one of both out", profile.display());
            return Err(of.wrong("quick_profile", true, allowed));
        }
        let learns = cost_model == LEARNER && queue_depth.most() > 1;
        let looks = self.profile.is_none() && facts.timed && learns;
        Ok(Scheduling {
            policy,
            experimental,
            nominal_iops,
            cost_model,
            horizon,
            feedback: self.feedback(of, experimental)?,
            queue_depth,
            depth_latency,
            headroom: headroom.unwrap_or(Share::ZERO),
            profile: self.profile.clone(),
            quick_profile: self.quick_profile.unwrap_or(looks),
        })
    }

    /// The speed that a policy which counts requests takes the device to have, in requests per second.
    fn nominal_iops(&self, of: &Named, policy: &PolicyEntry) -> Result<u32, ValueError> {
        let Some(count) = self.nominal_iops else { return Ok(Config::default().nominal_iops) };
        let bad = |allowed: String| Err(of.wrong("nominal_iops", count, allowed));
        let counts = |entry: &&PolicyEntry| entry.currency == Currency::Requests;
        if !counts(&policy) {
            let counting = disktime_rivals::all().filter(counts);
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
    /// time and no stream with deadlines.
    fn queue_depth(
        &self,
        of: &Named,
        usual: &str,
        facts: DeviceFacts,
    ) -> Result<QueueDepth, ValueError> {
        let most = facts.depth_max;
        let bad = |text: &dyn std::fmt::Display| {
            let allowed = format!("this device takes 1 to {most}, or `auto`");
            Err(of.wrong("queue_depth", text, allowed))
        };
        match &self.queue_depth {
            Some(DepthText::Count(count)) => match u32::try_from(*count) {
                Ok(depth) if (1..=most).contains(&depth) => Ok(QueueDepth::Is(depth)),
                _ => bad(count),
            },
            Some(DepthText::Word(word)) if word != "auto" => bad(word),
            _ => {
                let learns = self.cost_model.as_deref().unwrap_or(usual) == LEARNER;
                let open = facts.timed && !facts.real_time && most > 1;
                let auto = open && learns && usual == LEARNER;
                Ok(if auto { QueueDepth::Auto(most) } else { QueueDepth::Is(1) })
            }
        }
    }

    /// The controller, with the keys that mean nothing without one.
    fn feedback(&self, of: &Named, experimental: bool) -> Result<FeedbackConfig, ValueError> {
        let mut config = FeedbackConfig::default();
        if let Some(name) = &self.feedback {
            config.controller = controller(name, experimental)
                .map_err(|known| of.wrong("feedback", name, known))?;
        }
        let shapes = config.controller.build.is_some();
        let needs = "only a `feedback` controller has it: name one, or leave it out";
        if let Some(name) = &self.feedback_token {
            let bad = |allowed: String| of.wrong("feedback_token", name, allowed);
            let names = || TOKENS.map(|(name, _)| name).join(", ");
            let known = TOKENS.into_iter().find(|(known, _)| known == name);
            let known = known.ok_or_else(|| bad(format!("no such token; there are: {}", names())));
            config.token = known?.1;
            if !shapes {
                return Err(bad(needs.to_owned()));
            }
        }
        if let Some(least) = self.feedback_min {
            let bad = |allowed: String| of.wrong("feedback_min", least, allowed);
            config.rate_min = least;
            config.check().map_err(|error| bad(error.to_string()))?;
            if !shapes {
                return Err(bad(needs.to_owned()));
            }
        }
        if let Some(rate) = self.feedback_rate {
            let bad = |allowed: String| of.wrong("feedback_rate", rate, allowed);
            if config.controller.name != FIXED {
                let why = "only controller `fixed` has a rate, the others find it: leave it out";
                return Err(bad(why.to_owned()));
            }
            config.rate_start = rate;
            config.check().map_err(|error| {
                bad(format!("{error}; `feedback_min` is the least that can be stated"))
            })?;
        } else if config.controller.name == FIXED {
            let allowed = "state `feedback_rate`, in tokens per second: it does nothing without";
            return Err(of.wrong("feedback", FIXED, allowed));
        }
        Ok(config)
    }
}

/// The policy of that name, if such a device may have it: rivals only where `experimental` says so.
fn allowed(name: &str, experimental: bool) -> Result<&'static PolicyEntry, String> {
    let found = disktime_rivals::find(name);
    if experimental || policy::find(name).is_some() {
        return found.map_err(|error| error.to_string());
    }
    let list = |entries: &[PolicyEntry]| {
        entries.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
    };
    let [own, rivals] = [policy::REGISTRY, disktime_rivals::REGISTRY].map(list);
    Err(format!("known are {own}; with `experimental = true` also, to compare with, {rivals}"))
}

/// The controller of that name, if such a device may have it: those to compare with only where `experimental`
/// says so. Else the names of those that it may have.
fn controller(name: &str, experimental: bool) -> Result<&'static FeedbackEntry, String> {
    let own = feedback::REGISTRY.iter().any(|entry| entry.name == name);
    let found = disktime_rivals::controller(name).filter(|_| experimental || own);
    let list = |entries: &[&FeedbackEntry]| {
        entries.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
    };
    let [own, others] = [feedback::REGISTRY, disktime_rivals::CONTROLLERS].map(list);
    let also = if experimental { "" } else { "with `experimental = true` also, " };
    found.ok_or_else(|| format!("known are {own}; {also}to compare with, {others}"))
}

/// The policy that orders slack so.
fn slack(text: &str, policy: &str, experimental: bool) -> Result<&'static str, String> {
    match (text, policy) {
        ("usage", "zygaria") => Ok("zygaria"),
        ("reward", "zygaria") if experimental => Ok("zygaria-reward"),
        ("reward", "zygaria") => Err("policy zygaria-reward, which orders slack so, is there to \
                                      compare with: set `experimental = true`, or say `usage`"
            .to_owned()),
        ("usage" | "reward", _) => Err(format!(
            "policy {policy} has no such rule, only `zygaria` has; the shares of time of `disktime` \
             reward cheap requests by themselves: leave it out"
        )),
        _ => Err("slack goes by `usage` or in the order of `reward`".to_owned()),
    }
}

/// Reads a horizon: 1 ms to 10 s.
///
/// # Errors
/// The range, if the text is none of it.
pub fn horizon(text: &str) -> Result<Duration, String> {
    let (min, max) = (HORIZONS.start(), HORIZONS.end());
    let why = || format!("a horizon is {min:?} to {max:?}; leave it out for the policy's own");
    parse_duration(text)
        .and_then(|horizon| Some(horizon).filter(|it| HORIZONS.contains(it)).ok_or_else(why))
}

fn depth_latency(text: &str, queue_depth: u32) -> Result<Duration, String> {
    let (min, max) = (LATENCIES.start(), LATENCIES.end());
    let why = || format!("the device may take {min:?} to {max:?} before depths shrink");
    let latency = parse_duration(text)
        .and_then(|latency| Some(latency).filter(|it| LATENCIES.contains(it)).ok_or_else(why))?;
    if queue_depth == 1 {
        return Err(
            "with a queue_depth of 1 no depth can shrink: raise it, or leave this out".into()
        );
    }
    Ok(latency)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLASH: DeviceFacts = DeviceFacts { depth_max: 32, timed: true, real_time: false };

    fn check(change: impl FnOnce(&mut Keys)) -> Result<Scheduling, ValueError> {
        let mut keys = Keys { queue_depth: Some(DepthText::Count(4)), ..Keys::default() };
        change(&mut keys);
        keys.check(&Named::new("device", "d"), FLASH)
    }

    fn made(scheduling: &Scheduling) -> String {
        let config = scheduling.engine(Limits::default(), CostParameters::default());
        format!("{config:?} {:?}", scheduling.changes().collect::<Vec<_>>())
    }

    /// Daemon and simulator each put their engine together: a key could be checked and lost on the way.
    #[test]
    fn an_engine_is_made_with_what_the_keys_say() {
        let text = |text: &str| Some(text.to_owned());
        let usual = check(|_| {}).unwrap();
        for (key, stated) in [
            ("horizon", check(|it| it.horizon = text("90ms"))),
            ("headroom", check(|it| it.headroom = text("5%"))),
            ("cost_model", check(|it| it.cost_model = text("priced"))),
            ("policy", check(|it| it.policy = text("zygaria"))),
            ("feedback", check(|it| it.feedback = text("adaptive"))),
        ] {
            assert_ne!(made(&stated.unwrap()), made(&usual), "{key}");
        }
        let counting = |count| {
            let told = |it: &mut Keys| {
                it.experimental = Some(true);
                (it.policy, it.nominal_iops) = (text("zygaria-iops"), count);
            };
            check(told).unwrap()
        };
        assert_ne!(made(&counting(Some(90))), made(&counting(None)));
        let depth = check(|it| it.queue_depth = Some(DepthText::Count(8))).unwrap();
        assert_eq!((depth.queue_depth, made(&depth)), (QueueDepth::Is(8), made(&usual)));
        let latency = check(|it| it.depth_latency = text("40ms")).unwrap();
        assert_eq!(latency.depth_latency, Some(Duration::from_millis(40)));
    }

    /// Slices kept a client on a device in memory waiting for up to 45 ms beside one that writes 32 MiB at once.
    #[test]
    fn a_device_without_a_time_of_its_own_has_no_slices() {
        let named = |policy: Option<&str>, timed| {
            let keys = Keys { policy: policy.map(str::to_owned), ..Keys::default() };
            let facts = DeviceFacts { timed, ..FLASH };
            keys.check(&Named::new("device", "d"), facts).map(|it| (it.policy.name, it.cost_model))
        };
        let is = |policy, costs: &str| Ok((policy, costs.to_owned()));
        assert_eq!(named(None, true), is("disktime", "learned"));
        assert_eq!(named(None, false), is("zygaria", "learned"));
        assert_eq!(named(Some("disktime"), false), is("disktime", "learned"));
        assert_eq!(named(Some("zygaria"), false), is("zygaria", "fixed"));
    }

    #[test]
    fn a_refused_key_is_named_in_a_field() {
        let error = check(|it| it.horizon = Some("11s".to_owned())).unwrap_err();
        let said = (error.table, error.name.as_deref(), error.key.as_str(), error.value.as_str());
        assert_eq!(said, ("device", Some("d"), "horizon", "11s"));
        assert!(error.allowed.starts_with("a horizon is 1ms to 10s"), "{error}");
    }

    #[test]
    fn a_scheduling_without_keys_is_the_engines_default() {
        let usual = Scheduling::new(Config::default().policy.name, Config::default().cost_model);
        let flushing = Config { flushes: true, ..Config::default() };
        assert_eq!(usual.engine(Limits::default(), CostParameters::default()), flushing);
        assert_eq!(usual.changes().count(), 0);
    }
}
