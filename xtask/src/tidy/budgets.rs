//! A crate that must stay small has a budget of lines of code.
//!
//! Lines that are empty or only a comment don't count, and neither do tests.

use proc_macro2::LineColumn;

use super::sizes::code_lines;
use crate::finding::{Finding, Report};
use crate::source::RustFile;
use crate::workspace::Workspace;

/// Directories of sources, each with the most lines of code that it may have.
const BUDGETS: &[(&str, usize)] = &[("crates/core/src", 9_270)];

/// Finds directories with more code than their budget.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let over = BUDGETS.iter().filter_map(|(dir, most)| {
        let inside = |file: &&RustFile| {
            file.path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
        };
        let files = workspace.rust.iter().filter(inside);
        let lines: usize = files.map(|file| product_lines(workspace, file)).sum();
        let what = format!(
            "{lines} lines of code without tests, at most {most}: remove what is repeated or unused"
        );
        (lines > *most).then(|| Finding::new(*dir, what))
    });
    over.collect::<Vec<_>>().into()
}

fn product_lines(workspace: &Workspace, file: &RustFile) -> usize {
    let lines = file.text.lines().zip(code_lines(&file.text)).zip(1..);
    let product = lines.filter(|&((text, is_code), line)| {
        let column = text.chars().take_while(|it| it.is_whitespace()).count();
        is_code && !workspace.is_test(file, LineColumn { line, column })
    });
    product.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, failures, manifest};

    const CORE: &str = "crates/core/src/lib.rs";

    #[test]
    fn comments_empty_lines_and_tests_do_not_count() {
        let text = "//! a\nmod x;\n\nfn f() {\n    // why\n    g();\n}\n#[cfg(test)]\nmod tests {\n    fn h() {}\n}\n";
        let x = ("crates/core/src/x.rs", "#[cfg(test)]\nmod tests;\nfn k() {}");
        let tests = ("crates/core/src/x/tests.rs", "fn t() {}\n");
        let core = manifest("core", "");
        let files = [("crates/core/Cargo.toml", core.as_str()), (CORE, text), x, tests];
        let workspace = Fixture::new(&files).workspace();
        let lines = |path: &str| {
            let file = workspace.rust.iter().find(|it| it.path == path);
            product_lines(&workspace, file.expect("it was planted"))
        };
        assert_eq!([lines(CORE), lines(x.0), lines(tests.0)], [4, 1, 0]);
    }

    #[test]
    fn a_crate_beyond_its_budget_is_named() {
        let half = "use a;\n".repeat(4_635);
        let more = format!("{half}use b;\n");
        let [core, corex] = ["core", "corex"].map(|name| manifest(name, ""));
        let found = |other: &str| {
            let files = [
                ("crates/core/Cargo.toml", core.as_str()),
                ("crates/corex/Cargo.toml", corex.as_str()),
                ("crates/corex/src/lib.rs", &half),
                (CORE, &half),
                ("crates/core/src/other.rs", other),
            ];
            failures(run, &files)
        };
        assert_eq!(found(&half), [""; 0]);
        let what = "9271 lines of code without tests, at most 9270";
        assert_eq!(
            found(&more),
            [format!("crates/core/src: {what}: remove what is repeated or unused")]
        );
    }
}
