//! CPU time and response times of requests at the server, ours and each peer found, in one run.
//!
//! - [`SERVERS`]: every server, with the [`Store`] of bytes behind it: a file past the page cache, a
//!   file through the page cache, or memory. No server answers without having stored the bytes.
//! - [`WORKS`]: every load, put on by [`Generator`]s: this project's client, or fio.
//! - [`run`]: servers take turns within a round, so that whatever else the machine does hits all of
//!   them; a round in which others had the CPU is repeated.
//! - [`markdown`]: the rows as tables with ratios.
//!
//! Every server is a process of its own behind a Unix socket. CPU time is the system's own account of
//! the server's process with all its threads.

mod cpu;
mod fio;
mod rounds;
mod secure;
mod servers;
mod table;
mod works;

use serde::Serialize;

use disktime_client::{ConnectionError, LoadError, UriError};

use crate::live::Stopped;
use crate::live::scratch_file::ScratchError;
use crate::server_process::ProcessError;

pub use fio::is_installed as has_fio;
pub use rounds::{Settings, run};
pub use secure::certificates;
pub(crate) use servers::sharded;
pub use servers::{Peer, Places, SECURE_SERVERS, SERVERS, Server, Store};
pub use table::markdown;
pub use works::{Generator, WORKS, Work};

/// Size of every export in bytes (1 GiB).
pub const SIZE: u64 = 1 << 30;
/// The load under TLS.
pub const SECURE: &str = "random read 4 KiB x 32, TLS";
/// Others may use so much of the machine's CPU time in a measurement that counts.
pub const FOREIGN_MAX: f64 = 0.05;
/// The host may take so much of it.
pub const STOLEN_MAX: f64 = 0.02;

/// Why a server is not measured.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The server does not serve.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file of the server's or of the system's can't be used.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// There is no file to serve.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The export has no name that a client takes.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The load can't be started.
    #[error("{server}: {error}")]
    Load {
        /// The server.
        server: &'static str,
        /// The client's reason.
        error: LoadError,
    },
    /// The load has lost its connection.
    #[error("{server}: {error}")]
    Lost {
        /// The server.
        server: &'static str,
        /// The client's reason.
        error: ConnectionError,
    },
    /// fio did not measure.
    #[error("{server}: fio: {reason}")]
    Fio {
        /// The server.
        server: &'static str,
        /// The last line that fio said, or what is wrong with its document.
        reason: String,
    },
    /// A session under TLS does not come about, or breaks.
    #[error("under TLS: {0}")]
    Secure(String),
    /// Somebody wants the bench to end.
    #[error("stopped")]
    Stopped,
}

impl NbdError {
    /// Whether a server's doing ended the measurement.
    fn is_of_server(&self) -> bool {
        matches!(self, Self::Load { .. } | Self::Lost { .. } | Self::Fio { .. })
    }
}

impl From<Stopped> for NbdError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// One measurement of a load on a server.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The server.
    pub server: &'static str,
    /// The store of its bytes.
    pub store: Store,
    /// The load.
    pub workload: &'static str,
    /// The program that put the load on.
    pub generator: Generator,
    /// The round, from 1.
    pub round: u32,
    /// Whether the machine was quiet enough in this round.
    pub judged: bool,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The result of a measurement.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Figures {
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Mean response time in µs.
    pub mean_us: f64,
    /// Median of response times in µs; of several connections the slowest one's, as below.
    pub p50_us: f64,
    /// 99th percentile of response times in µs.
    pub p99_us: f64,
    /// 99.9th percentile of response times in µs.
    pub p999_us: f64,
    /// CPU time of the server's process for a request, in µs; 0 where there is no server.
    pub server_cpu_us_per_request: f64,
    /// Part of the machine's CPU time that neither the server nor the load used.
    pub foreign_cpu: f64,
    /// Part of the machine's CPU time that its host took.
    pub stolen_cpu: f64,
}

impl Figures {
    /// Whether nobody else disturbed the measurement.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.foreign_cpu <= FOREIGN_MAX && self.stolen_cpu <= STOLEN_MAX
    }
}
