//! A generator with a pace: a client without its sockets.
//!
//! Does not know: whether an operation was accepted, how long it took, or what else is issued.

use crate::batches::Batches;
use crate::error::SpecError;
use crate::generator::Generator;
use crate::pace::{Arrivals, Pace, Spans};
use crate::player::{Miss, Misses, Player, Stalls};
use crate::random;
use crate::spec::{IoOp, Spec};
use disktime_core::{Duration, Instant};
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::VecDeque;

/// Issues operations in time.
///
/// Call [`poll`](Self::poll) until it returns `None`; then wait until [`next_at`](Self::next_at) or
/// a completion, which goes to [`completed`](Self::completed), and poll again. A refused operation
/// counts as completed. Time never goes back. Polling early is harmless. Polling late issues an open
/// loop's operations late but changes none of its times; it delays a closed loop, as a slow client
/// would be delayed. A player may have nothing to issue at `next_at`, but a miss to report.
#[derive(Clone, Debug)]
pub struct Source {
    generator: Generator,
    outstanding: u32,
    timing: Timing,
    misses: Misses,
}

#[derive(Clone, Debug)]
enum Timing {
    Closed {
        think: Duration,
        /// When each operation that is not outstanding may be issued, soonest first: completions
        /// come in order of time and all think equally long. Its length plus the number outstanding
        /// less the surplus is constant.
        ready: VecDeque<Instant>,
        /// Outstanding operations of before that are too many now: their completions make no room.
        surplus: u32,
        burst: Option<Box<Burst>>,
    },
    Open {
        arrivals: Arrivals,
        next: Instant,
        /// The end of the ON period, for [`Arrivals::OnOff`].
        on_until: Instant,
        random: Box<Pcg64>,
    },
    Player(Box<Player>),
    Cycles(Batches),
}

#[derive(Clone, Debug)]
struct Burst {
    length: u32,
    left: u32,
    idle_ns_min: u64,
    idle_ns_max: u64,
    random: Pcg64,
}

impl Source {
    /// A source that starts at `start`; seed and name as for [`Generator::new`].
    ///
    /// # Errors
    /// If the spec or the pace makes no sense.
    pub fn new(
        spec: Spec,
        pace: Pace,
        seed: u64,
        name: &str,
        start: Instant,
    ) -> Result<Self, SpecError> {
        pace.check_with(&spec)?;
        let mut generator = Generator::new(spec, seed, name)?;
        let at = Start { outstanding: 0, first: generator.peek() };
        let timing = Timing::new(pace, seed, name, start, &at);
        Ok(Self { generator, outstanding: 0, timing, misses: Misses::default() })
    }

    /// The next operation to issue now, if there is one.
    pub fn poll(&mut self, now: Instant) -> Option<IoOp> {
        match &mut self.timing {
            Timing::Closed { ready, burst, .. } => {
                ready.front().filter(|&&at| at <= now)?;
                if let Some(burst) = burst {
                    burst.left = burst.left.checked_sub(1)?;
                }
                ready.pop_front();
            }
            Timing::Open { arrivals, next, on_until, random } => {
                if *next > now {
                    return None;
                }
                *next = arrivals.after(*next, on_until, random);
            }
            Timing::Player(player) => {
                if !player.poll(now, &mut self.misses) {
                    return None;
                }
                let op = self.generator.next_op();
                player.issued(op, self.generator.peek().bytes);
                self.outstanding += 1;
                return Some(op);
            }
            Timing::Cycles(batches) => {
                if !batches.poll(now) {
                    return None;
                }
                let op = self.generator.next_op();
                batches.issued(self.generator.peek().bytes);
                self.outstanding += 1;
                return Some(op);
            }
        }
        self.outstanding += 1;
        Some(self.generator.next_op())
    }

    /// When the next operation is due, maybe in the past; `None` while it waits for a completion.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        match &self.timing {
            Timing::Closed { burst: Some(burst), .. } if burst.left == 0 => None,
            Timing::Closed { ready, .. } => ready.front().copied(),
            Timing::Open { next, .. } => Some(*next),
            Timing::Player(player) => player.next_at(),
            Timing::Cycles(batches) => Some(batches.next_at()),
        }
    }

    /// One of the operations has completed, failed or been refused. Only a player looks at which: it
    /// needs its data in order.
    ///
    /// # Panics
    /// If none is outstanding: a completion was counted twice.
    pub fn completed(&mut self, now: Instant, op: &IoOp) {
        assert!(self.outstanding > 0, "a completion at {now:?} with nothing outstanding");
        self.outstanding -= 1;
        match &mut self.timing {
            Timing::Closed { think, ready, surplus, burst } => {
                if *surplus > 0 {
                    *surplus -= 1;
                } else {
                    ready.push_back(now + *think);
                }
                if let Some(burst) = burst.as_mut().filter(|burst| burst.left == 0)
                    && self.outstanding == 0
                {
                    let idle = burst.random.random_range(burst.idle_ns_min..=burst.idle_ns_max);
                    burst.left = burst.length;
                    ready.iter_mut().for_each(|at| *at = now + Duration::from_nanos(idle));
                }
            }
            Timing::Open { .. } | Timing::Cycles(_) => {}
            Timing::Player(player) => player.completed(now, op, &mut self.misses),
        }
    }

    /// The oldest miss of a player that was not returned yet.
    pub fn missed(&mut self) -> Option<Miss> {
        self.misses.pop()
    }

    /// How often a player has missed.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses.count
    }

    /// How a player has done by now, with a stall that still lasts.
    #[must_use]
    pub fn stalls(&self, now: Instant) -> Stalls {
        let Misses { count: misses, stalled, longest, .. } = self.misses;
        let standing = match &self.timing {
            Timing::Player(player) => player.standing(now),
            _ => Duration::ZERO,
        };
        Stalls { misses, total: stalled + standing, longest: longest.max(standing) }
    }

    /// For how long a player has stood still, without a stall that still lasts.
    #[must_use]
    pub fn stalled(&self) -> Duration {
        self.misses.stalled
    }

    /// Operations issued and not completed.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Goes on at another pace, and with other operations if `spec` says so. Outstanding operations
    /// stay so and count against the new pace's number.
    pub(crate) fn change(
        &mut self,
        spec: &Spec,
        pace: Pace,
        seed: u64,
        name: &str,
        start: Instant,
    ) -> Result<(), SpecError> {
        pace.check_with(spec)?;
        if self.generator.spec() != spec {
            self.generator = Generator::new(spec.clone(), seed, name)?;
        }
        let at = Start { outstanding: self.outstanding, first: self.generator.peek() };
        self.timing = Timing::new(pace, seed, name, start, &at);
        Ok(())
    }

    /// Whether operations are issued at times that completions don't change.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.timing, Timing::Open { .. } | Timing::Cycles(_))
    }
}

/// With what a pace begins.
struct Start {
    outstanding: u32,
    first: IoOp,
}

impl Timing {
    fn new(pace: Pace, seed: u64, name: &str, start: Instant, at: &Start) -> Self {
        let closed = |outstanding: u32, think, burst| Self::Closed {
            think,
            ready: (at.outstanding..outstanding).map(|_| start).collect(),
            surplus: at.outstanding.saturating_sub(outstanding),
            burst,
        };
        match pace {
            Pace::Closed { outstanding, think } => closed(outstanding, think, None),
            Pace::Bursts { outstanding, length, idle_min, idle_max } => {
                let burst = Burst {
                    length,
                    left: length,
                    idle_ns_min: idle_min.as_nanos(),
                    idle_ns_max: idle_max.as_nanos(),
                    random: random::stream(seed, name, "idle"),
                };
                closed(outstanding, Duration::ZERO, Some(Box::new(burst)))
            }
            Pace::Open(arrivals) => {
                let mut random = Box::new(random::stream(seed, name, "arrivals"));
                let (mut next, mut on_until) = (start, Instant::MAX);
                match arrivals {
                    Arrivals::Constant { .. } => {}
                    Arrivals::Poisson { mean } => {
                        next = start + random::exponential(mean, &mut random);
                    }
                    Arrivals::OnOff { on, spans, .. } => {
                        on_until = start + spans.span(on, &mut random);
                    }
                }
                Self::Open { arrivals, next, on_until, random }
            }
            Pace::Player(playback) => {
                Self::Player(Box::new(Player::new(playback, start, at.first)))
            }
            Pace::Cycles(cycles) => Self::Cycles(Batches::new(cycles, start, at.first.bytes)),
        }
    }
}

impl Arrivals {
    /// The arrival after the one at `last`.
    fn after(&self, last: Instant, on_until: &mut Instant, random: &mut Pcg64) -> Instant {
        match *self {
            Self::Constant { interval } => last + interval,
            Self::Poisson { mean } => last + random::exponential(mean, random),
            Self::OnOff { interval, on, off, spans } => {
                let next = last + interval;
                if next < *on_until {
                    return next;
                }
                let next = *on_until + spans.span(off, random);
                *on_until = next + spans.span(on, random);
                next
            }
        }
    }
}

impl Spans {
    fn span(self, length: Duration, random: &mut Pcg64) -> Duration {
        match self {
            Self::Fixed => length,
            Self::Exponential => random::exponential(length, random),
        }
    }
}
