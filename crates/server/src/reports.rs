//! Missed deadlines as programs report them: a datagram is a virtual disk's name.
//!
//! A thread of its own takes them off a Unix socket, so that no sender waits, and tells the device's
//! shard of at most one per virtual disk and [`QUIET`]. Datagrams that say nothing are counted and
//! dropped.
//!
//! Does not know: the sender of a report, or which reports count: the engine decides.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use disktime_core::{Duration, Instant};
use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketType;

use crate::clock;
use crate::config::SocketAccess;
use crate::desk::Catalog;
use crate::handover::patiently;
use crate::listener::{BindError, bind_unix, take_place};
use crate::quiet::Quiet;
use crate::shard::{Message, VdiskId};
use crate::stats::add;
use crate::vdisk_name::NAME_MAX;
use crate::wakeup::wait;

/// A shard hears of one virtual disk's misses at most this often; the engine counts far fewer.
const QUIET: Duration = Duration::from_millis(10);
/// Datagrams taken before the thread looks whether it is to end.
const TURN: usize = 64;

/// Counts of datagrams that came in over the socket.
#[derive(Debug, Default)]
pub struct ReportStats {
    taken: AtomicU64,
    unknown: AtomicU64,
    nonsense: AtomicU64,
}

impl ReportStats {
    /// Datagrams that named a virtual disk.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Datagrams that named what is no virtual disk.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    /// Datagrams that are no name: too long, empty, not text.
    pub fn nonsense(&self) -> u64 {
        self.nonsense.load(Ordering::Relaxed)
    }
}

/// The socket; its file is gone when it is dropped.
pub(crate) struct ReportSocket {
    socket: UnixDatagram,
    path: PathBuf,
}

impl ReportSocket {
    /// Binds, for the daemon's own user alone. A socket left by a dead server is replaced, a live one
    /// is not, a dying one is waited for.
    pub(crate) fn bind(path: &Path) -> Result<Self, BindError> {
        patiently(|| Self::bind_now(path), BindError::is_in_use)
    }

    fn bind_now(path: &Path) -> Result<Self, BindError> {
        let probe = UnixDatagram::unbound()?;
        take_place(path, probe.connect(path))?;
        let socket = bind_unix(path, SocketType::DGRAM, &SocketAccess::default())?;
        Ok(Self { socket: socket.into(), path: path.to_owned() })
    }
}

impl Drop for ReportSocket {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_file(&self.path);
    }
}

/// The thread's state.
pub(crate) struct ReportDesk {
    socket: ReportSocket,
    catalog: Arc<Catalog>,
    /// When a shard was told of a virtual disk's misses last, where that was a moment ago.
    told: BTreeMap<VdiskId, Instant>,
    /// Readable when the thread is to end.
    closing: Arc<OwnedFd>,
    stats: Arc<ReportStats>,
    /// Limits log lines about datagrams without a name.
    quiet: Quiet<()>,
}

impl ReportDesk {
    /// A desk for the virtual disks of a catalog.
    pub(crate) fn new(
        socket: ReportSocket,
        catalog: Arc<Catalog>,
        closing: Arc<OwnedFd>,
        stats: Arc<ReportStats>,
    ) -> Self {
        let told = BTreeMap::new();
        Self { socket, catalog, told, closing, stats, quiet: Quiet::default() }
    }

    /// Takes datagrams until told to end.
    pub(crate) fn run(mut self) -> io::Result<()> {
        loop {
            let closing = &*self.closing;
            let mut polled = [
                PollFd::new(closing, PollFlags::IN),
                PollFd::from_borrowed_fd(self.socket.socket.as_fd(), PollFlags::IN),
            ];
            if wait(&mut polled, None)?[0] {
                return Ok(());
            }
            self.take()?;
        }
    }

    /// Takes what has come, but not so much that nothing else is done.
    fn take(&mut self) -> io::Result<()> {
        // A name, a line's end, and a byte that only what is too long has.
        let mut bytes = [0; NAME_MAX + 2];
        for _ in 0..TURN {
            match self.socket.socket.recv(&mut bytes) {
                Ok(count) => self.heard(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn heard(&mut self, datagram: &[u8]) {
        let now = clock::now();
        let Some(name) = name(datagram) else {
            add(&self.stats.nonsense, 1);
            return self.wonder(now);
        };
        let Some(place) = self.catalog.entry(name) else {
            add(&self.stats.unknown, 1);
            return self.wonder(now);
        };
        add(&self.stats.taken, 1);
        // Virtual disks come and go: those of a moment ago are few.
        self.told.retain(|_, at| now.since(*at) < QUIET);
        if let Entry::Vacant(untold) = self.told.entry(place.vdisk) {
            untold.insert(now);
            // A shard with no room for a message is one that more reports don't help.
            let _told = place.shard.try_tell(Message::Missed(place.vdisk));
        }
    }

    /// Says now and then that something came which says nothing: a name misspelt, most likely.
    fn wonder(&mut self, now: Instant) {
        let Some(left_out) = self.quiet.note(now, ()) else { return };
        let (unknown, nonsense) = (self.stats.unknown(), self.stats.nonsense());
        tracing::warn!(left_out, unknown, nonsense, "reports of misses that name no virtual disk");
    }
}

/// The name in a datagram; a line's end after it is allowed.
fn name(datagram: &[u8]) -> Option<&str> {
    let line = datagram.strip_suffix(b"\n").unwrap_or(datagram);
    let name = std::str::from_utf8(line).ok()?;
    (1..=NAME_MAX).contains(&name.len()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_what_is_none() {
        let longest = "x".repeat(NAME_MAX);
        for (datagram, said) in [("db", "db"), ("db\n", "db"), (longest.as_str(), &longest)] {
            assert_eq!(name(datagram.as_bytes()), Some(said));
        }
        let long = "x".repeat(NAME_MAX + 1);
        for datagram in [&b""[..], b"\n", b"\xff\xfe", long.as_bytes()] {
            assert_eq!(name(datagram), None, "{datagram:?}");
        }
    }

    #[test]
    fn a_place_is_taken_from_the_dead_only() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("misses");
        let first = ReportSocket::bind(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let taken = |path: &Path| ReportSocket::bind_now(path).err();
        assert!(matches!(taken(&path), Some(BindError::InUse { .. })));
        drop(first);
        assert!(!path.exists());
        // One that was killed leaves its file.
        drop(UnixDatagram::bind(&path).unwrap());
        assert!(path.exists());
        drop(ReportSocket::bind(&path).unwrap());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(taken(&path), Some(BindError::InUse { .. })), "another kind of socket");
        drop(listener);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "a file").unwrap();
        assert!(matches!(taken(&path), Some(BindError::NoSocket)));
    }
}
