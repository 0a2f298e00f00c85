//! A copy of the workspace in which mistakes are planted, under cargo's target directory.
//!
//! Files are written only where their content differs, so builds stay incremental from run to run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::list::Mutant;
use crate::stream::Deadline;
use crate::workspace::{Workspace, cargo};

/// Builds are short: without debug information, dependencies without optimization.
const SETTINGS: [&str; 4] = [
    "profile.mutants.inherits='dev'",
    "profile.mutants.debug=0",
    "profile.mutants.opt-level=1",
    "profile.mutants.package.'*'.opt-level=0",
];

pub(super) struct Scratch {
    tree: PathBuf,
    build: PathBuf,
}

impl Scratch {
    /// The copy, made or brought up to date.
    ///
    /// # Errors
    /// When a file can't be read or written.
    pub(super) fn sync(workspace: &Workspace) -> Result<Self> {
        let dir = workspace.target.join("mutants");
        let scratch = Self { tree: dir.join("tree"), build: dir.join("build") };
        let wanted: BTreeSet<_> =
            workspace.texts.iter().map(|file| scratch.tree.join(&file.path)).collect();
        fs::create_dir_all(&scratch.tree).with_context(|| shown("make", &scratch.tree))?;
        remove_others(&scratch.tree, &wanted)?;
        for file in &workspace.texts {
            write(&scratch.tree.join(&file.path), &file.text)?;
        }
        Ok(scratch)
    }

    /// Plants a mutant, does something, and takes the mutant out.
    ///
    /// # Errors
    /// When `then` fails, or the file can't be read or written.
    pub(super) fn with<T>(&self, mutant: &Mutant, then: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = self.tree.join(&mutant.file);
        let text = fs::read_to_string(&path).with_context(|| shown("read", &path))?;
        write(&path, &text.replacen(&mutant.text, &mutant.replacement, 1))?;
        let result = then();
        write(&path, &text)?;
        result
    }

    /// `cargo test` with `words` in the copy; it ends when the time is up.
    pub(super) fn test(&self, deadline: Deadline, words: &[String]) -> Command {
        self.configure(deadline.command(&cargo()), words)
    }

    /// Adds what `cargo test` needs here to a command that runs cargo.
    pub(super) fn configure(&self, mut command: Command, words: &[String]) -> Command {
        command.current_dir(&self.tree).env_remove("CARGO_ENCODED_RUSTFLAGS");
        // A mistake may leave something unused.
        command.env("RUSTFLAGS", "--cap-lints=warn");
        // One file changes at a time, also where the rest is built once.
        command.env("CARGO_INCREMENTAL", "1");
        command.args(["test", "--profile", "mutants", "--target-dir"]).arg(&self.build);
        command.args(SETTINGS.iter().flat_map(|setting| ["--config", *setting]));
        command.args(words);
        command
    }
}

/// Removes the files under `dir` that are not wanted.
fn remove_others(dir: &Path, wanted: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| shown("list", dir))? {
        let entry = entry.with_context(|| shown("list", dir))?;
        let path = entry.path();
        if entry.file_type().with_context(|| shown("look at", &path))?.is_dir() {
            remove_others(&path, wanted)?;
            // A crate's folder without its files would still be a member of the workspace.
            if !wanted.iter().any(|file| file.starts_with(&path)) {
                fs::remove_dir(&path).with_context(|| shown("remove", &path))?;
            }
        } else if !wanted.contains(&path) {
            fs::remove_file(&path).with_context(|| shown("remove", &path))?;
        }
    }
    Ok(())
}

/// Writes a file if it is not that already.
fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let dir = path.parent().context("a file has a directory")?;
    fs::create_dir_all(dir).with_context(|| shown("make", dir))?;
    fs::write(path, text).with_context(|| shown("write", path))
}

fn shown(what: &str, path: &Path) -> String {
    format!("cannot {what} {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn the_copy_has_the_files_of_the_workspace_and_no_others() {
        let fixture = Fixture::new(&[(".gitignore", "/target\n"), ("kept.md", "text")]);
        let workspace = fixture.workspace();
        let tree = workspace.target.join("mutants/tree");
        write(&tree.join("old/gone.md"), "text").expect("it can be written");
        write(&tree.join("kept.md"), "other").expect("it can be written");
        Scratch::sync(&workspace).expect("it can be written");
        assert_eq!(fs::read_to_string(tree.join("kept.md")).expect("it is there"), "text");
        assert!(!tree.join("old").exists(), "nor its folder, which would be a crate without files");
        let written =
            |path: &Path| fs::metadata(path).and_then(|it| it.modified()).expect("it is there");
        let before = written(&tree.join("kept.md"));
        Scratch::sync(&workspace).expect("it can be written");
        assert_eq!(written(&tree.join("kept.md")), before, "a file that is the same is left alone");
    }
}
