//! Servers of other projects as contenders and as devices: `qemu-nbd`, `qemu-storage-daemon`,
//! `nbdkit`.

use std::ffi::OsString;
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
    /// A filter of nbdkit does.
    Rate,
}

impl Way {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::None, Self::Bfq, Self::Throttle, Self::Rate];

    /// Its name in rows and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bfq => "linux-bfq",
            Self::Throttle => "qemu-throttle",
            Self::Rate => "nbdkit-rate",
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
            (Way::Throttle, ready) => {
                let (disk, boxed) = match ready {
                    Ready::File(file) => (over_file(file), None),
                    Ready::Boxed(process, socket) => (over_nbd(&socket), Some(process)),
                };
                let socket = directory.join("throttle.sock");
                let places = places(scene, |stream| (export_name(stream), socket.clone()))?;
                let servers = move |limits: &[Option<Limit>]| {
                    vec![(storage_daemon(&disk, limits, &socket), socket.clone())]
                };
                Limited::start(scene, places, "qemu-utils", Box::new(servers), boxed)
            }
            (Way::Rate, ready) => {
                let (disk, boxed) = match ready {
                    Ready::File(file) => {
                        (vec!["file".into(), file.into(), "cache=none".into()], None)
                    }
                    Ready::Boxed(process, socket) => (behind_nbdkit(&socket), Some(process)),
                };
                let sockets = directory.to_owned();
                let socket = move |stream: usize| sockets.join(format!("rate-{stream}.sock"));
                let places = places(scene, |stream| (String::new(), socket(stream)))?;
                let servers = move |limits: &[Option<Limit>]| {
                    let server = |(stream, limit)| {
                        (rate_filter(&disk, limit, &socket(stream)), socket(stream))
                    };
                    limits.iter().copied().enumerate().map(server).collect()
                };
                Limited::start(scene, places, "nbdkit", Box::new(servers), boxed)
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

/// The most that a stream may do: requests of so many bytes, so many in a second.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bytes: u64,
    per_second: f64,
}

impl Limit {
    /// 0 would be no limit at all.
    fn requests(self) -> f64 {
        self.per_second.max(1.0)
    }

    fn bytes_per_second(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "requests are short")]
        let bytes = self.bytes as f64;
        (self.per_second * bytes).max(1.0)
    }
}

/// The commands of servers that hold streams to limits, or to none, and where each listens.
type Servers = Box<dyn Fn(&[Option<Limit>]) -> Vec<(Command, PathBuf)>>;

/// Servers that are told each stream's share of what it did alone.
struct Limited {
    places: Vec<Place>,
    scene: Scene,
    /// The Debian package that has them.
    package: &'static str,
    servers: Servers,
    /// None only between two limits.
    processes: Vec<Process>,
    boxed: Option<Process>,
}

impl Limited {
    fn start(
        scene: &Scene,
        places: Vec<Place>,
        package: &'static str,
        servers: Servers,
        boxed: Option<Process>,
    ) -> Result<Box<dyn Served>, NotStarted> {
        let scene = scene.clone();
        let mut limited = Self { places, scene, package, servers, processes: Vec::new(), boxed };
        let unlimited = vec![None; limited.scene.tenants.len()];
        limited.serve(&unlimited)?;
        Ok(Box::new(limited))
    }

    fn serve(&mut self, limits: &[Option<Limit>]) -> Result<(), NotStarted> {
        self.processes.clear();
        for (command, socket) in (self.servers)(limits) {
            self.processes.push(serve(command, &socket, self.package)?);
        }
        Ok(())
    }
}

impl Served for Limited {
    fn places(&self) -> &[Place] {
        &self.places
    }

    fn charged(&self, _stream: usize) -> Option<Duration> {
        None
    }

    fn limit(&mut self, alone: &[Alone]) -> Result<(), NotStarted> {
        let limits = self.scene.tenants.iter().zip(alone).map(|(tenant, alone)| {
            let per_second = tenant.share() * alone.per_second;
            Some(Limit { bytes: tenant.load.bytes(), per_second })
        });
        self.serve(&limits.collect::<Vec<_>>())
    }

    fn processes(&self) -> Vec<u32> {
        self.processes.iter().chain(&self.boxed).map(Process::id).collect()
    }
}

fn export_name(stream: usize) -> String {
    format!("stream-{stream}")
}

/// The keys of a throttle group that hold a stream to a limit.
fn throttled(limit: Limit) -> String {
    match limit.bytes {
        LONG.. => format!(",x-bps-total={:.0}", limit.bytes_per_second()),
        _ => format!(",x-iops-total={:.0}", limit.requests()),
    }
}

/// An export and a throttle group for each stream.
fn storage_daemon(disk: &str, limits: &[Option<Limit>], socket: &Path) -> Command {
    let mut command = Command::new("qemu-storage-daemon");
    command.arg("--blockdev").arg(disk);
    for (stream, limit) in limits.iter().enumerate() {
        let limit = limit.map_or_else(String::new, throttled);
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

/// The plugin of an nbdkit in front of another server, and its words.
fn behind_nbdkit(socket: &Path) -> Vec<OsString> {
    let mut at = OsString::from("socket=");
    at.push(socket);
    vec!["nbd".into(), at, format!("export={EXPORT}").into()]
}

/// One stream's server. The filter counts bits, whatever requests are.
fn rate_filter(disk: &[OsString], limit: Option<Limit>, socket: &Path) -> Command {
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--filter=rate", "--unix"]).arg(socket).args(disk);
    if let Some(limit) = limit {
        command.arg(format!("rate={:.0}", limit.bytes_per_second() * 8.0));
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

    fn limit(bytes: u64, per_second: f64) -> Limit {
        Limit { bytes, per_second }
    }

    #[test]
    fn small_requests_are_throttled_by_number_and_long_ones_by_bytes() {
        assert_eq!(throttled(limit(4096, 1234.4)), ",x-iops-total=1234");
        assert_eq!(throttled(limit(65536, 100.0)), ",x-bps-total=6553600");
        assert_eq!(throttled(limit(4096, 0.01)), ",x-iops-total=1", "0 would be no limit");
    }

    #[test]
    fn the_rate_filter_is_told_bits_once_limits_are_known() {
        let disk = behind_nbdkit(Path::new("/x/box"));
        let limits = |limit| words(&rate_filter(&disk, limit, Path::new("/x/s")));
        let unlimited = "--foreground --filter=rate --unix /x/s nbd socket=/x/box export=disk";
        assert_eq!(limits(None), unlimited);
        assert_eq!(limits(Some(limit(4096, 2.5))), format!("{unlimited} rate=81920"));
    }

    #[test]
    fn every_stream_has_its_group_and_export() {
        let limits = [None, Some(limit(4096, 7.0))];
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
