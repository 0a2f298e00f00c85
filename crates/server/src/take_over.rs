//! The hand-over of a running daemon to its successor, over the daemon's own socket.
//!
//! The predecessor offers its listeners, and what the quick probe of its devices has found. The
//! successor binds, reads and checks what it can, then says *go*: until then the predecessor serves as
//! if nobody had asked, and if the successor fails nothing has happened. After *go* the predecessor
//! takes no more requests, finishes those taken, lets go of its devices and hands its clients over, each
//! between two requests. Its end, or the end of its process, lets the successor open the devices.
//!
//! Does not know: shards, engines, how clients are served.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use disktime_core::cost::PriceList;
use disktime_nbd::reply::ReplyStyle;
use disktime_nbd::{Session, TransmissionFlags};
use disktime_profiler::PricesFile;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::daemon_socket::{AskError, Caller, DaemonSocket};
use crate::frontend::nbd::Parted;
use crate::listener::{Inherited, Listener};
use crate::questions::{Answer, Question, ask};

/// The packets' version: daemons of different ones don't hand over to each other.
pub(crate) const VERSION: u32 = 2;
/// How long a predecessor may take to let go: 5 s for its requests, and as long for what it does when it hears *go*.
const LET_GO: Duration = Duration::from_secs(15);

#[derive(Serialize, Deserialize)]
#[serde(tag = "packet", rename_all = "kebab-case", deny_unknown_fields)]
enum Packet {
    /// A Unix or TCP listener; comes with its socket.
    Listener {
        path: Option<PathBuf>,
        owned: bool,
    },
    /// The daemon's own socket; comes with it.
    Own {
        path: PathBuf,
    },
    /// A device, and the costs that its quick probe found, if it did.
    Looked {
        device: String,
        depth: u32,
        prices: Option<PricesFile>,
    },
    /// The end of the offer: the successor may say go.
    Offered,
    Go,
    /// The answer to *go* of a daemon that was told to end meanwhile: nothing is handed over.
    Ends,
    /// A client; comes with its socket, and with another packet of bytes if there are any unread.
    Client(Terms),
    Done,
}

/// The terms of a client's session: the export's name, size and flags as the client was told.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Terms {
    pub(crate) vdisk: String,
    pub(crate) size: u64,
    pub(crate) flags: u16,
    #[serde(with = "Style")]
    pub(crate) style: ReplyStyle,
    pub(crate) contexts: Vec<u32>,
    /// How many of the next bytes are data of a write that was refused.
    pub(crate) skip: usize,
    /// Bytes that the predecessor has received and not acted on.
    unread: usize,
}

impl Terms {
    /// Whether what the client was told is true of its export as it is now.
    pub(crate) fn are_true(&self, flags: TransmissionFlags, size: u64, surveyed: bool) -> bool {
        let told = TransmissionFlags::from_wire(self.flags);
        let now = flags.advertised(self.style != ReplyStyle::Simple);
        let read_only = |it: TransmissionFlags| it.contains(TransmissionFlags::READ_ONLY);
        let may_the_same = now.contains(told) && read_only(now) == read_only(told);
        may_the_same && size >= self.size && (surveyed || self.contexts.is_empty())
    }
}

/// [`ReplyStyle`] in a packet.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ReplyStyle", rename_all = "kebab-case")]
enum Style {
    Simple,
    Structured,
    Extended,
}

/// A device of a predecessor, with what its quick probe found.
#[derive(Clone)]
pub(crate) struct Looked {
    pub(crate) device: String,
    pub(crate) depth: u32,
    pub(crate) prices: Option<PriceList>,
}

/// A client that a predecessor has handed over.
pub(crate) struct HandedOver {
    pub(crate) terms: Terms,
    pub(crate) socket: OwnedFd,
    pub(crate) unread: Vec<u8>,
}

/// A daemon that wants to take over.
pub struct Successor(Caller);

impl Successor {
    pub(crate) fn new(caller: Caller) -> Self {
        Self(caller)
    }

    /// Says no to one to which nothing was offered.
    ///
    /// # Errors
    /// If it is gone.
    pub fn refuse(&self, why: &str) -> io::Result<()> {
        self.0.say(&Answer::no(why.to_owned()))
    }

    /// Says to one that has said go that this daemon ends without a hand-over.
    pub fn ends(&self) {
        let _it_may_be_gone = self.0.say(&Packet::Ends);
    }

    /// Waits until one to which everything was offered says go, for 5 s at most. Not to be called where others
    /// wait: the successor may be stopped.
    ///
    /// # Errors
    /// If it does not.
    pub fn says_go(&self) -> io::Result<()> {
        match self.0.hear()? {
            Packet::Go => Ok(()),
            _ => Err(io::Error::other("the successor did not say go")),
        }
    }

    /// Offers everything that the successor needs before it says go.
    pub(crate) fn offer<'a>(
        &self,
        listeners: impl Iterator<Item = &'a Listener>,
        own: &DaemonSocket,
        looked: impl Iterator<Item = Looked>,
    ) -> io::Result<()> {
        self.0.say(&Answer::of(Vec::new()))?;
        for listener in listeners {
            let (path, owned) = listener.path();
            let path = path.map(Path::to_owned);
            self.0.say_with(&Packet::Listener { path, owned }, listener.as_fd())?;
        }
        self.0.say_with(&Packet::Own { path: own.path().to_owned() }, own.as_fd())?;
        for Looked { device, depth, prices } in looked {
            let prices = prices.as_ref().map(PricesFile::from);
            self.0.say(&Packet::Looked { device, depth, prices })?;
        }
        self.0.say(&Packet::Offered)
    }

    /// Hands a client over.
    pub(crate) fn give(&self, client: Parted) -> io::Result<()> {
        let Parted { socket, session, unread, skip } = client;
        let Session { export, style, contexts } = session;
        let packet = Packet::Client(Terms {
            vdisk: export.name,
            size: export.size_bytes,
            flags: export.flags.to_wire(),
            style,
            contexts,
            skip,
            unread: unread.len(),
        });
        self.0.say_with(&packet, socket.as_fd())?;
        if unread.is_empty() { Ok(()) } else { self.0.say_bytes(&unread) }
    }

    /// Everything was let go.
    pub(crate) fn done(&self) -> io::Result<()> {
        self.0.say(&Packet::Done)
    }
}

/// A running daemon that is to be taken over, before it lets go.
pub struct Predecessor {
    caller: Caller,
    listeners: Vec<Listener>,
    /// Paths of sockets whose files become this daemon's.
    owned: BTreeSet<PathBuf>,
    own: (OwnedFd, PathBuf),
    looked: Vec<Looked>,
}

impl Predecessor {
    /// Asks the daemon of a state directory to hand over. It goes on until this one is started.
    ///
    /// # Errors
    /// If there is no daemon, or it refuses.
    pub fn find(state: &Path) -> Result<Self, AskError> {
        let (_, caller) = ask(state, &Question::TakeOver { version: VERSION })?;
        Self::offered(caller).map_err(|error| AskError::Io { path: state.to_owned(), error })
    }

    fn offered(caller: Caller) -> io::Result<Self> {
        let (mut listeners, mut looked, mut own) = (Vec::new(), Vec::new(), None);
        let mut found = BTreeSet::new();
        loop {
            match caller.hear_with()? {
                (Packet::Listener { path, owned }, Some(socket)) => {
                    found.extend(path.clone().filter(|_| owned));
                    listeners.push(Listener::handed_over(socket, path));
                }
                (Packet::Own { path }, Some(socket)) => own = Some((socket, path)),
                (Packet::Looked { device, depth, prices }, _) => {
                    looked.push(Looked {
                        device,
                        depth,
                        prices: prices.as_ref().map(PriceList::from),
                    });
                }
                (Packet::Offered, _) => break,
                _ => return Err(io::Error::other("it offered something else than was agreed")),
            }
        }
        let own = own.ok_or_else(|| io::Error::other("it did not offer its own socket"))?;
        Ok(Self { caller, listeners, owned: found, own, looked })
    }

    /// The listeners, in place of sockets of the service manager.
    pub(crate) fn listeners(&mut self) -> Inherited {
        Inherited::of(std::mem::take(&mut self.listeners))
    }

    /// The predecessor's process, if that can be seen from here.
    pub(crate) fn process(&self) -> Option<Pid> {
        self.caller.process()
    }

    /// Has the predecessor let go; answers its clients. From then on this daemon is the one to serve.
    pub(crate) fn let_go(self) -> io::Result<(Vec<HandedOver>, TakenOver)> {
        let Self { caller, own, owned, looked, .. } = self;
        caller.wait_for(LET_GO)?;
        caller.say(&Packet::Go)?;
        let mut clients = Vec::new();
        loop {
            match caller.hear_with() {
                Ok((Packet::Client(terms), Some(socket))) => {
                    let unread = match terms.unread {
                        0 => Vec::new(),
                        bytes => caller.hear_bytes(bytes)?,
                    };
                    clients.push(HandedOver { terms, socket, unread });
                }
                Ok((Packet::Done, _)) => break,
                Ok((Packet::Ends, _)) => {
                    let why =
                        "the running daemon was told to end meanwhile, and hands nothing over";
                    return Err(io::Error::other(why));
                }
                // The end of its process lets go as well.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Ok(_) => return Err(io::Error::other("it left something else than was agreed")),
                Err(error) => return Err(error),
            }
        }
        let own = DaemonSocket::handed_over(own.0, own.1);
        Ok((clients, TakenOver { own, owned, looked }))
    }
}

/// The things of a predecessor that this daemon has now.
pub(crate) struct TakenOver {
    pub(crate) own: DaemonSocket,
    /// Paths of sockets whose files are this daemon's.
    pub(crate) owned: BTreeSet<PathBuf>,
    pub(crate) looked: Vec<Looked>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that was told of what is gone would be refused what it was promised, or would read what
    /// is not there.
    #[test]
    fn terms_are_true_while_the_export_has_all_that_was_told() {
        let terms = |contexts: &[u32]| Terms {
            vdisk: "a".to_owned(),
            size: 4096,
            flags: told().advertised(true).to_wire(),
            style: ReplyStyle::Structured,
            contexts: contexts.to_vec(),
            skip: 0,
            unread: 0,
        };
        let (plain, mapped) = (terms(&[]), terms(&[0]));
        assert!(plain.are_true(told(), 4096, false) && mapped.are_true(told(), 4096, true));
        assert!(!mapped.are_true(told(), 4096, false), "it was told that it can ask for holes");
        assert!(plain.are_true(told(), 8192, false), "a larger one has all of it");
        assert!(!plain.are_true(told(), 4095, false), "a smaller one lacks its end");
        let more = told().with(TransmissionFlags::CACHE);
        assert!(plain.are_true(more, 4096, false), "one that can do more can do this");
        let less = told().without(TransmissionFlags::TRIM);
        assert!(!plain.are_true(less, 4096, false), "it was told that it may trim");
        let sealed = told().with(TransmissionFlags::READ_ONLY);
        assert!(!plain.are_true(sealed, 4096, false), "it was told that it may write");
    }

    fn told() -> TransmissionFlags {
        TransmissionFlags::FLUSH.with(TransmissionFlags::TRIM)
    }
}
