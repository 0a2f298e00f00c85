//! `cargo xtask bench guest`: a guest's kernel attaches an export by its own NBD driver, discards,
//! zeroes, makes a file system and uses it. A step that fails, or a line of warning or worse in the
//! kernel's log, is found.
//!
//! The guest is emulated, so it needs no rights and no module on this machine. Its kernel is Debian's.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::stream::timed;
use crate::workspace::{Workspace, cargo};

/// Time that the guest may take: a step that hangs is found.
const GUEST_TIME_MAX: Duration = Duration::from_secs(420);
/// Debian's package that depends on the newest kernel for guests.
const KERNEL: &str = "linux-image-cloud-amd64";
/// The guest's first program.
const INIT: &str = include_str!("guest/init.sh");
/// Modules, each after those that it needs. Kernels that have one built in have no file of it.
const MODULES: [&str; 9] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "nbd",
];
/// Programs of this machine that the guest runs, and their packages.
const GUESTS: [(&str, &str); 6] = [
    ("busybox", "busybox-static"),
    ("nbd-client", "nbd-client"),
    ("mke2fs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("blkdiscard", "util-linux"),
    ("fstrim", "util-linux"),
];
/// Programs that this bench runs, and their packages.
const OURS: [(&str, &str); 4] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("cpio", "cpio"),
    ("dpkg", "dpkg"),
    ("ldd", "libc-bin"),
];

/// Runs the command; see the module.
///
/// # Errors
/// When a program is missing, no kernel can be had, or the daemon or the guest can't be started.
pub(super) fn run(words: &[String]) -> Result<bool> {
    let given = parse(words)?;
    let missing: Vec<_> =
        OURS.iter().chain(&GUESTS).filter(|(program, _)| find(program).is_none()).collect();
    if !missing.is_empty() {
        let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
        bail!("programs are missing; they are in: {}", packages.join(" "));
    }
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let place = workspace.target.join("guest");
    std::fs::create_dir_all(&place)?;
    let kernel = match given {
        Some(kernel) => kernel,
        None => kernel(&place)?,
    };
    let mut build = Command::new(cargo());
    build.current_dir(&workspace.root).args(["build", "--release", "-p", "disktime"]);
    succeed(build.stdin(Stdio::null()))?;
    let (_daemon, port) = serve(&workspace.target.join("release/disktime"), &place)?;
    let said = guest(&kernel, &place, &port)?;
    std::fs::write(place.join("guest.log"), &said)?;
    let (table, found) = judge(&said);
    print!("{table}");
    if said.lines().any(|line| line.trim_end() == "ZEROES 0") {
        println!(
            "this kernel's driver knows no zeroes (Linux 6.12's does) and writes them instead"
        );
    }
    for line in &found {
        println!("found: {line}");
    }
    println!("the guest's words: {}", place.join("guest.log").display());
    Ok(found.is_empty())
}

fn parse(words: &[String]) -> Result<Option<PathBuf>> {
    match words {
        [] => Ok(None),
        [option, value] if option == "--kernel" => Ok(Some(value.into())),
        _ => bail!("`{}` is not --kernel DIR", words.join(" ")),
    }
}

/// A program's file.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} can't be run"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{command:?} can't be run"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The folder of Debian's kernel, which is fetched and unpacked once and installed nowhere.
fn kernel(place: &Path) -> Result<PathBuf> {
    let folder = place.join("kernel");
    if image(&folder).is_ok() {
        return Ok(folder);
    }
    let depends = output(Command::new("apt-cache").args(["depends", KERNEL]))?;
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let package = package.with_context(|| format!("apt knows no {KERNEL}; give --kernel DIR"))?;
    succeed(Command::new("apt-get").current_dir(place).args(["-q", "download", package]))?;
    let archive = std::fs::read_dir(place)?.filter_map(Result::ok).map(|entry| entry.path());
    let archive = archive.into_iter().find(|path| path.extension().is_some_and(|it| it == "deb"));
    let archive = archive.context("apt-get has left no package")?;
    succeed(Command::new("dpkg").arg("-x").arg(&archive).arg(&folder))?;
    std::fs::remove_file(archive)?;
    Ok(folder)
}

/// The kernel in a folder that a package was unpacked to.
fn image(kernel: &Path) -> Result<PathBuf> {
    let boot = kernel.join("boot");
    let files = std::fs::read_dir(&boot).with_context(|| boot.display().to_string())?;
    let mut files = files.filter_map(Result::ok).map(|entry| entry.path());
    let is_image = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
    };
    files.find(is_image).with_context(|| format!("{}: no vmlinuz", boot.display()))
}

/// A daemon that ends with this.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Serves an export over TCP on this machine; answers its port.
fn serve(program: &Path, place: &Path) -> Result<(Daemon, String)> {
    // With what an earlier run has recorded of it.
    let served = place.join("served");
    if served.exists() {
        std::fs::remove_dir_all(&served)?;
    }
    std::fs::create_dir_all(&served)?;
    let config = served.join("disktime.toml");
    let text = format!(
        "[server]\nnbd = [\"tcp:127.0.0.1:0\"]\n[[device]]\nname = \"files\"\n\
         back_end = \"file:{}\"\ncreate = true\n[[vdisk]]\nname = \"disk\"\ndevice = \"files\"\n\
         size = \"8GiB\"\n",
        served.join("disks").display()
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new(program);
    command.args(["serve", "--config"]).arg(&config).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut daemon = Daemon(command.spawn().context("the daemon can't be started")?);
    let mut line = String::new();
    let output = daemon.0.stdout.take().context("the daemon has an output")?;
    BufReader::new(output).read_line(&mut line)?;
    let port = line.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split('/').next());
    let port = port.with_context(|| format!("the daemon names no port: {line}"))?.trim().to_owned();
    Ok((daemon, port))
}

/// Runs the guest to its end; answers its words.
fn guest(kernel: &Path, place: &Path, port: &str) -> Result<String> {
    let root = place.join("root");
    if root.exists() {
        std::fs::remove_dir_all(&root)?;
    }
    for folder in ["bin", "sbin", "proc", "sys", "dev", "etc", "modules"] {
        std::fs::create_dir_all(root.join(folder))?;
    }
    for (program, _) in GUESTS {
        install(&root, program)?;
    }
    std::os::unix::fs::symlink("../sbin/busybox", root.join("bin/busybox"))?;
    std::os::unix::fs::symlink("busybox", root.join("bin/sh"))?;
    modules(&kernel.join("lib/modules"), &root.join("modules"))?;
    std::fs::write(root.join("modules/order"), MODULES.join("\n"))?;
    std::fs::write(root.join("port"), port)?;
    std::fs::write(root.join("init"), INIT)?;
    succeed(Command::new("chmod").arg("755").arg(root.join("init")))?;
    let archive = place.join("initrd");
    let mut pack = Command::new("sh");
    pack.current_dir(&root).args(["-c", "find . | cpio --quiet -o -H newc > \"$0\""]);
    succeed(pack.arg(&archive))?;
    let mut command = timed(GUEST_TIME_MAX, "qemu-system-x86_64");
    command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024"]);
    command.args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"]);
    command.args(["-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n,romfile="]);
    command.arg("-kernel").arg(image(kernel)?).arg("-initrd").arg(archive);
    command.args(["-append", "console=ttyS0 panic=-1 loglevel=3"]);
    output(command.stderr(Stdio::inherit()))
}

/// Puts a program of this machine, and the libraries that it needs, into the guest.
fn install(root: &Path, program: &str) -> Result<()> {
    let file = find(program).with_context(|| format!("{program} is gone"))?;
    std::fs::copy(&file, root.join("sbin").join(program))?;
    // It refuses a program without libraries, and names none.
    let libraries = output(Command::new("ldd").arg(&file))?;
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        let path = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().context("a library lies in a folder")?)?;
        std::fs::copy(library, path)?;
    }
    Ok(())
}

/// Copies those of the wanted modules that lie in a folder or below.
fn modules(folder: &Path, target: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            modules(&path, target)?;
        } else if name.split_once(".ko").is_some_and(|(stem, _)| MODULES.contains(&stem)) {
            std::fs::copy(&path, target.join(name))?;
        }
    }
    Ok(())
}

/// A table of the steps, and what is wrong in the words of a guest.
fn judge(said: &str) -> (String, Vec<String>) {
    let (mut table, mut found, mut step) = (String::new(), Vec::new(), None);
    let mut lines = said.lines().map(str::trim_end);
    for line in lines.by_ref().take_while(|line| *line != "LOG") {
        if let Some(text) = line.strip_prefix("STEP ") {
            step = Some(text);
        } else if let (Some(text), Some(rest)) = (step, line.strip_prefix("ENDED ")) {
            let (status, at) = rest.split_once(' ').unwrap_or((rest, "?"));
            let _never_fails = writeln!(table, "{at:>8} s  {text}");
            if status != "0" {
                found.push(format!("{text}: exit status {status}"));
            }
            step = None;
        }
    }
    // A line of the kernel's log begins with its level; 4 is a warning, 0 the end of all.
    let is_bad = |line: &&&str| {
        let level = line.strip_prefix('<').and_then(|rest| rest.split('>').next());
        level.and_then(|level| level.parse::<u32>().ok()).is_some_and(|level| level % 8 <= 4)
    };
    let log: Vec<&str> = lines.take_while(|line| *line != "END").collect();
    let since = log.iter().position(|line| line.ends_with("] MARK"));
    match since {
        Some(since) => found.extend(
            log[since + 1..].iter().filter(is_bad).map(|line| format!("the kernel's log: {line}")),
        ),
        None => found.push("the guest did not come to its end".to_owned()),
    }
    if let Some(step) = step {
        found.push(format!("{step}: did not end"));
    }
    (table, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "STEP blkdiscard -z\r\nENDED 0 3.20\r\nSTEP mount\r\nENDED 0 4.10\r\nLOG\r\n\
        <3>[    1.0] before\r\n<12>[    2.0] MARK\r\n<6>[    3.0] EXT4-fs: mounted\r\nEND\r\n";

    #[test]
    fn a_step_that_fails_and_an_error_in_the_log_are_found() {
        let (table, found) = judge(GOOD);
        assert_eq!(found, [""; 0]);
        assert_eq!(table, "    3.20 s  blkdiscard -z\n    4.10 s  mount\n");
        for (from, to, says) in [
            ("ENDED 0 4.10", "ENDED 1 4.10", "mount: exit status 1"),
            ("<6>[    3.0] EXT4-fs: mounted", "<3>[ 3.0] I/O error", "the kernel's log: <3>[ 3.0]"),
            ("ENDED 0 4.10\r\nLOG", "", "did not end"),
            ("MARK", "", "did not come to its end"),
        ] {
            let (_, found) = judge(&GOOD.replace(from, to));
            assert!(found.iter().any(|line| line.contains(says)), "{says}: {found:?}");
        }
    }

    #[test]
    fn words_are_understood_or_named() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(parse(&[]).unwrap(), None);
        assert_eq!(parse(&words("--kernel k")).unwrap(), Some("k".into()));
        assert!(parse(&words("--kernl k")).unwrap_err().to_string().contains("--kernl"));
    }
}
