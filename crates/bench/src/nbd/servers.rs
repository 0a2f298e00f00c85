//! Servers, ours and others: how each is started, and the load of this project's client on it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use disktime_client::{Load, LoadReport, Uri};
use serde::Serialize;

use super::cpu::CpuTimes;
use super::fio::{self, Target};
use super::works::FILL;
use super::{Figures, Generator, NbdError, SIZE, Work, secure};
use crate::live::World;
use crate::server_process::Process;

/// Time before a measurement counts.
const WARM_UP: Duration = Duration::from_millis(300);
/// How often a load that fills an export is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Where a server's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// A file that is read and written past the page cache.
    File,
    /// A file that lies in the page cache.
    Cached,
    /// Memory.
    Memory,
}

impl Store {
    /// Every store, in the order of tables.
    pub const ALL: [Self; 3] = [Self::File, Self::Memory, Self::Cached];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Cached => "cached",
            Self::Memory => "memory",
        }
    }
}

/// A server.
#[derive(Debug)]
pub struct Server {
    /// Its name in rows.
    pub name: &'static str,
    /// The store of its bytes.
    pub store: Store,
    /// The words that start it; `None` for a load that goes to the file itself.
    command: Option<fn(&Places, &Path) -> std::io::Result<Command>>,
}

/// Paths that servers get.
#[derive(Clone, Debug)]
pub struct Places {
    /// The daemon's program.
    pub ours: PathBuf,
    /// A file that nothing reads through the page cache.
    pub file: PathBuf,
    /// A file that is read through it.
    pub cached: PathBuf,
    /// A file in memory, if the system has a place for such.
    pub in_memory: Option<PathBuf>,
    /// Certificates for a server under TLS.
    pub papers: Option<PathBuf>,
}

const fn server(
    name: &'static str,
    store: Store,
    command: fn(&Places, &Path) -> std::io::Result<Command>,
) -> Server {
    Server { name, store, command: Some(command) }
}

/// This project's name in rows.
pub(super) const OURS: &str = "disktime";
/// The name of a load without a server in rows.
pub(super) const RAW: &str = "raw";

/// Every server, ours first among those of its store.
pub static SERVERS: [Server; 12] = [
    server(OURS, Store::File, |places, at| {
        disktime(places, at, &format!("file:{}", places.file.display()), 1)
    }),
    server("qemu-nbd native", Store::File, |places, at| {
        Ok(qemu_nbd(places, at, &["--cache=none", "--aio=native"], &places.file))
    }),
    server("qemu-nbd io_uring", Store::File, |places, at| {
        Ok(qemu_nbd(places, at, &["--cache=none", "--aio=io_uring"], &places.file))
    }),
    server("qemu-storage-daemon", Store::File, |places, at| Ok(storage_daemon(places, at))),
    Server { name: RAW, store: Store::File, command: None },
    server(OURS, Store::Memory, |places, at| disktime(places, at, "memory", 1)),
    server("nbdkit memory", Store::Memory, |places, at| Ok(nbdkit(places, at, &["memory", "1G"]))),
    server("qemu-nbd tmpfs", Store::Memory, |places, at| match &places.in_memory {
        Some(file) => Ok(qemu_nbd(places, at, &["--cache=writeback"], file)),
        None => Err(std::io::ErrorKind::NotFound.into()),
    }),
    server("nbdkit file", Store::Cached, |places, at| {
        Ok(nbdkit(places, at, &["file", &file_of(&places.cached)]))
    }),
    server("nbdkit file, cache=none", Store::Cached, |places, at| {
        Ok(nbdkit(places, at, &["file", &file_of(&places.cached), "cache=none"]))
    }),
    server("qemu-nbd writeback", Store::Cached, |places, at| {
        Ok(qemu_nbd(places, at, &["--cache=writeback"], &places.cached))
    }),
    server("qemu-nbd writeback io_uring", Store::Cached, |places, at| {
        let words = ["--cache=writeback", "--aio=io_uring"];
        Ok(qemu_nbd(places, at, &words, &places.cached))
    }),
];

/// Ours with one thread for its device and with two, from memory.
static SHARDED: [Server; 2] = [
    server(OURS, Store::Memory, |places, at| disktime(places, at, "memory", 1)),
    server(OURS, Store::Memory, |places, at| disktime(places, at, "memory", 2)),
];

/// Ours from memory, with the count of its device's threads.
pub(crate) fn sharded() -> impl Iterator<Item = (u32, &'static Server)> {
    (1..).zip(&SHARDED)
}

/// The servers that are measured under TLS.
pub const SECURE_SERVERS: [&str; 3] = [OURS, "nbdkit memory", "qemu-nbd tmpfs"];

fn file_of(path: &Path) -> String {
    path.display().to_string()
}

fn disktime(places: &Places, at: &Path, back_end: &str, shards: u32) -> std::io::Result<Command> {
    let config = at.join("disktime.toml");
    let tls = places.papers.as_ref().map_or(String::new(), |papers| {
        let papers = papers.display();
        format!(
            "tls = \"require\"\n[tls]\ncertificate = \"{papers}/server-cert.pem\"\n\
             key = \"{papers}/server-key.pem\"\n"
        )
    });
    let text = format!(
        "[server]\nnbd = [\"unix:{}\"]\nstate = \"{}\"\n{tls}[[device]]\nname = \"device\"\n\
         back_end = \"{back_end}\"\nshards = {shards}\n[[vdisk]]\nname = \"disk\"\ndevice = \"device\"\n\
         size = \"{SIZE}B\"\nreserve = \"50%\"\n",
        socket(at).display(),
        at.join("state").display(),
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new(&places.ours);
    command.args(["serve", "--config"]).arg(config);
    Ok(command)
}

/// Several servers have the file open, of which one is at work: nobody locks it.
fn qemu_nbd(places: &Places, at: &Path, words: &[&str], file: &Path) -> Command {
    let mut command = Command::new("qemu-nbd");
    command.args(["--persistent", "--export-name=disk", "--shared=0"]);
    command.arg("--socket").arg(socket(at)).args(words);
    if let Some(papers) = &places.papers {
        let papers = papers.display();
        let object = format!("tls-creds-x509,id=t,endpoint=server,verify-peer=no,dir={papers}");
        command.args(["--object", &object, "--tls-creds", "t"]);
    }
    let file = file.display();
    let image = format!("driver=raw,file.driver=file,file.locking=off,file.filename={file}");
    command.args(["--image-opts", &image]);
    command
}

fn storage_daemon(places: &Places, at: &Path) -> Command {
    let mut command = Command::new("qemu-storage-daemon");
    let file = places.file.display();
    let node =
        format!("driver=file,node-name=f,filename={file},cache.direct=on,aio=io_uring,locking=off");
    command.args(["--blockdev", &node]);
    let listener = format!("addr.type=unix,addr.path={}", socket(at).display());
    command.args(["--nbd-server", &listener]);
    command.args(["--export", "type=nbd,id=e,node-name=f,name=disk,writable=on"]);
    command
}

fn nbdkit(places: &Places, at: &Path, plugin: &[&str]) -> Command {
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--unix"]).arg(socket(at));
    if let Some(papers) = &places.papers {
        command.arg("--tls=require").arg("--tls-certificates").arg(papers);
    }
    command.args(plugin);
    command
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("nbd.sock")
}

/// A server's process, or the file itself.
pub struct Peer {
    /// The server.
    pub server: &'static Server,
    process: Option<Process>,
    socket: PathBuf,
    address: String,
    /// The file of a load without a server.
    file: PathBuf,
}

impl Peer {
    /// Starts a server with its socket in that directory, and fills its memory if its bytes are
    /// there. `None` if the program is not installed.
    ///
    /// # Errors
    /// If the server does not serve, or somebody wants the bench to end.
    pub fn start(
        server: &'static Server,
        directory: &Path,
        places: &Places,
        world: &dyn World,
    ) -> Result<Option<Self>, NbdError> {
        let socket = socket(directory);
        let process = match server.command {
            None => None,
            Some(command) => {
                let mut command = match command(places, directory) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                    command => command?,
                };
                let Some(process) = Process::start(&mut command, &socket)? else {
                    return Ok(None);
                };
                Some(process)
            }
        };
        let address = format!("nbd+unix:///disk?socket={}", socket.display());
        let file = places.file.clone();
        let peer = Self { server, process, socket, address, file };
        if server.store == Store::Memory && places.papers.is_none() {
            peer.fill(world)?;
        }
        Ok(Some(peer))
    }

    /// Whether a generator can put its load on it.
    #[must_use]
    pub fn takes(&self, generator: Generator) -> bool {
        self.process.is_some() || generator == Generator::Fio
    }

    /// Writes every byte once.
    fn fill(&self, world: &dyn World) -> Result<(), NbdError> {
        let load = self.load(&FILL, 0)?;
        while load.counters().bytes_written < SIZE && !load.has_ended() {
            world.wait(world.now() + LOOK)?;
        }
        self.over(load).map(drop)
    }

    /// Measures a load for so long.
    ///
    /// # Errors
    /// If the load can't be started or loses its connection, or somebody wants the bench to end.
    pub fn measure(
        &self,
        work: &Work,
        generator: Generator,
        length: Duration,
        world: &dyn World,
    ) -> Result<Figures, NbdError> {
        let figures = match generator {
            Generator::Disktime => self.measure_own(work, length, world)?,
            Generator::Fio => self.measure_fio(work, length, world)?,
        };
        if self.server.store != Store::Memory && !work.reads {
            // The next server finds no writes that the page cache still has to bring to the disk.
            rustix::fs::sync();
        }
        Ok(figures)
    }

    fn measure_fio(
        &self,
        work: &Work,
        length: Duration,
        world: &dyn World,
    ) -> Result<Figures, NbdError> {
        let target = match &self.process {
            Some(_) => Target::Export(&self.address),
            None => Target::File(&self.file),
        };
        let (used, begin) = (self.cpu()?, world.now());
        let (figures, requests) = fio::run(self.server.name, work, &target, length)?;
        world.wait(Duration::ZERO)?;
        let seconds = (world.now() - begin).as_secs_f64();
        Ok(charge(figures, requests, &used, &self.cpu()?, seconds))
    }

    fn measure_own(
        &self,
        work: &Work,
        length: Duration,
        world: &dyn World,
    ) -> Result<Figures, NbdError> {
        let loads = (0..work.connections).map(|connection| self.load(work, connection));
        let loads = loads.collect::<Result<Vec<_>, _>>()?;
        world.wait(world.now() + WARM_UP)?;
        let completed = || loads.iter().map(|load| load.counters().completed).sum::<u64>();
        let (before, used, begin) = (completed(), self.cpu()?, world.now());
        world.wait(begin + length)?;
        let (after, later, end) = (completed(), self.cpu()?, world.now());
        let seconds = (end - begin).as_secs_f64();
        let reports = loads.into_iter().map(|load| self.over(load));
        let reports = reports.collect::<Result<Vec<_>, _>>()?;
        let (requests, size) = (float(after - before), float(work.bytes));
        let figures = Figures {
            iops: requests / seconds,
            bytes_per_second: requests * size / seconds,
            ..times(&reports)
        };
        Ok(charge(figures, requests, &used, &later, seconds))
    }

    fn load(&self, work: &Work, connection: u32) -> Result<Load, NbdError> {
        let uri: Uri = self.address.parse()?;
        Load::start(&uri, work.load(connection))
            .map_err(|error| NbdError::Load { server: self.server.name, error })
    }

    fn over(&self, load: Load) -> Result<LoadReport, NbdError> {
        let report = load.stop();
        match report.lost {
            Some(error) => Err(NbdError::Lost { server: self.server.name, error }),
            None => Ok(report),
        }
    }

    /// Measures reads under TLS for so long; the certificates are those of the start.
    ///
    /// # Errors
    /// If there is no session, it breaks, or somebody wants the bench to end.
    pub fn measure_secure(
        &self,
        papers: &Path,
        length: Duration,
        world: &dyn World,
    ) -> Result<Figures, NbdError> {
        let mut reader = secure::Reader::attach(&self.socket, papers)?;
        reader.read_until(world.now() + WARM_UP, world)?;
        let (used, begin) = (self.cpu()?, world.now());
        let mut times = reader.read_until(begin + length, world)?;
        let seconds = (world.now() - begin).as_secs_f64();
        let later = self.cpu()?;
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let requests = times.len() as f64;
        times.sort_unstable();
        let micros = |time: &Duration| time.as_secs_f64() * 1e6;
        let quantile = |permille| times.get(times.len() * permille / 1000).map_or(0.0, micros);
        let figures = Figures {
            iops: requests / seconds,
            bytes_per_second: requests * f64::from(secure::READ_BYTES) / seconds,
            mean_us: times.iter().map(micros).sum::<f64>() / requests.max(1.0),
            p50_us: quantile(500),
            p99_us: quantile(990),
            p999_us: quantile(999),
            ..Figures::default()
        };
        Ok(charge(figures, requests, &used, &later, seconds))
    }

    /// CPU seconds of a daemon's threads: of those that decide, and of those that carry bytes.
    pub(crate) fn threads(&self) -> std::io::Result<[f64; 2]> {
        self.process.as_ref().map_or(Ok([0.0; 2]), |it| shard_threads(it.id()))
    }

    fn cpu(&self) -> std::io::Result<CpuTimes> {
        CpuTimes::now(self.process.as_ref().map(Process::id))
    }
}

/// CPU seconds of the threads that are named as a shard's, `shard-0`, and as a carrier's, `shard-0-1`.
fn shard_threads(process: u32) -> std::io::Result<[f64; 2]> {
    let mut seconds = [0.0; 2];
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let task = task?.path();
        let name = std::fs::read_to_string(task.join("comm"))?;
        let Some(numbers) = name.trim().strip_prefix("shard-") else { continue };
        let used = std::fs::read_to_string(task.join("schedstat"))?;
        let ns = used.split_whitespace().next().and_then(|it| it.parse::<f64>().ok());
        seconds[usize::from(numbers.contains('-'))] += ns.unwrap_or(0.0) / 1e9;
    }
    Ok(seconds)
}

/// Figures with CPU times.
fn charge(
    figures: Figures,
    requests: f64,
    before: &CpuTimes,
    after: &CpuTimes,
    seconds: f64,
) -> Figures {
    let used = before.until(after, seconds);
    Figures {
        server_cpu_us_per_request: used.server * 1e6 / requests.max(1.0),
        foreign_cpu: used.foreign,
        stolen_cpu: used.stolen,
        ..figures
    }
}

/// Response times on all connections: the mean, and the slowest one's quantiles.
fn times(reports: &[LoadReport]) -> Figures {
    let all = float(reports.iter().map(|report| report.counters.completed).sum());
    let sum: f64 = reports.iter().map(|it| it.latency.mean_us * float(it.counters.completed)).sum();
    let slowest = |of: fn(&LoadReport) -> f64| reports.iter().map(of).fold(0.0, f64::max);
    Figures {
        mean_us: sum / all.max(1.0),
        p50_us: slowest(|report| report.latency.p50_us),
        p99_us: slowest(|report| report.latency.p99_us),
        p999_us: slowest(|report| report.latency.p999_us),
        ..Figures::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
fn float(value: u64) -> f64 {
    value as f64
}
