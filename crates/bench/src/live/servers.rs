//! Servers of other projects as contenders and as devices: `qemu-nbd`, `qemu-storage-daemon`,
//! `nbdkit`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::live::{Alone, Contender, NotStarted, Place, Scene, Served};

use super::bfq::Bfq;
use super::programs::{EXPORT, Medium, Ready, places, qemu_nbd, serve};
use crate::server_process::Process;

/// Requests this long are throttled by bytes, shorter ones by number: what each is bound by.
const LONG: u64 = 64 << 10;
/// How a device that isn't in the daemon can be shared without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// No scheduler orders requests.
    None,
    /// Linux's BFQ orders by weights.
    Bfq,
    /// QEMU limits each to its share of what it did alone.
    Throttle,
}

impl Way {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::None, Self::Bfq, Self::Throttle];

    /// Its name in rows and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bfq => "linux-bfq",
            Self::Throttle => "qemu-throttle",
        }
    }
}

impl std::str::FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::name).join(", ");
        let way = Self::ALL.into_iter().find(|way| way.name() == text);
        way.ok_or_else(|| format!("known are: {known}"))
    }
}

/// One of the [`Way`]s, on a scene.
pub(super) struct Foreign {
    pub(super) way: Way,
    pub(super) medium: Medium,
    pub(super) scene: Scene,
    /// For sockets.
    pub(super) directory: PathBuf,
}

impl Contender for Foreign {
    fn policy(&self) -> &'static str {
        self.way.name()
    }

    fn start(&self) -> Result<Box<dyn Served>, NotStarted> {
        let (scene, directory) = (&self.scene, self.directory.as_path());
        let ready = self.medium.start(directory)?;
        match (self.way, ready) {
            (Way::None, Ready::Boxed(process, socket)) => plain(scene, process, &socket),
            (Way::None, Ready::File(file)) => {
                let socket = directory.join("none.sock");
                plain(scene, serve(qemu_nbd(file, &socket), &socket, "qemu-utils")?, &socket)
            }
            (Way::Bfq, Ready::File(file)) => Ok(Box::new(Bfq::start(file, scene, directory)?)),
            (Way::Bfq, Ready::Boxed(..)) => Err(NotStarted::Unavailable(
                "a scheduler of the kernel takes a block device, and this one is a server's export"
                    .to_owned(),
            )),
            (Way::Throttle, Ready::File(file)) => {
                let throttle = Throttle::start(over_file(file), scene, directory, None)?;
                Ok(Box::new(throttle))
            }
            (Way::Throttle, Ready::Boxed(process, socket)) => {
                let disk = over_nbd(&socket);
                let throttle = Throttle::start(disk, scene, directory, Some(process))?;
                Ok(Box::new(throttle))
            }
        }
    }
}

fn plain(scene: &Scene, process: Process, socket: &Path) -> Result<Box<dyn Served>, NotStarted> {
    let places = places(scene, |_| (EXPORT.to_owned(), socket.to_owned()))?;
    Ok(Box::new(Plain { places, process }))
}

fn over_file(file: &Path) -> String {
    let name = file.display();
    format!("driver=file,node-name=disk,filename={name},cache.direct=on,aio=native")
}

fn over_nbd(socket: &Path) -> String {
    let path = socket.display();
    format!("driver=nbd,node-name=disk,server.type=unix,server.path={path},export={EXPORT}")
}

/// One server for all.
struct Plain {
    places: Vec<Place>,
    process: Process,
}

impl Served for Plain {
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
        vec![self.process.id()]
    }
}

/// An export and a throttle group for each stream, in one `qemu-storage-daemon`.
struct Throttle {
    places: Vec<Place>,
    scene: Scene,
    disk: String,
    socket: PathBuf,
    /// None only between two.
    process: Option<Process>,
    boxed: Option<Process>,
}

impl Throttle {
    fn start(
        disk: String,
        scene: &Scene,
        directory: &Path,
        boxed: Option<Process>,
    ) -> Result<Self, NotStarted> {
        let socket = directory.join("throttle.sock");
        let places = places(scene, |stream| (export_name(stream), socket.clone()))?;
        let scene = scene.clone();
        let mut throttle = Self { places, scene, disk, socket, process: None, boxed };
        let unlimited = vec![String::new(); throttle.scene.tenants.len()];
        throttle.serve(&unlimited)?;
        Ok(throttle)
    }

    fn serve(&mut self, limits: &[String]) -> Result<(), NotStarted> {
        self.process = None;
        let command = storage_daemon(&self.disk, limits, &self.socket);
        self.process = Some(serve(command, &self.socket, "qemu-utils")?);
        Ok(())
    }
}

impl Served for Throttle {
    fn places(&self) -> &[Place] {
        &self.places
    }

    fn charged(&self, _stream: usize) -> Option<Duration> {
        None
    }

    fn limit(&mut self, alone: &[Alone]) -> Result<(), NotStarted> {
        let limits = self.scene.tenants.iter().zip(alone).map(|(tenant, alone)| {
            throttled(tenant.load.bytes(), tenant.share() * alone.per_second)
        });
        self.serve(&limits.collect::<Vec<_>>())
    }

    fn processes(&self) -> Vec<u32> {
        self.process.iter().chain(&self.boxed).map(Process::id).collect()
    }
}

fn export_name(stream: usize) -> String {
    format!("stream-{stream}")
}

/// The keys of a throttle group that hold a stream of such requests to so many a second.
fn throttled(bytes: u64, per_second: f64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "requests are short")]
    let (key, limit) = match bytes {
        LONG.. => ("x-bps-total", per_second * bytes as f64),
        _ => ("x-iops-total", per_second),
    };
    // 0 would be no limit at all.
    format!(",{key}={:.0}", limit.max(1.0))
}

fn storage_daemon(disk: &str, limits: &[String], socket: &Path) -> Command {
    let mut command = Command::new("qemu-storage-daemon");
    command.arg("--blockdev").arg(disk);
    for (stream, limit) in limits.iter().enumerate() {
        command.arg("--object").arg(format!("throttle-group,id=group-{stream}{limit}"));
        let node = format!(
            "driver=throttle,node-name=node-{stream},throttle-group=group-{stream},file=disk"
        );
        command.arg("--blockdev").arg(node);
    }
    let listen = format!("addr.type=unix,addr.path={},max-connections=0", socket.display());
    command.arg("--nbd-server").arg(listen);
    for stream in 0..limits.len() {
        let name = export_name(stream);
        let export = format!("nbd,id={name},node-name=node-{stream},name={name},writable=on");
        command.arg("--export").arg(export);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> String {
        let words = command.get_args().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn small_requests_are_throttled_by_number_and_long_ones_by_bytes() {
        assert_eq!(throttled(4096, 1234.4), ",x-iops-total=1234");
        assert_eq!(throttled(65536, 100.0), ",x-bps-total=6553600");
        assert_eq!(throttled(4096, 0.01), ",x-iops-total=1", "0 would be no limit");
    }

    #[test]
    fn every_stream_has_its_group_and_export() {
        let limits = [String::new(), ",x-iops-total=7".to_owned()];
        let disk = over_file(Path::new("/x/image"));
        let words = words(&storage_daemon(&disk, &limits, Path::new("/x/s")));
        for part in [
            "filename=/x/image,cache.direct=on",
            "throttle-group,id=group-0 ",
            "throttle-group,id=group-1,x-iops-total=7 ",
            "driver=throttle,node-name=node-1,throttle-group=group-1,file=disk",
            "addr.path=/x/s,max-connections=0",
            "nbd,id=stream-1,node-name=node-1,name=stream-1,writable=on",
        ] {
            assert!(words.contains(part), "{part} in {words}");
        }
        assert!(over_nbd(Path::new("/x/box")).contains("server.path=/x/box,export=disk"));
    }

    #[test]
    fn ways_have_names() {
        for way in Way::ALL {
            assert_eq!(way.name().parse(), Ok(way));
        }
        assert!("cfq".parse::<Way>().expect_err("unknown").contains("qemu-throttle"));
    }
}
