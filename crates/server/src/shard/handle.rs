//! A shard as other threads have it: a bounded channel and a wake-up.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use rustix::event::{EventfdFlags, eventfd};

use super::Message;
use crate::wakeup::wake;

/// Messages that may wait for a shard.
const MESSAGES_MAX: usize = 256;
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

    /// Sends a message and wakes the shard. Waits while too many are waiting.
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

    /// As [`tell`](Self::tell), but waits only for so long.
    pub fn tell_within(&self, message: Message, timeout: Duration) {
        if self.messages.send_timeout(message, timeout).is_err() {
            tracing::debug!("the shard has ended, or hears nothing");
        }
        self.wake();
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
    use crate::shard::Watch;

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
}
