//! `disktime mount` and `disktime cat` as programs.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use disktime_config::read_contract;
use rustix::fs::XattrFlags;
use tempfile::TempDir;

use crate::control::Served;
use crate::support::{Daemon, finish, run, skip};

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
    // The kernel answers from what it knows of the directory for a second: a daemon that had just gone was
    // taken for one that runs, and `--recover` did nothing.
    assert!(File::open(mount.path("nofile")).is_err());
    std::fs::metadata(mount.path("")).unwrap();
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

/// A player with a rate of its own on an emulated disk, beside fifteen readers that take all they can.
#[test]
fn a_file_with_a_rate_gets_it_beside_fifteen_readers_without_one() {
    if lacks("a_file_with_a_rate_gets_it_beside_fifteen_readers_without_one") {
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
    // So many that an equal part of the disk would be less than the rate: beside three the rate came about
    // without a contract, too.
    let mut readers: Vec<Child> = (0..15)
        .map(|number| {
            let input = format!("if={}", mount.path(&(1 + number % 3).to_string()).display());
            let from = format!("skip={}", number / 3 * 1500);
            let mut reader = Command::new("dd");
            reader.args([&*input, "of=/dev/null", "bs=128k", "iflag=direct", &from]);
            reader.stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let mut player = disktime();
    player.args(["play", "--rate", "2MB/s", "--for", "16s", "--grace", "4s", "--json"]);
    let played = finish(player.arg(mount.path("0")));
    let streams = std::fs::read_to_string(mount.path(".disktime/streams")).unwrap();
    for reader in &mut readers {
        reader.kill().unwrap();
        reader.wait().unwrap();
    }
    // Only now: a mount with open files does not end.
    let said = String::from_utf8_lossy(&played.stdout).into_owned();
    // `play` exits with 1 for a missed read, which is judged below.
    assert!(matches!(played.status.code(), Some(0 | 1)), "{played:?}\n{streams}");
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let got = &report["streams"][0];
    assert_eq!(got["failed"], 0, "{said}");
    let read: Vec<f64> = streams.lines().filter_map(bytes_read_by_default).collect();
    assert_eq!(read.len(), 15, "{streams}");
    let rate = got["bytes_per_second"].as_f64().unwrap();
    let of_a_reader = read.iter().sum::<f64>() / 15.0 / report["seconds"].as_f64().unwrap();
    eprintln!("{rate} B/s, of a reader {of_a_reader} B/s");
    assert!(rate > 1.5 * of_a_reader, "{of_a_reader}\n{said}\n{streams}");
    assert!(rate > 1.9e6, "{said}\n{streams}");
    if got["misses_late"] == 0 {
        return;
    }
    // A busy machine delays the player itself: then its misses say nothing of the mount.
    let waited = processor_pressure().expect("no read is late on a quiet machine");
    assert!(
        waited > 20.0,
        "programs waited for a processor in {waited} % of the time\n{said}\n{streams}"
    );
    let name = "a_file_with_a_rate_gets_it_beside_fifteen_readers_without_one";
    skip(name, &format!("late reads not judged: programs waited in {waited} % of the time"));
}

/// For how much of the last minute, in percent, some program waited for a processor, if the system tells.
fn processor_pressure() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|field| field.strip_prefix("avg60="))?.parse().ok()
}

/// The bytes that a file with the default contract has read, by its line of `.disktime/streams`.
fn bytes_read_by_default(line: &str) -> Option<f64> {
    let fields: Vec<_> = line.split('\t').collect();
    fields[2].ends_with("weight=99").then(|| fields[6].parse().unwrap())
}

/// A mount on a device of a daemon, which has the virtual disk `vm` with 60 % of it.
struct OnDevice {
    served: Option<Served>,
    mount: Mount,
}

impl OnDevice {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let served = Served::start(directory.path());
        for name in ["source", "mount"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let back_end = format!("file:{}", directory.path().join("disks").display());
        served.exits(0, &["device", "add", "hdd", "--back-end", &back_end, "--create"]);
        served.exits(0, &["device", "add", "ram", "--back-end", "memory"]);
        let vdisk = ["vdisk", "create", "vm", "--device", "hdd", "--size", "8MiB"];
        served.exits(0, &[&vdisk[..], &["--reserve", "60%"]].concat());
        let options = ["--device", "hdd", "--state", &served.state];
        let (child, output) = Mount::daemon(&directory, &options);
        let mut mount = Mount { directory, child, output };
        let mut line = String::new();
        mount.output.read_line(&mut line).unwrap();
        assert!(line.contains(" is mounted at "), "{line}");
        Self { served: Some(served), mount }
    }

    fn served(&self) -> &Served {
        self.served.as_ref().unwrap()
    }
}

#[test]
fn files_of_a_mount_and_virtual_disks_on_one_device_know_of_each_other() {
    if lacks("files_of_a_mount_and_virtual_disks_on_one_device_know_of_each_other") {
        return;
    }
    let on = OnDevice::new();
    let data: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(on.mount.path("film"), &data).unwrap();
    assert!(std::fs::read(on.mount.source("film")).unwrap() == data);
    assert!(std::fs::read(on.mount.path("film")).unwrap() == data);
    // 40 % are left beside the virtual disk.
    let cat = |contract: &str| {
        let mut command = disktime();
        finish(command.args(["cat", "--contract", contract]).arg(on.mount.path("film")))
    };
    let refused = cat("reserve=50%");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("40% of the device can be reserved"), "{said}");
    assert!(cat("reserve=40%").stdout == data);
    // While a file is open with 30 %, a virtual disk gets 10 %, and is told so.
    let set = |value: &[u8]| {
        let name = "user.disktime.contract";
        rustix::fs::setxattr(on.mount.path("film"), name, value, XattrFlags::empty())
    };
    set(b"reserve=30%").unwrap();
    let open = File::open(on.mount.path("film")).unwrap();
    let vdisk = ["vdisk", "create", "db", "--device", "hdd", "--size", "8MiB", "--reserve"];
    let refused = on.served().exits(2, &[&vdisk[..], &["30%"]].concat());
    assert!(refused["error"].to_string().contains("10.0000%"), "{refused}");
    // A plan says the same: it fitted, and the virtual disk was refused.
    let plan = on.served().exits(1, &[&vdisk[..], &["30%", "--plan"]].concat());
    assert!((plan["would_fit"].as_f64().unwrap() - 0.1).abs() < 1e-6, "{plan}");
    on.served().exits(0, &[&vdisk[..], &["10%", "--plan"]].concat());
    // The daemon lists the mount's streams.
    let top = on.served().exits(0, &["top"]);
    assert_eq!(top["devices"][0]["mounts"], 1, "{top}");
    let film = top["mounts"].as_array().unwrap().iter().find(|it| it["name"] != "(shared)");
    let film = film.unwrap_or_else(|| panic!("{top}"));
    assert_eq!(film["name"], on.mount.source("film").display().to_string());
    assert_eq!(film["mount"], on.mount.directory.path().join("mount").display().to_string());
    assert_eq!((&film["kind"], &film["reserve"]), (&"mount".into(), &0.3.into()));
    let shared = top["mounts"].as_array().unwrap().iter().find(|it| it["name"] == "(shared)");
    assert!(shared.unwrap()["bytes"].as_u64().unwrap() >= 24_000_000, "{top}");
    let device = std::fs::read_to_string(on.mount.path(".disktime/device")).unwrap();
    assert!(device.contains("reserved_ppm 900000"), "{device}");
    let streams = std::fs::read_to_string(on.mount.path(".disktime/streams")).unwrap();
    assert!(streams.contains("reserve=30%") && streams.contains("(shared)"), "{streams}");
    // The device's parameters are the daemon's.
    std::fs::write(on.mount.path(".disktime/queue_depth"), "3").unwrap_err();
    drop(open);
    on.served().exits(0, &[&vdisk[..], &["30%"]].concat());
}

/// A mount ended when another daemon took over, and with it the contracts of its open files.
#[test]
fn a_mount_and_its_contracts_go_on_at_a_daemon_that_takes_over() {
    if lacks("a_mount_and_its_contracts_go_on_at_a_daemon_that_takes_over") {
        return;
    }
    let disks = "state = \"DIRECTORY/state\"\n[[device]]\nname = \"hdd\"\n\
                 back_end = \"file:DIRECTORY/disks\"\ncreate = true\n[[vdisk]]\nname = \"vm\"\n\
                 device = \"hdd\"\nsize = \"8MiB\"\nreserve = \"60%\"\n";
    let mut daemon = Daemon::start(disks);
    let state = daemon.path("state").display().to_string();
    let mut mount = Mount::start(&["--device", "hdd", "--state", &state]);
    let set = |name: &str, value: &[u8]| {
        std::fs::write(mount.source(name), []).unwrap();
        let attribute = "user.disktime.contract";
        rustix::fs::setxattr(mount.path(name), attribute, value, XattrFlags::empty()).unwrap();
    };
    set("promised", b"reserve=30%");
    set("usual", b"weight=50");
    let open = |name: &str| {
        let path = mount.path(name);
        File::options().read(true).write(true).open(path).unwrap()
    };
    let files = ["promised", "usual"].map(open);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let writer = |at: usize| {
            let (file, stop) = (&files[at], &stop);
            move || {
                let mut round = 0_u64;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    round += 1;
                    let data = round.to_le_bytes().repeat(20_000);
                    let offset = round % 16 * 160_000;
                    std::os::unix::fs::FileExt::write_all_at(file, &data, offset).unwrap();
                    let mut back = vec![0; data.len()];
                    std::os::unix::fs::FileExt::read_exact_at(file, &mut back, offset).unwrap();
                    assert!(back == data, "file {at}, round {round}");
                }
                round
            }
        };
        let writers = [0, 1].map(|at| scope.spawn(writer(at)));
        let well = (0..3).all(|_| daemon.take_over());
        // A question is answered once the successor has the mount.
        let device = std::fs::read_to_string(mount.path(".disktime/device"));
        let streams = std::fs::read_to_string(mount.path(".disktime/streams"));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let rounds = writers.map(|writer| writer.join().unwrap());
        assert!(well, "the predecessors end well");
        let (device, streams) = (device.unwrap(), streams.unwrap());
        // All contracts hold at the successor.
        assert!(device.contains("reserved_ppm 900000"), "{device}");
        assert!(streams.contains("reserve=30%") && streams.contains("weight=50"), "{streams}");
        rounds
    });
    println!("{rounds:?} rounds over three take-overs");
    assert!(mount.child.try_wait().unwrap().is_none(), "the mount has ended");
    let more = disktime_fuse::client::set(&files[1], &read_contract("reserve=20%").unwrap());
    assert!(more.is_err(), "10 % are left");
    disktime_fuse::client::set(&files[1], &read_contract("reserve=10%").unwrap()).unwrap();
    // It ends with the last daemon.
    assert!(daemon.end("TERM").1);
    drop(files);
    assert_eq!(mount.child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_mount_ends_with_its_daemon_and_loses_nothing() {
    if lacks("a_mount_ends_with_its_daemon_and_loses_nothing") {
        return;
    }
    let mut on = OnDevice::new();
    let mut file = File::create(on.mount.path("film")).unwrap();
    for round in 0..100_u32 {
        if round == 50 {
            on.served.take().unwrap().kill();
        }
        file.write_all(&round.to_le_bytes().repeat(10_000)).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(on.mount.child.wait().unwrap().code(), Some(1));
    let place = on.mount.path("").display().to_string();
    assert!(!std::fs::read_to_string("/proc/mounts").unwrap().contains(&place));
    let expected: Vec<u8> = (0..100_u32).flat_map(|it| it.to_le_bytes().repeat(10_000)).collect();
    assert!(std::fs::read(on.mount.source("film")).unwrap() == expected);
}

#[test]
fn a_mount_that_no_device_can_have_is_refused() {
    if lacks("a_mount_that_no_device_can_have_is_refused") {
        return;
    }
    let on = OnDevice::new();
    let state = &on.served().state;
    let at = on.mount.directory.path().join("other");
    std::fs::create_dir(&at).unwrap();
    let nobody = on.mount.directory.path().join("nobody").display().to_string();
    for (options, says) in [
        (["--device", "tape", "--state", state], "no device tape; there are: hdd, ram"),
        (["--device", "ram", "--state", state], "in memory"),
        (["--device", "hdd", "--state", &nobody], "no daemon listens at"),
        (["--device", "hdd", "--headroom", "5%"], "cannot be used with"),
        (["--device", "hdd", "--state", state], "a FUSE mount is there already"),
    ] {
        let at = if says.contains("already") { &on.mount.path("") } else { &at };
        let mut command = disktime();
        command.arg("mount").arg(on.mount.source("")).arg(at).args(options);
        let output = finish(&mut command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        assert!(said.contains(says), "{options:?}: {said}");
    }
}
