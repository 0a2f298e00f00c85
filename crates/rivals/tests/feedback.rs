//! Shaping for soft real time: the least of best effort, the stream that gets it back, the reports
//! that count.
#![allow(clippy::unwrap_used, reason = "the tests choose streams and numbers that exist")]

#[path = "../../core/tests/rig/mod.rs"]
mod rig;
mod shaped;

use disktime_core::feedback::{FeedbackConfig, TokenRate};
use disktime_core::{
    Change, Class, Config, Contract, Duration, Engine, Ignored, StreamError, StreamId, policy,
};
use proptest::prelude::*;
use rig::{MS, SECOND, at, contract};
use shaped::{World, shaped, soft};

fn world(config: FeedbackConfig, policy: &str, classes: &[Contract]) -> World {
    World::new(config, policy::find(policy).unwrap(), classes)
}

#[test]
fn best_effort_keeps_its_least_exactly_whatever_a_token_is() {
    policy::REGISTRY.iter().for_each(shaped::keeps_the_least);
}

/// Time for which the device is kept idle for a stream is time that others don't have: tokens of disk
/// time are taken for it as for service.
#[test]
fn time_held_for_best_effort_takes_tokens() {
    let config = FeedbackConfig { rate_start: 10, ..shaped("fixed") };
    let served = |idled: u64| {
        let mut world = world(config, "edf", &[soft(), contract(0, 100)]);
        for second in 1..=20 {
            world.run(second * SECOND);
            let time = Duration::from_nanos(idled);
            world.engine.handle_idled(at(world.now), StreamId(1), time);
        }
        world.done[1]
    };
    let (all, half) = (served(0), served(25 * MS));
    assert!((180..=220).contains(&all), "10 tokens a second: {all}");
    assert!((80..=120).contains(&half), "half of each second's tokens are taken: {half}");
}

#[test]
fn a_reservation_passes_the_filter() {
    for policy in ["disktime", "zygaria"] {
        let contracts = [soft(), contract(30, 100)];
        let mut world = world(shaped("pessimistic"), policy, &contracts);
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
    let mut world = world(shaped("pessimistic"), "edf", &contracts);
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
    let mut world = world(shaped("pessimistic"), "edf", &[soft(), contract(0, 100)]);
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
    let mut world = world(shaped("pessimistic"), "edf", &[soft(), contract(0, 100)]);
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
    assert_eq!(unknown, Err(StreamError::Unknown.of(StreamId(9))));
}

#[test]
fn reports_count_once_a_second_from_soft_real_time_that_is_behind() {
    let config = FeedbackConfig { anti_cheat: true, ..shaped("pessimistic") };
    let mut world = world(config, "edf", &[soft(), contract(0, 100)]);
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
    let honest = || world(config, "edf", &[soft(), contract(0, 100), contract(0, 100)]);
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
        let mut world = world(config, policy, &[greedy, contract(0, 100)]);
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
    let mut world = world(FeedbackConfig::default(), "edf", &[soft(), contract(0, 100)]);
    world.run(2 * SECOND);
    world.report(0);
    assert_eq!(world.engine.best_effort(), disktime_core::BestEffort::default());
    assert_eq!(world.ignored(), [], "nothing is ignored, nothing moves");
}

#[test]
fn each_number_has_its_range() {
    let error = |feedback: FeedbackConfig| {
        let config = Config { feedback, ..Config::default() };
        Engine::new(&config).err().unwrap().to_string()
    };
    let config = FeedbackConfig::default();
    for (feedback, says) in [
        (FeedbackConfig { rate_min: 0, ..config }, "feedback.rate_min = 0: it must be 1 to 10000"),
        (FeedbackConfig { rate_max: 0, ..config }, "feedback.rate_max = 0"),
        (FeedbackConfig { rate_start: 9, ..config }, "feedback.rate_start = 9: it must be 10 to"),
        (FeedbackConfig { burst: 0, ..config }, "feedback.burst = 0"),
        (FeedbackConfig { cut: rig::percent(100), ..config }, "feedback.cut_ppm = 1000000"),
        (FeedbackConfig { refill: Duration::ZERO, ..config }, "feedback.refill = 0"),
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
        controller in 0..disktime_rivals::controllers().count(),
        reports in prop::collection::vec((0_u32..3, 0_u64..2_000), 0..120),
        anti_cheat in any::<bool>(),
    ) {
        let controller = disktime_rivals::controllers().nth(controller).unwrap().name;
        let config = FeedbackConfig { anti_cheat, ..shaped(controller) };
        let mut world = world(config, "edf", &[soft(), soft(), contract(0, 100)]);
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
