//! CPU time of a request at the server, ours and each peer found, in one run.
//!
//! Every server is a process of its own with 1 GiB in memory behind a Unix socket, loaded through
//! the same client from this process. CPU time is the system's own account of the server's process.

mod secure;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use disktime_client::{ConnectionError, Load, LoadError, LoadSpec, Options, Uri, UriError};
use disktime_workload::{Extent, Pace, Pattern, Spec};
use serde::Serialize;

use crate::live::{Stopped, World};
use crate::server_process::{Process, ProcessError, machine_busy, process_cpu};

pub use secure::certificates;

/// Size of every export in bytes (1 GiB).
const SIZE: u64 = 1 << 30;
/// Time before a measurement counts.
const WARM_UP: Duration = Duration::from_millis(500);

/// Why a server is not measured.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The server does not serve.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file of the server's or of the system's can't be used.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The export has no name that a client takes.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The load can't be started.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The load has lost its connection.
    #[error("{server}: {error}")]
    Lost {
        /// The server.
        server: &'static str,
        /// The client's reason.
        error: ConnectionError,
    },
    /// A session under TLS does not come about, or breaks.
    #[error("under TLS: {0}")]
    Secure(String),
    /// Somebody wants the bench to end.
    #[error("stopped")]
    Stopped,
}

impl From<Stopped> for NbdError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// The cost of a request for a server.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The server, by its program.
    pub server: &'static str,
    /// The load.
    pub workload: &'static str,
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Mean response time in µs.
    pub mean_us: f64,
    /// 99th percentile of response times in µs.
    pub p99_us: f64,
    /// CPU time of the server's process for a request, in µs.
    pub server_cpu_us_per_request: f64,
    /// Part of the machine's CPU time that neither the server nor this process used.
    pub foreign_cpu: f64,
}

/// A load.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Its name in rows.
    pub name: &'static str,
    bytes: u64,
    outstanding: u32,
    reads_permille: u16,
    pattern: Pattern,
}

/// Every load, in the order of rows.
pub const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "random read 4 KiB x 32",
        bytes: 4096,
        outstanding: 32,
        reads_permille: 1000,
        pattern: Pattern::Random,
    },
    Workload {
        name: "random write 4 KiB x 32",
        bytes: 4096,
        outstanding: 32,
        reads_permille: 0,
        pattern: Pattern::Random,
    },
    Workload {
        name: "sequential read 128 KiB x 8",
        bytes: 131_072,
        outstanding: 8,
        reads_permille: 1000,
        pattern: Pattern::Sequential,
    },
];

/// The load under TLS.
pub const SECURE: &str = "random read 4 KiB x 32, TLS";

/// Every server, ours first.
pub const SERVERS: [&str; 3] = ["disktime", "nbdkit", "qemu-nbd"];

/// A server process.
pub struct Peer {
    name: &'static str,
    process: Process,
    socket: PathBuf,
    uri: Uri,
}

/// CPU seconds at one moment.
struct Cpu {
    server: f64,
    all: f64,
    own: f64,
}

impl Peer {
    /// Starts a server with its socket in that directory; `ours` is the program of the daemon. The
    /// server takes clients under TLS only if there is a directory of [`certificates`]. `None` if the
    /// program is not installed.
    ///
    /// # Errors
    /// If the server does not serve.
    pub fn start(
        name: &'static str,
        directory: &Path,
        ours: &Path,
        papers: Option<&Path>,
    ) -> Result<Option<Self>, NbdError> {
        let socket = directory.join("nbd.sock");
        let mut command = command(name, ours, directory, &socket, papers)?;
        let Some(process) = Process::start(&mut command, &socket)? else { return Ok(None) };
        let uri = format!("nbd+unix:///disk?socket={}", socket.display()).parse()?;
        Ok(Some(Self { name, process, socket, uri }))
    }

    /// Measures a load for so long.
    ///
    /// # Errors
    /// If the load can't be started or loses its connection, or somebody wants the bench to end.
    pub fn measure(
        &self,
        workload: &Workload,
        length: Duration,
        world: &dyn World,
    ) -> Result<Row, NbdError> {
        let Workload { bytes, outstanding, reads_permille, pattern, .. } = *workload;
        let extent = Extent { start: 0, end: SIZE };
        let spec = LoadSpec {
            name: workload.name.replace(' ', "-"),
            workload: Spec { reads_permille, ..Spec::reads(pattern, extent, bytes) },
            pace: Pace::Closed { outstanding, think: disktime_core::Duration::ZERO },
            seed: 1,
            options: Options::default(),
        };
        let load = Load::start(&self.uri, spec)?;
        world.wait(world.now() + WARM_UP)?;
        let (before, begin) = (load.counters(), world.now());
        let used = self.cpu()?;
        world.wait(begin + length)?;
        let (after, end) = (load.counters(), world.now());
        let used = self.cpu_since(&used)?;
        let report = load.stop();
        if let Some(error) = report.lost {
            return Err(NbdError::Lost { server: self.name, error });
        }
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let requests = (after.completed - before.completed) as f64;
        let row = self.row(workload.name, bytes, requests, (end - begin).as_secs_f64(), &used);
        Ok(Row { mean_us: report.latency.mean_us, p99_us: report.latency.p99_us, ..row })
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
    ) -> Result<Row, NbdError> {
        let mut reader = secure::Reader::attach(&self.socket, papers)?;
        reader.read_until(world.now() + WARM_UP, world)?;
        let begin = world.now();
        let used = self.cpu()?;
        let mut times = reader.read_until(begin + length, world)?;
        let seconds = (world.now() - begin).as_secs_f64();
        let used = self.cpu_since(&used)?;
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let requests = times.len() as f64;
        times.sort_unstable();
        let micros = |time: &Duration| time.as_secs_f64() * 1e6;
        let mean_us = times.iter().map(micros).sum::<f64>() / requests.max(1.0);
        let p99_us = times.get(times.len() * 99 / 100).map_or(0.0, micros);
        let row = self.row(SECURE, secure::READ_BYTES.into(), requests, seconds, &used);
        Ok(Row { mean_us, p99_us, ..row })
    }

    /// A row without response times.
    fn row(
        &self,
        workload: &'static str,
        bytes: u64,
        requests: f64,
        seconds: f64,
        used: &Cpu,
    ) -> Row {
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let size = bytes as f64;
        Row {
            server: self.name,
            workload,
            iops: requests / seconds,
            bytes_per_second: requests * size / seconds,
            mean_us: 0.0,
            p99_us: 0.0,
            server_cpu_us_per_request: used.server * 1e6 / requests.max(1.0),
            foreign_cpu: ((used.all - used.server - used.own) / (seconds * cores)).max(0.0),
        }
    }

    fn cpu(&self) -> std::io::Result<Cpu> {
        let server = process_cpu(&self.process.id().to_string())?;
        Ok(Cpu { server, all: machine_busy()?, own: process_cpu("self")? })
    }

    fn cpu_since(&self, before: &Cpu) -> std::io::Result<Cpu> {
        let Cpu { server, all, own } = self.cpu()?;
        Ok(Cpu { server: server - before.server, all: all - before.all, own: own - before.own })
    }
}

fn command(
    name: &str,
    ours: &Path,
    directory: &Path,
    socket: &Path,
    papers: Option<&Path>,
) -> std::io::Result<Command> {
    let mut command = Command::new(name);
    match name {
        "nbdkit" => {
            command.args(["--foreground", "--unix"]).arg(socket);
            if let Some(papers) = papers {
                command.arg("--tls=require").arg("--tls-certificates").arg(papers);
            }
            command.args(["memory", "1G"])
        }
        "qemu-nbd" => {
            let image = "driver=null-co,read-zeroes=on,size=1073741824";
            command
                .args(["--persistent", "--export-name=disk", "--shared=0", "--socket"])
                .arg(socket);
            if let Some(papers) = papers {
                let papers = papers.display();
                let object =
                    format!("tls-creds-x509,id=t,endpoint=server,verify-peer=no,dir={papers}");
                command.args(["--object", &object, "--tls-creds", "t"]);
            }
            command.args(["--image-opts", image])
        }
        _ => {
            let config = directory.join("disktime.toml");
            let tls = papers.map_or(String::new(), |papers| {
                let papers = papers.display();
                format!(
                    "tls = \"require\"\n[tls]\ncertificate = \"{papers}/server-cert.pem\"\n\
                     key = \"{papers}/server-key.pem\"\n"
                )
            });
            let text = format!(
                "[server]\nnbd = [\"unix:{}\"]\n{tls}[[device]]\nname = \"ram\"\n\
                 back_end = \"memory\"\n[[vdisk]]\nname = \"disk\"\ndevice = \"ram\"\n\
                 size = \"1GiB\"\nreserve = \"50%\"\n",
                socket.display()
            );
            std::fs::write(&config, text)?;
            command = Command::new(ours);
            command.args(["serve", "--config"]).arg(config)
        }
    };
    Ok(command)
}
