//! The package is installed, upgraded, removed and purged in a root directory of its own, without an
//! init system. A script stands for the binary: the real one writes the same files (`crates/cli`).

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;

const BINARY: &str = "#!/bin/sh\nset -e\n[ \"$1\" = manual ]\nmkdir -p \"$3/man1\" \"$3/completions/bash\" \
                      \"$3/completions/fish\" \"$3/completions/zsh\"\necho page > \"$3/man1/disktime.1\"\n\
                      for file in bash/disktime fish/disktime.fish zsh/_disktime; do echo x > \
                      \"$3/completions/$file\"; done\n";

/// Tells that a test can't run here; whether it can't.
fn lacks(test: &str, program: &str) -> bool {
    if Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success()) {
        return false;
    }
    let line = format!("SKIP: {test}: {program} is not installed");
    eprintln!("{line}");
    if let Ok(path) = std::env::var("DISKTIME_SKIPS") {
        let file = fs::OpenOptions::new().append(true).create(true).open(path);
        writeln!(file.expect("the list of skips opens"), "{line}").expect("a skip can be told");
    }
    true
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_owned()
}

fn package(out: &Path, version: &str, tarball: bool) -> PathBuf {
    let binary = out.join("binary");
    fs::write(&binary, BINARY).expect("a script can be written");
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).expect("it is executable");
    let version = Some(version.to_owned());
    let plan = Plan { root: root(), binary: Some(binary), out: out.to_owned(), version, tarball };
    plan.make(out).expect("the package is built")
}

/// A root directory with a package database and nothing else.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(TempDir::new().expect("a temporary directory can be made"));
        for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
            fs::create_dir_all(machine.path(directory)).expect("a directory can be made");
        }
        fs::write(machine.path("var/lib/dpkg/status"), "").expect("a file can be written");
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn dpkg(&self, words: &[&std::ffi::OsStr]) {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", self.0.path().display()));
        command.args(["--log=/dev/null", "--force-not-root", "--force-depends", "--force-confold"]);
        command.args(["--force-script-chrootless", "--force-bad-path"]).args(words);
        succeeds(&mut command).expect("dpkg does as it is asked");
    }
}

#[test]
fn the_package_is_installed_upgraded_removed_and_purged_and_leaves_data_alone() {
    if lacks("the_package_is_installed_upgraded_removed_and_purged", "dpkg-deb") {
        return;
    }
    let (out, machine) = (TempDir::new().expect("a directory"), Machine::new());
    let (old, new) = (package(out.path(), "0.1.9", false), package(out.path(), "0.2.0", false));
    // apt said that the package takes no room.
    let size = output(Command::new("dpkg-deb").arg("-f").arg(&new).arg("Installed-Size"));
    assert!(size.expect("it is stated").parse::<u64>().expect("a number") > 60);
    machine.dpkg(&["--install".as_ref(), old.as_ref()]);
    for (_, place, _) in FILES {
        assert!(machine.path(place).is_file(), "{place} is not there");
    }
    for place in ["usr/bin/disktime", "usr/share/man/man1/disktime.1.gz", COMPLETIONS[2].1] {
        assert!(machine.path(place).is_file(), "{place} is not there");
    }
    // The administrator's configuration and data, and an upgrade.
    let data = machine.path("var/lib/disktime/pool");
    fs::create_dir_all(&data).expect("a directory can be made");
    fs::write(data.join("db.raw"), "data").expect("a file can be written");
    let configuration = machine.path("etc/disktime.toml");
    fs::write(&configuration, "# mine\n").expect("a file can be written");
    machine.dpkg(&["--install".as_ref(), new.as_ref()]);
    let text = || fs::read_to_string(&configuration).expect("the configuration is there");
    assert_eq!(text(), "# mine\n", "an upgrade keeps what was changed");
    machine.dpkg(&["--remove".as_ref(), "disktime".as_ref()]);
    assert!(!machine.path("usr/bin/disktime").exists());
    assert_eq!(text(), "# mine\n", "the configuration stays until it is purged");
    machine.dpkg(&["--purge".as_ref(), "disktime".as_ref()]);
    assert!(!configuration.exists(), "a purge removes the configuration");
    assert_eq!(fs::read_to_string(data.join("db.raw")).expect("data stay"), "data");
}

/// As on a system with `/usr` merged, where `/lib` is a link: the tarball had a directory `lib`, and tar
/// put it in the place of the link, so that no program found its libraries any more. Modes of the
/// directories of the machine, `/` too, became those of the builder's.
#[test]
fn the_tarball_has_the_files_of_the_package_and_no_directory() {
    if lacks("the_tarball_has_the_files_of_the_package_and_no_directory", "dpkg") {
        return;
    }
    let (out, machine) = (TempDir::new().expect("a directory"), TempDir::new().expect("a root"));
    let made = package(out.path(), "0.2.0", true);
    let list = output(Command::new("tar").arg("-tzf").arg(&made)).expect("the tarball can be read");
    for (_, place, _) in FILES {
        assert!(format!("{list}\n").contains(&format!("./{place}\n")), "{place} is not in {list}");
    }
    assert!(!list.contains("DEBIAN"), "{list}");
    assert!(list.lines().all(|name| !name.ends_with('/')), "{list}");
    let path = |name: &str| machine.path().join(name);
    fs::create_dir_all(path("usr/lib")).expect("a directory can be made");
    std::os::unix::fs::symlink("usr/lib", path("lib")).expect("a link can be made");
    fs::set_permissions(path("usr"), fs::Permissions::from_mode(0o711)).expect("it has a mode");
    succeeds(Command::new("tar").arg("-C").arg(machine.path()).arg("-xzf").arg(made))
        .expect("the tarball can be unpacked");
    assert!(path("lib").is_symlink(), "/lib is a link as before");
    let mode = fs::metadata(path("usr")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o711, "the machine's directories are as before");
    assert!(path("lib/systemd/system/disktime.service").is_file());
}

/// A builder with the mask 077 had no package, and one with 002 a package whose directories its group
/// may write to.
#[test]
fn a_packages_directories_are_open_whatever_the_builders_mask_is() {
    let tree = TempDir::new().expect("a directory");
    let deep = tree.path().join("usr/share");
    fs::create_dir_all(&deep).expect("a directory can be made");
    for (directory, mode) in [(&deep, 0o700), (&tree.path().to_owned(), 0o775)] {
        fs::set_permissions(directory, fs::Permissions::from_mode(mode)).expect("it has a mode");
    }
    open_to_all(tree.path()).expect("modes can be set");
    for directory in [tree.path(), &tree.path().join("usr"), &deep] {
        let mode = fs::metadata(directory).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{}", directory.display());
    }
}

/// systemd's own judgement of the unit: no word that it does not know, and an exposure of at most 3.
#[test]
fn systemd_understands_the_units_and_finds_them_tight() {
    if lacks("systemd_understands_the_units_and_finds_them_tight", "systemd-analyze") {
        return;
    }
    let directory = TempDir::new().expect("a directory");
    for unit in ["disktime.service", "disktime.socket"] {
        let text = fs::read_to_string(root().join("examples/systemd").join(unit));
        // A program that is there, and no manual that is not installed.
        let text = text.expect("the unit is there").replace("/usr/bin/disktime", "/bin/true");
        let text = text.replace("Documentation=man:disktime-serve(1)\n", "");
        fs::write(directory.path().join(unit), text).expect("a unit can be written");
    }
    // Minimal systems have no /bin/kill, and a reload failed there.
    let text = fs::read_to_string(root().join("examples/systemd/disktime.service"));
    for line in text.expect("the unit is there").lines().filter(|line| line.starts_with("Exec")) {
        let program = line.split(['=', ' ']).nth(1).unwrap_or_default();
        assert!(["/usr/bin/disktime", "/bin/sh"].contains(&program), "{line}");
    }
    // `systemctl reload` succeeded whatever the configuration said.
    let text = fs::read_to_string(root().join("examples/systemd/disktime.service"));
    let text = text.expect("the unit is there");
    let of = |key: &str| text.lines().filter_map(|line| line.strip_prefix(key)).collect::<Vec<_>>();
    let start = of("ExecStart=");
    assert_eq!(of("ExecReload=")[0], format!("{} --check", start[0]));
    let service = directory.path().join("disktime.service");
    let mut verify = Command::new("systemd-analyze");
    let found = verify.arg("verify").arg(&service).output().expect("systemd-analyze runs");
    let said = String::from_utf8_lossy(&found.stderr).into_owned();
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("disktime")).collect();
    assert!(found.status.success() && ours.is_empty(), "{said}");
    let mut security = Command::new("systemd-analyze");
    let options = ["security", "--offline=true", "--threshold=30"];
    let found = security.args(options).arg(&service).output().expect("systemd-analyze runs");
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stdout));
}

/// Under systemd 252 the group of the socket became the daemon's: the socket's unit made the directory as
/// root, and the service gave it and all in it to its user. Five failed starts ended the socket.
#[test]
fn the_socket_keeps_its_group_and_outlives_a_mistake_in_the_configuration() {
    let unit = |name: &str| {
        let text = fs::read_to_string(root().join("examples/systemd").join(name));
        text.expect("the unit is there")
    };
    let (service, socket) = (unit("disktime.service"), unit("disktime.socket"));
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("{key} is not stated")).to_owned()
    };
    let directory = format!("/run/{}", value(&service, "RuntimeDirectory"));
    assert!(value(&socket, "ListenStream").starts_with(&format!("{directory}/")));
    let owner = format!("{}:{}", value(&service, "User"), value(&service, "Group"));
    let made = format!("mkdir -p {directory} && chown {owner} {directory}");
    assert_eq!(value(&socket, "ExecStartPre"), format!("/bin/sh -c '{made}'"));
    assert_eq!(value(&service, "StartLimitIntervalSec"), "0");
    assert_eq!(value(&service, "Restart"), "on-failure");
}

/// Parsed and not loaded: tests don't change the machine.
#[test]
fn apparmor_understands_the_profile() {
    let test = "apparmor_understands_the_profile";
    if lacks(test, "apparmor_parser") {
        return;
    }
    let mut parser = Command::new("apparmor_parser");
    let options = ["--skip-kernel-load", "--skip-cache", "--skip-read-cache"];
    let found = parser.args(options).arg(root().join("packaging/apparmor/disktime")).output();
    let found = found.expect("apparmor_parser runs");
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
}

/// A profile that forbids io_uring is what engines have already.
#[test]
fn the_container_may_use_io_uring_and_nothing_that_it_never_needs() {
    let text = fs::read_to_string(root().join("packaging/container/seccomp.json"));
    let profile: serde_json::Value =
        serde_json::from_str(&text.expect("the profile is there")).expect("it is JSON");
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ALLOW");
    let denied: Vec<&str> = profile["syscalls"][0]["names"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(serde_json::Value::as_str)
        .collect();
    assert_eq!(profile["syscalls"][0]["action"], "SCMP_ACT_ERRNO");
    for needed in ["io_uring_setup", "io_uring_enter", "io_uring_register"] {
        assert!(!denied.contains(&needed), "{needed} is denied");
    }
    for never in ["mount", "ptrace", "bpf", "reboot", "init_module", "kexec_load", "setns"] {
        assert!(denied.contains(&never), "{never} is allowed");
    }
}
