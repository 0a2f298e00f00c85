//! Both sides of a take-over, as far as they concern the whole server.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use disktime_core::Instant;
use disktime_nbd::{ExportInfo, Session, TransmissionFlags};

use super::{END, Server, TIMEOUT};
use crate::clock;
use crate::desk::{Catalog, GRACE};
use crate::frontend::nbd::{Accepted, Parted};
use crate::opened_device::Ground;
use crate::shard::{Leaving, Message};
use crate::take_over::{HandedOver, Looked, Successor, Terms};
use crate::threads;
use crate::wakeup::wake;

impl Server {
    /// Where daemons come in that want to take over. Each is to be [offered](Self::offer) everything.
    #[must_use]
    pub fn successors(&self) -> Receiver<Successor> {
        self.handing.successors.clone()
    }

    /// Offers a successor all that it needs to start. The successor may take its time to [say go](Successor::says_go);
    /// meanwhile, and if it does not, everything goes on.
    ///
    /// # Errors
    /// If the successor is gone.
    pub fn offer(&self, successor: &Successor) -> io::Result<()> {
        let own =
            self.handing.socket.as_ref().ok_or_else(|| io::Error::other("no socket of its own"))?;
        let devices = self.config.devices.iter().zip(&self.grounds);
        let looked = devices.map(|(device, ground)| Looked {
            device: device.name.clone(),
            depth: ground.depth(),
            prices: ground.anchor().copied(),
        });
        successor.offer(self.handing.doors.iter().map(|door| &door.listener), own, looked)
    }

    /// Takes no more clients and requests, finishes those taken, lets go of everything, and hands
    /// clients over to a successor that has said go.
    ///
    /// # Errors
    /// If a thread had failed before, or the successor is gone.
    pub fn hand_over(mut self, successor: &Successor) -> io::Result<()> {
        let until = clock::now() + END;
        // The files of the sockets are the successor's.
        std::mem::forget(std::mem::take(&mut self.handing.doors));
        std::mem::forget(self.handing.socket.take());
        self.handing.leaving.store(true, Ordering::Relaxed);
        wake(&self.closing);
        let _the_desk_is_gone =
            self.handing.desk.recv_timeout(2 * Duration::from_nanos(GRACE.as_nanos()));
        let (to, left) = crossbeam_channel::unbounded();
        self.shards.drain(..).for_each(|shard| shard.tell_surely(Message::HandOver(to.clone())));
        drop(to);
        let clients = gather(&left, until);
        let mut outcome = self.threads.join(until);
        for recorder in self.recorders.threads.drain(..) {
            outcome = outcome.and_then(|all| Ok(threads::join(recorder, until)? && all));
        }
        self.rooms.clear();
        tracing::info!(clients = clients.len(), "handed over");
        clients.into_iter().try_for_each(|client| successor.give(client))?;
        // A thread that was left behind ends with the process, which the successor hears of, too.
        if outcome? { successor.done() } else { Ok(()) }
    }

    /// Goes on with the clients of a predecessor, as far as what they were told is still true.
    pub(super) fn adopt(&self, clients: Vec<HandedOver>, catalog: &Catalog) {
        let count = clients.len();
        let adopted = clients.into_iter().filter_map(|client| self.adopt_one(client, catalog));
        let adopted = adopted.count();
        tracing::info!(clients = adopted, closed = count - adopted, "taken over");
    }

    fn adopt_one(&self, client: HandedOver, catalog: &Catalog) -> Option<()> {
        let HandedOver { terms, socket, unread } = client;
        let entry = catalog.entry(&terms.vdisk)?;
        if !terms.are_true(entry.info.flags, entry.stats.size(), entry.surveyed) {
            let vdisk = terms.vdisk;
            tracing::warn!(vdisk, "a client was told what is true no longer: it is hung up on");
            return None;
        }
        let flags = TransmissionFlags::from_wire(terms.flags);
        let Terms { size, style, contexts, skip, .. } = terms;
        let seat = catalog.seat(&entry).ok()?;
        let export = ExportInfo { size_bytes: size, flags, ..entry.info.clone() };
        let session = Session { export, style, contexts };
        let client = Accepted { socket, session, seat, unread, skip, tls: None };
        entry
            .shard
            .tell_within(Message::Client { client, vdisk: entry.vdisk }, TIMEOUT)
            .then_some(())
    }
}

/// The clients that shards leave, until all of these have ended or the time is over. A client of a
/// virtual disk that may have lost data is hung up on, which is how it hears of that.
fn gather(left: &Receiver<Leaving>, until: Instant) -> Vec<Parted> {
    let (mut clients, mut lost) = (Vec::new(), Vec::new());
    loop {
        let rest = Duration::from_nanos(until.since(clock::now()).as_nanos());
        match left.recv_timeout(rest) {
            Ok(Leaving::Client(client)) => clients.push(client),
            Ok(Leaving::Lost(vdisk)) => lost.push(vdisk),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    clients.retain(|client| !lost.contains(&client.session.export.name));
    clients
}

/// Goes by what a predecessor knows of a device; whether it had that device.
pub(super) fn is_known(ground: &mut Ground, looked: &[Looked], device: &str) -> bool {
    let known = looked.iter().find(|it| it.device == device);
    if let Some(Looked { depth, prices: Some(prices), .. }) = known {
        ground.look_like(*prices, *depth);
    }
    known.is_some()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use disktime_nbd::reply::ReplyStyle;
    use disktime_nbd::{BlockSizes, TransmissionFlags};

    use super::*;

    fn client(vdisk: &str) -> Leaving {
        let export = ExportInfo {
            name: vdisk.to_owned(),
            description: String::new(),
            size_bytes: 4096,
            flags: TransmissionFlags::EMPTY,
            block_sizes: BlockSizes::new(1, 4096, 4096).unwrap(),
        };
        let session = Session { export, style: ReplyStyle::Simple, contexts: Vec::new() };
        let (socket, _) = UnixStream::pair().unwrap();
        Leaving::Client(Parted { socket: socket.into(), session, unread: Vec::new(), skip: 0 })
    }

    /// A client that went on at the successor would never hear that its acknowledged data are gone.
    #[test]
    fn clients_of_a_virtual_disk_that_lost_data_do_not_go_on() {
        let (to, left) = crossbeam_channel::unbounded();
        for leaving in [client("a"), client("b"), Leaving::Lost("a".to_owned()), client("a")] {
            to.send(leaving).unwrap();
        }
        drop(to);
        let clients = gather(&left, Instant::MAX);
        let names: Vec<_> = clients.iter().map(|it| it.session.export.name.as_str()).collect();
        assert_eq!(names, ["b"]);
    }
}
