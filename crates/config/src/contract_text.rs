//! Contracts as a line of text: `class=guaranteed-rate rate=8MB/s cycle=1s`, in extended attributes,
//! options and parameter files.
//!
//! Keys and values are those of a virtual disk's table in a configuration.

use std::fmt::Write;

use disktime_core::{Access, Admission, Contract, Duration};

use crate::contract::{AdmissionName, CLASSES, Keys};
use crate::error::{Named, ValueError};
use crate::quantity;

/// Reads a contract.
///
/// # Errors
/// The first word that is no key with a value, or whose value is not allowed.
pub fn read_contract(text: &str) -> Result<Contract, ValueError> {
    let of = Named::only("contract");
    let mut keys = Keys::default();
    for word in text.split_ascii_whitespace() {
        let known = Keys::NAMES.join(", ");
        let (key, value) = word.split_once('=').ok_or_else(|| {
            of.wrong(word, "", format!("write `key=value`, with a key of: {known}"))
        })?;
        let stated = || Some(value.to_owned());
        match key {
            "class" => keys.class = stated(),
            "reserve" => keys.reserve = stated(),
            "limit" => keys.limit = stated(),
            "rate" => keys.rate = stated(),
            "cycle" => keys.cycle = stated(),
            "access" => keys.access = stated(),
            "latency" => keys.latency = stated(),
            "weight" => {
                let weight = value.parse();
                let range = format!("a weight is 1 to {}", Contract::WEIGHT_MAX);
                keys.weight = Some(weight.map_err(|_| of.wrong(key, value, range))?);
            }
            "admission" => keys.admission = Some(admission(value)),
            _ => return Err(of.wrong(key, value, format!("no such key; there are: {known}"))),
        }
    }
    keys.check(&of, false)
}

/// `deterministic`, `best-effort`, or the part of the cycles that may be missed.
fn admission(text: &str) -> AdmissionName {
    match text {
        "deterministic" => AdmissionName::Deterministic,
        "best-effort" => AdmissionName::BestEffort,
        miss => AdmissionName::Statistical(miss.to_owned()),
    }
}

/// Writes a contract as [`read_contract`] reads it.
#[must_use]
pub fn contract_text(contract: &Contract) -> String {
    let Contract { reserve, limit, weight, class, rate, latency } = contract;
    let class = CLASSES.iter().find(|(_, known)| known == class).map_or("", |(name, _)| name);
    let mut text = format!("class={class}");
    let mut add = |key: &str, value: &dyn std::fmt::Display| {
        let _never_fails = write!(text, " {key}={value}");
    };
    if rate.is_none() {
        // Else it follows from the rate.
        add("reserve", reserve);
    }
    add("limit", limit);
    add("weight", weight);
    if let Some(rate) = rate {
        add("rate", &quantity::rate_text(rate.bytes_per_second));
        if let Some(cycle) = rate.cycle {
            add("cycle", &span_text(cycle));
        }
        match rate.admission {
            Admission::Deterministic => {}
            Admission::Statistical { miss } => add("admission", &miss),
            Admission::BestEffort => add("admission", &"best-effort"),
        }
        let access = match rate.access {
            Access::Both => "both",
            Access::Read => "read",
            Access::Write => "write",
        };
        add("access", &access);
    }
    if let Some(latency) = latency {
        add("latency", &span_text(*latency));
    }
    text
}

/// A span in the largest unit of which it is a whole number.
fn span_text(span: Duration) -> String {
    let nanos = span.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let whole = units.iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{nanos}ns"), |(name, unit)| format!("{}{name}", nanos / unit))
}

#[cfg(test)]
mod tests {
    use disktime_core::{Class, Rate, Share};

    use super::*;

    #[test]
    fn a_contract_reads_as_it_is_written() {
        let rate = Rate {
            bytes_per_second: 8_000_000,
            cycle: Some(Duration::from_millis(1_500)),
            admission: Admission::Statistical { miss: Share::from_ppm(12_500).unwrap() },
            access: Access::Read,
        };
        let half = Share::from_percent(50).unwrap();
        let rated = Contract {
            class: Class::GuaranteedRate,
            rate: Some(rate),
            limit: half,
            ..Contract::default()
        };
        let bounded = Contract {
            class: Class::GuaranteedLatency,
            latency: Some(Duration::from_micros(62_500)),
            weight: 7,
            ..Contract::reserving(half)
        };
        let firm = Rate { admission: Admission::BestEffort, cycle: None, ..rate };
        let firm = Contract { rate: Some(firm), ..rated };
        for contract in [Contract::default(), rated, bounded, firm] {
            let text = contract_text(&contract);
            assert_eq!(read_contract(&text), Ok(contract), "{text}");
        }
    }

    #[test]
    fn a_refused_word_is_named_with_what_is_allowed() {
        for (text, said) in [
            ("reserve", "write `key=value`"),
            ("colour=red", "no such key; there are: class, reserve"),
            ("weight=0", "a weight is 1 to 10000"),
            ("weight=x", "a weight is 1 to 10000"),
            ("reserve=200%", "0% to 100%"),
            ("class=guaranteed-rate", "state the rate"),
            ("class=background reserve=10%", "only time that nobody else wants: leave this out"),
            ("rate=1MB/s", "class = \"guaranteed-rate\""),
        ] {
            let error = read_contract(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
