//! The front desk: accepts clients and negotiates with them, then hands them to their shard.
//!
//! One thread for all listeners, because an export, and with it the shard, is known only when the
//! handshake ends. A virtual disk that takes no more clients says so in the handshake. Bounded: so many
//! handshakes at once, each so long, with so many bytes of answers ([`visitors`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use crossbeam_channel::Sender;
use disktime_core::{Duration, Instant};
use disktime_nbd::{Context, ExportInfo, Exports, Session};
use rustix::event::{PollFd, PollFlags};
use rustls::pki_types::ServerName;

use crate::bitmap::{BitmapSpec, Offered};
use crate::clock;
use crate::config::TlsUse;
use crate::frontend::nbd::Accepted;
use crate::listener::Listener;
use crate::memory::Budget;
use crate::quiet::Quiet;
use crate::seats::{NoSeat, Seat};
use crate::shard::{Message, ShardHandle, VdiskId};
use crate::stats::VdiskStats;
use crate::tls::{Channel, Tls};
use crate::wakeup::wait;

mod visitors;

use visitors::{Doors, Visitor, Visitors};

/// Clients accepted at once before those that were accepted earlier are looked at again.
const BATCH: usize = 64;
/// How long clients in their handshakes may take when the daemon is taken over: until then the others are
/// served.
pub(crate) const GRACE: Duration = Duration::from_millis(200);
/// How long the listeners are left alone when the system can't accept.
const REST: Duration = Duration::from_millis(100);

/// An export, and where it is served.
pub(crate) struct Entry {
    pub(crate) info: ExportInfo,
    pub(crate) shard: ShardHandle,
    pub(crate) vdisk: VdiskId,
    pub(crate) stats: Arc<VdiskStats>,
    /// Its back end tells which of its bytes were never written.
    pub(crate) surveyed: bool,
    /// It is what a client gets that names no export.
    pub(crate) is_default: bool,
    /// Names of certificates, one of which a client must show, if there are any.
    pub(crate) clients: Vec<ServerName<'static>>,
    /// Its bitmaps, each of which is a metadata context.
    pub(crate) bitmaps: Offered,
}

impl Entry {
    /// The same under another name.
    fn named(&self, name: &str) -> Self {
        let Self { info, shard, vdisk, stats, surveyed, is_default, clients, bitmaps } = self;
        Self {
            info: ExportInfo { name: name.to_owned(), ..info.clone() },
            shard: shard.clone(),
            vdisk: *vdisk,
            stats: Arc::clone(stats),
            surveyed: *surveyed,
            is_default: *is_default,
            clients: clients.clone(),
            bitmaps: bitmaps.clone(),
        }
    }
}

/// A place where clients connect, bound, with what they find there.
pub(crate) struct OpenDoor {
    pub(crate) listener: Listener,
    /// The names of the virtual disks that are reached here; else all.
    pub(crate) vdisks: Option<BTreeSet<String>>,
    pub(crate) tls: TlsUse,
}

/// The metadata context of what was never written.
const ALLOCATION: &str = "base:allocation";
/// The beginning of the names of bitmaps' contexts, as QEMU has them.
const DIRTY_BITMAP: &str = "qemu:dirty-bitmap:";

/// Every export there is, and the memory for their clients. Exports come and go while other threads
/// look them up; no shard does.
pub(crate) struct Catalog {
    exports: RwLock<Exported>,
    budget: Arc<Budget>,
    /// Refusals are told by virtual disk and reason, once in a while: no seat, or a name (`None`).
    told: Mutex<Quiet<(VdiskId, Option<NoSeat>)>>,
}

#[derive(Default)]
struct Exported {
    /// In the order in which they came.
    by_id: BTreeMap<VdiskId, Arc<Entry>>,
    by_name: BTreeMap<String, Arc<Entry>>,
}

impl Catalog {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { exports: RwLock::default(), budget, told: Mutex::default() }
    }

    pub(crate) fn add(&self, entry: Entry) {
        self.show(Arc::new(entry));
    }

    /// Clients find this export no longer.
    pub(crate) fn remove(&self, name: &str) {
        let _gone_already = self.hide(name);
    }

    /// The same export under another name.
    pub(crate) fn rename(&self, name: &str, to: &str) {
        let mut exports = self.exports.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = exports.by_name.remove(name) {
            let entry = Arc::new(entry.named(to));
            exports.by_id.insert(entry.vdisk, Arc::clone(&entry));
            exports.by_name.insert(to.to_owned(), entry);
        }
    }

    /// Clients don't find an export until it is shown again.
    pub(crate) fn hide(&self, name: &str) -> Option<Arc<Entry>> {
        let mut exports = self.exports.write().unwrap_or_else(PoisonError::into_inner);
        let entry = exports.by_name.remove(name)?;
        exports.by_id.remove(&entry.vdisk);
        Some(entry)
    }

    /// Clients find a hidden export again.
    pub(crate) fn show(&self, entry: Arc<Entry>) {
        let mut exports = self.exports.write().unwrap_or_else(PoisonError::into_inner);
        exports.by_name.insert(entry.info.name.clone(), Arc::clone(&entry));
        exports.by_id.insert(entry.vdisk, entry);
    }

    fn exported(&self) -> RwLockReadGuard<'_, Exported> {
        self.exports.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of all exports.
    pub(crate) fn names(&self) -> Vec<String> {
        self.exported().by_name.keys().cloned().collect()
    }

    /// The export of that name.
    pub(crate) fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.exported().by_name.get(name).cloned()
    }

    /// Tells of a client that was refused, once in a while.
    fn tell_refusal(&self, entry: &Entry, cause: Option<NoSeat>, reason: impl std::fmt::Display) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left_out) = told.note(clock::now(), (entry.vdisk, cause)) {
            let vdisk = entry.info.name.as_str();
            tracing::warn!(vdisk, %reason, left_out, "a client was refused");
        }
    }

    /// A place for a client of an export.
    pub(crate) fn seat(&self, entry: &Entry) -> Result<Seat, NoSeat> {
        Seat::take(&entry.stats, &self.budget)
    }
}

/// The exports as a client sees them that came through a door.
pub(crate) struct View<'a> {
    catalog: &'a Catalog,
    door: &'a OpenDoor,
    tls: Option<&'a Channel>,
}

impl View<'_> {
    fn reaches(&self, name: &str) -> bool {
        self.door.vdisks.as_ref().is_none_or(|names| names.contains(name))
    }

    /// The export of that name; the empty name is the default's, or that of the only one here.
    fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        if !name.is_empty() {
            return self.catalog.entry(name).filter(|_| self.reaches(name));
        }
        let exported = self.catalog.exported();
        let here = || exported.by_id.values().filter(|entry| self.reaches(&entry.info.name));
        let default = here().find(|entry| entry.is_default);
        let default = default.or_else(|| {
            let mut all = here();
            all.next().filter(|_| all.next().is_none())
        });
        default.cloned()
    }

    /// Why the client may not have an export, as far as that is a matter of its name.
    fn refuses(&self, entry: &Entry) -> Option<String> {
        let shown = |channel: &Channel| channel.is_one_of(&entry.clients);
        let may = entry.clients.is_empty() || self.tls.is_some_and(shown);
        (!may).then(|| "it is for clients with certificates of other names".to_owned())
    }
}

impl Exports for View<'_> {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        let exported = self.catalog.exported();
        let here = exported.by_id.values().filter(|entry| self.reaches(&entry.info.name));
        here.for_each(|entry| each(&entry.info));
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        let info =
            |entry: Arc<Entry>| ExportInfo { size_bytes: entry.stats.size(), ..entry.info.clone() };
        self.entry(name).map(info)
    }

    fn contexts(&self, name: &str) -> Vec<Context> {
        let Some(entry) = self.entry(name) else { return Vec::new() };
        let allocation = Context { id: 0, name: ALLOCATION.to_owned() };
        let bitmap = |spec: BitmapSpec| Context {
            id: spec.id,
            name: format!("{DIRTY_BITMAP}{}", spec.name),
        };
        let bitmaps = entry.bitmaps.now().into_iter().map(bitmap);
        entry.surveyed.then_some(allocation).into_iter().chain(bitmaps).collect()
    }

    /// There is a place now. This thread alone gives places away, and lets a visitor in before it asks for the
    /// next, so it is there right after, too.
    fn admit(&self, name: &str) -> Result<(), String> {
        let Some(entry) = self.entry(name) else { return Ok(()) };
        let (cause, reason) = match (self.refuses(&entry), self.catalog.seat(&entry)) {
            (Some(reason), _) => (None, reason),
            (None, Err(none)) => (Some(none), none.to_string()),
            (None, Ok(_)) => return Ok(()),
        };
        self.catalog.tell_refusal(&entry, cause, &reason);
        Err(reason)
    }
}

impl Doors for Desk {
    fn view<'a>(&'a self, door: usize, tls: Option<&'a Channel>) -> Box<dyn Exports + 'a> {
        Box::new(View { catalog: &self.catalog, door: &self.doors[door], tls })
    }

    fn let_in(&self, visitor: Visitor, session: Session) {
        let Some(entry) = self.catalog.entry(&session.export.name) else { return };
        let Ok(seat) = self.catalog.seat(&entry) else { return };
        let (socket, unread, tls) = match visitor.leave() {
            Ok(left) => left,
            Err(error) => {
                tracing::debug!(%error, "a client went while it was handed over");
                return;
            }
        };
        let client = Accepted { socket, session, seat, unread, skip: 0, tls };
        let client = Message::Client { client, vdisk: entry.vdisk };
        if !entry.shard.tell_unless_deaf(client) {
            self.catalog.tell_refusal(&entry, Some(NoSeat::Deaf), NoSeat::Deaf);
        }
    }
}

/// The desk's state; lives on its own thread.
pub(crate) struct Desk {
    pub(crate) doors: Arc<Vec<OpenDoor>>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) catalog: Arc<Catalog>,
    /// Readable when the desk is to close.
    pub(crate) closing: Arc<OwnedFd>,
    /// Clients in their handshakes are to end them before the desk closes.
    pub(crate) leaving: Arc<AtomicBool>,
    /// Gone when the desk is.
    pub(crate) _is_here: Sender<()>,
}

impl Desk {
    /// Serves until told to close.
    pub(crate) fn run(self) -> io::Result<()> {
        let mut visitors = Visitors::default();
        let (mut resting, mut quiet) = (false, Quiet::default());
        let mut closes_at = None;
        loop {
            let (closing, ready) = self.wait(&visitors, std::mem::take(&mut resting), closes_at)?;
            if closing {
                let grace = self.leaving.load(Ordering::Relaxed).then_some(GRACE);
                closes_at = Some(clock::now() + grace.unwrap_or(Duration::ZERO));
            }
            let nobody = visitors.iter().next().is_none();
            if closes_at.is_some_and(|at| nobody || at <= clock::now()) {
                return Ok(());
            }
            let (listening, visiting) = ready.split_at(self.doors.len());
            visitors.go_on(visiting, clock::now(), &self);
            for (at, ready) in listening.iter().enumerate().filter(|_| closes_at.is_none()) {
                let Some(error) = ready.then(|| self.admit(at, &mut visitors)).flatten() else {
                    continue;
                };
                resting = true;
                if let Some(left_out) = quiet.note(clock::now(), error.raw_os_error()) {
                    tracing::warn!(%error, left_out, "a client could not be accepted");
                }
            }
        }
    }

    /// Waits for anything to happen, at the listeners too unless `resting` or about to close; answers
    /// whether to close, and which of the listeners and visitors are ready.
    fn wait(
        &self,
        visitors: &Visitors,
        resting: bool,
        closes_at: Option<Instant>,
    ) -> io::Result<(bool, Vec<bool>)> {
        let unless = |not: bool| if not { PollFlags::empty() } else { PollFlags::IN };
        let mut polled = vec![PollFd::new(&*self.closing, unless(closes_at.is_some()))];
        let listens = unless(resting || closes_at.is_some());
        polled.extend(self.doors.iter().map(|door| PollFd::new(&door.listener, listens)));
        polled.extend(visitors.iter().map(|visitor| PollFd::new(visitor, visitor.waits_for())));
        let rest = resting.then(|| clock::now() + REST);
        let until = visitors.next().into_iter().chain(rest).chain(closes_at).min();
        let mut ready = wait(&mut polled, until)?;
        let closing = ready.remove(0);
        Ok((closing, ready))
    }

    /// Accepts some of the clients that wait at a door, or says why the system can't take anyone
    /// now.
    fn admit(&self, at: usize, visitors: &mut Visitors) -> Option<io::Error> {
        let door = &self.doors[at];
        let tls = self.tls.as_ref().filter(|_| door.tls != TlsUse::Off);
        for _ in 0..BATCH {
            match door.listener.accept() {
                Ok(socket) => visitors.welcome_at(socket, at, door.tls, tls),
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
}
