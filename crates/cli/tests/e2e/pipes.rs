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
        (&["--help"], 0),
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
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command(&["paper", "list"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("standard output: No space left"), "{said}");
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
