//! The Debian packages that end-to-end tests need. A test that lacks one skips itself aloud, so a
//! missing package is a note and not a failure.

use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::finding::{Finding, Report};
use crate::stream::{stream, timed};

const UPDATE_TIME_MAX: Duration = Duration::from_secs(120);
const INSTALL_TIME_MAX: Duration = Duration::from_secs(300);

/// A package, and a command that succeeds where it is installed.
#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: &'static str,
    probe: &'static [&'static str],
}

const PACKAGES: &[Package] = &[
    Package { name: "fio", probe: &["fio", "--version"] },
    Package { name: "libnbd-bin", probe: &["nbdinfo", "--version"] },
    Package { name: "fuse3", probe: &["fusermount3", "--version"] },
    // Debian's bindings are for Debian's Python, whatever `python3` is first in the path.
    Package { name: "python3-libnbd", probe: &["/usr/bin/python3", "-c", "import nbd"] },
    Package { name: "nbdkit", probe: &["nbdkit", "--version"] },
    // libFuzzer is built from its source.
    Package { name: "g++", probe: &["c++", "--version"] },
    // It counts the instructions of the core's paths.
    Package { name: "valgrind", probe: &["valgrind", "--version"] },
    // It plays a system that refuses io_uring.
    Package { name: "strace", probe: &["strace", "--version"] },
    Package { name: "qemu-utils", probe: &["qemu-img", "--version"] },
    // File systems with clones, for snapshots.
    Package { name: "xfsprogs", probe: &["mkfs.xfs", "-V"] },
    Package { name: "btrfs-progs", probe: &["mkfs.btrfs", "--version"] },
    // The page is tried in a browser.
    Package { name: "chromium", probe: &["chromium", "--version"] },
    // For virt-xml-validate, which reads libvirt's example, and the parser of YAML for two others.
    Package { name: "libvirt-clients", probe: &["virt-xml-validate", "--version"] },
    Package { name: "libxml2-utils", probe: &["xmllint", "--version"] },
    Package { name: "python3-yaml", probe: &["/usr/bin/python3", "-c", "import yaml"] },
    // For its parser, which reads the unit's profile.
    Package { name: "apparmor", probe: &["apparmor_parser", "--version"] },
    // For promtool, which reads the board's rules.
    Package { name: "prometheus", probe: &["promtool", "--version"] },
];

/// The action on missing packages.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Install,
    Tell,
}

/// Installs what is missing where `install` is wanted and we may, and names what still is.
pub(super) fn run(install: bool) -> Report {
    let mut report = Report::default();
    let mut missing = missing(PACKAGES, is_installed);
    if plan(&missing, install && is_root() && succeeds(&["apt-get", "--version"])) == Plan::Install
    {
        let failures = install_all(&missing);
        report.notes.extend(failures.into_iter().map(|it| Finding::new("apt-get", it)));
        missing.retain(|package| !is_installed(package));
    }
    report.notes.extend(missing.iter().map(|package| {
        Finding::new(package.name, "is not installed; tests that need it skip themselves")
    }));
    report
}

fn missing(packages: &[Package], installed: fn(&Package) -> bool) -> Vec<&Package> {
    packages.iter().filter(|package| !installed(package)).collect()
}

fn plan(missing: &[&Package], may_install: bool) -> Plan {
    match (missing.is_empty(), may_install) {
        (true, _) => Plan::Nothing,
        (false, true) => Plan::Install,
        (false, false) => Plan::Tell,
    }
}

/// Each step's failure, if any. Installing is tried even when updating failed: lists may be there.
fn install_all(missing: &[&Package]) -> Vec<String> {
    let names = missing.iter().map(|package| package.name);
    let install = ["install", "-y", "--no-install-recommends"].into_iter().chain(names);
    [apt_get(UPDATE_TIME_MAX, &["update"]), apt_get(INSTALL_TIME_MAX, &install.collect::<Vec<_>>())]
        .into_iter()
        .flatten()
        .collect()
}

fn apt_get(limit: Duration, words: &[&str]) -> Option<String> {
    let mut command = timed(limit, "apt-get");
    command.args(words).args(["-q", "-o", "DPkg::Lock::Timeout=60"]);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    match stream(command) {
        Ok(ended) => ended.failure.map(|failure| format!("{} {failure}", words[0])),
        Err(error) => Some(format!("{error:#}")),
    }
}

fn is_installed(package: &Package) -> bool {
    succeeds(package.probe)
}

fn succeeds(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANTED: &[Package] = &[
        Package { name: "there", probe: &["sh", "-c", "exit 0"] },
        Package { name: "broken", probe: &["sh", "-c", "exit 1"] },
        Package { name: "absent", probe: &["no-such-program"] },
    ];

    #[test]
    fn a_program_that_does_not_run_is_missing() {
        let names: Vec<_> = missing(PLANTED, is_installed).iter().map(|it| it.name).collect();
        assert_eq!(names, ["broken", "absent"]);
    }

    #[test]
    fn only_root_installs_and_only_missing_packages() {
        let some = [&PLANTED[1]];
        assert_eq!(plan(&[], true), Plan::Nothing);
        assert_eq!(plan(&some, true), Plan::Install);
        assert_eq!(plan(&some, false), Plan::Tell);
    }
}
