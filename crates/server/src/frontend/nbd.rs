//! One NBD connection in its transmission phase: bytes in, requests out in parts, replies gathered.
//!
//! A request with data is issued in parts, each as long as the connection's memory allows, so that no
//! client's wish decides how much memory there is. Most requests are one part. A read of several is
//! answered in as many chunks; a client without structured replies gets one reply, and has nothing else
//! under way meanwhile ([`Cut::alone`]).
//!
//! Does not know: the engine, the device. It only keeps a client within its bounds: parts alive,
//! memory held, replies not yet read. At a bound it stops reading, so a client that sends too much or
//! reads too little waits for itself and for nobody else.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use disktime_core::Instant;
use disktime_nbd::reply::{Chunk, ReplyStyle};
use disktime_nbd::{
    Checked, Command, NbdError, Operation, ProtocolError, REQUEST_BYTES, Reject, RequestHeader,
    Session, reply,
};

use crate::buffers::{ALIGN, Buffer, Pool};
use crate::memory::{INPUT, PART_MIN, REQUEST};
use crate::ring::{COPY_MAX, Message, Payload, Ring, Token};
use crate::seats::Seat;

/// Parts of one connection's requests alive at once, and replies gathered for it: two cycles of
/// 8 MB/s for 4 s in requests of 128 KiB, one that is served and one that waits. At most what one
/// message takes, because every part alive may be answered in one.
pub const REQUESTS_MAX: u32 = 512;
/// The longest read or write in bytes; advertised, and what clients that don't ask assume.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// Input read at once while little comes, in bytes.
const INPUT_FIRST: usize = ALIGN;

const _: () = assert!(REQUESTS_MAX as usize <= crate::ring::PARTS_MAX);

/// Whether more requests are wanted from the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Yes.
    Open,
    /// No; what it asked for is finished, answered, and then it is closed.
    Closing,
    /// It is gone: nothing can be answered.
    Dead,
}

/// A request as it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// What is to be done.
    pub checked: Checked,
    /// The command on the wire, which decides the form of the reply.
    pub command: Command,
}

impl Asked {
    /// Whether it comes with data, or is answered with some.
    #[must_use]
    pub fn has_data(&self) -> bool {
        matches!(self.checked.operation, Operation::Read { .. } | Operation::Write { .. })
    }

    fn reads(&self) -> bool {
        matches!(self.checked.operation, Operation::Read { .. })
    }
}

/// A request that is being issued.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// What was asked.
    pub asked: Asked,
    /// Bytes of it that were issued.
    pub issued: u32,
    /// Where its parts come together again, once there is more than one.
    pub whole: Option<u32>,
    /// It has the connection for itself until it is answered.
    pub alone: bool,
}

/// A part of a request, which may be all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// First byte on the virtual disk.
    pub offset: u64,
    /// Length in bytes; 0 where there is no range.
    pub bytes: u32,
    /// What it takes of the connection's memory.
    pub memory: usize,
}

impl Part {
    /// Where its data are in their buffer: as far into the first block as on the virtual disk.
    #[must_use]
    pub fn place(offset: u64, bytes: u32) -> Range<usize> {
        let start = usize::try_from(offset % ALIGN as u64).expect("below a block");
        start..start + bytes as usize
    }

    fn of(offset: u64, bytes: u32) -> Self {
        let place = Self::place(offset, bytes);
        Self { offset, bytes, memory: REQUEST + Pool::bytes_of(place.end) }
    }
}

/// How a request ended: with data, without, or with an error and a word of explanation.
pub type Answer<'a> = Result<Option<Payload>, (NbdError, &'a str)>;

/// What the input holds.
#[derive(Debug)]
pub enum Input {
    /// A request, which is to be issued.
    Request,
    /// Nothing to do now: more bytes, or room, must come first.
    Nothing,
    /// The client wants to go.
    Disconnect,
    /// The client broke the protocol beyond an answer.
    Violation,
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
    pub cut: Option<Cut>,
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
}

impl Connection {
    /// A connection whose handshake is over, with the bytes that came after it.
    pub fn new(
        (fd, session, seat): (OwnedFd, Session, Seat),
        vdisk: u32,
        unread: &[u8],
        pool: &mut Pool,
        now: Instant,
    ) -> Self {
        let input = pool.take(INPUT_FIRST.max(unread.len()));
        input.put(0, unread);
        Self {
            fd,
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
            writing: None,
            replies: Box::default(),
            spare: None,
            unsent: None,
            sending: false,
            requests: 0,
            touched: false,
            moved_at: now,
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
        self.sending || self.unsent.is_some()
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

    /// The next thing in the input. A request becomes the one that is being [cut](Self::cut).
    pub fn next_input(&mut self) -> Input {
        loop {
            let Some(header) = self.next_header() else { return Input::Nothing };
            let Ok(header) = header else { return Input::Violation };
            match header.validate(&self.session.export, REQUEST_BYTES_MAX) {
                Ok(checked) => return self.accept(Asked { checked, command: header.command }),
                Err(Reject::Close) => return Input::Violation,
                Err(Reject::Reply { error, message, payload_bytes }) => {
                    self.filled.start += REQUEST_BYTES;
                    self.skip = payload_bytes as usize;
                    let reply = reply::error(self.session.style, header.cookie, error, message);
                    self.replies.push(&reply, None);
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
        if self.skip > 0 || self.filled.len() < REQUEST_BYTES || self.is_full() {
            return None;
        }
        let mut bytes = [0; REQUEST_BYTES];
        input.get(self.filled.start, &mut bytes);
        Some(RequestHeader::parse(&bytes))
    }

    fn is_full(&self) -> bool {
        self.requests as usize + self.replies.len() >= REQUESTS_MAX as usize
    }

    fn accept(&mut self, asked: Asked) -> Input {
        self.filled.start += REQUEST_BYTES;
        if asked.checked.operation == Operation::Disconnect {
            return Input::Disconnect;
        }
        self.cut = Some(Cut { asked, issued: 0, whole: None, alone: false });
        Input::Request
    }

    /// The next part of the request that is being cut, of at most `part_max` bytes if it has data: as
    /// long as the connection's memory allows, which it takes. `None` if it must wait, or if all is
    /// issued.
    pub fn next_part(&mut self, part_max: u32) -> Option<Part> {
        let Cut { asked, issued, alone, .. } = self.cut?;
        let Checked { offset, length, .. } = asked.checked;
        let all = length > 0 && issued == length;
        if all || self.is_full() || self.writing.is_some() {
            return None;
        }
        if !asked.has_data() {
            let part = Part { offset, bytes: length, memory: REQUEST };
            return self.hold(part);
        }
        let several = length > part_max;
        if several && asked.reads() && self.session.style == ReplyStyle::Simple && !alone {
            if !self.is_quiet() {
                return None;
            }
            self.cut.as_mut()?.alone = true;
        }
        let (offset, rest) = (offset + u64::from(issued), length - issued);
        let mut bytes = rest.min(part_max);
        loop {
            // Parts end on blocks, so that the next one begins on one.
            let cut = bytes < rest;
            let over = u32::try_from((offset + u64::from(bytes)) % ALIGN as u64).expect("a block");
            let part = Part::of(offset, if cut { bytes - over } else { bytes });
            if let Some(part) = self.hold(part) {
                return Some(part);
            }
            if bytes as usize <= PART_MIN {
                return None;
            }
            bytes = (bytes / 2).max(u32::try_from(PART_MIN).expect("a short part"));
        }
    }

    /// A read that has the connection for itself and can't go on before some of what it has is sent.
    #[must_use]
    pub fn waits_for_memory(&self) -> Option<u32> {
        let alone = self.cut.filter(|cut| cut.alone && cut.issued < cut.asked.checked.length);
        alone.filter(|_| self.requests == 0)?.whole
    }

    /// Takes memory for a part that becomes alive.
    fn hold(&mut self, part: Part) -> Option<Part> {
        let may = self.seat.account.take(part.memory);
        may.then(|| {
            self.requests += 1;
            part
        })
    }

    /// Notes that a part was issued.
    pub fn issued(&mut self, part: &Part, whole: Option<u32>) {
        let Some(cut) = &mut self.cut else { return };
        (cut.issued, cut.whole) = (cut.issued + part.bytes, whole);
        if cut.issued == cut.asked.checked.length && !cut.alone {
            self.cut = None;
        }
    }

    /// A read that had the connection for itself is answered.
    pub fn end_alone(&mut self) {
        self.cut.take_if(|cut| cut.alone && cut.issued == cut.asked.checked.length);
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
        to: &Buffer,
        range: &Range<usize>,
    ) -> usize {
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
        let wants = self.skip > 0 || self.filled.len() < REQUEST_BYTES;
        let busy = self.writing.is_some() || self.cut.is_some();
        if self.receiving || self.state != State::Open || busy || !wants {
            return 0;
        }
        let Some(mut input) = self.input.take() else { return 0 };
        let len = self.filled.len();
        let mut rest = [0; REQUEST_BYTES];
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

    /// Whether its replies are chunks.
    #[must_use]
    pub fn is_structured(&self) -> bool {
        self.session.style == ReplyStyle::Structured
    }

    /// A part that is all of its request is over: a reply gathers, which goes out with the next
    /// [`flush`](Self::flush). Data that are part of it keep the part's memory until they are sent.
    pub fn reply(&mut self, asked: &Asked, memory: usize, answer: Answer<'_>) {
        let (style, cookie) = (self.session.style, asked.checked.cookie);
        let data = matches!(answer, Ok(Some(_)));
        self.requests -= 1;
        if !data {
            self.seat.account.give(memory);
        }
        match answer {
            Ok(Some(data)) => {
                let Checked { offset, length, .. } = asked.checked;
                let header = reply::read_ok_header(style, cookie, offset, length);
                self.replies.push(&header, Some(data));
            }
            Ok(None) => self.replies.push(&reply::done(style, asked.command, cookie), None),
            Err((error, message)) => self.refuse(asked, error, message),
        }
    }

    /// A part is over and nothing is said of it, nor ever will be.
    pub fn forget(&mut self, memory: usize) {
        self.requests -= 1;
        self.seat.account.give(memory);
    }

    /// A part is over; its data wait for those before them.
    pub fn keep(&mut self) {
        self.requests -= 1;
    }

    /// The data of a part of a read, as a chunk, or the next of a simple reply: with its header if
    /// they are the first.
    pub fn data(&mut self, asked: &Asked, offset: u64, data: Payload, ends: [bool; 2]) {
        let [first, last] = ends;
        let Checked { cookie, offset: start, length, .. } = asked.checked;
        let bytes = u32::try_from(data.1.len()).expect("a part is at most 1 MiB");
        if self.is_structured() {
            let chunk = if last { Chunk::Last } else { Chunk::More };
            self.replies.push(&reply::data_chunk_header(chunk, cookie, offset, bytes), Some(data));
        } else if first {
            let header = reply::read_ok_header(ReplyStyle::Simple, cookie, start, length);
            self.replies.push(&header, Some(data));
        } else {
            self.replies.push(&[], Some(data));
        }
    }

    /// Data that were kept will not be sent.
    pub fn discard(&mut self, data: &Payload) {
        self.seat.account.give(REQUEST + data.0.len());
    }

    /// The last word on a request of several parts that did not end with data.
    pub fn finish(&mut self, asked: &Asked, result: Result<(), (NbdError, &str)>) {
        match result {
            Ok(()) => {
                let done = reply::done(self.session.style, asked.command, asked.checked.cookie);
                self.replies.push(&done, None);
            }
            Err((error, message)) => self.refuse(asked, error, message),
        }
    }

    fn refuse(&mut self, asked: &Asked, error: NbdError, message: &str) {
        let reply = reply::error(self.session.style, asked.checked.cookie, error, message);
        self.replies.push(&reply, None);
    }

    /// Sends more of the gathered replies, unless some are being sent: so many bytes.
    pub fn flush(&mut self, key: u32, ring: &mut Ring) -> usize {
        if self.sending || self.state == State::Dead {
            return 0;
        }
        let message = self.unsent.take().or_else(|| {
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
        for (buffer, _) in message.clear() {
            self.seat.account.give(REQUEST + buffer.len());
        }
        self.spare = Some(message).filter(|message| message.is_small());
        count.is_some()
    }

    /// Ends both directions, so that what the ring has of the socket comes back.
    pub fn shut(&mut self) {
        self.state = State::Dead;
        if let Err(error) = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both) {
            tracing::trace!(%error, "the peer was gone already");
        }
    }
}
