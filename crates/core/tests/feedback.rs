//! Shaping for soft real time: the least of best effort, the stream that gets it back, the reports
//! that count.
#![allow(clippy::unwrap_used, reason = "the tests choose streams and numbers that exist")]

mod rig;

use disktime_core::feedback::{self, FeedbackConfig, Token, TokenRate};
use disktime_core::{
    Change, Class, Config, Contract, Dispatch, Engine, Event, Ignored, Kind, Outcome, Request,
    RequestId, StreamId, StreamSpec,
};
use proptest::prelude::*;
use rig::{MS, SECOND, at, contract};

const BYTES: u64 = 128 << 10;
/// Service time of a request: a token of each kind.
const SERVICE: u64 = 5 * MS;

/// A device that takes 5 ms for each request, one at a time; each stream has one request waiting or
/// at the device while it is active.
struct World {
    engine: Engine,
    now: u64,
    at_device: Option<(Dispatch, u64)>,
    /// Until when each stream asks, and whether it writes.
    loads: Vec<(u64, bool)>,
    asked: Vec<bool>,
    /// Requests done.
    done: Vec<u64>,
    places: u64,
}

impl World {
    fn new(config: FeedbackConfig<'_>, policy: &str, classes: &[Contract]) -> Self {
        let config = Config { feedback: config, policy, ..Config::default() };
        let mut engine = Engine::new(&config).unwrap();
        for (id, contract) in (0..).map(StreamId).zip(classes) {
            let spec = StreamSpec { contract: *contract, ..StreamSpec::default() };
            engine.handle_change(at(0), Change::AddStream(id, spec)).unwrap();
        }
        let count = classes.len();
        Self {
            engine,
            now: 0,
            at_device: None,
            loads: vec![(u64::MAX, false); count],
            asked: vec![false; count],
            done: vec![0; count],
            places: 0,
        }
    }

    fn ask(&mut self) {
        for (stream, (until, writes)) in (0..).zip(self.loads.clone()) {
            if self.now >= until || std::mem::replace(&mut self.asked[stream as usize], true) {
                continue;
            }
            self.places += 1;
            let request = Request {
                id: RequestId(stream),
                stream: StreamId(stream),
                kind: if writes { Kind::Write } else { Kind::Read },
                offset: self.places * BYTES,
                bytes: BYTES,
                fua: false,
                class: None,
                deadline: None,
            };
            self.engine.handle_arrival(at(self.now), request).unwrap();
        }
    }

    /// Runs until a time; nothing happens but completions and what the engine asked to be woken for.
    fn run(&mut self, until: u64) {
        while self.now < until {
            self.ask();
            if self.at_device.is_none() {
                let sent = self.engine.poll_dispatch(at(self.now));
                self.at_device = sent.map(|sent| (sent, self.now + SERVICE));
            }
            let due = self.engine.poll_timeout().map_or(until, disktime_core::Instant::as_nanos);
            let over = self.at_device.as_ref().map_or(until, |(_, over)| *over);
            self.now = due.max(self.now + 1).min(over).min(until);
            self.engine.handle_timeout(at(self.now));
            if let Some((sent, _)) = self.at_device.take_if(|(_, over)| *over <= self.now) {
                let over = self.engine.handle_completion(at(self.now), sent.piece, Outcome::Done);
                let stream = over.unwrap().stream.0 as usize;
                self.done[stream] += 1;
                self.asked[stream] = false;
            }
            self.engine.assert_conserved();
        }
    }

    fn report(&mut self, stream: u32) {
        let missed = Change::MissedDeadline(StreamId(stream));
        self.engine.handle_change(at(self.now), missed).unwrap();
    }

    fn rate(&self) -> Option<TokenRate> {
        self.engine.best_effort().reads
    }

    fn ignored(&mut self) -> Vec<Ignored> {
        let events = std::iter::from_fn(|| self.engine.poll_event());
        let ignored = |event| match event {
            Event::ReportIgnored(_, why) => Some(why),
            _ => None,
        };
        events.filter_map(ignored).collect()
    }
}

fn soft() -> Contract {
    Contract { class: Class::SoftRealTime, ..contract(0, 100) }
}

fn shaped(controller: &str) -> FeedbackConfig<'_> {
    FeedbackConfig { controller, anti_cheat: false, ..FeedbackConfig::default() }
}

#[test]
fn best_effort_keeps_its_least_exactly_whatever_a_token_is() {
    for token in [Token::Time, Token::Data, Token::Request] {
        for policy in ["disktime", "fifo", "elevator", "zygaria"] {
            let config = FeedbackConfig { token, ..shaped("pessimistic") };
            let contracts = [soft(), contract(0, 100), contract(0, 100)];
            let mut world = World::new(config, policy, &contracts);
            for second in 1..=20 {
                world.run(second * SECOND);
                world.report(0);
            }
            assert_eq!(world.rate(), Some(TokenRate::per_second(10)), "{token:?} {policy}");
            let before = world.done.clone();
            world.run(120 * SECOND);
            let had: Vec<u64> = (1..3).map(|it| world.done[it] - before[it]).collect();
            // 100 s at 10 tokens a second; a burst of 8 more or less for each, and what a piece overdrew.
            let both = had[0] + had[1];
            assert!((980..=1_020).contains(&both), "{token:?} {policy}: {had:?}");
            assert!(had[0].abs_diff(had[1]) <= 18, "{token:?} {policy}: {had:?} are equal parts");
        }
    }
}

#[test]
fn weights_divide_what_best_effort_has() {
    let heavy = Contract { weight: 300, ..contract(0, 100) };
    let config = FeedbackConfig { rate_start: 40, ..shaped("fixed") };
    let mut world = World::new(config, "elevator", &[soft(), heavy, contract(0, 100)]);
    world.run(100 * SECOND);
    assert!((2_950..3_050).contains(&world.done[1]), "{:?}", world.done);
    assert!((960..1_040).contains(&world.done[2]), "{:?}", world.done);
}

#[test]
fn a_reservation_passes_the_filter() {
    for policy in ["disktime", "zygaria"] {
        let contracts = [soft(), contract(30, 100)];
        let mut world = World::new(shaped("pessimistic"), policy, &contracts);
        for second in 1..=60 {
            world.run(second * SECOND);
            world.report(0);
        }
        let charged = world.engine.stream(StreamId(1)).unwrap().counters().charged;
        assert!(charged.as_nanos() > 18 * SECOND - SECOND / 2, "{policy}: {charged:?} of 60 s");
    }
}

#[test]
fn a_stream_that_ends_gives_back_its_own_part() {
    let contracts = [soft(), soft(), contract(0, 100)];
    let mut world = World::new(shaped("pessimistic"), "fifo", &contracts);
    world.run(2 * SECOND);
    world.report(0);
    let first = world.rate().unwrap();
    world.run(4 * SECOND);
    world.report(1);
    let both = world.rate().unwrap();
    assert!(both < first);
    world.loads[0].0 = world.now;
    world.run(5 * SECOND);
    world.engine.handle_change(at(world.now), Change::RemoveStream(StreamId(0))).unwrap();
    let left = world.rate().unwrap();
    // The first cut: 24 % of best effort's rate then, where three shared 200 tokens a second.
    let part = left.as_milli() - both.as_milli();
    assert!((15_000..18_000).contains(&part), "{part}");
    let best = [(StreamId(1), contract(0, 100))];
    world.engine.handle_change(at(world.now), Change::SetContracts(&best)).unwrap();
    assert_eq!(world.rate(), None, "nobody is soft real-time");
}

#[test]
fn a_stream_that_is_idle_for_long_gives_back_too() {
    let mut world = World::new(shaped("pessimistic"), "fifo", &[soft(), contract(0, 100)]);
    world.run(2 * SECOND);
    world.report(0);
    world.loads[0].0 = world.now;
    world.run(11 * SECOND);
    assert!(world.rate().is_some());
    world.run(14 * SECOND);
    assert_eq!(world.rate(), None);
}

#[test]
fn a_stream_without_clients_gives_back_at_once_and_is_remembered() {
    let mut world = World::new(shaped("pessimistic"), "fifo", &[soft(), contract(0, 100)]);
    world.run(2 * SECOND);
    world.report(0);
    assert!(world.rate().is_some());
    let gone = |world: &mut World| {
        world.engine.handle_change(at(world.now), Change::NoClient(StreamId(0))).unwrap();
        world.rate()
    };
    assert_eq!(gone(&mut world), None);
    let before = world.engine.best_effort();
    world.report(0);
    let after = world.engine.best_effort();
    assert_eq!((after.reports, after.ignored), (before.reports, before.ignored + 1), "too soon");
    assert_eq!(gone(&mut world), None, "it has nothing to give back");
    let unknown = world.engine.handle_change(at(world.now), Change::NoClient(StreamId(9)));
    assert_eq!(unknown, Err(disktime_core::ChangeError::UnknownStream(StreamId(9))));
}

#[test]
fn reads_and_writes_pass_apart() {
    let contracts = [soft(), contract(0, 100), contract(0, 100)];
    let config = FeedbackConfig { rate_start: 20, ..shaped("fixed") };
    let mut world = World::new(config, "elevator", &contracts);
    world.loads[2].1 = true;
    world.run(100 * SECOND);
    for stream in [1, 2] {
        assert!((1_980..=2_020).contains(&world.done[stream]), "{:?}", world.done);
    }
}

#[test]
fn reports_count_once_a_second_from_soft_real_time_that_is_behind() {
    let config = FeedbackConfig { anti_cheat: true, ..shaped("pessimistic") };
    let mut world = World::new(config, "fifo", &[soft(), contract(0, 100)]);
    world.run(100 * MS);
    world.report(0);
    assert_eq!((world.ignored(), world.rate()), (vec![Ignored::NotBehind], None));
    world.run(2 * SECOND);
    world.report(1);
    assert_eq!((world.ignored(), world.rate()), (vec![Ignored::OtherClass], None));
    world.report(0);
    let cut = world.rate();
    assert!(cut.is_some());
    world.run(2 * SECOND + 900 * MS);
    world.report(0);
    assert_eq!((world.ignored(), world.rate()), (vec![Ignored::TooSoon], cut));
    world.run(3 * SECOND);
    world.report(0);
    assert!(world.rate() < cut);
    let best = world.engine.best_effort();
    assert_eq!((best.reports, best.ignored), (2, 3));
}

/// It never has enough: ten seconds later all is undone, and it pays.
#[test]
fn a_stream_that_never_has_enough_pays_back() {
    let config = FeedbackConfig { anti_cheat: true, ..shaped("adaptive") };
    let honest = || World::new(config, "fifo", &[soft(), contract(0, 100), contract(0, 100)]);
    let (mut honest, mut cheat) = (honest(), honest());
    honest.run(120 * SECOND);
    for second in 1..=120 {
        cheat.run(second * SECOND);
        cheat.report(0);
        assert!(second < 12 || cheat.rate().is_none(), "at {second} s");
    }
    assert!(cheat.ignored().contains(&Ignored::Distrusted));
    assert!(cheat.done[0] * 100 <= honest.done[0] * 102, "{:?} {:?}", cheat.done, honest.done);
}

/// It was held below it: 1.35 s behind where .53 were allowed.
#[test]
fn a_stream_that_pays_back_has_what_it_reserved() {
    for policy in ["disktime", "zygaria"] {
        let config = FeedbackConfig { anti_cheat: true, ..shaped("adaptive") };
        let greedy = Contract { class: Class::SoftRealTime, ..contract(60, 100) };
        let mut world = World::new(config, policy, &[greedy, contract(0, 100)]);
        for second in 1..=60 {
            world.run(second * SECOND);
            world.report(0);
            let charged = world.engine.stream(StreamId(0)).unwrap().counters().charged;
            let due = second * SECOND * 6 / 10;
            assert!(charged.as_nanos() + SECOND > due, "{policy}: {charged:?} of {second} s");
        }
        assert!(world.ignored().contains(&Ignored::Distrusted), "{policy}: it pays");
    }
}

#[test]
fn without_a_controller_reports_change_nothing() {
    let mut world = World::new(FeedbackConfig::default(), "fifo", &[soft(), contract(0, 100)]);
    world.run(2 * SECOND);
    world.report(0);
    assert_eq!(world.engine.best_effort(), disktime_core::BestEffort::default());
    assert_eq!(world.ignored(), [], "nothing is ignored, nothing moves");
}

#[test]
fn each_number_has_its_range() {
    let error = |feedback: FeedbackConfig<'_>| {
        let config = Config { feedback, ..Config::default() };
        Engine::new(&config).err().unwrap().to_string()
    };
    let config = FeedbackConfig::default();
    for (feedback, says) in [
        (
            FeedbackConfig { controller: "kind", ..config },
            "feedback `kind` is not known; known are: none",
        ),
        (FeedbackConfig { rate_min: 0, ..config }, "feedback.rate_min = 0: it must be 1 to 10000"),
        (FeedbackConfig { rate_max: 0, ..config }, "feedback.rate_max = 0"),
        (FeedbackConfig { rate_start: 9, ..config }, "feedback.rate_start = 9: it must be 10 to"),
        (FeedbackConfig { burst: 0, ..config }, "feedback.burst = 0"),
        (FeedbackConfig { cut: rig::percent(100), ..config }, "feedback.cut_ppm = 1000000"),
        (FeedbackConfig { refill: disktime_core::Duration::ZERO, ..config }, "feedback.refill = 0"),
    ] {
        assert!(error(feedback).contains(says), "{}", error(feedback));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// R is never below R_min, under any reports and any load, and in any ten seconds a lone
    /// best-effort stream that wants the device has R_min's worth but for two bursts.
    #[test]
    fn best_effort_keeps_its_least_rate(
        controller in 0..feedback::REGISTRY.len(),
        reports in prop::collection::vec((0_u32..3, 0_u64..2_000), 0..120),
        anti_cheat in any::<bool>(),
    ) {
        let controller = feedback::REGISTRY[controller].name;
        let config = FeedbackConfig { anti_cheat, ..shaped(controller) };
        let mut world = World::new(config, "fifo", &[soft(), soft(), contract(0, 100)]);
        let mut next = 10 * SECOND;
        let mut before = 0;
        for (stream, after) in reports {
            let until = world.now + after * MS;
            while next <= until {
                world.run(next);
                let had = world.done[2] - before;
                prop_assert!(had >= 100 - 16, "{} in 10 s", had);
                (before, next) = (world.done[2], next + 10 * SECOND);
            }
            world.run(until);
            world.report(stream);
            let least = TokenRate::per_second(10);
            prop_assert!(world.rate().is_none_or(|rate| rate >= least));
        }
    }
}
