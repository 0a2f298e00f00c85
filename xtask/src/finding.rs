//! A gate's report.

use std::fmt;

/// One thing that a gate found, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// A path relative to the workspace's root, with `:line` where there is one.
    place: String,
    what: String,
}

impl Finding {
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }

    /// A finding at `line`, counted from 1, of the file at `path`.
    pub(crate) fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), what)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// A gate's answer: failures fail the run, notes are for the reader.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) failures: Vec<Finding>,
    pub(crate) notes: Vec<Finding>,
}

impl Report {
    pub(crate) fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

impl From<Vec<Finding>> for Report {
    fn from(failures: Vec<Finding>) -> Self {
        Self { failures, notes: Vec::new() }
    }
}
