//! A device with faults: pauses, a change of speed, single slow requests, cleaning after writes.
//!
//! The device inside has a time of its own, which stands still in a pause and runs slower or faster
//! after a change of speed; its timeline maps the two onto each other. A slow request is handed back
//! later than the device inside did it. Cleaning is a pause that begins when so many bytes have been
//! written: what a drive does that shingles, or folds an SLC cache.
//!
//! Does not know: errors; a device that gets faster while it is used.

use crate::device::{Completion, Device, Op};
use disktime_core::{Duration, Instant, Kind};
use std::collections::BTreeMap;

/// Faults, each if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Pauses at regular times.
    pub pauses: Option<Pauses>,
    /// One change of speed.
    pub step: Option<Step>,
    /// Single requests that take long.
    pub outliers: Option<Outliers>,
    /// Pauses that writes cause.
    pub cleaning: Option<Cleaning>,
}

/// The device stands still: at each multiple of `every` but the zeroth, for `length`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pauses {
    /// From one to the next, longer than one.
    pub every: Duration,
    /// How long each is.
    pub length: Duration,
}

/// The device has another speed from a time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Since when.
    pub after: Duration,
    /// The speed then, in thousandths of that before, more than zero.
    pub speed_permille: u32,
}

/// Every so manyth request takes so much longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outliers {
    /// One in how many, more than zero.
    pub one_in: u64,
    /// How much longer.
    pub delay: Duration,
}

/// The device stands still for a time whenever so much has been written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cleaning {
    /// Bytes written from one time to the next, more than zero.
    pub after_bytes: u64,
    /// How long it takes.
    pub takes: Duration,
}

/// A device with faults.
pub struct Faulty {
    device: Box<dyn Device>,
    faults: Faults,
    timeline: Timeline,
    /// Requests submitted.
    submitted: u64,
    /// Bytes written since the last cleaning.
    written_bytes: u64,
    /// Requests that the device inside has done, by when they are handed back and the order in which
    /// it did them.
    back: BTreeMap<(Instant, u64), Completion>,
    done: u64,
    /// Tags of slow requests at the device inside.
    slow_tags: Vec<u64>,
    inside: Vec<Completion>,
}

impl Faulty {
    /// A device with faults. `age` is how far the time of the device inside has come: one that was
    /// used before it is wrapped starts with a past.
    ///
    /// # Panics
    /// If a fault makes no sense: no time between pauses, no speed, one request in none.
    #[must_use]
    pub fn new(device: Box<dyn Device>, age: Instant, faults: Faults) -> Self {
        assert!(faults.pauses.is_none_or(|it| it.length < it.every), "{faults:?}");
        assert!(faults.step.is_none_or(|it| it.speed_permille > 0), "{faults:?}");
        assert!(faults.outliers.is_none_or(|it| it.one_in > 0), "{faults:?}");
        assert!(faults.cleaning.is_none_or(|it| it.after_bytes > 0), "{faults:?}");
        let Faults { pauses, step, .. } = faults;
        Self {
            device,
            faults,
            timeline: Timeline {
                outer: 0,
                inner: age.as_nanos(),
                rest: 0,
                still_until: 0,
                pauses,
                step,
            },
            submitted: 0,
            written_bytes: 0,
            back: BTreeMap::new(),
            done: 0,
            slow_tags: Vec::new(),
            inside: Vec::new(),
        }
    }

    /// Counts what is written, and begins to clean when it is enough.
    fn clean(&mut self, now: Instant, bytes: u64) {
        let Some(Cleaning { after_bytes, takes }) = self.faults.cleaning else { return };
        self.written_bytes += bytes;
        if self.written_bytes >= after_bytes {
            self.written_bytes -= after_bytes;
            self.timeline.stand_still(now + takes);
        }
    }
}

impl Faulty {
    /// Takes what the device inside has done by now; answers the time inside.
    fn catch_up(&mut self, now: Instant) -> Instant {
        let before = self.timeline;
        let inner = self.timeline.inner(now);
        self.device.advance(inner, &mut self.inside);
        for completion in self.inside.drain(..) {
            let slow = self.slow_tags.iter().position(|tag| *tag == completion.tag);
            let delay = slow.and(self.faults.outliers).map_or(Duration::ZERO, |it| it.delay);
            if let Some(slow) = slow {
                self.slow_tags.swap_remove(slow);
            }
            let at = before.outer(completion.at) + delay;
            self.back.insert((at, self.done), Completion { at, ..completion });
            self.done += 1;
        }
        inner
    }
}

impl Device for Faulty {
    fn capacity_bytes(&self) -> u64 {
        self.device.capacity_bytes()
    }

    fn queue_depth(&self) -> u32 {
        self.device.queue_depth()
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        let inner = self.catch_up(now);
        self.device.submit(inner, tag, op);
        self.submitted += 1;
        if self.faults.outliers.is_some_and(|it| self.submitted.is_multiple_of(it.one_in)) {
            self.slow_tags.push(tag);
        }
        if op.kind == Kind::Write {
            self.clean(now, op.bytes);
        }
    }

    fn next_completion(&self) -> Option<Instant> {
        let inside = self.device.next_completion().map(|at| self.timeline.outer(at));
        let back = self.back.first_key_value().map(|((at, _), _)| *at);
        inside.into_iter().chain(back).min()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.catch_up(now);
        while let Some(entry) = self.back.first_entry() {
            if entry.key().0 > now {
                break;
            }
            done.push(entry.remove());
        }
    }
}

/// Which time inside belongs to which time outside, from the last time that was asked for on.
#[derive(Clone, Copy, Debug)]
struct Timeline {
    outer: u64,
    inner: u64,
    /// Thousandths of a nanosecond that have passed inside beyond that.
    rest: u64,
    /// Until when the device stands still because it cleans.
    still_until: u64,
    pauses: Option<Pauses>,
    step: Option<Step>,
}

/// A span in which time inside runs evenly: its end outside, and its speed in thousandths.
struct Even {
    end: u64,
    permille: u64,
}

impl Timeline {
    /// The span that a time outside is in.
    fn even(&self, outer: u64) -> Even {
        if outer < self.still_until {
            return Even { end: self.still_until, permille: 0 };
        }
        let mut even = Even { end: u64::MAX, permille: 1000 };
        if let Some(Pauses { every, length }) = self.pauses {
            let (every, length) = (every.as_nanos(), length.as_nanos());
            let since = outer % every;
            if outer >= every && since < length {
                return Even { end: (outer - since).saturating_add(length), permille: 0 };
            }
            even.end = (outer - since).saturating_add(every);
        }
        if let Some(Step { after, speed_permille }) = self.step {
            if outer < after.as_nanos() {
                even.end = even.end.min(after.as_nanos());
            } else {
                even.permille = speed_permille.into();
            }
        }
        even
    }

    /// The time inside at a time outside, which is not before the last.
    fn inner(&mut self, now: Instant) -> Instant {
        let now = now.as_nanos();
        assert!(now >= self.outer, "time goes back to {now} ns");
        while self.outer < now {
            self.skip_cycles(now);
            if self.outer == now {
                break;
            }
            let Even { end, permille } = self.even(self.outer);
            self.run(end.min(now), permille);
        }
        Instant::from_nanos(self.inner)
    }

    /// Whole cycles of running and pausing at once, so that no step towards a far time takes long.
    fn skip_cycles(&mut self, now: u64) {
        let Some(Pauses { every, length }) = self.pauses else { return };
        let (every, length) = (every.as_nanos(), length.as_nanos());
        let last = self.step.map_or(0, |step| step.after.as_nanos()).max(self.still_until);
        let cycles = (now - self.outer) / every;
        if self.outer < last.max(every) || cycles < 2 {
            return;
        }
        let permille = self.step.map_or(1000, |step| step.speed_permille).into();
        let before = self.outer;
        self.run(before + cycles * (every - length), permille);
        self.outer = before + cycles * every;
    }

    /// Evenly, until a time outside.
    fn run(&mut self, end: u64, permille: u64) {
        let parts = u128::from(end - self.outer) * u128::from(permille) + u128::from(self.rest);
        let whole = u64::try_from(parts / 1000).unwrap_or(u64::MAX);
        self.inner = self.inner.saturating_add(whole);
        self.rest = u64::try_from(parts % 1000).unwrap_or(0);
        self.outer = end;
    }

    /// The first time outside at which it is so late inside.
    fn outer(mut self, inner: Instant) -> Instant {
        let inner = inner.as_nanos();
        while self.inner < inner {
            let Even { end, permille } = self.even(self.outer);
            let left = u128::from(inner - self.inner) * 1000 - u128::from(self.rest);
            let needed = if permille == 0 { u128::MAX } else { left.div_ceil(permille.into()) };
            if needed <= u128::from(end - self.outer) {
                let needed = u64::try_from(needed).unwrap_or(u64::MAX);
                return Instant::from_nanos(self.outer + needed);
            }
            self.run(end, permille);
        }
        Instant::from_nanos(self.outer)
    }

    /// From the last time on, until a time.
    fn stand_still(&mut self, until: Instant) {
        self.still_until = self.still_until.max(until.as_nanos());
    }
}

/// Fills a device with writes in sequence and then overwrites it at random places, as its owner did
/// before: answers when the last of them ended. `bytes` is the size of each, and divides the
/// capacity.
pub fn age(device: &mut dyn Device, bytes: u64, overwrites: u64) -> Instant {
    let places = device.capacity_bytes() / bytes;
    let mut now = Instant::ZERO;
    let mut done = Vec::new();
    let mut random = 1_u64;
    let mut inside = 0;
    for number in 0..places + overwrites {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let place = if number < places { number } else { (random >> 33) % places };
        let op = Op { kind: Kind::Write, offset: place * bytes, bytes, fua: false };
        device.submit(now, number, op);
        inside += 1;
        while inside == device.queue_depth().min(32) {
            now = device.next_completion().expect("writes are inside").max(now);
            device.advance(now, &mut done);
            inside -= u32::try_from(done.len()).expect("few are inside");
            done.clear();
        }
    }
    while let Some(at) = device.next_completion() {
        now = now.max(at);
        device.advance(now, &mut done);
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exponential::{Exponential, ExponentialSpec, Service};

    const MS: Duration = Duration::from_millis(1);

    /// 1 ms for everything.
    fn server() -> Box<dyn Device> {
        let spec = ExponentialSpec {
            capacity_bytes: 1 << 20,
            queue_depth: 64,
            read_mean: MS,
            write_mean: MS,
            service: Service::Constant,
        };
        Box::new(Exponential::new(spec, 1))
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// When each of so many requests is done, one at a time, in ms.
    fn done(faults: Faults, kind: Kind, count: u64) -> Vec<u64> {
        let mut device = Faulty::new(server(), Instant::from_nanos(77), faults);
        let (mut now, mut done) = (Instant::ZERO, Vec::new());
        for tag in 0..count {
            device.submit(now, tag, Op { kind, offset: 0, bytes: 4096, fua: false });
            while done.len() as u64 == tag {
                now = device.next_completion().expect("one is inside");
                device.advance(now, &mut done);
            }
        }
        done.iter().map(|it| it.at.as_nanos() / MS.as_nanos()).collect()
    }

    #[test]
    fn time_stands_still_in_a_pause_and_runs_on_after_it() {
        let pauses = Pauses { every: Duration::from_millis(4), length: Duration::from_millis(2) };
        let faults = Faults { pauses: Some(pauses), ..Faults::default() };
        assert_eq!(done(faults, Kind::Read, 8), [1, 2, 3, 4, 7, 8, 11, 12]);
    }

    #[test]
    fn a_step_changes_the_speed_in_the_middle_of_a_request() {
        let step = Step { after: Duration::from_micros(2500), speed_permille: 250 };
        let faults = Faults { step: Some(step), ..Faults::default() };
        // Half of the third at full speed, and the other half takes 2 ms.
        assert_eq!(done(faults, Kind::Read, 4), [1, 2, 4, 8]);
        let step = Step { after: Duration::from_millis(2), speed_permille: 2000 };
        let faults = Faults { step: Some(step), ..Faults::default() };
        assert_eq!(done(faults, Kind::Read, 6), [1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn every_third_request_is_slow_and_others_overtake_it() {
        let outliers = Outliers { one_in: 3, delay: Duration::from_millis(10) };
        let faults = Faults { outliers: Some(outliers), ..Faults::default() };
        assert_eq!(done(faults, Kind::Read, 4), [1, 2, 13, 14]);
        let mut device = Faulty::new(server(), Instant::ZERO, faults);
        for tag in 0..4 {
            let op = Op { kind: Kind::Read, offset: 0, bytes: 4096, fua: false };
            device.submit(Instant::ZERO, tag, op);
        }
        let mut done = Vec::new();
        device.advance(at(20), &mut done);
        let tags: Vec<_> = done.iter().map(|it| (it.tag, it.at)).collect();
        assert_eq!(tags, [(0, at(1)), (1, at(2)), (3, at(4)), (2, at(13))]);
        assert_eq!(device.next_completion(), None);
    }

    #[test]
    fn writes_make_the_device_clean_and_reads_do_not() {
        let cleaning = Cleaning { after_bytes: 8192, takes: Duration::from_millis(5) };
        let faults = Faults { cleaning: Some(cleaning), ..Faults::default() };
        // It begins when the second write is submitted.
        assert_eq!(done(faults, Kind::Write, 4), [1, 7, 8, 14]);
        assert_eq!(done(faults, Kind::Read, 4), [1, 2, 3, 4]);
    }
}
