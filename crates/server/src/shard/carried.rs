//! The shard's side of its carriers: clients whose connections are with other threads.
//!
//! A shard has either clients of its own or carried ones. A carried client's work arrives as a message once
//! all its data are there, and its answer leaves as one. The rest of the shard sees no difference but in the
//! functions here.
//!
//! Does not know: sockets, the protocol.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use disktime_core::{Duration, StreamId};
use rustix::event::{EventfdFlags, eventfd};
use slab::Slab;

use super::carrier::{Carrier, Made, Outcome, ToCarrier, ToShard};
use super::crossing::{Bell, Crossing, crossing};
use super::{Operation, Shard, name};
use crate::backend::Survey;
use crate::buffers::{Lender, Pool};
use crate::clock;
use crate::frontend::nbd::{Accepted, Part};
use crate::frontend::request::{BlockError, Op, Origin, Ticket};
use crate::ring::Payload;
use crate::stats::DeviceStats;
use crate::threads;

/// Messages that are heard between two looks at the clock, at some .3 us each.
const HEARD: u32 = 32;
/// How long the end of a carrier may take, which waits for nothing.
const END: Duration = Duration::from_millis(200);

/// A client with a carrier.
struct Away {
    carrier: u32,
    vdisk: u32,
    /// The metadata contexts that it has chosen.
    contexts: Vec<u32>,
    /// Its replies are the system's to read, straight from where they are.
    plain: bool,
    /// It is gone: nothing can be answered.
    dead: bool,
}

struct Link {
    crossing: Crossing<ToCarrier, ToShard>,
    bell: Arc<Bell>,
    /// Clients that it has.
    clients: u32,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// All that a shard has of carriers.
pub(super) struct Carried {
    links: Vec<Link>,
    away: Slab<Away>,
    lender: Lender,
    /// The shard's own wake-up for their messages.
    bell: Arc<Bell>,
    pub(super) wakeup: Arc<OwnedFd>,
    part_max: Arc<AtomicU32>,
}

/// The data of work that is over.
pub(super) struct Ended {
    pub(super) client: u32,
    pub(super) ticket: Ticket,
    pub(super) op: Op,
    pub(super) range: std::ops::Range<u64>,
    pub(super) vdisk: u32,
    pub(super) data: Option<Payload>,
    pub(super) survey: Option<Box<Survey>>,
}

impl Carried {
    /// Starts so many carriers, for parts of so many bytes at most; `None` for none.
    ///
    /// # Errors
    /// If the system gives no thread, ring or event.
    pub(super) fn start(
        (count, part_max): (u32, u32),
        idle_timeout: Option<Duration>,
        stats: &Arc<DeviceStats>,
    ) -> io::Result<Option<Self>> {
        if count == 0 {
            return Ok(None);
        }
        let wakeup = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let mut carried = Self {
            links: Vec::new(),
            away: Slab::new(),
            lender: Lender::default(),
            bell: Bell::new(Arc::clone(&wakeup)),
            wakeup,
            part_max: Arc::new(AtomicU32::new(part_max)),
        };
        for place in 0..count {
            let link = carried.link(place, idle_timeout, stats)?;
            carried.links.push(link);
        }
        Ok(Some(carried))
    }

    fn link(
        &self,
        place: u32,
        idle_timeout: Option<Duration>,
        stats: &Arc<DeviceStats>,
    ) -> io::Result<Link> {
        let wakeup = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let bell = Bell::new(Arc::clone(&wakeup));
        let (near, far) = crossing([&self.bell, &bell]);
        let made = Made {
            crossing: far,
            place,
            bell: Arc::clone(&bell),
            wakeup,
            part_max: Arc::clone(&self.part_max),
            idle_timeout,
            stats: Arc::clone(stats),
        };
        let end = End(Arc::clone(&self.bell));
        let (started, start) = crossbeam_channel::bounded(1);
        let run = move || {
            let _end = end;
            let carrier = Carrier::new(made);
            let (outcome, carrier) = match carrier {
                Ok(carrier) => (Ok(()), Some(carrier)),
                Err(error) => (Err(error), None),
            };
            let _starter_waits = started.send(outcome);
            carrier.map_or(Ok(()), Carrier::run)
        };
        let own = std::thread::current();
        let thread = format!("{}-{}", own.name().unwrap_or("carrier"), place + 1);
        let thread = std::thread::Builder::new().name(thread).spawn(run)?;
        start.recv().map_err(io::Error::other)??;
        Ok(Link { crossing: near, bell, clients: 0, thread: Some(thread) })
    }

    /// The shard is about to sleep; whether it may: nothing is to be heard.
    pub(super) fn falls_asleep(&self) -> bool {
        self.bell.falls_asleep();
        !self.has_news()
    }

    pub(super) fn awakes(&self) {
        self.bell.awakes();
    }

    /// Whether there is something to hear.
    pub(super) fn has_news(&self) -> bool {
        self.links.iter().any(|link| link.crossing.has_news())
    }

    /// Whether a carrier has a part of a request for it.
    #[cfg(test)]
    pub(super) fn has_part(&mut self) -> bool {
        let is_part = |told: &ToShard| matches!(told, ToShard::Part { .. });
        self.links.iter_mut().any(|link| link.crossing.is_told(is_part))
    }

    /// Wakes carriers, so that they publish their processor time.
    pub(super) fn look(&mut self) {
        self.links.iter_mut().for_each(|link| link.crossing.say(ToCarrier::Look));
    }

    /// The clients that it has.
    pub(super) fn keys(&self) -> Vec<u32> {
        self.away.iter().map(|(key, _)| name(key)).collect()
    }

    /// The clients of a virtual disk.
    pub(super) fn clients_of(&self, stream: StreamId) -> Vec<u32> {
        let of_it = self.away.iter().filter(|(_, away)| away.vdisk == stream.0);
        of_it.map(|(key, _)| name(key)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.away.is_empty()
    }

    pub(super) fn is_dead(&self, client: u32) -> bool {
        self.away[client as usize].dead
    }

    pub(super) fn vdisk(&self, client: u32) -> u32 {
        self.away[client as usize].vdisk
    }

    /// Whether a store's memory may be the reply to a client's read: not if a carrier has to seal it.
    pub(super) fn may_lend(&self, client: Option<u32>) -> bool {
        client.is_none_or(|client| self.away[client as usize].plain)
    }

    /// Gives a client to the carrier with the fewest; answers its key.
    pub(super) fn welcome(&mut self, client: Accepted, vdisk: u32) -> u32 {
        let places = 0..name(self.links.len());
        let fewest = places.min_by_key(|place| self.links[*place as usize].clients);
        let carrier = fewest.expect("there is one");
        let contexts = client.session.contexts.clone();
        let away = Away { carrier, vdisk, contexts, plain: client.tls.is_none(), dead: false };
        let key = name(self.away.insert(away));
        let link = &mut self.links[carrier as usize];
        link.clients += 1;
        link.crossing.say(ToCarrier::Client(key, Box::new(client), vdisk));
        key
    }

    /// Says something to a client's carrier.
    pub(super) fn say(&mut self, client: u32, message: ToCarrier) {
        let carrier = self.away[client as usize].carrier;
        self.links[carrier as usize].crossing.say(message);
    }

    /// Clients that leave and hold the hand-over up are to be let go.
    pub(super) fn hurry(&mut self) {
        self.links.iter_mut().for_each(|link| link.crossing.say(ToCarrier::Hurry));
    }

    /// A client is gone, or must go; whether it was there. A carrier that told of that knows it.
    pub(super) fn lose(&mut self, client: u32, told: bool) -> bool {
        let away = &mut self.away[client as usize];
        if std::mem::replace(&mut away.dead, true) {
            return false;
        }
        if !told {
            self.say(client, ToCarrier::Lose(client));
        }
        true
    }

    /// Nothing of a client is left; answers its virtual disk.
    fn forget(&mut self, client: u32) -> u32 {
        let Away { carrier, vdisk, .. } = self.away.remove(client as usize);
        self.links[carrier as usize].clients -= 1;
        vdisk
    }

    /// Lets carriers know of everything that was said.
    fn settle(&mut self, pool: &Pool, part_max: u32) {
        self.part_max.store(part_max, Ordering::Relaxed);
        while let Some((lent, _)) = pool.take_ended() {
            let link = &mut self.links[lent.lender as usize];
            link.crossing.say_quietly(ToCarrier::Ended(lent));
        }
        self.links.iter_mut().for_each(|link| link.crossing.settle());
    }

    /// Why a carrier has ended by itself, if one has.
    fn failure(&mut self) -> io::Result<()> {
        for link in &mut self.links {
            if link.crossing.is_cut() {
                let thread = link.thread.take();
                let ended = thread.map_or(Ok(true), |it| threads::join(it, clock::now() + END));
                ended?;
                return Err(io::Error::other("a thread that carries its clients' bytes has ended"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Carried {
    /// How many loans carriers have.
    pub(super) fn lent(&self) -> usize {
        self.lender.len()
    }

    /// How many clients each carrier has.
    pub(super) fn crowds(&self) -> Vec<u32> {
        self.links.iter().map(|link| link.clients).collect()
    }

    /// Has the first carrier end.
    pub(super) fn end_one(&mut self) {
        self.links[0].crossing.say(ToCarrier::End);
    }
}

impl Drop for Carried {
    /// Carriers end at once; what they have of the shard's comes back before its lender is dropped.
    fn drop(&mut self) {
        for link in &mut self.links {
            link.crossing.say(ToCarrier::End);
            link.crossing.settle();
            link.bell.ring_loud();
        }
        let until = clock::now() + END;
        for link in &mut self.links {
            let ended = link.thread.take().map(|thread| threads::join(thread, until));
            if let Some(Err(error)) = ended {
                tracing::error!(%error, "a thread that carries clients' bytes had failed");
            }
            while let Some(message) = link.crossing.hear() {
                if let ToShard::Ended(lent) = message {
                    self.lender.take_back(lent);
                }
            }
        }
    }
}

/// Wakes the shard when a carrier's thread ends, for whatever reason.
struct End(Arc<Bell>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.ring_loud();
    }
}

impl Shard {
    /// Hears what carriers have to say, for as long as a turn gives to clients; whether that is all.
    pub(super) fn hear_carriers(&mut self) -> bool {
        let Some(carried) = &self.carried else { return true };
        let (until, mut heard) = (self.turns.now + super::TURN, 0);
        let mut quiet = 0;
        let count = carried.links.len();
        let mut at = 0;
        while quiet < count {
            let link = self.carried.as_mut().and_then(|it| it.links.get_mut(at));
            at = (at + 1) % count;
            let Some(message) = link.and_then(|it| it.crossing.hear()) else {
                quiet += 1;
                continue;
            };
            quiet = 0;
            self.hear_carrier(message);
            heard += 1;
            if heard % HEARD == 0 && self.look() >= until {
                return false;
            }
        }
        true
    }

    fn hear_carrier(&mut self, message: ToShard) {
        match message {
            ToShard::Part { part, last, data } => {
                let buffer = data.map(|loan| self.pool.borrow(loan));
                let Origin::Client { client, .. } = part.work.origin else {
                    unreachable!("a carrier's work is of clients");
                };
                let Some(carried) = &self.carried else { return };
                let vdisk = carried.vdisk(client);
                let dead = carried.is_dead(client);
                let Part { work, begins } = part;
                let op = work.op;
                let operation = Operation { buffer, last, ..Operation::new(work, vdisk) };
                let key = name(self.operations.insert(operation));
                if let Some(range) = begins.filter(|_| !matches!(op, Op::Status { .. })) {
                    self.record(vdisk, op.kind(), &range);
                }
                if dead {
                    self.answer(key, Ok(()));
                } else if self.vdisks[vdisk as usize].removal.is_some() {
                    self.answer(key, Err(BlockError::Removed));
                } else {
                    self.arrive(key);
                }
            }
            ToShard::Gone(client) => {
                if self.carried.as_mut().is_some_and(|it| it.lose(client, true)) {
                    self.drop_requests(client);
                }
            }
            ToShard::Over(client) => {
                let Some(carried) = &mut self.carried else { return };
                let vdisk = carried.forget(client);
                self.client_is_over(vdisk);
            }
            ToShard::Parted(client, parted) => {
                let Some(carried) = &mut self.carried else { return };
                let vdisk = carried.forget(client);
                self.leave(*parted, vdisk);
            }
            ToShard::Ended(lent) => {
                if let Some(carried) = &mut self.carried {
                    carried.lender.take_back(lent);
                }
            }
            ToShard::Worked(carrier, work) => self.turns.own_time.carried(carrier, work),
        }
    }

    /// Work of a carried client is over.
    pub(super) fn answer_carried(&mut self, ended: Ended, result: Result<(), BlockError>) {
        let Ended { client, ticket, op, range, vdisk, data, survey } = ended;
        let Some(carried) = &mut self.carried else { return };
        let Some(away) = carried.away.get(client as usize) else { return };
        let wanted = result.is_ok() && !away.dead;
        let outcome = match (data.filter(|_| wanted), survey.filter(|_| wanted)) {
            (Some((buffer, place)), _) => Some(Outcome::Data(carried.lender.lend(buffer), place)),
            (None, Some(survey)) => {
                let one = matches!(op, Op::Status { one: true });
                let bitmaps = &self.vdisks[vdisk as usize].bitmaps;
                let found = (&survey.found[..], &range, one);
                Some(Outcome::Described(super::bitmaps::described(&away.contexts, bitmaps, found)))
            }
            (None, None) => None,
        };
        let answer = ToCarrier::Answer(client, ticket, range, result.map(|()| outcome));
        carried.say(client, answer);
    }

    /// Carriers hear of what was said in this turn.
    pub(super) fn settle_carriers(&mut self) {
        if self.carried.is_none() {
            return;
        }
        let part_max = self.part_max();
        if let Some(carried) = &mut self.carried {
            carried.settle(&self.pool, part_max);
        }
    }

    /// Whether all carriers are there.
    ///
    /// # Errors
    /// The reason for which one has ended.
    pub(super) fn check_carriers(&mut self) -> io::Result<()> {
        self.carried.as_mut().map_or(Ok(()), Carried::failure)
    }
}
