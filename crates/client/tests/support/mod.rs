//! A tiny server over the sans-IO half of `disktime-nbd`: one export in memory, and every way to
//! misbehave that a client must survive.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use disktime_client::{Address, Options, Uri};
use disktime_core::Duration;
use disktime_nbd::reply::{self, Chunk, ReplyStyle};
use disktime_nbd::{
    BlockSizes, Checked, ExportInfo, Exports, Handshake, NbdError, Operation, REQUEST_BYTES,
    Reject, RequestHeader, ServerHandshake, Session, TransmissionFlags,
};
use tempfile::TempDir;

/// The export's name: one that a URI must encode.
pub(crate) const EXPORT: &str = "disk 1/α";
pub(crate) const DESCRIPTION: &str = "memory";
/// The longest request that the server takes.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// How a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    Honest,
    /// Gathers this many requests and answers them last to first.
    Backwards(usize),
    /// Cuts each structured read into its second half, then its first; zeroes are a hole.
    Pieces,
    /// Fails every request.
    Fails(NbdError),
    /// Is restarted: fails every request of its first connection because it shuts down.
    ShutsDown,
    /// Is restarted: refuses requests of its first connection beyond the export's beginning because it shuts down,
    /// and then carries out one at its beginning that it had taken before.
    Finishes,
    /// Closes after the first half of its first reply.
    ClosesMidReply,
    /// Answers a request that nobody sent.
    UnknownCookie,
    /// Answers each request twice.
    AnswersTwice,
    /// Sends bytes that are no reply.
    Garbage,
    /// Takes requests and never answers.
    Silent,
    /// Answers with errors that are not the last of their reply, without end.
    Endless,
    /// Accepts and says nothing.
    SilentGreeting,
    /// Closes within the greeting.
    ShortGreeting,
    /// Greets as something else.
    GarbageGreeting,
    /// Answers before it was asked, right behind the handshake.
    Hasty,
}

pub(crate) struct TestServer {
    pub(crate) uri: Uri,
    /// One message for each request that was answered, or taken in silence.
    pub(crate) taken: Receiver<RequestHeader>,
    pub(crate) memory: Arc<Mutex<Vec<u8>>>,
    _directory: TempDir,
}

impl TestServer {
    pub(crate) fn start(conduct: Conduct, size_bytes: usize) -> Self {
        Self::start_as(conduct, size_bytes, |_| {})
    }

    /// A server whose export is described differently.
    pub(crate) fn start_as(
        conduct: Conduct,
        size_bytes: usize,
        describe: fn(&mut ExportInfo),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nbd socket");
        let listener = UnixListener::bind(&path).unwrap();
        let memory = Arc::new(Mutex::new(vec![0; size_bytes]));
        let (sender, taken) = channel();
        let mut export = export(size_bytes);
        describe(&mut export);
        let shared = Arc::clone(&memory);
        // It ends with the test's process: nobody waits for it.
        std::thread::spawn(move || {
            for (at, socket) in listener.incoming().enumerate() {
                let conduct = match conduct {
                    Conduct::ShutsDown if at == 0 => Conduct::Fails(NbdError::Shutdown),
                    Conduct::ShutsDown => Conduct::Honest,
                    Conduct::Finishes if at > 0 => Conduct::Honest,
                    conduct => conduct,
                };
                let peer = Peer {
                    socket: socket.unwrap(),
                    conduct,
                    memory: Arc::clone(&shared),
                    taken: sender.clone(),
                };
                let export = export.clone();
                // A client that hangs up is no failure.
                std::thread::spawn(move || peer.serve(&One(export)));
            }
        });
        let uri = Uri { address: Address::Unix { path }, export: EXPORT.into() };
        Self { uri, taken, memory, _directory: directory }
    }

    /// Waits until the server has taken this many requests more.
    pub(crate) fn wait_for(&self, requests: usize) {
        for _ in 0..requests {
            let limit = std::time::Duration::from_secs(30);
            self.taken.recv_timeout(limit).expect("the client sends requests");
        }
    }
}

/// Options whose waits end soon, for servers that never answer.
pub(crate) fn impatient() -> Options {
    Options { timeout: Duration::from_millis(30), ..Options::default() }
}

fn export(size_bytes: usize) -> ExportInfo {
    ExportInfo {
        name: EXPORT.into(),
        description: DESCRIPTION.into(),
        size_bytes: size_bytes as u64,
        flags: TransmissionFlags::FLUSH
            .with(TransmissionFlags::FUA)
            .with(TransmissionFlags::TRIM)
            .with(TransmissionFlags::WRITE_ZEROES),
        block_sizes: BlockSizes::new(1, 4096, REQUEST_BYTES_MAX).unwrap(),
    }
}

struct One(ExportInfo);

impl Exports for One {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        each(&self.0);
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        (name == self.0.name).then(|| self.0.clone())
    }
}

struct Peer {
    socket: UnixStream,
    conduct: Conduct,
    memory: Arc<Mutex<Vec<u8>>>,
    taken: Sender<RequestHeader>,
}

impl Peer {
    fn serve(mut self, exports: &One) -> std::io::Result<()> {
        match self.conduct {
            Conduct::SilentGreeting => return self.drain(),
            Conduct::ShortGreeting => return self.socket.write_all(b"NBDMA"),
            Conduct::GarbageGreeting => {
                return self.socket.write_all(b"220 mail.example ESMTP at your service\r\n");
            }
            _ => {}
        }
        let Some((session, mut input)) = self.shake(exports)? else { return Ok(()) };
        let mut answers = Vec::new();
        loop {
            while let Some((request, payload)) = take_request(&mut input) {
                let bytes = self.answer(&session, &request, &payload);
                let _ = self.taken.send(request);
                let Some(bytes) = bytes else { return Ok(()) };
                if self.conduct == Conduct::Endless {
                    let many = bytes.repeat(4096);
                    loop {
                        self.socket.write_all(&many)?;
                    }
                }
                answers.push(bytes);
                let batch = match self.conduct {
                    Conduct::Backwards(batch) => batch,
                    Conduct::Finishes => 2,
                    _ => 1,
                };
                if answers.len() >= batch {
                    answers.reverse();
                    if self.conduct == Conduct::Finishes {
                        self.socket.write_all(&answers.remove(0))?;
                        // A client that leaves it now does so within this time.
                        let while_it_acts = std::time::Duration::from_millis(100);
                        self.socket.set_read_timeout(Some(while_it_acts))?;
                        if more(&mut self.socket, &mut input).is_ok_and(|more| !more) {
                            return Ok(());
                        }
                        self.socket.set_read_timeout(None)?;
                    }
                    self.socket.write_all(&answers.concat())?;
                    answers.clear();
                }
                if self.conduct == Conduct::ClosesMidReply {
                    return Ok(());
                }
            }
            if !more(&mut self.socket, &mut input)? {
                return Ok(());
            }
        }
    }

    fn shake(&mut self, exports: &One) -> std::io::Result<Option<(Session, Vec<u8>)>> {
        let mut handshake = ServerHandshake::new();
        self.socket.write_all(&handshake.greeting())?;
        let mut input = Vec::new();
        let mut output = Vec::new();
        loop {
            let (consumed, state) =
                handshake.handle_input(&input, exports, &mut output).expect("the client is sane");
            input.drain(..consumed);
            if self.conduct == Conduct::Hasty && matches!(state, Handshake::Transmission(_)) {
                output.extend_from_slice(&reply::done(
                    ReplyStyle::Simple,
                    disktime_nbd::Command::Flush,
                    1 << 32,
                ));
            }
            self.socket.write_all(&output)?;
            output.clear();
            match state {
                Handshake::Transmission(session) => return Ok(Some((session, input))),
                Handshake::StartTls | Handshake::Aborted => return Ok(None),
                Handshake::NeedMore => {}
            }
            if !more(&mut self.socket, &mut input)? {
                return Ok(None);
            }
        }
    }

    /// The bytes of the answer; `None` to hang up.
    fn answer(&self, session: &Session, request: &RequestHeader, data: &[u8]) -> Option<Vec<u8>> {
        let style = session.style;
        let honest = match request.validate(&session.export, REQUEST_BYTES_MAX) {
            Err(Reject::Close) => return None,
            Err(Reject::Reply { error, message, .. }) => {
                reply::error(style, request.cookie, error, message).to_vec()
            }
            Ok(checked) if checked.operation == Operation::Disconnect => return None,
            Ok(checked) => self.perform(style, request, &checked, data),
        };
        Some(match self.conduct {
            Conduct::Finishes if request.offset > 0 => {
                reply::error(style, request.cookie, NbdError::Shutdown, "no").to_vec()
            }
            Conduct::Fails(error) => reply::error(style, request.cookie, error, "no").to_vec(),
            Conduct::ClosesMidReply => honest[..honest.len() / 2].to_vec(),
            Conduct::UnknownCookie => reply::error(style, !0, NbdError::Io, "whose?").to_vec(),
            Conduct::AnswersTwice => [&honest[..], &honest].concat(),
            Conduct::Garbage => b"200 OK, whatever that means here\r\n".to_vec(),
            Conduct::Silent => Vec::new(),
            Conduct::Endless => {
                let mut chunk = reply::error(style, request.cookie, NbdError::Io, "more").to_vec();
                // The flags follow the magic: no DONE.
                chunk[4..6].fill(0);
                chunk
            }
            _ => honest,
        })
    }

    fn perform(
        &self,
        style: ReplyStyle,
        request: &RequestHeader,
        checked: &Checked,
        data: &[u8],
    ) -> Vec<u8> {
        let start = usize::try_from(checked.offset).unwrap();
        let mut memory = self.memory.lock().unwrap();
        let range = &mut memory[start..start + usize::try_from(checked.length).unwrap()];
        match checked.operation {
            Operation::Read { .. } if self.conduct == Conduct::Pieces => {
                return pieces(checked, range);
            }
            Operation::Read { .. } => {
                let Checked { cookie, offset, length, .. } = *checked;
                let length = u32::try_from(length).unwrap();
                let header = reply::read_ok_header(style, cookie, offset, length);
                return [&header[..], range].concat();
            }
            Operation::Write { .. } => range.copy_from_slice(data),
            Operation::WriteZeroes { .. } | Operation::Trim { .. } => range.fill(0),
            _ => {}
        }
        reply::done(style, request.command, request.cookie).to_vec()
    }

    fn drain(mut self) -> std::io::Result<()> {
        let mut input = Vec::new();
        while more(&mut self.socket, &mut input)? {
            input.clear();
        }
        Ok(())
    }
}

/// The second half first; only then the first, if there is one, and a bare end.
fn pieces(checked: &Checked, data: &[u8]) -> Vec<u8> {
    let half = data.len() / 2;
    let mut bytes = Vec::new();
    for (start, part) in [(half, &data[half..]), (0, &data[..half])] {
        if part.is_empty() {
            continue;
        }
        let offset = checked.offset + start as u64;
        let length = u32::try_from(part.len()).unwrap();
        if part.iter().all(|&byte| byte == 0) {
            bytes.extend_from_slice(&reply::hole_chunk(
                Chunk::More,
                checked.cookie,
                offset,
                length,
            ));
        } else {
            let header = reply::data_chunk_header(Chunk::More, checked.cookie, offset, length);
            bytes.extend_from_slice(&header);
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(&reply::none(checked.cookie));
    bytes
}

/// Takes a whole request off the front of the input.
fn take_request(input: &mut Vec<u8>) -> Option<(RequestHeader, Vec<u8>)> {
    let header = input.first_chunk::<REQUEST_BYTES>()?;
    let request = RequestHeader::parse(header).expect("the client sends requests");
    let is_write = request.command == disktime_nbd::Command::Write;
    let end = REQUEST_BYTES + if is_write { usize::try_from(request.length).unwrap() } else { 0 };
    if input.len() < end {
        return None;
    }
    let payload = input[REQUEST_BYTES..end].to_vec();
    input.drain(..end);
    Some((request, payload))
}

fn more(socket: &mut UnixStream, input: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut buffer = vec![0; 64 << 10];
    let bytes = socket.read(&mut buffer)?;
    input.extend_from_slice(&buffer[..bytes]);
    Ok(bytes > 0)
}
