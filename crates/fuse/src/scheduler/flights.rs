//! Requests on their way through the engine, and their pieces that are at the device.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use disktime_core::{Kind, StreamId};
use rustix::io::Errno;

use super::turns::Turn;
use super::workers::{Action, Moved};
use super::{Transfer, Work};
use crate::file_system::{Answer, ReadReply, WriteReply};
use crate::open_files::OpenFile;
use crate::transfer::{Aligned, Buffers};

/// A request that is not answered yet.
pub(super) struct Operation {
    pub(super) file: Arc<OpenFile>,
    pub(super) stream: StreamId,
    /// Its first byte in the file and on the device.
    pub(super) offset: u64,
    pub(super) place: u64,
    /// Bytes that the engine counts.
    pub(super) bytes: u64,
    /// No other operation has this number.
    pub(super) number: u64,
    /// Pieces of it that are at the device.
    pub(super) open: u32,
    /// All its pieces had their turn.
    pub(super) over: bool,
    /// Turns that wait for its earlier pieces: the first of them begins it anew.
    pub(super) held: VecDeque<Turn>,
    parts: Vec<Part>,
    /// Its last piece has begun.
    ends: bool,
    /// A read's pieces were not kept, so that its last one reads all of it again.
    again: bool,
    error: Option<Errno>,
    /// Nothing is left of a read that its worker answers.
    work: Option<Work>,
    kind: Kind,
}

/// A piece of a request that is done.
struct Part {
    range: Range<usize>,
    /// Bytes of it that were moved, and the buffer of a read.
    moved: usize,
    buffer: Option<Aligned>,
}

/// A piece at the device.
pub(super) struct Flight {
    /// The key of its operation, and that operation's number.
    pub(super) operation: usize,
    pub(super) number: u64,
    /// The name of its turn.
    pub(super) turn: u64,
    pub(super) range: Range<usize>,
}

impl Operation {
    pub(super) fn new(transfer: Transfer, (stream, place): (StreamId, u64), number: u64) -> Self {
        let Transfer { file, offset, bytes, work, .. } = transfer;
        let (open, over, held, parts, error) = (0, false, VecDeque::new(), Vec::new(), None);
        let kind = match work {
            Work::Read(..) => Kind::Read,
            Work::Write(..) => Kind::Write,
        };
        let work = Some(work);
        Self {
            file,
            stream,
            offset,
            place,
            bytes,
            number,
            open,
            over,
            held,
            parts,
            ends: false,
            again: false,
            error,
            work,
            kind,
        }
    }

    /// It begins anew, with none of its pieces at the device: those that were done do not count.
    pub(super) fn begin_anew(&mut self, number: u64, buffers: &Buffers) {
        assert_eq!(self.open, 0, "an earlier piece could move its bytes after a later one");
        (self.number, self.error, self.ends, self.again) = (number, None, false, false);
        self.give_back(buffers);
    }

    fn give_back(&mut self, buffers: &Buffers) {
        let parts = self.parts.drain(..).filter_map(|part| part.buffer);
        parts.for_each(|buffer| buffers.give_back(buffer));
    }

    /// Nothing of it is at the device, nor will be.
    pub(super) fn is_done(&self) -> bool {
        self.over && self.open == 0 && self.held.is_empty()
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// A worker's job for a piece. A read that is one piece is answered by its worker, if it may be
    /// answered as soon as its bytes are there; none if it is answered already.
    pub(super) fn action(
        &mut self,
        range: &Range<usize>,
        (flush, at_once): (bool, bool),
    ) -> Option<Action> {
        match &self.work {
            None => None,
            Some(Work::Write(data, _)) => {
                Some(Action::Write(Arc::clone(data), range.clone(), flush))
            }
            Some(Work::Read(asked, _)) if at_once && (0..*asked) == *range => {
                match self.work.take() {
                    Some(Work::Read(bytes, reply)) => Some(Action::ReadAll(bytes, reply)),
                    _ => None,
                }
            }
            Some(Work::Read(..)) => Some(Action::Read(range.len())),
        }
    }

    /// The bytes of the request that a piece moves. The last piece of a read also asks for what
    /// lies past the end of the file: it may have grown meanwhile.
    pub(super) fn range(&mut self, place: u64, bytes: u64) -> Range<usize> {
        let start = place.saturating_sub(self.place);
        let end = start.saturating_add(bytes);
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        self.ends |= end >= self.bytes;
        match self.work {
            Some(Work::Read(asked, _)) if end >= self.bytes => {
                index(if self.again { 0 } else { start })..asked.max(index(end))
            }
            _ => index(start)..index(end),
        }
    }

    /// Notes a piece's outcome. A read whose next piece may wait for long keeps no bytes while buffers are
    /// scarce: reading them again takes time that is not charged, keeping them could take all memory.
    pub(super) fn note(&mut self, range: Range<usize>, result: Answer<Moved>, buffers: &Buffers) {
        let is_all = range.start == 0 && range.end as u64 >= self.bytes;
        match result {
            Ok(Moved::Read(buffer, _)) if !self.ends && buffers.are_scarce() => {
                self.again = true;
                buffers.give_back(buffer);
                self.give_back(buffers);
            }
            Ok(Moved::Read(buffer, _)) if self.again && !is_all => buffers.give_back(buffer),
            Ok(Moved::Read(buffer, moved)) => {
                self.parts.push(Part { range, moved, buffer: Some(buffer) });
            }
            Ok(Moved::Answered) => {}
            Ok(Moved::Written(moved)) => self.parts.push(Part { range, moved, buffer: None }),
            Err(error) => self.error = self.error.or(Some(error)),
        }
    }

    /// Answers the program.
    pub(super) fn answer(mut self, buffers: &Buffers) {
        self.parts.sort_unstable_by_key(|part| part.range.start);
        let moved = whole(&self.parts);
        match self.work.take() {
            None => {}
            Some(Work::Read(_, reply)) => answer_read(reply, moved, &self.parts, self.error),
            Some(Work::Write(data, reply)) => {
                answer_write(reply, moved, self.error.filter(|_| moved == 0 || data.is_cached()));
            }
        }
        self.give_back(buffers);
    }

    /// Answers that it was not done.
    pub(super) fn refuse(mut self, error: Errno, buffers: &Buffers) {
        self.give_back(buffers);
        match self.work {
            None => {}
            Some(Work::Read(_, reply)) => reply(Err(error)),
            Some(Work::Write(_, reply)) => reply(Err(error)),
        }
    }
}

/// Bytes from the request's first on that were moved without a gap.
fn whole(parts: &[Part]) -> usize {
    let mut end = 0;
    for part in parts {
        if part.range.start != end {
            break;
        }
        end += part.moved;
    }
    end
}

fn answer_read(reply: ReadReply, moved: usize, parts: &[Part], error: Option<Errno>) {
    match (error, parts) {
        (Some(error), _) => reply(Err(error)),
        (_, [Part { buffer: Some(buffer), .. }]) => reply(Ok(&buffer.all()[..moved])),
        _ => {
            let mut all = Vec::with_capacity(moved);
            for part in parts {
                let room = moved - all.len();
                let data = part.buffer.as_ref().map_or(&[][..], Aligned::all);
                all.extend_from_slice(&data[..part.moved.min(room)]);
            }
            reply(Ok(&all));
        }
    }
}

fn answer_write(reply: WriteReply, moved: usize, error: Option<Errno>) {
    match error {
        Some(error) => reply(Err(error)),
        None => reply(Ok(u32::try_from(moved).unwrap_or(u32::MAX))),
    }
}
