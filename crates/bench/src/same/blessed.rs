//! Fingerprints by scenario: their text, and how two sets of them differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use disktime_sim::Fingerprint;

/// The fingerprints of some scenarios, by name. As a text they are one line for each, in order of
/// name, after a comment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Blessed(BTreeMap<String, Fingerprint>);

/// How what a scenario does now differs from what was blessed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Difference {
    /// There is such a scenario now; it was not blessed.
    New(String),
    /// It was blessed; there is no such scenario now.
    Gone(String),
    /// It does something else.
    Changed {
        /// The scenario.
        name: String,
        /// The hashes that differ, in words.
        what: Vec<&'static str>,
    },
}

/// Why a text holds no fingerprints.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {fault}; `cargo xtask bless` writes the file anew")]
pub struct BlessedError {
    /// Which, from 1.
    pub line: usize,
    /// The fault of the line.
    pub fault: Fault,
}

/// The faults that a line can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// Too few fields, or too many.
    #[error("{0} fields; {FIELDS} are needed: {COLUMNS}")]
    Fields(usize),
    /// A field that is no number, or too large.
    #[error("{column}: `{text}`; a whole number is needed, hashes as 16 hexadecimal digits")]
    Number {
        /// The column of the field.
        column: &'static str,
        /// As written.
        text: String,
    },
    /// A name that is not after the one before.
    #[error("scenario `{0}`: each line's name must come after that of the line before")]
    Order(String),
}

const FIELDS: usize = 6;
const COLUMNS: &str = "scenario, simulations, dispatches, decisions, counters, events";

impl Blessed {
    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The lines of scenarios whose name `keep` approves of.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|(name, _)| keep(name));
        kept.map(|(name, print)| (name.clone(), *print)).collect()
    }

    /// These and `other`'s; where both have one, `other`'s.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.0.extend(other.0.iter().map(|(name, print)| (name.clone(), *print)));
        self
    }

    /// How `now` differs from these, in order of name.
    #[must_use]
    pub fn differences(&self, now: &Self) -> Vec<Difference> {
        let names: BTreeSet<&String> = self.0.keys().chain(now.0.keys()).collect();
        let difference = |name: &String| match (self.0.get(name), now.0.get(name)) {
            (Some(before), Some(now)) => changed(name, before, now),
            (None, _) => Some(Difference::New(name.clone())),
            (_, None) => Some(Difference::Gone(name.clone())),
        };
        names.into_iter().filter_map(difference).collect()
    }
}

fn changed(name: &str, before: &Fingerprint, now: &Fingerprint) -> Option<Difference> {
    let decisions = |it: &Fingerprint| (it.runs, it.dispatches, it.decisions);
    let differing = [
        ("decisions", decisions(before) != decisions(now)),
        ("counters", before.counters != now.counters),
        ("events", before.events != now.events),
    ];
    let what: Vec<_> = differing.into_iter().filter(|it| it.1).map(|(word, _)| word).collect();
    (!what.is_empty()).then(|| Difference::Changed { name: name.to_owned(), what })
}

impl Difference {
    /// The scenario.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::New(name) | Self::Gone(name) | Self::Changed { name, .. } => name,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New(name) => write!(f, "new: {name}"),
            Self::Gone(name) => write!(f, "gone: {name}"),
            Self::Changed { name, what } => write!(f, "{}: {name}", what.join(", ")),
        }
    }
}

impl FromIterator<(String, Fingerprint)> for Blessed {
    fn from_iter<Pairs: IntoIterator<Item = (String, Fingerprint)>>(pairs: Pairs) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl fmt::Display for Blessed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# What each scenario does, as `cargo xtask bless` has written it:")?;
        writeln!(f, "# {COLUMNS}")?;
        for (name, print) in &self.0 {
            let Fingerprint { runs, dispatches, decisions, counters, events } = print;
            writeln!(
                f,
                "{name} {runs} {dispatches} {decisions:016x} {counters:016x} {events:016x}"
            )?;
        }
        Ok(())
    }
}

impl FromStr for Blessed {
    type Err = BlessedError;

    fn from_str(text: &str) -> Result<Self, BlessedError> {
        let mut blessed = BTreeMap::new();
        let mut last = None;
        for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.starts_with('#')) {
            let (name, print) = parse(text).map_err(|fault| BlessedError { line, fault })?;
            if last.is_some_and(|last| last >= name) {
                return Err(BlessedError { line, fault: Fault::Order(name.to_owned()) });
            }
            last = Some(name);
            blessed.insert(name.to_owned(), print);
        }
        Ok(Self(blessed))
    }
}

fn parse(line: &str) -> Result<(&str, Fingerprint), Fault> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, runs, dispatches, decisions, counters, events] = fields[..] else {
        return Err(Fault::Fields(fields.len()));
    };
    let fault = |column, text: &str| Fault::Number { column, text: text.to_owned() };
    let count = |column, text: &str| {
        text.parse().ok().filter(|_| !text.starts_with('+')).ok_or_else(|| fault(column, text))
    };
    let hash = |column, text: &str| {
        let digits = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| digits);
        number.ok_or_else(|| fault(column, text))
    };
    let print = Fingerprint {
        runs: count("simulations", runs)?,
        dispatches: count("dispatches", dispatches)?,
        decisions: hash("decisions", decisions)?,
        counters: hash("counters", counters)?,
        events: hash("events", events)?,
    };
    Ok((name, print))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINT: Fingerprint =
        Fingerprint { runs: 1, dispatches: 20, decisions: 3, counters: u64::MAX, events: 0 };

    fn blessed(prints: &[(&str, Fingerprint)]) -> Blessed {
        prints.iter().map(|(name, print)| ((*name).to_owned(), *print)).collect()
    }

    #[test]
    fn a_text_is_read_as_it_was_written_in_order_of_name() {
        let two = blessed(&[("b/2", PRINT), ("a/1", Fingerprint { events: 7, ..PRINT })]);
        let text = two.to_string();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "a/1 1 20 0000000000000003 ffffffffffffffff 0000000000000007",
                "b/2 1 20 0000000000000003 ffffffffffffffff 0000000000000000",
            ]
        );
        assert_eq!(text.parse(), Ok(two));
    }

    #[test]
    fn a_difference_says_what_differs_and_where() {
        let before = blessed(&[("a", PRINT), ("b", PRINT), ("c", PRINT), ("gone", PRINT)]);
        let now = blessed(&[
            ("a", PRINT),
            ("b", Fingerprint { decisions: 4, counters: 4, ..PRINT }),
            ("c", Fingerprint { events: 4, ..PRINT }),
            ("new", PRINT),
        ]);
        let said: Vec<String> = before.differences(&now).iter().map(ToString::to_string).collect();
        assert_eq!(said, ["decisions, counters: b", "events: c", "gone: gone", "new: new"]);
        assert_eq!(now.differences(&now), []);
    }

    #[test]
    fn blessing_some_keeps_the_others() {
        let before = blessed(&[("a/1", PRINT), ("a/2", PRINT), ("b/1", PRINT)]);
        let now = blessed(&[("a/1", Fingerprint { events: 7, ..PRINT })]);
        let after = before.only(|name| !name.starts_with("a/")).with(&now);
        assert_eq!(after.names().collect::<Vec<_>>(), ["a/1", "b/1"]);
        assert_eq!(after.only(|name| name == "a/1"), now);
    }

    #[test]
    fn a_line_that_is_none_is_named_with_its_fault() {
        let good = "a 1 20 0000000000000003 ffffffffffffffff 0000000000000000";
        let bad =
            |line: &str| format!("# about\n{good}\n{line}").parse::<Blessed>().expect_err("bad");
        let number = |column, text: &str| Fault::Number { column, text: text.to_owned() };
        for (line, fault) in [
            ("<<<<<<< HEAD", Fault::Fields(2)),
            (" ", Fault::Fields(0)),
            (good, Fault::Order("a".to_owned())),
            (&good.replace(" 20 ", " -1 "), number("dispatches", "-1")),
            (&good.replace("0003", "003"), number("decisions", "000000000000003")),
            (&good.replace("ffff ", "fffg "), number("counters", "fffffffffffffffg")),
        ] {
            assert_eq!(bad(line), BlessedError { line: 3, fault });
        }
        assert_eq!(
            bad("b").to_string(),
            "line 3: 1 fields; 6 are needed: scenario, simulations, dispatches, decisions, \
             counters, events; `cargo xtask bless` writes the file anew"
        );
    }
}
