//! How many tests passed, failed and were skipped, as the test runner says.

use std::fmt;
use std::ops::AddAssign;

/// Prints as the line with which a check ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
}

impl Counts {
    /// From nextest's `Summary [ 1.2s] 9 tests run: 7 passed (1 slow), 2 failed, 3 skipped`; none
    /// if there is no such line. A test that is neither passed nor skipped has failed, however that
    /// is called: timed out, exec failed.
    pub(super) fn from_nextest(lines: &[String]) -> Option<Self> {
        let line = lines.iter().rev().find(|line| line.trim_start().starts_with("Summary ["))?;
        let (_, list) = line.split_once("run: ")?;
        Some(Self::from_list(&without_parentheses(list), ','))
    }

    /// From all lines `test result: ok. 1 passed; 0 failed; 0 ignored; …` of `cargo test`.
    pub(super) fn from_cargo_test(lines: &[String]) -> Self {
        let mut sum = Self::default();
        for line in lines.iter().filter_map(|line| line.strip_prefix("test result: ")) {
            let list = line.split_once(". ").map_or("", |(_, list)| list);
            sum += Self::from_list(list, ';');
        }
        sum
    }

    fn from_list(list: &str, separator: char) -> Self {
        let mut counts = Self::default();
        for item in list.split(separator) {
            let Some((number, what)) = item.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => counts.passed += number,
                "skipped" | "ignored" | "filtered out" => counts.skipped += number,
                "measured" => {}
                _ => counts.failed += number,
            }
        }
        counts
    }
}

/// nextest splits some numbers up again in parentheses.
fn without_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    text.chars()
        .filter(|&it| {
            depth += u32::from(it == '(');
            let keep = depth == 0;
            depth = depth.saturating_sub(u32::from(it == ')'));
            keep
        })
        .collect::<String>()
        .replace(" ,", ",")
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn nextests_summary_is_read_whatever_it_contains() {
        let read = |text| Counts::from_nextest(&lines(text)).expect("there is a summary");
        let counts = |passed, failed, skipped| Counts { passed, failed, skipped };
        let plain = "     Summary [   0.145s] 3 tests run: 1 passed, 2 failed, 1 skipped";
        assert_eq!(read(plain), counts(1, 2, 1));
        assert_eq!(read("Summary [ 1s] 1 test run: 1 passed, 0 skipped"), counts(1, 0, 0));
        let rich = "Summary [ 9s] 9/12 tests run: 5 passed (1 slow, 2 flaky), 1 failed (1 leaky), \
                    1 exec failed, 2 timed out, 4 skipped\n        FAIL [ 1s] (1/9) a b";
        assert_eq!(read(rich), counts(5, 4, 4));
        assert_eq!(Counts::from_nextest(&lines("error: could not compile")), None);
    }

    #[test]
    fn cargo_tests_results_are_added_up() {
        let text = "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.12s\n\
                    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.1s";
        let expected = Counts { passed: 2, failed: 1, skipped: 4 };
        assert_eq!(Counts::from_cargo_test(&lines(text)), expected);
    }

    #[test]
    fn the_closing_line_is_plain() {
        let counts = Counts { passed: 5, failed: 0, skipped: 2 };
        assert_eq!(counts.to_string(), "5 passed, 0 failed, 2 skipped");
    }
}
