//! The daemon's own socket in its state directory: what its operator's commands ask of it. It also says
//! that a daemon uses the directory: no other one has it meanwhile.
//!
//! One packet is a question, one the answer, both in TOML. Only the daemon's own user can connect.
//! Does not know: what questions mean.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::cmsg_space;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, connect,
    listen, recv, recvmsg, send, sendmsg, socket_with,
};
use rustix::process::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::SocketAccess;
use crate::handover::patiently;
use crate::listener::{BindError, bind_unix, take_place};

/// The socket's name in the state directory.
const NAME: &str = "daemon.sock";
/// Commands that may wait to be accepted.
const BACKLOG: i32 = 16;
/// The longest packet in bytes.
const PACKET: usize = 64 << 10;
/// The longest packet of bytes.
const BYTES_MAX: usize = 128 << 10;
/// How long the other side may take for a packet.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why a daemon was not asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No daemon is there.
    #[error(
        "no daemon listens at {}: start one with this `state`, or name its configuration",
        .0.display()
    )]
    NoDaemon(PathBuf),
    /// It refuses.
    #[error("{0}")]
    Refused(String),
    /// The system fails.
    #[error("{}: {error}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// The socket, bound; its file is gone when it is dropped.
pub(crate) struct DaemonSocket {
    socket: OwnedFd,
    path: PathBuf,
}

impl DaemonSocket {
    /// Binds in a state directory, which is made if it is not there. A dying daemon is waited for.
    pub(crate) fn bind(state: &Path) -> Result<Self, BindError> {
        std::fs::create_dir_all(state)?;
        let path = state.join(NAME);
        patiently(|| Self::bind_now(&path), BindError::is_in_use)
    }

    fn bind_now(path: &Path) -> Result<Self, BindError> {
        take_place(path, dial(path).map(drop))?;
        let socket = bind_unix(path, SocketType::SEQPACKET, &SocketAccess::default())?;
        listen(&socket, BACKLOG).map_err(io::Error::from)?;
        Ok(Self { socket, path: path.to_owned() })
    }

    /// A socket that a predecessor has bound: its file is this daemon's from now on.
    pub(crate) fn handed_over(socket: OwnedFd, path: PathBuf) -> Self {
        // Processes that connect see the one that listened last.
        if let Err(error) = listen(&socket, BACKLOG) {
            tracing::debug!(%error, "commands take this daemon for its predecessor");
        }
        Self { socket, path }
    }

    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A command that has connected.
    pub(crate) fn accept(&self) -> io::Result<Caller> {
        let socket = accept_with(&self.socket, SocketFlags::CLOEXEC)?;
        Caller::new(socket)
    }
}

impl AsFd for DaemonSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for DaemonSocket {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_file(&self.path);
    }
}

/// One end of a connection between a daemon and a command.
pub(crate) struct Caller {
    pub(crate) socket: OwnedFd,
}

impl Caller {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
        set_socket_timeout(&socket, Timeout::Send, Some(TIMEOUT))?;
        Ok(Self { socket })
    }

    /// Connects to the daemon of a state directory.
    pub(crate) fn dial(state: &Path) -> Result<Self, AskError> {
        let path = state.join(NAME);
        let connected = dial(&path).and_then(Self::new);
        connected.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::NoDaemon(path),
            _ => AskError::Io { path, error },
        })
    }

    /// The process at the other end, if it is one of this process's namespace.
    pub(crate) fn process(&self) -> Option<Pid> {
        // The kernel says 0 of a process that can't be seen from here.
        let credentials = socket_peercred(&self.socket).ok()?;
        Pid::from_raw(credentials.pid.as_raw_pid())
    }

    /// Waits so long for each packet from now on.
    pub(crate) fn wait_for(&self, longest: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(&self.socket, Timeout::Recv, Some(longest))?)
    }

    /// Sends a packet.
    pub(crate) fn say(&self, what: &impl Serialize) -> io::Result<()> {
        let text = toml::to_string(what).map_err(io::Error::other)?;
        send(&self.socket, text.as_bytes(), SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Sends a packet with a descriptor.
    pub(crate) fn say_with(&self, what: &impl Serialize, with: BorrowedFd<'_>) -> io::Result<()> {
        let text = toml::to_string(what).map_err(io::Error::other)?;
        let descriptors = [with];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let bytes = [IoSlice::new(text.as_bytes())];
        sendmsg(&self.socket, &bytes, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Sends a packet of bytes.
    pub(crate) fn say_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        send(&self.socket, bytes, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives a packet.
    pub(crate) fn hear<T: DeserializeOwned>(&self) -> io::Result<T> {
        self.hear_with().map(|(what, _)| what)
    }

    /// Receives a packet, with a descriptor if it has one.
    pub(crate) fn hear_with<T: DeserializeOwned>(&self) -> io::Result<(T, Option<OwnedFd>)> {
        let mut bytes = vec![0; PACKET];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut bytes)];
        let heard = recvmsg(&self.socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC);
        let heard = heard.map_err(|error| match error {
            rustix::io::Errno::AGAIN => {
                io::Error::new(io::ErrorKind::TimedOut, "the other side does not answer in time")
            }
            error => error.into(),
        })?;
        let with = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        if heard.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = std::str::from_utf8(&bytes[..heard.bytes]).map_err(io::Error::other)?;
        Ok((toml::from_str(text).map_err(io::Error::other)?, with))
    }

    /// Receives a packet of so many bytes.
    pub(crate) fn hear_bytes(&self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count.min(BYTES_MAX)];
        let (heard, _) = recv(&self.socket, bytes.as_mut_slice(), RecvFlags::empty())?;
        if heard == count { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

fn dial(path: &Path) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}
