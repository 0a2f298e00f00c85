//! A shard that hands its clients over to the daemon's successor: requests taken are finished, those
//! that have not been taken stay in their sockets.

use crossbeam_channel::Sender;
use disktime_core::{Duration, Instant};

use super::carrier::ToCarrier;
use super::{DRAIN, Shard};
use crate::clock;
use crate::frontend::nbd::Parted;

/// How long a client that leaves may take for the rest of a write's data, and to read its replies: the
/// pause of all others lasts as long.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Something that a shard leaves to its successor.
pub enum Leaving {
    /// A client.
    Client(Parted),
    /// Data of the virtual disk of that name that were acknowledged and not flushed may be gone.
    Lost(String),
}

/// A hand-over that is under way.
pub(super) struct Parting {
    to: Sender<Leaving>,
    /// When clients that hold the hand-over up are let go.
    until: Instant,
}

impl Parting {
    fn lose(&self, vdisk: String) {
        let _the_daemon_gives_up = self.to.send(Leaving::Lost(vdisk));
    }
}

impl Shard {
    /// Hands all clients over, and ends.
    pub(super) fn hand_over(&mut self, to: Sender<Leaving>) {
        let now = clock::now();
        self.turns.drain_until.get_or_insert(now + DRAIN);
        self.lose_guests();
        self.turns.parting = Some(Parting { to, until: now + TIMEOUT });
        for key in self.client_keys() {
            // One that has not heard of a loss hears of the connection's end.
            if self.device.flushes.was_not_told(key, self.vdisk_of(key)) {
                self.close(key);
            } else if let Some(carried) = &mut self.carried {
                carried.say(key, ToCarrier::Part(key));
            } else {
                self.clients[key as usize].part();
                self.touch(key);
            }
        }
    }

    fn vdisk_of(&self, client: u32) -> u32 {
        match &self.carried {
            Some(carried) => carried.vdisk(client),
            None => self.clients[client as usize].vdisk,
        }
    }

    /// When clients that hold the hand-over up are let go.
    pub(super) fn parting_until(&self) -> Option<Instant> {
        self.turns.parting.as_ref().map(|parting| parting.until)
    }

    /// Lets clients go that hold the hand-over up.
    pub(super) fn end_parting(&mut self) {
        if self.parting_until().is_none_or(|until| until > clock::now()) {
            return;
        }
        if let Some(parting) = &mut self.turns.parting {
            parting.until = Instant::MAX;
        }
        if let Some(carried) = &mut self.carried {
            return carried.hurry();
        }
        for key in self.client_keys() {
            if !self.clients[key as usize].waits_for_device() {
                tracing::debug!("a client that does not go on is hung up on");
                self.lose(key);
            }
        }
    }

    /// A client that leaves goes as soon as nothing of it is under way; whether it is gone.
    pub(super) fn part(&mut self, client: u32) -> bool {
        let connection = &mut self.clients[client as usize];
        if connection.gives_up_waiting() {
            self.ring.cancel(crate::ring::Token::Receive(client));
        }
        if self.turns.parting.is_none() || !self.clients[client as usize].may_part() {
            return false;
        }
        let connection = self.forget(client);
        let vdisk = connection.vdisk;
        self.leave(connection.leave(), vdisk);
        true
    }

    /// Data of a virtual disk may be gone: its clients that have left don't go on at the successor.
    pub(super) fn lose_at_hand_over(&self, vdisk: u32) {
        if let Some(parting) = &self.turns.parting {
            parting.lose(self.vdisks[vdisk as usize].name.clone());
        }
    }

    /// A client goes to the successor, under the present name of its virtual disk: that may be another
    /// one than when the client came.
    pub(super) fn leave(&self, mut client: Parted, vdisk: u32) {
        client.session.export.name.clone_from(&self.vdisks[vdisk as usize].name);
        if let Some(parting) = &self.turns.parting {
            let _the_daemon_gives_up = parting.to.send(Leaving::Client(client));
        }
    }
}
