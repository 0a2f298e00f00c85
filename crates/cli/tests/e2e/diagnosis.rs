//! `disktime doctor` and `disktime report` on this machine.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::control::Served;
use crate::needs;
use crate::support::{DISKS, Daemon, finish};

fn disktime() -> Command {
    Command::new(env!("CARGO_BIN_EXE_disktime"))
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_doctor_finds_that_tests_can_run_here_and_names_what_is_not_there() {
    let directory = TempDir::new().unwrap();
    let output = finish(disktime().args(["doctor", "--json"]).arg(directory.path()));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &found["pass"]), (Some(0), &Value::Bool(true)), "{found}");
    let names: Vec<&str> = found["machine"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    for name in ["kernel", "io_uring", "memlock", "BFQ", "cgroups", "clock", "steal"] {
        assert!(names.contains(&name), "{name} is not looked at: {names:?}");
    }
    let gone = finish(disktime().args(["doctor", "/nowhere/at/all"]));
    assert_eq!(gone.status.code(), Some(1));
    let said = String::from_utf8_lossy(&gone.stdout);
    assert!(said.contains("MISSING") && said.contains("can't serve here"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
}

/// The program in a directory, for a user who is not the superuser.
struct Elsewhere(TempDir);

impl Elsewhere {
    fn new() -> Self {
        let elsewhere = Self(TempDir::new().unwrap());
        std::fs::copy(env!("CARGO_BIN_EXE_disktime"), elsewhere.path("disktime")).unwrap();
        elsewhere.mode("", 0o755);
        elsewhere.mode("disktime", 0o755);
        elsewhere
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn mode(&self, name: &str, mode: u32) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(self.path(name), mode).unwrap();
    }

    /// A configuration of one back end.
    fn configure(&self, back_end: &str) {
        let text = format!(
            "server = {{ nbd = [\"tcp:127.0.0.1:0\"] }}\n\
             device = [{{ name = \"disk\", back_end = \"{back_end}\" }}]\n\
             vdisk = [{{ name = \"db\", device = \"disk\", size = \"64KiB\" }}]\n",
        );
        std::fs::write(self.path("disktime.toml"), text).unwrap();
        self.mode("disktime.toml", 0o644);
    }

    /// The program after a shell's `before`, as another user if this one is the superuser.
    fn command(&self, before: &str, words: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command
            .current_dir(self.0.path())
            .arg("-c")
            .arg(format!("{before} exec ./disktime \"$@\""));
        command.arg("sh").args(words).stdin(std::process::Stdio::null());
        if rustix::process::geteuid().is_root() {
            std::os::unix::process::CommandExt::uid(&mut command, 65534);
            std::os::unix::process::CommandExt::gid(&mut command, 65534);
        }
        command
    }
}

/// Both said that the file can be served, and the start failed: it could be read.
#[test]
fn a_file_that_may_not_be_written_is_told_before_a_start() {
    let elsewhere = Elsewhere::new();
    let image = elsewhere.path("image");
    std::fs::write(&image, vec![0; 1 << 20]).unwrap();
    elsewhere.configure(&format!("file:{}", image.display()));
    // Its layout is recorded beside it.
    elsewhere.mode("", 0o777);
    let run = |words: &[&str]| {
        let output = elsewhere.command("", words).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    for (bits, doctor, check) in [(0o666, 0, 0), (0o444, 1, 2)] {
        elsewhere.mode("image", bits);
        let (exit, said) = run(&["doctor", "image"]);
        assert_eq!(exit, Some(doctor), "{said}");
        assert_eq!(said.contains("Permission denied"), doctor == 1, "{said}");
        let (exit, said) = run(&["serve", "--check", "--config", "disktime.toml"]);
        assert_eq!(exit, Some(check), "{said}");
        assert_eq!(said.contains("image: Permission denied"), check == 2, "{said}");
    }
}

/// The doctor asked for a ring of 8 entries, and had one where a device's thread gets none.
#[test]
fn the_doctor_asks_for_such_a_ring_as_a_device_has() {
    let elsewhere = Elsewhere::new();
    elsewhere.configure("memory");
    for limit in ["ulimit -l 64;", "ulimit -l 1024;"] {
        let said = elsewhere.command(limit, &["doctor"]).output().unwrap();
        let mut serve = elsewhere.command(limit, &["serve", "--config", "disktime.toml"]);
        serve.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
        let mut daemon = serve.spawn().unwrap();
        let mut line = String::new();
        let output = daemon.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let _ended_already = daemon.kill();
        daemon.wait().unwrap();
        let text = String::from_utf8_lossy(&said.stdout);
        assert_eq!(said.status.success(), line.starts_with("db"), "{limit} {line}: {text}");
    }
}

/// Docker refuses io_uring with EPERM, Podman hides it behind ENOSYS, kernels before 6.1 don't know its flags.
#[test]
fn a_system_that_refuses_io_uring_is_told_with_what_mends_it() {
    needs!("a_system_that_refuses_io_uring_is_told_with_what_mends_it", "strace");
    let directory = TempDir::new().unwrap();
    let at = directory.path().to_str().unwrap();
    let config = directory.path().join("disktime.toml");
    let server = format!("server = {{ nbd = [\"unix:{at}/socket\"] }}\n");
    std::fs::write(&config, server + &DISKS.replace("DIRECTORY", at)).unwrap();
    let remedies = [
        ("EPERM", "use a seccomp profile that allows it"),
        ("ENOSYS", "either a container engine hides it"),
        ("EINVAL", "Linux 6.1 or newer"),
        ("ENOMEM", "raise the limit to 64 MiB"),
    ];
    for (error, remedy) in remedies {
        let refused = |words: &[&str]| {
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o", "/dev/null", "-e"]);
            strace.arg(format!("inject=io_uring_setup:error={error}"));
            finish(strace.arg(env!("CARGO_BIN_EXE_disktime")).args(words))
        };
        let found = refused(&["doctor", "--json"]);
        let found: Value = serde_json::from_slice(&found.stdout).unwrap();
        assert_eq!(found["pass"], false, "{error}: {found}");
        assert!(found["machine"].to_string().contains(remedy), "{error}: {found}");
        let output = refused(&["serve", "--config", config.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("io_uring") && said.contains(remedy), "{error}: {said}");
        assert_eq!(output.status.code(), Some(1), "{error}: {said}");
    }
}

#[test]
fn a_report_has_a_trace_that_is_replayed_and_no_secret() {
    let disks = "[[device]]\nname = \"ram\"\nback_end = \"memory\"\n[[vdisk]]\nname = \"mem\"\n\
                 device = \"ram\"\nsize = \"64MiB\"\nreserve = \"50%\"\nrecord = \"DIRECTORY/mem.csv\"\n";
    let daemon = Daemon::start(&format!("tokens = \"DIRECTORY/tokens\"\n{disks}"));
    let uri = daemon.uri("mem");
    let played = ["play", "--rate", "1MB/s", "--for", "2s", &uri];
    assert!(finish(disktime().args(played)).status.success());
    let (kept, ended) = daemon.end("TERM");
    assert!(ended);
    let directory = kept.path();
    let config = directory.join("disktime.toml");
    let out = directory.join("report");
    let mut report = disktime();
    report.args(["report", "--json", "--url", "unix:/nowhere/control.sock", "--config"]);
    let output = finish(report.arg(&config).arg("--out").arg(&out));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said["left_out"][0].as_str().unwrap().starts_with("daemon.json"), "{said}");
    assert!(text(&out.join("configuration.toml")).contains("tokens = \"left out\""));
    let run = finish(disktime().args(["sim", "run"]).arg(out.join("scenario.toml")));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(String::from_utf8_lossy(&run.stdout).contains("mem"));
    // A directory that is there is not written to.
    let mut again = disktime();
    let again = finish(again.arg("report").arg("--out").arg(&out));
    assert_eq!(again.status.code(), Some(2));
}

#[test]
fn a_report_of_a_daemon_has_its_figures_and_events() {
    let directory = TempDir::new().unwrap();
    let served = Served::start(directory.path());
    served.exits(0, &["device", "add", "ram", "--back-end", "memory"]);
    let out = directory.path().join("report");
    let mut report = disktime();
    let output = finish(report.args(["report", "--state", &served.state, "--out"]).arg(&out));
    assert!(output.status.success());
    assert!(text(&out.join("devices.json")).contains("\"ram\""));
    assert!(text(&out.join("events.json")).contains("\"created\""));
    assert!(text(&out.join("metrics.txt")).contains("disktime_device_busy_seconds"));
}
