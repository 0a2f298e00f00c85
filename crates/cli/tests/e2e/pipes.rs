//! Commands whose standard output or error nobody reads.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The end of a stream whose other end is closed: a write to it fails with `EPIPE`.
fn closed() -> Stdio {
    let (end, other) = UnixStream::pair().unwrap();
    drop(other);
    std::os::fd::OwnedFd::from(end).into()
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `disktime demo --web | head` ended with "a bug: it panicked".
#[test]
fn a_command_whose_output_nobody_reads_ends_without_a_panic() {
    let directory = TempDir::new().unwrap();
    let image = directory.path().join("image");
    std::fs::write(&image, vec![1; 1 << 20]).unwrap();
    let state = directory.path().join("none").to_str().unwrap().to_owned();
    let cases: &[(&[&str], i32)] = &[
        (&["paper", "list"], 1),
        (&["paper", "list", "--json"], 1),
        (&["bench", "sched", "--seconds", "0.01", "--json"], 1),
        (
            &[
                "play",
                "--rate",
                "1MB/s",
                "--buffer",
                "500ms",
                "--for",
                "1s",
                image.to_str().unwrap(),
            ],
            1,
        ),
        (&["--help"], 1),
        (&["frobnicate", "--json"], 2),
        (&["vdisk", "list", "--json", "--state", &state], 1),
    ];
    for (words, code) in cases {
        let output = command(words).stdout(closed()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{words:?}: {said}");
        assert_eq!(output.status.code(), Some(*code), "{words:?}: {said}");
        // Nor is a closed standard error a reason to panic, which would exit with 101.
        let status = command(words).stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(status.code(), Some(*code), "{words:?}");
    }
}

/// A script that fills its file system was told of a panic.
#[test]
fn a_full_standard_output_is_an_error_that_is_told() {
    let directory = TempDir::new().unwrap();
    let state = directory.path().join("state").to_str().unwrap().to_owned();
    let cases: &[&[&str]] = &[
        &["paper", "list"],
        // These three said nothing, and exited with 0.
        &["--help"],
        &["--version"],
        &["serve", "--check", "--state", &state],
    ];
    for words in cases {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(words).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("standard output: No space left"), "{words:?}: {said}");
    }
}

/// Names that are no UTF-8: a state directory and a report's directory ended in "a bug: it panicked",
/// and a pool was made without a word of it.
#[test]
fn a_path_that_is_no_utf_8_is_no_reason_to_panic() {
    use std::os::unix::ffi::OsStrExt as _;

    let directory = TempDir::new().unwrap();
    let odd = directory.path().join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    std::fs::create_dir(&odd).unwrap();
    let run = |words: &[&str], option: &[&str], path: &str| {
        let output = command(words).args(option).arg(odd.join(path)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{words:?}: {said}");
        (output.status.code(), said, output.stdout)
    };
    for words in [&["serve", "--check"][..], &["serve"]] {
        let (exit, said, _) = run(words, &["--state"], "state");
        assert_eq!(exit, Some(2), "{said}");
        assert!(said.contains("server.state") && said.contains("a path is UTF-8"), "{said}");
    }
    assert!(!odd.join("state").exists(), "it is refused before anything is made");
    let none = directory.path().join("none").to_str().unwrap().to_owned();
    // The daemon was asked for another path, with signs in the place of these bytes.
    let add = ["device", "add", "disk", "--state", &none, "--back-end", "file:pool"];
    let output = command(&add).current_dir(&odd).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("a path is UTF-8"), "{said}");
    let report = run(&["report", "--json", "--state", &none], &["--out"], "report");
    let pool = run(&["device", "init", "--json"], &[], "pool");
    for ((exit, said, text), key) in [(report, "directory"), (pool, "path")] {
        assert_eq!(exit, Some(0), "{said}");
        let made: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert!(made[key].as_str().unwrap().contains("odd-"), "{made}");
    }
}

/// The reader of a demo's link goes once it has it; the page goes on until the demo's end.
#[test]
fn a_demo_of_the_page_goes_on_when_its_link_was_read() {
    let mut child = command(&["demo", "--web", "--for", "1s"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("#token=") {
        assert!(lines.read_line(&mut text).unwrap() > 0, "{text}");
    }
    drop(lines);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}
