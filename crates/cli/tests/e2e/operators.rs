//! Promises to a person or a script around the daemon: exit codes, errors, Ctrl-C, checks, logs.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use disktime_client::{Connection, Request};
use disktime_nbd::{Command as Ask, CommandFlags};
use tempfile::TempDir;

use crate::support::{DISKS, Daemon, finish, words};

fn disktime(arguments: &[&str]) -> Output {
    finish(Command::new(env!("CARGO_BIN_EXE_disktime")).args(arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[expect(clippy::disallowed_methods, reason = "a daemon runs in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "nothing tells how far another process is")]
fn sleep(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Waits for the end of a process.
fn ended(child: &mut Child, within: Duration) -> Option<ExitStatus> {
    let until = now() + within;
    while now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        sleep(10);
    }
    let _ended_already = child.kill();
    let _status = child.wait();
    None
}

/// Bad input exited with 1 as often as with 2, and under `--json` said nothing on standard output,
/// or half a document.
#[test]
fn bad_input_exits_with_2_and_is_a_document_under_json() {
    let directory = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text).unwrap();
        directory.path().join(name)
    };
    let within = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let disk = |server: &str, back_end: &str| {
        format!(
            "[server]\n{server}\n[[device]]\nname = \"d\"\nback_end = \"{back_end}\"\n\
             [[vdisk]]\nname = \"v\"\ndevice = \"d\"\nsize = \"1MiB\"\n"
        )
    };
    let nowhere = format!("nbd = [\"unix:{}/none/nbd.sock\"]", within(""));
    let socket = file("socket.toml", &disk(&nowhere, "memory"));
    let here = format!("nbd = [\"unix:{}\"]", within("nbd.sock"));
    let remote = format!("nbd+unix:///x?socket={}", within("nobody.sock"));
    let back_end = file("back_end.toml", &disk(&here, &remote));
    let (out, none) = (format!("{}/x", text(&socket)), within("none"));
    let cases: [(&[&str], &str); 18] = [
        (&["demo", "--for", "2s"], "two rounds of a split 70/30 take 3.4s"),
        (&["demo", "--for", "3s", "--scene", "recorder"], "cycles take 4s"),
        (&["bench", "sched", "--seconds", "nan"], "0.01 to 3600"),
        (&["bench", "nbd", "--seconds=-1"], "0.01 to 3600"),
        (&["bench", "nbd", "--only", "none of them"], "no load has that"),
        (&["bench", "shards", "--only", "none of them"], "no load has that"),
        (&["paper", "all", "--seeds", "4000000000"], "1 to 1000 runs"),
        (&["serve", "--check", "--config", text(&socket)], "is no directory: create it"),
        (&["frobnicate"], "unrecognized subcommand"),
        (&["serve", "--config", &none], "none"),
        (&["serve", "--config", text(&socket)], "is no directory: create it"),
        (&["serve", "--config", text(&back_end)], "its back end can't be opened"),
        (&["sim", "run", &none], "none"),
        (&["paper", "run", "zygaria-1", "--out", &out], "--out"),
        (&["device", "profile", &none], "none"),
        (&["device", "profile", text(&socket), "--out", &out], "--out"),
        (&["plan", "--profile", &none, "--iops", "1"], "none"),
        (&["bench", "insulation", "--quick", "--out", &out], "--out"),
    ];
    for (arguments, says) in cases {
        let refused = disktime(&[arguments, &["--json"]].concat());
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {stderr}");
        let said: serde_json::Value = serde_json::from_slice(&refused.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {stderr}"));
        assert_eq!(said["exit"], 2, "{said}");
        assert!(said["error"].as_str().unwrap().contains(says), "{arguments:?}: {said}");
        let plain = disktime(arguments);
        assert_eq!((plain.status.code(), plain.stdout.len()), (Some(2), 0), "{arguments:?}");
        assert!(String::from_utf8_lossy(&plain.stderr).contains(says), "{arguments:?}");
    }
    let help = String::from_utf8(disktime(&["--help"]).stdout).unwrap();
    assert!(help.contains("130  interrupted") && help.contains("not judged"), "{help}");
}

/// Each server was given a directory by the number of those that run: where one was not installed, the
/// next one found its directory there, and the bench ended with "File exists".
#[test]
fn the_bench_leaves_out_servers_that_are_not_installed() {
    let nothing = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(["bench", "nbd", "--only", "memory/disktime/random read 4 KiB x 32", "--json"]);
    command.args(["--rounds", "1", "--seconds", "0.05"]).env("PATH", nothing.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // A busy machine is not judged.
    assert!([Some(0), Some(3)].contains(&output.status.code()), "{said}");
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let servers: Vec<_> = rows.as_array().unwrap().iter().map(|row| &row["server"]).collect();
    assert_eq!(servers, ["disktime"], "{said}");
}

/// A command that is interrupted left its empty `--out`, a profile of 0 bytes, and directories of
/// many MiB in the place for temporary files.
#[test]
fn ctrl_c_ends_every_command_and_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let scenario = "[scenario]\nduration = \"10000000s\"\nwindow = \"100s\"\n[device]\npreset = \"deskstar-34gxp\"\n\
                    [[stream]]\nname = \"a\"\n[[stream.phases]]\n\
                    spec = { pattern = \"random\", extent = { end = \"9GiB\" }, sizes = \"4KiB\" }\n\
                    pace = { closed = { outstanding = 8 } }\n";
    std::fs::write(at("scenario.toml"), scenario).unwrap();
    std::fs::write(at("image"), vec![1; 64 << 20]).unwrap();
    let (out, profile) = (at("out/deep"), at("profile.json"));
    let (scenario, image) = (at("scenario.toml"), at("image"));
    let cases: [&[&str]; 10] = [
        &["demo"],
        &["demo", "--scene", "recorder"],
        &["demo", "--scene", "video"],
        &["paper", "all", "--out", &out],
        &["sim", "run", &scenario, "--out", &out, "--csv", &profile],
        &["bench", "insulation", "--out", &out],
        &["bench", "nbd"],
        &["bench", "sched"],
        &["play", "--rate", "1MB/s", "--for", "1min", &image],
        &["device", "profile", &image, "--budget", "60s", "--out", &profile],
    ];
    let temporary = directory.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut running = Vec::new();
    for (arguments, signal) in cases.iter().zip(["INT", "TERM"].into_iter().cycle()) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        command.args(*arguments).arg("--json").env("TMPDIR", &temporary);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        running.push((command.spawn().unwrap(), arguments, signal));
        // One after the other: all at once would keep each other from starting.
        sleep(1500);
        let (child, arguments, signal) = running.last_mut().unwrap();
        words(&["kill", &format!("-{signal}"), &child.id().to_string()]);
        let status = ended(child, Duration::from_secs(10));
        let status = status.unwrap_or_else(|| panic!("{arguments:?} goes on"));
        assert_eq!(status.code(), Some(130), "{arguments:?}");
        let mut said = child.stdout.take().unwrap();
        let said: serde_json::Value = serde_json::from_reader(&mut said).unwrap();
        // A player says how it went until then.
        assert!(said["exit"] == 130 || said["streams"].is_array(), "{arguments:?}: {said}");
        assert_eq!(entries(&temporary), [""; 0], "{arguments:?}");
        let mut left = entries(directory.path());
        left.sort();
        assert_eq!(left, ["image", "scenario.toml", "tmp"], "{arguments:?}");
    }
}

/// SIGTERM waited 10 s for clients that took no replies, and half a minute for a remote device.
#[test]
fn sigterm_ends_the_daemon_within_5_s_whatever_clients_and_remotes_do() {
    let remote = Daemon::start(DISKS);
    let uri = remote.uri("mem");
    let disks = format!(
        "state = \"DIRECTORY/state\"\n\
         [[device]]\nname = \"ram\"\nback_end = \"memory\"\n\
         [[device]]\nname = \"remote\"\nback_end = \"{uri}\"\n\
         [[vdisk]]\nname = \"mem\"\ndevice = \"ram\"\nsize = \"64MiB\"\n\
         [[vdisk]]\nname = \"far\"\ndevice = \"remote\"\nsize = \"1MiB\"\n"
    );
    let daemon = Daemon::start(&disks);
    let connect = |name: &str| Connection::open(&daemon.uri(name).parse().unwrap()).unwrap();
    let (mut unread, mut waits) = (connect("mem"), connect("far"));
    let ask =
        |length| Request { command: Ask::Read, flags: CommandFlags::EMPTY, offset: 0, length };
    for _ in 0..32 {
        unread.send(ask(2 << 20), &[]).unwrap();
    }
    remote.signal("STOP");
    waits.send(ask(4096), &[]).unwrap();
    let half = UnixStream::connect(daemon.socket()).unwrap();
    (&half).write_all(&[0, 0]).unwrap();
    sleep(200);
    let begun = now();
    let (_directory, well) = daemon.end("TERM");
    let took = begun.elapsed();
    assert!(well && took < Duration::from_secs(5), "{took:?}");
    remote.signal("CONT");
}

/// A daemon whose remote device did not answer could not be ended before it had started.
#[test]
fn sigterm_ends_a_daemon_that_is_still_starting() {
    let directory = TempDir::new().unwrap();
    let silent = directory.path().join("silent.sock");
    let _never_accepts = UnixListener::bind(&silent).unwrap();
    let config = directory.path().join("disktime.toml");
    let uri = format!("nbd+unix:///x?socket={}", silent.display());
    let at = directory.path().display();
    let disks = format!(
        "[server]\nnbd = [\"unix:{at}/nbd.sock\"]\nstate = \"{at}\"\n\
         [[device]]\nname = \"remote\"\nback_end = \"{uri}\"\n\
         [[vdisk]]\nname = \"far\"\ndevice = \"remote\"\nsize = \"1MiB\"\n"
    );
    std::fs::write(&config, disks).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    let mut child = command.args(["serve", "--config", text(&config)]).spawn().unwrap();
    sleep(500);
    words(&["kill", "-TERM", &child.id().to_string()]);
    let status = ended(&mut child, Duration::from_secs(5)).expect("it ends");
    assert_eq!(status.code(), Some(130));
}

/// There was no way to find out whether a configuration was good but to end the daemon and start it
/// with it; and each start said one error.
#[test]
fn a_check_finds_every_error_beside_the_running_daemon_and_touches_nothing() {
    let disks = "misses = \"unix:DIRECTORY/misses.sock\"\n[[device]]\nname = \"image\"\n\
                 back_end = \"file:DIRECTORY/image\"\n[[vdisk]]\nname = \"db\"\n\
                 device = \"image\"\nsize = \"1MiB\"\nreserve = \"50%\"\n";
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("image"), vec![0; 2 << 20]).unwrap();
    let daemon = Daemon::start_configured(directory, disks);
    let config = daemon.path("disktime.toml");
    let before = entries(daemon.directory.path());
    let check = |more: &[&str]| {
        let output = disktime(&[&["serve", "--check", "--config", text(&config)], more].concat());
        let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (output.status.code(), out, err)
    };
    assert_eq!(check(&[]), (Some(0), "ok: 1 virtual disks on 1 devices\n".into(), String::new()));
    let (code, said, _) = check(&["--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["ok"], &said["vdisks"]), (Some(0), &true.into(), &1.into()));
    let good = std::fs::read_to_string(&config).unwrap();
    let write = |text: &str| std::fs::write(&config, text).unwrap();
    // Errors that only show in files and directories, all at once.
    let at = daemon.directory.path().display();
    let more = format!(
        "[[device]]\nname = \"small\"\nback_end = \"raid0:{at}/a,{at}/b\"\n\
         [[device]]\nname = \"slow\"\nback_end = \"memory\"\nprofile = \"{at}/none.json\"\n\
         [[device]]\nname = \"gone\"\nback_end = \"nbd+unix:///x?socket={at}/nobody.sock\"\n"
    );
    let worse = good.replace("misses.sock", "none/misses.sock").replace("1MiB", "4MiB");
    write(&format!("{worse}{more}"));
    let (code, _, said) = check(&[]);
    assert_eq!(code, Some(2), "{said}");
    let says = [
        "5 errors",
        "none is no directory",
        "device image: ",
        "a, where a regular file or a block device must be",
        "none.json",
        "device gone: its back end can't be opened",
    ];
    says.iter().for_each(|says| assert!(said.contains(says), "{says}: {said}"));
    // And what shows in the text.
    write(&good.replace("50%", "150%").replace("unix:", "uxin:").replace("file:", "flie:"));
    let (code, out, said) = check(&["--json"]);
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &document["exit"]), (Some(2), &2.into()));
    let says = ["4 errors", "server.nbd", "server.misses", "150%", "flie:"];
    says.iter().for_each(|says| assert!(said.contains(says), "{says}: {said}"));
    write(&good);
    assert_eq!(entries(daemon.directory.path()), before);
    assert!(daemon.end("TERM").1);
}

/// A scenario with `outstanding = 1000000000` took all memory; one with a window of a nanosecond as
/// well; a name of 5,000 characters went into every line of every table.
#[test]
fn scenarios_that_can_not_be_run_are_refused_with_the_range() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("scenario.toml");
    let good = "[scenario]\nduration = \"1s\"\n[device]\npreset = \"deskstar-34gxp\"\n\
                [[stream]]\nname = \"a\"\n[[stream.phases]]\n\
                spec = { pattern = \"random\", extent = { end = \"9GiB\" }, sizes = \"4KiB\" }\n\
                pace = { closed = { outstanding = 8 } }\n";
    let pace = "closed = { outstanding = 8 }";
    let general = "duration = \"1s\"";
    let long = format!("name = \"{}\"", "x".repeat(5000));
    let many = format!("{general}\nseeds = {:?}", vec![1; 1001]);
    let cases = [
        (pace, "closed = { outstanding = 1000000000 }", "outstanding: 1000000000; 1 to 65536"),
        (pace, "closed = { outstanding = -1 }", "outstanding"),
        (
            pace,
            "bursts = { outstanding = 70000, length = 1, idle_min = \"1s\", idle_max = \"1s\" }",
            "1 to 65536",
        ),
        (pace, "open = { constant = { interval = \"1ns\" } }", "at least 1µs"),
        (pace, "open = { poisson = { mean = \"999ns\" } }", "at least 1µs"),
        (pace, "cycles = { rate = \"1000TB/s\", cycle = \"1000h\" }", "at most 1000000"),
        (general, "duration = \"5000000h\"", "duration = \"18000000000s\": at most 36000000s"),
        (general, "duration = \"1h\"\nwindow = \"1ns\"", "window = \"1ns\": at least 3.6ms"),
        (
            general,
            "duration = \"1s\"\nrandom_estimate = \"0s\"",
            "random_estimate = \"0ns\": 1ns to 60s",
        ),
        (general, &many, "seeds = \"1001 seeds\": 1 to 1000"),
        ("name = \"a\"", &long, "stream.name = \"5000 bytes\": a name has 1 to 64"),
        ("name = \"a\"", "name = \"\"", "stream.name = \"0 bytes\": a name has 1 to 64"),
        (
            "deskstar-34gxp\"",
            "deskstar-34gxp\"\nqueue_depth = 4000000000",
            "device.queue_depth = \"4000000000\": this device takes 1 to 1",
        ),
    ];
    std::fs::write(&path, good).unwrap();
    assert_eq!(disktime(&["sim", "run", text(&path)]).status.code(), Some(0));
    for (was, is, says) in cases {
        std::fs::write(&path, good.replacen(was, is, 1)).unwrap();
        let refused = disktime(&["sim", "run", text(&path)]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{is}: {said}");
        assert!(said.contains(says), "{is}: {said}");
    }
}

/// A pool of more virtual disks than the process may have descriptors failed with `Too many open files` alone.
#[test]
fn a_lack_of_descriptors_says_how_many_are_needed_and_how_to_have_them() {
    let directory = TempDir::new().unwrap();
    let at = text(directory.path());
    let mut config = format!(
        "[server]\nnbd = [\"unix:{at}/nbd.sock\"]\n[[device]]\nname = \"d\"\nback_end = \"file:{at}/pool\"\n\
         create = true\n"
    );
    for number in 0..200 {
        config += &format!("[[vdisk]]\nname = \"v{number}\"\ndevice = \"d\"\nsize = \"1MiB\"\n");
    }
    let path = directory.path().join("disktime.toml");
    std::fs::write(&path, config).unwrap();
    // `--check` found good what a start refused.
    for check in [&["--check"][..], &[]] {
        let mut few = Command::new("prlimit");
        few.args(["--nofile=100:100", env!("CARGO_BIN_EXE_disktime"), "serve", "--config"]);
        let refused = finish(few.arg(&path).args(check));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        for part in [
            "device d: ",
            "may have 100 descriptors",
            "200 virtual disks",
            "RLIMIT_NOFILE",
            "LimitNOFILE=2048",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        // With 100,000 virtual disks a start made files for 80 s before it failed.
        assert!(!directory.path().join("pool").exists());
    }
    // The daemon takes what the hard limit allows by itself.
    let mut soft = Command::new("prlimit");
    soft.arg("--nofile=100:2048").arg(env!("CARGO_BIN_EXE_disktime"));
    let daemon = Daemon::start_as(soft, directory);
    assert!(daemon.end("TERM").1);
}

/// A certificate that had expired, or was not valid yet, was served, checked and read again without a word.
#[test]
fn certificates_that_clients_refuse_are_warned_of() {
    let directory = TempDir::new().unwrap();
    let write = |until: i32| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 2, 1);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(directory.path().join("server.pem"), certificate.pem()).unwrap();
        std::fs::write(directory.path().join("server.key"), key.serialize_pem()).unwrap();
    };
    let at = text(directory.path());
    let config = format!(
        "[server]\nnbd = [\"unix:{at}/nbd.sock\"]\n[[listener]]\nnbd = \"tcp:127.0.0.1:0\"\ntls = \"require\"\n\
         [tls]\ncertificate = \"{at}/server.pem\"\nkey = \"{at}/server.key\"\n\
         [[device]]\nname = \"d\"\nback_end = \"memory\"\n\
         [[vdisk]]\nname = \"v\"\ndevice = \"d\"\nsize = \"1MiB\"\n"
    );
    let path = directory.path().join("disktime.toml");
    std::fs::write(&path, config).unwrap();
    let check = |more: &[&str]| {
        let output = disktime(&[&["serve", "--check", "--config", text(&path)], more].concat());
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    write(2090);
    assert_eq!(check(&[]), "ok: 1 virtual disks on 1 devices\n");
    assert!(!check(&["--json"]).contains("warnings"));
    write(2024);
    let warning =
        format!("tls: certificate {at}/server.pem: it was valid until 2024-02-01T00:00:00Z");
    assert!(check(&[]).starts_with(&format!("warning: {warning}")), "{}", check(&[]));
    let said: serde_json::Value = serde_json::from_str(&check(&["--json"])).unwrap();
    assert!(said["warnings"][0].as_str().unwrap().starts_with(&warning), "{said}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    let child = command.args(["serve", "--config", text(&path)]).stdout(Stdio::null());
    let mut child = child.stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(&warning) {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut errors, &mut line).unwrap() > 0, "no warning");
    }
    let hang_up = ["HUP", "TERM"].map(str::to_owned);
    line.clear();
    words(&["kill", "-s", &hang_up[0], &child.id().to_string()]);
    while !line.contains(&warning) {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut errors, &mut line).unwrap() > 0, "no warning");
    }
    words(&["kill", "-s", &hang_up[1], &child.id().to_string()]);
    assert!(child.wait().unwrap().success());
}
