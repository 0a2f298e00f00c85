//! The workspace as the gates see it: packages from `cargo metadata`, files from git's list, Rust
//! parsed. Read once, then never changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use proc_macro2::LineColumn;
use serde_json::Value;

use crate::finding::Finding;
use crate::source::{self, RustFile};

/// Everything that is in the workspace and not ignored by git.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where cargo builds, absolute.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
    /// Every file that is UTF-8 text, in the order of their paths.
    pub(crate) texts: Vec<TextFile>,
    /// The Rust files among them that parse.
    pub(crate) rust: Vec<RustFile>,
    /// Rust files that don't.
    pub(crate) unparsed: Vec<Finding>,
    /// Files that are compiled for tests only.
    test_files: BTreeSet<String>,
}

/// A member of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Relative to the root, as in `crates/core`.
    pub(crate) dir: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) binaries: Vec<TestBinary>,
    pub(crate) has_build_script: bool,
}

/// One entry of a manifest's dependency tables.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// The package's own name, whatever the manifest calls it.
    pub(crate) name: String,
    pub(crate) kind: DependencyKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DependencyKind {
    Normal,
    Build,
    Dev,
}

/// Something that `cargo test` builds and runs.
#[derive(Debug)]
pub(crate) struct TestBinary {
    /// nextest's name for it: `package`, `package::target` or `package::bin/target`.
    pub(crate) id: String,
    /// The arguments with which cargo selects it.
    pub(crate) selector: Vec<String>,
}

/// A file of text; `path` is relative to the root, with `/`.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Workspace {
    /// Reads the workspace that contains `start`.
    ///
    /// # Errors
    /// When cargo or git can't describe it.
    pub(crate) fn load(start: &Path) -> Result<Self> {
        let metadata = metadata(start)?;
        let root = PathBuf::from(text(&metadata, "workspace_root")?);
        let packages = list(&metadata, "packages")
            .map(|package| read_package(package, &root))
            .collect::<Result<Vec<_>>>()?;
        let texts = read_texts(&root)?;
        let (mut rust, mut unparsed) = (Vec::new(), Vec::new());
        for file in texts.iter().filter(|file| file.path.ends_with(".rs")) {
            match RustFile::parse(&file.path, &file.text) {
                Ok(parsed) => rust.push(parsed),
                Err(finding) => unparsed.push(finding),
            }
        }
        let test_files = source::test_files(&rust);
        let target = PathBuf::from(text(&metadata, "target_directory")?);
        Ok(Self { root, target, packages, texts, rust, unparsed, test_files })
    }

    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    pub(crate) fn text(&self, path: &str) -> Option<&TextFile> {
        self.texts.iter().find(|file| file.path == path)
    }

    /// The Rust files under `dir`, a path that ends in `/`.
    pub(crate) fn rust_under<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = &'a RustFile> {
        self.rust.iter().filter(move |file| file.path.starts_with(dir))
    }

    /// Whether what stands at this place is compiled for tests only.
    pub(crate) fn is_test(&self, file: &RustFile, at: LineColumn) -> bool {
        self.test_files.contains(&file.path) || file.is_test(at)
    }
}

/// The cargo that runs us, or the one in the path.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// git on the repository at `root`, for any owner and any setting of a hook.
pub(crate) fn git(root: &Path) -> Command {
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "-C"]).arg(root);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        git.env_remove(name);
    }
    git
}

fn metadata(start: &Path) -> Result<Value> {
    let output = Command::new(cargo())
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(start)
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")
}

fn read_package(package: &Value, root: &Path) -> Result<Package> {
    let name = text(package, "name")?;
    let manifest = Path::new(text(package, "manifest_path")?);
    let dir = manifest.parent().and_then(|dir| dir.strip_prefix(root).ok()).unwrap_or(root);
    let targets: Vec<_> = list(package, "targets").collect();
    Ok(Package {
        name: name.to_owned(),
        dir: dir.to_string_lossy().into_owned(),
        dependencies: list(package, "dependencies").map(read_dependency).collect::<Result<_>>()?,
        binaries: targets.iter().filter_map(|target| test_binary(name, target)).collect(),
        has_build_script: targets.iter().any(|target| kinds(target).any(|it| it == "custom-build")),
    })
}

fn read_dependency(dependency: &Value) -> Result<Dependency> {
    let kind = match dependency.get("kind").and_then(Value::as_str) {
        Some("dev") => DependencyKind::Dev,
        Some("build") => DependencyKind::Build,
        _ => DependencyKind::Normal,
    };
    Ok(Dependency { name: text(dependency, "name")?.to_owned(), kind })
}

fn test_binary(package: &str, target: &Value) -> Option<TestBinary> {
    let name = text(target, "name").ok()?;
    let (id, selector) = match kinds(target).next()? {
        "test" => (format!("{package}::{name}"), vec!["--test", name]),
        "bin" => (format!("{package}::bin/{name}"), vec!["--bin", name]),
        "lib" | "rlib" | "proc-macro" => (package.to_owned(), vec!["--lib"]),
        _ => return None,
    };
    let selector = ["--package", package].into_iter().chain(selector).map(str::to_owned).collect();
    Some(TestBinary { id, selector })
}

fn kinds(target: &Value) -> impl Iterator<Item = &str> {
    list(target, "kind").filter_map(Value::as_str)
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value.get(key).and_then(Value::as_str).with_context(|| format!("metadata has no {key}"))
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Tracked files and new ones that aren't ignored; files that aren't text are left out.
fn read_texts(root: &Path) -> Result<Vec<TextFile>> {
    let output = git(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("cannot run git ls-files")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8_lossy(&output.stdout);
    let paths: BTreeSet<&str> = names.split('\0').filter(|name| !name.is_empty()).collect();
    // A file that is deleted and not yet committed is still listed, so reading may fail.
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    Ok(paths
        .into_iter()
        .filter_map(|path| Some(TextFile { path: path.to_owned(), text: read(path)? }))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::DependencyKind;
    use crate::fixture::{Fixture, manifest};

    #[test]
    fn packages_carry_their_dependencies_and_test_binaries() {
        let workspace = Fixture::new(&[
            ("crates/a/Cargo.toml", &manifest("a", "[dev-dependencies]\nb = { path = \"../b\" }")),
            ("crates/a/src/lib.rs", ""),
            ("crates/a/tests/e2e.rs", ""),
            ("crates/b/Cargo.toml", &manifest("b", "")),
            ("crates/b/src/main.rs", "fn main() {}"),
            ("crates/b/build.rs", "fn main() {}"),
        ])
        .workspace();
        let a = workspace.package("a").unwrap();
        assert_eq!(a.dir, "crates/a");
        assert_eq!(a.dependencies[0].name, "b");
        assert_eq!(a.dependencies[0].kind, DependencyKind::Dev);
        let ids: Vec<_> = a.binaries.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(ids, ["a", "a::e2e"]);
        let b = workspace.package("b").unwrap();
        assert_eq!(b.binaries[0].id, "b::bin/b");
        assert!(b.has_build_script && !a.has_build_script);
    }

    #[test]
    fn ignored_files_and_files_that_are_not_text_are_left_out() {
        let fixture =
            Fixture::new(&[(".gitignore", "/out\n"), ("out/big", "x"), ("kept.md", "text")]);
        std::fs::write(fixture.root().join("image"), [0xff, 0xfe, 0x00]).unwrap();
        let workspace = fixture.workspace();
        assert!(workspace.text("kept.md").is_some());
        assert!(workspace.text("out/big").is_none() && workspace.text("image").is_none());
    }
}
