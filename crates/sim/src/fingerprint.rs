//! Fingerprints: hashes of all that simulations decide, to tell whether a change of the code
//! changes what it does.
//!
//! [`fingerprint`] takes those of all simulations that a function runs on its thread, so code that
//! calls the simulator needs no change. Everything hashed is a number that is chosen here: no name
//! of a type, text, `Debug` format or order of fields enters, nor the engine's names of pieces.

use std::cell::RefCell;

use disktime_core::cost::PieceKind;
use disktime_core::{
    Class, Completion, Contract, DeviceTime, Dispatch, Duration, Engine, Event, Ignored, Instant,
    Kind, Request, StreamCounters, StreamId,
};

/// Where each simulation ends, if its plan does not end sooner: at what comes first. The windows
/// after that are empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Simulated time from the start.
    pub after: Duration,
    /// Pieces sent to the device.
    pub dispatches: u64,
}

impl Cut {
    /// Nothing is cut.
    pub const NONE: Self = Self { after: Duration::MAX, dispatches: u64::MAX };
}

/// The decisions of some simulations, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fingerprint {
    /// Simulations.
    pub runs: u64,
    /// Pieces sent to the device.
    pub dispatches: u64,
    /// Hash of every piece sent: when, which stream and request, what, where and how much of it.
    pub decisions: u64,
    /// Hash of the accounts: the estimate of every piece, what the stream had been charged at its
    /// completion, and all counters of streams, device and classes at the end of each window and of the run.
    pub counters: u64,
    /// Hash of what the engine had to tell.
    pub events: u64,
}

/// The fingerprint of all simulations that `work` runs on this thread, and its answer.
///
/// # Panics
/// If `work` does, or asks for a fingerprint itself.
pub fn fingerprint<Answer>(cut: Cut, work: impl FnOnce() -> Answer) -> (Answer, Fingerprint) {
    let before = RECORDER.replace(Some(Tap::new(cut)));
    assert!(before.is_none(), "one fingerprint is taken at a time on a thread");
    let answer = work();
    let tap = RECORDER.take().expect("every simulation puts it back at its end");
    (answer, tap.fingerprint())
}

thread_local! {
    /// The simulations so far, if a fingerprint is wanted; a simulation has it while it runs.
    static RECORDER: RefCell<Option<Tap>> = const { RefCell::new(None) };
}

/// A hash of numbers, in order.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    /// Each step can be undone, so two sequences that differ in one number never have one hash. The
    /// added constant keeps zeroes from leaving a hash of zero as it is.
    fn add(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = (mixed ^ (mixed >> 32)).wrapping_add(0xD1B5_4A32_D192_ED03);
    }

    fn add_all<const COUNT: usize>(&mut self, numbers: [u64; COUNT]) {
        numbers.into_iter().for_each(|number| self.add(number));
    }
}

/// Hears all that a simulation decides.
pub(crate) struct Tap {
    cut: Cut,
    runs: u64,
    /// Sums over all runs, this one among them.
    dispatches: u64,
    sent: u64,
    decisions: Hash,
    counters: Hash,
    events: Hash,
    /// Requests that arrived in this run.
    arrived: u64,
    /// By request's name: the how manieth of the run has it now.
    requests: Vec<u64>,
}

impl Tap {
    fn new(cut: Cut) -> Self {
        Self {
            cut,
            runs: 0,
            dispatches: 0,
            sent: 0,
            decisions: Hash(1),
            counters: Hash(2),
            events: Hash(3),
            arrived: 0,
            requests: Vec::new(),
        }
    }

    /// For a simulation about to run, if a fingerprint is wanted.
    pub(crate) fn begin() -> Option<Self> {
        let tap = RECORDER.take()?;
        Some(Self { runs: tap.runs + 1, sent: 0, arrived: 0, ..tap })
    }

    /// The simulation is over.
    pub(crate) fn end(self) {
        RECORDER.set(Some(self));
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            runs: self.runs,
            dispatches: self.dispatches,
            decisions: self.decisions.0,
            counters: self.counters.0,
            events: self.events.0,
        }
    }

    /// When the run is to end, if it should last until `end`.
    pub(crate) fn end_at(&self, end: Instant) -> Instant {
        end.min(Instant::from_nanos(self.cut.after.as_nanos()))
    }

    /// Whether enough was sent.
    pub(crate) fn is_over(&self) -> bool {
        self.sent >= self.cut.dispatches
    }

    pub(crate) fn arrived(&mut self, request: &Request) {
        let id = request.id.0 as usize;
        if id >= self.requests.len() {
            self.requests.resize(id + 1, 0);
        }
        self.arrived += 1;
        self.requests[id] = self.arrived;
    }

    pub(crate) fn dispatched(&mut self, now: Instant, what: Kind, piece: &Dispatch) {
        // A flush of the engine's own is of no request.
        let request = self.requests.get(piece.request.0 as usize).copied().unwrap_or(0);
        self.sent += 1;
        self.dispatches += 1;
        self.decisions.add_all([
            now.as_nanos(),
            u64::from(piece.stream.0),
            request,
            kind(what),
            piece.offset,
            piece.bytes,
            u64::from(piece.flush),
        ]);
        self.counters.add(piece.estimate.as_nanos());
    }

    /// A piece was completed; with what its stream has been charged, and its request's completion.
    pub(crate) fn completed(
        &mut self,
        at: Instant,
        stream: StreamId,
        counters: &StreamCounters,
        over: Option<&Completion>,
    ) {
        let times = over.map_or([u64::MAX; 2], |completion| {
            [completion.queue_time.as_nanos(), completion.service_time.as_nanos()]
        });
        self.counters.add_all([at.as_nanos(), u64::from(stream.0), counters.charged.as_nanos()]);
        self.counters.add_all(times);
    }

    /// A window or the run has ended.
    pub(crate) fn counted(&mut self, now: Instant, engine: &Engine) {
        self.counters.add(now.as_nanos());
        for stream in engine.streams() {
            self.counters.add(u64::from(stream.id().0));
            self.counters.add_all(of_stream(&stream.counters()));
        }
        let DeviceTime { busy, spare, open, held, charged } = engine.device_time();
        self.counters.add_all([busy, spare, open, held, charged].map(Duration::as_nanos));
        // Soft real-time's is best effort's.
        let classes =
            [Class::GuaranteedLatency, Class::GuaranteedRate, Class::BestEffort, Class::Background];
        self.counters.add_all(classes.map(|class| engine.charged_to(class).as_nanos()));
    }

    /// The engine told of something in the window that ends then.
    pub(crate) fn told(&mut self, ends: Instant, event: &Event) {
        self.events.add(ends.as_nanos());
        let stream = |stream: StreamId| u64::from(stream.0);
        match *event {
            Event::Admitted(id, contract) => {
                self.events.add_all([1, stream(id)]);
                self.events.add_all(of_contract(&contract));
            }
            // The reason is for people; that there was one is what happened.
            Event::Refused(_) => self.events.add(2),
            Event::Late { stream: id, request, late } => {
                let request = self.requests[request.0 as usize];
                self.events.add_all([3, stream(id), request, late.as_nanos()]);
            }
            Event::MissedDeadline(id) => self.events.add_all([4, stream(id)]),
            Event::ReportIgnored(id, why) => {
                let why = match why {
                    Ignored::OtherClass => 1,
                    Ignored::TooSoon => 2,
                    Ignored::NotBehind => 3,
                    Ignored::Distrusted => 4,
                };
                self.events.add_all([5, stream(id), why]);
            }
            Event::PromiseBroken { stream: id, behind, bound, by } => {
                let times = [behind, bound].map(Duration::as_nanos);
                self.events.add_all([6, stream(id), times[0], times[1], by as u64]);
            }
            Event::CycleMissed { stream: id, waited, done } => {
                self.events.add_all([7, stream(id), waited, done]);
            }
            Event::Cut(id) => self.events.add_all([8, stream(id)]),
            Event::Restored(id) => self.events.add_all([9, stream(id)]),
            Event::CostMoved { stream: id, kind, bytes, before, now, listed } => {
                let kind = piece_kind(kind);
                let times = [before.as_nanos(), now.as_nanos(), of_time(listed)];
                self.events.add_all([10, stream(id), kind, bytes]);
                self.events.add_all(times);
            }
        }
    }
}

fn kind(kind: Kind) -> u64 {
    match kind {
        Kind::Read => 1,
        Kind::Write => 2,
        Kind::Flush => 3,
        Kind::Trim => 4,
        Kind::Zeroes => 5,
        Kind::Cache => 6,
    }
}

fn piece_kind(kind: PieceKind) -> u64 {
    match kind {
        PieceKind::SequentialRead => 1,
        PieceKind::RandomRead => 2,
        PieceKind::SequentialWrite => 3,
        PieceKind::RandomWrite => 4,
        PieceKind::Flush => 5,
        PieceKind::Trim => 6,
        PieceKind::Zeroes => 7,
    }
}

/// A time that there may be; none is longer than any.
fn of_time(time: Option<Duration>) -> u64 {
    time.map_or(u64::MAX, Duration::as_nanos)
}

fn of_stream(counters: &StreamCounters) -> [u64; 13] {
    [
        counters.arrived,
        counters.refused,
        counters.completed,
        counters.failed,
        counters.cancelled,
        counters.bytes_read,
        counters.bytes_written,
        counters.charged.as_nanos(),
        counters.held.as_nanos(),
        counters.afterwards.as_nanos(),
        counters.relieved.as_nanos(),
        counters.cycles,
        counters.cycles_missed,
    ]
}

fn of_contract(contract: &Contract) -> [u64; 7] {
    let class = match contract.class {
        Class::GuaranteedLatency => 1,
        Class::GuaranteedRate => 2,
        Class::SoftRealTime => 3,
        Class::BestEffort => 4,
        Class::Background => 5,
    };
    let rate = contract.rate.map_or([0; 2], |rate| [rate.bytes_per_second, of_time(rate.cycle)]);
    [
        u64::from(contract.reserve.ppm()),
        u64::from(contract.limit.ppm()),
        u64::from(contract.weight),
        class,
        rate[0],
        rate[1],
        of_time(contract.latency),
    ]
}

#[cfg(test)]
mod tests {
    use disktime_core::{PieceId, RequestId, Share};

    use super::*;
    use crate::plan::Plan;
    use crate::swarm;
    use crate::world::simulate;

    fn taken(cut: Cut, plan: Plan) -> Fingerprint {
        fingerprint(cut, || simulate(plan).expect("the swarm's plans can be run")).1
    }

    /// A plan with a queue at the device and several streams.
    fn plan() -> Plan {
        let mut plans = (0..).map(swarm::plan);
        let busy = |plan: &Plan| plan.depth > 4 && plan.streams.len() > 3;
        plans.find(busy).expect("some plan is like that")
    }

    fn under(policy: &str, mut plan: Plan) -> Plan {
        plan.scheduling.policy = disktime_rivals::find(policy).expect("a name of a policy");
        plan
    }

    #[test]
    fn one_plan_has_one_fingerprint_whatever_was_simulated_before() {
        let once = taken(Cut::NONE, plan());
        assert!(once.runs == 1 && once.dispatches > 1000, "{once:?}");
        assert_eq!(taken(Cut::NONE, plan()), once);
        simulate(plan()).expect("the swarm's plans can be run");
        assert_eq!(taken(Cut::NONE, plan()), once);
    }

    /// A difference in any decision must show: fingerprints judge every refactoring.
    #[test]
    fn another_policy_seed_depth_or_contract_has_another_fingerprint() {
        let usual = taken(Cut::NONE, under("disktime", plan()));
        let mut lighter = under("disktime", plan());
        lighter.streams[0].contract.limit = Share::from_percent(5).expect("at most 100 %");
        lighter.streams[0].contract.reserve = Share::ZERO;
        let depth = plan().depth - 1;
        for (what, other) in [
            ("policy", under("fifo", plan())),
            ("seed", under("disktime", swarm::plan(1))),
            ("depth", Plan { depth, ..under("disktime", plan()) }),
            ("contract", lighter),
        ] {
            let other = taken(Cut::NONE, other);
            assert_ne!(other.decisions, usual.decisions, "{what}");
            assert_ne!(other.counters, usual.counters, "{what}");
        }
    }

    /// A number hashed in another place, twice, or as zero must not be lost.
    #[test]
    fn each_number_and_its_place_are_in_a_hash() {
        let hash = |numbers: &[u64]| {
            let mut hash = Hash(1);
            numbers.iter().for_each(|number| hash.add(*number));
            hash.0
        };
        let sequences: [&[u64]; 8] =
            [&[], &[0], &[0, 0], &[1], &[1, 0], &[0, 1], &[1 << 63], &[1 << 63, 1 << 63]];
        let hashes: std::collections::BTreeSet<u64> = sequences.into_iter().map(hash).collect();
        assert_eq!(hashes.len(), sequences.len());
    }

    #[test]
    fn one_decision_more_or_later_changes_the_hash_of_decisions_alone() {
        let request = Request {
            id: RequestId(0),
            stream: StreamId(0),
            kind: Kind::Read,
            offset: 0,
            bytes: 8192,
            fua: false,
            class: None,
            deadline: None,
        };
        let piece = Dispatch {
            piece: PieceId { slot: 0, generation: 0 },
            stream: StreamId(0),
            request: RequestId(0),
            offset: 0,
            bytes: 4096,
            flush: false,
            estimate: Duration::from_millis(1),
        };
        let hash = |now: u64, kind: Kind, piece: Dispatch| {
            let mut tap = Tap::new(Cut::NONE);
            tap.arrived(&request);
            tap.dispatched(Instant::from_nanos(now), kind, &piece);
            tap.fingerprint()
        };
        let usual = hash(5, Kind::Read, piece);
        for other in [
            hash(6, Kind::Read, piece),
            hash(5, Kind::Read, Dispatch { stream: StreamId(1), ..piece }),
            hash(5, Kind::Read, Dispatch { request: RequestId::FLUSH, ..piece }),
            hash(5, Kind::Write, piece),
            hash(5, Kind::Read, Dispatch { offset: 4096, ..piece }),
            hash(5, Kind::Read, Dispatch { bytes: 8192, ..piece }),
            hash(5, Kind::Read, Dispatch { flush: true, ..piece }),
        ] {
            assert_ne!(other.decisions, usual.decisions);
            assert_eq!(other.counters, usual.counters);
        }
        let costlier = hash(5, Kind::Read, Dispatch { estimate: Duration::ZERO, ..piece });
        assert_eq!(costlier.decisions, usual.decisions);
        assert_ne!(costlier.counters, usual.counters);
        // The engine may name pieces as it likes.
        let named = PieceId { slot: 7, generation: 9 };
        assert_eq!(hash(5, Kind::Read, Dispatch { piece: named, ..piece }), usual);
    }

    #[test]
    fn a_cut_ends_each_simulation_and_keeps_its_windows() {
        let cut = Cut { dispatches: 100, ..Cut::NONE };
        let run = || simulate(plan()).expect("the swarm's plans can be run");
        let (windows, both) = fingerprint(cut, || {
            run();
            run().windows.len()
        });
        assert_eq!(both.runs, 2);
        // Requests that are sent at one time are all sent.
        assert!((200..300).contains(&both.dispatches), "{both:?}");
        assert_eq!(windows, run().windows.len());
        let early = taken(Cut { after: Duration::from_secs(1), ..Cut::NONE }, plan());
        assert!(early.dispatches < taken(Cut::NONE, plan()).dispatches / 10, "{early:?}");
    }
}
