//! A test that sleeps is slow and fails on a busy machine. Only end-to-end tests, `tests/e2e*`,
//! live in real time. The product's sleeps are clippy's part (`disallowed_methods`).

use crate::finding::{Finding, Report};
use crate::source::{RustFile, TokenKind};
use crate::workspace::Workspace;

/// Finds sleeps, of threads or tasks, in tests that aren't end-to-end.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let mut failures = Vec::new();
    for file in workspace.rust.iter().filter(|file| !is_end_to_end(&file.path)) {
        for (index, token) in file.tokens.iter().enumerate() {
            if is_sleep(file, index) && workspace.is_test(file, token.at) {
                let what = "a test sleeps outside tests/e2e*";
                failures.push(Finding::at(&file.path, token.at.line, what));
            }
        }
    }
    failures.into()
}

fn is_end_to_end(path: &str) -> bool {
    !path.contains("/src/") && path.contains("/tests/e2e")
}

/// A function named `sleep`, called or passed on by its path; not a method, not a definition.
fn is_sleep(file: &RustFile, index: usize) -> bool {
    let is_name = matches!(&file.tokens[index].kind, TokenKind::Ident(word) if word == "sleep");
    let in_path = file.before(index, 1) == Some(&TokenKind::Punct(':'));
    let is_called = file.after(index) == Some(&TokenKind::Open('('))
        && file.before(index, 1) != Some(&TokenKind::Punct('.'))
        && file.before(index, 1) != Some(&TokenKind::Ident("fn".to_owned()));
    is_name && (in_path || is_called)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failures;

    fn found(path: &str, text: &str) -> usize {
        failures(run, &[(path, text)]).len()
    }

    #[test]
    fn a_sleeping_test_is_found_wherever_it_is() {
        let calls =
            ["std::thread::sleep(d)", "sleep(d)", "m!(thread::sleep(d))", "x.map(thread::sleep)"];
        for call in calls {
            let test = format!("#[test] fn t() {{ {call}; }}");
            assert_eq!(found("crates/nothing/src/lib.rs", &test), 1, "{call}");
            assert_eq!(found("crates/nothing/tests/fast.rs", &format!("fn f() {{ {call}; }}")), 1);
        }
        let module = "#[cfg(test)] mod t { fn help() { std::thread::sleep(d) } }";
        assert_eq!(
            failures(run, &[("crates/nothing/src/lib.rs", module)]),
            ["crates/nothing/src/lib.rs:1: a test sleeps outside tests/e2e*"]
        );
    }

    #[test]
    fn end_to_end_tests_and_the_product_are_not_this_gates_matter() {
        let sleep = "fn f() { std::thread::sleep(d) }";
        assert_eq!(found("crates/nothing/tests/e2e.rs", sleep), 0);
        assert_eq!(found("crates/nothing/tests/e2e_fio/mod.rs", sleep), 0);
        assert_eq!(found("crates/nothing/src/lib.rs", sleep), 0);
    }

    #[test]
    fn other_sleeps_pass() {
        assert_eq!(found("crates/nothing/tests/a.rs", "fn sleep() {} fn f() { disk.sleep() }"), 0);
    }
}
