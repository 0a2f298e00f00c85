//! The tests that took longest, as nextest says: where a check's time goes.

use std::fmt;

/// Tests in the table.
const ROWS: usize = 20;

/// Prints as a table of the slowest tests, or as nothing.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Slowest(Vec<(f64, String)>);

impl Slowest {
    /// From nextest's lines `PASS [ 0.128s] (2/3) package::binary test`, of whatever status. Tests
    /// that failed are printed again below the summary; while a test still runs its status is
    /// `SLOW`.
    pub(super) fn from_nextest(lines: &[String]) -> Self {
        let is_summary = |line: &String| line.trim_start().starts_with("Summary [");
        let above = lines.iter().rposition(is_summary).unwrap_or(0);
        let mut all: Vec<_> = lines[..above].iter().filter_map(|line| read(line)).collect();
        all.sort_by(|one, other| other.0.total_cmp(&one.0));
        all.truncate(ROWS);
        Self(all)
    }
}

fn read(line: &str) -> Option<(f64, String)> {
    let (status, rest) = line.trim_start().split_once(" [")?;
    let (seconds, name) = rest.split_once("s] ")?;
    if status == "SLOW" || !status.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let name = name.strip_prefix('(')?.split_once(") ")?.1;
    Some((seconds.trim().parse().ok()?, name.trim().to_owned()))
}

impl fmt::Display for Slowest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{:>8}  slowest tests", "seconds")?;
        self.0.iter().try_for_each(|(seconds, name)| writeln!(f, "{seconds:>8.1}  {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Slowest::from_nextest(&lines).to_string()
    }

    /// The check took 23 minutes, and nothing said which tests took them.
    #[test]
    fn the_slowest_come_first_and_each_test_once() {
        let text = "        PASS [   0.128s] ( 1/22) a one\n        SLOW [> 60.000s] (─────) a hangs\n\
                    \x20       FAIL [   3.500s] ( 2/22) a::e2e two::three\n     TIMEOUT [ 300.100s] (3/22) a hangs\n\
                    \x20    Summary [   9.000s] 3 tests run: 1 passed, 1 failed, 1 timed out, 0 skipped\n\
                    \x20       FAIL [   3.500s] ( 2/22) a::e2e two::three\n";
        assert_eq!(
            shown(text),
            "\n seconds  slowest tests\n   300.1  a hangs\n     3.5  a::e2e two::three\n     0.1  a one\n"
        );
        assert_eq!(shown("nothing of the kind"), "");
        let many: String =
            (0..30).map(|at| format!("PASS [ {at}.0s] ({at}/30) a t{at}\n")).collect();
        assert_eq!(
            shown(&format!("{many}Summary [ 9s] 30 tests run: 30 passed")).lines().count(),
            22
        );
    }
}
