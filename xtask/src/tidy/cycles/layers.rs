//! The order of a crate's modules: each may use those below it, and none above.

use std::collections::BTreeSet;

use super::{Graph, graphs, is_root};
use crate::finding::Finding;
use crate::source::{RustFile, module_files};
use crate::workspace::Workspace;

/// The list of crates whose modules have an order; none if there is no such file.
const PATH: &str = "xtask/layers.txt";

/// Finds arrows that point upwards, modules without a place in the order, and places without a module.
pub(super) fn judge(workspace: &Workspace) -> Vec<Finding> {
    let text = workspace.text(PATH).map_or("", |file| &file.text);
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        let Some(path) = words.next().filter(|word| *word != "#") else { continue };
        let order: Vec<&str> = words.collect();
        let found = workspace.rust.iter().find(|it| it.path == path && is_root(it, workspace));
        if let Some(root) = found {
            findings.extend(of_crate(&workspace.rust, root, &order));
        } else {
            let what = format!("{path} is no crate's root: remove its line");
            findings.push(Finding::at(PATH, index + 1, what));
        }
    }
    findings
}

fn of_crate(files: &[RustFile], root: &RustFile, order: &[&str]) -> Vec<Finding> {
    let modules = module_files(files, root);
    let known: BTreeSet<&str> =
        modules.keys().filter_map(|module| module.first()).map(String::as_str).collect();
    let listed: BTreeSet<&str> = order.iter().copied().collect();
    let mut findings = Vec::new();
    for module in known.difference(&listed) {
        let what = format!("module {module} has no place in {PATH}: add it");
        findings.push(Finding::new(&root.path, what));
    }
    for module in listed.difference(&known) {
        let what = format!("module {module} in {PATH} does not exist: remove it");
        findings.push(Finding::new(&root.path, what));
    }
    let place = |module: &str| order.iter().position(|it| *it == module);
    let graphs = graphs(files, root);
    for (from, to, seen_at) in graphs.get(&Vec::new()).into_iter().flat_map(Graph::arrows) {
        let (Some(lower), Some(upper)) = (place(from), place(to)) else { continue };
        if upper < lower {
            let order = order.join(" > ");
            let what = format!("{from} uses {to} ({seen_at}), which is above it: {order}");
            findings.push(Finding::new(&root.path, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, manifest};

    const A: &str = "crates/a/src/lib.rs";

    fn found(files: &[(&str, &str)], listed: &str) -> Vec<String> {
        let manifest = manifest("a", "");
        let added = [("crates/a/Cargo.toml", manifest.as_str()), (PATH, listed)];
        let fixture = Fixture::new(&[&added, files].concat());
        judge(&fixture.workspace()).iter().map(ToString::to_string).collect()
    }

    /// Contracts named what the engine's errors are made of, and streams the engine's own tables: no
    /// module could be read without all of them.
    #[test]
    fn an_arrow_that_points_upwards_is_named_with_its_line() {
        let files = [
            (A, "mod low; mod high; pub use high::H;"),
            ("crates/a/src/high.rs", "use crate::low::L; pub struct H(L);"),
            ("crates/a/src/low.rs", "mod deep; pub struct L;"),
            ("crates/a/src/low/deep.rs", "\nuse crate::H;"),
        ];
        let listed = format!("# From top to bottom\n{A} high low\n");
        assert_eq!(
            found(&files, &listed),
            [
                "crates/a/src/lib.rs: low uses high (crates/a/src/low/deep.rs:2), which is above it: \
                 high > low"
            ]
        );
        assert!(found(&files[..3], &listed).is_empty(), "downwards is how arrows point");
        assert!(found(&files, "# none\n").is_empty(), "the crate has no order");
    }

    #[test]
    fn every_module_has_a_place_and_every_place_a_module() {
        let files = [(A, "mod x; mod y;"), ("crates/a/src/x.rs", ""), ("crates/a/src/y.rs", "")];
        assert_eq!(
            found(&files, &format!("{A} x z\ncrates/gone/src/lib.rs x\n")),
            [
                "crates/a/src/lib.rs: module y has no place in xtask/layers.txt: add it",
                "crates/a/src/lib.rs: module z in xtask/layers.txt does not exist: remove it",
                "xtask/layers.txt:2: crates/gone/src/lib.rs is no crate's root: remove its line",
            ]
        );
    }
}
