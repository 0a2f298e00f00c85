//! The front desk: accepts clients and negotiates with them, then hands them to their shard.
//!
//! One thread for all listeners, because an export, and with it the shard, is known only when the
//! handshake ends. A virtual disk that takes no more clients says so in the handshake. Bounded: so many
//! handshakes at once, each so long, with so many bytes of answers ([`visitors`]).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use disktime_core::Duration;
use disktime_nbd::{ExportInfo, Exports, Session};
use rustix::event::{PollFd, PollFlags, poll};

use crate::clock;
use crate::frontend::nbd::Accepted;
use crate::listener::Listener;
use crate::memory::Budget;
use crate::quiet::Quiet;
use crate::seats::{NoSeat, Seat};
use crate::shard::{Message, ShardHandle, VdiskId};
use crate::stats::VdiskStats;

mod visitors;

use visitors::{Visitor, Visitors};

/// Clients accepted at once before those that were accepted earlier are looked at again.
const BATCH: usize = 64;
/// How long the listeners are left alone when the system can't accept.
const REST: Duration = Duration::from_millis(100);

/// An export, and where it is served.
pub(crate) struct Entry {
    pub(crate) info: ExportInfo,
    pub(crate) shard: usize,
    pub(crate) vdisk: VdiskId,
    pub(crate) stats: Arc<VdiskStats>,
    /// Its back end tells which of its bytes were never written.
    pub(crate) surveyed: bool,
}

/// The metadata context of what was never written.
const ALLOCATION: &str = "base:allocation";

/// Every export there is, and the memory for their clients.
pub(crate) struct Catalog {
    entries: Vec<Entry>,
    by_name: BTreeMap<String, usize>,
    budget: Arc<Budget>,
    /// Refusals are told by virtual disk and reason, once in a while.
    told: RefCell<Quiet<(VdiskId, NoSeat)>>,
}

impl Catalog {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { entries: Vec::new(), by_name: BTreeMap::new(), budget, told: RefCell::default() }
    }

    pub(crate) fn add(&mut self, entry: Entry) {
        self.by_name.insert(entry.info.name.clone(), self.entries.len());
        self.entries.push(entry);
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The export of that name; the empty name is the only export, if there is only one.
    fn entry(&self, name: &str) -> Option<&Entry> {
        match self.entries.as_slice() {
            [only] if name.is_empty() => Some(only),
            all => self.by_name.get(name).map(|at| &all[*at]),
        }
    }

    /// A place for a client of an export.
    fn seat(&self, entry: &Entry) -> Result<Seat, NoSeat> {
        Seat::take(&entry.stats, &self.budget)
    }
}

impl Exports for Catalog {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        self.entries.iter().for_each(|entry| each(&entry.info));
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        self.entry(name).map(|entry| entry.info.clone())
    }

    fn contexts(&self, name: &str) -> Vec<String> {
        let surveyed = self.entry(name).filter(|entry| entry.surveyed);
        surveyed.into_iter().map(|_| ALLOCATION.to_owned()).collect()
    }

    /// There is a place now. This thread alone gives places away, so it is there right after, too.
    fn admit(&self, name: &str) -> Result<(), String> {
        let Some(entry) = self.entry(name) else { return Ok(()) };
        self.seat(entry).map(drop).map_err(|none| {
            let cause = (entry.vdisk, none);
            if let Some(left_out) = self.told.borrow_mut().note(clock::now(), cause) {
                let vdisk = entry.info.name.as_str();
                tracing::warn!(vdisk, reason = %none, left_out, "a client was refused");
            }
            none.to_string()
        })
    }
}

/// The desk's state; lives on its own thread.
pub(crate) struct Desk {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) catalog: Catalog,
    pub(crate) shards: Vec<ShardHandle>,
    /// Readable when the desk is to close.
    pub(crate) closing: Arc<OwnedFd>,
}

impl Desk {
    /// Serves until told to close.
    pub(crate) fn run(self) -> io::Result<()> {
        let mut visitors = Visitors::default();
        let (mut resting, mut quiet) = (false, Quiet::default());
        loop {
            let (closing, ready) = self.wait(&visitors, std::mem::take(&mut resting))?;
            if closing {
                return Ok(());
            }
            let (listening, visiting) = ready.split_at(self.listeners.len());
            for (visitor, session) in visitors.go_on(visiting, clock::now(), &self.catalog) {
                self.hand_over(visitor, session);
            }
            for (listener, ready) in self.listeners.iter().zip(listening) {
                let Some(error) = ready.then(|| admit(listener, &mut visitors)).flatten() else {
                    continue;
                };
                resting = true;
                if let Some(left_out) = quiet.note(clock::now(), error.raw_os_error()) {
                    tracing::warn!(%error, left_out, "a client could not be accepted");
                }
            }
        }
    }

    /// Waits for anything to happen, at the listeners too unless `resting`; answers whether to
    /// close, and which of the listeners and visitors are ready.
    fn wait(&self, visitors: &Visitors, resting: bool) -> io::Result<(bool, Vec<bool>)> {
        let mut polled = vec![PollFd::new(&*self.closing, PollFlags::IN)];
        let listens = if resting { PollFlags::empty() } else { PollFlags::IN };
        polled.extend(self.listeners.iter().map(|listener| PollFd::new(listener, listens)));
        polled.extend(visitors.iter().map(|visitor| PollFd::new(visitor, visitor.waits_for())));
        let until = visitors.next().into_iter().chain(resting.then(|| clock::now() + REST)).min();
        let left = until.map(|until| until.since(clock::now()));
        let timeout = left.map(|left| rustix::time::Timespec {
            tv_sec: i64::try_from(left.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(left.as_nanos() % 1_000_000_000).unwrap_or(0),
        });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
        let closing = ready.next().expect("the first one is the desk's own");
        Ok((closing, ready.collect()))
    }

    fn hand_over(&self, visitor: Visitor, session: Session) {
        let Some(entry) = self.catalog.entry(&session.export.name) else { return };
        let Ok(seat) = self.catalog.seat(entry) else { return };
        let (socket, unread) = match visitor.leave() {
            Ok(left) => left,
            Err(error) => {
                tracing::debug!(%error, "a client went while it was handed over");
                return;
            }
        };
        let client = Accepted { socket, session, seat, unread };
        self.shards[entry.shard].tell(Message::Client { client, vdisk: entry.vdisk });
    }
}

/// Accepts some of the clients that wait at a listener, or says why the system can't take anyone
/// now.
fn admit(listener: &Listener, visitors: &mut Visitors) -> Option<io::Error> {
    for _ in 0..BATCH {
        match listener.accept() {
            Ok(socket) => visitors.welcome(socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            // The client went before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // Out of descriptors, most likely: a visitor that has said nothing makes room.
            Err(_) if visitors.show_one_out() => {}
            Err(error) => return Some(error),
        }
    }
    None
}
