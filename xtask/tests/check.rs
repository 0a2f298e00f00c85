//! Runs `check` on small planted workspaces: a healthy one, and one in which everything is wrong.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const PURE: &str = "//! Pure.\n#![no_std]\n#![forbid(unsafe_code)]\n";

const HEALTHY: &[(&str, &str)] = &[
    ("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n"),
    (".gitignore", "/target\n"),
    ("rustfmt.toml", include_str!("../../rustfmt.toml")),
    (
        "ARCHITECTURE.md",
        "# Planted\n\n## Code map\n\n- crates/core\n- crates/nbd\n- crates/rivals\n",
    ),
    ("xtask/expected-red.txt", "# none\n"),
    ("xtask/mutants.txt", "# none\n"),
    ("xtask/nextest.toml", include_str!("../nextest.toml")),
    ("crates/core/Cargo.toml", "[package]\nname = \"disktime-core\"\nedition = \"2024\"\n"),
    ("crates/nbd/Cargo.toml", "[package]\nname = \"disktime-nbd\"\nedition = \"2024\"\n"),
    ("crates/rivals/Cargo.toml", "[package]\nname = \"disktime-rivals\"\nedition = \"2024\"\n"),
    ("crates/core/src/lib.rs", PURE),
    ("crates/nbd/src/lib.rs", PURE),
    ("crates/rivals/src/lib.rs", PURE),
    ("crates/core/tests/all.rs", TESTS),
];

const TESTS: &str = r#"//! Planted tests.

use std::io::Write as _;

#[test]
fn good() {}

#[test]
fn needs_more() {
    let path = std::env::var_os("DISKTIME_SKIPS").expect("check names the file");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("it is there");
    writeln!(file, "SKIP: needs_more: planted").expect("it can be written");
}
"#;

const BAD_TESTS: &str = r#"
#[test]
fn bad() {
    panic!("planted");
}

#[test]
fn red() {
    panic!("planted, and listed");
}
"#;

/// Formatted badly, with an unused variable, a broken link and a failing example.
const BAD_LIB: &str = r"
/// See [`nowhere`].
///
/// ```
/// assert_eq!(1, 2);
/// ```
pub fn  planted() { let unused = 1; }
";

struct Planted {
    dir: TempDir,
}

impl Planted {
    fn new(files: &[(&str, &str)]) -> Self {
        let planted = Self { dir: TempDir::new().expect("a temporary directory can be made") };
        for (path, text) in files {
            let path = planted.root().join(path);
            let parent = path.parent().expect("a file has a parent");
            std::fs::create_dir_all(parent).expect("a directory can be made");
            std::fs::write(path, text).expect("a file can be written");
        }
        planted.must("git", &["init", "--quiet"]);
        planted.must(env!("CARGO"), &["generate-lockfile", "--offline", "--quiet"]);
        planted
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    /// A command in the planted workspace that knows nothing of the run we are part of.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.root());
        let ours = |name: &str| {
            name.starts_with("NEXTEST") || name.starts_with("GIT_") || name.starts_with("DISKTIME_")
        };
        for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        command.env_remove("CI").env("CARGO_TARGET_DIR", self.root().join("target"));
        command
    }

    fn must(&self, program: &str, words: &[&str]) {
        let status = self.command(program).args(words).status().expect("a program can be run");
        assert!(status.success(), "{program} {words:?}");
    }

    fn check(&self, env: &[(&str, &str)]) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_xtask"));
        command.args(["check", "--no-install"]).envs(env.iter().copied());
        command.output().expect("xtask can be run")
    }
}

/// Lines that the check printed below its table, each once.
fn has_nextest() -> bool {
    let output = Command::new(env!("CARGO")).args(["nextest", "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn closing(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let start = text.rfind("\ngate ").unwrap_or_else(|| panic!("there is a table in:\n{text}"));
    text[start..].to_owned()
}

#[test]
fn a_healthy_workspace_passes_and_its_skips_are_told() {
    let output = Planted::new(HEALTHY).check(&[]);
    let closing = closing(&output);
    assert!(output.status.success(), "{closing}");
    assert!(!closing.contains("FAILED"), "{closing}");
    assert!(closing.contains("\n1 case skipped (their tests count as passed):\n"), "{closing}");
    assert!(closing.contains("\n  SKIP: needs_more: planted\n"), "{closing}");
    assert!(closing.ends_with("\n2 passed, 0 failed, 0 skipped\n"), "{closing}");
    if has_nextest() {
        let (_, slowest) = closing.split_once("  slowest tests\n").expect("there is a table");
        assert!(slowest.contains("  disktime-core::all needs_more\n"), "{closing}");
    }
}

#[test]
fn every_failure_is_listed_and_not_only_the_first() {
    let tests = format!("{TESTS}{BAD_TESTS}");
    let lib = format!("{PURE}{BAD_LIB}");
    let planted = Planted::new(
        &[
            HEALTHY,
            &[
                ("crates/core/tests/all.rs", tests.as_str()),
                ("crates/nbd/src/lib.rs", lib.as_str()),
                ("crates/core/src/lib.rs", "//! Not pure.\n"),
                ("ARCHITECTURE.md", "# Planted\n"),
                (
                    "xtask/expected-red.txt",
                    "disktime-core::all red is planted\ndisktime-core::all good is green\n\
                     disktime-core::all gone was removed\n",
                ),
            ],
        ]
        .concat(),
    );
    // In CI the lock file must be the committed one, and nothing is committed here.
    let output = planted.check(&[("CI", "true")]);
    let closing = closing(&output);
    assert_eq!(output.status.code(), Some(1), "{closing}");
    for expected in [
        "  lockfile: Cargo.lock: is not what the manifests ask for",
        "  format: crates/nbd/src/lib.rs:",
        "  clippy: crates/nbd/src/lib.rs:10:25: unused variable: `unused`",
        "  docs: crates/nbd/src/lib.rs:5:11: unresolved link to `nowhere`",
        "  tidy: purity: crates/core/src/lib.rs: lacks #![no_std]",
        "  tidy: architecture: ARCHITECTURE.md: has no heading \"Code map\"",
        "  tests: disktime-core::all bad: test failed",
        "  doc tests: crates/nbd/src/lib.rs - planted (line 7): test failed",
        "  expected red: disktime-core::all red: expected red: is planted",
        "  expected red: xtask/expected-red.txt:2: disktime-core::all good is no longer red: remove it",
        "  expected red: xtask/expected-red.txt:3: disktime-core::all gone did not run: remove it",
    ] {
        assert!(closing.contains(expected), "{expected}\nis not in\n{closing}");
    }
    assert!(closing.ends_with("\n2 passed, 2 failed, 1 skipped\n"), "{closing}");
}

#[test]
fn wrong_words_are_refused() {
    let planted = Planted::new(HEALTHY);
    let run = |words: &[&str]| {
        planted.command(env!("CARGO_BIN_EXE_xtask")).args(words).output().expect("xtask can be run")
    };
    assert_eq!(run(&["chekc"]).status.code(), Some(2));
    let refused = run(&["check", "--fast"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--fast"));
}
