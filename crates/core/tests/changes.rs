//! Live changes: what is admitted, what is refused and with which words, and when it takes effect.

mod bench;
mod rig;

use bench::{Bench, Load};
use disktime_core::admission::DemandError;
use disktime_core::policy::{self, PolicyEntry};
use disktime_core::{
    Change, ChangeError, Class, Config, Contract, Engine, Event, Instant, Kind, Limits, Refusal,
    Request, RequestId, Share, StreamError, StreamId, StreamSpec,
};
use rig::{MS, Rig, contract, percent, read};

const A: StreamId = StreamId(0);
const B: StreamId = StreamId(1);

/// Two streams that reserve 70 and 30 %.
fn full() -> Rig {
    let mut rig = Rig::new(1);
    rig.add(0, contract(70, 100));
    rig.add(1, contract(30, 100));
    rig.events();
    rig
}

fn zygaria() -> &'static PolicyEntry {
    policy::find("zygaria").expect("it is in the registry")
}

/// The change is refused, is told, and has changed nothing.
fn refused(rig: &mut Rig, change: Change<'_>) -> ChangeError {
    let specs = |rig: &Rig| rig.engine.streams().map(|s| (s.id(), s.spec())).collect::<Vec<_>>();
    let (before, depth) = (specs(rig), rig.engine.depth());
    rig.events();
    let error = rig.engine.handle_change(Instant::ZERO, change).expect_err("it is refused");
    assert_eq!(rig.events(), [Event::Refused(error)]);
    assert_eq!((specs(rig), rig.engine.depth()), (before, depth), "nothing has changed");
    rig.engine.assert_conserved();
    error
}

fn spec(contract: Contract) -> StreamSpec {
    StreamSpec { contract, ..StreamSpec::default() }
}

/// Requests as they go out, and when, in the first seconds of a device with eight pieces at once and six unlike streams, on a host
/// that has been up for so long.
fn decisions(up: u64) -> Vec<(u64, u32)> {
    let policy = policy::find("disktime").expect("it is in the registry");
    let mut rig = Rig::under(8, (policy.build)());
    for stream in 0..6 {
        let contract = contract(4 * (stream + 1), 100 - 12 * stream);
        rig.change(up, Change::AddStream(StreamId(stream), spec(contract)));
    }
    let (mut now, mut went, mut id, mut seed) = (up, Vec::new(), 0_u32, 1_u64);
    let mut number = |most: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % most
    };
    let mut out: Vec<(u64, disktime_core::PieceId)> = Vec::new();
    let mut waiting: Vec<(u64, u32)> = (0..24).map(|at| (up, at % 6)).collect();
    while now < up + 20_000 * MS {
        for (_, stream) in waiting.extract_if(.., |(at, _)| *at <= now) {
            id = (id + 1) % 4_000;
            rig.ask(now, id, stream, 500 << stream);
        }
        for piece in rig.go(now) {
            went.push((now - up, piece.request.0));
            out.push((now + 100_000 + number(4 * MS), piece.piece));
        }
        let back = out.iter().map(|(at, _)| *at).min();
        let asks = waiting.iter().map(|(at, _)| *at).min();
        let timeout = rig.engine.poll_timeout().map(Instant::as_nanos);
        now = [back, asks, timeout].into_iter().flatten().min().expect("something comes").max(now);
        rig.timeout(now);
        if let Some(at) = out.iter().position(|(at, _)| *at <= now) {
            let over = rig.done(now, out.swap_remove(at).1).expect("a request is a piece");
            waiting.push((now + number(8) / 6 * number(30 * MS), over.stream.0));
        }
    }
    went
}

/// A host's clock counts from its start, a simulation's from 0.
#[test]
fn decisions_are_the_same_however_long_the_host_has_been_up() {
    let (new, old) = (decisions(0), decisions(10 * 24 * 3_600_000 * MS));
    assert!(new.len() > 5_000, "{}", new.len());
    let differs = new.iter().zip(&old).position(|(new, old)| new != old);
    assert_eq!((differs, new.len()), (None, old.len()));
}

/// A tenant of a hundred times the weight goes over to background: the others divide the device as if it had always
/// been there.
#[test]
fn a_stream_that_changes_its_class_leaves_no_claims_behind() {
    let policy = policy::find("disktime").expect("it is in the registry");
    let mut rig = Rig::under(1, (policy.build)());
    let weight = |weight| Contract { weight, ..Contract::default() };
    rig.add(0, weight(100));
    rig.add(1, Contract { reserve: percent(50), ..weight(100) });
    rig.add(2, weight(10_000));
    rig.ask(0, 0, 2, 1_000);
    let piece = rig.go_one(0).piece;
    rig.done(MS, piece);
    let background = Contract { class: Class::Background, ..weight(10_000) };
    rig.change(MS, Change::SetContracts(&[(StreamId(2), background)]));
    let (mut now, mut id) = (MS, 10);
    (0..2).for_each(|stream| rig.ask(now, 1 + stream, stream, 1_000));
    while now < 20_000 * MS {
        let Some(piece) = rig.go(now).pop() else {
            now = rig.engine.poll_timeout().expect("it is held").as_nanos();
            rig.timeout(now);
            continue;
        };
        now += MS;
        let over = rig.done(now, piece.piece).expect("a request is a piece");
        id = 10 + (id + 1) % 100;
        rig.ask(now, id, over.stream.0, 1_000);
    }
    let part = rig.charged(0) * 100 / now;
    assert!((20..=30).contains(&part), "{part} %: a half of what is not reserved");
}

#[test]
fn reservations_fit_into_all_but_the_headroom() {
    let mut rig = full();
    let all = Share::FULL;
    let error = refused(&mut rig, Change::AddStream(StreamId(2), spec(contract(1, 100))));
    assert_eq!(error, ChangeError::Overbooked { asked_ppm: 1_010_000, available: all });
    let error = refused(&mut rig, Change::SetHeadroom(percent(10)));
    let available = percent(90);
    assert_eq!(error, ChangeError::Overbooked { asked_ppm: 1_000_000, available });

    rig.change(0, Change::SetContracts(&[(A, contract(60, 100))]));
    rig.change(0, Change::SetHeadroom(percent(10)));
    let ppm = Contract { reserve: Share::from_ppm(600_001).expect("a share"), ..contract(0, 100) };
    let error = refused(&mut rig, Change::SetContracts(&[(A, ppm)]));
    assert_eq!(error, ChangeError::Overbooked { asked_ppm: 900_001, available });
    rig.change(0, Change::AddStream(StreamId(2), spec(contract(0, 100))));
}

#[test]
fn a_swap_is_admitted_as_one_change_and_refused_as_two() {
    let mut rig = full();
    let swap = [(A, contract(30, 100)), (B, contract(70, 100))];
    let error = refused(&mut rig, Change::SetContracts(&swap[1..]));
    assert_eq!(error, ChangeError::Overbooked { asked_ppm: 1_400_000, available: Share::FULL });
    rig.change(0, Change::SetContracts(&swap));
    assert_eq!(rig.events(), swap.map(|(id, contract)| Event::Admitted(id, contract)));
    assert_eq!(rig.view(0).contract().reserve, percent(30));
    assert_eq!(rig.view(1).contract().reserve, percent(70));
}

#[test]
fn a_change_with_one_bad_part_changes_nothing() {
    let mut rig = full();
    let (good, zero) = ((A, contract(10, 100)), contract(0, 0));
    let heavy = Contract { weight: 10_001, ..contract(0, 100) };
    let weightless = Contract { weight: 0, ..heavy };
    let nobody = StreamId(9);
    let mut bad = |part| refused(&mut rig, Change::SetContracts(&[good, part]));
    assert_eq!(bad((nobody, contract(0, 100))), StreamError::Unknown.of(nobody));
    assert_eq!(bad((A, contract(20, 100))), StreamError::NamedTwice.of(A));
    assert_eq!(bad((B, zero)), StreamError::ZeroLimit.of(B));
    assert_eq!(bad((B, heavy)), StreamError::Weight { weight: 10_001 }.of(B));
    assert_eq!(bad((B, weightless)), StreamError::Weight { weight: 0 }.of(B));
    let (reserve, limit) = (percent(50), percent(20));
    let above = StreamError::ReserveAboveLimit { reserve, limit }.of(B);
    assert_eq!(bad((B, contract(50, 20))), above);
}

#[test]
fn streams_that_cannot_be_are_refused() {
    let mut rig = full();
    let (new, far) = (StreamId(2), StreamId(16_384));
    let spec = spec(contract(0, 100));
    let mut add = |id, spec| refused(&mut rig, Change::AddStream(id, spec));
    assert_eq!(add(A, spec), StreamError::InUse.of(A));
    let out = StreamError::OutOfRange { streams_max: 16_384 }.of(far);
    assert_eq!(add(far, spec), out);
    let parent = ChangeError::Parent { stream: new, parent: far };
    assert_eq!(add(new, StreamSpec { parent: Some(far), ..spec }), parent);
    let pieces = StreamSpec { piece_bytes_max: 0, ..spec };
    assert_eq!(add(new, pieces), StreamError::PieceBytes.of(new));
    let shallow = StreamSpec { depth_max: 0, ..spec };
    assert_eq!(add(new, shallow), ChangeError::Depth { depth: 0, depth_max: u32::MAX });

    let depth = |depth, depth_max| ChangeError::Depth { depth, depth_max };
    assert_eq!(refused(&mut rig, Change::SetDepth(0)), depth(0, 1024));
    assert_eq!(refused(&mut rig, Change::SetDepth(1025)), depth(1025, 1024));
    assert_eq!(refused(&mut rig, Change::SetStreamDepth(A, 0)), depth(0, u32::MAX));
    let unknown = StreamError::Unknown.of(new);
    assert_eq!(refused(&mut rig, Change::SetStreamDepth(new, 1)), unknown);
    assert_eq!(refused(&mut rig, Change::RemoveStream(new)), unknown);
    assert_eq!(refused(&mut rig, Change::MissedDeadline(new)), unknown);
    rig.change(0, Change::MissedDeadline(A));
    assert_eq!(rig.events(), [Event::MissedDeadline(A)]);
}

#[test]
fn a_stream_goes_when_its_requests_are_over_and_may_come_back_as_another() {
    let mut rig = full();
    rig.ask(0, 1, 0, 20_000);
    let busy = StreamError::Busy { live: 1 }.of(A);
    assert_eq!(refused(&mut rig, Change::RemoveStream(A)), busy);
    let piece = rig.go_one(0).piece;
    assert_eq!(refused(&mut rig, Change::RemoveStream(A)), busy);
    rig.done(9 * MS, piece);
    rig.change(9 * MS, Change::RemoveStream(A));
    assert!(rig.engine.stream(A).is_none());
    let unknown = rig.engine.handle_arrival(rig::at(9 * MS), read(2, 0, 1));
    assert_eq!(unknown, Err(Refusal::UnknownStream(A)));
    rig.change(9 * MS, Change::AddStream(A, spec(contract(70, 100))));
    assert_eq!(rig.charged(0), 0, "another stream, another account");
    assert_eq!(rig.view(0).reserve_level(), 0);
    assert_eq!(rig.time().charged.as_nanos(), 9 * MS, "the device remembers");
    rig.ask(10 * MS, 1, 0, 1_000);
    rig.go_one(10 * MS);
}

#[test]
fn a_stream_may_go_while_the_window_it_worked_in_is_open() {
    let mut rig = Rig::new(2);
    rig.add(0, contract(0, 100));
    rig.add(1, contract(0, 100));
    for id in 0..4 {
        rig.ask(0, id, u32::from(id > 0), 10_000);
    }
    let pieces = rig.go(0);
    let own = pieces.iter().find(|piece| piece.request.0 == 0).expect("it is out").piece;
    rig.done(10 * MS, own);
    rig.change(10 * MS, Change::RemoveStream(A));
    assert_eq!(rig.time().charged.as_nanos(), 10 * MS, "its part was charged before it went");
    assert_eq!(rig.time().open.as_nanos(), 0);
}

#[test]
fn a_new_contract_counts_for_work_that_waits_already() {
    let mut rig = Rig::new(1);
    rig.add(0, contract(0, 100));
    rig.add(1, contract(0, 100));
    rig.ask(0, 1, 0, 1_000);
    rig.ask(0, 2, 1, 1_000);
    rig.change(0, Change::SetContracts(&[(B, contract(50, 100))]));
    assert_eq!(rig.go_one(10 * MS).request.0, 2, "due since 2 ms");
}

fn backlogged(reserve_percent: u32, sequential: bool) -> Load {
    let (limit_percent, outstanding) = (100, 8);
    Load { reserve_percent, limit_percent, sequential, outstanding, on_ms: 1, off_ms: 0 }
}

/// The share of what both were charged that the first got from `from` to `to`, in per cent.
fn share_of_first(bench: &mut Bench, from: u64, to: u64) -> f64 {
    bench.run_until_ms(from);
    let before = [bench.charged_ms(0), bench.charged_ms(1)];
    bench.run_until_ms(to);
    let [first, second] = [bench.charged_ms(0) - before[0], bench.charged_ms(1) - before[1]];
    100.0 * first / (first + second)
}

#[test]
fn shares_follow_a_change_within_two_seconds() {
    let mut bench = Bench::new(zygaria(), 1, &[backlogged(70, true), backlogged(30, false)], 9);
    let before = share_of_first(&mut bench, 2_000, 10_000);
    assert!((before - 70.0).abs() <= 1.0, "{before} %");
    bench.change(Change::SetContracts(&[(A, contract(30, 100)), (B, contract(70, 100))]));
    let after = share_of_first(&mut bench, 12_000, 14_000);
    assert!((after - 30.0).abs() <= 3.0, "{after} %");
}

#[test]
fn weights_divide_what_nobody_reserved() {
    for depth in [1, 4] {
        let loads = [backlogged(0, true), backlogged(0, false)];
        let mut bench = Bench::new(zygaria(), depth, &loads, 9);
        let weight = |weight| Contract { weight, ..Contract::default() };
        bench.change(Change::SetContracts(&[(A, weight(100)), (B, weight(300))]));
        let share = share_of_first(&mut bench, 5_000, 25_000);
        assert!((share - 25.0).abs() <= 3.0, "depth {depth}: {share} %");
        bench.change(Change::SetContracts(&[(A, weight(300)), (B, weight(100))]));
        let share = share_of_first(&mut bench, 30_000, 50_000);
        assert!((share - 75.0).abs() <= 3.0, "depth {depth}: {share} %");
    }
}

#[test]
fn arrivals_are_refused_with_the_reason() {
    let mut rig = full();
    let mut ask = |request| rig.engine.handle_arrival(Instant::ZERO, request);
    let of = |bytes| Request { bytes, ..read(1, 0, 0) };
    let flush = |bytes| Request { kind: Kind::Flush, ..of(bytes) };
    let bad = |bytes| Err(Refusal::BadLength { request: RequestId(1), bytes });
    assert_eq!((ask(of(0)), ask(flush(512))), (bad(0), bad(512)));
    let end = Request { offset: u64::MAX - 511, ..of(512) };
    assert_eq!(ask(end), Err(Refusal::BadExtent(RequestId(1))));
    let (request, bytes_max) = (RequestId(1), Request::BYTES_MAX);
    let long = |bytes| Err(Refusal::TooLong { request, bytes, bytes_max });
    assert_eq!((ask(of(1 << 51)), ask(of(bytes_max + 1))), (long(1 << 51), long(bytes_max + 1)));
    let (request, requests_max) = (RequestId(65_536), 65_536);
    let outside = Err(Refusal::IdOutOfRange { request, requests_max });
    assert_eq!(ask(Request { id: request, ..of(1) }), outside);
    assert_eq!(ask(Request { offset: u64::MAX - 512, ..of(512) }), Ok(()));
    assert_eq!(ask(of(512)), Err(Refusal::IdInUse(RequestId(1))));
    let counters = rig.view(0).counters();
    assert_eq!((counters.arrived, counters.refused), (8, 7));
}

#[test]
fn refusals_say_what_it_is_and_what_is_allowed() {
    let request = RequestId(7);
    let text = |refusal: Refusal| refusal.to_string();
    assert_eq!(text(Refusal::UnknownStream(A)), "there is no stream 0");
    let full = Refusal::QueueFull { stream: A, queue_max: 64 };
    assert_eq!(text(full), "stream 0 has 64 requests waiting, the most it may");
    let out = Refusal::IdOutOfRange { request, requests_max: 5 };
    assert_eq!(text(out), "request 7 is outside the table: an id is below 5");
    assert_eq!(text(Refusal::IdInUse(request)), "request 7 has not completed yet");
    let bad = Refusal::BadLength { request, bytes: 512 };
    let says = "request 7 has a length of 512 bytes: a flush has 0, any other request at least 1";
    assert_eq!(text(bad), says);
    let long = Refusal::TooLong { request, bytes: 1 << 51, bytes_max: Request::BYTES_MAX };
    let says = "request 7 has a length of 2251799813685248 bytes: at most 4294967296 are possible, \
                split it";
    assert_eq!(text(long), says);
    let past = "request 7 has an extent that ends past 2^64";
    assert_eq!(text(Refusal::BadExtent(request)), past);
}

#[test]
fn refused_changes_say_what_it_is_and_what_is_allowed() {
    let stream = StreamId(3);
    let cases = [
        (StreamError::Unknown.of(stream), "there is no stream 3"),
        (StreamError::InUse.of(stream), "stream 3 exists already"),
        (
            StreamError::OutOfRange { streams_max: 2 }.of(stream),
            "stream 3 is outside the table: an id is below 2",
        ),
        (
            StreamError::Busy { live: 4 }.of(stream),
            "stream 3 has 4 requests that have not completed",
        ),
        (
            ChangeError::Overbooked { asked_ppm: 1_002_500, available: percent(90) },
            "reservations would come to 100.2500% of the device, 90% may be reserved: lower one, \
             or the headroom",
        ),
        (
            StreamError::ReserveAboveLimit { reserve: percent(50), limit: percent(20) }.of(stream),
            "stream 3 reserves 50%, more than its limit of 20%",
        ),
        (StreamError::ZeroLimit.of(stream), "stream 3 has a limit of 0%: it could never run"),
        (
            StreamError::Weight { weight: 0 }.of(stream),
            "stream 3 has weight 0: a weight is 1 to 10000",
        ),
        (ChangeError::Depth { depth: 0, depth_max: 64 }, "depth 0: a depth is 1 to 64"),
        (StreamError::PieceBytes.of(stream), "stream 3 has pieces of 0 bytes: at least 1"),
        (
            ChangeError::Parent { stream, parent: A },
            "stream 3 names stream 0 as its parent: name one that exists and has no parent",
        ),
        (StreamError::NamedTwice.of(stream), "stream 3 is named twice in one change"),
    ];
    for (error, text) in cases {
        assert_eq!(error.to_string(), text);
    }
}

/// Names were put into the finished text, by looking for "stream " and digits in it: a virtual disk whose
/// own name was `stream 1` would have been renamed, too.
#[test]
fn a_refused_change_takes_other_names_for_its_streams() {
    let name = |StreamId(at): StreamId| ["vdisk db", "vdisk stream 0"][at as usize];
    let parent = ChangeError::Parent { stream: StreamId(1), parent: StreamId(0) };
    let says =
        "vdisk stream 0 names vdisk db as its parent: name one that exists and has no parent";
    assert_eq!(parent.renamed(name).to_string(), says);
    let refused = DemandError::ZeroRate.of(StreamId(0));
    let says = "vdisk db: rate = 0 B/s: it must be at least 1 B/s";
    assert_eq!(ChangeError::Admission(refused).renamed(name).to_string(), says);
}

#[test]
fn an_engine_that_cannot_be_made_says_why() {
    let text = |config: Config<'_>| Engine::new(&config).map(|_| ()).map_err(|e| e.to_string());
    let limits = |depth, requests_max| Limits { depth, requests_max, ..Limits::default() };
    let config = Config::default();
    assert_eq!(text(config), Ok(()));
    let unknown = "cost model `guess` is not known; known are: fixed learned priced";
    assert_eq!(text(Config { cost_model: "guess", ..config }), Err(unknown.into()));
    for (config, says) in [
        (Config { limits: limits(0, 1), ..config }, "queue_depth = 0: it must be 1 to 1024"),
        (Config { limits: limits(2000, 1), ..config }, "queue_depth = 2000: it must be 1 to 1024"),
        (Config { limits: limits(1, 0), ..config }, "requests_max = 0: it must be 1 to 4294967294"),
        (
            Config { period: disktime_core::Duration::ZERO, ..config },
            "period = 0: it must be 1 to 60000000000",
        ),
    ] {
        assert_eq!(text(config), Err(says.into()));
    }
}
