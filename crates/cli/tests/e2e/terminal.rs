//! Colours, progress and columns.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::needs;
use crate::support::{Daemon, finish, run};

const ESCAPE: &str = "\x1b[";

fn disktime(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(words).env_remove("NO_COLOR");
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A scenario of so many seconds; a hundred take half a second.
fn scenario(directory: &Path, seconds: u32) -> PathBuf {
    let text = format!("[scenario]\nduration = \"{seconds}s\"\nseeds = [1]\n")
        + "[device]\nemulate = \"deskstar-34gxp\"\n\
                [[stream]]\nname = \"a-stream-with-a-rather-long-name\"\nreserve = \"50%\"\n\
                [[stream.phases]]\npace = { closed = { outstanding = 8 } }\n[stream.phases.spec]\n\
                pattern = { runs = { length = 64 } }\nextent = { end = \"9GiB\" }\nsizes = \"4KiB\"\n";
    let path = directory.join("scenario.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Everything that a command printed on a terminal of 80 columns, under these variables.
fn on_a_terminal(directory: &Path, variables: &str, words: &str) -> String {
    let record = directory.join("record");
    let command = format!("stty cols 80; {} {words}", env!("CARGO_BIN_EXE_disktime"));
    let mut script = Command::new("env");
    // In CI the choice of colours passes over TERM=dumb.
    script.args(["-u", "NO_COLOR", "-u", "CI", "TERM=xterm"]).args(variables.split_whitespace());
    run(script.args(["script", "-qc", &command]).arg(&record));
    std::fs::read_to_string(&record).unwrap()
}

#[test]
fn colours_are_on_terminals_and_where_they_are_asked_for() {
    needs!("colours_are_on_terminals_and_where_they_are_asked_for", "script");
    let directory = TempDir::new().unwrap();
    let none = directory.path().join("none").to_str().unwrap().to_owned();
    let failure = ["vdisk", "list", "--state", &none];
    let output = disktime(&failure).output().unwrap();
    assert!(!errors(&output).contains(ESCAPE), "{}", errors(&output));
    let output = disktime(&failure).args(["--color", "always"]).output().unwrap();
    assert!(errors(&output).starts_with("\x1b[31mdisktime:\x1b[0m "), "{}", errors(&output));
    let help = |words: &[&str]| run(&mut disktime(words));
    assert!(!help(&["--help"]).contains(ESCAPE));
    assert!(help(&["--color=always", "--help"]).contains(ESCAPE));
    let shown = |variables, words| on_a_terminal(directory.path(), variables, words);
    assert!(shown("", "--help").contains(ESCAPE));
    assert!(!shown("NO_COLOR=1", "--help").contains(ESCAPE));
    assert!(!shown("TERM=dumb", "--help").contains(ESCAPE));
    assert!(!shown("", "--help --color never").contains(ESCAPE));
    let output = disktime(&["demo", "--color", "sometimes"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("always"), "{}", errors(&output));
}

#[test]
fn progress_is_a_bar_on_a_terminal_lines_elsewhere_and_nothing_beside_json() {
    needs!("progress_is_a_bar_on_a_terminal_lines_elsewhere_and_nothing_beside_json", "script");
    let directory = TempDir::new().unwrap();
    // Long enough for the bar to be drawn with a time left.
    let path = scenario(directory.path(), 200);
    let path = path.to_str().unwrap();
    let shown = on_a_terminal(directory.path(), "", &format!("sim run {path}"));
    assert!(shown.contains(" left") && shown.contains(" %, "), "{shown}");
    assert!(shown.contains("seed 1: "), "{shown}");
    scenario(directory.path(), 10);
    let output = disktime(&["sim", "run", path]).output().unwrap();
    let said = errors(&output);
    assert!(said.starts_with("   0 s: 0 %: simulating 10 s with seed 1\n"), "{said}");
    assert!(!said.contains(ESCAPE), "{said}");
    let output = disktime(&["sim", "run", path, "--json"]).output().unwrap();
    assert_eq!(errors(&output), "");
}

/// Tables took 100 and more.
#[test]
fn tables_and_verdicts_fit_into_80_columns() {
    let disks = r#"
[[device]]
name = "a-device-with-a-long-name"
back_end = "memory"

[[vdisk]]
name = "a-virtual-disk-with-a-rather-long-name"
device = "a-device-with-a-long-name"
size = "64MiB"
reserve = "50%"
"#;
    let daemon = Daemon::start(&format!("control = \"unix:DIRECTORY/control.sock\"\n{disks}"));
    let url = format!("unix:{}", daemon.directory.path().join("control.sock").display());
    let path = scenario(daemon.directory.path(), 10);
    let commands: &[&[&str]] = &[
        &["doctor"],
        &["paper", "list"],
        &["paper", "run", "zygaria-2", "--seeds", "1", "--no-bands"],
        &["sim", "run", path.to_str().unwrap()],
        &["bench", "sched", "--seconds", "0.01", "--vdisks", "10"],
        &["vdisk", "list", "--url", &url],
        &["device", "list", "--url", &url],
        &["top", "--once", "--url", &url],
        &["why", "a-virtual-disk-with-a-rather-long-name", "--url", &url],
    ];
    for words in commands {
        let output = finish(&mut disktime(words));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.is_empty(), "{words:?}: {}", errors(&output));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{words:?}: {line}");
        }
    }
}
