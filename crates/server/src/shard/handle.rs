//! A shard as other threads have it: a bounded channel and a wake-up.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use rustix::event::{EventfdFlags, eventfd};

use super::Message;
use crate::wakeup::wake;

/// Messages that may wait for a shard.
const MESSAGES_MAX: usize = 256;
/// Messages beside which a change is refused: a healthy shard takes each within a turn, and the rest is for
/// what follows a change.
const CHANGES_MAX: usize = MESSAGES_MAX / 4 * 3;
/// How long a shard that has no room may take to make some: some turns on a busy machine.
const ROOM_TIMEOUT: Duration = Duration::from_millis(100);

/// The parts of a shard that other threads need.
#[derive(Clone)]
pub struct ShardHandle {
    messages: Sender<Message>,
    wakeup: Arc<OwnedFd>,
    /// It made no room for a message in the time that was given to it.
    deaf: Arc<AtomicBool>,
}

impl ShardHandle {
    /// A handle, and the shard's ends of it.
    ///
    /// # Errors
    /// If the system has no event to give.
    pub fn new() -> io::Result<(Self, Receiver<Message>, Arc<OwnedFd>)> {
        let (sender, messages) = crossbeam_channel::bounded(MESSAGES_MAX);
        let wakeup = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let deaf = Arc::default();
        Ok((Self { messages: sender, wakeup: Arc::clone(&wakeup), deaf }, messages, wakeup))
    }

    /// Sends a message and wakes the shard. Waits while too many are waiting, without end where the shard stands
    /// still: not for a thread that others wait for.
    pub fn tell(&self, message: Message) {
        if self.messages.send(message).is_err() {
            tracing::debug!("the shard has ended");
            return;
        }
        self.wake();
    }

    /// Sends a message that may be left out and wakes the shard, unless half as many are waiting as may;
    /// whether it was sent. The other half is for what has to be heard: a shard that stands still is asked
    /// several times a second how it is.
    pub fn try_tell(&self, message: Message) -> bool {
        let room = self.messages.len() < MESSAGES_MAX / 2;
        let sent = room && self.messages.try_send(message).is_ok();
        if sent {
            self.wake();
        }
        sent
    }

    /// Whether the shard has room for a change: one that stands still has none after a while.
    pub fn takes_changes(&self) -> bool {
        self.messages.len() < CHANGES_MAX
    }

    /// Sends a change, unless too many messages are waiting; whether it was sent. Never waits.
    pub fn tell_change(&self, message: Message) -> bool {
        let sent = self.takes_changes() && self.messages.try_send(message).is_ok();
        self.wake();
        sent
    }

    /// Sends a message that the shard must hear before any change that comes after it. Never waits: where there
    /// is no room, a thread of its own does.
    pub fn tell_surely(&self, message: Message) {
        match self.messages.try_send(message) {
            Ok(()) => self.wake(),
            Err(TrySendError::Disconnected(_)) => tracing::debug!("the shard has ended"),
            Err(TrySendError::Full(message)) => {
                let shard = self.clone();
                let waits = std::thread::Builder::new().name("to-shard".to_owned());
                if let Err(error) = waits.spawn(move || shard.tell(message)) {
                    tracing::error!(%error, "a device's thread misses a message");
                }
            }
        }
    }

    /// As [`tell`](Self::tell), but waits only for so long; whether it was sent.
    pub fn tell_within(&self, message: Message, timeout: Duration) -> bool {
        let sent = self.messages.send_timeout(message, timeout).is_ok();
        if !sent {
            tracing::debug!("the shard has ended, or hears nothing");
        }
        self.wake();
        sent
    }

    /// As [`tell`](Self::tell), but waits for a moment only, and not at all for a shard that made no room in
    /// the last one; whether it was sent.
    pub fn tell_unless_deaf(&self, message: Message) -> bool {
        let timeout = if self.deaf.load(Ordering::Relaxed) { Duration::ZERO } else { ROOM_TIMEOUT };
        let sent = self.messages.send_timeout(message, timeout).is_ok();
        self.deaf.store(!sent, Ordering::Relaxed);
        self.wake();
        sent
    }

    /// Makes the shard look around.
    pub fn wake(&self) {
        wake(&self.wakeup);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{VdiskId, Watch};

    /// Questions that a shard never answered left no room, and the daemon's main thread waited for that: it
    /// changed nothing any more, and did not end.
    #[test]
    fn questions_leave_room_for_changes() {
        let (shard, messages, _wakeup) = ShardHandle::new().unwrap();
        let ask = || shard.try_tell(Message::Watch(Watch::All, crossbeam_channel::bounded(1).0));
        let asked = std::iter::from_fn(|| ask().then_some(())).count();
        assert_eq!(asked, MESSAGES_MAX / 2);
        while shard.tell_unless_deaf(Message::Drain) {}
        assert!(!shard.tell_unless_deaf(Message::Drain), "a shard that is deaf is not waited for");
        assert_eq!(messages.len(), MESSAGES_MAX);
        assert!(messages.try_recv().is_ok() && shard.tell_unless_deaf(Message::Drain));
    }

    /// A change waited without end behind what a device that stood still had not heard, and the API and SIGTERM
    /// with it.
    #[test]
    fn a_change_is_refused_where_others_wait_and_what_follows_one_is_heard() {
        let (shard, messages, _wakeup) = ShardHandle::new().unwrap();
        let change = || shard.tell_change(Message::Rename(VdiskId(0), String::new()));
        assert_eq!(std::iter::from_fn(|| change().then_some(())).count(), CHANGES_MAX);
        assert!(!shard.takes_changes());
        for _ in CHANGES_MAX..MESSAGES_MAX {
            shard.tell_surely(Message::Release(VdiskId(1)));
        }
        assert_eq!(messages.len(), MESSAGES_MAX);
        shard.tell_surely(Message::Release(VdiskId(2)));
        let heard = std::iter::from_fn(|| messages.recv_timeout(Duration::from_secs(10)).ok());
        let last = heard.take(MESSAGES_MAX + 1).last();
        assert!(matches!(last, Some(Message::Release(VdiskId(2)))));
    }
}
