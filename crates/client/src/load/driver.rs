//! The thread of a load: one loop that issues, sends, waits, receives.
//!
//! A turn costs a wait, a receive and a send for as many requests and replies as there are; nothing
//! is allocated.

use std::num::NonZeroU64;
use std::sync::Arc;

use disktime_core::{Duration, Instant, Kind};
use disktime_nbd::{
    Command, CommandFlags, NbdError, Pending, ReplyEvent, ReplyParser, RequestHeader,
};
use disktime_workload::{IoOp, Pace, Source, SpecError};

use super::LoadSpec;
use super::counters::Shared;
use super::outbox::Outbox;
use super::tally::{Ended, Tally};
use crate::error::ConnectionError;
use crate::handshake::Opened;
use crate::inflight::InFlight;
use crate::misses::MissReports;
use crate::socket::{Deadline, Socket};
use crate::{OUTSTANDING_MAX, clock};

/// Bytes of input taken at once: a socket holds about as many, and the processor's cache more.
const INPUT_BYTES: usize = 256 << 10;
/// How late the system may end a wait, in nanoseconds. Its default is 50,000, which an open loop's
/// latencies would show.
pub(super) const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1_000).expect("1000 is not zero");

pub(super) struct Driver {
    socket: Socket,
    parser: ReplyParser,
    shared: Arc<Shared>,
    source: Source,
    /// Whether a request's time starts when it was due (open loop) or when it was issued.
    from_due: bool,
    drain_timeout: Duration,
    /// With the time from which each request's latency counts, and what the source asked for.
    inflight: InFlight<(Instant, IoOp)>,
    outbox: Outbox,
    input: Box<[u8]>,
    /// The input buffer was filled, so more is likely there.
    more: bool,
    tally: Tally,
}

impl Driver {
    pub(super) fn new(
        opened: Opened,
        spec: LoadSpec,
        shared: Arc<Shared>,
        reports: Option<MissReports>,
    ) -> Result<Self, SpecError> {
        let LoadSpec { name, workload, pace, seed, options } = spec;
        let writes = workload.reads_permille < 1000;
        let sizes = workload.sizes.iter().map(|size| size.bytes);
        let longest = if writes { sizes.max().unwrap_or(0) } else { 0 };
        let payload_bytes_max = usize::try_from(longest).expect("sizes were checked before");
        let started = clock::now();
        Ok(Self {
            socket: opened.socket,
            parser: opened.parser,
            shared,
            source: Source::new(workload, pace, seed, &name, started)?,
            from_due: matches!(pace, Pace::Open(_)),
            drain_timeout: options.timeout,
            inflight: InFlight::new(OUTSTANDING_MAX),
            outbox: Outbox::new(payload_bytes_max, seed),
            input: vec![0; INPUT_BYTES].into(),
            more: false,
            tally: Tally::new(started, reports),
        })
    }

    pub(super) fn run(mut self) -> Ended {
        // Without it waits are less exact, which is no reason to stop.
        let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
        let served = self.serve();
        let elapsed = self.tally.elapsed();
        let result = served.and_then(|()| self.drain());
        self.shared.publish(&self.tally.counters);
        self.tally.end(elapsed, result.err())
    }

    fn serve(&mut self) -> Result<(), ConnectionError> {
        while !self.shared.stopping() {
            let now = clock::now();
            self.issue(now);
            self.tally.look(now, &mut self.source);
            self.shared.publish(&self.tally.counters);
            // Without room, only a reply helps.
            let next = self.source.next_at().filter(|_| !self.inflight.is_full());
            let timeout = next.map_or(Duration::MAX, |at| at.since(now));
            self.turn(timeout, Wake::ToStop)?;
        }
        Ok(())
    }

    /// Waits for the replies that are outstanding, then says good-bye.
    fn drain(&mut self) -> Result<(), ConnectionError> {
        let deadline = Deadline::after(self.drain_timeout);
        while self.inflight.len() > 0 {
            self.turn(deadline.left()?, Wake::Never)?;
        }
        // The server has taken all that was sent, so there is room; and hanging up says the same.
        self.outbox.push(&header(0, Command::Disconnect, 0, 0), 0);
        let _ = self.outbox.flush(&self.socket);
        Ok(())
    }

    /// Puts everything that is due into the outbox.
    fn issue(&mut self, now: Instant) {
        while !self.inflight.is_full() {
            let due = self.source.next_at();
            let (Some(due), Some(op)) = (due, self.source.poll(now)) else { return };
            let since = if self.from_due { due } else { now };
            let IoOp { kind, offset, bytes } = op;
            let command = command(kind);
            let length = u32::try_from(bytes).expect("sizes were checked before");
            let asked = Pending { command, offset, length };
            let cookie = self.inflight.insert(asked, (since, op)).expect("there is room");
            let payload_bytes = if command == Command::Write { length as usize } else { 0 };
            self.outbox.push(&header(cookie, command, offset, length), payload_bytes);
            self.tally.counters.issued += 1;
        }
    }

    /// Sends what there is room for, waits up to `timeout`, takes what has arrived.
    fn turn(&mut self, timeout: Duration, wake: Wake) -> Result<(), ConnectionError> {
        self.outbox.flush(&self.socket)?;
        if !self.more {
            let wake = (wake == Wake::ToStop).then(|| self.shared.wake());
            if !self.socket.wait(!self.outbox.is_empty(), wake, timeout)? {
                return Ok(());
            }
        }
        self.receive()
    }

    fn receive(&mut self) -> Result<(), ConnectionError> {
        let bytes = self.socket.receive(&mut self.input)?.unwrap_or(0);
        self.more = bytes == self.input.len();
        let now = clock::now();
        let mut start = 0;
        loop {
            let (consumed, event) = self
                .parser
                .poll(&self.input[start..bytes], |cookie| self.inflight.asked(cookie))?;
            start += consumed;
            match event {
                None => return Ok(()),
                Some(ReplyEvent::Done { cookie, result }) => self.done(cookie, result, now),
                // The bytes that were read are of no interest.
                Some(
                    ReplyEvent::Data { .. } | ReplyEvent::Hole { .. } | ReplyEvent::Extent { .. },
                ) => {}
            }
        }
    }

    fn done(&mut self, cookie: u64, result: Result<(), NbdError>, now: Instant) {
        let (_, (since, op)) =
            self.inflight.remove(cookie).expect("the parser only answers cookies in flight");
        self.source.completed(now, &op);
        if result.is_err() {
            self.tally.failed();
            return;
        }
        self.tally.succeeded(&op, now.since(since));
    }
}

/// Whether a wait ends when the load shall stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wake {
    ToStop,
    Never,
}

fn header(cookie: u64, command: Command, offset: u64, length: u32) -> RequestHeader {
    RequestHeader { flags: CommandFlags::EMPTY, command, cookie, offset, length: length.into() }
}

fn command(kind: Kind) -> Command {
    match kind {
        Kind::Read => Command::Read,
        Kind::Write => Command::Write,
        Kind::Flush => Command::Flush,
        Kind::Trim => Command::Trim,
        Kind::Zeroes => Command::WriteZeroes,
        Kind::Cache => Command::Cache,
    }
}
