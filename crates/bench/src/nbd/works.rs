//! Loads, and the programs that put them on a server.

use disktime_client::{LoadSpec, Options};
use disktime_core::Duration;
use disktime_workload::{Extent, Pace, Pattern, Spec};
use serde::Serialize;

use super::SIZE;

/// A program that puts a load on a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    /// This project's client, which sends the requests of one turn together.
    Disktime,
    /// fio with libnbd, which makes a system call for each request.
    Fio,
}

impl Generator {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disktime => "disktime",
            Self::Fio => "fio",
        }
    }
}

/// A load: a closed loop on each of some connections.
#[derive(Clone, PartialEq, Debug)]
pub struct Work {
    /// Its name in rows.
    pub name: &'static str,
    /// Length of a request in bytes.
    pub bytes: u64,
    /// Connections.
    pub connections: u32,
    /// Requests outstanding on each connection.
    pub outstanding: u32,
    /// Whether the requests are reads; else writes.
    pub reads: bool,
    /// Whether each request follows the one before; else they are at random.
    pub sequential: bool,
}

const RANDOM: Work =
    Work { name: "", bytes: 4096, connections: 1, outstanding: 32, reads: true, sequential: false };

/// Every load, in the order of rows.
pub const WORKS: [Work; 10] = [
    Work { name: "random read 4 KiB x 1", outstanding: 1, ..RANDOM },
    Work { name: "random read 4 KiB x 32", ..RANDOM },
    Work { name: "random read 4 KiB x 8, 4 clients", connections: 4, outstanding: 8, ..RANDOM },
    Work { name: "random write 4 KiB x 1", outstanding: 1, reads: false, ..RANDOM },
    Work { name: "random write 4 KiB x 32", reads: false, ..RANDOM },
    Work {
        name: "random write 4 KiB x 8, 4 clients",
        connections: 4,
        outstanding: 8,
        reads: false,
        ..RANDOM
    },
    Work {
        name: "sequential read 128 KiB x 8",
        bytes: 128 << 10,
        outstanding: 8,
        sequential: true,
        ..RANDOM
    },
    Work {
        name: "sequential write 128 KiB x 8",
        bytes: 128 << 10,
        outstanding: 8,
        sequential: true,
        reads: false,
        ..RANDOM
    },
    Work {
        name: "sequential read 1 MiB x 4",
        bytes: 1 << 20,
        outstanding: 4,
        sequential: true,
        ..RANDOM
    },
    Work {
        name: "sequential write 1 MiB x 4",
        bytes: 1 << 20,
        outstanding: 4,
        sequential: true,
        reads: false,
        ..RANDOM
    },
];

/// The load that fills an export before it is measured.
pub(super) const FILL: Work =
    Work { name: "fill", bytes: 1 << 20, outstanding: 4, sequential: true, reads: false, ..RANDOM };

impl Work {
    /// The load of one of its connections, for this project's client. Sequential connections begin
    /// in places of their own.
    pub(super) fn load(&self, connection: u32) -> LoadSpec {
        let pattern = if self.sequential { Pattern::Sequential } else { Pattern::Random };
        let reads_permille = if self.reads { 1000 } else { 0 };
        let extent = Extent { start: 0, end: SIZE };
        LoadSpec {
            name: self.name.replace(' ', "-"),
            workload: Spec { reads_permille, ..Spec::reads(pattern, extent, self.bytes) },
            pace: Pace::Closed { outstanding: self.outstanding, think: Duration::ZERO },
            seed: u64::from(connection) + 1,
            options: Options::default(),
        }
    }

    /// The name of the load for fio.
    pub(super) fn pattern(&self) -> &'static str {
        match (self.sequential, self.reads) {
            (false, true) => "randread",
            (false, false) => "randwrite",
            (true, true) => "read",
            (true, false) => "write",
        }
    }

    /// Whether each connection has one request at a time: then response times are what counts.
    pub(super) fn is_alone(&self) -> bool {
        self.outstanding == 1
    }
}
