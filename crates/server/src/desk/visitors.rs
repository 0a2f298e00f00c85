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
use std::sync::Arc;

use disktime_core::{Duration, Instant};
use disktime_nbd::{self as nbd, Exports, Handshake, ServerHandshake, Session};
use rustix::event::PollFlags;

use crate::clock;
use crate::config::TlsUse;
use crate::tls::{Channel, Tls};

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

/// Where visitors come through.
pub(super) trait Doors {
    /// The exports that are seen through a door, with this TLS.
    fn view<'a>(&'a self, door: usize, tls: Option<&'a Channel>) -> Box<dyn Exports + 'a>;

    /// A visitor has chosen an export, and was told that it may begin.
    fn let_in(&self, visitor: Visitor, session: Session);
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
    /// The door that it came through.
    door: usize,
    /// Where its TLS would come from, and its TLS.
    offered: Option<Arc<Tls>>,
    tls: Option<Box<Channel>>,
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

    /// Takes a client in that came through a door, and shows one out if there is no room.
    pub(super) fn welcome_at(
        &mut self,
        socket: OwnedFd,
        door: usize,
        usage: TlsUse,
        tls: Option<&Arc<Tls>>,
    ) {
        if self.here.len() == VISITORS_MAX {
            self.show_one_out();
        }
        self.here.extend(Visitor::new(socket, door, usage, tls));
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

    /// Goes on with the visitors that are ready, and closes those that have been here for too long. One
    /// that has chosen an export is let in before the next is told whether there is a place.
    pub(super) fn go_on(&mut self, ready: &[bool], now: Instant, doors: &impl Doors) {
        let mut unsent = 0;
        let mut ready = ready.iter();
        for mut visitor in std::mem::take(&mut self.here) {
            let woken = ready.next().is_some_and(|ready| *ready);
            let visit = if woken { visitor.go_on(doors) } else { Visit::Stays };
            let own = visitor.output.len();
            match visit {
                Visit::Stays if visitor.until > now && (own == 0 || unsent + own <= UNSENT_MAX) => {
                    unsent += own;
                    self.here.push_back(visitor);
                }
                Visit::Goes(Some(session)) => doors.let_in(visitor, session),
                Visit::Stays | Visit::Goes(None) => {}
            }
        }
    }
}

impl Visitor {
    fn new(socket: OwnedFd, door: usize, usage: TlsUse, tls: Option<&Arc<Tls>>) -> Option<Self> {
        let source = Source::of(&socket);
        // Reading and writing are the same for every kind of stream socket.
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(true).ok()?;
        let handshake = ServerHandshake::with_tls(match usage {
            TlsUse::Off => nbd::Tls::Off,
            TlsUse::Allow => nbd::Tls::Offered,
            TlsUse::Require => nbd::Tls::Required,
        });
        let output = handshake.greeting().to_vec();
        let until = clock::now() + TIMEOUT;
        let (input, spoke, offered, tls) = (Vec::new(), false, tls.cloned(), None);
        let mut visitor =
            Self { socket, source, handshake, input, output, spoke, until, door, offered, tls };
        visitor.send().then_some(visitor)
    }

    /// The event that it waits for: that it takes its answers, or says more.
    pub(super) fn waits_for(&self) -> PollFlags {
        if self.output.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    /// Its socket, what it has sent since its handshake ended, and its TLS.
    pub(super) fn leave(self) -> io::Result<(OwnedFd, Vec<u8>, Option<Box<Channel>>)> {
        self.socket.set_nonblocking(false)?;
        Ok((self.socket.into(), self.input, self.tls))
    }

    /// TLS begins: what was not read as the client's words in the clear are its first bytes.
    fn start_tls(&mut self) -> io::Result<()> {
        let offered = self.offered.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        self.tls = Some(Box::new(offered.begin().map_err(io::Error::other)?));
        let wire = std::mem::take(&mut self.input);
        self.unseal(&wire)
    }

    /// Takes bytes of the wire under TLS.
    fn unseal(&mut self, wire: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let opened = tls.open(wire, &mut self.input);
        // Also the reason why it failed, for the client.
        tls.answer(&mut self.output)?;
        opened
    }

    /// Sends, reads and answers as far as that goes now.
    fn go_on(&mut self, doors: &impl Doors) -> Visit {
        if !self.send() {
            return Visit::Goes(None);
        }
        if self.output.is_empty() && self.input.is_empty() && !self.read() {
            return Visit::Goes(None);
        }
        while self.output.is_empty() && !self.input.is_empty() {
            let sip = self.input.len().min(SIP);
            let mut said = Vec::new();
            let view = doors.view(self.door, self.tls.as_deref());
            let outcome = self.handshake.handle_input(&self.input[..sip], &*view, &mut said);
            drop(view);
            let sealed = match &mut self.tls {
                Some(tls) => tls.seal(&said, &mut self.output).is_ok(),
                None => {
                    self.output.append(&mut said);
                    true
                }
            };
            let sent = self.send() && sealed;
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
                Handshake::StartTls => {
                    if let Err(error) = self.start_tls() {
                        tracing::debug!(%error, "a TLS handshake failed");
                        let _why = self.send();
                        return Visit::Goes(None);
                    }
                    if !self.send() {
                        return Visit::Goes(None);
                    }
                }
                Handshake::Aborted => return Visit::Goes(None),
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
                if self.tls.is_none() {
                    self.input.extend_from_slice(&bytes[..count]);
                    return true;
                }
                let opened = self.unseal(&bytes[..count]);
                if let Err(error) = &opened {
                    tracing::debug!(%error, "a TLS handshake failed");
                }
                self.send() && opened.is_ok()
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
    use std::cell::Cell;

    use super::*;

    fn visitor(source: Source, spoke: bool) -> (Visitor, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut visitor = Visitor::new(ours.into(), 0, TlsUse::Off, None).unwrap();
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

    impl Doors for Many {
        fn view<'a>(&'a self, _: usize, _: Option<&'a Channel>) -> Box<dyn Exports + 'a> {
            Box::new(Many)
        }

        fn let_in(&self, _: Visitor, _: Session) {
            panic!("nobody has chosen an export");
        }
    }

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
            visitors.welcome_at(ours.into(), 0, TlsUse::Off, None);
            their.write_all(&[&[0, 0, 0, 3][..], &list.repeat(60)].concat()).unwrap();
            theirs.push(their);
        }
        for _ in 0..5 {
            let ready = vec![true; visitors.here.len()];
            visitors.go_on(&ready, clock::now(), &Many);
            let unsent = visitors.iter().map(|visitor| visitor.output.len()).sum::<usize>();
            assert!(unsent <= UNSENT_MAX, "{unsent}");
        }
        assert!(visitors.iter().count() > 4, "those within the bound stay");
    }

    /// An export with one place.
    #[derive(Default)]
    struct One(Cell<u32>);

    impl Doors for One {
        fn view<'a>(&'a self, _: usize, _: Option<&'a Channel>) -> Box<dyn Exports + 'a> {
            Box::new(self)
        }

        fn let_in(&self, _: Visitor, _: Session) {
            self.0.set(self.0.get() + 1);
        }
    }

    impl Exports for &One {
        fn list(&self, _: &mut dyn FnMut(&disktime_nbd::ExportInfo)) {}

        fn find(&self, name: &str) -> Option<disktime_nbd::ExportInfo> {
            Many.find(name)
        }

        fn admit(&self, _: &str) -> Result<(), String> {
            if self.0.get() == 0 { Ok(()) } else { Err("no place".to_owned()) }
        }
    }

    /// Visitors that asked at once were all told that they may begin, and all but the first were hung up on
    /// without a word.
    #[test]
    fn visitors_that_ask_at_once_are_told_of_each_others_places() {
        let (mut visitors, one) = (Visitors::default(), One::default());
        let go =
            [b"IHAVEOPT".as_slice(), &[0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 1, b'x', 0, 0]].concat();
        let mut theirs = Vec::new();
        for _ in 0..3 {
            let (ours, mut their) = UnixStream::pair().unwrap();
            visitors.welcome_at(ours.into(), 0, TlsUse::Off, None);
            their.write_all(&[&[0, 0, 0, 3][..], &go].concat()).unwrap();
            their.set_nonblocking(true).unwrap();
            theirs.push(their);
        }
        visitors.go_on(&[true; 3], clock::now(), &one);
        let refused = theirs.into_iter().filter_map(|mut their| {
            let mut said = [0; 400];
            let count = their.read(&mut said).unwrap();
            said[..count].windows(8).any(|words| words == b"no place").then_some(())
        });
        assert_eq!((one.0.get(), refused.count(), visitors.iter().count()), (1, 2, 2));
    }
}
