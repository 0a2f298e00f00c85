//! Contract keys of a virtual disk or a stream: shares, class, rate, latency bound.

use disktime_core::{Access, Admission, Class, Contract, Duration, Rate, Share};
use serde::Deserialize;

use crate::quantity::{parse_duration, parse_rate, parse_share};
use crate::{Named, ValueError};

/// The highest rate in bytes per second.
pub const RATE_MAX: u64 = 1_000_000_000_000;
/// The longest bound on response times.
pub const LATENCY_MAX: Duration = Duration::from_secs(60);

/// The reason why class `background` takes no reservation and no goal.
pub const NOT_PROMISED: &str = "class `background` gets only time that nobody else wants: leave this out (by command: \
     `--reserve ''`), or choose class `best-effort`";

/// Classes by name.
pub const CLASSES: [(&str, Class); 5] = [
    ("guaranteed-latency", Class::GuaranteedLatency),
    ("guaranteed-rate", Class::GuaranteedRate),
    ("soft-real-time", Class::SoftRealTime),
    ("best-effort", Class::BestEffort),
    ("background", Class::Background),
];

/// `"deterministic"`, `"best-effort"`, or `{ statistical = "1%" }`: so many cycles may be missed.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionName {
    /// Every cycle is kept.
    Deterministic,
    /// At most this percentage of the cycles is missed.
    Statistical(String),
    /// Nothing is promised.
    BestEffort,
}

crate::contract_table! {}

impl Keys {
    /// Whether the class is one with deadlines.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        let deadlines = |class: &str| class.starts_with("guaranteed-") || class == "soft-real-time";
        self.class.as_deref().is_some_and(deadlines)
    }

    /// The contract that these keys state. If the table also states a goal from which the reservation
    /// follows later, that stands for `reserve`.
    ///
    /// # Errors
    /// The first key whose value is not allowed, or is not allowed beside the others.
    pub fn check(&self, of: &Named, has_goal: bool) -> Result<Contract, ValueError> {
        let class = self.class.as_deref().unwrap_or("best-effort");
        let class = CLASSES.iter().find(|(name, _)| *name == class).ok_or_else(|| {
            let known = CLASSES.map(|(name, _)| name).join(", ");
            of.wrong("class", class, format!("no such class; there are: {known}"))
        })?;
        let class = class.1;
        let reserve = of.read("reserve", self.reserve.as_deref(), parse_share)?;
        let limit = of.read("limit", self.limit.as_deref(), parse_share)?;
        let (reserve, limit) = (reserve.unwrap_or(Share::ZERO), limit.unwrap_or(Share::FULL));
        if limit == Share::ZERO {
            return Err(of.wrong(
                "limit",
                limit,
                "above 0%: else the virtual disk could never run",
            ));
        }
        if class == Class::Background && reserve > Share::ZERO {
            return Err(of.wrong("reserve", reserve, NOT_PROMISED));
        }
        if reserve > limit {
            return Err(of.wrong("reserve", reserve, format!("at most the limit, {limit}")));
        }
        let weight = self.weight.unwrap_or(100);
        if !(1..=Contract::WEIGHT_MAX).contains(&weight) {
            let allowed = format!("a weight is 1 to {}", Contract::WEIGHT_MAX);
            return Err(of.wrong("weight", weight, allowed));
        }
        let rate = self.rate(of, class, has_goal)?;
        let latency = self.latency(of, class, has_goal || reserve > Share::ZERO)?;
        Ok(Contract { reserve, limit, weight, class, rate, latency })
    }

    /// The rate that is to be kept, which only one class has.
    fn rate(&self, of: &Named, class: Class, has_goal: bool) -> Result<Option<Rate>, ValueError> {
        let guaranteed = class == Class::GuaranteedRate;
        let Some(text) = &self.rate else {
            if guaranteed {
                let allowed = "state the rate to be kept, like `rate = \"8MB/s\"`";
                return Err(of.wrong("class", "guaranteed-rate", allowed));
            }
            let access = self.access.as_deref().filter(|_| !has_goal);
            let admission = self.admission.as_ref().map(AdmissionName::text);
            let rest =
                [("cycle", self.cycle.as_deref()), ("admission", admission), ("access", access)];
            let stray = rest.into_iter().find_map(|(key, text)| Some((key, text?)));
            return stray.map_or(Ok(None), |(key, text)| {
                Err(of.wrong(key, text, "only beside a `rate`: state one, or leave this out"))
            });
        };
        if !guaranteed {
            let allowed = "only with `class = \"guaranteed-rate\"`: set that";
            return Err(of.wrong("rate", text, allowed));
        }
        if let Some(reserve) = &self.reserve {
            let allowed =
                "it follows from the rate: leave it out; `vdisk set --reserve ''` takes it away";
            return Err(of.wrong("reserve", reserve, allowed));
        }
        let bytes_per_second =
            parse_rate(text).map_err(|allowed| of.wrong("rate", text, allowed))?;
        if !(1..=RATE_MAX).contains(&bytes_per_second) {
            return Err(of.wrong("rate", text, "a rate is 1B/s to 1TB/s"));
        }
        let cycle = of.read("cycle", self.cycle.as_deref(), cycle)?;
        let admission = self.admission.as_ref().map(AdmissionName::read).transpose();
        let admission =
            admission.map_err(|(text, allowed)| of.wrong("admission", text, allowed))?;
        let access = of.read("access", self.access.as_deref(), access)?;
        let (admission, access) = (admission.unwrap_or_default(), access.unwrap_or_default());
        Ok(Some(Rate { bytes_per_second, cycle, admission, access }))
    }

    /// The latency bound. Class `guaranteed-latency` promises it. In any other class policy `disktime`
    /// follows it while the virtual disk's lag is positive.
    fn latency(
        &self,
        of: &Named,
        class: Class,
        reserves: bool,
    ) -> Result<Option<Duration>, ValueError> {
        let guaranteed = class == Class::GuaranteedLatency;
        if guaranteed && self.latency.is_none() {
            let allowed = "state the bound to be kept, like `latency = \"60ms\"`";
            return Err(of.wrong("class", "guaranteed-latency", allowed));
        }
        if guaranteed && !reserves {
            let allowed = "above 0% with a latency bound: it is the time that goes first";
            return Err(of.wrong("reserve", Share::ZERO, allowed));
        }
        let Some(text) = &self.latency else { return Ok(None) };
        if matches!(class, Class::GuaranteedRate | Class::Background) {
            let allowed = "only with class `guaranteed-latency`, `soft-real-time` or `best-effort`";
            return Err(of.wrong("latency", text, allowed));
        }
        of.read("latency", Some(text), latency)
    }
}

fn cycle(text: &str) -> Result<Duration, String> {
    let (min, max) = (Rate::CYCLE_MIN, Rate::CYCLE_MAX);
    let fits = |cycle: &Duration| (min..=max).contains(cycle);
    let why = || format!("a cycle is {min:?} to {max:?}; leave it out to have one chosen");
    parse_duration(text).and_then(|cycle| Some(cycle).filter(fits).ok_or_else(why))
}

fn latency(text: &str) -> Result<Duration, String> {
    let fits = |bound: &Duration| *bound > Duration::ZERO && *bound <= LATENCY_MAX;
    let why = || format!("a latency bound is above 0s and at most {LATENCY_MAX:?}");
    parse_duration(text).and_then(|bound| Some(bound).filter(fits).ok_or_else(why))
}

/// Reads the operations of a rate: `read`, `write` or `both`.
///
/// # Errors
/// The allowed values, if the text is none of them.
pub fn access(text: &str) -> Result<Access, String> {
    match text {
        "read" => Ok(Access::Read),
        "write" => Ok(Access::Write),
        "both" => Ok(Access::Both),
        _ => Err("an access is `read`, `write` or `both`".to_owned()),
    }
}

impl AdmissionName {
    /// As it is written; of `statistical` the part of the cycles.
    fn text(&self) -> &str {
        match self {
            Self::Deterministic => "deterministic",
            Self::Statistical(miss) => miss,
            Self::BestEffort => "best-effort",
        }
    }

    fn read(&self) -> Result<Admission, (&str, String)> {
        let Self::Statistical(text) = self else {
            let firm = matches!(self, Self::Deterministic);
            return Ok(if firm { Admission::Deterministic } else { Admission::BestEffort });
        };
        let miss = parse_share(text).map_err(|allowed| (text.as_str(), allowed))?;
        if miss == Share::ZERO || miss == Share::FULL {
            let allowed = "above 0% and below 100% of cycles may be missed: ask for \
                           `deterministic` or `best-effort` instead";
            return Err((text, allowed.to_owned()));
        }
        Ok(Admission::Statistical { miss })
    }
}
