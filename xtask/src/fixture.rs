//! Small workspaces in a temporary directory, in which tests plant violations.

use std::path::Path;

use tempfile::TempDir;

use crate::finding::Report;
use crate::workspace::{Workspace, git};

const ROOT: &str = "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n";
const NOTHING: (&str, &str) = ("crates/nothing/src/lib.rs", "");

/// A workspace on disk; gone when dropped.
pub(crate) struct Fixture {
    dir: TempDir,
}

impl Fixture {
    /// Writes `files`, pairs of path and text, beside a root manifest and one empty crate.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let fixture = Self { dir: TempDir::new().expect("a temporary directory can be made") };
        fixture.write("Cargo.toml", ROOT);
        fixture.write("crates/nothing/Cargo.toml", &manifest("nothing", ""));
        fixture.write(NOTHING.0, NOTHING.1);
        files.iter().for_each(|(path, text)| fixture.write(path, text));
        let status = git(fixture.root()).args(["init", "--quiet"]).status();
        assert!(status.is_ok_and(|status| status.success()), "git init works");
        fixture
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Its target directory is its own, whatever cargo was told.
    pub(crate) fn workspace(&self) -> Workspace {
        let mut workspace = Workspace::load(self.root()).expect("the fixture is a workspace");
        workspace.target = self.root().join("target");
        workspace
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        let parent = path.parent().expect("a file has a parent");
        std::fs::create_dir_all(parent).expect("a directory can be made");
        std::fs::write(path, text).expect("a file can be written");
    }
}

/// A member's manifest, with `rest` after `[package]`.
pub(crate) fn manifest(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}\n")
}

/// The findings of `gate` on a workspace with these files, as lines.
pub(crate) fn failures(gate: fn(&Workspace) -> Report, files: &[(&str, &str)]) -> Vec<String> {
    let report = gate(&Fixture::new(files).workspace());
    report.failures.iter().map(ToString::to_string).collect()
}
