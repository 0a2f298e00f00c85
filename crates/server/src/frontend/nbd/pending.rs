//! Requests that are not answered yet, and how the parts of a long one come together again for one
//! answer.
//!
//! A read that is answered in chunks sends each part's data when it is there. A read with a simple
//! reply keeps them until all are there, because once its header has left nothing can tell the client of
//! an error but the end of its connection. If its connection may not hold as much, those that are there
//! go ahead, in their order.

use std::collections::BTreeMap;
use std::ops::Range;

use disktime_nbd::reply::{Chunk, ReplyStyle, ReplyTo};
use disktime_nbd::{Checked, Command, NbdError, Operation};

use super::{Connection, Cut};
use crate::backend::DeviceError;
use crate::frontend::request::{BlockError, Op, State, Ticket};
use crate::ring::Payload;

/// Data, and how many bytes of memory are held for them.
type Held = (Payload, usize);

/// How work ended: with data, without, or with an error.
pub type Answer = Result<Option<Payload>, BlockError>;

/// A request as it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    /// The checked request.
    pub(super) checked: Checked,
    /// The command on the wire, which decides the form of the reply.
    pub(super) command: Command,
}

impl Asked {
    /// The operation for a shard, and whether it must be durable; `None` if there is nothing to do.
    pub(super) fn work(&self) -> Option<(Op, bool)> {
        Some(match self.checked.operation {
            Operation::Read { .. } => (Op::Read, false),
            Operation::Write { fua } => (Op::Write, fua),
            Operation::Trim { fua } => (Op::Trim, fua),
            Operation::Cache => (Op::Cache, false),
            Operation::WriteZeroes { fua, no_hole, .. } => (Op::Zeroes { no_hole }, fua),
            Operation::BlockStatus { one } => (Op::Status { one }, false),
            Operation::Flush => (Op::Flush, false),
            Operation::Nothing | Operation::Disconnect => return None,
        })
    }

    /// Whether it comes with data, or is answered with some.
    pub(super) fn has_data(&self) -> bool {
        self.work().is_some_and(|(op, _)| op.has_data())
    }

    /// Whether it is a read whose data must follow one header: with simple replies, or if the client
    /// forbids chunks.
    pub(super) fn reads_whole(&self, style: ReplyStyle) -> bool {
        match self.checked.operation {
            Operation::Read { dont_fragment } => dont_fragment || style == ReplyStyle::Simple,
            _ => false,
        }
    }

    /// Length of a read's data.
    fn data_bytes(&self) -> u32 {
        u32::try_from(self.checked.length).expect("reads are checked to be at most 32 MiB")
    }

    /// As its reply names it.
    pub(super) fn reply_to(&self, style: ReplyStyle) -> ReplyTo {
        let Checked { cookie, offset, .. } = self.checked;
        ReplyTo { style, cookie, offset }
    }
}

/// A request that a shard has at least a part of.
pub(super) struct Pending {
    pub(super) asked: Asked,
    /// Where its parts come together, if there are several.
    parts: Option<Box<Parts>>,
}

/// The parts of a request of several.
#[derive(Default)]
struct Parts {
    /// Bytes that were issued, and those of parts that are over.
    issued: u64,
    over: u64,
    /// Its client is gone: no more is issued.
    cut_short: bool,
    /// The first error of a part.
    error: Option<BlockError>,
    /// Its data leave in their order.
    alone: bool,
    /// Bytes of data that were sent.
    sent: u64,
    /// Data that wait for those before them, by their place in the request.
    kept: BTreeMap<u64, Held>,
}

impl Pending {
    /// A request of which a first part of so many bytes is about to be issued.
    pub(super) fn new(cut: &Cut, bytes: u64) -> Self {
        let Cut { asked, alone, .. } = *cut;
        let several = bytes != asked.checked.length;
        let parts = several.then(|| Box::new(Parts { alone, ..Parts::default() }));
        Self { asked, parts }
    }

    /// A part of so many bytes is under way.
    pub(super) fn issue(&mut self, bytes: u64) {
        if let Some(parts) = &mut self.parts {
            parts.issued += bytes;
        }
    }
}

impl Parts {
    /// Whether no part of the request is under way and none will come.
    fn are_over(&self, asked: &Asked) -> bool {
        let all = self.cut_short || self.issued == asked.checked.length;
        all && self.over == self.issued
    }
}

impl Connection {
    /// Whether work that is under way is the last of its request.
    #[must_use]
    pub fn is_last(&self, ticket: &Ticket, range: &Range<u64>) -> bool {
        let Pending { asked, parts } = &self.requests.pending[ticket.request as usize];
        let last = |parts: &Parts| parts.over + length(range) == asked.checked.length;
        parts.as_deref().is_none_or(last)
    }

    /// Work is over: a reply gathers, which goes out with the next [`flush`](Self::flush), unless the
    /// client is gone or its request has more parts to come. Data that are part of the reply keep
    /// their memory until they are sent. Answers whether the client must be let go: its reply had
    /// begun, and nothing in it can tell of the error any more.
    #[must_use]
    pub fn answer(
        &mut self,
        Ticket { request, memory }: Ticket,
        range: &Range<u64>,
        answer: Answer,
    ) -> bool {
        self.requests.parts -= 1;
        let Pending { asked, parts } = &mut self.requests.pending[request as usize];
        let asked = *asked;
        if let Some(mut parts) = parts.take() {
            self.part_over(&asked, &mut parts, (range, memory), answer);
            if parts.are_over(&asked) {
                self.requests.pending.remove(request as usize);
                return self.all_over(&asked, &mut parts);
            }
            self.requests.pending[request as usize].parts = Some(parts);
            return false;
        }
        self.requests.pending.remove(request as usize);
        if self.state == State::Dead {
            self.seat.account.give(memory);
        } else {
            self.reply(&asked, memory, answer);
        }
        false
    }

    /// The reply to a request of one part, which held so much memory.
    pub(super) fn reply(&mut self, asked: &Asked, memory: usize, answer: Answer) {
        let style = self.session.style;
        let to = asked.reply_to(style);
        if !matches!(answer, Ok(Some(_))) {
            self.seat.account.give(memory);
        }
        match answer {
            // Whole chunks: `describe` wrote their headers, too.
            Ok(Some(chunks)) if asked.command == Command::BlockStatus => {
                self.outgoing.push(&[], Some(chunks), memory);
            }
            Ok(Some(data)) => {
                self.outgoing.push(&to.read_ok_header(asked.data_bytes()), Some(data), memory);
            }
            Ok(None) => self.outgoing.push(&to.done(asked.command), None, 0),
            Err(error) => self.refuse(asked, error),
        }
    }

    /// A part of a request of several is over.
    fn part_over(
        &mut self,
        asked: &Asked,
        parts: &mut Parts,
        (range, memory): (&Range<u64>, usize),
        answer: Answer,
    ) {
        parts.over += length(range);
        let wanted = self.state != State::Dead && parts.error.is_none();
        match answer {
            Ok(Some(data)) if wanted && parts.alone => {
                parts.kept.insert(range.start - asked.checked.offset, (data, memory));
            }
            Ok(Some(data)) if wanted => {
                let last = parts.are_over(asked);
                parts.sent += length(range);
                self.data(asked, range.start, (data, memory), [false, last]);
            }
            Ok(_) => self.seat.account.give(memory),
            Err(error) => {
                self.seat.account.give(memory);
                parts.error.get_or_insert(error);
            }
        }
        if parts.error.is_some() {
            self.discard(parts);
        }
    }

    /// All parts of a request are over. Answers as [`answer`](Self::answer).
    fn all_over(&mut self, asked: &Asked, parts: &mut Parts) -> bool {
        if self.state == State::Dead {
            self.discard(parts);
            return false;
        }
        self.requests.cut.take_if(|cut| cut.alone && cut.issued == cut.asked.checked.length);
        self.send_kept(asked, parts);
        match parts.error {
            None if parts.sent == asked.checked.length => {}
            None => {
                let done = asked.reply_to(self.session.style).done(asked.command);
                self.outgoing.push(&done, None, 0);
            }
            Some(_) if parts.alone && parts.sent > 0 => {
                tracing::debug!("a read failed after its simple reply had begun: hanging up");
                return true;
            }
            Some(error) => self.refuse(asked, error),
        }
        false
    }

    /// A read that has the connection for itself and can't go on before some of its data are sent
    /// sends what is there.
    pub(super) fn make_room(&mut self) {
        let alone =
            self.requests.cut.filter(|cut| cut.alone && cut.issued < cut.asked.checked.length);
        let Some(request) = alone.filter(|_| self.requests.parts == 0).and_then(|cut| cut.request)
        else {
            return;
        };
        let Pending { asked, parts } = &mut self.requests.pending[request as usize];
        let (asked, Some(mut parts)) = (*asked, parts.take()) else { return };
        self.send_kept(&asked, &mut parts);
        self.requests.pending[request as usize].parts = Some(parts);
    }

    /// Sends what is there and next in order.
    fn send_kept(&mut self, asked: &Asked, parts: &mut Parts) {
        while let Some(data) = parts.kept.remove(&parts.sent) {
            let first = parts.sent == 0;
            let offset = asked.checked.offset + parts.sent;
            parts.sent += data.0.1.len() as u64;
            self.data(asked, offset, data, [first, false]);
        }
    }

    /// The data of a part of a read, as a chunk, or the next of a simple reply: with its header if
    /// they are the first.
    fn data(&mut self, asked: &Asked, offset: u64, (data, held): Held, [first, last]: [bool; 2]) {
        let to = asked.reply_to(self.session.style);
        let bytes = u32::try_from(data.1.len()).expect("a part is at most 1 MiB");
        if !asked.reads_whole(self.session.style) {
            let chunk = if last { Chunk::Last } else { Chunk::More };
            self.outgoing.push(&to.data_chunk_header(chunk, offset, bytes), Some(data), held);
        } else if first {
            self.outgoing.push(&to.read_ok_header(asked.data_bytes()), Some(data), held);
        } else {
            self.outgoing.push(&[], Some(data), held);
        }
    }

    /// Data that were kept will not be sent.
    fn discard(&mut self, parts: &mut Parts) {
        while let Some((_, (_, held))) = parts.kept.pop_first() {
            self.seat.account.give(held);
        }
    }

    /// No more of the request that is being issued will be: it ends with an error once its parts that
    /// were issued are over. Answers as [`answer`](Self::answer).
    #[must_use]
    pub fn cut_short(&mut self, error: BlockError) -> bool {
        let Some(cut) = self.requests.cut.take() else { return false };
        let Some(request) = cut.request else {
            if self.state != State::Dead {
                self.refuse(&cut.asked, error);
            }
            return false;
        };
        let Pending { asked, parts } = &mut self.requests.pending[request as usize];
        let (asked, Some(mut parts)) = (*asked, parts.take()) else { return false };
        parts.cut_short = true;
        // A read that has the connection for itself stays until it is answered, all of it issued.
        if parts.issued < asked.checked.length {
            parts.error.get_or_insert(error);
            self.discard(&mut parts);
        }
        if parts.are_over(&asked) {
            self.requests.pending.remove(request as usize);
            return self.all_over(&asked, &mut parts);
        }
        self.requests.pending[request as usize].parts = Some(parts);
        false
    }

    fn refuse(&mut self, asked: &Asked, error: BlockError) {
        let to = asked.reply_to(self.session.style);
        let reply = to.error(code(error), &error.to_string());
        self.outgoing.push(&reply, None, 0);
    }
}

/// A part's length in bytes.
fn length(range: &Range<u64>) -> u64 {
    range.end - range.start
}

/// The protocol's error for each of ours.
fn code(error: BlockError) -> NbdError {
    match error {
        BlockError::Device(DeviceError(number)) => match number {
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => NbdError::NoSpace,
            libc::ENOMEM => NbdError::NoMemory,
            libc::EPERM | libc::EACCES | libc::EROFS => NbdError::NotPermitted,
            libc::EOPNOTSUPP => NbdError::NotSupported,
            _ => NbdError::Io,
        },
        BlockError::QueueFull => NbdError::NoMemory,
        BlockError::GivenUp | BlockError::Removed => NbdError::Shutdown,
        BlockError::DataLost => NbdError::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The device's own error number decided the protocol's error inside the shard; any other front
    /// end would have got its errors in NBD's words.
    #[test]
    fn errors_become_the_protocols_at_its_edge() {
        let device = |number| BlockError::Device(DeviceError(number));
        for (error, expected) in [
            (device(libc::EDQUOT), NbdError::NoSpace),
            (device(libc::ENOMEM), NbdError::NoMemory),
            (device(libc::EROFS), NbdError::NotPermitted),
            (device(libc::EOPNOTSUPP), NbdError::NotSupported),
            (device(libc::ENODEV), NbdError::Io),
            (BlockError::QueueFull, NbdError::NoMemory),
            (BlockError::GivenUp, NbdError::Shutdown),
            (BlockError::Removed, NbdError::Shutdown),
            (BlockError::DataLost, NbdError::Io),
        ] {
            assert_eq!(code(error), expected, "{error}");
        }
    }
}
