//! Clients that do nothing for long are let go, where that is configured.

use disktime_core::{Duration, Instant};

use super::{Shard, name};
use crate::clock;

/// Looks for idle clients in the time that they may be idle.
const LOOKS: u64 = 4;

/// When to look for idle clients.
pub(super) struct Idle {
    timeout: Option<Duration>,
    next: Option<Instant>,
}

impl Idle {
    /// Clients may be idle for so long.
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        Self { timeout, next: timeout.map(|timeout| clock::now() + pause(timeout)) }
    }

    /// How long clients may be idle, if it is time to look for those that were idle for longer.
    pub(super) fn due(&mut self, now: Instant) -> Option<Duration> {
        let timeout = self.timeout.filter(|_| self.next <= Some(now))?;
        self.next = Some(now + pause(timeout));
        Some(timeout)
    }

    /// When to look again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }
}

fn pause(timeout: Duration) -> Duration {
    Duration::from_nanos(timeout.as_nanos() / LOOKS)
}

impl Shard {
    /// Lets clients go of which no byte came or went for long, unless the device has work of theirs.
    pub(super) fn let_idle_go(&mut self) {
        let now = self.turns.now;
        let Some(timeout) = self.turns.idle.due(now) else { return };
        let idle = self.clients.iter().filter(|(_, connection)| {
            connection.moved_at + timeout <= now && !connection.waits_for_device()
        });
        for client in idle.map(|(key, _)| name(key)).collect::<Vec<_>>() {
            let vdisk = self.clients[client as usize].vdisk;
            let vdisk = self.vdisks[vdisk as usize].name.as_str();
            tracing::info!(vdisk, ?timeout, "a client was idle for longer than idle_timeout");
            self.lose(client);
        }
    }
}
