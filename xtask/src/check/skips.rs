//! Tests that can't run here say so. A runner hides what passing tests print, so they append a line
//! `SKIP: <test>: <reason>` to the file that this variable names.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

pub(super) const VARIABLE: &str = "DISKTIME_SKIPS";

/// The file, empty when a run starts.
pub(super) struct Skips {
    path: PathBuf,
}

impl Skips {
    /// # Errors
    /// When the file can't be written under `target`.
    pub(super) fn start(target: &Path) -> Result<Self> {
        let path = target.join("xtask-skips.txt");
        std::fs::create_dir_all(target)
            .and_then(|()| std::fs::write(&path, ""))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The lines that tests wrote, each once.
    ///
    /// # Errors
    /// When the file is gone.
    pub(super) fn read(&self) -> Result<Vec<String>> {
        let text = std::fs::read_to_string(&self.path)
            .with_context(|| format!("cannot read {}", self.path.display()))?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.retain(|line| !line.trim().is_empty());
        lines.sort_unstable();
        lines.dedup();
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_this_run_are_read_once_each() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("xtask-skips.txt"), "SKIP: old: gone\n").unwrap();
        let skips = Skips::start(dir.path()).unwrap();
        std::fs::write(skips.path(), "SKIP: b: no fio\nSKIP: a: no fio\n\nSKIP: b: no fio\n")
            .unwrap();
        assert_eq!(skips.read().unwrap(), ["SKIP: a: no fio", "SKIP: b: no fio"]);
    }
}
