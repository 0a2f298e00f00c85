//! The machine: kernel, io_uring, limits, clock, stolen time, control groups.

use std::fs;

use disktime_server::ring;

use super::{Check, State};

/// The first kernel whose io_uring has all that a device's thread asks for.
const KERNEL: (u32, u32) = (6, 1);
/// Locked memory for buffers that are registered with io_uring.
const MEMLOCK: u64 = 64 << 20;
/// Descriptors for a few thousand clients.
const DESCRIPTORS: u64 = 4_096;
/// Stolen time above which shares are not judged, in parts per thousand.
const STEAL_PER_MILLE: u64 = 20;
/// Sources of the clock that cost tens of nanoseconds a look.
const QUICK_CLOCKS: &[&str] =
    &["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];

pub(super) fn checks() -> Vec<Check> {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    vec![
        kernel(&release),
        uring(),
        limit("memlock", rustix::process::Resource::Memlock, MEMLOCK),
        limit("descriptors", rustix::process::Resource::Nofile, DESCRIPTORS),
        clock(read("/sys/devices/system/clocksource/clocksource0/current_clocksource").trim()),
        steal(&read("/proc/stat")),
        cgroups(&read("/proc/self/cgroup"), |file| fs::read_to_string(file).ok()),
        bfq(&release, &schedulers(&release), |file| fs::exists(file).unwrap_or(false)),
        fuse(fs::exists("/dev/fuse").unwrap_or(false), may_mount()),
    ]
}

fn kernel(release: &str) -> Check {
    let mut numbers = release.split(['.', '-']).map(|it| it.parse().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let advice = "io_uring of Linux 6.1 or newer is needed: install a newer kernel";
    Check::unless(found >= KERNEL, State::Missing, "kernel", (format!("Linux {release}"), advice))
}

fn uring() -> Check {
    match ring::available() {
        Ok(()) => Check::ok("io_uring", "works, with deferred task work"),
        Err(error) => {
            Check::new("io_uring", State::Missing, error.to_string(), ring::remedy(&error))
        }
    }
}

fn limit(name: &'static str, resource: rustix::process::Resource, least: u64) -> Check {
    let limit = rustix::process::getrlimit(resource).current;
    let found = limit.map_or("no limit".to_owned(), |limit| limit.to_string());
    if name == "memlock" && rustix::process::geteuid().is_root() {
        return Check::ok(name, format!("{found}, which does not hold for this user"));
    }
    let advice = if name == "memlock" {
        "buffers are not registered then, and each request costs more: `ulimit -l 65536`, or \
         LimitMEMLOCK=64M in the unit"
    } else {
        "few clients can connect: `ulimit -n 65536`, or LimitNOFILE=65536 in the unit"
    };
    Check::unless(limit.is_none_or(|it| it >= least), State::Note, name, (found, advice))
}

fn clock(source: &str) -> Check {
    let advice = "looking at this clock is slow, and each request looks at it: use the kernel's \
                  `clocksource=tsc` if the machine's is reliable";
    let source = if source.is_empty() { "unknown" } else { source };
    Check::unless(QUICK_CLOCKS.contains(&source), State::Note, "clock", (source.to_owned(), advice))
}

/// Time that the host of a virtual machine took, of all since the start; by `/proc/stat`.
fn steal(stat: &str) -> Check {
    let first = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        first.split_whitespace().skip(1).filter_map(|it| it.parse().ok()).collect();
    let all: u64 = ticks.iter().take(8).sum();
    let stolen = ticks.get(7).copied().unwrap_or(0);
    let per_mille = stolen * 1000 / all.max(1);
    let found = format!("{}.{} % since the start", per_mille / 10, per_mille % 10);
    let advice = "the host of this machine takes processor time, and shares are kept late: use \
                  processors of its own";
    Check::unless(per_mille < STEAL_PER_MILLE, State::Note, "steal", (found, advice))
}

/// The control group of this process, by `/proc/self/cgroup`, and its limits.
fn cgroups(own: &str, read: impl Fn(&str) -> Option<String>) -> Check {
    let Some(path) = own.lines().find_map(|line| line.strip_prefix("0::")) else {
        let found = if own.is_empty() { "none" } else { "version 1" };
        return Check::ok("cgroups", found);
    };
    let file = |name: &str| read(&format!("/sys/fs/cgroup{}/{name}", path.trim_end_matches('/')));
    let limited = |text: Option<String>| text.filter(|it| !it.trim().starts_with("max"));
    let memory = limited(file("memory.max")).map(|it| format!("memory {} bytes", it.trim()));
    let cpu = limited(file("cpu.max")).map(|it| format!("processor {} µs", it.trim()));
    let limits: Vec<String> = memory.into_iter().chain(cpu).collect();
    let found =
        format!("version 2{}{}", if limits.is_empty() { "" } else { ", " }, limits.join(", "));
    let advice = "the group's limits hold for the daemon too: state `memory` in [server] well below \
                  the group's, and leave a device's thread its processor";
    Check::unless(limits.is_empty(), State::Note, "cgroups", (found, advice))
}

/// Linux's BFQ, which `bench insulation --live` compares with; `known` lists schedulers of the kernel.
fn bfq(release: &str, known: &str, exists: impl Fn(&str) -> bool) -> Check {
    let modules = format!("/lib/modules/{release}/kernel/block/bfq.ko");
    let mut places = ["", ".xz", ".zst"].iter().map(|end| format!("{modules}{end}"));
    let there =
        known.contains("bfq") || exists("/sys/module/bfq") || places.any(|place| exists(&place));
    let found = if there { "in the kernel" } else { "not found" };
    let advice =
        "only `disktime bench insulation --live` compares with it: nothing to do for serving";
    Check::unless(there, State::Note, "BFQ", (found.to_owned(), advice))
}

/// The schedulers that block devices can have, and modules that are built in.
fn schedulers(release: &str) -> String {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let lists = devices.map(|it| it.path().join("queue/scheduler"));
    let built_in = format!("/lib/modules/{release}/modules.builtin").into();
    lists.chain([built_in]).filter_map(|it| fs::read_to_string(it).ok()).collect()
}

fn fuse(there: bool, may_mount: bool) -> Check {
    if there && !may_mount {
        let advice = "`disktime mount` needs it for users other than root: install fuse3";
        return Check::new("FUSE", State::Note, "/dev/fuse, and no fusermount3", advice);
    }
    let found = if there { "/dev/fuse" } else { "no /dev/fuse" };
    let advice = "`disktime mount` needs it: `modprobe fuse`, or give the container the device";
    Check::unless(there, State::Note, "FUSE", (found.to_owned(), advice))
}

/// Whether this user may mount, or has a program that does it.
fn may_mount() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name| std::env::split_paths(&path).any(|it| it.join(name).is_file());
    rustix::process::geteuid().is_root() || there("fusermount3") || there("fusermount")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compared_by_number() {
        for (release, state) in [
            ("6.1.0-18-amd64", State::Ok),
            ("6.18.44", State::Ok),
            ("10.0", State::Ok),
            ("6.0.9", State::Missing),
            ("5.15.0", State::Missing),
            ("strange", State::Missing),
        ] {
            assert_eq!(kernel(release).state, state, "{release}");
        }
    }

    #[test]
    fn stolen_time_is_a_part_of_all_time() {
        assert_eq!(steal("cpu 100 0 100 700 0 0 0 100 0 0\n").state, State::Note);
        assert_eq!(steal("cpu 100 0 100 700 0 0 0 100 0 0\n").found, "10.0 % since the start");
        assert_eq!(steal("cpu 100 0 100 799 0 0 0 1 5000 0\n").state, State::Ok);
        assert_eq!(steal("").state, State::Ok);
    }

    #[test]
    fn limits_of_a_control_group_are_told() {
        let read = |file: &str| match file {
            "/sys/fs/cgroup/app/memory.max" => Some("1073741824\n".to_owned()),
            "/sys/fs/cgroup/app/cpu.max" => Some("max 100000\n".to_owned()),
            _ => None,
        };
        let found = cgroups("0::/app\n", read);
        assert_eq!(found.found, "version 2, memory 1073741824 bytes");
        assert_eq!(found.state, State::Note);
        assert_eq!(cgroups("0::/\n", |_| None).state, State::Ok);
        assert_eq!(cgroups("4:memory:/x\n", |_| None).found, "version 1");
    }

    #[test]
    fn slow_clocks_and_missing_parts_are_notes() {
        assert_eq!(clock("hpet").state, State::Note);
        assert_eq!(clock("tsc").state, State::Ok);
        assert_eq!(bfq("6.1", "", |_| false).state, State::Note);
        assert_eq!(bfq("6.1", "kernel/block/bfq.ko\n", |_| false).state, State::Ok);
        assert_eq!(bfq("6.1", "", |place| place.ends_with("bfq.ko.xz")).state, State::Ok);
        assert_eq!(fuse(false, true).state, State::Note);
        assert_eq!(fuse(true, true).state, State::Ok);
        // A user without root was told that all is well, and could not mount.
        assert!(fuse(true, false).advice.contains("fuse3"));
    }
}
