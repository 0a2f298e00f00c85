//! CPU time between two moments: of the server, of the load, of others, and what the host took.

use std::io;

use crate::server_process::{MachineCpu, family_cpu, machine_cpu, process_cpu};

/// CPU seconds used up to one moment.
pub(super) struct CpuTimes {
    server: f64,
    /// This process and its children that have ended.
    own: f64,
    machine: MachineCpu,
}

/// CPU time between two moments, as parts of what the machine has.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct CpuUse {
    /// The server's, in seconds.
    pub(super) server: f64,
    pub(super) foreign: f64,
    pub(super) stolen: f64,
}

impl CpuTimes {
    /// Now; `server` is the server's process, if there is one.
    pub(super) fn now(server: Option<u32>) -> io::Result<Self> {
        let server = server.map_or(Ok(0.0), |server| process_cpu(&server.to_string()))?;
        Ok(Self { server, own: family_cpu("self")?, machine: machine_cpu()? })
    }

    /// Up to a later moment, so many seconds on.
    pub(super) fn until(&self, later: &Self, seconds: f64) -> CpuUse {
        #[expect(clippy::cast_precision_loss, reason = "a few cores")]
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let server = later.server - self.server;
        let busy = later.machine.busy - self.machine.busy;
        let foreign = (busy - server - (later.own - self.own)).max(0.0);
        let stolen = later.machine.stolen - self.machine.stolen;
        let all = (seconds * cores).max(f64::MIN_POSITIVE);
        CpuUse { server, foreign: foreign / all, stolen: stolen / all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_what_neither_the_server_nor_the_load_used() {
        let times = |server, own, busy, stolen| CpuTimes {
            server,
            own,
            machine: MachineCpu { busy, stolen },
        };
        let (before, after) = (times(1.0, 1.0, 5.0, 0.0), times(2.0, 1.5, 7.0, 0.5));
        let used = before.until(&after, 1.0);
        #[expect(clippy::cast_precision_loss, reason = "a few cores")]
        let cores = std::thread::available_parallelism().unwrap().get() as f64;
        assert_eq!(used, CpuUse { server: 1.0, foreign: 0.5 / cores, stolen: 0.5 / cores });
    }
}
