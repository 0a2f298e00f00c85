//! Which crate may depend on which. Everything else the design says about crates rests on this.

use crate::finding::{Finding, Report};
use crate::workspace::{Dependency, DependencyKind, Package, Workspace};

/// A package and the packages of ours that it may depend on, in normal, build and dev tables.
const ARROWS: &[(&str, &[&str])] = &[
    ("disktime-core", &[]),
    ("disktime-nbd", &[]),
    ("disktime-rivals", &["disktime-core"]),
    ("disktime-model", &["disktime-core"]),
    ("disktime-config", &["disktime-core", "disktime-rivals"]),
    ("disktime-workload", &["disktime-config", "disktime-core"]),
    ("disktime-profiler", &["disktime-core", "disktime-workload"]),
    ("disktime-plan", &["disktime-core", "disktime-profiler", "disktime-workload"]),
    (
        "disktime-sim",
        &[
            "disktime-config",
            "disktime-core",
            "disktime-model",
            "disktime-profiler",
            "disktime-rivals",
            "disktime-workload",
        ],
    ),
    (
        "disktime-client",
        &["disktime-core", "disktime-nbd", "disktime-profiler", "disktime-workload"],
    ),
    ("disktime-api", &[]),
    (
        "disktime-control",
        &["disktime-api", "disktime-client", "disktime-config", "disktime-core", "disktime-server"],
    ),
    ("disktime-report", &[]),
    (
        "disktime-papers",
        &[
            "disktime-config",
            "disktime-core",
            "disktime-model",
            "disktime-rivals",
            "disktime-workload",
            "disktime-sim",
            "disktime-report",
        ],
    ),
    (
        "disktime-server",
        &[
            "disktime-core",
            "disktime-nbd",
            "disktime-model",
            "disktime-client",
            "disktime-config",
            "disktime-plan",
            "disktime-profiler",
            "disktime-rivals",
            "disktime-workload",
        ],
    ),
    (
        "disktime-fuse",
        &[
            "disktime-client",
            "disktime-config",
            "disktime-core",
            "disktime-model",
            "disktime-profiler",
            "disktime-server",
        ],
    ),
    (
        "disktime-bench",
        &[
            "disktime-client",
            "disktime-config",
            "disktime-core",
            "disktime-model",
            "disktime-nbd",
            "disktime-papers",
            "disktime-report",
            "disktime-rivals",
            "disktime-server",
            "disktime-sim",
            "disktime-workload",
        ],
    ),
    (
        "disktime",
        &[
            "disktime-api",
            "disktime-bench",
            "disktime-client",
            "disktime-config",
            "disktime-control",
            "disktime-core",
            "disktime-fuse",
            "disktime-model",
            "disktime-nbd",
            "disktime-papers",
            "disktime-plan",
            "disktime-profiler",
            "disktime-report",
            "disktime-rivals",
            "disktime-server",
            "disktime-sim",
            "disktime-workload",
        ],
    ),
    ("xtask", &[]),
];

/// Finds edges that aren't stated, packages without a statement and misnamed directories.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let mut failures = Vec::new();
    for package in &workspace.packages {
        let manifest = format!("{}/Cargo.toml", package.dir);
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            let what = format!("no arrows are stated for package {}", package.name);
            failures.push(Finding::new(manifest, what));
            continue;
        };
        if package.dir != expected_dir(&package.name) {
            let what = format!("package {} lives in {}", package.name, expected_dir(&package.name));
            failures.push(Finding::new(&manifest, what));
        }
        let ours = |it: &&Dependency| workspace.package(&it.name).is_some();
        for edge in package.dependencies.iter().filter(ours) {
            if !allowed.contains(&edge.name.as_str()) {
                failures.push(Finding::new(&manifest, describe(package, edge)));
            }
        }
    }
    failures.into()
}

fn describe(package: &Package, edge: &Dependency) -> String {
    let table = match edge.kind {
        DependencyKind::Normal => "dependency",
        DependencyKind::Build => "build-dependency",
        DependencyKind::Dev => "dev-dependency",
    };
    format!("{table} {} -> {} is not a stated arrow", package.name, edge.name)
}

fn expected_dir(package: &str) -> String {
    match package {
        "disktime" => "crates/cli".to_owned(),
        "xtask" => "xtask".to_owned(),
        name => format!("crates/{}", name.trim_start_matches("disktime-")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{failures, manifest};

    fn found(crates: &[(&str, &str, &str)]) -> Vec<String> {
        let mut files = Vec::new();
        for (dir, name, rest) in crates {
            files.push((format!("crates/{dir}/Cargo.toml"), manifest(name, rest)));
            files.push((format!("crates/{dir}/src/lib.rs"), String::new()));
        }
        let files: Vec<_> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let mut found = failures(run, &files);
        found.retain(|line| !line.contains("package nothing"));
        found
    }

    const CORE: (&str, &str, &str) = ("core", "disktime-core", "");

    #[test]
    fn a_stated_arrow_passes() {
        let model = "[dependencies]\ndisktime-core = { path = \"../core\" }";
        assert_eq!(found(&[CORE, ("model", "disktime-model", model)]), Vec::<String>::new());
    }

    #[test]
    fn a_planted_edge_is_reported_with_its_name() {
        let model = "[dependencies]\ndisktime-nbd = { path = \"../nbd\" }";
        assert_eq!(
            found(&[("nbd", "disktime-nbd", ""), ("model", "disktime-model", model)]),
            [
                "crates/model/Cargo.toml: dependency disktime-model -> disktime-nbd is not a stated arrow"
            ]
        );
    }

    #[test]
    fn a_renamed_build_edge_is_seen() {
        let nbd = "[build-dependencies]\nx = { package = \"disktime-core\", path = \"../core\" }";
        assert_eq!(
            found(&[CORE, ("nbd", "disktime-nbd", nbd)]),
            [
                "crates/nbd/Cargo.toml: build-dependency disktime-nbd -> disktime-core is not a stated arrow"
            ]
        );
    }

    #[test]
    fn tests_get_no_exception() {
        let client = ("client", "disktime-client", "");
        let as_dev = "[dev-dependencies]\ndisktime-client = { path = \"../client\" }";
        assert_eq!(
            found(&[client, ("core", "disktime-core", as_dev)]).last().map(String::as_str),
            Some(
                "crates/core/Cargo.toml: dev-dependency disktime-core -> disktime-client is not a stated arrow"
            )
        );
    }

    #[test]
    fn an_unknown_package_and_a_misnamed_directory_are_reported() {
        assert_eq!(
            found(&[("odd", "disktime-odd", ""), ("kernel", "disktime-core", "")]),
            [
                "crates/kernel/Cargo.toml: package disktime-core lives in crates/core",
                "crates/odd/Cargo.toml: no arrows are stated for package disktime-odd",
            ]
        );
    }
}
