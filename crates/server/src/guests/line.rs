//! A guest's side of its connection to a daemon.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use crate::daemon_socket::AskError;
use crate::guest_messages::{Ask, Facts, PACKET_MAX, Told, VERSION, short_name};
use crate::questions::{Question, ask};

/// The device at which to be a guest, and as whom.
#[derive(Clone, Debug)]
pub struct GuestTerms {
    /// The daemon's state directory.
    pub state: PathBuf,
    /// The device's name.
    pub device: String,
    /// The number of the file system that the files are on.
    pub medium: u64,
    /// The guest's name for people: the directory that it is at.
    pub name: String,
}

/// A connection to a daemon's device.
pub struct GuestLine {
    terms: GuestTerms,
    socket: OwnedFd,
    facts: Facts,
}

impl GuestLine {
    /// Becomes a guest at a device of a daemon.
    ///
    /// # Errors
    /// If there is no daemon, or it refuses.
    pub fn connect(terms: &GuestTerms) -> Result<Self, AskError> {
        let GuestTerms { state, device, medium, name } = terms;
        let (device, name) = (device.clone(), short_name(name));
        let question = Question::Guest { version: VERSION, device, medium: *medium, name };
        let (_, caller) = ask(state, &question)?;
        let failed = |error| AskError::Io { path: state.clone(), error };
        let unknown = Facts { depth_max: 1, requests_max: 1, capacity: None };
        let mut line = Self { terms: terms.clone(), socket: caller.socket, facts: unknown };
        match line.hear().map_err(failed)? {
            Told::Welcome(facts) => line.facts = facts,
            _ => return Err(failed(io::Error::other("the daemon did not welcome it"))),
        }
        // The daemon may have nothing to say for days.
        let patient = set_socket_timeout(&line.socket, Timeout::Recv, None);
        patient.map_err(|error| failed(error.into()))?;
        Ok(line)
    }

    /// Becomes a guest at the same device anew, which may be another daemon's by now.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn again(&self) -> Result<Self, AskError> {
        Self::connect(&self.terms)
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
