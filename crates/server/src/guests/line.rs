//! A guest's side of its connection to a daemon.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use crate::daemon_socket::AskError;
use crate::guest_messages::{Ask, Facts, PACKET_MAX, Told, VERSION};
use crate::questions::{Question, ask};

/// A connection to a daemon's device.
pub struct GuestLine {
    socket: OwnedFd,
    facts: Facts,
}

impl GuestLine {
    /// Becomes a guest at a device of the daemon of a state directory, for files of the file system with
    /// that number.
    ///
    /// # Errors
    /// If there is no daemon, or it refuses.
    pub fn connect(state: &Path, device: &str, medium: u64) -> Result<Self, AskError> {
        let question = Question::Guest { version: VERSION, device: device.to_owned(), medium };
        let (_, caller) = ask(state, &question)?;
        let failed = |error| AskError::Io { path: state.to_owned(), error };
        let unknown = Facts { depth_max: 1, capacity: None };
        let mut line = Self { socket: caller.socket, facts: unknown };
        match line.hear().map_err(failed)? {
            Told::Welcome(facts) => line.facts = facts,
            _ => return Err(failed(io::Error::other("the daemon did not welcome it"))),
        }
        // The daemon may have nothing to say for days.
        let patient = set_socket_timeout(&line.socket, Timeout::Recv, None);
        patient.map_err(|error| failed(error.into()))?;
        Ok(line)
    }

    /// The device, as far as a guest needs to know it.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Says something.
    ///
    /// # Errors
    /// If the daemon has gone.
    pub fn say(&self, ask: &Ask) -> io::Result<()> {
        send(&self.socket, &ask.packet(), SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for the daemon to say something.
    ///
    /// # Errors
    /// If it has gone, or says what can't be understood.
    pub fn hear(&self) -> io::Result<Told> {
        let mut packet = vec![0; PACKET_MAX];
        loop {
            match recv(&self.socket, packet.as_mut_slice(), RecvFlags::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((bytes, _)) => return Told::read(&packet[..bytes]).map_err(io::Error::other),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends the connection: whoever waits for the daemon hears of it.
    pub fn end(&self) {
        let _gone_already = shutdown(&self.socket, Shutdown::Both);
    }
}
