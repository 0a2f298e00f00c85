//! The shard's io_uring: sockets and files in one place, memory safe by ownership.
//!
//! Memory that the kernel may touch (a buffer, a message with its I/O vectors) moves into the ring
//! with the operation and comes back with its completion. Operations are named by [`Token`]s.
#![allow(unsafe_code, reason = "submission entries carry raw pointers")]

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, Submitter, cqueue, opcode, squeue, types};
use slab::Slab;

use crate::buffers::Buffer;
use crate::served_file::ServedFile;

/// Entries of the submission queue; more wait in the backlog.
const ENTRIES: u32 = 512;
/// Parts in one message: each has at most two I/O vectors beside those that are cut, and the kernel takes
/// 1024.
pub const PARTS_MAX: usize = 512;
/// Bytes that are moved between a socket and memory at once. The system copies them on the shard's
/// thread, and goes on for as long as the peer keeps up with it: of more at once, other clients would
/// wait for all of it.
pub const COPY_MAX: usize = 128 << 10;
/// The least of that for each of several clients: below some 4 us of copying the operation itself, at 1 us,
/// would be more than a fifth of it.
pub const COPY_LEAST: usize = 16 << 10;

/// So many bytes more are moved with them, rather than at another time: the headers of the replies whose
/// data are [`COPY_MAX`], and a short reply.
const COPY_REST: usize = 8 << 10;

/// The purpose of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token {
    /// The thread's wake-up counter.
    Wakeup,
    /// The shard's wake-up counter for its carriers.
    Carriers,
    /// Bytes from a connection.
    Receive(u32),
    /// Replies to a connection.
    Send(u32),
    /// A step of a back end's job.
    Job {
        /// Which job.
        job: u32,
        /// Which of its parts.
        step: u32,
    },
    /// Something of the back end itself, which knows what it means.
    BackEnd(u32),
    /// The wish that an operation be given up.
    Cancel,
}

/// Memory that an operation uses.
pub enum Keep {
    /// None.
    Nothing,
    /// A buffer.
    Buffer(Buffer),
    /// A message.
    Message(Box<Message>),
    /// A span of time.
    Span(Box<types::Timespec>),
    /// A file's status, and the file.
    Status(Box<libc::statx>, Arc<ServedFile>),
}

/// A finished operation.
pub struct Finished {
    /// The operation's purpose.
    pub token: Token,
    /// The memory it used.
    pub keep: Keep,
    /// As the system call would answer: a count, or a negative error number.
    pub result: i32,
}

/// A range of a buffer.
pub type Payload = (Buffer, Range<usize>);

/// How far a message was copied out.
#[derive(Clone, Copy, Default)]
pub struct CopyPlace {
    part: usize,
    /// The first byte of the part's header among all headers.
    header: usize,
    /// Bytes of the part, header and payload.
    within: usize,
}

/// How a message stands that was sent as far as the socket takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// All of it is sent.
    All,
    /// More of it may be sent in another turn: what is copied in one is bounded.
    More,
    /// The socket takes no more now: the ring waits until it does.
    Full,
}

/// Parts to be sent together, each with the buffer that holds it.
#[derive(Default)]
pub struct Message {
    /// The parts' headers, one behind the other.
    headers: Vec<u8>,
    /// For each part its header's length and its payload.
    parts: Vec<(usize, Option<Payload>)>,
    /// Bytes of memory that are held for the parts, as their sender counts them.
    held: usize,
    vectors: Vec<libc::iovec>,
    /// The first vector not wholly sent.
    first: usize,
    header: Option<Box<libc::msghdr>>,
}

impl Message {
    /// Messages of more parts than this are not kept for reuse: a thousand connections would hold
    /// them.
    const SMALL: usize = 64;

    /// Adds a header, which may be empty, and after it a range of a buffer, for which so many bytes
    /// of memory are held.
    pub fn push(&mut self, header: &[u8], payload: Option<Payload>, held: usize) {
        self.headers.extend_from_slice(header);
        self.parts.push((header.len(), payload));
        self.held += held;
    }

    /// Whether its memory is worth keeping.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.parts.capacity() <= Self::SMALL
    }

    /// Parts in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether it has no parts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends the next bytes from a place on, until there are `most`; whether that was the end.
    pub fn copy_out(&self, from: &mut CopyPlace, to: &mut Vec<u8>, most: usize) -> bool {
        while let Some((len, payload)) = self.parts.get(from.part) {
            let room = most.saturating_sub(to.len());
            if room == 0 {
                return false;
            }
            let start = to.len();
            let range = payload.as_ref().map_or(0..0, |(_, range)| range.clone());
            if from.within < *len {
                let rest = &self.headers[from.header + from.within..from.header + len];
                to.extend_from_slice(&rest[..rest.len().min(room)]);
            } else if let Some((buffer, _)) = payload {
                let at = range.start + (from.within - len);
                to.resize(start + (range.end - at).min(room), 0);
                buffer.get(at, &mut to[start..]);
            }
            from.within += to.len() - start;
            if from.within == len + range.len() {
                *from = CopyPlace { part: from.part + 1, header: from.header + len, within: 0 };
            }
        }
        true
    }

    /// Makes it a message of the bytes that `fill` appends, if any.
    ///
    /// # Errors
    /// As `fill`: then the message is empty.
    pub fn refill<E>(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        self.clear();
        let outcome = fill(&mut self.headers);
        match (&outcome, self.headers.len()) {
            (Ok(()), len @ 1..) => self.parts.push((len, None)),
            _ => self.headers.clear(),
        }
        outcome
    }

    /// Lets the payloads go; the message is empty afterwards. Answers how many bytes of memory were
    /// held for its parts.
    pub fn clear(&mut self) -> usize {
        self.headers.clear();
        self.vectors.clear();
        self.first = 0;
        self.parts.clear();
        std::mem::take(&mut self.held)
    }

    /// Notes that `count` more bytes were sent; true if that was all.
    pub fn sent(&mut self, mut count: usize) -> bool {
        while self.first < self.vectors.len() {
            let vector = &mut self.vectors[self.first];
            if count < vector.iov_len {
                vector.iov_base = vector.iov_base.wrapping_byte_add(count);
                vector.iov_len -= count;
                return false;
            }
            count -= vector.iov_len;
            self.first += 1;
        }
        true
    }

    /// Sends the next of what is left at once, as much as the socket takes; answers how many bytes that
    /// were, and how it stands. A failure is told by the ring's next attempt.
    pub fn send_now(&mut self, fd: RawFd) -> (usize, Sent) {
        let (header, wanted) = self.prepare(COPY_MAX);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `prepare` has pointed the header at vectors of the message's own, and those at headers
        // and buffers that it holds. The call does not wait, and the system keeps none of it.
        let count = unsafe { libc::sendmsg(fd, header, flags) };
        let count = usize::try_from(count).unwrap_or(0);
        let over = count > 0 && self.sent(count);
        let stands = match (over, count == wanted) {
            (true, _) => Sent::All,
            (false, true) => Sent::More,
            (false, false) => Sent::Full,
        };
        (count, stands)
    }

    /// Lays the vectors out on first use, and points the system call's header at the next of what is
    /// left, about `most` bytes. Answers the header, and how many bytes they are.
    fn prepare(&mut self, most: usize) -> (*const libc::msghdr, usize) {
        if self.vectors.is_empty() {
            let mut headers = self.headers.as_mut_slice();
            for (len, payload) in &self.parts {
                let header;
                (header, headers) = headers.split_at_mut(*len);
                if !header.is_empty() {
                    let iov_base = header.as_mut_ptr().cast();
                    self.vectors.push(libc::iovec { iov_base, iov_len: *len });
                }
                let Some((buffer, range)) = payload else { continue };
                for start in range.clone().step_by(COPY_LEAST) {
                    let cut = start..range.end.min(start + COPY_LEAST);
                    let iov_base = buffer.pointer(&cut).cast();
                    self.vectors.push(libc::iovec { iov_base, iov_len: cut.len() });
                }
            }
        }
        let (mut count, mut bytes) = (0, 0);
        for vector in self.vectors[self.first..].iter().take(2 * PARTS_MAX) {
            if bytes >= most || (count > 0 && bytes + vector.iov_len > most + COPY_REST) {
                break;
            }
            (count, bytes) = (count + 1, bytes + vector.iov_len);
        }
        let header = self.header.get_or_insert_with(|| {
            // SAFETY: all zeroes is a valid msghdr: no name, no vectors, no control data.
            Box::new(unsafe { std::mem::zeroed() })
        });
        header.msg_iov = self.vectors[self.first..].as_mut_ptr();
        header.msg_iovlen = count;
        (&raw const **header, bytes)
    }
}

/// An extent of a file and the memory for it.
pub struct Transfer {
    /// The file.
    pub fd: RawFd,
    /// Where in the file.
    pub offset: u64,
    /// The memory.
    pub buffer: Buffer,
    /// Which part of the memory.
    pub range: Range<usize>,
}

/// One io_uring of one thread.
pub struct Ring {
    uring: IoUring,
    operations: Slab<(Token, Keep)>,
    /// Entries that did not fit into the submission queue.
    backlog: VecDeque<squeue::Entry>,
    /// Addresses that are registered as buffer 0.
    registered: Range<usize>,
}

/// Makes such a ring as a device's thread has, and lets it go.
///
/// # Errors
/// The system's reason for having none: `EPERM` in most containers, `ENOSYS` without io_uring,
/// `EINVAL` before Linux 6.1, `ENOMEM` where too little memory may be locked for one of its size.
pub fn available() -> io::Result<()> {
    uring().map(drop)
}

/// The kernel's part of a ring.
fn uring() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_cqsize(4 * ENTRIES)
        .build(ENTRIES)
}

/// The remedy for a ring that the system refuses, or nothing if its reason says all.
#[must_use]
pub fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden here: in a container use a seccomp profile that allows it \
             (docs/how-to/install.md), else set the sysctl kernel.io_uring_disabled to 0"
        }
        Some(libc::ENOSYS) => {
            "io_uring is not there: either a container engine hides it, and needs a seccomp profile \
             that allows it (docs/how-to/install.md), or the kernel is built without CONFIG_IO_URING"
        }
        Some(libc::EINVAL) => "io_uring of Linux 6.1 or newer is needed",
        Some(libc::ENOMEM) => {
            "io_uring may not lock enough memory: raise the limit to 64 MiB (`ulimit -l`, LimitMEMLOCK=)"
        }
        _ => "io_uring of Linux 6.1 or newer is needed",
    }
}

impl Ring {
    /// A ring for the calling thread, with as much of a pool's arena registered as the system lets us.
    ///
    /// # Errors
    /// If the kernel has no io_uring, or one without deferred task work (before 6.1).
    pub fn new(arena: Option<libc::iovec>) -> io::Result<Self> {
        let uring = uring()?;
        let registered = arena.map_or(0..0, |arena| Self::register(&uring, arena));
        Ok(Self { uring, operations: Slab::new(), backlog: VecDeque::new(), registered })
    }

    /// Registers the arena, or its first half or quarter where locked memory is limited. Answers which
    /// addresses are.
    fn register(uring: &IoUring, arena: libc::iovec) -> Range<usize> {
        let start = arena.iov_base.addr();
        for iov_len in (0..3).map(|halvings| arena.iov_len >> halvings) {
            // SAFETY: the arena outlives the ring (the shard drops the pool after it), and the
            // kernel touches it only for operations that hold one of its buffers.
            match unsafe { uring.submitter().register_buffers(&[libc::iovec { iov_len, ..arena }]) }
            {
                Ok(()) => return start..start + iov_len,
                Err(error) => tracing::debug!(%error, iov_len, "buffers are not registered"),
            }
        }
        start..start
    }

    /// Whether an operation is over whose completion the next [`wait`](Self::wait) brings. Costs no system call.
    pub fn has_come(&mut self) -> bool {
        self.uring.submission().taskrun()
    }

    /// Operations that the kernel has and has not answered.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.operations.len()
    }

    /// Receives into `range` of the buffer; all of it if `whole`.
    pub fn receive(
        &mut self,
        token: Token,
        fd: RawFd,
        buffer: Buffer,
        range: &Range<usize>,
        whole: bool,
    ) {
        let (start, len) = (buffer.pointer(range), length(range));
        let flags = if whole { libc::MSG_WAITALL } else { 0 };
        let entry = opcode::Recv::new(types::Fd(fd), start, len).flags(flags).build();
        self.start(token, Keep::Buffer(buffer), entry);
    }

    /// Gives up an operation that waits: it comes back with `ECANCELED`, or with its result if it was
    /// quicker.
    pub fn cancel(&mut self, token: Token) {
        let waits = self.operations.iter().find(|(_, (waits, _))| *waits == token);
        if let Some((key, _)) = waits {
            let entry = opcode::AsyncCancel::new(key as u64).build();
            self.start(Token::Cancel, Keep::Nothing, entry);
        }
    }

    /// Sends the next of what is left of a message, about `most` bytes; answers how many.
    pub fn send(
        &mut self,
        token: Token,
        fd: RawFd,
        mut message: Box<Message>,
        most: usize,
    ) -> usize {
        let (header, bytes) = message.prepare(most);
        let flags = (libc::MSG_WAITALL | libc::MSG_NOSIGNAL).cast_unsigned();
        let entry = opcode::SendMsg::new(types::Fd(fd), header).flags(flags).build();
        self.start(token, Keep::Message(message), entry);
        bytes
    }

    /// Reads an extent of a file.
    pub fn read(&mut self, token: Token, transfer: Transfer) {
        let Transfer { fd, offset, buffer, range } = transfer;
        let (fd, start, len) = (types::Fd(fd), buffer.pointer(&range), length(&range));
        let entry = if self.registered.contains(&start.addr()) {
            opcode::ReadFixed::new(fd, start, len, 0).offset(offset).build()
        } else {
            opcode::Read::new(fd, start, len).offset(offset).build()
        };
        self.start(token, Keep::Buffer(buffer), entry);
    }

    /// Writes an extent of a file; durable before it completes if `durable`.
    pub fn write(&mut self, token: Token, transfer: Transfer, durable: bool) {
        let Transfer { fd, offset, buffer, range } = transfer;
        let (fd, start, len) = (types::Fd(fd), buffer.pointer(&range).cast_const(), length(&range));
        let flags = if durable { libc::RWF_DSYNC } else { 0 };
        let entry = if self.registered.contains(&start.addr()) {
            opcode::WriteFixed::new(fd, start, len, 0).offset(offset).rw_flags(flags).build()
        } else {
            opcode::Write::new(fd, start, len).offset(offset).rw_flags(flags).build()
        };
        self.start(token, Keep::Buffer(buffer), entry);
    }

    /// Makes a file's data durable.
    pub fn sync(&mut self, token: Token, fd: RawFd) {
        let entry = opcode::Fsync::new(types::Fd(fd)).flags(types::FsyncFlags::DATASYNC).build();
        self.start(token, Keep::Nothing, entry);
    }

    /// Sees whether a file still has a name and all its bytes: else the result is `EIO`.
    pub fn check(&mut self, token: Token, file: &Arc<ServedFile>) {
        // SAFETY: all zeroes is a valid statx: it is numbers.
        let mut status: Box<libc::statx> = Box::new(unsafe { std::mem::zeroed() });
        let (fd, to) = (types::Fd(file.as_raw_fd()), (&raw mut *status).cast());
        let entry = opcode::Statx::new(fd, c"".as_ptr(), to)
            .flags(libc::AT_EMPTY_PATH)
            .mask(libc::STATX_NLINK | libc::STATX_SIZE);
        self.start(token, Keep::Status(status, Arc::clone(file)), entry.build());
    }

    /// Frees or zeroes an extent of a file; `mode` as for fallocate(2).
    pub fn allocate(&mut self, token: Token, fd: RawFd, offset: u64, len: u64, mode: i32) {
        let entry = opcode::Fallocate::new(types::Fd(fd), len).offset(offset).mode(mode).build();
        self.start(token, Keep::Nothing, entry);
    }

    /// Lets a span of time pass.
    pub fn timer(&mut self, token: Token, span: Duration) {
        let span = Box::new(types::Timespec::from(span));
        let entry = opcode::Timeout::new(&raw const *span).build();
        self.start(token, Keep::Span(span), entry);
    }

    fn start(&mut self, token: Token, keep: Keep, entry: squeue::Entry) {
        let key = self.operations.insert((token, keep));
        let entry = entry.user_data(key as u64);
        if !self.backlog.is_empty() || !push(&mut self.uring, &entry) {
            self.backlog.push_back(entry);
        }
    }

    /// Submits what was started and waits for a completion, at most for `timeout`; zero only
    /// looks, `None` waits without end.
    ///
    /// # Errors
    /// If the kernel refuses the ring itself; a failed operation is not an error here.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.refill();
        let submitter = self.uring.submitter();
        let waited = match timeout {
            // With deferred task work a plain look must enter the kernel to run it.
            Some(timeout) => {
                let spec = types::Timespec::from(timeout);
                let args = types::SubmitArgs::new().timespec(&spec);
                retry(|| submitter.submit_with_args(1, &args))
            }
            None => retry(|| submitter.submit_and_wait(1)),
        };
        tolerate(waited)
    }

    /// Submits what was started and lets come what is over, without waiting. Costs no system call if
    /// there is neither.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn look_in(&mut self) -> io::Result<()> {
        let submission = self.uring.submission();
        let still = submission.is_empty() && !submission.taskrun() && !submission.cq_overflow();
        drop(submission);
        if still && self.backlog.is_empty() { Ok(()) } else { self.wait(Some(Duration::ZERO)) }
    }

    /// Submits what was started, without waiting.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn submit(&mut self) -> io::Result<()> {
        self.refill();
        tolerate(retry(|| self.uring.submitter().submit()))
    }

    fn refill(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if push(&mut self.uring, &entry) {
                continue;
            }
            self.backlog.push_front(entry);
            let submitted = submit(&self.uring.submitter());
            if !submitted {
                return;
            }
        }
    }

    /// Moves all completions to `finished`.
    ///
    /// # Panics
    /// If the kernel answers an operation that was never started.
    pub fn reap(&mut self, finished: &mut Vec<Finished>) {
        let entries: cqueue::CompletionQueue<'_> = self.uring.completion();
        for entry in entries {
            let key = usize::try_from(entry.user_data()).expect("user data are slab keys");
            let (token, keep) = self.operations.remove(key);
            let result = match &keep {
                Keep::Status(status, file)
                    if entry.result() >= 0 && !file.is_whole(status.stx_nlink, status.stx_size) =>
                {
                    -libc::EIO
                }
                _ => entry.result(),
            };
            finished.push(Finished { token, keep, result });
        }
    }
}

impl Drop for Ring {
    /// The kernel may still write into the memory of operations it has not answered: it is leaked.
    fn drop(&mut self) {
        for (_, operation) in std::mem::take(&mut self.operations) {
            std::mem::forget(operation);
        }
    }
}

fn push(uring: &mut IoUring, entry: &squeue::Entry) -> bool {
    // SAFETY: every pointer in the entry is into memory that `operations` keeps until the
    // completion has been reaped.
    unsafe { uring.submission().push(entry) }.is_ok()
}

fn submit(submitter: &Submitter<'_>) -> bool {
    retry(|| submitter.submit()).is_ok()
}

/// A time-out, or a queue that is full for now, is no failure of the ring.
fn tolerate(entered: io::Result<usize>) -> io::Result<()> {
    match entered.map_err(|error| (error.raw_os_error(), error)) {
        Ok(_) | Err((Some(libc::ETIME | libc::EBUSY | libc::EAGAIN), _)) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn length(range: &Range<usize>) -> u32 {
    u32::try_from(range.len()).expect("a transfer is at most 32 MiB")
}
