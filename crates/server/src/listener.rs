//! Sockets that clients connect to: each is bound for its permitted users alone; and the errors if
//! one can't be.
//!
//! Does not know: what is spoken on them.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use listenfd::ListenFd;
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chmod, chownat, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with, sockopt,
};

use crate::config::{Listen, SocketAccess};
use crate::handover::patiently;

/// Connections that may wait to be accepted: a flood of them leaves room for others for some 10 ms.
const BACKLOG: i32 = 1024;

/// Why a socket can't be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A server listens there.
    #[error("another server listens there: end it, or choose another {what}")]
    InUse {
        /// A path or a port.
        what: &'static str,
    },
    /// A file, a directory, …: it is left alone.
    #[error("what lies there is no socket: remove it, or choose another path")]
    NoSocket,
    /// No directory to put the socket in.
    #[error("{} is no directory: create it, or choose another path", .0.display())]
    NoDirectory(PathBuf),
    /// The daemon's user may not bind there.
    #[error("permission denied: {user} may not {what}")]
    Permission {
        /// By its number.
        user: String,
        /// The remedy.
        what: String,
    },
    /// The address is none of this machine's.
    #[error("this machine does not have that address: choose another one")]
    Address,
    /// Something else.
    #[error("the system says: {0}")]
    System(io::Error),
}

impl From<io::Error> for BindError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl BindError {
    /// Whether another process listens there, which may be about to end.
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self, Self::InUse { .. })
    }
}

/// Sockets that the service manager has bound and listens on (systemd's socket activation).
#[derive(Default)]
pub struct Inherited(Vec<Listener>);

impl Inherited {
    /// Takes the sockets that this process was given; from now on they are no other one's. To be called
    /// once, before a thread starts.
    ///
    /// # Errors
    /// If one is no stream socket.
    pub fn take() -> io::Result<Self> {
        let mut given = ListenFd::from_env();
        let listeners = (0..given.len()).map(|at| {
            if let Ok(Some(socket)) = given.take_unix_listener(at) {
                socket.set_nonblocking(true)?;
                let path = socket.local_addr()?.as_pathname().unwrap_or(Path::new("")).to_owned();
                return Ok(Listener::Inherited(socket, path));
            }
            let socket = match given.take_tcp_listener(at) {
                Ok(Some(socket)) => socket,
                Ok(None) | Err(_) => {
                    let (family, kind) = (libc::AF_INET6, libc::SOCK_STREAM);
                    let socket =
                        given.take_custom::<TcpListener>(at, family, kind, "TCP socket")?;
                    socket.ok_or(io::ErrorKind::InvalidInput)?
                }
            };
            socket.set_nonblocking(true)?;
            Ok(Listener::Tcp(socket))
        });
        Ok(Self(listeners.collect::<io::Result<_>>()?))
    }

    /// Sockets that a predecessor listens on.
    pub(crate) fn of(listeners: Vec<Listener>) -> Self {
        Self(listeners)
    }

    /// Adds those of another source.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The one with this address.
    pub(crate) fn find(&mut self, to: &Listen) -> Option<Listener> {
        let is_it = |listener: &Listener| listener.address().is_ok_and(|address| address == *to);
        self.0.iter().position(is_it).map(|at| self.0.remove(at))
    }

    /// The addresses of those that nobody has asked for.
    pub(crate) fn left(&self) -> Vec<String> {
        let address = |it: &Listener| it.address().map_or("?".to_owned(), |it| it.to_string());
        self.0.iter().map(address).collect()
    }
}

/// A bound listener.
pub(crate) enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
    /// A Unix socket that the service manager has bound, and keeps.
    Inherited(UnixListener, PathBuf),
}

impl Listener {
    /// Binds; a Unix socket left by a dead server is replaced, a live one is not. A dying server is
    /// waited for.
    pub(crate) fn bind(to: &Listen, access: &SocketAccess) -> Result<Self, BindError> {
        patiently(|| Self::bind_now(to, access), BindError::is_in_use)
    }

    fn bind_now(to: &Listen, access: &SocketAccess) -> Result<Self, BindError> {
        match to {
            Listen::Unix(path) => {
                take_place(path, UnixStream::connect(path).map(drop))?;
                let socket = bind_unix(path, SocketType::STREAM, access)?;
                listen(&socket, BACKLOG).map_err(io::Error::from)?;
                Ok(Self::Unix(socket.into(), path.clone()))
            }
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).map_err(|error| tcp(error, *address))?;
                // The standard library lets fewer wait.
                listen(&listener, BACKLOG).map_err(io::Error::from)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(listener))
            }
        }
    }

    /// A socket that another daemon has bound, at this path or at a TCP address; its file is not this
    /// daemon's yet.
    pub(crate) fn handed_over(socket: OwnedFd, path: Option<PathBuf>) -> Self {
        match path {
            Some(path) => Self::Inherited(socket.into(), path),
            None => Self::Tcp(socket.into()),
        }
    }

    /// The file of a Unix socket, and whether it is this daemon's to remove.
    pub(crate) fn path(&self) -> (Option<&Path>, bool) {
        match self {
            Self::Unix(_, path) => (Some(path), true),
            Self::Inherited(_, path) => (Some(path), false),
            Self::Tcp(_) => (None, false),
        }
    }

    /// The same, with its file to be removed at the end.
    pub(crate) fn owning(mut self) -> Self {
        if let Self::Inherited(listener, path) = &mut self
            && let Ok(listener) = listener.try_clone()
        {
            return Self::Unix(listener, std::mem::take(path));
        }
        self
    }

    /// The address clients use: the port is known now if it was left open.
    pub(crate) fn address(&self) -> io::Result<Listen> {
        Ok(match self {
            Self::Unix(_, path) | Self::Inherited(_, path) => Listen::Unix(path.clone()),
            Self::Tcp(listener) => Listen::Tcp(listener.local_addr()?),
        })
    }

    pub(crate) fn accept(&self) -> io::Result<OwnedFd> {
        Ok(match self {
            Self::Unix(listener, _) | Self::Inherited(listener, _) => listener.accept()?.0.into(),
            Self::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                keep_alive(&stream)?;
                stream.into()
            }
        })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Unix(listener, _) | Self::Inherited(listener, _) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _gone_already = std::fs::remove_file(path);
        }
    }
}

/// Has the system ask a client that is silent whether its host is there: else one that lost its power would
/// keep its place for ever. Ten minutes, so that no restart of a switch ends a connection.
fn keep_alive(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(300))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(30))?;
    sockopt::set_tcp_keepcnt(stream, 10)
}

/// Makes room for a socket at a path: what a dead server left is removed, anything else is not.
/// `found` is what connecting there said.
pub(crate) fn take_place(path: &Path, found: io::Result<()>) -> Result<(), BindError> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type()) {
        return Err(BindError::NoSocket);
    }
    match found {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| unix(error, path))
        }
        // One of another kind answers with another error.
        Ok(()) | Err(_) => Err(BindError::InUse { what: "path" }),
    }
}

/// A socket bound at a path, that nobody can use before it has its group and its mode, and at no
/// moment more people than it is for.
pub(crate) fn bind_unix(
    path: &Path,
    kind: SocketType,
    access: &SocketAccess,
) -> Result<OwnedFd, BindError> {
    let failed = |error: rustix::io::Errno| unix(error.into(), path);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None).map_err(io::Error::from)?;
    // Its file is made with the socket's mode, less the process's mask.
    fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    bind(&socket, &address).map_err(failed)?;
    let opened = open_to(path, access);
    if opened.is_err() {
        let _gone_already = std::fs::remove_file(path);
    }
    opened.map(|()| socket)
}

/// Gives a socket's file its group, then its mode: not the other way round.
fn open_to(path: &Path, access: &SocketAccess) -> Result<(), BindError> {
    if let Some(group) = access.group {
        let changed =
            chownat(CWD, path, None, Some(Gid::from_raw(group)), AtFlags::SYMLINK_NOFOLLOW);
        changed.map_err(|error| match error {
            rustix::io::Errno::PERM => refused(format!(
                "give the socket to group {group}: start it as a member of the group, or leave \
                 `group` out"
            )),
            error => BindError::System(error.into()),
        })?;
    }
    chmod(path, Mode::from_raw_mode(access.mode)).map_err(io::Error::from)?;
    // Last: the daemon may not change what is another's.
    let Some(owner) = access.owner else { return Ok(()) };
    let changed = chownat(CWD, path, Some(Uid::from_raw(owner)), None, AtFlags::SYMLINK_NOFOLLOW);
    changed.map_err(|error| match error {
        rustix::io::Errno::PERM => refused(format!(
            "give the socket to user {owner}: start it as root, or leave `owner` out"
        )),
        error => BindError::System(error.into()),
    })
}

/// Whether a listener could be bound, as far as that shows without binding it: beside a running
/// daemon too.
pub(crate) fn check(listen: &Listen) -> Result<(), BindError> {
    let path = match listen {
        Listen::Unix(path) => path,
        Listen::Tcp(address) => {
            // Any port: its own may be that of the running daemon.
            let bound = TcpListener::bind((address.ip(), 0));
            return match bound.map_err(|error| tcp(error, *address)) {
                Err(error @ BindError::Address) => Err(error),
                _ => Ok(()),
            };
        }
    };
    let parent = parent(path);
    if !parent.is_dir() {
        return Err(BindError::NoDirectory(parent.to_owned()));
    }
    let may = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    if rustix::fs::access(parent, may).is_err() {
        return Err(unix(io::ErrorKind::PermissionDenied.into(), path));
    }
    match std::fs::symlink_metadata(path) {
        Ok(meta) if !std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type()) => {
            Err(BindError::NoSocket)
        }
        _ => Ok(()),
    }
}

fn parent(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(Path::new("/"));
    if parent.as_os_str().is_empty() { Path::new(".") } else { parent }
}

fn unix(error: io::Error, path: &Path) -> BindError {
    let parent = parent(path);
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            BindError::NoDirectory(parent.to_owned())
        }
        io::ErrorKind::PermissionDenied => refused(format!(
            "make a socket in {}: allow it that, or choose another path",
            parent.display()
        )),
        io::ErrorKind::AddrInUse => BindError::InUse { what: "path" },
        _ => BindError::System(error),
    }
}

fn tcp(error: io::Error, address: std::net::SocketAddr) -> BindError {
    match error.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { what: "port" },
        io::ErrorKind::AddrNotAvailable => BindError::Address,
        io::ErrorKind::PermissionDenied => {
            refused(format!("listen on port {}: choose one from 1024 on", address.port()))
        }
        _ => BindError::System(error),
    }
}

fn refused(what: String) -> BindError {
    let user = format!("user {}", rustix::process::geteuid().as_raw());
    BindError::Permission { user, what }
}

/// Callers of the control API that may wait to be accepted.
const CONTROL_BACKLOG: i32 = 64;

/// Binds the control API's socket, for the daemon's own user alone. A socket that a dead daemon left is
/// replaced, a live one is not.
///
/// # Errors
/// If the path is in use, or the system refuses.
pub fn bind_control(path: &Path) -> Result<UnixListener, BindError> {
    let bind = || {
        take_place(path, UnixStream::connect(path).map(drop))?;
        let socket = bind_unix(path, SocketType::STREAM, &SocketAccess::default())?;
        listen(&socket, CONTROL_BACKLOG).map_err(io::Error::from)?;
        Ok(socket.into())
    };
    patiently(bind, BindError::is_in_use)
}

/// Binds the control API's TCP address.
///
/// # Errors
/// If the address is in use or is none of this machine's.
pub fn bind_web(address: std::net::SocketAddr) -> Result<TcpListener, BindError> {
    let bind = || {
        let listener = TcpListener::bind(address).map_err(|error| tcp(error, address))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    patiently(bind, BindError::is_in_use)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// The NBD socket had the mode that the process's mask left, 0755 mostly: on some systems any
    /// user could read and write every virtual disk.
    #[test]
    fn a_socket_is_for_its_user_alone_unless_more_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nbd.sock");
        let listen = Listen::Unix(path.clone());
        let bound = Listener::bind(&listen, &SocketAccess::default()).unwrap();
        assert_eq!(mode(&path), 0o600);
        drop(bound);
        assert!(!path.exists());
        let own = rustix::process::getegid().as_raw();
        let access = SocketAccess { mode: 0o660, group: Some(own), owner: None };
        let _bound = Listener::bind(&listen, &access).unwrap();
        assert_eq!((mode(&path), std::fs::metadata(&path).unwrap().gid()), (0o660, own));
    }

    /// Clients whose hosts had lost their power kept their places: after sixteen of them a virtual disk took
    /// nobody any more.
    #[test]
    fn the_system_asks_silent_tcp_clients_whether_they_are_there() {
        let to = Listen::Tcp("127.0.0.1:0".parse().unwrap());
        let listener = Listener::bind(&to, &SocketAccess::default()).unwrap();
        let Ok(Listen::Tcp(address)) = listener.address() else { panic!("it is bound to TCP") };
        let _client = TcpStream::connect(address).unwrap();
        let socket = loop {
            match listener.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                accepted => break accepted.unwrap(),
            }
        };
        assert_eq!(sockopt::socket_keepalive(&socket), Ok(true));
        assert_eq!(sockopt::tcp_keepidle(&socket), Ok(Duration::from_secs(300)));
    }

    /// Every failure ended in "is another server running there?", a missing directory too.
    #[test]
    fn each_cause_is_said_as_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let within = |name: &str| directory.path().join(name);
        let said = |path: PathBuf| {
            let listen = Listen::Unix(path);
            let (bound, checked) =
                (Listener::bind(&listen, &SocketAccess::default()).err(), check(&listen).err());
            (bound.map(|it| it.to_string()), checked.map(|it| it.to_string()))
        };
        let missing = said(within("none/nbd.sock"));
        assert!(missing.0.as_ref().unwrap().contains("none is no directory: create it"));
        assert_eq!(missing.0, missing.1, "a check says what a start would");
        std::fs::write(within("file"), "").unwrap();
        let file = said(within("file"));
        assert!(file.0.as_ref().unwrap().contains("no socket: remove it"));
        assert_eq!(file.0, file.1);
        let listen = Listen::Unix(within("nbd.sock"));
        let bound = Listener::bind(&listen, &SocketAccess::default()).unwrap();
        let (taken, checked) = said(within("nbd.sock"));
        assert!(taken.unwrap().contains("another server listens there"));
        assert_eq!(checked, None, "beside a running daemon its socket is no fault");
        drop(bound);
        let address = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = Listen::Tcp(address.local_addr().unwrap());
        assert!(check(&listen).is_ok(), "a port of a running daemon is no fault");
        let foreign = check(&Listen::Tcp("192.0.2.1:80".parse().unwrap())).unwrap_err();
        assert!(foreign.to_string().contains("this machine does not have"), "{foreign}");
        let taken = Listener::bind(&listen, &SocketAccess::default()).err().unwrap().to_string();
        assert!(taken.contains("another server") && taken.contains("port"), "{taken}");
    }
}
