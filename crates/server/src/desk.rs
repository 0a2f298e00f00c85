//! The front desk: accepts clients and negotiates with them, then hands them to their shard.
//!
//! One thread for all listeners, because an export, and with it the shard, is known only when the
//! handshake ends. Bounded: so many handshakes at once, each so long; when the desk is full the one
//! that has taken longest is shown out.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use disktime_core::{Duration, Instant};
use disktime_nbd::{ExportInfo, Exports, Handshake, ServerHandshake, Session};
use rustix::event::{PollFd, PollFlags, poll};

use crate::clock;
use crate::config::Listen;
use crate::handover::patiently;
use crate::shard::{Message, ShardHandle};

/// Handshakes at once.
const VISITORS_MAX: usize = 64;
/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the listeners are left alone when the system can't accept.
const REST: Duration = Duration::from_millis(100);
/// Bytes of replies that a visitor may leave unread before it is shown out.
const UNSENT_MAX: usize = 8 << 20;

/// An export, and where it is served.
pub(crate) struct Entry {
    pub(crate) info: ExportInfo,
    pub(crate) shard: usize,
    pub(crate) vdisk: u32,
}

/// Every export there is.
pub(crate) struct Catalog(pub(crate) Vec<Entry>);

impl Catalog {
    fn entry(&self, name: &str) -> Option<&Entry> {
        match self.0.as_slice() {
            [only] if name.is_empty() => Some(only),
            all => all.iter().find(|entry| entry.info.name == name),
        }
    }
}

impl Exports for Catalog {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        self.0.iter().for_each(|entry| each(&entry.info));
    }

    /// The export of that name; the empty name is the only export, if there is only one.
    fn find(&self, name: &str) -> Option<ExportInfo> {
        self.entry(name).map(|entry| entry.info.clone())
    }
}

/// A bound listener.
pub(crate) enum Listener {
    Unix(UnixListener, std::path::PathBuf),
    Tcp(TcpListener),
}

impl Listener {
    /// Binds; a Unix socket left by a dead server is replaced, a live one is not. A dying server is
    /// waited for.
    pub(crate) fn bind(listen: &Listen) -> io::Result<Self> {
        patiently(|| Self::bind_now(listen), is_taken)
    }

    fn bind_now(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Unix(path) => {
                take_place(path, std::os::unix::net::UnixStream::connect(path).map(drop))?;
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(listener, path.clone()))
            }
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(listener))
            }
        }
    }

    /// The address clients use: the port is known now if it was left open.
    pub(crate) fn address(&self) -> io::Result<Listen> {
        Ok(match self {
            Self::Unix(_, path) => Listen::Unix(path.clone()),
            Self::Tcp(listener) => Listen::Tcp(listener.local_addr()?),
        })
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        Ok(match self {
            Self::Unix(listener, _) => listener.accept()?.0.into(),
            Self::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                stream.into()
            }
        })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// Whether a place may be free soon.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

/// Makes room for a socket at a path: what a dead server left is removed, anything else is not.
/// `found` is what connecting there said.
pub(crate) fn take_place(path: &Path, found: io::Result<()>) -> io::Result<()> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type()) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    match found {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        // One of another kind answers with another error.
        Ok(()) | Err(_) => Err(io::ErrorKind::AddrInUse.into()),
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _gone_already = std::fs::remove_file(path);
        }
    }
}

/// A client in its handshake.
struct Visitor {
    socket: std::os::unix::net::UnixStream,
    handshake: ServerHandshake,
    /// Read and not understood yet.
    input: Vec<u8>,
    /// Not sent yet.
    output: Vec<u8>,
    until: Instant,
}

/// Where a visitor stands.
enum Visit {
    Goes(Option<Session>),
    Stays,
}

/// The desk's state; lives on its own thread.
pub(crate) struct Desk {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) shards: Vec<ShardHandle>,
    /// Readable when the desk is to close.
    pub(crate) closing: Arc<OwnedFd>,
}

impl Desk {
    /// Serves until told to close.
    pub(crate) fn run(self) -> io::Result<()> {
        let mut visitors: VecDeque<Visitor> = VecDeque::new();
        let mut resting = false;
        loop {
            let (closing, ready) = self.wait(&visitors, std::mem::take(&mut resting))?;
            if closing {
                return Ok(());
            }
            let (listening, visiting) = ready.split_at(self.listeners.len());
            let mut visiting = visiting.iter();
            let now = clock::now();
            let mut stay = VecDeque::new();
            for mut visitor in visitors.drain(..) {
                let woken = visiting.next().is_some_and(|ready| *ready);
                match if woken { visitor.go_on(&self.catalog) } else { Visit::Stays } {
                    Visit::Stays if visitor.until > now => stay.push_back(visitor),
                    Visit::Goes(Some(session)) => self.hand_over(visitor, session),
                    Visit::Stays | Visit::Goes(None) => {}
                }
            }
            visitors = stay;
            for (listener, ready) in self.listeners.iter().zip(listening) {
                resting |= *ready && !admit(listener, &mut visitors);
            }
        }
    }

    /// Waits for anything to happen, at the listeners too unless `resting`; answers whether to
    /// close, and which of the listeners and visitors are ready.
    fn wait(&self, visitors: &VecDeque<Visitor>, resting: bool) -> io::Result<(bool, Vec<bool>)> {
        let mut polled = vec![PollFd::new(&*self.closing, PollFlags::IN)];
        let listens = if resting { PollFlags::empty() } else { PollFlags::IN };
        polled.extend(self.listeners.iter().map(|listener| PollFd::new(listener, listens)));
        polled.extend(visitors.iter().map(|visitor| {
            // A visitor is read only once it has taken its answers.
            let answered = visitor.output.is_empty();
            let flags = if answered { PollFlags::IN } else { PollFlags::OUT };
            PollFd::new(&visitor.socket, flags)
        }));
        let patience = visitors.front().map(|visitor| visitor.until);
        let until = patience.into_iter().chain(resting.then(|| clock::now() + REST)).min();
        let left = until.map(|until| until.since(clock::now()));
        let timeout = left.map(|left| rustix::time::Timespec {
            tv_sec: i64::try_from(left.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(left.as_nanos() % 1_000_000_000).unwrap_or(0),
        });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
        let closing = ready.next().expect("the first one is the desk's own");
        Ok((closing, ready.collect()))
    }

    fn hand_over(&self, visitor: Visitor, session: Session) {
        let Some(entry) = self.catalog.entry(&session.export.name) else { return };
        let Visitor { socket, input: unread, .. } = visitor;
        if let Err(error) = socket.set_nonblocking(false) {
            tracing::debug!(%error, "a client went while it was handed over");
            return;
        }
        let socket = socket.into();
        let vdisk = entry.vdisk;
        self.shards[entry.shard].tell(Message::Client { socket, vdisk, session, unread });
    }
}

/// Accepts whoever waits at a listener; false if the system can't take anyone now.
fn admit(listener: &Listener, visitors: &mut VecDeque<Visitor>) -> bool {
    match listener.accept() {
        Ok(socket) => {
            if visitors.len() == VISITORS_MAX {
                visitors.pop_front();
            }
            visitors.extend(Visitor::new(socket));
            true
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
        Err(error) => {
            // Out of descriptors, most likely: others' handshakes go on and free some.
            tracing::warn!(%error, "a client could not be accepted");
            false
        }
    }
}

impl Visitor {
    fn new(socket: OwnedFd) -> Option<Self> {
        // Reading and writing are the same for every kind of stream socket.
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true).ok()?;
        let handshake = ServerHandshake::new();
        let output = handshake.greeting().to_vec();
        let until = clock::now() + PATIENCE;
        let mut visitor = Self { socket, handshake, input: Vec::new(), output, until };
        visitor.send().then_some(visitor)
    }

    /// Reads, answers and sends as far as that goes now.
    fn go_on(&mut self, catalog: &Catalog) -> Visit {
        let mut bytes = [0; 16 << 10];
        let read = if self.output.is_empty() {
            self.socket.read(&mut bytes)
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        };
        match read {
            Ok(0) => return Visit::Goes(None),
            Ok(count) => self.input.extend_from_slice(&bytes[..count]),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(_) => return Visit::Goes(None),
        }
        let outcome = self.handshake.handle_input(&self.input, catalog, &mut self.output);
        let sent = self.send();
        let (consumed, handshake) = match outcome {
            Ok(outcome) if sent && self.output.len() <= UNSENT_MAX => outcome,
            Ok(_) => return Visit::Goes(None),
            Err(error) => {
                tracing::debug!(%error, "a handshake failed");
                return Visit::Goes(None);
            }
        };
        self.input.drain(..consumed);
        match handshake {
            Handshake::NeedMore => Visit::Stays,
            Handshake::Aborted => Visit::Goes(None),
            Handshake::Transmission(session) => {
                // The shard starts with nothing unsent: wait for the last reply to leave.
                if !self.output.is_empty() && !self.send_all() {
                    return Visit::Goes(None);
                }
                Visit::Goes(Some(session))
            }
        }
    }

    /// Sends what can be sent now; false if the client is gone.
    fn send(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.socket.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// The last reply of a handshake is short: a client whose socket has no room for it is not
    /// reading, and is not waited for.
    fn send_all(&mut self) -> bool {
        self.send() && self.output.is_empty()
    }
}
