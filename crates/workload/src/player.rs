//! The clockwork of a constant-rate player or recorder: see [`Playback`].
//!
//! Does not know: where its operations go, beyond telling them apart when they complete.

use crate::pace::Playback;
use crate::spec::IoOp;
use disktime_core::{Duration, Instant, Kind};
use std::collections::VecDeque;

/// How a player has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stalls {
    /// How often it has missed.
    pub misses: u64,
    /// For how long it has stood still, up to now.
    pub total: Duration,
    /// The longest of these times: how late data came at worst.
    pub longest: Duration,
}

/// A player needed data that was not there, or a recorder had no room for what it recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Miss {
    /// When.
    pub at: Instant,
    /// The stream's how-manieth miss, from 1.
    pub number: u64,
}

/// Misses that nobody has asked for yet. Beyond these the oldest are forgotten, but counted.
const MISSES_KEPT_MAX: usize = 256;

/// The misses of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Misses {
    pub(crate) count: u64,
    /// Time in which it stood still.
    pub(crate) stalled: Duration,
    /// The longest of these times.
    pub(crate) longest: Duration,
    kept: VecDeque<Miss>,
}

impl Misses {
    fn push(&mut self, at: Instant) {
        self.count += 1;
        if self.kept.len() == MISSES_KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Miss { at, number: self.count });
    }

    pub(crate) fn pop(&mut self) -> Option<Miss> {
        self.kept.pop_front()
    }
}

/// Positions are bytes since the stream's start. The *head* moves at the constant rate. It is where
/// a recorder records. A player plays one capacity behind it, so that for both of them
///
/// - an operation may be issued once the head is at its end, and
/// - the head may be at most one capacity beyond what has completed.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    playback: Playback,
    capacity: u64,
    /// The head is at `origin` at `since`, and stays there while stalled.
    since: Instant,
    origin: u64,
    stalled: bool,
    /// Where the next operation starts.
    issued: u64,
    /// Everything before it has completed.
    done: u64,
    /// Issued, and the first of them not completed.
    window: VecDeque<(IoOp, bool)>,
    /// No operation before the start or before the room for it.
    room_since: Instant,
    /// The length of the next operation.
    bytes: u64,
    /// When the next operation may be issued, if completions aren't needed for that.
    issue_at: Option<Instant>,
    /// The last instant at which the head may be where it is bound to, unless stalled.
    full_at: Option<Instant>,
}

impl Player {
    /// A player that starts at `start`; `first` is its first operation.
    pub(crate) fn new(playback: Playback, start: Instant, first: IoOp) -> Self {
        let capacity = playback.capacity();
        // A player's head is a capacity ahead of what plays, and nothing plays at first.
        let (since, origin) = match first.kind {
            Kind::Read => (start + playback.buffer, capacity),
            _ => (start, 0),
        };
        let mut player = Self {
            playback,
            capacity,
            since,
            origin,
            stalled: false,
            issued: 0,
            done: 0,
            window: VecDeque::new(),
            room_since: start,
            bytes: first.bytes,
            issue_at: None,
            full_at: None,
        };
        player.plan();
        player
    }

    /// When to poll, for an operation or a miss.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        // A completion at `full_at` itself is in time.
        let miss_at = self.full_at.map(|at| at + Duration::from_nanos(1));
        [self.issue_at, miss_at].into_iter().flatten().min()
    }

    /// For how long it has stood still by now, if it does.
    pub(crate) fn standing(&self, now: Instant) -> Duration {
        if self.stalled { now.since(self.since) } else { Duration::ZERO }
    }

    /// Whether an operation may be issued now.
    pub(crate) fn poll(&mut self, now: Instant, misses: &mut Misses) -> bool {
        self.look(now, misses);
        self.issue_at.is_some_and(|at| at <= now)
    }

    /// `op` has been issued; `bytes` is the length of the next.
    pub(crate) fn issued(&mut self, op: IoOp, bytes: u64) {
        self.window.push_back((op, false));
        self.issued += op.bytes;
        self.bytes = bytes;
        self.plan();
    }

    /// An operation has completed. One that it didn't issue is none of its business.
    pub(crate) fn completed(&mut self, now: Instant, op: &IoOp, misses: &mut Misses) {
        self.look(now, misses);
        let Some(found) = self.window.iter_mut().find(|(it, done)| !done && it == op) else {
            return;
        };
        found.1 = true;
        let before = self.done;
        while let Some((first, true)) = self.window.front() {
            self.done += first.bytes;
            self.window.pop_front();
        }
        if self.stalled && self.done > before {
            let stalled = now.since(self.since);
            misses.stalled += stalled;
            misses.longest = misses.longest.max(stalled);
            (self.since, self.stalled) = (now, false);
        }
        self.room_since = now;
        self.plan();
    }

    /// Notices that the head has come to its bound.
    fn look(&mut self, now: Instant, misses: &mut Misses) {
        if let Some(at) = self.full_at.filter(|&at| at < now) {
            misses.push(at);
            self.origin = self.done + self.capacity;
            (self.since, self.stalled) = (at, true);
            self.plan();
        }
    }

    fn plan(&mut self) {
        let end = self.issued + self.bytes;
        let room = self.window.len() < self.playback.outstanding as usize;
        let head_there = if end <= self.origin { Some(self.room_since) } else { self.when(end) };
        self.issue_at = head_there.filter(|_| room).map(|at| at.max(self.room_since));
        self.full_at = self.when(self.done + self.capacity);
    }

    /// When the head will be at a place that it has not passed; rounded up.
    fn when(&self, place: u64) -> Option<Instant> {
        if self.stalled {
            return None;
        }
        let playback = &self.playback;
        let way = playback.playing_time(place) - playback.playing_time(self.origin);
        let nanos = way.div_ceil(u128::from(playback.bytes_per_second));
        Some(self.since + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}
