//! The order of a crate's modules: each may use those below it, and none above.

use std::collections::BTreeSet;

use super::{graphs, is_root};
use crate::finding::Finding;
use crate::source::module_files;
use crate::workspace::Workspace;

/// A crate's root and the modules directly below it, from top to bottom. Every such module is listed.
pub(super) const LAYERS: &[(&str, &[&str])] = &[(
    "crates/core/src/lib.rs",
    &["engine", "policy", "shaping", "classes", "cost", "account", "types"],
)];

/// Finds arrows that point upwards, and modules that have no place in the order or are not there.
pub(super) fn judge(workspace: &Workspace, listed: &[(&str, &[&str])]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, order) in listed {
        let found = workspace.rust.iter().find(|it| it.path == *path && is_root(it, workspace));
        let Some(root) = found else {
            let what = "is listed in xtask/src/tidy/cycles/layers.rs and is no crate's root";
            findings.push(Finding::new(*path, format!("{what}: remove its line")));
            continue;
        };
        let modules = module_files(&workspace.rust, root);
        let names: BTreeSet<&str> =
            modules.keys().filter_map(|it| Some(it.first()?.as_str())).collect();
        let listed: BTreeSet<&str> = order.iter().copied().collect();
        for module in names.symmetric_difference(&listed) {
            let what = if listed.contains(module) { "does not exist" } else { "has no place" };
            let what =
                format!("module {module} {what} in the order of xtask/src/tidy/cycles/layers.rs");
            findings.push(Finding::new(*path, what));
        }
        let place = |module: &str| order.iter().position(|it| *it == module);
        for (from, to, seen_at) in
            graphs(&workspace.rust, root).get(&Vec::new()).iter().flat_map(|it| it.arrows())
        {
            if place(to) < place(from) && place(to).is_some() {
                let what = format!(
                    "{from} uses {to} ({seen_at}), which is above it: {}",
                    order.join(" > ")
                );
                findings.push(Finding::new(*path, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, manifest};

    const A: &str = "crates/a/src/lib.rs";

    fn found(files: &[(&str, &str)], listed: &[(&str, &[&str])]) -> Vec<String> {
        let manifest = manifest("a", "");
        let files = [&[("crates/a/Cargo.toml", manifest.as_str())], files].concat();
        judge(&Fixture::new(&files).workspace(), listed).iter().map(ToString::to_string).collect()
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
        assert_eq!(
            found(&files, &[(A, &["high", "low"])]),
            [
                "crates/a/src/lib.rs: low uses high (crates/a/src/low/deep.rs:2), which is above it: \
                 high > low"
            ]
        );
        assert!(
            found(&files[..3], &[(A, &["high", "low"])]).is_empty(),
            "downwards is how arrows point"
        );
    }

    #[test]
    fn every_module_has_a_place_and_every_place_a_module() {
        let files = [(A, "mod x; mod y;"), ("crates/a/src/x.rs", ""), ("crates/a/src/y.rs", "")];
        let where_ = "in the order of xtask/src/tidy/cycles/layers.rs";
        assert_eq!(
            found(&files, &[(A, &["x", "z"])]),
            [
                format!("crates/a/src/lib.rs: module y has no place {where_}"),
                format!("crates/a/src/lib.rs: module z does not exist {where_}"),
            ]
        );
        let gone = found(&files, &[("crates/gone/src/lib.rs", &[])]);
        assert!(gone[0].contains("remove its line"), "{gone:?}");
    }
}
