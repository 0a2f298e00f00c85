//! One NBD connection in its transmission phase: bytes in, requests out in parts, replies gathered.
//!
//! A request with data is issued in parts, each as long as the connection's memory allows, so that no
//! client's wish decides how much memory there is. Most requests are one part. A read of several is
//! answered in as many chunks; a client without structured replies gets one reply, and has nothing else
//! under way meanwhile ([`Cut::alone`]).
//!
//! This is the edge where the protocol ends: shards get [`Work`], and their answers become replies
//! ([`pending`]).
//!
//! Does not know: the engine, the device. It only keeps a client within its bounds: parts alive,
//! memory held, replies not yet read. At a bound it stops reading, so a client that sends too much or
//! reads too little waits for itself and for nobody else.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use disktime_core::Instant;
use disktime_nbd::reply::{ReplyStyle, ReplyTo};
use disktime_nbd::{
    Checked, EXTENDED_REQUEST_BYTES, Operation, ProtocolError, REQUEST_BYTES, Reject,
    RequestHeader, Session,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slab::Slab;

use super::request::{BlockError, Input, Origin, State, Ticket, Work, place};
use crate::buffers::{ALIGN, Buffer, Pool};
use crate::memory::{PART_MIN, REQUEST};
use crate::ring::{Message, Ring, Token};
use crate::seats::Seat;
use crate::tls::Channel;

mod incoming;
mod outgoing;
mod parting;
mod pending;
mod status;
mod tls;

use incoming::Incoming;
pub use outgoing::Flushed;
use outgoing::Outgoing;
pub use parting::Parted;
use pending::{Asked, Pending};
pub use status::{Described, Meaning, buffer as status_buffer, extents_max};
use tls::Secured;

/// Parts of one connection's requests alive at once, and replies gathered for it: two cycles of
/// 8 MB/s for 4 s in requests of 128 KiB, one that is served and one that waits. At most what one
/// message takes, because every part alive may be answered in one.
pub const REQUESTS_MAX: u32 = 512;
/// The longest read or write in bytes; advertised, and what clients that don't ask assume.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// The longest part of a request without data: the engine's longest request is 4 GiB.
const BARE_PART_MAX: u64 = 1 << 30;

const _: () = assert!(REQUESTS_MAX as usize <= crate::ring::PARTS_MAX);

/// A request that is being issued.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// The request.
    asked: Asked,
    /// Bytes of it that were issued.
    issued: u64,
    /// Its key among those that are not answered, once a part of it was issued.
    request: Option<u32>,
    /// It has the connection for itself until it is answered.
    alone: bool,
}

/// A part of a request, which may be all of it, for a shard to do.
#[derive(Debug)]
pub struct Part {
    /// The operation.
    pub work: Work,
    /// On the first part: the range of the whole request.
    pub begins: Option<Range<u64>>,
}

/// Where a part lies, and what it takes of its connection's memory.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// First byte on the virtual disk.
    offset: u64,
    /// Length in bytes; 0 where there is no range.
    bytes: u64,
    memory: usize,
}

impl Extent {
    /// Data, which have a buffer.
    fn of(offset: u64, bytes: u64) -> Self {
        let place = place(offset, bytes);
        Self { offset, bytes, memory: REQUEST + Pool::bytes_of(place.end) }
    }
}

/// A client whose handshake is over.
pub struct Accepted {
    /// Its socket.
    pub socket: OwnedFd,
    /// The session that was negotiated.
    pub session: Session,
    /// Its place on the virtual disk.
    pub seat: Seat,
    /// Bytes that it has sent since, out of TLS if it has that.
    pub unread: Vec<u8>,
    /// How many of the next bytes are data of a write that was refused.
    pub skip: usize,
    /// Its TLS.
    pub tls: Option<Box<Channel>>,
}

/// A client's requests between their headers and their replies.
#[derive(Default)]
struct Requests {
    /// The request that is being issued; those behind it wait.
    cut: Option<Cut>,
    /// Requests of which parts were issued and that are not answered.
    pending: Slab<Pending>,
    /// Parts that have not been answered.
    parts: u32,
}

/// A client.
pub struct Connection {
    fd: OwnedFd,
    /// Its virtual disk, by place on the device.
    pub vdisk: u32,
    session: Session,
    seat: Seat,
    /// Whether it goes on.
    pub state: State,
    incoming: Incoming,
    requests: Requests,
    /// A write whose data are not complete: its operation and how many have come.
    pub writing: Option<(u32, usize)>,
    outgoing: Outgoing,
    /// It is among those that are to be served.
    pub touched: bool,
    /// When bytes last came or went.
    pub moved_at: Instant,
    tls: Option<Box<Secured>>,
}

impl Connection {
    /// A connection whose handshake is over, with the bytes that came after it.
    pub fn new(client: Accepted, vdisk: u32, pool: &mut Pool, now: Instant) -> Self {
        let Accepted { socket, session, seat, unread, skip, tls } = client;
        let header_bytes = match session.style {
            ReplyStyle::Extended => EXTENDED_REQUEST_BYTES,
            ReplyStyle::Simple | ReplyStyle::Structured => REQUEST_BYTES,
        };
        let mut incoming = Incoming::new(header_bytes, &unread, pool);
        incoming.skip(skip);
        Self {
            fd: socket,
            vdisk,
            session,
            seat,
            state: State::Open,
            incoming,
            requests: Requests::default(),
            writing: None,
            outgoing: Outgoing::default(),
            touched: false,
            moved_at: now,
            tls: tls.map(|channel| Secured::new(*channel)),
        }
    }

    /// Whether it is closing and everything has been answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.state == State::Closing && self.is_quiet()
    }

    /// Whether nothing that it asked for is under way, and no reply.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        !self.is_sending() && self.requests.parts == 0 && self.outgoing.is_empty()
    }

    fn is_sending(&self) -> bool {
        self.outgoing.is_sending() || self.tls.as_ref().is_some_and(|tls| tls.is_sealing())
    }

    /// Whether it can only wait: a part is at the device or queued for it, and neither a write's data
    /// nor the client's reading is missing.
    #[must_use]
    pub fn waits_for_device(&self) -> bool {
        self.requests.parts > 0 && self.writing.is_none() && !self.is_sending()
    }

    /// Whether nothing of it is left, neither here nor in the ring.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let in_ring = self.incoming.is_in_ring() || self.outgoing.is_in_ring();
        !in_ring && self.requests.parts == 0 && self.state == State::Dead
    }

    /// Whether the client is gone: nothing can be answered.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state == State::Dead
    }

    /// Takes no more requests; those taken are finished and answered.
    pub fn close(&mut self) {
        if matches!(self.state, State::Open | State::Parting) {
            self.state = State::Closing;
        }
    }

    /// Whether the next request of the input may be taken: all of the last one was issued.
    #[must_use]
    pub fn is_issued(&self) -> bool {
        self.requests.cut.is_none() && self.writing.is_none()
    }

    /// Whether no more parts come of the request of which the last part came.
    #[must_use]
    pub fn has_issued_all(&self) -> bool {
        self.requests.cut.is_none_or(|cut| cut.issued == cut.asked.checked.length)
    }

    /// The next thing in the input. A request becomes the one that is being issued, unless its answer needs
    /// no device.
    pub fn next_input(&mut self) -> Input {
        let Some(header) = self.next_header() else { return Input::Nothing };
        let Ok(header) = header else { return Input::Violation };
        match self.session.check(&header, REQUEST_BYTES_MAX) {
            Ok(checked) => self.accept(Asked { checked, command: header.command }),
            Err(Reject::Close) => Input::Violation,
            Err(Reject::Reply { error, message, payload_bytes }) => {
                self.incoming.header_taken();
                self.incoming.skip(payload_bytes as usize);
                let RequestHeader { cookie, offset, .. } = header;
                let to = ReplyTo { style: self.session.style, cookie, offset };
                self.outgoing.push(&to.error(error, message), None, 0);
                Input::Answered
            }
        }
    }

    /// The header at the front of the input, if one is there and may be acted on.
    fn next_header(&mut self) -> Option<Result<RequestHeader, ProtocolError>> {
        if self.state != State::Open || !self.is_issued() {
            return None;
        }
        let bytes = self.incoming.header()?;
        if self.is_full() {
            return None;
        }
        if self.session.style == ReplyStyle::Extended {
            return Some(RequestHeader::parse_extended(&bytes));
        }
        bytes.first_chunk::<REQUEST_BYTES>().map(RequestHeader::parse)
    }

    fn is_full(&self) -> bool {
        self.requests.parts as usize + self.outgoing.len() >= REQUESTS_MAX as usize
    }

    fn accept(&mut self, asked: Asked) -> Input {
        self.incoming.header_taken();
        if asked.checked.operation == Operation::Disconnect {
            return Input::Disconnect;
        }
        if asked.work().is_none() {
            self.reply(&asked, 0, Ok(None));
            return Input::Answered;
        }
        self.requests.cut = Some(Cut { asked, issued: 0, request: None, alone: false });
        Input::Request
    }

    /// The next part of the request that is being issued, by the client of that key: of at most
    /// `part_max` bytes if the request has data, and as long as the connection's memory allows, which
    /// the part takes. `None` if it must wait, or if all [is issued](Self::is_issued).
    pub fn next_part(&mut self, client: u32, part_max: u32) -> Option<Part> {
        let cut = self.requests.cut?;
        let Some(extent) = self.next_extent(part_max) else {
            self.make_room();
            return None;
        };
        let (op, fua) = cut.asked.work().expect("a request without work was answered at once");
        let cut =
            self.requests.cut.as_mut().expect("a request that has a next part is being issued");
        let request = cut.request.unwrap_or_else(|| {
            let request = self.requests.pending.insert(Pending::new(cut, extent.bytes));
            u32::try_from(request).expect("requests alive are few")
        });
        self.requests.pending[request as usize].issue(extent.bytes);
        let checked = cut.asked.checked;
        let first = cut.issued == 0;
        (cut.issued, cut.request) = (cut.issued + extent.bytes, Some(request));
        if cut.issued == checked.length && !cut.alone {
            self.requests.cut = None;
        }
        let ticket = Ticket { request, memory: extent.memory };
        let (origin, range) =
            (Origin::Client { client, ticket }, span(extent.offset, extent.bytes));
        let begins = first.then(|| span(checked.offset, checked.length));
        Some(Part { work: Work { origin, op, range, fua }, begins })
    }

    /// Where the next part lies; `None` if it must wait, or if all is issued.
    fn next_extent(&mut self, part_max: u32) -> Option<Extent> {
        let Cut { asked, issued, alone, .. } = self.requests.cut?;
        let Checked { offset, length, .. } = asked.checked;
        let all = length > 0 && issued == length;
        if all || self.is_full() || self.writing.is_some() {
            return None;
        }
        if matches!(asked.checked.operation, Operation::BlockStatus { .. }) {
            return self.hold(Extent { offset, bytes: length, memory: status::MEMORY });
        }
        let (offset, rest) = (offset + issued, length - issued);
        if !asked.has_data() {
            let bytes = rest.min(BARE_PART_MAX);
            return self.hold(Extent { offset, bytes, memory: REQUEST });
        }
        // A read of several parts that one header leads needs the connection for itself.
        let whole = asked.reads_whole(self.session.style) && !alone;
        let quiet = self.is_quiet();
        let mut bytes = rest.min(u64::from(part_max));
        loop {
            // Parts end on blocks, so that the next one begins on one.
            let cut = bytes < rest;
            let over = (offset + bytes) % ALIGN as u64;
            let extent = Extent::of(offset, if cut { bytes - over } else { bytes });
            let becomes_alone = whole && extent.bytes < length;
            if becomes_alone && !quiet {
                return None;
            }
            if let Some(extent) = self.hold(extent) {
                self.requests.cut.as_mut()?.alone |= becomes_alone;
                return Some(extent);
            }
            if bytes <= PART_MIN as u64 {
                return None;
            }
            bytes = (bytes / 2).max(PART_MIN as u64);
        }
    }

    /// Takes memory for a part that becomes alive.
    fn hold(&mut self, extent: Extent) -> Option<Extent> {
        let may = self.seat.account.take(extent.memory);
        may.then(|| {
            self.requests.parts += 1;
            extent
        })
    }

    /// Moves what has come of a write's data into its buffer at `at`; answers how much.
    pub fn take_payload(&mut self, to: &Buffer, at: usize, wanted: usize) -> usize {
        self.incoming.take(to, at, wanted)
    }

    /// Reads more of the rest of a write's data straight into its buffer: at most so many bytes.
    pub fn receive_payload(
        &mut self,
        key: u32,
        ring: &mut Ring,
        pool: &mut Pool,
        (to, range): (&Buffer, &Range<usize>),
        most: usize,
    ) -> usize {
        if self.state == State::Dead {
            return 0;
        }
        if self.tls.is_some() {
            return self.incoming.receive_wire(
                Token::Receive(key),
                ring,
                self.fd.as_raw_fd(),
                pool,
            );
        }
        self.incoming.receive_into(Token::Receive(key), ring, self.fd.as_raw_fd(), to, range, most)
    }

    /// Reads more input, if there is room to act on it: at most so many bytes.
    pub fn receive(&mut self, key: u32, ring: &mut Ring, pool: &mut Pool) -> usize {
        if self.state != State::Open || !self.is_issued() {
            return 0;
        }
        let (token, fd) = (Token::Receive(key), self.fd.as_raw_fd());
        match self.tls {
            Some(_) if self.incoming.wants() => self.incoming.receive_wire(token, ring, fd, pool),
            Some(_) => 0,
            None => self.incoming.receive(token, ring, fd, pool),
        }
    }

    /// A receive is over: its buffer and how many bytes came. Answers how many bytes came, and how
    /// many of them are a write's data; `None` if the client is gone.
    pub fn received(&mut self, buffer: Buffer, result: i32) -> Option<(usize, usize)> {
        let came = match &mut self.tls {
            Some(tls) => self.incoming.received_wire(tls, &self.fd, &buffer, result),
            None => self.incoming.received(buffer, result),
        };
        // Given up by this side.
        if result == -libc::ECANCELED {
            return Some((0, 0));
        }
        // Input is received once all requests before it are issued: each has a reply to come.
        let ended = result == 0 && self.tls.as_ref().is_none_or(|tls| tls.client_ended);
        if ended && self.writing.is_none() && self.may_hear() {
            self.close();
            return Some((0, 0));
        }
        came
    }

    /// Whether the client, which sends no more, may still read: over TCP its first reply finds out.
    fn may_hear(&self) -> bool {
        let mut polled = [PollFd::new(&self.fd, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).is_ok_and(|hung_up| hung_up == 0)
    }

    /// Sends more of the gathered replies, unless some are being sent.
    pub fn flush(&mut self, key: u32, ring: &mut Ring, most: usize) -> Flushed {
        if self.state == State::Dead {
            return Flushed::default();
        }
        let (token, fd) = (Token::Send(key), self.fd.as_raw_fd());
        let (flushed, memory) = match &mut self.tls {
            Some(tls) => {
                let (begun, memory) = self.outgoing.flush_sealed(tls, token, ring, fd, most);
                (Flushed { sent: 0, begun }, memory)
            }
            None => self.outgoing.flush(token, ring, fd, most),
        };
        self.seat.account.give(memory);
        flushed
    }

    /// Whether there is more to send, which waits for another turn alone.
    #[must_use]
    pub fn goes_on_sending(&self) -> bool {
        self.tls.is_none() && self.state != State::Dead && self.outgoing.goes_on()
    }

    /// Whether input has come that is not acted on yet: a request that waits for room, or for others.
    #[must_use]
    pub fn has_input(&self) -> bool {
        self.requests.cut.is_some() || !self.incoming.wants()
    }

    /// A send is over. Answers whether the client is still there.
    pub fn sent(&mut self, message: Box<Message>, result: i32) -> bool {
        let (memory, there) = match &mut self.tls {
            Some(tls) => self.outgoing.sent_sealed(tls, message, result),
            None => self.outgoing.sent(message, result),
        };
        self.seat.account.give(memory);
        there
    }

    /// Ends both directions, so that what the ring has of the socket comes back.
    pub fn shut(&mut self) {
        let quiet = self.is_quiet();
        if let Some(tls) = self.tls.as_mut().filter(|_| quiet) {
            tls.say_goodbye(&self.fd);
        }
        self.state = State::Dead;
        self.writing = None;
        let _it_is_dead = self.cut_short(BlockError::GivenUp);
        if let Err(error) = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both) {
            tracing::trace!(%error, "the peer was gone already");
        }
    }
}

fn span(offset: u64, bytes: u64) -> Range<u64> {
    offset..offset + bytes
}
