//! A generator with a pace: a client without its sockets.
//!
//! Does not know: whether an operation was accepted, how long it took, or what else is issued.

use crate::generator::Generator;
use crate::pace::{Arrivals, Pace};
use crate::random;
use crate::spec::{IoOp, Spec, SpecError};
use disktime_core::{Duration, Instant};
use rand_pcg::Pcg64;
use std::collections::VecDeque;

/// Issues operations in time.
///
/// Call [`poll`](Self::poll) until it returns `None`; then wait until [`next_at`](Self::next_at) or
/// a completion, which goes to [`completed`](Self::completed), and poll again. A refused operation
/// counts as completed. Time never goes back. Polling early is harmless. Polling late issues an open
/// loop's operations late but changes none of its times; it delays a closed loop, as a slow client
/// would be delayed.
#[derive(Clone, Debug)]
pub struct Source {
    generator: Generator,
    outstanding: u32,
    timing: Timing,
}

#[derive(Clone, Debug)]
enum Timing {
    Closed {
        think: Duration,
        /// When each operation that is not outstanding may be issued, soonest first: completions
        /// come in order of time and all think equally long. Its length plus the number outstanding
        /// is constant.
        ready: VecDeque<Instant>,
    },
    Open {
        arrivals: Arrivals,
        next: Instant,
        random: Box<Pcg64>,
    },
}

impl Source {
    /// A source that starts at `start`; seed and name as for [`Generator::new`].
    ///
    /// # Errors
    /// What is wrong with the spec or the pace.
    pub fn new(
        spec: Spec,
        pace: Pace,
        seed: u64,
        name: &str,
        start: Instant,
    ) -> Result<Self, SpecError> {
        pace.check()?;
        let generator = Generator::new(spec, seed, name)?;
        let timing = match pace {
            Pace::Closed { outstanding, think } => {
                Timing::Closed { think, ready: (0..outstanding).map(|_| start).collect() }
            }
            Pace::Open(arrivals) => {
                let mut random = Box::new(random::stream(seed, name, "arrivals"));
                let next = match arrivals {
                    Arrivals::Constant { .. } => start,
                    Arrivals::Poisson { mean } => start + random::exponential(mean, &mut random),
                };
                Timing::Open { arrivals, next, random }
            }
        };
        Ok(Self { generator, outstanding: 0, timing })
    }

    /// The next operation to issue now, if there is one.
    pub fn poll(&mut self, now: Instant) -> Option<IoOp> {
        self.next_at().filter(|&at| at <= now)?;
        match &mut self.timing {
            Timing::Closed { ready, .. } => {
                ready.pop_front();
            }
            Timing::Open { arrivals, next, random } => *next = *next + arrivals.interval(random),
        }
        self.outstanding += 1;
        Some(self.generator.next_op())
    }

    /// When the next operation is due, maybe in the past; `None` while it waits for a completion.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        match &self.timing {
            Timing::Closed { ready, .. } => ready.front().copied(),
            Timing::Open { next, .. } => Some(*next),
        }
    }

    /// One of the operations has completed, failed or been refused.
    ///
    /// # Panics
    /// If none is outstanding: a completion was counted twice.
    pub fn completed(&mut self, now: Instant) {
        assert!(self.outstanding > 0, "a completion at {now:?} with nothing outstanding");
        self.outstanding -= 1;
        if let Timing::Closed { think, ready } = &mut self.timing {
            ready.push_back(now + *think);
        }
    }

    /// Operations issued and not completed.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }
}

impl Arrivals {
    fn interval(&self, random: &mut Pcg64) -> Duration {
        match *self {
            Self::Constant { interval } => interval,
            Self::Poisson { mean } => random::exponential(mean, random),
        }
    }
}
