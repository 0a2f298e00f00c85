//! Accounts of a stream: its credit while idle, the effect of its limit, and the report of a
//! failure.

mod bench;
mod rig;

use bench::{Bench, DEAREST, Load};
use disktime_core::feedback::{FeedbackConfig, REGISTRY, Token};
use disktime_core::policy::{Currency, PolicyEntry};
use disktime_core::{
    Change, Config, Duration, Engine, Event, Outcome, RequestId, StreamId, StreamSpec, policy,
};
use rig::{MS, Rig, SECOND, at, contract, read};

fn load(reserve_percent: u32, sequential: bool) -> Load {
    let (limit_percent, outstanding) = (100, 8);
    Load { reserve_percent, limit_percent, sequential, outstanding, on_ms: 1, off_ms: 0 }
}

#[test]
fn a_stream_that_wakes_keeps_at_most_u() {
    let mut rig = Rig::new(1);
    rig.add(0, contract(30, 100));
    rig.ask(500 * MS, 1, 0, 1_000);
    assert_eq!(rig.view(0).reserve_level(), 150_000_000, "less than a period: all of it");
    let piece = rig.go_one(500 * MS).piece;
    rig.done(501 * MS, piece);
    rig.ask(60 * SECOND, 2, 0, 1_000);
    assert_eq!(rig.view(0).reserve_level(), 300_000_000, "a minute idle: u");
}

/// zygaria's figure 11: a stream that returns from idleness is ahead of its reservation by at most
/// a second of it, and is ahead; and by no more than the others can be behind theirs, the sum of
/// their u.
#[test]
fn a_returning_stream_overshoots_by_no_more_than_u_of_its_own_or_of_the_others() {
    for (rivals, returning, least, most) in
        [(&[20, 30][..], 50, 250.0, 500.0), (&[70], 30, 150.0, 700.0)]
    {
        let mut loads = vec![Load { on_ms: 10_000, off_ms: 10_000, ..load(returning, true) }];
        loads.extend(rivals.iter().map(|reserve| load(*reserve, false)));
        let zygaria = policy::find("zygaria").expect("registered");
        let mut bench = Bench::new(zygaria, 1, &loads, 5);
        bench.run_until_ms(20_000);
        let (before, share) = (bench.charged_ms(0), f64::from(returning) / 100.0);
        let mut ahead = 0f64;
        for ms in (20_050u32..30_000).step_by(50) {
            bench.run_until_ms(ms.into());
            ahead = ahead.max(bench.charged_ms(0) - before - share * f64::from(ms - 20_000));
        }
        let blocking = 2.0 * DEAREST.as_secs_f64() * 1e3;
        assert!(ahead <= most + blocking, "{returning} %: {ahead} ms ahead, may {most} ms");
        assert!(ahead >= least, "{returning} %: {ahead} ms ahead, its credit was lost");
    }
}

#[test]
fn after_a_pause_a_limit_lets_a_fiftieth_of_p_through_and_then_its_rate() {
    let mut rig = Rig::new(1);
    rig.add(0, contract(0, 10));
    rig.timeout(30 * SECOND);
    let (mut now, mut id) = (30 * SECOND, 0);
    let mut charged_at = Vec::new();
    while now < 32 * SECOND {
        rig.ask(now, id, 0, 1_000);
        let piece = loop {
            if let Some(piece) = rig.engine.poll_dispatch(at(now)) {
                break piece.piece;
            }
            let next = rig.engine.poll_timeout().expect("it is parked until its limit lets it go");
            assert!(next > at(now), "a timeout in the past would spin");
            now = next.as_nanos();
            rig.timeout(now);
        };
        now += MS;
        rig.done(now, piece);
        id += 1;
        charged_at.push((now - 30 * SECOND, rig.charged(0)));
    }
    for (elapsed, charged) in &charged_at {
        let most = 2 * MS + elapsed / 10 + MS;
        assert!(*charged <= most, "{charged} ns after {elapsed} ns, may {most}");
    }
    let (elapsed, charged) = charged_at[1];
    assert_eq!((elapsed, charged), (2 * MS, 2 * MS), "the fiftieth is not held up");
    let (elapsed, charged) = *charged_at.last().expect("it ran");
    assert!(charged >= 2 * MS + elapsed / 10, "{charged} ns: the limit is reached");
}

/// The time for which it waited for the device is no pause: one request at a time, it may use what that saved up.
#[test]
fn a_stream_that_waited_for_the_device_has_saved_up_for_its_limit() {
    let mut rig = Rig::new(1);
    rig.add(0, contract(0, 10));
    rig.add(1, contract(0, 100));
    rig.ask(SECOND, 1, 1, 500_000);
    let long = rig.go_one(SECOND).piece;
    rig.ask(SECOND, 2, 0, 10_000);
    let mut now = SECOND + 500 * MS;
    rig.done(now, long);
    // 2 ms of its pause, and 50 of the wait.
    for id in 3..8 {
        let piece = rig.go_one(now).piece;
        now += 10 * MS;
        rig.done(now, piece);
        rig.ask(now, id, 0, 10_000);
    }
}

/// A limit set while a piece was out gave back an estimate that it had never taken.
#[test]
fn a_limit_that_comes_later_counts_what_is_at_the_device() {
    let mut rig = Rig::new(1);
    rig.add(0, contract(0, 100));
    rig.ask(0, 1, 0, 500_000);
    let piece = rig.go_one(0).piece;
    rig.change(0, Change::SetContracts(&[(StreamId(0), contract(0, 50))]));
    rig.ask(0, 2, 0, 1_000);
    rig.done(10 * MS, piece); // 490 ms less than estimated
    assert!(rig.go(10 * MS).is_empty(), "10 ms used, 5 ms filled");
    assert_eq!(rig.engine.poll_timeout().map(|at| at.as_nanos() / MS), Some(20));
    rig.timeout(20 * MS + 2);
    rig.go_one(20 * MS + 2);
}

#[test]
fn a_stream_whose_limit_is_lifted_is_not_waited_for() {
    let mut rig = Rig::new(1);
    rig.add(0, contract(0, 10));
    rig.ask(SECOND, 1, 0, 500_000);
    rig.ask(SECOND, 2, 0, 1_000);
    let piece = rig.go_one(SECOND).piece;
    rig.done(SECOND + 500 * MS, piece);
    assert!(rig.go(SECOND + 500 * MS).is_empty(), "it is above its limit");
    assert!(rig.engine.poll_timeout().is_some());
    rig.change(SECOND + 500 * MS, Change::SetContracts(&[(StreamId(0), contract(0, 100))]));
    rig.go_one(SECOND + 500 * MS);
    assert_eq!(rig.engine.poll_timeout(), None, "nothing is waited for but the device");
}

/// A stream with a limit of any size can go: without any burst it never could.
#[test]
fn the_smallest_limit_lets_a_piece_go() {
    let config = Config { period: Duration::from_nanos(1), ..Config::default() };
    let zygaria = (policy::find("zygaria").expect("registered").build)();
    let engine = Engine::with_policy(&config, zygaria, Box::new(rig::PerByte));
    let mut rig = Rig { engine };
    rig.add(0, contract(0, 50));
    rig.ask(SECOND, 1, 0, 1_000);
    rig.go_one(SECOND);
}

/// Credit is capped by what will be left of it, not by what is left until the device answers: else a
/// stream whose piece turns out shorter than estimated has more than u.
#[test]
fn credit_is_capped_with_what_is_debited_at_the_device() {
    let mut rig = Rig::new(1);
    rig.add(0, contract(50, 100));
    rig.ask(10 * SECOND, 1, 0, 400_000);
    let piece = rig.go_one(10 * SECOND).piece;
    let later = 10 * SECOND + 300 * MS;
    rig.ask(later, 2, 0, 1_000);
    rig.done(later, piece);
    assert_eq!(rig.view(0).reserve_level(), 200_000_000, "u less the 300 ms that it took");
}

/// Debt from slack is forgiven, but not that of the request that led there, or a stream of long
/// requests would be served far above its reservation.
#[test]
fn the_debt_of_the_last_request_is_kept() {
    let mut rig = Rig::new(1);
    rig.add(0, contract(10, 100));
    rig.ask(0, 1, 0, 500_000);
    let piece = rig.go_one(0).piece;
    rig.done(500 * MS, piece);
    assert_eq!(rig.view(0).reserve_level(), -450_000_000, "50 ms of credit, and 500 ms used");
}

/// A stream brings neither more credit nor more debt into a new contract than that one allows.
#[test]
fn a_new_contract_bounds_credit_and_debt_at_once() {
    let mut rig = Rig::new(1);
    rig.add(0, contract(50, 100));
    rig.timeout(10 * SECOND);
    let change = |rig: &mut Rig, now: u64, reserve: u32| {
        rig.change(now, Change::SetContracts(&[(StreamId(0), contract(reserve, 100))]));
        rig.view(0).reserve_level()
    };
    assert_eq!(change(&mut rig, 10 * SECOND, 10), 100_000_000, "u of the new reservation");
    rig.ask(10 * SECOND, 1, 0, 900_000);
    let piece = rig.go_one(10 * SECOND).piece;
    rig.done(10 * SECOND + 900 * MS, piece);
    assert_eq!(rig.view(0).reserve_level(), 100_000_000 + 90_000_000 - 900_000_000);
    assert_eq!(change(&mut rig, 10 * SECOND + 900 * MS, 20), -40_000_000, "f times u");
}

/// A backlogged stream that the device keeps waiting loses nothing of its reservation, whatever its own
/// depth is, unless that is what keeps it waiting.
#[test]
fn a_stream_that_the_device_keeps_waiting_keeps_its_lag() {
    let mut rig = Rig::new(1);
    rig.add(0, contract(50, 100));
    rig.change(0, Change::SetStreamDepth(StreamId(0), 1));
    rig.ask(0, 1, 0, 1_000);
    rig.ask(0, 2, 0, 1_000);
    let piece = rig.go_one(5 * SECOND).piece;
    rig.done(5 * SECOND + MS, piece);
    assert_eq!(rig.view(0).reserve_level(), 2_499_500_000, "half of 5 s, less 1 ms");
}

/// Slack goes by the time that pieces took, not by what they were estimated to take.
#[test]
fn slack_goes_to_the_lowest_use_as_it_was_charged() {
    let mut rig = Rig::new(1);
    (0..2).for_each(|stream| rig.add(stream, contract(0, 100)));
    let mut now = 0;
    for id in [0, 1] {
        rig.ask(now, id, id, 1_000);
    }
    for _ in 0..400 {
        let sent = rig.go_one(now);
        let stream = sent.request.0;
        now += if stream == 0 { 10 * MS } else { MS };
        rig.done(now, sent.piece);
        rig.ask(now, stream, stream, 1_000);
    }
    let [long, short] = [0, 1].map(|stream| rig.charged(stream) / MS);
    assert!(long.abs_diff(short) <= 20, "{long} and {short} ms are equal parts");
}

/// An estimate that is not settled yet is no debt: forgiven, it would be given back twice.
#[test]
fn what_is_debited_at_the_device_is_no_debt_yet() {
    let mut rig = Rig::new(2);
    rig.add(0, contract(10, 100));
    rig.ask(0, 1, 0, 300_000);
    rig.ask(0, 2, 0, 300_000);
    let pieces = rig.go(0);
    rig.done(10 * MS, pieces[0].piece);
    rig.go(10 * MS);
    rig.timeout(100 * MS);
    assert_eq!(rig.charged(0), 100 * MS);
    assert_eq!(rig.view(0).reserve_level(), -390_000_000, "10 filled, 100 charged, 300 debited");
}

/// Under a policy that counts requests each one counts the same, however long the device took.
#[test]
fn where_requests_are_counted_their_time_is_not() {
    let zygaria = policy::find("zygaria").expect("registered");
    let policy: &'static PolicyEntry = Box::leak(Box::new(PolicyEntry {
        name: "counted",
        currency: Currency::Requests,
        ..*zygaria
    }));
    let config = Config { policy, nominal_iops: 100, ..Config::default() };
    let mut rig = Rig { engine: Engine::new(&config).expect("a registered cost model") };
    rig.add(0, contract(50, 100));
    rig.ask(SECOND, 1, 0, 4096);
    let piece = rig.go_one(SECOND).piece;
    rig.done(SECOND + 80 * MS, piece);
    let level = rig.view(0).reserve_level();
    assert_eq!(level, 530_000_000, "500 ms, and 40 filled, less one request of a hundred");
    assert_eq!(rig.charged(0), 80 * MS, "the device's account has the time");
}

/// At an idle edge the window's charges, smaller than the estimates, let a limited stream go again
/// while the engine was answering that nobody could: it then hung until the next input.
#[test]
fn a_limit_that_the_idle_edge_lifts_does_not_strand_its_stream() {
    let mut rig = Rig::new(4);
    rig.add(0, contract(0, 60));
    rig.ask(MS, 1, 0, 20_000);
    rig.ask(MS, 2, 0, 20_000);
    let piece = rig.go_one(MS);
    rig.done(MS + 1_000, piece.piece);
    assert_eq!(rig.go_one(MS + 1_000).request.0, 2, "1 us was used of 600");
}

/// A backlogged stream whose own depth kept it below its reservation piled up credit without
/// bound, and took the device for minutes when its depth was raised.
#[test]
fn a_stream_that_its_own_depth_holds_back_piles_up_no_credit() {
    let mut rig = Rig::new(4);
    rig.add(0, contract(50, 100));
    rig.add(1, contract(0, 100));
    rig.change(0, Change::SetStreamDepth(StreamId(0), 1));
    for id in 0..6 {
        rig.ask(0, id, 0, 10_000);
        rig.ask(0, 10 + id, 1, 10_000);
    }
    let mut pieces = rig.go(0);
    for step in 1..2_000 {
        let now = step * 10 * MS;
        for piece in core::mem::take(&mut pieces) {
            let over = rig.done(now, piece.piece).expect("one piece a request");
            rig.ask(now, over.request.0, over.stream.0, 10_000);
        }
        pieces = rig.go(now);
    }
    let level = rig.view(0).reserve_level();
    assert!(level <= 500_000_000, "{} ms of credit after 20 s", level / 1_000_000);
    assert!(!rig.events().iter().any(|event| matches!(event, Event::PromiseBroken { .. })));
}

#[test]
fn a_broken_promise_is_told_and_a_kept_one_is_not() {
    // Without deadlines `edf` goes by arrival: it keeps no reservation.
    for (policy, breaks) in [("zygaria", false), ("edf", true)] {
        let entry = policy::find(policy).expect("registered");
        let mut bench = Bench::new(entry, 1, &[load(70, true), load(30, false)], 3);
        bench.run_until_ms(10_000);
        let mut told = 0;
        while let Some(event) = bench.engine.poll_event() {
            if let Event::PromiseBroken { stream, behind, bound, .. } = event {
                assert_eq!(stream, StreamId(0));
                assert!(behind >= bound);
                told += 1;
            }
        }
        assert_eq!(told > 0, breaks, "{policy}: told {told} times");
        assert!(told <= 10, "{policy}: at most once a bound, not {told} times");
    }
}

#[test]
fn a_request_that_completes_after_its_deadline_is_told_with_by_how_much() {
    let mut rig = Rig::new(1);
    rig.add(0, contract(0, 100));
    rig.events();
    let mut serve = |id: u32, from: u64, to: u64, cancel: bool| {
        let request = read(id, 0, 1_000);
        let request = disktime_core::Request { deadline: Some(at(10 * MS)), ..request };
        rig.engine.handle_arrival(at(from), request).expect("there is room");
        let piece = rig.go_one(from).piece;
        if cancel {
            rig.engine.handle_cancel(at(from), RequestId(id));
        }
        rig.done(to, piece);
        rig.events()
    };
    assert_eq!(serve(1, 0, 10 * MS, false), [], "on time to the ns");
    let late = Duration::from_nanos(1);
    let event = Event::Late { stream: StreamId(0), request: RequestId(2), late };
    assert_eq!(serve(2, 10 * MS, 10 * MS + 1, false), [event]);
    assert_eq!(serve(3, 11 * MS, 12 * MS, true), [], "nobody waits for a cancelled one");
}

#[test]
fn a_request_whose_piece_failed_sends_no_more_pieces() {
    let mut rig = Rig::new(1);
    let spec = StreamSpec { piece_bytes_max: 1_000, ..StreamSpec::default() };
    rig.change(0, Change::AddStream(StreamId(0), spec));
    rig.ask(0, 1, 0, 3_000);
    let piece = rig.go_one(0).piece;
    let over = rig.engine.handle_completion(at(MS), piece, Outcome::Failed);
    assert_eq!(over.map(|over| over.outcome), Some(Outcome::Failed));
    assert!(rig.go(MS).is_empty());
}

#[test]
fn failed_and_cancelled_pieces_are_charged_like_others() {
    let mut rig = Rig::new(1);
    rig.change(0, Change::AddStream(StreamId(0), StreamSpec::default()));
    for (id, outcome) in [(0, Outcome::Failed), (1, Outcome::Cancelled)] {
        let now = u64::from(id) * 7 * MS;
        rig.ask(now, id, 0, 1_000);
        let piece = rig.go_one(now).piece;
        let over = rig.engine.handle_completion(at(now + 7 * MS), piece, outcome);
        assert_eq!(over.map(|over| over.outcome), Some(outcome));
    }
    assert_eq!(rig.charged(0), 14 * MS);
    let counters = rig.view(0).counters();
    assert_eq!((counters.completed, counters.failed, counters.cancelled), (1, 1, 1));
    assert_eq!(counters.bytes_read, 0);
}

/// Shaping for soft real time holds best effort back, and not what a stream reserves.
#[test]
fn reserved_time_needs_no_tokens() {
    let controller = REGISTRY.iter().find(|entry| entry.name == "adaptive").expect("registered");
    let feedback = FeedbackConfig { controller, rate_start: 10, ..FeedbackConfig::default() };
    let policy = policy::find("zygaria").expect("registered");
    let mut rig =
        Rig { engine: Engine::new(&Config { feedback, policy, ..Config::default() }).unwrap() };
    rig.add(0, contract(30, 100));
    rig.add(1, contract(0, 100));
    // The bucket has half a burst, and the stream has saved up 120 ms.
    rig.ask(400 * MS, 1, 1, 4096);
    rig.ask(400 * MS, 2, 0, 4096);
    assert_eq!([0, 1].map(|stream| rig.view(stream).ready()), [true, false]);
}

/// Tokens are for now: who leaves them unused for longer than a second has no more of them than others later on.
#[test]
fn tokens_that_a_stream_does_not_use_for_a_second_are_lost() {
    let passes_after = |idle: u64| {
        let controller = REGISTRY.iter().find(|entry| entry.name == "adaptive");
        let controller = controller.expect("registered");
        let token = Token::Request;
        let feedback =
            FeedbackConfig { controller, token, rate_start: 10, ..FeedbackConfig::default() };
        let policy = policy::find("zygaria").expect("registered");
        let mut rig =
            Rig { engine: Engine::new(&Config { feedback, policy, ..Config::default() }).unwrap() };
        rig.add(0, contract(0, 100));
        rig.ask(0, 0, 0, 4096);
        rig.timeout(800 * MS);
        // It has a burst of eight, and uses one of them.
        let piece = rig.go_one(800 * MS).piece;
        rig.done(801 * MS, piece);
        let now = (800 + idle) * MS;
        (1..40).for_each(|id| rig.ask(now, id, 0, 4096));
        let mut passed = 0;
        while let Some(dispatch) = rig.go(now).first() {
            rig.done(now, dispatch.piece);
            passed += 1;
        }
        passed
    };
    assert_eq!(passes_after(700), 7, "the rest of its burst");
    assert_eq!(passes_after(1_400), 8, "the next burst");
}
