//! No crate re-exports another of ours: a path such as `sim::core::Share` would hide an arrow to `core`
//! behind one to `sim`. A crate that uses another names it in its manifest, where `arrows` sees it.

use crate::finding::{Finding, Report};
use crate::workspace::Workspace;

/// Finds `pub use` of a package of the workspace, whole or in part, directly or under a private import's
/// name.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let names: Vec<String> =
        workspace.packages.iter().map(|package| package.name.replace('-', "_")).collect();
    let mut failures = Vec::new();
    for file in &workspace.rust {
        for scope in file.scopes.values() {
            for export in &scope.exports {
                let first = &export.segments[0];
                let import = scope.imports.get(first).filter(|path| path[0] != *first);
                let other = import.map_or(first, |path| &path[0]);
                if names.contains(other) {
                    let what = format!(
                        "re-exports {}: let users depend on {other} themselves",
                        export.segments.join("::")
                    );
                    failures.push(Finding::at(&file.path, export.line, what));
                }
            }
        }
    }
    failures.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failures;

    /// 144 uses of the core went through `sim::core`, and no gate saw that the papers depend on it.
    #[test]
    fn a_re_export_of_ours_is_found_however_it_is_written() {
        let lib = "pub use nothing as core;\npub use nothing::{a::B, C};\nuse nothing as it;\npub use it::D;\n\
                   pub use std::fmt;\npub(crate) use nothing::E;\npub mod inner { pub use nothing::*; }\n";
        let manifest = crate::fixture::manifest("a", "");
        let files = [("crates/a/Cargo.toml", manifest.as_str()), ("crates/a/src/lib.rs", lib)];
        assert_eq!(
            failures(run, &files),
            [
                "crates/a/src/lib.rs:1: re-exports nothing: let users depend on nothing themselves",
                "crates/a/src/lib.rs:2: re-exports nothing::a::B: let users depend on nothing themselves",
                "crates/a/src/lib.rs:2: re-exports nothing::C: let users depend on nothing themselves",
                "crates/a/src/lib.rs:4: re-exports it::D: let users depend on nothing themselves",
                "crates/a/src/lib.rs:7: re-exports nothing: let users depend on nothing themselves",
            ]
        );
    }
}
