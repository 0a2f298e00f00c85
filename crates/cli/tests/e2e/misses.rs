//! Reports of missed deadlines from C, Python and the command line, and the player that makes them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::needs;
use crate::support::{Daemon, finish, python, run};

/// `video` is soft real-time on a slow disk; whatever names another disk shows in the log.
const PLAYED: &str = r#"
misses = "unix:DIRECTORY/misses.sock"

[[device]]
name = "disk"
back_end = "memory"
emulate = "st340810a"
feedback = "adaptive"

[[vdisk]]
name = "video"
device = "disk"
size = "1GiB"
class = "soft-real-time"

[[vdisk]]
name = "other"
device = "disk"
size = "1GiB"
"#;

fn disktime(arguments: &[&str]) -> std::process::Output {
    finish(Command::new(env!("CARGO_BIN_EXE_disktime")).args(arguments))
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Reports a name that no virtual disk has, and finds it in the daemon's log; and one that is known,
/// which works and shows nothing.
fn reaches(daemon: &mut Daemon, command: impl Fn(&str) -> Command) {
    run(&mut command("video"));
    run(&mut command("vidoe"));
    let line = daemon.error_line();
    assert!(line.contains("name no virtual disk") && line.contains("unknown=1"), "{line}");
}

#[test]
fn the_command_reports() {
    let mut daemon = Daemon::start(PLAYED);
    let socket = daemon.path("misses.sock");
    reaches(&mut daemon, |vdisk| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        command.args(["miss", vdisk, "--socket", text(&socket)]);
        command
    });
    let said = disktime(&["miss", "video", "--json", "--socket", text(&socket)]);
    assert_eq!(String::from_utf8_lossy(&said.stdout), "{\"reported\":\"video\"}\n");
    let long = "x".repeat(65);
    for name in ["", &long] {
        let refused = disktime(&["miss", name, "--socket", text(&socket)]);
        assert_eq!(refused.status.code(), Some(2), "{name}");
    }
    assert!(daemon.end("TERM").1);
    assert!(!socket.exists());
    let nobody = disktime(&["miss", "video", "--socket", text(&socket)]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("nobody listens"));
}

#[test]
fn a_program_in_c_reports() {
    needs!("a_program_in_c_reports", "cc");
    let mut daemon = Daemon::start(PLAYED);
    let (socket, program) = (daemon.path("misses.sock"), daemon.path("miss"));
    for (source, target) in [("miss.c", &program), ("player.c", &daemon.path("player"))] {
        let strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"];
        let macros = "-D_POSIX_C_SOURCE=200809L";
        let mut cc = Command::new("cc");
        run(cc.args(strict).arg(macros).arg("-o").arg(target).arg(example(source)));
    }
    reaches(&mut daemon, |vdisk| {
        let mut command = Command::new(&program);
        command.arg(&socket).arg(vdisk);
        command
    });
    let long = "x".repeat(300);
    for path in ["/nowhere/misses.sock", &long] {
        assert_eq!(finish(Command::new(&program).args([path, "video"])).status.code(), Some(1));
    }
    // The player on a file in memory: 2 MB/s are nothing.
    let file = daemon.path("movie");
    std::fs::write(&file, vec![1; 300_000]).unwrap();
    let said = run(Command::new(daemon.path("player")).args([
        text(&file),
        "2000000",
        "1",
        text(&socket),
        "video",
    ]));
    assert_eq!(said, "0 misses, 0 of them not sent\n");
}

#[test]
fn a_program_in_python_reports() {
    if crate::support::lacks("a_program_in_python_reports", &["/usr/bin/python3"]) {
        return;
    }
    let mut daemon = Daemon::start(PLAYED);
    let (socket, script) = (daemon.path("misses.sock"), example("miss.py"));
    reaches(&mut daemon, |vdisk| {
        let mut command = Command::new("/usr/bin/python3");
        command.arg(&script).arg(&socket).arg(vdisk);
        command
    });
    let alone = std::fs::read_to_string(&script).unwrap();
    assert!(
        run(&mut python(&format!(
            "import sys\nsys.argv = ['-', '/nowhere', 'video']\ntry:\n exec({alone:?})\n\
         except SystemExit as end:\n print(end.code)"
        )))
        .starts_with('1')
    );
}

#[test]
fn a_player_says_how_it_went() {
    let daemon = Daemon::start(PLAYED);
    let (socket, uri) = (daemon.path("misses.sock"), daemon.uri("video"));
    let play = |more: &[&str]| {
        let output = disktime(&[&["play", "--json", "--for", "3s"], more].concat());
        let said: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or(serde_json::Value::Null);
        (output.status.code(), said, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // A quarter of what the disk can do, in two streams, as the bit rate varies.
    let calm =
        ["--rate", "2MB/s", "--vbr", "50%", "--streams", "2", "--report", text(&socket), &uri];
    let (code, said, errors) = play(&calm);
    assert_eq!((code, &said["pass"]), (Some(0), &true.into()), "{said} {errors}");
    let streams = said["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2);
    for stream in streams {
        assert_eq!((&stream["misses"], &stream["failed"]), (&0.into(), &0.into()), "{stream}");
        let got = stream["bytes_per_second"].as_f64().unwrap();
        assert!((1.5e6..4.5e6).contains(&got), "{stream}: 2 MB/s, and a buffer to fill");
        assert!(stream["seconds_on_time"].as_f64().unwrap() > 2.9, "{stream}");
    }
    // Twice what it can, each miss reported.
    let (code, said, errors) = play(&["--rate", "80MB/s", "--report", text(&socket), &uri]);
    assert_eq!((code, &said["pass"]), (Some(1), &false.into()), "{said} {errors}");
    let stream = &said["streams"][0];
    assert!(stream["misses"].as_u64().unwrap() > 0 && stream["misses_unreported"] == 0, "{stream}");
    assert!(stream["worst_lateness_ms"].as_f64().unwrap() > 0.0, "{stream}");
    assert!(stream["seconds_stalled"].as_f64().unwrap() > 0.5, "{stream}");

    // A file, written and read.
    let file = daemon.path("movie");
    std::fs::File::create(&file).unwrap().set_len(8 << 20).unwrap();
    for write in [&["--write"][..], &[]] {
        let rest = ["--rate", "1MB/s", "--outstanding", "2", text(&file)];
        let (code, said, errors) = play(&[write, &rest].concat());
        assert_eq!(code, Some(0), "{said} {errors}");
    }
    assert!(std::fs::read(&file).unwrap()[..4096].iter().all(|byte| *byte != 0), "it wrote");
}

#[test]
fn a_player_refuses_what_it_cannot_do() {
    let daemon = Daemon::start(PLAYED);
    let (uri, file) = (daemon.uri("video"), daemon.path("short"));
    std::fs::write(&file, [0; 1000]).unwrap();
    let directory = daemon.path("");
    let socket = daemon.path("misses.sock");
    let cases: [(&[&str], &str); 14] = [
        (&["--rate", "8MB/s", "--for", "0s", &uri], "--for 0ns: 100ms to"),
        // Nothing has played by then, and it was said that nothing was late.
        (&["--rate", "8MB/s", "--for", "1s", &uri], "--for 1s: more than --buffer, 1s, is needed"),
        (&["--rate", "8MB/s", "--buffer", "500h", &uri], "1ns to 3600s are possible"),
        (&["--rate", "8MB", &uri], "a rate is a size per second"),
        (&["--rate", "0MB/s", &uri], "rate: 0 bytes per second"),
        (&["--rate", "8MB/s", "--buffer", "1ms", &uri], "buffer: 8000 bytes"),
        (&["--rate", "8MB/s", "--vbr", "95%", &uri], "0 to 900 are possible"),
        (&["--rate", "8MB/s", "--streams", "65", &uri], "65 in all; 1 to 64"),
        (&["--rate", "8MB/s", "--outstanding", "0", &uri], "at least 1 is needed"),
        (&["--rate", "8MB/s", "nbd://"], "nbd://"),
        (&["--rate", "8MB/s", "nbd+unix:///x?socket=/nope"], "nbd+unix:///x?socket=/nope: "),
        (&["--rate", "8MB/s", text(&file)], "extent: 0 bytes"),
        (&["--rate", "8MB/s", text(&directory)], "neither a file nor a block device"),
        (&["--rate", "8MB/s", "--report", text(&socket), text(&file)], "add --vdisk"),
    ];
    for (arguments, says) in cases {
        let refused = disktime(&[&["play"], arguments].concat());
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(says), "{arguments:?}: {errors}");
    }
    let sealed = "[[device]]\nname = \"ram\"\nback_end = \"memory\"\n[[vdisk]]\nname = \"sealed\"\n\
                  device = \"ram\"\nsize = \"1GiB\"\nread_only = true\n";
    // Both were told of `reads` and `sizes`, which are no options.
    let sealed = Daemon::start(sealed);
    for (option, value, says) in [
        ("--write", "--json", "--write: the export is read-only: leave --write out"),
        ("--request", "64MiB", "--request 64MiB: at most 32MiB is possible here"),
    ] {
        let refused = disktime(&["play", "--rate", "8MB/s", option, value, &sealed.uri("sealed")]);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && errors.contains(says), "{errors}");
    }
    let nobody = ["play", "--rate", "8MB/s", "--report", "/nowhere/misses.sock", &uri];
    let nobody = disktime(&nobody);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("nobody listens"));
}
