//! Checks that must hold in every simulation, made from outside the engine.
//!
//! The checkers keep their own counts from what they see pass (arrivals, dispatches, completions,
//! the device's own times), so an engine that miscounts, loses, favours or starves is noticed.
//! With one piece at a time, or where tiers tell, the stream that used the time is seen from outside.
//! If several pieces are at the device, the time between completions belongs to no single stream. Then
//! promises are checked by charges, whose sum must be the time that the device was busy.
//!
//! Pauses that the device's model plans are in no interval of a promise bound, whether or not the engine
//! takes them for stalls.

mod cycles;
mod pauses;

use cycles::Cycles;
use disktime_core::promise::Terms;
use disktime_core::{Admission, Contract, DeviceTime, Duration, Instant, StreamCounters, StreamId};
use pauses::Pauses;

/// A promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// `arrived = refused + queued + in flight + completed + cancelled`, and as many as were seen.
    Requests,
    /// `charged = busy - spare - open + held`, and busy is what the device was.
    Time,
    /// At most limit·W + limit·p + (D+1)·c_max in any window W.
    Limit,
    /// At least f·(W - Θ) in any window W in which a stream is backlogged throughout, Θ its promise
    /// bound, which follows from contracts ([`Terms::bound`]). The device's pauses are not in W.
    Guarantee,
    /// A deterministic rate is kept in every cycle.
    Cycle,
    /// A backlogged stream with a reservation waits for Θ at most.
    Starvation,
}

/// A promise that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which.
    pub check: Check,
    /// The stream concerned, if it is a single one.
    pub stream: Option<StreamId>,
    /// By how much, in words.
    pub what: String,
}

/// The counts of one stream.
#[derive(Clone, Copy, Debug)]
struct Seen {
    contract: Contract,
    arrived: u64,
    dispatched: u64,
    completed: u64,
    /// True device time it got, and the part of others' time that its writes took.
    service_ns: i64,
    /// The same where tiers work side by side: the time of the tiers.
    of_tiers_ns: i64,
    /// The part of it that is by the engine's count.
    counted_ns: i64,
    /// The rise of (reserved time - service) while it is backlogged, in ns.
    lag: Rise,
    /// The rise of (service - limit·t), in ns.
    over: Rise,
    /// Without pauses.
    waits_since: Option<Instant>,
    longest_wait: Duration,
    /// The cycles of a deterministic rate.
    cycles: Option<Cycles>,
    /// By how long it can be behind, at the loosest since it is there; `None` if that is not promised.
    bound: Option<Duration>,
    /// Its contract has changed: bounds over windows across the change do not apply.
    changed: bool,
}

/// By how much a number was above what it had been before.
#[derive(Clone, Copy, Debug, Default)]
struct Rise {
    /// The lowest since it counts; `None` while it does not.
    lowest: Option<i64>,
    most: i64,
}

impl Rise {
    fn falls(&mut self, to: i64) {
        self.lowest = self.lowest.map(|lowest| lowest.min(to));
    }

    fn rises(&mut self, to: i64) {
        let above = self.lowest.map_or(0, |lowest| to - lowest);
        self.most = self.most.max(above);
    }
}

/// The bounds that hold in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) depth: u32,
    pub(crate) period: Duration,
    /// The longest time that a piece is declared to take.
    pub(crate) piece: Duration,
    /// The longest slice.
    pub(crate) slice: Duration,
    /// Deeper than 1 what is charged is known at the end of such a window.
    pub(crate) window: Duration,
    /// The policy keeps reservations.
    pub(crate) guarantee: bool,
    /// Limits are in disk time; those of a policy that counts requests are not checked here.
    pub(crate) timed: bool,
}

pub(crate) struct Checks {
    bounds: Bounds,
    seen: Vec<Seen>,
    dearest_ns: i64,
    busy_ns: u64,
    /// Pieces at the device, and since when there were any.
    in_flight: u32,
    busy_since: Instant,
    pauses: Pauses,
}

impl Checks {
    pub(crate) fn new(bounds: Bounds, contracts: &[Contract]) -> Self {
        let seen = |contract: &Contract| Seen {
            contract: *contract,
            arrived: 0,
            dispatched: 0,
            completed: 0,
            service_ns: 0,
            of_tiers_ns: 0,
            counted_ns: 0,
            lag: Rise::default(),
            over: Rise { lowest: Some(0), most: 0 },
            waits_since: None,
            longest_wait: Duration::ZERO,
            cycles: Cycles::of(contract),
            bound: None,
            changed: false,
        };
        let mut checks = Self {
            bounds,
            seen: contracts.iter().map(seen).collect(),
            dearest_ns: 0,
            busy_ns: 0,
            in_flight: 0,
            busy_since: Instant::ZERO,
            pauses: Pauses::default(),
        };
        checks.promise(contracts);
        checks
    }

    /// Bounds by these contracts, where they are looser than before.
    fn promise(&mut self, contracts: &[Contract]) {
        let Bounds { depth, period, piece, slice, guarantee, .. } = self.bounds;
        let mut terms = Terms::new(depth, piece, slice, period);
        contracts.iter().for_each(|contract| terms.add(contract, None));
        for (seen, contract) in self.seen.iter_mut().zip(contracts) {
            let bound = terms.bound(contract).filter(|_| guarantee);
            seen.bound = bound.map(|bound| bound.max(seen.bound.unwrap_or_default()));
        }
    }

    /// Whether the time between completions is one stream's.
    pub(crate) fn see_whose_time_it_was(&self) -> bool {
        self.bounds.depth == 1
    }

    /// The latest pause that the device plans.
    pub(crate) fn paused(&mut self, pause: Option<(Instant, Instant)>) {
        self.pauses.note(pause);
    }

    pub(crate) fn arrived(&mut self, now: Instant, stream: StreamId, bytes: u64) {
        let worked = self.pauses.left_out(now);
        let seen = &mut self.seen[stream.0 as usize];
        if seen.backlog() == 0 {
            seen.lag.lowest = Some(seen.lag_ns(worked));
            seen.waits_since = Some(worked);
        }
        seen.arrived += 1;
        if let Some(cycles) = &mut seen.cycles {
            cycles.arrived(now, bytes);
        }
    }

    /// A piece went out; `last` if nothing of its request waits any more.
    pub(crate) fn dispatched(&mut self, now: Instant, stream: StreamId, bytes: u64, last: bool) {
        if self.in_flight == 0 {
            self.busy_since = now;
        }
        self.in_flight += 1;
        let worked = self.pauses.left_out(now);
        let seen = &mut self.seen[stream.0 as usize];
        seen.dispatched += u64::from(last);
        if let Some(cycles) = &mut seen.cycles {
            cycles.dispatched(now, bytes);
        }
        let waited = seen.waits_since.map_or(Duration::ZERO, |since| worked.since(since));
        seen.longest_wait = seen.longest_wait.max(waited);
        seen.waits_since = (seen.backlog() > 0).then_some(worked);
        if seen.backlog() == 0 {
            seen.measure_lag(worked);
            seen.lag.lowest = None;
        }
    }

    /// A piece came back.
    pub(crate) fn completed(&mut self, now: Instant, stream: StreamId, back: Back) {
        let Back { service, of_tier, relieved, bytes, over } = back;
        let began = now - service;
        let [worked, since] = [now, began].map(|at| self.pauses.left_out(at));
        let of_tier = worked.since(self.pauses.left_out(now - of_tier));
        let service = worked.since(since);
        self.dearest_ns = self.dearest_ns.max(service.as_tokens());
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.busy_ns += now.since(self.busy_since).as_nanos();
        }
        let seen = &mut self.seen[stream.0 as usize];
        seen.completed += u64::from(over);
        if let Some(cycles) = &mut seen.cycles {
            cycles.completed(now, bytes);
        }
        seen.measure_lag(since);
        seen.over.falls(seen.over_ns(began));
        if let Some(relieved) = relieved {
            let its = |time: Duration| time.as_tokens() - relieved.as_tokens();
            seen.served(now, worked, (its(service), its(of_tier)));
        }
    }

    /// By the engine's count a stream had so much time by now: of others' pieces, for its own writes;
    /// or all that it was charged.
    pub(crate) fn counted(&mut self, now: Instant, stream: StreamId, counted: Duration) {
        let worked = self.pauses.left_out(now);
        let seen = &mut self.seen[stream.0 as usize];
        let more = counted.as_tokens() - seen.counted_ns;
        if more > 0 {
            seen.counted_ns += more;
            seen.measure_lag(worked);
            seen.over.falls(seen.over_ns(now));
            seen.served(now, worked, (more, more));
        }
    }

    /// A stream has another contract; `all` are everyone's as granted.
    pub(crate) fn changed(&mut self, stream: StreamId, all: &[Contract]) {
        let seen = &mut self.seen[stream.0 as usize];
        (seen.contract, seen.changed) = (all[stream.0 as usize], true);
        self.promise(all);
    }

    /// The checks that did not hold, at the end of the run.
    pub(crate) fn verdict(
        mut self,
        now: Instant,
        counters: &[StreamCounters],
        time: DeviceTime,
    ) -> Vec<Violation> {
        let mut violations = Vec::new();
        let worked = self.pauses.left_out(now);
        for (id, counters) in (0..).map(StreamId).zip(counters) {
            self.seen[id.0 as usize].end(now, worked);
            let seen = &self.seen[id.0 as usize];
            let mut found =
                |check, what| violations.push(Violation { check, stream: Some(id), what });
            let same = counters.arrived == seen.arrived && counters.completed == seen.completed;
            if !same || seen.completed > seen.arrived {
                found(
                    Check::Requests,
                    format!(
                        "seen {} arrive and {} complete, counted {} and {}",
                        seen.arrived, seen.completed, counters.arrived, counters.completed
                    ),
                );
            }
            if let Some(what) = self.over_limit(seen) {
                found(Check::Limit, what);
            }
            if let Some(what) = self.behind(seen) {
                found(Check::Guarantee, what);
            }
            if let Some(what) = self.starved(seen, worked) {
                found(Check::Starvation, what);
            }
            if let Some(what) = seen.missed(counters) {
                found(Check::Cycle, what);
            }
        }
        violations.extend(self.time(now, counters, time));
        violations
    }

    fn time(
        &self,
        now: Instant,
        counters: &[StreamCounters],
        time: DeviceTime,
    ) -> Option<Violation> {
        let charged = counters.iter().map(|counters| counters.charged.as_nanos()).sum::<u64>();
        let balance = charged + time.spare.as_nanos() + time.open.as_nanos();
        let spent = time.busy.as_nanos() + time.held.as_nanos();
        let still = if self.in_flight > 0 { now.since(self.busy_since) } else { Duration::ZERO };
        let busy = self.busy_ns + still.as_nanos();
        let exact = time.busy.as_nanos() == busy;
        let what =
            format!("charged {charged} ns, {time:?}, and the device was seen busy for {busy} ns");
        (balance != spent || !exact).then_some(Violation { check: Check::Time, stream: None, what })
    }

    fn blocking_ns(&self) -> i64 {
        self.dearest_ns.saturating_mul(i64::from(self.bounds.depth) + 1)
    }

    fn over_limit(&self, seen: &Seen) -> Option<String> {
        let allowed =
            part(self.bounds.period.as_tokens(), seen.contract.limit.ppm()) + self.blocking_ns();
        let over = seen.over.most;
        (over > allowed && self.bounds.timed && !seen.changed)
            .then(|| format!("{over} ns above its limit, {allowed} allowed"))
    }

    fn behind(&self, seen: &Seen) -> Option<String> {
        let bound = seen.bound.filter(|_| !seen.changed)?;
        let late = if self.bounds.depth > 1 { self.bounds.window } else { Duration::ZERO };
        let allowed = part(bound.as_tokens(), seen.contract.reserve.ppm()) + late.as_tokens();
        let lag = seen.lag.most;
        (lag > allowed).then(|| format!("{lag} ns behind its reservation, {allowed} allowed"))
    }

    fn starved(&self, seen: &Seen, worked: Instant) -> Option<String> {
        let bound = seen.bound.filter(|_| !seen.changed)?;
        let still = seen.waits_since.map_or(Duration::ZERO, |since| worked.since(since));
        let longest = seen.longest_wait.max(still);
        (longest > bound).then(|| format!("waited {longest:?} for service, {bound:?} allowed"))
    }
}

/// A piece that came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Back {
    /// How long the device worked on it.
    pub(crate) service: Duration,
    /// And the tier that served it, if the device tells.
    pub(crate) of_tier: Duration,
    /// The part of this that went into others' writes, and was charged to them; `None` if several are
    /// at the device, and what is charged counts.
    pub(crate) relieved: Option<Duration>,
    pub(crate) bytes: u64,
    /// Its request is over.
    pub(crate) over: bool,
}

impl Seen {
    fn served(&mut self, now: Instant, worked: Instant, (service, of_tier): (i64, i64)) {
        self.service_ns += service;
        self.of_tiers_ns += of_tier;
        self.over.rises(self.over_ns(now));
        self.lag.falls(self.lag_ns(worked));
    }

    fn end(&mut self, now: Instant, worked: Instant) {
        self.measure_lag(worked);
        if let Some(cycles) = &mut self.cycles {
            cycles.begin(now);
        }
    }

    /// By the engine's count, which knows cycles that it chose itself, or by ours.
    fn missed(&self, counters: &StreamCounters) -> Option<String> {
        let rate = self.contract.rate?;
        if rate.admission != Admission::Deterministic || self.changed {
            return None;
        }
        let (seen, counted) = (self.cycles.map_or(0, |it| it.missed), counters.cycles_missed);
        let what = || format!("seen {seen}, counted {counted} of {} missed", counters.cycles);
        (seen + counted > 0).then(what)
    }

    fn backlog(&self) -> u64 {
        self.arrived - self.dispatched
    }

    fn lag_ns(&self, now: Instant) -> i64 {
        reserved_ns(self.contract, now) - self.of_tiers_ns
    }

    fn over_ns(&self, now: Instant) -> i64 {
        self.service_ns - part(now.as_nanos().cast_signed(), self.contract.limit.ppm())
    }

    fn measure_lag(&mut self, now: Instant) {
        self.lag.rises(self.lag_ns(now));
    }
}

fn reserved_ns(contract: Contract, now: Instant) -> i64 {
    part(now.as_nanos().cast_signed(), contract.reserve.ppm())
}

/// A share of a number of tokens, rounded to zero.
fn part(tokens: i64, ppm: u32) -> i64 {
    const PARTS: i64 = 1_000_000;
    let ppm = i64::from(ppm);
    (tokens / PARTS).saturating_mul(ppm) + tokens % PARTS * ppm / PARTS
}

/// Every checker must catch its planted bug, and find nothing in the run that the bug was
/// planted into.
#[cfg(test)]
mod tests {
    use super::*;
    use disktime_core::{Access, Class, Rate, Share};
    use std::iter;

    const MS: u64 = 1_000_000;
    const STREAM: StreamId = StreamId(0);
    /// The length of each request.
    const BYTES: u64 = 4096;
    const BOUNDS: Bounds = Bounds {
        depth: 1,
        period: Duration::from_secs(1),
        piece: Duration::from_millis(10),
        slice: disktime_core::promise::SLICE,
        window: Duration::from_millis(100),
        guarantee: true,
        timed: true,
    };

    /// One stream, 30 % reserved and 50 % at most, served for 3 of every 10 ms while always
    /// backlogged, for 5 s.
    struct Run {
        checks: Checks,
        counters: StreamCounters,
        busy: Duration,
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    fn run(served_ms: impl Fn(u64) -> u64) -> Run {
        run_beside(&[], served_ms)
    }

    fn contract() -> Contract {
        let limit = Share::from_percent(50).unwrap();
        Contract { limit, ..Contract::reserving(Share::from_percent(30).unwrap()) }
    }

    fn run_beside(others: &[Contract], served_ms: impl Fn(u64) -> u64) -> Run {
        run_of(contract(), others, served_ms)
    }

    fn run_of(contract: Contract, others: &[Contract], served_ms: impl Fn(u64) -> u64) -> Run {
        run_pausing(None, contract, others, served_ms)
    }

    /// On a device with that pause.
    fn run_pausing(
        pause: Option<(Instant, Instant)>,
        contract: Contract,
        others: &[Contract],
        served_ms: impl Fn(u64) -> u64,
    ) -> Run {
        let contracts: Vec<_> = iter::once(&contract).chain(others).copied().collect();
        let mut checks = Checks::new(BOUNDS, &contracts);
        let (mut counters, mut busy) = (StreamCounters::default(), Duration::ZERO);
        checks.arrived(at(0), STREAM, BYTES);
        counters.arrived += 1;
        for turn in 0..500 {
            let (start, service) = (turn * 10, Duration::from_millis(served_ms(turn)));
            checks.paused(pause.filter(|(begin, _)| *begin <= at(start)));
            if service == Duration::ZERO {
                continue;
            }
            checks.arrived(at(start), STREAM, BYTES);
            checks.dispatched(at(start), STREAM, BYTES, true);
            let relieved = Some(Duration::ZERO);
            let back = Back { service, of_tier: service, relieved, bytes: BYTES, over: true };
            checks.completed(at(start) + service, STREAM, back);
            counters.arrived += 1;
            counters.completed += 1;
            counters.charged += service;
            busy += service;
        }
        Run { checks, counters, busy }
    }

    impl Run {
        fn found(self) -> Vec<Check> {
            let Self { checks, counters, busy } = self;
            let time = DeviceTime { busy, charged: busy, ..DeviceTime::default() };
            let found = checks.verdict(at(5_000), &[counters], time);
            found.into_iter().map(|violation| violation.check).collect()
        }
    }

    #[test]
    fn a_good_run_violates_nothing() {
        assert_eq!(run(|_| 3).found(), []);
    }

    #[test]
    fn a_lost_completion_is_caught() {
        let mut bug = run(|_| 3);
        bug.counters.completed -= 1;
        assert_eq!(bug.found(), [Check::Requests]);
    }

    #[test]
    fn a_nanosecond_charged_twice_is_caught() {
        let mut bug = run(|_| 3);
        bug.counters.charged += Duration::from_nanos(1);
        assert_eq!(bug.found(), [Check::Time]);
    }

    #[test]
    fn time_that_the_device_did_not_work_is_caught() {
        let mut bug = run(|_| 3);
        bug.counters.charged += Duration::from_millis(1);
        bug.busy += Duration::from_millis(1);
        assert_eq!(bug.found(), [Check::Time]);
    }

    #[test]
    fn a_limit_that_is_not_kept_is_caught() {
        // 8 of 10 ms for 4 s: 1200 ms above 50 %, 500 ms and two requests allowed.
        assert_eq!(run(|turn| if turn < 400 { 8 } else { 3 }).found(), [Check::Limit]);
    }

    #[test]
    fn a_stream_kept_below_its_share_is_caught() {
        // 1 of 10 ms for 4 s: 800 ms behind 30 %, 300 ms and two requests allowed.
        assert_eq!(run(|turn| if turn < 400 { 1 } else { 3 }).found(), [Check::Guarantee]);
    }

    #[test]
    fn a_starved_stream_is_caught() {
        let found = run(|turn| if (100..300).contains(&turn) { 0 } else { 3 }).found();
        assert_eq!(found, [Check::Guarantee, Check::Starvation]);
    }

    /// Pauses that a device planned once counted as time in which the policy served nobody.
    #[test]
    fn a_pause_of_the_device_starves_nobody_and_hides_no_starvation() {
        let unserved = |turns: std::ops::Range<u64>, pause| {
            let served = |turn| if turns.contains(&turn) { 0 } else { 3 };
            run_pausing(pause, contract(), &[], served).found()
        };
        let starved = [Check::Guarantee, Check::Starvation];
        assert_eq!(unserved(100..300, Some((at(1_000), at(3_000)))), []);
        assert_eq!(unserved(100..300, None), starved);
        assert_eq!(unserved(100..400, Some((at(1_000), at(2_000)))), starved, "2 s after it");
    }

    /// Several pieces at a time. The stream is charged 3 and then so many of every 10 ms, and has 1 ms
    /// between the completion before its own and that.
    fn deep(charged_ms: u64) -> Run {
        let contract = Contract::reserving(Share::from_percent(30).unwrap());
        let mut checks = Checks::new(Bounds { depth: 2, ..BOUNDS }, &[contract]);
        let (mut counters, mut busy) = (StreamCounters::default(), Duration::ZERO);
        checks.arrived(at(0), STREAM, BYTES);
        for turn in 0..500 {
            let end = at(turn * 10 + 10);
            checks.arrived(at(turn * 10), STREAM, BYTES);
            checks.dispatched(at(turn * 10), STREAM, BYTES, true);
            let service = Duration::from_millis(1);
            let back = Back { service, of_tier: service, relieved: None, bytes: BYTES, over: true };
            checks.completed(end, STREAM, back);
            counters.charged += Duration::from_millis(if turn < 100 { 3 } else { charged_ms });
            checks.counted(end, STREAM, counters.charged);
            busy += Duration::from_millis(10);
        }
        (counters.arrived, counters.completed) = (501, 500);
        Run { checks, counters, busy }
    }

    #[test]
    fn where_several_are_at_the_device_charges_count_and_its_busy_time() {
        let found = |Run { checks, counters, busy }: Run| {
            let charged = counters.charged;
            let spare = Duration::from_nanos(busy.as_nanos() - charged.as_nanos());
            let time = DeviceTime { busy, charged, spare, ..DeviceTime::default() };
            let found = checks.verdict(at(5_000), &[counters], time);
            found.into_iter().map(|violation| violation.check).collect::<Vec<_>>()
        };
        assert_eq!(found(deep(3)), []);
        assert_eq!(found(deep(1)), [Check::Guarantee]);
        let mut bug = deep(3);
        bug.busy += Duration::from_millis(1);
        assert_eq!(found(bug), [Check::Time], "a millisecond that the device did not work");
    }

    /// A deterministic rate of so many requests a second, in cycles of a second.
    fn rate(requests: u64, reserve: u32) -> Contract {
        let rate = Rate {
            bytes_per_second: requests * BYTES,
            cycle: Some(Duration::from_secs(1)),
            admission: Admission::Deterministic,
            access: Access::Read,
        };
        let reserving = Contract::reserving(Share::from_percent(reserve).unwrap());
        Contract { class: Class::GuaranteedRate, rate: Some(rate), ..reserving }
    }

    #[test]
    fn a_missed_cycle_is_caught() {
        // A request is done every 10 ms; for one cycle every 30 ms. One always waits.
        let served =
            |turn: u64| if (200..300).contains(&turn) && !turn.is_multiple_of(3) { 0 } else { 3 };
        assert_eq!(run_of(rate(1, 30), &[], |_| 3).found(), []);
        assert_eq!(run_of(rate(1, 30), &[], served).found(), []);
        let mut checks = run_of(rate(100, 30), &[], |_| 3).checks;
        (0..200).for_each(|_| checks.arrived(at(5_000), STREAM, BYTES));
        // Only 30 requests of the 100 that the cycle from 5 s on must do.
        for turn in 0..30 {
            let now = at(5_000 + 30 * turn);
            checks.dispatched(now, STREAM, BYTES, true);
            let (service, relieved) = (Duration::from_millis(3), Some(Duration::ZERO));
            let back = Back { service, of_tier: service, relieved, bytes: BYTES, over: true };
            checks.completed(now + Duration::from_millis(3), STREAM, back);
        }
        checks.seen[0].end(at(6_000), at(6_000));
        assert_eq!(checks.seen[0].cycles.unwrap().missed, 1);
        assert!(checks.seen[0].missed(&StreamCounters::default()).is_some());
    }

    #[test]
    fn a_missed_cycle_that_only_the_engine_knows_of_is_told() {
        let mut run = run_of(rate(1, 30), &[], |_| 3);
        run.counters.cycles_missed = 1;
        assert_eq!(run.found(), [Check::Cycle]);
    }

    /// 1 of 10 ms for 4 s is 800 ms behind: a rate of half the disk may take 1 s ahead
    /// at once, one of a fifth 400 ms.
    #[test]
    fn guaranteed_classes_take_ahead_what_is_allowed_and_no_more() {
        let served = |turns: u64| move |turn| if turn < turns { 1 } else { 3 };
        assert_eq!(run_beside(&[rate(1, 50)], served(400)).found(), []);
        assert_eq!(run_beside(&[rate(1, 20)], served(400)).found(), [Check::Guarantee]);
        let unchecked = Rate { admission: Admission::BestEffort, ..rate(1, 0).rate.unwrap() };
        let beside = Contract { rate: Some(unchecked), ..rate(1, 0) };
        assert_eq!(run_beside(&[beside], served(400)).found(), [], "nothing is promised");
    }
}
