//! A carrier: a thread with a ring of its own that carries clients' bytes for a shard.
//!
//! A device of one thread has no carriers. With `shards = N` its clients' connections are with N - 1 carriers:
//! these receive, read the protocol, take memory against the clients' accounts, copy and send. The shard has
//! the engine and the device, and hears of each part of a request once all its data are there.
//!
//! Memory changes hands as loans: a write's buffer is the carrier's and lent to the shard until the write is
//! answered; a read's is the shard's, or the store's, and lent to the carrier until the reply is sent.
//!
//! Does not know: the engine, the device, virtual disks but their numbers.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use disktime_core::Instant;
use slab::Slab;

use super::copies::Copies;
use super::crossing::{Bell, Crossing};
use super::idle::Idle;
use super::own_time::{Tally, Worked};
use super::touched::Touched;
use super::{TURN, listen};
use crate::buffers::{Buffer, Lender, Lent, Loan, Pool};
use crate::clock;
use crate::frontend::nbd::{Accepted, Connection, Described, Part, Parted};
use crate::frontend::request::{BlockError, Ticket};
use crate::ring::{Finished, Keep, Ring, Token};
use crate::stats::DeviceStats;

mod clients;

/// Bytes of ended loans that the shard is not woken for: they are told with the next message.
const QUIET_BYTES: usize = 256 << 10;

/// A carrier's word to its shard.
pub(super) enum ToShard {
    /// A part of a request, with all its data.
    Part {
        part: Part,
        /// No more parts of the request come.
        last: bool,
        /// The data of a write.
        data: Option<Loan>,
    },
    /// A client is gone: the requests that it has under way are not wanted any more.
    Gone(u32),
    /// Nothing of a client is left here.
    Over(u32),
    /// A client leaves for another process, and nothing of it is left here.
    Parted(u32, Box<Parted>),
    /// A loan of the shard's has ended.
    Ended(Lent),
    /// The carrier of that place has worked for its clients.
    Worked(u32, Worked),
}

/// A shard's word to a carrier.
pub(super) enum ToCarrier {
    /// A client under a key that nobody here has, of a virtual disk.
    Client(u32, Box<Accepted>, u32),
    /// Work of a client is over.
    Answer(u32, Ticket, Range<u64>, Result<Option<Outcome>, BlockError>),
    /// A client is to send no more requests; those taken are finished and answered.
    Close(u32),
    /// The same, and a request of which only some parts were taken ends with an error.
    Remove(u32),
    /// A client is to leave for another process once those taken are answered.
    Part(u32),
    /// A client is let go at once.
    Lose(u32),
    /// Clients that leave and neither send nor read are let go.
    Hurry,
    /// A loan of this carrier's has ended.
    Ended(Lent),
    /// Tell the thread's processor time.
    Look,
    /// The end, whatever there is.
    End,
}

/// The result of a client's work.
pub(super) enum Outcome {
    /// A read's data, and where they are.
    Data(Loan, Range<usize>),
    /// The extents of a status.
    Described(Vec<Described>),
}

/// The parts that a carrier is made of.
pub(super) struct Made {
    pub(super) crossing: Crossing<ToShard, ToCarrier>,
    /// Its place among the shard's carriers.
    pub(super) place: u32,
    pub(super) bell: Arc<Bell>,
    /// The bell's eventfd.
    pub(super) wakeup: Arc<OwnedFd>,
    /// The longest part of a request, which the shard changes.
    pub(super) part_max: Arc<AtomicU32>,
    pub(super) idle_timeout: Option<disktime_core::Duration>,
    pub(super) stats: Arc<DeviceStats>,
}

/// A write whose data are on their way.
struct Writing {
    part: Part,
    last: bool,
    buffer: Buffer,
}

/// The thread's turns.
struct Turns {
    heard_at: Instant,
    now: Instant,
    unfinished: bool,
    ended: bool,
    /// Processor time that was told.
    told_cpu_ns: u64,
    /// Bytes of ended loans that the shard was not woken for.
    quiet_bytes: usize,
}

pub(super) struct Carrier {
    ring: Ring,
    pool: Pool,
    made: Made,
    lender: Lender,
    /// By the keys that the shard gives.
    clients: Vec<Option<Connection>>,
    /// Clients here, by virtual disk.
    crowds: Vec<u32>,
    writes: Slab<Writing>,
    touched: Touched,
    copies: Copies,
    idle: Idle,
    turns: Turns,
    tally: Tally,
}

impl Carrier {
    /// A carrier on the calling thread, which it must not leave.
    ///
    /// # Errors
    /// If the kernel gives no ring.
    pub(super) fn new(made: Made) -> io::Result<Self> {
        let mut pool = Pool::new();
        let mut ring = Ring::new(pool.arena())?;
        listen(&mut ring, &mut pool, Token::Wakeup, &made.wakeup);
        let now = clock::now();
        Ok(Self {
            ring,
            pool,
            lender: Lender::new(made.place),
            idle: Idle::new(made.idle_timeout),
            made,
            clients: Vec::new(),
            crowds: Vec::new(),
            writes: Slab::new(),
            touched: Touched::default(),
            copies: Copies::default(),
            turns: Turns {
                heard_at: now,
                now,
                unfinished: false,
                ended: false,
                told_cpu_ns: 0,
                quiet_bytes: 0,
            },
            tally: Tally::new(),
        })
    }

    /// Carries until the shard says that it is over, or is gone.
    ///
    /// # Errors
    /// If the ring fails.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut finished = Vec::new();
        while !self.turns.ended {
            self.wait()?;
            self.ring.reap(&mut finished);
            self.turns.heard_at = self.look();
            for operation in finished.drain(..) {
                self.handle(operation);
            }
            self.turn();
        }
        self.clients.clear();
        self.tell_ended();
        self.made.crossing.settle();
        self.tell_cpu();
        Ok(())
    }

    fn look(&mut self) -> Instant {
        self.turns.now = clock::now();
        self.turns.now
    }

    fn wait(&mut self) -> io::Result<()> {
        self.made.bell.falls_asleep();
        let waited = if self.turns.unfinished || self.made.crossing.has_news() {
            self.made.bell.awakes();
            self.ring.look_in()
        } else {
            let left = self.idle.next().map(|next| next.since(clock::now()).as_nanos());
            self.ring.wait(left.map(Duration::from_nanos))
        };
        self.made.bell.awakes();
        waited
    }

    fn handle(&mut self, Finished { token, keep, result }: Finished) {
        match (token, keep) {
            (Token::Wakeup, Keep::Buffer(buffer)) => {
                self.pool.give_back(buffer);
                listen(&mut self.ring, &mut self.pool, Token::Wakeup, &self.made.wakeup);
            }
            (Token::Receive(client), Keep::Buffer(buffer)) => self.received(client, buffer, result),
            (Token::Send(client), Keep::Message(message)) => {
                let now = self.turns.heard_at;
                let Some(connection) = self.client(client) else { return };
                connection.moved_at = now;
                let vdisk = connection.vdisk;
                if !connection.sent(message, result) {
                    self.lose(client);
                }
                self.touch(client);
                self.tally.moved(vdisk, usize::try_from(result).unwrap_or(0));
            }
            (Token::Cancel, _) => {}
            (token, _) => unreachable!("{token:?} comes back with the memory it went with"),
        }
    }

    /// Everything that follows from what has come in.
    fn turn(&mut self) {
        self.copies.begin_turn();
        while let Some(client) = self.copies.next_waiting() {
            self.touch(client);
        }
        while let Some(message) = self.made.crossing.hear() {
            self.hear(message);
        }
        // A shard that is gone says nothing any more.
        self.turns.ended |= self.made.crossing.is_cut();
        let until = self.turns.heard_at + TURN;
        for _ in 0..self.touched.len() {
            // Requests for which the shard has no room stay with their clients.
            if self.made.crossing.is_short() {
                break;
            }
            let Some(client) = self.touched.pop() else { break };
            self.serve(client);
            // The shard decides about its requests while others are served.
            self.made.crossing.settle();
            if self.look() >= until {
                break;
            }
        }
        self.let_idle_go();
        if self.tally.is_due(self.turns.now) {
            self.tell_work();
        }
        self.tell_ended();
        self.made.crossing.settle();
        // By now there may be the room that clients waited for in this turn.
        let held_up = self.made.crossing.is_short();
        self.turns.unfinished = !held_up && (!self.touched.is_empty() || self.copies.waits());
    }

    fn hear(&mut self, message: ToCarrier) {
        match message {
            ToCarrier::Client(key, client, vdisk) => self.welcome(key, *client, vdisk),
            ToCarrier::Answer(client, ticket, range, outcome) => {
                self.answer(client, ticket, &range, outcome);
            }
            ToCarrier::Close(client) => self.end_of(client, Connection::close),
            ToCarrier::Part(client) => self.end_of(client, Connection::part),
            ToCarrier::Remove(client) => self.remove(client),
            ToCarrier::Lose(client) => self.lose(client),
            ToCarrier::Hurry => self.hurry(),
            ToCarrier::Ended(lent) => self.lender.take_back(lent),
            ToCarrier::Look => self.tell_cpu(),
            ToCarrier::End => self.turns.ended = true,
        }
    }

    /// Tells the shard which of its loans have ended; wakes it for many bytes alone.
    fn tell_ended(&mut self) {
        while let Some((lent, len)) = self.pool.take_ended() {
            self.turns.quiet_bytes += len;
            if self.turns.quiet_bytes >= QUIET_BYTES {
                self.turns.quiet_bytes = 0;
                self.made.crossing.say(ToShard::Ended(lent));
            } else {
                self.made.crossing.say_quietly(ToShard::Ended(lent));
            }
        }
    }

    /// Tells the shard what the thread has worked for clients; wakes it for nothing.
    fn tell_work(&mut self) {
        let mut work = Worked::default();
        self.tally.tell(self.turns.now, &mut work);
        self.made.crossing.say_quietly(ToShard::Worked(self.made.place, work));
    }

    /// Adds the thread's processor time to the device's.
    fn tell_cpu(&mut self) {
        let cpu_ns = clock::thread_cpu_ns();
        let more = cpu_ns - std::mem::replace(&mut self.turns.told_cpu_ns, cpu_ns);
        self.made.stats.carriers_cpu_ns.fetch_add(more, Ordering::Relaxed);
    }
}
