//! A connected stream socket: connecting in bounded time, input and output that never block, and
//! the one place where a thread waits.
//!
//! Does not know: NBD.

use std::io::IoSlice;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use disktime_core::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, addr::SocketAddrArg, connect, recv, sendmsg, socket_with,
};

use crate::clock;
use crate::error::{ConnectError, ConnectionError};
use crate::uri::Address;

#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// How long a call may take, and until when that is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    timeout: Duration,
    pub(crate) at: Instant,
}

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Self {
        Self { timeout, at: clock::now() + timeout }
    }

    /// The time that is left, never zero.
    pub(crate) fn left(&self) -> Result<Duration, ConnectionError> {
        match self.at.since(clock::now()) {
            Duration::ZERO => Err(ConnectionError::Timeout { timeout: self.timeout }),
            left => Ok(left),
        }
    }
}

impl Socket {
    /// Connects by `deadline`. The time that the system's resolver takes for a host's name is not
    /// bounded by it.
    pub(crate) fn connect(address: &Address, deadline: Instant) -> Result<Self, ConnectError> {
        let failed = |errno| ConnectError::Socket { address: address.clone(), errno };
        match address {
            Address::Unix { path } => {
                let target = SocketAddrUnix::new(path.as_path()).map_err(failed)?;
                open(AddressFamily::UNIX, &target, deadline).map_err(failed)
            }
            Address::Tcp { host, port } => {
                let targets = (host.as_str(), *port).to_socket_addrs().map_err(|error| {
                    ConnectError::Resolve { address: address.clone(), kind: error.kind() }
                })?;
                let mut last = Errno::ADDRNOTAVAIL;
                for target in targets {
                    match open(family(&target), &target, deadline) {
                        Ok(socket) => {
                            set_tcp_nodelay(&socket.0, true).map_err(failed)?;
                            return Ok(socket);
                        }
                        Err(errno) => last = errno,
                    }
                }
                Err(failed(last))
            }
        }
    }

    /// The socket alone, without the time limit that connecting has set.
    pub(crate) fn into_blocking(self) -> Result<OwnedFd, Errno> {
        set_socket_timeout(&self.0, Timeout::Send, None)?;
        Ok(self.0)
    }

    /// Takes what has arrived, `None` if nothing has.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, ConnectionError> {
        loop {
            match recv(&self.0, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(ConnectionError::Closed),
                Ok((bytes, _)) => return Ok(Some(bytes)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sends what there is room for, in bytes; `None` if there is none.
    pub(crate) fn send(&self, slices: &[IoSlice<'_>]) -> Result<Option<usize>, ConnectionError> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match sendmsg(&self.0, slices, &mut SendAncillaryBuffer::default(), flags) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits for input, for room for output if `output` asks for it, for `wake` to be readable, or
    /// for `timeout` to pass; [`Duration::MAX`] is for ever. Returns whether there is input, or the
    /// end of it.
    pub(crate) fn wait(
        &self,
        output: bool,
        wake: Option<BorrowedFd<'_>>,
        timeout: Duration,
    ) -> Result<bool, ConnectionError> {
        let interest = if output { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [
            PollFd::from_borrowed_fd(self.0.as_fd(), interest),
            PollFd::from_borrowed_fd(wake.unwrap_or(self.0.as_fd()), PollFlags::IN),
        ];
        let count = if wake.is_some() { 2 } else { 1 };
        let timeout = (timeout != Duration::MAX).then(|| timespec(timeout));
        match poll(&mut fds[..count], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(fds[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR))
    }
}

/// The send timeout also bounds `connect`, for Unix sockets too, whose listener may have no room
/// (`socket(7)`).
fn open(
    family: AddressFamily,
    target: &impl SocketAddrArg,
    deadline: Instant,
) -> Result<Socket, Errno> {
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    loop {
        let left = deadline.since(clock::now());
        if left == Duration::ZERO {
            return Err(Errno::TIMEDOUT);
        }
        // Whole microseconds are what the system takes, and zero would mean no timeout.
        let left = std::time::Duration::from_micros(left.as_nanos().div_ceil(1_000));
        set_socket_timeout(&socket, Timeout::Send, Some(left))?;
        match connect(&socket, target) {
            Ok(()) => return Ok(Socket(socket)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::INPROGRESS) => return Err(Errno::TIMEDOUT),
            Err(errno) => return Err(errno),
        }
    }
}

fn family(target: &SocketAddr) -> AddressFamily {
    if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn timespec(span: Duration) -> Timespec {
    const SECOND: u64 = 1_000_000_000;
    let nanos = span.as_nanos();
    let field = |value| i64::try_from(value).expect("2^64 ns are 585 years");
    Timespec { tv_sec: field(nanos / SECOND), tv_nsec: field(nanos % SECOND) }
}
