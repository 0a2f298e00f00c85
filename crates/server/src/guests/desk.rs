//! The daemon's side of guests: whether one may come, and its two threads, which carry packets between
//! its socket and the shard.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::Hosts;
use super::medium::is_elsewhere;
use crate::daemon_socket::Caller;
use crate::guest_messages::{Ask, PACKET_MAX, Told, VERSION, short_name};
use crate::shard::{FromGuest, GUEST_REQUESTS_MAX, Message, ShardHandle};

/// How long a device's thread may take to take a guest in.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);
/// Messages that wait to be sent to a guest: each of its requests brings a turn for each piece that is at
/// the device, and its end. One that reads so few of them is let go.
const WAITING_MAX: usize = 2 * GUEST_REQUESTS_MAX as usize;
/// Messages of a guest that wait for the shard: then its socket is read no further. They wait beside the
/// shard's own messages, so that a guest's flood keeps nobody else's from it.
const ASKS_MAX: usize = 256;

/// A guest that may come.
pub(crate) struct Invitation {
    shard: ShardHandle,
    guest: u64,
    asks: Sender<Ask>,
    told: Receiver<Told>,
}

impl Invitation {
    /// Has a device's shard take a guest in, or says why it can't come.
    pub(crate) fn of(
        hosts: &Hosts,
        (version, guest_name): (u32, &str),
        (name, medium): (&str, u64),
    ) -> Result<Self, String> {
        if version != VERSION {
            let why = "restart the daemon, or mount with a binary of its version";
            return Err(format!("it takes guests in version {VERSION}, not {version}: {why}"));
        }
        let (shard, guest, headroom_ppm) = {
            let mut known = hosts.known();
            let Some((shard, device)) = known.devices.get(name) else {
                let names = known.devices.keys().cloned().collect::<Vec<_>>().join(", ");
                return Err(format!("no device {name}; there are: {names}"));
            };
            if let Some(why) = is_elsewhere(device, medium) {
                let remedy = "name a device that the directory is on, or mount without --device";
                return Err(format!("device {name}: {why}: {remedy}"));
            }
            let (shard, headroom) = (shard.clone(), device.scheduling.headroom.ppm());
            known.last += 1;
            (shard, known.last, headroom)
        };
        let (to, told) = bounded(WAITING_MAX);
        let (asks, asked) = bounded(ASKS_MAX);
        let (answer, outcome) = bounded(1);
        let name_of_it = short_name(guest_name).into();
        let came =
            FromGuest::Came { name: name_of_it, told: to, asks: asked, headroom_ppm, answer };
        let sent = shard.tell_change(Message::Guest(guest, came));
        match sent.then(|| outcome.recv_timeout(TIMEOUT)) {
            Some(Ok(taken)) => taken.map_err(|why| format!("device {name}: {why}"))?,
            Some(Err(_)) | None => {
                return Err(format!("device {name}: its thread does not answer"));
            }
        }
        Ok(Self { shard, guest, asks, told })
    }

    /// Carries its packets, on threads of their own, until it or the shard ends.
    pub(crate) fn start(self, caller: Caller) -> io::Result<()> {
        let Self { shard, guest, asks, told } = self;
        // A guest may have nothing to say for days.
        set_socket_timeout(&caller.socket, Timeout::Recv, None)?;
        let socket = Arc::new(caller.socket);
        let writes = Arc::clone(&socket);
        spawn(format!("to-guest-{guest}"), move || write(&writes, &told))?;
        spawn(format!("guest-{guest}"), move || {
            if let Err(error) = read(&socket, &shard, &asks) {
                tracing::warn!(guest, %error, "a guest is let go");
            }
            shard.tell(Message::Guest(guest, FromGuest::Gone));
            let _gone_already = shutdown(&*socket, Shutdown::Both);
        })
    }
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name).spawn(run).map(drop)
}

/// Carries what the guest says to the shard, as fast as the shard hears it, until either has had enough.
fn read(socket: &OwnedFd, shard: &ShardHandle, asks: &Sender<Ask>) -> io::Result<()> {
    let mut packet = vec![0; PACKET_MAX];
    loop {
        let (bytes, _) = match recv(socket, packet.as_mut_slice(), RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(rustix::io::Errno::CONNRESET) => return Ok(()),
            heard => heard?,
        };
        if bytes == 0 {
            return Ok(());
        }
        let ask = Ask::read(&packet[..bytes]).map_err(io::Error::other)?;
        if asks.send(ask).is_err() {
            return Ok(());
        }
        shard.wake();
    }
}

/// Carries what the shard says to the guest, until the shard has let it go.
fn write(socket: &OwnedFd, told: &Receiver<Told>) {
    for told in told {
        if send(socket, &told.packet(), SendFlags::NOSIGNAL).is_err() {
            break;
        }
    }
    // The guest hears of its end, and so does the thread that reads.
    let _gone_already = shutdown(socket, Shutdown::Both);
}
