//! BFQ weights on a loop device over a file: one `qemu-nbd` for each stream, each in a control
//! group of its own. All of it is unmade when dropped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::live::{Alone, NotStarted, Place, Scene, Served};

use super::programs::{EXPORT, places, qemu_nbd, serve};
use crate::server_process::Process;

/// Where the block I/O controller of control groups, version 1, is.
const CONTROLLER: &str = "/sys/fs/cgroup/blkio";
/// BFQ's weights are 1 to 1000: shares of 70 and 30 % are 700 and 300.
const WEIGHT_OF_PERCENT: u32 = 10;
/// How often a group that should be empty is tried to be removed, and after how long again.
const TRIES: u32 = 100;
const AGAIN: Duration = Duration::from_millis(10);

/// Streams under BFQ. The order of the fields is that in which things are unmade.
pub(super) struct Bfq {
    processes: Vec<Process>,
    _groups: Vec<Group>,
    _device: LoopDevice,
    places: Vec<Place>,
}

impl Bfq {
    /// Needs root, loop devices, BFQ in the kernel and its weights in control groups, version 1.
    pub(super) fn start(file: &Path, scene: &Scene, directory: &Path) -> Result<Self, NotStarted> {
        let device = LoopDevice::over(file)?;
        device.choose_bfq()?;
        let socket = |stream: usize| directory.join(format!("bfq-{stream}.sock"));
        let (mut processes, mut groups) = (Vec::new(), Vec::new());
        for (stream, tenant) in scene.tenants.iter().enumerate() {
            let group = Group::new(stream, tenant.share_percent * WEIGHT_OF_PERCENT)?;
            let command = qemu_nbd(&device.0, &socket(stream));
            let process = serve(command, &socket(stream), "qemu-utils")?;
            group.take(process.id())?;
            groups.push(group);
            processes.push(process);
        }
        let places = places(scene, |stream| (EXPORT.to_owned(), socket(stream)))?;
        Ok(Self { processes, _groups: groups, _device: device, places })
    }
}

impl Served for Bfq {
    fn places(&self) -> &[Place] {
        &self.places
    }

    fn charged(&self, _stream: usize) -> Option<Duration> {
        None
    }

    fn limit(&mut self, _alone: &[Alone]) -> Result<(), NotStarted> {
        Ok(())
    }

    fn processes(&self) -> Vec<u32> {
        self.processes.iter().map(Process::id).collect()
    }
}

/// A loop device, until dropped.
struct LoopDevice(PathBuf);

impl LoopDevice {
    /// With direct I/O to the file.
    fn over(file: &Path) -> Result<Self, NotStarted> {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show", "--direct-io=on"]).arg(file).stdin(Stdio::null());
        let unavailable = |why: String| {
            NotStarted::Unavailable(format!("{why}; a loop device takes root and losetup"))
        };
        let output = command.output().map_err(|error| unavailable(format!("losetup: {error}")))?;
        if !output.status.success() {
            return Err(unavailable(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(Self(String::from_utf8_lossy(&output.stdout).trim().into()))
    }

    fn choose_bfq(&self) -> Result<(), NotStarted> {
        let name = self.0.file_name().unwrap_or_default();
        let path = Path::new("/sys/block").join(name).join("queue/scheduler");
        std::fs::write(&path, "bfq").map_err(|error| {
            let path = path.display();
            NotStarted::Unavailable(format!(
                "bfq into {path}: {error}; the kernel needs BFQ: try modprobe bfq"
            ))
        })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let removed = Command::new("losetup").arg("--detach").arg(&self.0).status();
        if !removed.is_ok_and(|status| status.success()) {
            let device = self.0.display();
            eprintln!("{device} is still there: remove it with losetup --detach {device}");
        }
    }
}

/// A control group, until dropped; it has to be empty by then.
struct Group(PathBuf);

impl Group {
    fn new(stream: usize, weight: u32) -> Result<Self, NotStarted> {
        let name = format!("disktime-bench-{}-{stream}", std::process::id());
        Self::at(&Path::new(CONTROLLER).join(name), weight)
    }

    fn at(path: &Path, weight: u32) -> Result<Self, NotStarted> {
        let unavailable = |what: &Path, error: std::io::Error| {
            NotStarted::Unavailable(format!(
                "{}: {error}; weights take root and the blkio controller of control groups, \
                 version 1, at {CONTROLLER}",
                what.display()
            ))
        };
        std::fs::create_dir(path).map_err(|error| unavailable(path, error))?;
        let group = Self(path.to_owned());
        let file = path.join("blkio.bfq.weight");
        std::fs::write(&file, weight.to_string()).map_err(|error| unavailable(&file, error))?;
        Ok(group)
    }

    /// Takes a process with all its threads.
    fn take(&self, process: u32) -> Result<(), NotStarted> {
        let file = self.0.join("cgroup.procs");
        std::fs::write(&file, process.to_string()).map_err(|error| {
            NotStarted::Unavailable(format!("process {process} into {}: {error}", file.display()))
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was just waited for may be in it for a moment.
        for _ in 0..TRIES {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            sleep(AGAIN);
        }
        let group = self.0.display();
        eprintln!("{group} is still there: remove it with rmdir {group}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the system does not tell when a group is empty")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_group_or_right_is_named() {
        let why = |result: Result<(), NotStarted>| match result {
            Err(NotStarted::Unavailable(why)) => why,
            other => panic!("{other:?}"),
        };
        let none = Path::new("/no/such/group");
        let said = why(Group::at(none, 700).map(drop));
        assert!(said.contains("/no/such/group") && said.contains("blkio"), "{said}");
        let said = why(LoopDevice::over(Path::new("/no/such/file")).map(drop));
        assert!(said.contains("root"), "{said}");
    }
}
