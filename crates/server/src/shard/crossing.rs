//! The way between a shard and a carrier: a bounded queue in each direction without locks, and a wake-up
//! that is rung only for a side that sleeps.
//!
//! A message that finds no room waits with its sender, which is woken once there is room. Neither side waits
//! for the other: a side hears messages however many of its own wait.
//!
//! Does not know: what messages say.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::wakeup::wake;

/// Messages that a queue takes, some 128 bytes each: the requests of two clients with all that they may have
/// under way.
const ROOM: usize = 1024;

/// The wake-up of a thread that may hear from several others.
pub(super) struct Bell {
    /// An eventfd.
    wakeup: Arc<OwnedFd>,
    /// The thread sleeps, or is about to.
    asleep: AtomicBool,
}

impl Bell {
    pub(super) fn new(wakeup: Arc<OwnedFd>) -> Arc<Self> {
        Arc::new(Self { wakeup, asleep: AtomicBool::new(false) })
    }

    /// Wakes the thread if it sleeps.
    fn ring(&self) {
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            wake(&self.wakeup);
        }
    }

    /// Wakes the thread, whatever it does.
    pub(super) fn ring_loud(&self) {
        wake(&self.wakeup);
    }

    /// The thread is about to sleep. It has to look once more for messages afterwards: from now on each
    /// message rings.
    pub(super) fn falls_asleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The thread is awake.
    pub(super) fn awakes(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}

/// One side's end of the way.
pub(super) struct Crossing<Out, In> {
    out: Producer<Out>,
    into: Consumer<In>,
    /// Messages that found no room.
    waiting: VecDeque<Out>,
    /// The other side's wake-up.
    other: Arc<Bell>,
    /// Something was said that the other side was not woken for.
    said: bool,
    /// The other side was heard: it may have waited for the room.
    heard: bool,
    /// This side waits for room, and the other one does.
    short: Arc<AtomicBool>,
    other_short: Arc<AtomicBool>,
}

/// Both ends of a way between two threads with these wake-ups.
pub(super) fn crossing<A, B>([first, second]: [&Arc<Bell>; 2]) -> (Crossing<A, B>, Crossing<B, A>) {
    let ((to_second, from_first), (to_first, from_second)) =
        (RingBuffer::new(ROOM), RingBuffer::new(ROOM));
    let shorts = [Arc::<AtomicBool>::default(), Arc::default()];
    let near = Crossing::new((to_second, from_second), second, [&shorts[0], &shorts[1]]);
    let far = Crossing::new((to_first, from_first), first, [&shorts[1], &shorts[0]]);
    (near, far)
}

impl<Out, In> Crossing<Out, In> {
    /// An end with the other side's wake-up, and who waits for room: this side, the other one.
    fn new(
        (out, into): (Producer<Out>, Consumer<In>),
        other: &Arc<Bell>,
        shorts: [&Arc<AtomicBool>; 2],
    ) -> Self {
        let [short, other_short] = shorts.map(Arc::clone);
        let (other, waiting) = (Arc::clone(other), VecDeque::new());
        Self { out, into, waiting, other, said: false, heard: false, short, other_short }
    }

    /// Says something; the other side is woken for it when this one [settles](Self::settle).
    pub(super) fn say(&mut self, message: Out) {
        self.said = true;
        self.say_quietly(message);
    }

    /// Says something that is not worth waking the other side, unless there is no room for it: only that
    /// side makes room.
    pub(super) fn say_quietly(&mut self, message: Out) {
        if !self.waiting.is_empty() {
            self.waiting.push_back(message);
        } else if let Err(PushError::Full(message)) = self.out.push(message) {
            self.waiting.push_back(message);
            self.short.store(true, Ordering::Relaxed);
            self.said = true;
        }
    }

    /// The next thing that the other side has said.
    pub(super) fn hear(&mut self) -> Option<In> {
        let message = self.into.pop().ok()?;
        self.heard = true;
        Some(message)
    }

    /// Whether there is something to hear, or room for what waits.
    pub(super) fn has_news(&self) -> bool {
        !self.into.is_empty() || (self.is_short() && !self.out.is_full())
    }

    /// Whether something like this is to be heard.
    #[cfg(test)]
    pub(super) fn is_told(&mut self, so: impl Fn(&In) -> bool) -> bool {
        let told = self.into.slots();
        let told = self.into.read_chunk(told).expect("so many are there");
        let (first, rest) = told.as_slices();
        first.iter().chain(rest).any(so)
    }

    /// Whether messages wait for room: no more should be said than has to be.
    pub(super) fn is_short(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the other side is gone.
    pub(super) fn is_cut(&self) -> bool {
        self.into.is_abandoned()
    }

    /// Sends what waits for room as far as there is some, and wakes the other side if it sleeps and there
    /// is something new for it.
    pub(super) fn settle(&mut self) {
        while let Some(message) = self.waiting.pop_front() {
            if let Err(PushError::Full(message)) = self.out.push(message) {
                self.waiting.push_front(message);
                self.short.store(true, Ordering::Relaxed);
                break;
            }
            self.said = true;
        }
        if !self.said && !self.heard {
            return;
        }
        // Before the look at whether the other side sleeps, or waits: it says so before it looks for
        // messages, or room.
        fence(Ordering::SeqCst);
        let made_room = self.heard && self.other_short.load(Ordering::Relaxed);
        if made_room {
            self.other_short.store(false, Ordering::Relaxed);
        }
        if self.said || made_room {
            self.other.ring();
        }
        (self.said, self.heard) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn bell() -> Arc<Bell> {
        Bell::new(Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap()))
    }

    /// How often the bell was rung since this was asked last.
    fn rung(bell: &Bell) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(&*bell.wakeup, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    #[test]
    fn only_a_side_that_sleeps_is_woken_and_once_for_many_messages() {
        let bells = [bell(), bell()];
        let (mut near, mut far) = crossing::<u32, u32>([&bells[0], &bells[1]]);
        near.say(1);
        near.settle();
        assert_eq!((rung(&bells[1]), far.hear()), (0, Some(1)), "it is awake");
        bells[1].falls_asleep();
        (2..10).for_each(|message| near.say(message));
        near.settle();
        near.say(10);
        near.settle();
        assert_eq!(rung(&bells[1]), 1);
        assert!(far.has_news());
        assert_eq!(std::iter::from_fn(|| far.hear()).collect::<Vec<_>>(), Vec::from_iter(2..=10));
        bells[1].falls_asleep();
        near.say_quietly(11);
        near.settle();
        assert_eq!((rung(&bells[1]), far.has_news()), (0, true), "not worth waking");
    }

    /// A side that slept with messages for which there had been no room would sleep for ever.
    #[test]
    fn messages_without_room_keep_their_order_and_their_sender_is_woken_for_room() {
        let bells = [bell(), bell()];
        let (mut near, mut far) = crossing::<usize, usize>([&bells[0], &bells[1]]);
        (0..ROOM + 3).for_each(|message| near.say(message));
        near.settle();
        assert!(near.is_short() && !near.has_news());
        bells[0].falls_asleep();
        assert_eq!(far.hear(), Some(0));
        assert!(near.has_news());
        far.settle();
        assert_eq!(rung(&bells[0]), 1);
        near.settle();
        bells[0].falls_asleep();
        let heard: Vec<_> = std::iter::from_fn(|| far.hear()).collect();
        far.settle();
        assert_eq!(rung(&bells[0]), 1, "it waits for more room");
        near.settle();
        let rest: Vec<_> = std::iter::from_fn(|| far.hear()).collect();
        assert_eq!([heard, rest].concat(), Vec::from_iter(1..ROOM + 3));
        bells[0].falls_asleep();
        far.settle();
        assert_eq!((rung(&bells[0]), near.is_short()), (0, false));
    }

    /// Nobody woke the side that slept, and the other one served no client before there was room: clients of
    /// `memory` that took many replies at once, all of which were loans, waited for ever.
    #[test]
    fn a_side_that_sleeps_is_woken_once_quiet_messages_have_no_room() {
        let bells = [bell(), bell()];
        let (mut near, mut far) = crossing::<usize, usize>([&bells[0], &bells[1]]);
        bells[1].falls_asleep();
        (0..ROOM).for_each(|message| near.say_quietly(message));
        near.settle();
        assert_eq!((rung(&bells[1]), near.is_short()), (0, false));
        near.say_quietly(ROOM);
        near.settle();
        assert_eq!((rung(&bells[1]), near.is_short()), (1, true));
        assert_eq!(far.hear(), Some(0));
    }

    #[test]
    fn the_end_of_a_side_shows_at_the_other() {
        let bells = [bell(), bell()];
        let (near, far) = crossing::<u32, u32>([&bells[0], &bells[1]]);
        assert!(!near.is_cut());
        drop(far);
        assert!(near.is_cut());
    }
}
