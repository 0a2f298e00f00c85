//! Clients in their handshakes: bounded in number, time and memory.
//!
//! When there is no room for another one, or no descriptor, one makes room: of the source that has most
//! visitors (a process at a Unix socket, an address at a TCP one) the one that has said nothing, or has
//! been here longest. So a flood shows its own visitors out.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use disktime_core::{Duration, Instant};
use disktime_nbd::{Exports, Handshake, ServerHandshake, Session};
use rustix::event::PollFlags;

use crate::clock;

/// Handshakes at once.
const VISITORS_MAX: usize = 1024;
/// How long a handshake may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Input that a handshake is given at once, in bytes: the longest answers, lists, are asked for with 16
/// bytes each, and the next piece is given once the answers to this one are sent.
const SIP: usize = 64;
/// Bytes of answers that all visitors together may leave unread.
const UNSENT_MAX: usize = 8 << 20;

/// From where a client came, as far as that is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Source {
    Process(i32),
    Address(IpAddr),
    Unknown,
}

impl Source {
    fn of(socket: &OwnedFd) -> Self {
        let peer = rustix::net::getpeername(socket).ok().flatten();
        if let Some(Ok(peer)) = peer.map(SocketAddr::try_from) {
            return Self::Address(peer.ip());
        }
        let credentials = rustix::net::sockopt::socket_peercred(socket);
        credentials.map_or(Self::Unknown, |peer| Self::Process(peer.pid.as_raw_nonzero().get()))
    }
}

/// A client in its handshake.
pub(super) struct Visitor {
    socket: UnixStream,
    source: Source,
    handshake: ServerHandshake,
    /// Read and not understood yet.
    input: Vec<u8>,
    /// Not sent yet.
    output: Vec<u8>,
    /// It has said something.
    spoke: bool,
    until: Instant,
}

/// Where a visitor stands.
enum Visit {
    Goes(Option<Session>),
    Stays,
}

impl AsFd for Visitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Visitors, in the order in which they came.
#[derive(Default)]
pub(super) struct Visitors {
    here: VecDeque<Visitor>,
}

impl Visitors {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Visitor> {
        self.here.iter()
    }

    /// When the first one will have been here for too long.
    pub(super) fn next(&self) -> Option<Instant> {
        self.here.front().map(|visitor| visitor.until)
    }

    /// Takes a client in, and shows one out if there is no room.
    pub(super) fn welcome(&mut self, socket: OwnedFd) {
        if self.here.len() == VISITORS_MAX {
            self.show_one_out();
        }
        self.here.extend(Visitor::new(socket));
    }

    /// Has one make room; false if nobody is here.
    pub(super) fn show_one_out(&mut self) -> bool {
        let mut counts = BTreeMap::new();
        self.here.iter().for_each(|visitor| *counts.entry(visitor.source).or_insert(0) += 1);
        let key = |(at, visitor): &(usize, &Visitor)| {
            (std::cmp::Reverse(counts[&visitor.source]), visitor.spoke, *at)
        };
        let goes = self.here.iter().enumerate().min_by_key(key).map(|(at, _)| at);
        goes.and_then(|at| self.here.remove(at)).is_some()
    }

    /// Goes on with the visitors that are ready, and closes those that have been here for too long.
    /// Answers visitors that have chosen an export.
    pub(super) fn go_on(
        &mut self,
        ready: &[bool],
        now: Instant,
        exports: &dyn Exports,
    ) -> Vec<(Visitor, Session)> {
        let mut done = Vec::new();
        let mut unsent = 0;
        let mut ready = ready.iter();
        for mut visitor in std::mem::take(&mut self.here) {
            let woken = ready.next().is_some_and(|ready| *ready);
            let visit = if woken { visitor.go_on(exports) } else { Visit::Stays };
            let own = visitor.output.len();
            match visit {
                Visit::Stays if visitor.until > now && (own == 0 || unsent + own <= UNSENT_MAX) => {
                    unsent += own;
                    self.here.push_back(visitor);
                }
                Visit::Goes(Some(session)) => done.push((visitor, session)),
                Visit::Stays | Visit::Goes(None) => {}
            }
        }
        done
    }
}

impl Visitor {
    fn new(socket: OwnedFd) -> Option<Self> {
        let source = Source::of(&socket);
        // Reading and writing are the same for every kind of stream socket.
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(true).ok()?;
        let handshake = ServerHandshake::new();
        let output = handshake.greeting().to_vec();
        let until = clock::now() + TIMEOUT;
        let (input, spoke) = (Vec::new(), false);
        let mut visitor = Self { socket, source, handshake, input, output, spoke, until };
        visitor.send().then_some(visitor)
    }

    /// The event that it waits for: that it takes its answers, or says more.
    pub(super) fn waits_for(&self) -> PollFlags {
        if self.output.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    /// Its socket, and what it has sent since its handshake ended.
    pub(super) fn leave(self) -> io::Result<(OwnedFd, Vec<u8>)> {
        self.socket.set_nonblocking(false)?;
        Ok((self.socket.into(), self.input))
    }

    /// Sends, reads and answers as far as that goes now.
    fn go_on(&mut self, exports: &dyn Exports) -> Visit {
        if !self.send() {
            return Visit::Goes(None);
        }
        if self.output.is_empty() && self.input.is_empty() && !self.read() {
            return Visit::Goes(None);
        }
        while self.output.is_empty() && !self.input.is_empty() {
            let sip = self.input.len().min(SIP);
            let outcome =
                self.handshake.handle_input(&self.input[..sip], exports, &mut self.output);
            let sent = self.send();
            let (consumed, handshake) = match outcome {
                Ok(outcome) if sent => outcome,
                Ok(_) => return Visit::Goes(None),
                Err(error) => {
                    tracing::debug!(%error, "a handshake failed");
                    return Visit::Goes(None);
                }
            };
            self.input.drain(..consumed);
            match handshake {
                Handshake::NeedMore => {}
                // Not offered here.
                Handshake::StartTls | Handshake::Aborted => return Visit::Goes(None),
                // The shard starts with nothing unsent, and the last answer is short: a client whose
                // socket has no room for it is not reading, and is not waited for.
                Handshake::Transmission(session) => {
                    return Visit::Goes(self.output.is_empty().then_some(session));
                }
            }
        }
        Visit::Stays
    }

    /// Reads what has come; false if the client is gone.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4 << 10];
        match self.socket.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.spoke = true;
                self.input.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitor(source: Source, spoke: bool) -> (Visitor, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut visitor = Visitor::new(ours.into()).unwrap();
        (visitor.source, visitor.spoke) = (source, spoke);
        (visitor, theirs)
    }

    /// The desk once showed out the visitor that had been there longest, which in a flood of
    /// connections was a good client in the middle of its handshake.
    #[test]
    fn a_flood_shows_its_own_visitors_out() {
        let (flood, good) = (Source::Process(1), Source::Process(2));
        let mut visitors = Visitors::default();
        let mut theirs = Vec::new();
        for (source, spoke) in [(good, true), (flood, true), (flood, false), (flood, false)] {
            let (visitor, socket) = visitor(source, spoke);
            visitors.here.push_back(visitor);
            theirs.push(socket);
        }
        let left = |visitors: &Visitors| {
            visitors.iter().map(|visitor| (visitor.source, visitor.spoke)).collect::<Vec<_>>()
        };
        assert!(visitors.show_one_out());
        assert_eq!(left(&visitors), [(good, true), (flood, true), (flood, false)]);
        assert!(visitors.show_one_out());
        assert_eq!(left(&visitors), [(good, true), (flood, true)]);
        // Each source has one visitor: the one that came first goes.
        assert!(visitors.show_one_out() && visitors.show_one_out() && !visitors.show_one_out());
    }

    #[test]
    fn a_process_is_known_by_its_socket() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!(Source::of(&ours.into()), Source::Process(pid));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!(Source::of(&server.into()), Source::Address([127, 0, 0, 1].into()));
    }

    struct Many;

    impl Exports for Many {
        fn list(&self, each: &mut dyn FnMut(&disktime_nbd::ExportInfo)) {
            let mut info = self.find("x").unwrap();
            for at in 0..4000 {
                info.name = format!("a virtual disk with a long name, number {at}");
                each(&info);
            }
        }

        fn find(&self, name: &str) -> Option<disktime_nbd::ExportInfo> {
            Some(disktime_nbd::ExportInfo {
                name: name.to_owned(),
                description: "described at some length".to_owned(),
                size_bytes: 1 << 20,
                flags: disktime_nbd::TransmissionFlags::EMPTY,
                block_sizes: disktime_nbd::BlockSizes::new(1, 4096, 1 << 20).unwrap(),
            })
        }
    }

    /// A visitor could have 4 MiB of lists prepared at once, times as many visitors as there were.
    #[test]
    fn lists_that_nobody_reads_are_bounded() {
        let mut visitors = Visitors::default();
        let mut theirs = Vec::new();
        let list = [b"IHAVEOPT".as_slice(), &[0, 0, 0, 3, 0, 0, 0, 0]].concat();
        for _ in 0..100 {
            let (ours, mut their) = UnixStream::pair().unwrap();
            visitors.welcome(ours.into());
            their.write_all(&[&[0, 0, 0, 3][..], &list.repeat(60)].concat()).unwrap();
            theirs.push(their);
        }
        for _ in 0..5 {
            let ready = vec![true; visitors.here.len()];
            assert!(visitors.go_on(&ready, clock::now(), &Many).is_empty());
            let unsent = visitors.iter().map(|visitor| visitor.output.len()).sum::<usize>();
            assert!(unsent <= UNSENT_MAX, "{unsent}");
        }
        assert!(visitors.iter().count() > 4, "those within the bound stay");
    }
}
