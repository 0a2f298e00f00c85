//! The event loop: the next thing happens, time jumps to it.
//!
//! At one instant, in this order: the device's completions, timeouts, changes, arrivals (by
//! stream), dispatches. Nothing depends on anything else, so two runs of one plan are the same.

use std::collections::VecDeque;
use std::ops::Range;

use disktime_config::{DEPTH_SPAN, DepthLaw, Named, depth_law};
use disktime_core::feedback::TokenRate;
use disktime_core::policy::Currency;
use disktime_core::{
    BrokenBy, Change, ChangeError, Class, Completion, Config, Contract, Dispatch, Duration, Engine,
    Event, IndexedHeap, Instant, Kind, Limits, Outcome as End, Request, RequestId, StreamCounters,
    StreamId, StreamSpec, StreamView, cost, promise,
};
use disktime_model::{Completion as Done, Op};
use disktime_workload::IoOp;

use crate::checks::{Back, Bounds, Checks, Violation};
use crate::decisions::{Decision, candidates};
use crate::fingerprint::Tap;
use crate::metrics::{Finished, Metrics, Summary, Window};
use crate::plan::{Plan, PlanError, StreamPlan};
use asked::Asked;
use flights::{Flight, Flights, Landed};

mod asked;
mod flights;

/// Requests of all streams that may wait or be at the device at once: some 300 MB. A load by time alone
/// that the device can't keep up with would take all memory.
const OUTSTANDING_MAX: usize = 2_000_000;

/// Decisions recorded at most; later ones are counted.
const DECISIONS_MAX: usize = 1_000_000;
/// Candidates of all these at most: some 160 MB.
const CANDIDATES_MAX: usize = 4_000_000;

/// The outcome of a simulation.
#[derive(Debug)]
pub struct Outcome {
    /// Each stream over the whole run.
    pub streams: Vec<Summary>,
    /// Each stream in each window, in order of window, then stream.
    pub windows: Vec<Window>,
    /// The window's length.
    pub window: Duration,
    /// The costs of requests by the policy at the end of each window; empty unless the policy works
    /// costs out itself.
    pub costs: Vec<cost::Costs>,
    /// The estimates of each stream's pieces at the end, by kind; empty if the cost model has none.
    pub estimates: Vec<Vec<cost::Estimate>>,
    /// Costs that moved beyond chance, as the engine told of them, with the end of the window.
    pub moves: Vec<(Instant, Event)>,
    /// How often the engine told that a stream was behind its reservation for longer than its promise
    /// bound, and not because the device stood still.
    pub promises_broken: u64,
    /// When each stream's player missed.
    pub misses: Vec<Vec<Instant>>,
    /// R for what reads at the end of each window, in tokens per second; `None` for no limit.
    pub best_effort: Vec<Option<TokenRate>>,
    /// Promises that did not hold.
    pub violations: Vec<Violation>,
    /// Loads that ended early, with the reason: a trace that could not be read on, or too many requests
    /// at once, which end the run.
    pub failures: Vec<(StreamId, String)>,
    /// Decisions, where they were asked for.
    pub decisions: Vec<Decision>,
    /// Later decisions that were asked for, and for which there was no room.
    pub decisions_left_out: u64,
    /// Requests completed.
    pub requests: u64,
}

/// Runs a plan.
///
/// # Errors
/// If it can't be run; nothing happened then.
pub fn simulate(plan: Plan) -> Result<Outcome, PlanError> {
    simulate_watched(plan, |_| {})
}

/// Runs a plan and tells `watch` how far it has come, now and then.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_watched(plan: Plan, watch: impl FnMut(Moment)) -> Result<Outcome, PlanError> {
    Ok(World::new(plan)?.run(watch, &mut Vec::new()))
}

/// As [`simulate`]; the histograms of each stream's times hold requests that complete in its span
/// only, so that a run can warm up. Spans are by stream.
///
/// # Errors
/// As [`simulate`].
///
/// # Panics
/// If a stream has no span.
pub fn simulate_timed(plan: Plan, spans: Vec<Range<Instant>>) -> Result<Outcome, PlanError> {
    assert_eq!(spans.len(), plan.streams.len(), "a span for each stream");
    let mut world = World::new(plan)?;
    world.metrics.timed = spans;
    Ok(world.run(|_| {}, &mut Vec::new()))
}

/// As [`simulate`], with each stream's depth steered by a law, by stream, at the end of each span.
/// Answers also what the depths were in each span.
///
/// # Errors
/// As [`simulate`].
///
/// # Panics
/// If a span has no length or a stream no law.
pub fn simulate_steered(
    plan: Plan,
    laws: Vec<DepthLaw>,
    span: Duration,
) -> Result<(Outcome, Vec<Vec<u32>>), PlanError> {
    assert!(span > Duration::ZERO, "spans of no length");
    assert_eq!(laws.len(), plan.streams.len(), "a law for each stream");
    let mut world = World::new(plan)?;
    let mut depths = Vec::new();
    world.steering = Some(Steering::new(laws, span));
    let outcome = world.run(|_| {}, &mut depths);
    Ok((outcome, depths))
}

/// How far a simulation has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// Virtual time.
    pub now: Instant,
    /// Requests completed.
    pub requests: u64,
}

/// Rare enough to cost nothing, often enough for a person.
const EVENTS_PER_LOOK: u64 = 4096;

/// The parts of an outcome beside metrics.
#[derive(Default)]
struct Record {
    /// When each stream's player missed.
    misses: Vec<Vec<Instant>>,
    /// The span of which decisions are asked for.
    log: Option<(Instant, Instant)>,
    decisions: Vec<Decision>,
    /// The candidates of all decisions.
    candidates: usize,
    decisions_left_out: u64,
    moves: Vec<(Instant, Event)>,
    /// Promises broken, unless the device had the time.
    promises_broken: u64,
    /// Requests completed.
    finished: u64,
    /// The stream that asked when too many requests were outstanding.
    flooded: Option<StreamId>,
}

struct World {
    now: Instant,
    end: Instant,
    engine: Engine,
    flights: Flights,
    /// For how long the device has waited for streams.
    held: Duration,
    streams: Vec<StreamPlan>,
    /// When each stream's load has something to ask, in ns.
    asks: IndexedHeap,
    asked: Asked,
    changes: VecDeque<(Instant, StreamId, Contract)>,
    reports: VecDeque<(Instant, StreamId)>,
    metrics: Metrics,
    checks: Checks,
    record: Record,
    steering: Option<Steering>,
    tap: Option<Tap>,
}

/// Depths by a law.
struct Steering {
    laws: Vec<DepthLaw>,
    /// The threshold and the depth that a new law gets if its stream's weight changes.
    by_weight: Option<(Duration, u32)>,
    span: Duration,
    /// When the next one is over.
    until: Instant,
}

impl Steering {
    fn new(laws: Vec<DepthLaw>, span: Duration) -> Self {
        Self { laws, by_weight: None, span, until: Instant::ZERO + span }
    }

    /// The laws that a plan's scheduling asks for, if it does.
    fn of(plan: &Plan) -> Option<Self> {
        let (threshold, depth) = (plan.scheduling.depth_latency?, plan.depth);
        let weights = plan.streams.iter().map(|stream| stream.contract.weight);
        let laws = weights.map(|weight| depth_law(threshold, depth, weight)).collect();
        Some(Self { by_weight: Some((threshold, depth)), ..Self::new(laws, DEPTH_SPAN) })
    }

    /// A stream's weight is another: its window opens and begins anew.
    fn weigh(&mut self, StreamId(at): StreamId, weight: u32) {
        if let Some((threshold, depth)) = self.by_weight {
            self.laws[at as usize] = depth_law(threshold, depth, weight);
        }
    }
}

impl World {
    fn new(plan: Plan) -> Result<Self, PlanError> {
        let zero = |field| Err(PlanError::ZeroTime { field });
        if plan.streams.is_empty() {
            return Err(PlanError::NoStreams);
        }
        if plan.duration == Duration::ZERO {
            return zero("duration");
        }
        if plan.window == Duration::ZERO {
            return zero("window");
        }
        let depth_max = plan.device.queue_depth();
        if plan.depth == 0 || plan.depth > depth_max {
            return Err(PlanError::Depth { depth: plan.depth, depth_max });
        }
        let engine = build_engine(&plan)?;
        let policy = plan.scheduling.policy;
        let guarantee = policy.keeps_reservations;
        let timed = policy.currency == Currency::Time;
        // As granted: a rate's reservation follows from it.
        let contracts: Vec<_> = engine.streams().map(StreamView::promised).collect();
        let period = Config::default().period;
        let declared = Config::default().piece_time_max;
        let by_profile = |profile| promise::piece_time(profile, promise::PIECE_BYTES);
        let piece = plan.profile.as_ref().map_or(declared, by_profile);
        let window = Config::default().window;
        let slice = plan.scheduling.horizon.unwrap_or(promise::SLICE);
        let bounds = Bounds { depth: plan.depth, period, piece, slice, window, guarantee, timed };
        let steering = Steering::of(&plan);
        let misses = vec![Vec::new(); plan.streams.len()];
        let mut world = Self {
            now: Instant::ZERO,
            end: Instant::ZERO + plan.duration,
            engine,
            flights: Flights::new(plan.device),
            held: Duration::ZERO,
            asks: IndexedHeap::default(),
            asked: Asked::default(),
            changes: plan.changes.into(),
            reports: plan.reports.into(),
            metrics: Metrics::new(plan.window, plan.streams.len()),
            checks: Checks::new(bounds, &contracts),
            streams: plan.streams,
            record: Record { misses, log: plan.decisions, ..Record::default() },
            steering,
            tap: None,
        };
        (0..world.streams.len()).for_each(|stream| world.note_ask(stream));
        Ok(world)
    }

    fn run(mut self, mut watch: impl FnMut(Moment), depths: &mut Vec<Vec<u32>>) -> Outcome {
        let window = self.metrics.ends().since(Instant::ZERO);
        self.tap = Tap::begin();
        let end = self.tap.as_ref().map_or(self.end, |tap| tap.end_at(self.end));
        for event in 1_u64.. {
            if event % EVENTS_PER_LOOK == 0 {
                watch(Moment { now: self.now, requests: self.record.finished });
            }
            self.arrive();
            self.dispatch();
            let next = self.next();
            if next > end
                || self.record.flooded.is_some()
                || self.tap.as_ref().is_some_and(Tap::is_over)
            {
                break;
            }
            self.now = next;
            self.collect();
            self.engine.handle_timeout(self.now);
            self.change();
            depths.extend(self.steer());
            while self.metrics.ends() <= self.now {
                self.close_window();
            }
        }
        while self.metrics.ends() <= self.end {
            self.close_window();
        }
        if let Some(mut tap) = self.tap.take() {
            tap.counted(self.now, &self.engine);
            tap.end();
        }
        self.engine.assert_conserved();
        let counters: Vec<_> = self.engine.streams().map(StreamView::counters).collect();
        let flood = self.record.flooded.map(|stream| (stream, self.flood(stream)));
        let violations = self.checks.verdict(self.now, &counters, self.engine.device_time());
        let failed = |(id, stream): (u32, &StreamPlan)| {
            stream.traffic.failure().map(|error| (StreamId(id), error.to_string()))
        };
        let failures =
            flood.into_iter().chain((0..).zip(&self.streams).filter_map(failed)).collect();
        let ids = (0..).map(StreamId).take(self.streams.len());
        let estimates = ids.map(|id| self.engine.estimates(id)).collect();
        let names = self.streams.into_iter().map(|stream| stream.name).collect();
        let costs = std::mem::take(&mut self.metrics.costs);
        let best_effort = std::mem::take(&mut self.metrics.best_effort);
        let (streams, windows) = self.metrics.summaries(names, &self.engine);
        let requests = streams.iter().map(|stream| stream.counters.completed).sum();
        Outcome {
            streams,
            windows,
            window,
            costs,
            estimates,
            moves: self.record.moves,
            promises_broken: self.record.promises_broken,
            misses: self.record.misses,
            best_effort,
            violations,
            failures,
            decisions: self.record.decisions,
            decisions_left_out: self.record.decisions_left_out,
            requests,
        }
    }

    /// Ends the metrics' window.
    fn close_window(&mut self) {
        self.hear();
        if let Some(tap) = &mut self.tap {
            tap.counted(self.metrics.ends(), &self.engine);
        }
        self.metrics.close(&mut self.engine);
    }

    /// Takes what the engine has to tell; what else it tells shows in other figures.
    fn hear(&mut self) {
        let ends = self.metrics.ends();
        while let Some(event) = self.engine.poll_event() {
            if let Some(tap) = &mut self.tap {
                tap.told(ends, &event);
            }
            match event {
                Event::CostMoved { .. } => self.record.moves.push((ends, event)),
                Event::PromiseBroken { by: BrokenBy::Others, .. } => {
                    self.record.promises_broken += 1;
                }
                _ => {}
            }
        }
    }

    /// When the next thing happens.
    fn next(&self) -> Instant {
        let ask = self
            .asks
            .peek()
            .map_or(Instant::MAX, |(at, _)| Instant::from_nanos(at.cast_unsigned()));
        let done = self.flights.device().next_completion().unwrap_or(Instant::MAX);
        // A timeout that has come is a hint: it must not stop time.
        let soon = self.now + Duration::from_nanos(1);
        let timeout = self.engine.poll_timeout().map_or(Instant::MAX, |at| at.max(soon));
        let change = self.changes.front().map_or(Instant::MAX, |(at, _, _)| *at);
        let steer = self.steering.as_ref().map_or(Instant::MAX, |steering| steering.until);
        let report = self.reports.front().map_or(Instant::MAX, |(at, _)| *at);
        let next = ask.min(done).min(timeout).min(change).min(steer).min(report);
        next.min(self.metrics.ends())
    }

    /// Sets streams' depths, if a span is over: to what they are then.
    fn steer(&mut self) -> Option<Vec<u32>> {
        let steering = self.steering.as_mut().filter(|steering| steering.until <= self.now)?;
        steering.until = steering.until + steering.span;
        let depths: Vec<u32> = steering.laws.iter_mut().map(DepthLaw::span).collect();
        for (id, depth) in (0..).map(StreamId).zip(&depths) {
            let change = Change::SetStreamDepth(id, *depth);
            self.engine.handle_change(self.now, change).expect("a law's depth is at least 1");
        }
        Some(depths)
    }

    /// Lets every load ask that wants to by now.
    fn arrive(&mut self) {
        while let Some((at, stream)) = self.asks.peek() {
            if at.cast_unsigned() > self.now.as_nanos() {
                return;
            }
            while let Some(io) = self.streams[stream as usize].traffic.poll(self.now) {
                if self.asked.outstanding() == OUTSTANDING_MAX {
                    self.record.flooded = Some(StreamId(stream));
                    return;
                }
                let stream = StreamId(stream);
                let request = self.asked.add(|id| Request {
                    id,
                    stream,
                    kind: io.kind,
                    offset: self.streams[stream.0 as usize].base + io.offset,
                    bytes: io.bytes,
                    fua: false,
                    class: None,
                    deadline: None,
                });
                self.checks.arrived(self.now, stream, io.bytes);
                if let Some(tap) = &mut self.tap {
                    tap.arrived(&request);
                }
                let taken = self.engine.handle_arrival(self.now, request);
                taken.expect("queues are as long as loads can be outstanding");
            }
            self.report(StreamId(stream));
            self.note_ask(stream as usize);
        }
    }

    /// Why the run ended: in words, with the stream that asked for too much.
    fn flood(&self, StreamId(stream): StreamId) -> String {
        let named = Named::new("stream", &self.streams[stream as usize].name);
        format!(
            "{named}: load: at {:?} more than {OUTSTANDING_MAX} requests of all streams wait, the most \
             that is possible: let them come more slowly, or state a `closed` pace",
            self.now
        )
    }

    /// A soft real-time player says what it missed, and that it has ended.
    fn report(&mut self, id: StreamId) {
        let load = &mut self.streams[id.0 as usize];
        while let Some(miss) = load.traffic.missed() {
            self.record.misses[id.0 as usize].push(miss.at);
            if load.contract.class == Class::SoftRealTime {
                let reported = self.engine.handle_change(self.now, Change::MissedDeadline(id));
                reported.expect("a stream of the plan exists");
            }
        }
        if load.contract.class == Class::SoftRealTime && load.traffic.has_ended() {
            load.contract.class = Class::BestEffort;
            let contract = self.engine.stream(id).map(|view| view.spec().contract);
            let contract = Contract { class: Class::BestEffort, ..contract.unwrap_or_default() };
            let changed =
                self.engine.handle_change(self.now, Change::SetContracts(&[(id, contract)]));
            changed.expect("best effort is always admitted");
        }
    }

    /// Notes when a load wants to ask next.
    fn note_ask(&mut self, stream: usize) {
        let id = u32::try_from(stream).expect("streams are bounded");
        match self.streams[stream].traffic.next_at() {
            Some(at) => self.asks.set(id, at.max(self.now).as_nanos().cast_signed()),
            None => self.asks.remove(id),
        }
    }

    fn dispatch(&mut self) {
        loop {
            let logged = self.record.log.filter(|(from, to)| (*from..*to).contains(&self.now));
            let ready = logged.map(|_| candidates(&self.engine));
            let Some(dispatch) = self.engine.poll_dispatch(self.now) else { return };
            let flight = self.release(&dispatch);
            let Some(ready) = ready else { continue };
            let record = &mut self.record;
            let candidates = record.candidates + ready.len();
            if record.decisions.len() == DECISIONS_MAX || candidates > CANDIDATES_MAX {
                record.decisions_left_out += 1;
                continue;
            }
            record.candidates = candidates;
            record.decisions.push(Decision::new(self.now, flight.stream, dispatch.offset, ready));
        }
    }

    /// Gives a piece to the device.
    fn release(&mut self, dispatch: &Dispatch) -> Flight {
        let &Dispatch { piece, stream, request, offset, bytes, flush, estimate } = dispatch;
        // A flush of the engine's own was asked for by nobody.
        let asked = (request != RequestId::FLUSH).then(|| self.asked.get(request));
        let flight = Flight { piece, stream, bytes, estimate, flush, released: self.now };
        let last = asked.is_some_and(|asked| offset + bytes == asked.offset + asked.bytes);
        self.checks.dispatched(self.now, stream, bytes, last);
        let kind = asked.map_or(Kind::Flush, |asked| asked.kind);
        if let Some(tap) = &mut self.tap {
            tap.dispatched(self.now, kind, dispatch);
        }
        self.flights.release(flight, Op { kind, offset, bytes, fua: false });
        self.checks.paused(self.flights.device().pause());
        flight
    }

    /// Takes what the device has finished by now.
    fn collect(&mut self) {
        let mut all = self.flights.finished(self.now);
        for done in all.drain(..) {
            let Some(landed) = self.flights.land(self.now, &done) else {
                self.checks.paused(self.flights.device().pause());
                continue;
            };
            let (Landed { flight, service, of_tier }, Done { at, tier, .. }) = (landed, done);
            let before = self.relieved(flight.stream);
            let over = self.engine.handle_completion_on(at, flight.piece, End::Done, tier);
            if let Some(tap) = &mut self.tap {
                let view = self.engine.stream(flight.stream).expect("streams stay to the end");
                tap.completed(at, flight.stream, &view.counters(), over.as_ref());
            }
            let relieved = self.relieved(flight.stream);
            let relieved = Duration::from_nanos(relieved.as_nanos() - before.as_nanos());
            let whose = tier.is_some() || self.checks.see_whose_time_it_was();
            let (bytes, is_over) = (flight.bytes, over.is_some());
            let relieved = whose.then_some(relieved);
            let back = Back { service, of_tier, relieved, bytes, over: is_over };
            self.checks.completed(at, flight.stream, back);
            if !whose {
                self.checks.counted(at, flight.stream, self.charged(flight.stream));
            } else if relieved > Some(Duration::ZERO) || self.has_held() {
                for stream in self.engine.streams() {
                    let StreamCounters { afterwards, held, .. } = stream.counters();
                    self.checks.counted(at, stream.id(), afterwards + held);
                }
            }
            if let Some(completion) = over {
                self.finish(at, completion, &flight, service);
            }
        }
        self.flights.done = all;
    }

    /// Time of its pieces that others were charged.
    fn relieved(&self, stream: StreamId) -> Duration {
        self.engine.stream(stream).map_or(Duration::ZERO, |view| view.counters().relieved)
    }

    /// Whether the device has waited for a stream since that was asked last.
    fn has_held(&mut self) -> bool {
        let held = self.engine.device_time().held;
        std::mem::replace(&mut self.held, held) < held
    }

    fn charged(&self, stream: StreamId) -> Duration {
        self.engine.stream(stream).map_or(Duration::ZERO, |view| view.counters().charged)
    }

    fn finish(&mut self, at: Instant, completion: Completion, flight: &Flight, truth: Duration) {
        let asked = self.asked.remove(completion.request);
        let finished =
            Finished { at, completion, bytes: asked.bytes, estimate: flight.estimate, truth };
        self.metrics.finished(&finished);
        self.record.finished += 1;
        let stream = flight.stream.0 as usize;
        if let Some(steering) = &mut self.steering {
            steering.laws[stream].answered(completion.service_time);
        }
        let load = &mut self.streams[stream];
        let op = IoOp { kind: asked.kind, offset: asked.offset - load.base, bytes: asked.bytes };
        load.traffic.completed(self.now, &op);
        self.note_ask(stream);
    }

    fn change(&mut self) {
        while let Some((_, id)) = self.reports.pop_front_if(|(at, _)| *at <= self.now) {
            let reported = self.engine.handle_change(self.now, Change::MissedDeadline(id));
            reported.expect("a stream of the plan exists");
        }
        while let Some((_, stream, contract)) = self.changes.pop_front_if(|it| it.0 <= self.now) {
            let change = Change::SetContracts(&[(stream, contract)]);
            let before = self.engine.stream(stream).map(|view| view.spec().contract.weight);
            if self.engine.handle_change(self.now, change).is_ok() {
                if before != Some(contract.weight)
                    && let Some(steering) = &mut self.steering
                {
                    steering.weigh(stream, contract.weight);
                }
                let granted: Vec<_> = self.engine.streams().map(StreamView::promised).collect();
                self.checks.changed(stream, &granted);
            }
        }
    }
}

fn build_engine(plan: &Plan) -> Result<Engine, PlanError> {
    let streams = u32::try_from(plan.streams.len()).unwrap_or(u32::MAX);
    let limits = Limits {
        depth: plan.depth,
        depth_max: plan.depth.max(Limits::default().depth_max),
        requests_max: u32::MAX - 1,
        streams_max: streams.max(1),
    };
    let mut engine = Engine::new(&plan.scheduling.engine(limits, plan.cost))?;
    for change in plan.scheduling.changes() {
        let told = engine.handle_change(Instant::ZERO, change);
        told.expect("what was checked is taken while there are no streams");
    }
    if let Some(profile) = &plan.profile {
        profile.check().map_err(PlanError::Profile)?;
        let set = engine.handle_change(Instant::ZERO, Change::SetProfile(profile));
        set.expect("a profile that is one is taken while nothing is promised");
    }
    let streams = || (0..).map(StreamId).zip(&plan.streams);
    // Parents are there before their children.
    let children = streams().filter(|(_, stream)| stream.parent.is_some());
    let in_order = streams().filter(|(_, stream)| stream.parent.is_none()).chain(children);
    for (id, stream) in in_order {
        let StreamPlan { contract, extent, parent, .. } = *stream;
        let limits = StreamSpec { queue_max: u32::MAX, ..StreamSpec::default() };
        let spec = StreamSpec { contract, extent, parent, ..limits };
        let added = engine.handle_change(Instant::ZERO, Change::AddStream(id, spec));
        added.map_err(|error| refused(error, id, &plan.streams))?;
    }
    Ok(engine)
}

/// Why a stream was not added, with streams' names for their ids.
fn refused(error: ChangeError, added: StreamId, streams: &[StreamPlan]) -> PlanError {
    let name = |StreamId(at): StreamId| Named::new("stream", &streams[at as usize].name);
    let mut names_one = false;
    let error = error.renamed(|stream| {
        names_one = true;
        name(stream)
    });
    PlanError::Contract { added: (!names_one).then(|| name(added)), error }
}
