//! Worked examples, by hand, of the schedulers that the survey of quality of service for storage
//! names: what goes when, as each method is defined.

mod jobs;
#[path = "../../core/tests/rig/mod.rs"]
mod rig;

use disktime_core::{
    Access, Admission, Change, Class, Contract, Dispatch, Duration, Instant, Rate, RequestId,
    StreamId,
};
use jobs::{Job, ids, plain, serve, streams, under};
use rig::{MS, Rig, at, contract};

fn late(jobs: &[Job], ended: &[(u32, u64)]) -> Vec<u32> {
    let late =
        ended.iter().filter(|(id, end)| jobs[*id as usize].due.is_some_and(|due| *end > due));
    late.map(|(id, _)| *id).collect()
}

/// Streams 0, 1, 2 with cycles of 50, 70 and 80 ms, whose requests are due at the cycles' ends.
fn cyclic(name: &str) -> Rig {
    let with = |cycle_ms| {
        let cycle = Some(Duration::from_millis(cycle_ms));
        let rate = Some(Rate {
            bytes_per_second: 100_000,
            cycle,
            admission: Admission::BestEffort,
            access: Access::Read,
        });
        Contract { rate, class: Class::GuaranteedRate, ..contract(0, 100) }
    };
    under(name, &[(0, with(50)), (1, with(70)), (2, with(80)), (3, contract(0, 100))])
}

/// The second request of the shortest cycle arrives while the longest one's first still waits.
const CYCLES: [Job; 4] = [
    Job { arrives: 0, stream: 0, offset: 0, takes: 20, due: Some(50) },
    Job { arrives: 0, stream: 1, offset: 0, takes: 40, due: Some(70) },
    Job { arrives: 0, stream: 2, offset: 0, takes: 20, due: Some(80) },
    Job { arrives: 50, stream: 0, offset: 0, takes: 20, due: Some(100) },
];

#[test]
fn earliest_deadline_first_meets_what_can_be_met() {
    let ended = serve(&mut cyclic("edf"), &CYCLES);
    assert_eq!(ended, [(0, 20), (1, 60), (2, 80), (3, 100)]);
    assert_eq!(late(&CYCLES, &ended), []);
}

#[test]
fn rate_monotonic_goes_by_the_cycle_and_misses_one() {
    let ended = serve(&mut cyclic("rate-monotonic"), &CYCLES);
    assert_eq!(ended, [(0, 20), (1, 60), (3, 80), (2, 100)]);
    assert_eq!(late(&CYCLES, &ended), [2]);
}

#[test]
fn without_deadline_or_rate_streams_come_last_as_they_arrive() {
    let jobs = [
        Job::of(3, 5),
        Job::of(1, 5),
        Job { due: Some(90), ..Job::of(2, 5) },
        Job { due: Some(30), ..Job::of(0, 5) },
    ];
    assert_eq!(ids(&serve(&mut plain("edf", &[0, 1, 2, 3]), &jobs)), [3, 2, 0, 1]);
    assert_eq!(ids(&serve(&mut plain("scan-edf", &[0, 1, 2, 3]), &jobs)), [3, 2, 0, 1]);
    // Cycles of 50, 70 and 80 ms for streams 0, 1, 2 and none for 3; deadlines do not count.
    assert_eq!(ids(&serve(&mut cyclic("rate-monotonic"), &jobs)), [3, 1, 2, 0]);
}

#[test]
fn scan_edf_sweeps_equal_deadlines() {
    let job = |stream, offset, due| Job { offset, due: Some(due), ..Job::of(stream, 1) };
    let jobs = [
        job(0, 5, 200),
        job(1, 50, 100),
        job(2, 10, 100),
        job(3, 30, 100),
        job(4, 20, 50),
        // Comes during the sweep, ahead of it: joins. The other is behind: goes after the turn.
        Job { arrives: 2, ..job(5, 40, 100) },
        Job { arrives: 2, ..job(6, 15, 100) },
    ];
    let ended = serve(&mut plain("scan-edf", &[0, 1, 2, 3, 4, 5, 6]), &jobs);
    assert_eq!(ids(&ended), [4, 3, 5, 1, 2, 6, 0]);
    // Without sweeps: by deadline, then by arrival.
    let ended = serve(&mut plain("edf", &[0, 1, 2, 3, 4, 5, 6]), &jobs);
    assert_eq!(ids(&ended), [4, 1, 2, 3, 5, 6, 0]);
}

/// A stream that its limit or depth holds back is passed over, and is in its place when it may go.
#[test]
fn scan_edf_passes_over_a_stream_that_is_not_ready() {
    let mut rig = plain("scan-edf", &[0, 1]);
    rig.change(0, Change::SetDepth(2));
    rig.change(0, Change::SetStreamDepth(StreamId(0), 1));
    let job = |stream, offset, due| Job { offset, due: Some(due), ..Job::of(stream, 1) };
    for (id, job) in (0..).zip([job(0, 10, 10), job(0, 11, 20), job(1, 90, 30), job(1, 95, 40)]) {
        rig.engine.handle_arrival(Instant::ZERO, job.request(id)).expect("it is sound");
    }
    let sent = rig.go(0);
    assert_eq!([sent[0].request, sent[1].request], [RequestId(0), RequestId(2)]);
    let _over = rig.done(MS, sent[0].piece);
    assert_eq!(rig.go_one(MS).request, RequestId(1));
}

/// `count` jobs of each stream at that offset.
fn each(places: &[(u32, u64)], count: usize) -> Vec<Job> {
    let one = places.iter().map(|(stream, offset)| Job { offset: *offset, ..Job::of(*stream, 1) });
    one.collect::<Vec<_>>().repeat(count)
}

#[test]
fn one_group_is_scan() {
    let jobs = each(&[(0, 50), (4, 10), (8, 30)], 2);
    let ended = serve(&mut plain("gss", &[0, 4, 8]), &jobs);
    assert_eq!(streams(&jobs, &ended), [4, 8, 0, 0, 8, 4]);
}

#[test]
fn a_group_for_each_stream_is_round_robin() {
    let jobs = each(&[(3, 10), (1, 40), (0, 30), (2, 20)], 2);
    let ended = serve(&mut plain("gss", &[0, 1, 2, 3]), &jobs);
    assert_eq!(streams(&jobs, &ended), [0, 1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn groups_take_turns_and_sweep_to_and_fro() {
    // Groups {0, 4} and {1, 5, 9}.
    let jobs = each(&[(0, 80), (4, 20), (1, 10), (5, 90), (9, 40)], 2);
    let ended = serve(&mut plain("gss", &[0, 1, 4, 5, 9]), &jobs);
    assert_eq!(streams(&jobs, &ended), [4, 0, 5, 9, 1, 4, 0, 5, 9, 1]);
}

/// The paper's figures 2 and 3, its bytes as ms: a quantum of 500, packets of 200, 750, 20; 500, 500;
/// 200, 600, 100; 50, 700, 180. The first round leaves 300, 0, 300 and 450.
#[test]
fn deficits_carry_over_to_the_next_round() {
    let queues: [&[u64]; 4] = [&[200, 750, 20], &[500, 500], &[200, 600, 100], &[50, 700, 180]];
    let of = |(stream, queue): (u32, &&[u64])| -> Vec<Job> {
        queue.iter().map(|takes| Job::of(stream, *takes)).collect()
    };
    let jobs: Vec<_> = (0..).zip(&queues).flat_map(of).collect();
    // 200 us of quantum a weight.
    let quantum = Contract { weight: 2_500, ..contract(0, 100) };
    let ended = serve(&mut under("drr", &[0, 1, 2, 3].map(|id| (id, quantum))), &jobs);
    assert_eq!(ids(&ended), [0, 3, 5, 8, 1, 2, 4, 6, 7, 9, 10]);
}

/// Sends pieces until `end`; a piece of a stream really takes its estimate times `factors`.
fn run(rig: &mut Rig, mut now: u64, end: u64, takes: &[u64], factors: &[u64]) {
    while now < end {
        for (stream, takes) in (0..).zip(takes) {
            if *takes > 0 && rig.view(stream).queued() < 2 {
                // Two ids a stream, plus those that are out.
                let id = (0..1_000).find(|id| {
                    let request = Job::of(stream, *takes).request(stream * 1_000 + id);
                    rig.engine.handle_arrival(at(now * MS), request).is_ok()
                });
                assert!(id.is_some());
            }
        }
        let Dispatch { piece, request, .. } = rig.go_one(now * MS);
        let stream = request.0 as usize / 1_000;
        now += takes[stream] * factors[stream];
        let _over = rig.done(now * MS, piece);
    }
}

fn charged_ms(rig: &Rig, stream: u32) -> u64 {
    rig.charged(stream) / MS
}

#[test]
fn deficit_round_robin_shares_time_between_unlike_requests() {
    let weights = [(0, 100), (1, 100), (2, 200)];
    let contracts = weights.map(|(id, weight)| (id, Contract { weight, ..contract(0, 100) }));
    let mut rig = under("drr", &contracts);
    // The third takes three times what it is estimated at: charges correct it.
    run(&mut rig, 0, 20_000, &[70, 5, 3], &[1, 1, 3]);
    for (stream, part) in [(0, 5_000), (1, 5_000), (2, 10_000)] {
        let got = charged_ms(&rig, stream);
        assert!(got.abs_diff(part) <= 100, "stream {stream} got {got} ms of {part}");
    }
}

/// A stream that its own depth kept from using its turns has saved no more than a quantum of them.
#[test]
fn a_deficit_that_cannot_be_used_does_not_pile_up() {
    let mut rig = plain("drr", &[0, 1]);
    rig.change(0, Change::SetDepth(2));
    rig.change(0, Change::SetStreamDepth(StreamId(0), 1));
    let (mut out, mut run, mut longest) = (Vec::new(), 0, 0);
    for ms in 0..3_000 {
        for stream in [0, 1] {
            while rig.view(stream).queued() < 2 {
                let id = (0..8).map(|id| stream * 8 + id);
                let free = id.map(|id| Job::of(stream, 1).request(id));
                let taken =
                    free.map(|request| rig.engine.handle_arrival(at(ms * MS), request).is_ok());
                assert!(taken.into_iter().any(|taken| taken));
            }
        }
        if ms == 2_000 {
            rig.change(ms * MS, Change::SetStreamDepth(StreamId(0), 8));
        }
        for sent in rig.go(ms * MS) {
            run = if sent.request.0 < 8 { run + 1 } else { 0 };
            longest = longest.max(run);
            out.push(sent.piece);
        }
        let _over = rig.done((ms + 1) * MS, out.remove(0));
    }
    assert!((20..=41).contains(&longest), "{longest} ms in one turn");
}

/// Real time and interactive have weights 4 and 2.
#[test]
fn cello_divides_an_interval_between_classes() {
    let of = |class| Contract { class, ..contract(0, 100) };
    let classes = [(0, of(Class::SoftRealTime)), (1, of(Class::BestEffort))];
    let mut rig = under("cello", &classes);
    run(&mut rig, 0, 900, &[10, 30], &[1, 1]);
    assert_eq!([0, 1].map(|stream| charged_ms(&rig, stream)), [600, 300]);
    // The time that one class leaves goes to the other, and a class that was idle has saved nothing.
    let mut rig = under("cello", &classes);
    run(&mut rig, 0, 1_000, &[0, 10], &[1, 1]);
    assert_eq!(charged_ms(&rig, 1), 1_000);
    run(&mut rig, 1_000, 1_900, &[10, 10], &[1, 1]);
    assert!((600 - 20..=600 + 20).contains(&charged_ms(&rig, 0)), "{}", charged_ms(&rig, 0));
}

#[test]
fn cello_orders_each_class_its_own_way() {
    let of = |class| Contract { class, ..contract(0, 100) };
    let soft = of(Class::SoftRealTime);
    let mut rig =
        under("cello", &[(0, soft), (1, soft), (2, contract(0, 100)), (3, contract(0, 100))]);
    let jobs = [
        Job { due: Some(90), ..Job::of(0, 10) },
        Job { due: Some(50), ..Job::of(1, 10) },
        Job { offset: 90, ..Job::of(3, 10) },
        Job { offset: 10, ..Job::of(2, 10) },
    ];
    // Real time 10 ms (of 4), interactive 10 (of 2), real time again: 20 of 4 ties with 10 of 2.
    assert_eq!(ids(&serve(&mut rig, &jobs)), [1, 2, 0, 3]);
}
