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
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use disktime_core::Instant;
use disktime_nbd::reply::{ReplyStyle, ReplyTo};
use disktime_nbd::{
    Checked, EXTENDED_REQUEST_BYTES, Operation, ProtocolError, REQUEST_BYTES, Reject,
    RequestHeader, Session,
};
use slab::Slab;

use super::request::{BlockError, Input, Origin, State, Ticket, Work, place};
use crate::buffers::{ALIGN, Buffer, Pool};
use crate::memory::{INPUT, PART_MIN, REQUEST};
use crate::ring::{COPY_MAX, Message, Ring, Token};
use crate::seats::Seat;
use crate::tls::Channel;

mod pending;
mod status;
mod tls;

use pending::{Asked, Pending};
pub use status::buffer as status_buffer;
use tls::Secured;

/// Parts of one connection's requests alive at once, and replies gathered for it: two cycles of
/// 8 MB/s for 4 s in requests of 128 KiB, one that is served and one that waits. At most what one
/// message takes, because every part alive may be answered in one.
pub const REQUESTS_MAX: u32 = 512;
/// The longest read or write in bytes; advertised, and what clients that don't ask assume.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// The longest part of a request without data: the engine's longest request is 4 GiB.
const BARE_PART_MAX: u64 = 1 << 30;
/// Input read at once while little comes, in bytes.
const INPUT_FIRST: usize = ALIGN;

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
    /// Its TLS.
    pub tls: Option<Box<Channel>>,
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
    /// The input buffer; `None` while the ring reads into it.
    input: Option<Buffer>,
    filled: Range<usize>,
    /// Input to be read at once next time, in bytes.
    input_bytes: usize,
    receiving: bool,
    /// Data of a refused write, still to be skipped.
    skip: usize,
    /// The request that is being issued; those behind it wait.
    cut: Option<Cut>,
    /// Requests of which parts were issued and that are not answered.
    pending: Slab<Pending>,
    /// A write whose data are not complete: its operation and how many have come.
    pub writing: Option<(u32, usize)>,
    replies: Box<Message>,
    spare: Option<Box<Message>>,
    /// Replies of which the ring has sent a part.
    unsent: Option<Box<Message>>,
    /// The ring has replies to send.
    sending: bool,
    /// Parts that have not been answered.
    requests: u32,
    /// It is among those that are to be served.
    pub touched: bool,
    /// When bytes last came or went.
    pub moved_at: Instant,
    tls: Option<Box<Secured>>,
}

impl Connection {
    /// A connection whose handshake is over, with the bytes that came after it.
    pub fn new(client: Accepted, vdisk: u32, pool: &mut Pool, now: Instant) -> Self {
        let Accepted { socket, session, seat, unread, tls } = client;
        let input = pool.take(INPUT_FIRST.max(unread.len()));
        input.put(0, &unread);
        Self {
            fd: socket,
            vdisk,
            session,
            seat,
            state: State::Open,
            input: Some(input),
            filled: 0..unread.len(),
            input_bytes: INPUT_FIRST,
            receiving: false,
            skip: 0,
            cut: None,
            pending: Slab::new(),
            writing: None,
            replies: Box::default(),
            spare: None,
            unsent: None,
            sending: false,
            requests: 0,
            touched: false,
            moved_at: now,
            tls: tls.map(|channel| Secured::new(*channel)),
        }
    }

    fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Whether it is closing and everything has been answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.state == State::Closing && self.is_quiet()
    }

    /// Whether nothing that it asked for is under way, and no reply.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        !self.is_sending() && self.requests == 0 && self.replies.is_empty()
    }

    fn is_sending(&self) -> bool {
        self.sending
            || self.unsent.is_some()
            || self.tls.as_ref().is_some_and(|tls| tls.is_sealing())
    }

    /// Whether it can only wait: a part is at the device or queued for it, and neither a write's data
    /// nor the client's reading is missing.
    #[must_use]
    pub fn waits_for_device(&self) -> bool {
        self.requests > 0 && self.writing.is_none() && !self.is_sending()
    }

    /// Whether nothing of it is left, neither here nor in the ring.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let quiet = !self.receiving && !self.sending && self.requests == 0;
        quiet && self.state == State::Dead
    }

    /// Whether the client is gone: nothing can be answered.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state == State::Dead
    }

    /// Takes no more requests; those taken are finished and answered.
    pub fn close(&mut self) {
        if self.state == State::Open {
            self.state = State::Closing;
        }
    }

    /// Whether the next request of the input may be taken: all of the last one was issued.
    #[must_use]
    pub fn is_issued(&self) -> bool {
        self.cut.is_none() && self.writing.is_none()
    }

    /// The next thing in the input. A request becomes the one that is being issued.
    pub fn next_input(&mut self) -> Input {
        loop {
            let Some(header) = self.next_header() else { return Input::Nothing };
            let Ok(header) = header else { return Input::Violation };
            match self.session.check(&header, REQUEST_BYTES_MAX) {
                Ok(checked) => return self.accept(Asked { checked, command: header.command }),
                Err(Reject::Close) => return Input::Violation,
                Err(Reject::Reply { error, message, payload_bytes }) => {
                    self.filled.start += self.header_bytes();
                    self.skip = payload_bytes as usize;
                    let RequestHeader { cookie, offset, .. } = header;
                    let to = ReplyTo { style: self.session.style, cookie, offset };
                    self.replies.push(&to.error(error, message), None);
                }
            }
        }
    }

    /// The header at the front of the input, if one is there and may be acted on.
    fn next_header(&mut self) -> Option<Result<RequestHeader, ProtocolError>> {
        let input = self.input.as_ref()?;
        if self.state != State::Open || self.cut.is_some() || self.writing.is_some() {
            return None;
        }
        let skipped = self.skip.min(self.filled.len());
        self.skip -= skipped;
        self.filled.start += skipped;
        if self.skip > 0 || self.filled.len() < self.header_bytes() || self.is_full() {
            return None;
        }
        if self.session.style == ReplyStyle::Extended {
            let mut bytes = [0; EXTENDED_REQUEST_BYTES];
            input.get(self.filled.start, &mut bytes);
            return Some(RequestHeader::parse_extended(&bytes));
        }
        let mut bytes = [0; REQUEST_BYTES];
        input.get(self.filled.start, &mut bytes);
        Some(RequestHeader::parse(&bytes))
    }

    /// Length of a request's header in this session.
    fn header_bytes(&self) -> usize {
        match self.session.style {
            ReplyStyle::Extended => EXTENDED_REQUEST_BYTES,
            ReplyStyle::Simple | ReplyStyle::Structured => REQUEST_BYTES,
        }
    }

    fn is_full(&self) -> bool {
        self.requests as usize + self.replies.len() >= REQUESTS_MAX as usize
    }

    fn accept(&mut self, asked: Asked) -> Input {
        self.filled.start += self.header_bytes();
        if asked.checked.operation == Operation::Disconnect {
            return Input::Disconnect;
        }
        self.cut = Some(Cut { asked, issued: 0, request: None, alone: false });
        Input::Request
    }

    /// The next part of the request that is being issued, by the client of that key: of at most
    /// `part_max` bytes if the request has data, and as long as the connection's memory allows, which
    /// the part takes. `None` if it must wait, or if all [is issued](Self::is_issued).
    pub fn next_part(&mut self, client: u32, part_max: u32) -> Option<Part> {
        let cut = self.cut?;
        let Some(extent) = self.next_extent(part_max) else {
            self.make_room();
            return None;
        };
        let Some((op, fua)) = cut.asked.work() else {
            self.cut = None;
            self.requests -= 1;
            self.reply(&cut.asked, extent.memory, Ok(None));
            return None;
        };
        let cut = self.cut.as_mut().expect("a request that has a next part is being issued");
        let request = cut.request.unwrap_or_else(|| {
            let request = self.pending.insert(Pending::new(cut, extent.bytes));
            u32::try_from(request).expect("requests alive are few")
        });
        self.pending[request as usize].issue(extent.bytes);
        let checked = cut.asked.checked;
        let first = cut.issued == 0;
        (cut.issued, cut.request) = (cut.issued + extent.bytes, Some(request));
        if cut.issued == checked.length && !cut.alone {
            self.cut = None;
        }
        let ticket = Ticket { request, memory: extent.memory };
        let (origin, range) =
            (Origin::Client { client, ticket }, span(extent.offset, extent.bytes));
        let begins = first.then(|| span(checked.offset, checked.length));
        Some(Part { work: Work { origin, op, range, fua }, begins })
    }

    /// Where the next part lies; `None` if it must wait, or if all is issued.
    fn next_extent(&mut self, part_max: u32) -> Option<Extent> {
        let Cut { asked, issued, alone, .. } = self.cut?;
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
        let part_max = u64::from(part_max);
        let several = length > part_max;
        if several && asked.reads_whole(self.session.style) && !alone {
            if !self.is_quiet() {
                return None;
            }
            self.cut.as_mut()?.alone = true;
        }
        let mut bytes = rest.min(part_max);
        loop {
            // Parts end on blocks, so that the next one begins on one.
            let cut = bytes < rest;
            let over = (offset + bytes) % ALIGN as u64;
            let extent = Extent::of(offset, if cut { bytes - over } else { bytes });
            if let Some(extent) = self.hold(extent) {
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
            self.requests += 1;
            extent
        })
    }

    /// Moves what has come of a write's data into its buffer at `at`; answers how much.
    pub fn take_payload(&mut self, to: &Buffer, at: usize, wanted: usize) -> usize {
        let Some(input) = &self.input else { return 0 };
        let count = wanted.min(self.filled.len());
        to.put_from(at, input, &(self.filled.start..self.filled.start + count));
        self.filled.start += count;
        count
    }

    /// Reads more of the rest of a write's data straight into its buffer: at most so many bytes.
    pub fn receive_payload(
        &mut self,
        key: u32,
        ring: &mut Ring,
        pool: &mut Pool,
        (to, range): (&Buffer, &Range<usize>),
    ) -> usize {
        if self.tls.is_some() {
            return self.receive_wire(key, ring, pool);
        }
        if self.receiving || self.state != State::Open {
            return 0;
        }
        self.receiving = true;
        let range = range.start..range.end.min(range.start + COPY_MAX);
        ring.receive(Token::Receive(key), self.raw(), to.clone(), &range, true);
        range.len()
    }

    /// Reads more input, if there is room to act on it: at most so many bytes.
    pub fn receive(&mut self, key: u32, ring: &mut Ring, pool: &mut Pool) -> usize {
        let wants = self.skip > 0 || self.filled.len() < self.header_bytes();
        let busy = self.writing.is_some() || self.cut.is_some();
        if self.receiving || self.state != State::Open || busy || !wants {
            return 0;
        }
        if self.tls.is_some() {
            return self.receive_wire(key, ring, pool);
        }
        let Some(mut input) = self.input.take() else { return 0 };
        let len = self.filled.len();
        let mut rest = [0; EXTENDED_REQUEST_BYTES];
        input.get(self.filled.start, &mut rest[..len]);
        if input.len() != self.input_bytes {
            input = pool.take(self.input_bytes);
        }
        input.put(0, &rest[..len]);
        self.filled = 0..len;
        self.receiving = true;
        let range = len..input.len();
        ring.receive(Token::Receive(key), self.raw(), input, &range, false);
        range.len()
    }

    /// A receive is over: its buffer and how many bytes came. Answers how many bytes came, and how
    /// many of them are a write's data; `None` if the client is gone.
    pub fn received(&mut self, buffer: Buffer, result: i32) -> Option<(usize, usize)> {
        self.receiving = false;
        if self.tls.is_some() {
            return self.received_wire(&buffer, result);
        }
        let count = usize::try_from(result).ok().filter(|count| *count > 0);
        if self.input.is_some() {
            return count.map(|count| (count, count));
        }
        let room = buffer.len();
        self.input = Some(buffer);
        self.filled.end += count.unwrap_or(0);
        // A client that fills a buffer gets a larger one, one that needs little of it a smaller.
        if self.filled.end == room {
            self.input_bytes = INPUT;
        } else if self.filled.end < room / 8 {
            self.input_bytes = INPUT_FIRST;
        }
        count.map(|count| (count, 0))
    }

    /// Sends more of the gathered replies, unless some are being sent: so many bytes.
    pub fn flush(&mut self, key: u32, ring: &mut Ring) -> usize {
        if self.sending || self.state == State::Dead {
            return 0;
        }
        let message = self.unsent.take().or_else(|| {
            if self.tls.is_some() {
                return self.next_sealed();
            }
            let mut next = || self.spare.take().unwrap_or_default();
            (!self.replies.is_empty()).then(|| std::mem::replace(&mut self.replies, next()))
        });
        self.sending = message.is_some();
        message.map_or(0, |message| ring.send(Token::Send(key), self.raw(), message))
    }

    /// A send is over. Answers whether the client is still there.
    pub fn sent(&mut self, mut message: Box<Message>, result: i32) -> bool {
        self.sending = false;
        let count = usize::try_from(result).ok().filter(|count| *count > 0);
        if count.is_some_and(|count| !message.sent(count)) {
            self.unsent = Some(message);
            return true;
        }
        if self.tls.is_some() {
            self.sent_sealed(message);
            return count.is_some();
        }
        for (buffer, _) in message.clear() {
            self.seat.account.give(REQUEST + buffer.len());
        }
        self.spare = Some(message).filter(|message| message.is_small());
        count.is_some()
    }

    /// Ends both directions, so that what the ring has of the socket comes back.
    pub fn shut(&mut self) {
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
