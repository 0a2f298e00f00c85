//! Long files and functions: a note where one should stop and think, a failure far beyond.
//! Lines that are empty or only a comment don't count; tests do.

use crate::finding::{Finding, Report};
use crate::source::{Function, RustFile};
use crate::workspace::Workspace;

/// Lines of code from which on there is a note, and from which on a failure.
struct Limit {
    noted: usize,
    failed: usize,
}

const FILE: Limit = Limit { noted: 600, failed: 1_000 };
const FUNCTION: Limit = Limit { noted: 70, failed: 150 };

/// Finds what is longer than the limits.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let mut report = Report::default();
    for file in &workspace.rust {
        let is_code = code_lines(&file.text);
        let lines = is_code.iter().filter(|it| **it).count();
        judge(
            &FILE,
            lines,
            Finding::new(&file.path, format!("{lines} lines of code")),
            &mut report,
        );
        for function in &file.functions {
            judge_function(file, function, &is_code, &mut report);
        }
    }
    report
}

fn judge_function(file: &RustFile, function: &Function, is_code: &[bool], report: &mut Report) {
    let (first, last) = (function.span.start.line, function.span.end.line);
    let lines = is_code[first - 1..last].iter().filter(|it| **it).count();
    let what = format!("fn {} has {lines} lines of code", function.name);
    judge(&FUNCTION, lines, Finding::at(&file.path, first, what), report);
}

fn judge(limit: &Limit, lines: usize, finding: Finding, report: &mut Report) {
    if lines > limit.failed {
        report.failures.push(finding);
    } else if lines > limit.noted {
        report.notes.push(finding);
    }
}

/// For each line whether it holds code.
pub(super) fn code_lines(text: &str) -> Vec<bool> {
    let mut in_block = false;
    text.lines()
        .map(|line| {
            let line = line.trim();
            let opens = !in_block && line.starts_with("/*");
            let is_comment = in_block || opens || line.starts_with("//");
            in_block = (in_block || opens) && !line.contains("*/");
            !line.is_empty() && !is_comment
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    const LIB: &str = "crates/nothing/src/lib.rs";

    fn report(text: &str) -> Report {
        run(&Fixture::new(&[(LIB, text)]).workspace())
    }

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    // why\n\n    g();\n".repeat(lines - 2))
    }

    #[test]
    fn comments_and_empty_lines_are_not_code() {
        let text = "//! a\n\n/* b\n c */\nfn f() {} // d\n/// e\nfn g() {}";
        assert_eq!(code_lines(text).iter().filter(|it| **it).count(), 2);
    }

    #[test]
    fn a_function_is_noted_then_fails() {
        let short = report(&function(70));
        assert!(short.failures.is_empty() && short.notes.is_empty());
        let long = report(&function(71));
        assert_eq!(long.notes, [Finding::at(LIB, 1, "fn f has 71 lines of code")]);
        assert!(long.failures.is_empty());
        assert_eq!(report(&function(151)).failures.len(), 1);
    }

    #[test]
    fn a_file_is_noted_then_fails() {
        assert!(report(&"use a;\n".repeat(600)).notes.is_empty());
        let noted = report(&"use a;\n".repeat(601));
        assert_eq!(noted.notes, [Finding::new(LIB, "601 lines of code")]);
        let failed = report(&"use a;\n".repeat(1_001));
        assert_eq!(failed.failures, [Finding::new(LIB, "1001 lines of code")]);
    }
}
