//! What a stream's table says of its contract, beyond shares: class, rate, latency bound.

use disktime_config::quantity;
use disktime_core::{Access, Admission, Class, Contract, Duration, Rate, Share};
use serde::{Deserialize, Deserializer, de::Error};

/// A class as files name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClassName {
    GuaranteedLatency,
    GuaranteedRate,
    SoftRealTime,
    #[default]
    BestEffort,
    Background,
}

/// How a rate is admitted, as files say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AdmissionName {
    Deterministic,
    #[serde(deserialize_with = "share")]
    Statistical(Share),
    BestEffort,
}

/// What a stream does, as files say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccessName {
    Read,
    Write,
    Both,
}

/// The keys of a stream that make its promise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Promise {
    pub(crate) class: ClassName,
    pub(crate) rate: Option<u64>,
    pub(crate) cycle: Option<Duration>,
    pub(crate) admission: Option<AdmissionName>,
    pub(crate) access: Option<AccessName>,
    pub(crate) latency: Option<Duration>,
}

impl Promise {
    /// The contract with this promise; or a key that needs `rate`, which is missing.
    pub(crate) fn contract(&self, shares: Contract) -> Result<Contract, &'static str> {
        let Self { cycle, admission, access, latency, .. } = *self;
        let stray = [
            ("cycle", cycle.is_some()),
            ("admission", admission.is_some()),
            ("access", access.is_some()),
        ];
        let stray = stray.into_iter().find(|(_, stated)| *stated && self.rate.is_none());
        if let Some((key, _)) = stray {
            return Err(key);
        }
        let rate = self.rate.map(|bytes_per_second| Rate {
            bytes_per_second,
            cycle,
            admission: match admission {
                None | Some(AdmissionName::Deterministic) => Admission::Deterministic,
                Some(AdmissionName::Statistical(miss)) => Admission::Statistical { miss },
                Some(AdmissionName::BestEffort) => Admission::BestEffort,
            },
            access: match access {
                None | Some(AccessName::Both) => Access::Both,
                Some(AccessName::Read) => Access::Read,
                Some(AccessName::Write) => Access::Write,
            },
        });
        let class = match self.class {
            ClassName::GuaranteedLatency => Class::GuaranteedLatency,
            ClassName::GuaranteedRate => Class::GuaranteedRate,
            ClassName::SoftRealTime => Class::SoftRealTime,
            ClassName::BestEffort => Class::BestEffort,
            ClassName::Background => Class::Background,
        };
        Ok(Contract { class, rate, latency, ..shares })
    }
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<Share, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|error| D::Error::custom(format!("`{text}`: {error}")))
}

/// A span of time, if the key is there.
pub(crate) fn span<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    some(from, quantity::parse_duration)
}

/// A rate, if the key is there.
pub(crate) fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    some(from, quantity::parse_rate)
}

fn some<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map(Some).map_err(|allowed| D::Error::custom(format!("`{text}`: {allowed}")))
}
