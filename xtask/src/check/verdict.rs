//! The result of a check: a table, every note and failure, the skipped tests, and the count of
//! tests.

use std::fmt;
use std::time::Duration;

use anyhow::Result;

use super::counts::Counts;
use super::slowest::Slowest;
use crate::finding::{Finding, Report};

/// One gate's line in the table.
pub(super) struct Row {
    gate: String,
    report: Report,
    took: Duration,
}

impl Row {
    /// A gate that could not run has failed.
    pub(super) fn new(gate: &str, result: Result<Report>, took: Duration) -> Self {
        let broken = |error| vec![Finding::new("xtask", format!("{error:#}"))].into();
        Self { gate: gate.to_owned(), report: result.unwrap_or_else(broken), took }
    }
}

/// Everything that the closing text is made of.
#[derive(Default)]
pub(super) struct Verdict {
    pub(super) rows: Vec<Row>,
    /// Lines written by tests that couldn't run.
    pub(super) skips: Vec<String>,
    pub(super) slowest: Slowest,
    pub(super) counts: Counts,
}

impl Verdict {
    /// Prints it all; whether everything passed.
    pub(super) fn print(&self) -> bool {
        println!("\n{self}");
        self.passed()
    }

    /// A failed test without a failed gate would be a mistake in reading the runner's output.
    fn passed(&self) -> bool {
        self.rows.iter().all(|row| row.report.passed()) && self.counts.failed == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table(&self.rows, f)?;
        list("note", "notes", &self.rows, |report| &report.notes, f)?;
        list("failure", "failures", &self.rows, |report| &report.failures, f)?;
        if !self.skips.is_empty() {
            let cases = plural(self.skips.len(), "case", "cases");
            writeln!(f, "\n{cases} skipped (their tests count as passed):")?;
            self.skips.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        write!(f, "{}\n{}", self.slowest, self.counts)
    }
}

fn table(rows: &[Row], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let width = rows.iter().map(|row| row.gate.len()).max().unwrap_or(0).max("gate".len());
    writeln!(f, "{:<width$}  {:<8}{:>8}", "gate", "result", "seconds")?;
    for row in rows {
        let result = if row.report.passed() { "ok" } else { "FAILED" };
        writeln!(f, "{:<width$}  {result:<8}{:>8.1}", row.gate, row.took.as_secs_f64())?;
    }
    Ok(())
}

fn list(
    one: &str,
    many: &str,
    rows: &[Row],
    pick: fn(&Report) -> &[Finding],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let number = rows.iter().map(|row| pick(&row.report).len()).sum();
    if number > 0 {
        writeln!(f, "\n{}:", plural(number, one, many))?;
    }
    for row in rows {
        pick(&row.report).iter().try_for_each(|it| writeln!(f, "  {}: {it}", row.gate))?;
    }
    Ok(())
}

fn plural(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(gate: &str, failures: &[&str]) -> Row {
        let failures: Vec<_> = failures.iter().map(|it| Finding::new("a.rs", *it)).collect();
        Row::new(gate, Ok(failures.into()), Duration::from_millis(1_250))
    }

    #[test]
    fn every_failure_is_listed_and_the_counts_come_last() {
        let mut noted = row("docs", &[]);
        noted.report.notes.push(Finding::new("b.rs", "long"));
        let verdict = Verdict {
            rows: vec![row("format", &["one", "two"]), noted, row("tests", &["three"])],
            skips: vec!["SKIP: e2e: no fio".to_owned()],
            counts: Counts { passed: 5, failed: 1, skipped: 0 },
            slowest: Slowest::from_nextest(&[
                "PASS [   1.500s] (1/1) core::all slow".to_owned(),
                "Summary [ 1.5s] 1 test run: 1 passed".to_owned(),
            ]),
        };
        assert_eq!(
            verdict.to_string(),
            "gate    result   seconds\n\
             format  FAILED       1.2\n\
             docs    ok           1.2\n\
             tests   FAILED       1.2\n\
             \n1 note:\n  docs: b.rs: long\n\
             \n3 failures:\n  format: a.rs: one\n  format: a.rs: two\n  tests: a.rs: three\n\
             \n1 case skipped (their tests count as passed):\n  SKIP: e2e: no fio\n\
             \n seconds  slowest tests\n     1.5  core::all slow\n\
             \n5 passed, 1 failed, 0 skipped"
        );
        assert!(!verdict.passed());
    }

    #[test]
    fn any_failure_fails_the_whole() {
        let with = |rows, failed| Verdict {
            rows,
            counts: Counts { failed, ..Counts::default() },
            skips: Vec::new(),
            slowest: Slowest::default(),
        };
        assert!(with(vec![row("a", &[])], 0).passed());
        assert!(!with(vec![row("a", &[]), row("b", &["x"])], 0).passed());
        assert!(!with(vec![row("a", &[])], 1).passed());
        let broken = Row::new("a", Err(anyhow::anyhow!("no cargo")), Duration::ZERO);
        assert!(!with(vec![broken], 0).passed());
    }
}
