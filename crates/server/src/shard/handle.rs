//! A shard as other threads have it: a bounded channel and a wake-up.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use rustix::event::{EventfdFlags, eventfd};

use super::Message;
use crate::wakeup::wake;

/// Messages that may wait for a shard.
const MESSAGES_MAX: usize = 256;

/// The parts of a shard that other threads need.
#[derive(Clone)]
pub struct ShardHandle {
    messages: Sender<Message>,
    wakeup: Arc<OwnedFd>,
}

impl ShardHandle {
    /// A handle, and the shard's ends of it.
    ///
    /// # Errors
    /// If the system has no event to give.
    pub fn new() -> io::Result<(Self, Receiver<Message>, Arc<OwnedFd>)> {
        let (sender, messages) = crossbeam_channel::bounded(MESSAGES_MAX);
        let wakeup = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        Ok((Self { messages: sender, wakeup: Arc::clone(&wakeup) }, messages, wakeup))
    }

    /// Sends a message and wakes the shard. Waits while too many are waiting.
    pub fn tell(&self, message: Message) {
        if self.messages.send(message).is_err() {
            tracing::debug!("the shard has ended");
            return;
        }
        self.wake();
    }

    /// Sends a message and wakes the shard, unless too many are waiting; whether it was sent.
    pub fn try_tell(&self, message: Message) -> bool {
        let sent = self.messages.try_send(message).is_ok();
        if sent {
            self.wake();
        }
        sent
    }

    /// As [`tell`](Self::tell), but waits only for so long.
    pub fn tell_within(&self, message: Message, patience: std::time::Duration) {
        if self.messages.send_timeout(message, patience).is_err() {
            tracing::debug!("the shard has ended, or hears nothing");
        }
        self.wake();
    }

    /// Makes the shard look around.
    pub fn wake(&self) {
        wake(&self.wakeup);
    }
}
