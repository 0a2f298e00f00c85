//! Missed deadlines, told to the daemon: a datagram that holds the virtual disk's name.
//!
//! Nothing here waits, and nothing is answered: a name that the daemon does not know is dropped there.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The longest name of a virtual disk in bytes.
const NAME_MAX: usize = 64;

/// Why a miss could not be reported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissError {
    /// The text can't be a virtual disk's name.
    #[error("virtual disk `{name}`: a name has 1 to {NAME_MAX} bytes")]
    Name {
        /// As given.
        name: String,
    },
    /// No daemon listens there.
    #[error("{}: nobody listens: `misses` in the daemon's [server] names the socket", path.display())]
    Nobody {
        /// The socket.
        path: PathBuf,
    },
    /// The socket has no room: others report too much.
    #[error("{}: full: others report more than the daemon can take", path.display())]
    Full {
        /// The socket.
        path: PathBuf,
    },
    /// The system does not send it.
    #[error("{}: {errno}", path.display())]
    System {
        /// The socket.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
}

/// Reports misses of one virtual disk.
#[derive(Debug)]
pub struct MissReports {
    socket: UnixDatagram,
    path: PathBuf,
    vdisk: String,
}

impl MissReports {
    /// Reports of that virtual disk's clients go to that socket.
    ///
    /// # Errors
    /// If that can't be a name, or the system gives no socket. Whether anybody listens shows when a
    /// report is sent.
    pub fn new(path: &Path, vdisk: &str) -> Result<Self, MissError> {
        if !(1..=NAME_MAX).contains(&vdisk.len()) {
            return Err(MissError::Name { name: vdisk.to_owned() });
        }
        let open = || {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|error: std::io::Error| failed(path, &error))?;
        Ok(Self { socket, path: path.to_owned(), vdisk: vdisk.to_owned() })
    }

    /// Whether anybody listens, without a report.
    ///
    /// # Errors
    /// If not.
    pub fn probe(&self) -> Result<(), MissError> {
        let reached = UnixDatagram::unbound().and_then(|socket| socket.connect(&self.path));
        reached.map_err(|error| failed(&self.path, &error))
    }

    /// Says that a deadline was missed. Does not wait.
    ///
    /// # Errors
    /// If nobody listens or the socket has no room. The daemon may be started later: the next report
    /// is a new try.
    pub fn send(&self) -> Result<(), MissError> {
        let sent = self.socket.send_to(self.vdisk.as_bytes(), &self.path);
        sent.map(drop).map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &std::io::Error) -> MissError {
    let path = path.to_owned();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => MissError::Nobody { path },
        ErrorKind::WouldBlock => MissError::Full { path },
        // A path too long for a socket is the standard library's own error.
        ErrorKind::InvalidInput => MissError::System { path, errno: Errno::NAMETOOLONG },
        _ => MissError::System { path, errno: Errno::from_io_error(error).unwrap_or(Errno::IO) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_the_name_and_nobody_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("misses");
        let reports = MissReports::new(&path, "db").unwrap();
        assert_eq!(reports.send(), Err(MissError::Nobody { path: path.clone() }));
        assert_eq!(reports.probe(), reports.send());
        let daemon = UnixDatagram::bind(&path).unwrap();
        assert_eq!(reports.probe(), Ok(()));
        assert_eq!(reports.send(), Ok(()));
        let mut bytes = [0; 9];
        assert_eq!(daemon.recv(&mut bytes).unwrap(), 2);
        assert_eq!(&bytes[..2], b"db");
        // A daemon that takes nothing off fills up, and the sender learns that at once.
        let full = (0..100_000).find_map(|_| reports.send().err());
        assert_eq!(full, Some(MissError::Full { path: path.clone() }));
        drop(daemon);
        assert_eq!(reports.send(), Err(MissError::Nobody { path }));
    }

    #[test]
    fn names_and_paths_are_bounded() {
        for name in [String::new(), "x".repeat(NAME_MAX + 1)] {
            let error = MissReports::new(Path::new("misses"), &name).unwrap_err();
            assert_eq!(error, MissError::Name { name });
        }
        let path = PathBuf::from("x".repeat(200));
        let error = MissReports::new(&path, "db").unwrap().send();
        assert_eq!(error, Err(MissError::System { path, errno: Errno::NAMETOOLONG }));
    }
}
