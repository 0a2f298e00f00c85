//! `disktime mount` and `disktime cat` as programs.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::fs::XattrFlags;
use tempfile::TempDir;

use crate::support::{finish, run, skip};

fn disktime() -> Command {
    Command::new(env!("CARGO_BIN_EXE_disktime"))
}

#[expect(clippy::disallowed_methods, reason = "nothing tells how far another process is")]
fn wait() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}

/// Whether this machine can't mount; then the test's skip is told.
fn lacks(test: &str) -> bool {
    let lacks = match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) if rustix::process::geteuid().is_root() => return false,
        Ok(_) => "only the superuser mounts without fusermount3".to_owned(),
        Err(error) => format!("/dev/fuse: {error}"),
    };
    skip(test, &lacks);
    true
}

/// A mount by a process of its own.
struct Mount {
    directory: TempDir,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Mount {
    fn start(options: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        for name in ["source", "mount"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let (child, output) = Self::daemon(&directory, options);
        let mut mount = Self { directory, child, output };
        let mut line = String::new();
        if !options.contains(&"--json") {
            mount.output.read_line(&mut line).unwrap();
            assert!(line.contains(" is mounted at "), "{line}");
        }
        mount
    }

    fn daemon(directory: &TempDir, options: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut command = disktime();
        command.arg("mount").args(["source", "mount"].map(|name| directory.path().join(name)));
        let mut child = command.args(options).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        (child, output)
    }

    fn source(&self, name: &str) -> PathBuf {
        self.directory.path().join("source").join(name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("mount").join(name)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(self.path("")).status();
        let _gone = self.child.wait();
    }
}

#[test]
fn a_mount_serves_until_it_is_unmounted_and_refuses_what_it_cannot_use() {
    if lacks("a_mount_serves_until_it_is_unmounted_and_refuses_what_it_cannot_use") {
        return;
    }
    let mut mount = Mount::start(&["--default", "weight=50"]);
    std::fs::write(mount.source("film"), "data").unwrap();
    let cat = |options: &[&str]| {
        let mut command = disktime();
        finish(command.arg("cat").args(options).arg(mount.path("film")))
    };
    assert_eq!(run(disktime().args(["cat", "--priority"]).arg(mount.path("film"))), "data");
    let refused = cat(&["--contract", "class=guaranteed-rate rate=8MB/s"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("no profile of the device"), "{said}");
    assert_eq!(cat(&["--contract", "colour=red"]).status.code(), Some(2));
    let elsewhere = finish(disktime().args(["cat", "--priority"]).arg(mount.source("film")));
    assert_eq!(elsewhere.status.code(), Some(2));
    run(Command::new("umount").arg(mount.path("")));
    assert!(mount.child.wait().unwrap().success());
    let place = mount.path("").display().to_string();
    for wrong in [["/no/such/place", &*place], ["/tmp", "/no/such/place"], ["/", &*place]] {
        let output = finish(disktime().arg("mount").args(wrong));
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
    }
    for wrong in [["--queue-depth", "0"], ["--emulate", "abacus"], ["--headroom", "200%"]] {
        let output = finish(disktime().args(["mount", "/tmp", &place]).args(wrong));
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
    }
}

#[test]
fn a_signal_unmounts_and_json_is_one_document() {
    if lacks("a_signal_unmounts_and_json_is_one_document") {
        return;
    }
    let mut mount = Mount::start(&["--json"]);
    let mounted = || std::fs::read_to_string("/proc/mounts").unwrap();
    let place = mount.directory.path().join("mount").display().to_string();
    let there = (0..1000).any(|_| {
        wait();
        mounted().contains(&place)
    });
    assert!(there, "{}", mounted());
    run(Command::new("kill").arg(mount.child.id().to_string()));
    assert_eq!(mount.child.wait().unwrap().code(), Some(0));
    let document: serde_json::Value = serde_json::from_reader(&mut mount.output).unwrap();
    assert_eq!(document["mount"], *place);
    assert!(!mounted().contains(&place));
}

/// The source is whole, and nothing that was synchronised is lost.
#[test]
fn a_mount_whose_daemon_was_killed_is_recovered() {
    if lacks("a_mount_whose_daemon_was_killed_is_recovered") {
        return;
    }
    let mut mount = Mount::start(&[]);
    let mut file = File::create(mount.path("film")).unwrap();
    for number in 0..200_u32 {
        file.write_all(&number.to_le_bytes().repeat(1000)).unwrap();
    }
    file.sync_all().unwrap();
    mount.child.kill().unwrap();
    mount.child.wait().unwrap();
    assert!(file.write_all(b"x").is_err(), "its daemon is gone");
    drop(file);
    let expected: Vec<u8> = (0..200_u32).flat_map(|it| it.to_le_bytes().repeat(1000)).collect();
    assert!(std::fs::read(mount.source("film")).unwrap() == expected);
    let paths = ["source", "mount"].map(|name| mount.directory.path().join(name));
    let output = finish(disktime().arg("mount").args(&paths));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--recover"), "{said}");
    (mount.child, mount.output) = Mount::daemon(&mount.directory, &["--recover"]);
    let mut line = String::new();
    mount.output.read_line(&mut line).unwrap();
    assert!(std::fs::read(mount.path("film")).unwrap() == expected);
}

/// A player with a rate of its own on an emulated disk, beside three readers that take all they can.
#[test]
fn a_rate_of_a_file_is_kept_beside_readers_without_one() {
    if lacks("a_rate_of_a_file_is_kept_beside_readers_without_one") {
        return;
    }
    const PRESET: &str = "deskstar-34gxp";
    let directory = TempDir::new().unwrap();
    let profile = directory.path().join("profile.json");
    let device = (disktime_model::preset::find(PRESET).unwrap().build)(1);
    let found = disktime_sim::measure(device, PRESET, 1).unwrap();
    std::fs::write(&profile, serde_json::to_string(&found).unwrap()).unwrap();
    let profile = profile.display().to_string();
    let mount = Mount::start(&[
        "--emulate",
        PRESET,
        "--queue-depth",
        "1",
        "--profile",
        &profile,
        "--default",
        "weight=99",
    ]);
    for number in 0..4 {
        let file = File::create(mount.source(&number.to_string())).unwrap();
        file.set_len(1 << 30).unwrap();
    }
    let ask = |contract: &str| {
        let path = mount.path("0");
        let contract = contract.as_bytes();
        rustix::fs::setxattr(path, "user.disktime.contract", contract, XattrFlags::empty())
    };
    ask("class=guaranteed-rate rate=2MB/s cycle=2s access=read").unwrap();
    let held = File::open(mount.path("0")).unwrap();
    let refused = finish(
        disktime()
            .args(["cat", "--contract", "class=guaranteed-rate rate=100MB/s cycle=2s"])
            .arg(mount.path("1")),
    );
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("MB/s") && said.contains("at most"), "{said}");
    // The high priority fits whatever the profile says: nothing is promised to it.
    File::create(mount.source("empty")).unwrap();
    run(disktime().args(["cat", "--priority"]).arg(mount.path("empty")));
    drop(held);
    let mut readers: Vec<Child> = (1..4)
        .map(|number| {
            let input = format!("if={}", mount.path(&number.to_string()).display());
            let mut reader = Command::new("dd");
            reader.args([&*input, "of=/dev/null", "bs=128k", "iflag=direct"]);
            reader.stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let mut player = disktime();
    player.args(["play", "--rate", "2MB/s", "--for", "16s", "--grace", "4s", "--json"]);
    let said = run(player.arg(mount.path("0")));
    let streams = std::fs::read_to_string(mount.path(".disktime/streams")).unwrap();
    for reader in &mut readers {
        reader.kill().unwrap();
        reader.wait().unwrap();
    }
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let got = report["streams"][0]["bytes_per_second"].as_f64().unwrap();
    eprintln!("{got} B/s\n{said}\n{streams}");
    assert!(got > 1.9e6, "{said}\n{streams}");
    assert_eq!(report["streams"][0]["misses_late"], 0, "{said}\n{streams}");
}
