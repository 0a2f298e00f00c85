//! Cello's two levels (Shenoy & Vin 1998): time is divided among classes of applications, and each
//! class orders its own.
//!
//! The upper level knows no class's needs: in each interval the class with work goes that has used
//! the least disk time per weight. Time that a class does not want goes to the others by weight,
//! and at the interval's end all is forgotten: an idle class saves nothing. The lower level is
//! earliest deadline first for real time, the order of arrival for interactive, and a sweep (C-SCAN)
//! for throughput. Soft real-time and guaranteed streams count as real time, best effort as
//! interactive, background as throughput.
//!
//! Guarantees: in an interval throughout which a class has work it gets its weight's part of the
//! time, to within a piece of each class and those at the device; a stream in a class nothing. Left
//! out: the paper merges the classes' requests into one queue that is ordered for short seeks, and
//! lets interactive requests pass real-time ones that have slack; a sequential throughput stream
//! keeps the sweep until it pauses. Where the engine itself ranks classes, the split is among those
//! of one rank: soft real-time against best effort.

use alloc::boxed::Box;

use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use disktime_core::{Class, Duration, Instant, StreamId, StreamOrder, StreamView, Streams};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "cello",
    doc: "disk time to real-time, interactive and throughput classes as 4:2:1, each its own order",
    source: "Shenoy and Vin 1998, in the survey of quality of service for storage",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(Cello::new()),
};

/// Weights of the application classes.
const WEIGHTS: [i64; 3] = [4, 2, 1];
const REAL_TIME: usize = 0;
const INTERACTIVE: usize = 1;
const THROUGHPUT: usize = 2;

/// Shares hold over this long.
const INTERVAL: Duration = Duration::from_secs(1);

/// The first key of the class's order, and the order of arrival.
type Key = (u64, u64);

struct Cello {
    /// Ready streams of each class.
    classes: [StreamOrder<Key>; 3],
    /// Disk time of this interval, in ns: estimates from dispatch on, then charges.
    used: [i64; 3],
    /// Which interval this is.
    interval: u64,
    /// The picked stream and its piece's estimate: its dispatch follows.
    picked: Option<(StreamId, Duration)>,
    /// Where the last piece of a throughput stream ended.
    position: u64,
}

fn class_of(stream: StreamView<'_>) -> usize {
    match stream.contract().class {
        Class::GuaranteedLatency | Class::GuaranteedRate | Class::SoftRealTime => REAL_TIME,
        Class::BestEffort => INTERACTIVE,
        Class::Background => THROUGHPUT,
    }
}

impl Cello {
    fn new() -> Self {
        let classes = [StreamOrder::default(), StreamOrder::default(), StreamOrder::default()];
        Self { classes, used: [0; 3], interval: 0, picked: None, position: 0 }
    }

    fn place(&mut self, stream: StreamView<'_>) {
        let head = stream.head().filter(|_| stream.ready());
        for (class, order) in self.classes.iter_mut().enumerate() {
            let mine = head.filter(|_| class == class_of(stream));
            let key = mine.map(|head| match class {
                REAL_TIME => (head.deadline.unwrap_or(Instant::MAX).as_nanos(), head.sequence),
                THROUGHPUT => (head.offset, head.sequence),
                _ => (head.sequence, head.sequence),
            });
            order.set(stream.id(), key);
        }
    }

    /// The class with work that has used least per weight; the first of equal ones.
    fn turn(&self) -> Option<usize> {
        let wanting = (0..self.classes.len()).filter(|class| !self.classes[*class].is_empty());
        let others = |class: usize| WEIGHTS.iter().product::<i64>() / WEIGHTS[class];
        wanting.min_by_key(|class| self.used[*class].saturating_mul(others(*class)))
    }

    fn charge(&mut self, class: usize, tokens: i64) {
        self.used[class] = self.used[class].saturating_add(tokens);
    }
}

impl Policy for Cello {
    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        let interval = now.as_nanos() / INTERVAL.as_nanos();
        if interval > self.interval {
            self.interval = interval;
            self.used = [0; 3];
        }
        let Some(class) = self.turn() else { return Pick::Nothing };
        let order = &self.classes[class];
        let from = if class == THROUGHPUT { (self.position, 0) } else { (0, 0) };
        let Some((_, id)) = order.first_from(from).or_else(|| order.first()) else {
            return Pick::Nothing;
        };
        let head = streams.get(id).and_then(StreamView::head);
        self.picked = head.map(|head| (id, head.estimate));
        Pick::Stream(id)
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        let class = class_of(stream);
        if let Some((_, estimate)) = self.picked.take().filter(|(id, _)| *id == stream.id()) {
            self.charge(class, estimate.as_tokens());
        }
        if let Some((_, end)) = stream.last_piece().filter(|_| class == THROUGHPUT) {
            self.position = end;
        }
        self.place(stream);
    }

    fn completed(&mut self, _now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        let correction = piece.charge.as_tokens() - piece.estimate.as_tokens();
        self.charge(class_of(stream), correction);
        self.place(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        for order in &mut self.classes {
            order.set(stream, None);
        }
    }
}
