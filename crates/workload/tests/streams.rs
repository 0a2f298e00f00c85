//! Streams in time: bursts, ON and OFF, players, phases and replays.

use disktime_core::{Duration, Instant, Kind};
use disktime_workload::trace::{TraceFormat, TraceReader};
use disktime_workload::{
    Arrivals, Cycles, Extent, IoOp, Miss, Pace, PastEnd, Pattern, Phase, PhaseError, Phases,
    Playback, Repeat, Replay, ReplayPace, ReplaySpec, Source, Spans, Spec, SpecError, Stream,
    StreamSpec,
};
use proptest::prelude::*;
use std::io::Cursor;

const START: Instant = Instant::from_nanos(5_000_000);
const EXTENT: Extent = Extent { start: 0, end: 1 << 30 };
const NO_TIME: Duration = Duration::ZERO;

fn spec(pattern: Pattern) -> Spec {
    Spec::reads(pattern, EXTENT, 4096)
}

fn closed(outstanding: u32) -> Pace {
    Pace::Closed { outstanding, think: NO_TIME }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn after(millis: u64) -> Instant {
    START + ms(millis)
}

/// Serves a stream alone, one operation after another, each in `service`, until nothing is left to do
/// before `end`. Returns when each was issued, and the misses.
fn serve(
    stream: &mut Stream,
    service: Duration,
    end: Instant,
) -> (Vec<(Instant, IoOp)>, Vec<Miss>) {
    let (mut issued, mut missed) = (Vec::new(), Vec::new());
    let mut queue = std::collections::VecDeque::new();
    let mut now = START;
    loop {
        while let Some(op) = stream.poll(now) {
            issued.push((now, op));
            let last = queue.back().map_or(now, |&(done, _)| done);
            queue.push_back((last.max(now) + service, op));
        }
        missed.extend(std::iter::from_fn(|| stream.missed()));
        let done = queue.front().map(|&(done, _)| done);
        let Some(next) = [done, stream.next_at()].into_iter().flatten().min() else { break };
        assert!(next >= now || stream.next_at() == Some(next), "time goes on");
        if next >= end {
            break;
        }
        now = now.max(next);
        if done == Some(now) {
            let (_, op) = queue.pop_front().expect("its first was looked at");
            stream.completed(now, &op);
        }
    }
    (issued, missed)
}

fn stream(spec: Spec, pace: Pace) -> Stream {
    Source::new(spec, pace, 1, "load", START).expect("nothing is wrong with it").into()
}

#[test]
fn bursts_rest_between_them() {
    let (idle_min, idle_max) = (ms(500), ms(1000));
    let pace = Pace::Bursts { outstanding: 4, length: 50, idle_min, idle_max };
    let (issued, _) = serve(&mut stream(spec(Pattern::Random), pace), ms(1), after(20_000));
    let mut idle = Vec::new();
    for pair in issued.chunks(50).collect::<Vec<_>>().windows(2) {
        // 50 operations of a millisecond, one after another, and a first that waits for nobody.
        assert_eq!(pair[0][49].0.since(pair[0][0].0), ms(46));
        idle.push(pair[1][0].0.since(pair[0][0].0).saturating_sub(ms(50)));
    }
    assert!(idle.len() > 20);
    assert!(idle.iter().all(|&idle| idle >= idle_min && idle <= idle_max), "{idle:?}");
    assert!(idle.iter().max() > idle.iter().min().map(|min| *min + ms(200)).as_ref());
}

#[test]
fn on_and_off() {
    let arrivals =
        |spans| Pace::Open(Arrivals::OnOff { interval: ms(10), on: ms(25), off: ms(100), spans });
    let (issued, _) =
        serve(&mut stream(spec(Pattern::Random), arrivals(Spans::Fixed)), NO_TIME, after(270));
    let times: Vec<_> = issued.iter().map(|(at, _)| at.since(START)).collect();
    assert_eq!(times, [0, 10, 20, 125, 135, 145, 250, 260].map(ms));

    let mut random = stream(spec(Pattern::Random), arrivals(Spans::Exponential));
    let (issued, _) = serve(&mut random, NO_TIME, after(1_000_000));
    let gaps = issued.windows(2).map(|pair| pair[1].0.since(pair[0].0));
    let off = gaps.filter(|&gap| gap > ms(10)).count();
    // A period is 125 ms long on average; about one OFF period in ten is short enough to be lost
    // among the intervals.
    assert!((6_800..8_200).contains(&off), "{off} periods");
}

#[test]
fn cycles_ask_for_their_worth_at_their_starts() {
    // 10 operations and 40 bytes a second; the load starts after the cycle at 0 s has.
    let cycles = Cycles { bytes_per_second: 41_000, cycle: ms(1_000) };
    let mut load = stream(spec(Pattern::Sequential), Pace::Cycles(cycles));
    let end = Instant::ZERO + Duration::from_secs(104);
    let (issued, _) = serve(&mut load, ms(1), end);
    let at = |second: u64| {
        let start = Instant::ZERO + Duration::from_secs(second);
        issued.iter().filter(|(at, _)| *at == start).count()
    };
    assert_eq!((at(0), at(1), at(102), at(103)), (0, 10, 10, 11), "102 times 40 bytes are short");
    assert_eq!(issued.len(), 103 * 41_000 / 4096);
    for (rate, cycle, error) in
        [(0, ms(1), SpecError::RateZero), (1, NO_TIME, SpecError::CycleZero)]
    {
        assert_eq!(Pace::Cycles(Cycles { bytes_per_second: rate, cycle }).check(), Err(error));
    }
}

/// A slow device changes none of an open load's times, nor does a late poll.
#[test]
fn cycles_are_an_open_load() {
    let cycles = Cycles { bytes_per_second: 8 * 4096, cycle: ms(500) };
    let mut load = stream(spec(Pattern::Sequential), Pace::Cycles(cycles));
    let (issued, _) = serve(&mut load, ms(1_000), Instant::ZERO + ms(2_000));
    assert_eq!(issued.len(), 3 * 4);
    let now = Instant::ZERO + ms(4_100);
    assert_eq!(std::iter::from_fn(|| load.poll(now)).count(), 5 * 4, "2 s to 4 s, polled late");
    assert_eq!(load.next_at(), Some(Instant::ZERO + ms(4_500)));
}

fn player(outstanding: u32) -> Pace {
    let buffer = ms(1000);
    // A thousand operations of 4096 bytes each second.
    Pace::Player(Playback { bytes_per_second: 4_096_000, buffer, outstanding, vbr_permille: 0 })
}

#[test]
fn a_player_alone_fills_its_buffer_and_then_keeps_its_rate() {
    for outstanding in [1, 4] {
        let mut stream = stream(spec(Pattern::Sequential), player(outstanding));
        let service = Duration::from_micros(100);
        let (issued, missed) = serve(&mut stream, service, after(11_000));
        assert_eq!(missed, []);
        // The buffer at once, then a second of waiting, then one operation each millisecond.
        let first_second = issued.iter().filter(|(at, _)| *at < after(1000)).count();
        assert_eq!(first_second, 1000);
        assert!(issued[999].0 <= after(100));
        assert_eq!(issued.len(), 1000 + 9_999);
        let late = &issued[1000..];
        assert!(late.windows(2).all(|pair| pair[1].0.since(pair[0].0) == ms(1)));
    }
}

#[test]
fn a_variable_bit_rate_varies_by_second_and_is_kept_over_sixteen() {
    let Pace::Player(playback) = player(1) else { unreachable!() };
    let pace = Pace::Player(Playback { vbr_permille: 500, ..playback });
    let mut stream = stream(spec(Pattern::Sequential), pace);
    let (issued, missed) = serve(&mut stream, Duration::from_micros(100), after(33_000));
    assert_eq!(missed, []);
    // From the buffer's second on a sixteenth part of the table a second.
    let within = |from: u64, to: u64| {
        issued.iter().filter(|(at, _)| (after(from)..after(to)).contains(at)).count()
    };
    let second = |at: u64| within(1000 * at, 1000 * (at + 1));
    let seconds: Vec<_> = (1..17).map(second).collect();
    let (least, most) = (*seconds.iter().min().unwrap(), *seconds.iter().max().unwrap());
    assert!((660..=760).contains(&least) && (1400..=2001).contains(&most), "{seconds:?}");
    for start in [1_000, 5_500, 16_900] {
        let whole = within(start, start + 16_000);
        assert!((15_999..=16_001).contains(&whole), "{whole}");
    }
}

#[test]
fn a_player_that_is_starved_misses_stops_and_catches_up() {
    let mut stream = stream(spec(Pattern::Sequential), player(1));
    // A disk that gives nothing from 2 s to 5 s, and then ten times the rate.
    let mut now = START;
    let mut first_miss = None;
    while now < after(5000) {
        let op = stream.poll(now);
        first_miss = first_miss.or_else(|| stream.missed());
        let served = if now < after(2000) { now + Duration::from_micros(100) } else { after(5000) };
        match op {
            Some(op) => {
                while let Some(at) = stream.next_at().filter(|&at| at < served) {
                    assert_eq!(stream.poll(at), None, "it has one outstanding");
                    first_miss = first_miss.or_else(|| stream.missed());
                }
                now = served;
                stream.completed(now, &op);
            }
            None => now = stream.next_at().expect("it waits for its buffer to empty").max(now),
        }
    }
    // At 2 s it has a full buffer, but for what it reads just then.
    let miss = first_miss.expect("it was starved");
    assert_eq!(miss.number, 1);
    assert!(miss.at >= after(2998) && miss.at <= after(3001), "{:?}", miss.at.since(START));
    assert_eq!(stream.misses(), 1);
    assert!(stream.stalled() >= ms(1999) && stream.stalled() <= ms(2002));

    let (mut refill, mut served) = (0, now);
    while served < after(5200) {
        let op = stream.poll(served);
        let Some(op) = op else { break };
        refill += 1;
        served = served + Duration::from_micros(100);
        stream.completed(served, &op);
    }
    // A thousand operations and what is played meanwhile: it owes nothing for its three seconds.
    assert!((1100..1120).contains(&refill), "{refill}");
    assert_eq!(stream.missed(), None);
}

#[test]
fn a_player_whose_disk_is_too_slow_gets_what_the_disk_gives() {
    let mut stream = stream(spec(Pattern::Sequential), player(1));
    let (issued, missed) = serve(&mut stream, ms(2), after(20_000));
    assert_eq!(issued.len(), 10_000, "it reads all the time");
    // A second's lead is used up after two; then each operation is late.
    assert!(missed[0].at > after(1000) && missed[0].at < after(2010));
    assert!((8_900..9_600).contains(&stream.misses()), "{}", stream.misses());
    assert!(missed.windows(2).all(|pair| pair[1].number == pair[0].number + 1));
    let stalled = stream.stalled().as_secs_f64();
    assert!((9.0..9.6).contains(&stalled), "{stalled}");
}

#[test]
fn a_recorder_writes_what_it_has_and_misses_when_its_buffer_is_full() {
    let writes = Spec { reads_permille: 0, ..spec(Pattern::Sequential) };
    let mut calm = stream(writes.clone(), player(1));
    let (issued, missed) = serve(&mut calm, Duration::from_micros(100), after(10_000));
    assert_eq!(missed, []);
    let times: Vec<_> = issued.iter().map(|(at, _)| at.since(START)).collect();
    let even: Vec<_> = (1..10_000).map(ms).collect();
    assert_eq!(times, even, "an operation whenever there is data for one");
    assert!(issued.iter().all(|(_, op)| op.kind == Kind::Write));

    let mut starved = stream(writes, player(1));
    let op = starved.poll(after(1)).expect("there is a millisecond's data");
    assert_eq!(starved.next_at(), Some(after(1000) + Duration::from_nanos(1)));
    assert_eq!(starved.poll(after(4000)), None);
    assert_eq!(starved.missed(), Some(Miss { at: after(1000), number: 1 }));
    starved.completed(after(4000), &op);
    assert_eq!(starved.stalled(), ms(3000));
    for _ in 0..999 {
        let op = starved.poll(after(4000)).expect("it has a buffer to write");
        starved.completed(after(4000), &op);
    }
    assert_eq!(starved.poll(after(4000)), None);
}

#[test]
fn a_completion_in_the_last_moment_is_in_time() {
    for (late_ns, misses) in [(0, 0), (1, 1)] {
        let mut stream = stream(spec(Pattern::Sequential), player(1));
        let op = stream.poll(START).expect("its buffer is empty");
        let now = after(1000) + Duration::from_nanos(late_ns);
        stream.poll(now);
        stream.completed(now, &op);
        assert_eq!(stream.misses(), misses);
    }
}

#[test]
fn a_player_takes_its_data_in_order() {
    let mut stream = stream(spec(Pattern::Sequential), player(2));
    let first = stream.poll(START).expect("two may be outstanding");
    let second = stream.poll(START).expect("two may be outstanding");
    stream.completed(after(1), &second);
    assert_eq!(stream.poll(after(1)), None, "the first is what it waits for");
    stream.completed(after(2), &first);
    assert!(stream.poll(after(2)).is_some() && stream.poll(after(2)).is_some());
}

#[test]
fn phases_start_stop_and_change() {
    let phase = |start, stop, pace| Phase {
        start: ms(start),
        stop: Some(ms(stop)),
        spec: spec(Pattern::Sequential),
        pace,
    };
    let open = Pace::Open(Arrivals::Constant { interval: ms(10) });
    let phases =
        vec![phase(100, 200, closed(1)), phase(200, 250, open), phase(400, 403, closed(3))];
    let mut stream: Stream = Phases::new(phases, 1, "load", START).expect("no fault").into();
    assert_eq!(stream.next_at(), Some(after(100)));
    let (issued, _) = serve(&mut stream, ms(1), after(1000));
    let count =
        |from, to| issued.iter().filter(move |(at, _)| *at >= after(from) && *at < after(to));
    assert_eq!(count(0, 100).count(), 0);
    assert_eq!(count(100, 200).count(), 100);
    assert_eq!(count(200, 250).count(), 5);
    assert_eq!(count(400, 403).count(), 3 + 2);
    assert_eq!(issued.len(), 110);
    assert!(stream.has_ended() && stream.next_at().is_none() && stream.outstanding() == 0);
    // One spec is one sequence, however its pace changes.
    assert!(issued.windows(2).all(|pair| pair[0].1.offset + 4096 == pair[1].1.offset));
}

#[test]
fn outstanding_requests_count_in_the_next_phase() {
    let phase = |start, outstanding| Phase {
        start: ms(start),
        stop: (start < 20).then(|| ms(start + 10)),
        spec: spec(Pattern::Random),
        pace: closed(outstanding),
    };
    let phases = vec![phase(0, 5), phase(10, 2), phase(20, 4)];
    let mut stream = Phases::new(phases, 1, "load", START).expect("no fault");
    let all =
        |stream: &mut Phases, now| std::iter::from_fn(|| stream.poll(now)).collect::<Vec<_>>();
    let ops = all(&mut stream, after(0));
    assert_eq!(ops.len(), 5);
    // Three too many: their completions make no room.
    for op in &ops[..3] {
        assert_eq!(all(&mut stream, after(10)).len(), 0, "{op:?}");
        stream.completed(after(10), op);
    }
    assert_eq!(all(&mut stream, after(10)).len(), 0);
    stream.completed(after(11), &ops[3]);
    assert_eq!(all(&mut stream, after(11)).len(), 1);
    assert_eq!(all(&mut stream, after(20)).len(), 2);
}

#[test]
fn phases_polled_late_issue_all_requests_of_an_open_loop() {
    let phase = |start, pace| Phase {
        start: ms(start),
        stop: Some(ms(start + 100)),
        spec: spec(Pattern::Random),
        pace,
    };
    let open = Pace::Open(Arrivals::Constant { interval: ms(10) });
    let phases = vec![phase(0, open), phase(100, closed(7)), phase(200, open)];
    let mut stream = Phases::new(phases, 1, "load", START).expect("no fault");
    assert_eq!(std::iter::from_fn(|| stream.poll(after(1000))).count(), 20);
    assert!(stream.has_ended());
}

#[test]
fn bad_phases_are_refused_with_their_reason() {
    let phase = |start, stop: Option<u64>| Phase {
        start: ms(start),
        stop: stop.map(ms),
        spec: spec(Pattern::Random),
        pace: closed(1),
    };
    let wrong = |phases: Vec<Phase>| {
        Phases::new(phases, 1, "load", START).expect_err("there is a fault").to_string()
    };
    assert_eq!(wrong(vec![]), "phases: none; at least one is needed");
    assert_eq!(
        wrong(vec![phase(5, Some(5))]),
        "phase 1: stop: 5ms; more than its start, 5ms, is needed"
    );
    assert_eq!(
        wrong(vec![phase(0, Some(5)), phase(4, None)]),
        "phase 2: start: 4ms; at least 5ms, when the phase before stops, is needed"
    );
    assert_eq!(
        wrong(vec![phase(0, None), phase(4, None)]),
        "phase 2: the phase before it has no stop; only the last may"
    );
    let idle = Phase { pace: closed(0), ..phase(9, None) };
    assert_eq!(
        wrong(vec![phase(0, Some(5)), idle]),
        "phase 2: outstanding: 0; at least 1 is needed"
    );
}

#[test]
fn bad_paces_are_refused_with_their_reason() {
    let wrong = |spec: Spec, pace| {
        Source::new(spec, pace, 1, "load", START).expect_err("there is a fault").to_string()
    };
    let reads = spec(Pattern::Random);
    let playback =
        Playback { bytes_per_second: 8000, buffer: ms(1000), outstanding: 1, vbr_permille: 0 };
    assert_eq!(
        wrong(reads.clone(), Pace::Player(playback)),
        "buffer: 8000 bytes at this rate; at least 8192, two of the largest operations, are needed"
    );
    let wild = Playback { vbr_permille: 901, ..playback };
    let wild = Pace::Player(wild).check_with(&spec(Pattern::Sequential));
    assert_eq!(wild, Err(SpecError::Vbr { permille: 901 }));
    let nothing = Playback { bytes_per_second: 0, ..playback };
    assert_eq!(
        wrong(reads.clone(), Pace::Player(nothing)),
        "rate: 0 bytes per second; at least 1 is needed"
    );
    let mixed = Spec { reads_permille: 500, ..reads.clone() };
    assert_eq!(wrong(mixed, player(1)), "reads: 500 of a thousand; a player takes only 0 or 1000");
    assert_eq!(wrong(reads.clone(), player(0)), "outstanding: 0; at least 1 is needed");
    let bursts = |length, idle_min| Pace::Bursts {
        outstanding: 1,
        length,
        idle_min: ms(idle_min),
        idle_max: ms(5),
    };
    assert_eq!(wrong(reads.clone(), bursts(0, 1)), "burst length: 0; at least 1 is needed");
    assert_eq!(
        wrong(reads.clone(), bursts(1, 6)),
        "idle_max: 5ms; at least idle_min, 6ms, is needed"
    );
    let on_off = |interval, on| {
        let (interval, on) = (ms(interval), ms(on));
        Pace::Open(Arrivals::OnOff { interval, on, off: ms(1), spans: Spans::Fixed })
    };
    assert_eq!(wrong(reads.clone(), on_off(0, 1)), "interval: 0 ns; at least 1 is needed");
    assert_eq!(wrong(reads.clone(), on_off(1, 0)), "on: 0 ns; at least 1 is needed");
    let empty = Spec { pattern: Pattern::SemiSequential { random: 0, sequential: 0 }, ..reads };
    assert_eq!(
        wrong(empty, closed(1)),
        "semi-sequential: 0 random and 0 sequential; at least 1 is needed"
    );
}

const TRACE: &str = "time_ns,op,offset,bytes,stream\n\
                     1000,read,0,4096,0\n\
                     1500,write,4096,4096,1\n\
                     3000,read,12288,4096,0\n";

fn replay_of(text: &'static str, spec: &ReplaySpec) -> Result<Replay, String> {
    let open = move || TraceReader::new(Cursor::new(text), "t", Some(TraceFormat::Disktime));
    Replay::new(spec, Box::new(open), START).map_err(|error| error.to_string())
}

fn replay(spec: &ReplaySpec) -> Replay {
    replay_of(TRACE, spec).expect("the trace has no fault")
}

fn replay_spec() -> ReplaySpec {
    ReplaySpec::new("t", Extent { start: 1 << 20, end: 2 << 20 })
}

/// Nanoseconds from the start to each operation, and its place in the extent.
fn timed(mut replay: Replay, most: usize) -> Vec<(u64, u64)> {
    let mut ops = Vec::new();
    while let Some(at) = replay.next_at().filter(|_| ops.len() < most) {
        let op = replay.poll(at).expect("it is due");
        assert!(replay.outstanding() > 0);
        ops.push((at.since(START).as_nanos(), op.offset - (1 << 20)));
        replay.completed(at);
    }
    assert_eq!(replay.failure(), None);
    ops
}

#[test]
fn a_replay_keeps_or_scales_its_times() {
    assert_eq!(timed(replay(&replay_spec()), 9), [(0, 0), (500, 4096), (2000, 12288)]);
    let faster = ReplaySpec { time_scale_ppm: 500_000, ..replay_spec() };
    assert_eq!(timed(replay(&faster), 9), [(0, 0), (250, 4096), (1000, 12288)]);
}

#[test]
fn a_replay_leaves_out_what_it_shall() {
    let reads = ReplaySpec { reads_only: true, ..replay_spec() };
    assert_eq!(timed(replay(&reads), 9), [(0, 0), (2000, 12288)]);
    let one = ReplaySpec { stream: Some(1), ..replay_spec() };
    assert_eq!(timed(replay(&one), 9), [(0, 4096)]);
    let none = ReplaySpec { stream: Some(2), ..replay_spec() };
    let wrong = replay_of(TRACE, &none).expect_err("nothing is left");
    assert_eq!(wrong, "t: no operations; at least one is needed");
}

#[test]
fn a_replay_repeats() {
    let twice = ReplaySpec { repeat: Repeat::Times(2), ..replay_spec() };
    // The mean distance of the three is 1000 ns.
    let pass = [(0, 0), (500, 4096), (2000, 12288)];
    let next = pass.map(|(at, offset)| (at + 3000, offset));
    assert_eq!(timed(replay(&twice), 99), [pass, next].concat());
    let forever = ReplaySpec { repeat: Repeat::Forever, ..replay_spec() };
    assert_eq!(timed(replay(&forever), 3000).last(), Some(&(999 * 3000 + 2000, 12288)));

    let text = "time_ns,op,offset,bytes\n5,read,0,1\n5,read,0,1\n";
    let mut still = replay_of(text, &forever).expect("its first operation makes sense");
    assert_eq!(std::iter::from_fn(|| still.poll(START)).count(), 2);
    let failure = still.failure().expect("it can't go on").to_string();
    assert_eq!(failure, "t: all operations have one time; a trace to repeat must take some time");
}

#[test]
fn a_closed_replay_keeps_its_number_outstanding() {
    let spec = ReplaySpec {
        pace: ReplayPace::Closed { outstanding: 2 },
        repeat: Repeat::Times(100),
        ..replay_spec()
    };
    let mut replay = replay(&spec);
    let mut count = 0;
    while !replay.has_ended() {
        let ops = std::iter::from_fn(|| replay.poll(after(count))).count();
        assert!(replay.outstanding() == 2 || replay.has_ended());
        assert!(replay.next_at().is_none());
        count += ops as u64;
        replay.completed(after(count));
    }
    assert_eq!(count, 300);
}

#[test]
fn a_replay_stays_in_its_extent() {
    let text = "time_ns,op,offset,bytes\n\
                0,read,1044480,4096\n1,flush,0,0\n2,read,1048576,512\n3,read,3145216,1024\n";
    let refuse = replay_spec();
    let mut replay = replay_of(text, &refuse).expect("its first operation makes sense");
    assert_eq!(std::iter::from_fn(|| replay.poll(after(1))).count(), 2);
    assert!(replay.has_ended());
    assert_eq!(
        replay.failure().expect("the third is past the end").to_string(),
        "t:4: offset: 512 bytes at byte 1048576 pass the end at 1048576; wrap, or enlarge the \
         extent"
    );
    let wrap = ReplaySpec { past_end: PastEnd::Wrap, ..replay_spec() };
    let wrapped = timed(replay_of(text, &wrap).expect("it all fits"), 9);
    assert_eq!(wrapped, [(0, 1_044_480), (1, 0), (2, 0), (3, 0)]);

    let small = ReplaySpec { extent: Extent { start: 0, end: 4095 }, ..wrap };
    let wrong = replay_of(text, &small).expect_err("the first is too long");
    assert_eq!(
        wrong,
        "t:2: offset: 4096 bytes at byte 1044480 pass the end at 4095; wrap, or enlarge the extent"
    );
}

#[test]
fn a_bad_replay_is_refused_with_its_reason() {
    let nothing = ReplaySpec { pace: ReplayPace::Closed { outstanding: 0 }, ..replay_spec() };
    let wrong = replay_of(TRACE, &nothing).expect_err("there is a fault");
    assert_eq!(wrong, "t: outstanding: 0; at least 1 is needed");
    let no_time = ReplaySpec { time_scale_ppm: 0, ..replay_spec() };
    let wrong = replay_of(TRACE, &no_time).expect_err("there is a fault");
    assert_eq!(wrong, "t: time_scale: 0; more is needed");
    // 2000 ns by a millionth are none.
    let hasty = ReplaySpec { time_scale_ppm: 1, repeat: Repeat::Forever, ..replay_spec() };
    let mut replay = replay(&hasty);
    assert_eq!(std::iter::from_fn(|| replay.poll(START)).count(), 3);
    assert!(replay.failure().is_some());
}

#[test]
fn a_fault_in_the_middle_ends_a_replay_where_it_is() {
    let text = "time_ns,op,offset,bytes\n0,read,0,1\n1,read,0,1\n2,look,0,1\n3,read,0,1\n";
    let mut stream: Stream = replay_of(text, &replay_spec()).expect("it starts well").into();
    assert_eq!(std::iter::from_fn(|| stream.poll(after(1))).count(), 2);
    assert!(stream.has_ended() && stream.outstanding() == 2);
    assert_eq!(
        stream.failure().expect("it can't go on").to_string(),
        "t:4: op: \"look\"; read, write, flush, trim, zeroes or cache is needed"
    );
}

fn toml(text: &str) -> Result<StreamSpec, String> {
    toml::from_str(text).map_err(|error| error.message().to_owned())
}

const PHASES: &str = r#"
[[phases]]
stop = "60s"
[phases.spec]
pattern = { runs = { length = 1024 } }
extent = { end = "10GiB" }
sizes = "4KiB"
reads = "70%"
[phases.pace.closed]
outstanding = 8
think = "10ms"

[[phases]]
start = "1min"
[phases.spec]
pattern = { semi-sequential = { random = 25, sequential = 475 } }
extent = { start = "1GiB", end = "2GiB" }
sizes = [{ bytes = "4KiB", weight = 3 }, { bytes = "128KiB" }]
[phases.pace.player]
rate = "8MB/s"
"#;

#[test]
fn scenario_files_say_phases() {
    let Ok(StreamSpec::Phases(phases)) = toml(PHASES) else { panic!("{:?}", toml(PHASES)) };
    let first = Spec {
        reads_permille: 700,
        ..Spec::reads(Pattern::Runs { length: 1024 }, Extent { start: 0, end: 10 << 30 }, 4096)
    };
    assert_eq!(phases[0].spec, first);
    assert_eq!(phases[0].pace, Pace::Closed { outstanding: 8, think: ms(10) });
    assert_eq!((phases[0].start, phases[0].stop), (NO_TIME, Some(ms(60_000))));
    let sizes: Vec<_> = phases[1].spec.sizes.iter().map(|size| (size.bytes, size.weight)).collect();
    assert_eq!(sizes, [(4096, 3), (128 << 10, 1)]);
    assert_eq!(phases[1].spec.reads_permille, 1000);
    let playback =
        Playback { bytes_per_second: 8_000_000, buffer: ms(1000), outstanding: 1, vbr_permille: 0 };
    assert_eq!(phases[1].pace, Pace::Player(playback));
    assert_eq!((phases[1].start, phases[1].stop), (ms(60_000), None));
    assert!(Stream::new(&StreamSpec::Phases(phases), 1, "load", START).is_ok());
}

#[test]
fn scenario_files_say_paces_and_replays() {
    #[derive(serde::Deserialize)]
    struct Paces {
        pace: Vec<Pace>,
    }
    let text = r#"pace = [
        { open = { constant = { interval = "10ms" } } },
        { open = { poisson = { mean = "5us" } } },
        { open = { on-off = { interval = "1ms", on = "1s", off = "2s", spans = "exponential" } } },
        { bursts = { outstanding = 1, length = 5000, idle_min = "500ms", idle_max = "1s" } },
        { closed = { outstanding = 1 } },
        { player = { rate = "1MiB/s", buffer = "2s", outstanding = 3 } },
    ]"#;
    let paces: Paces = toml::from_str(text).expect("each is right");
    assert_eq!(paces.pace[4], closed(1));
    assert_eq!(paces.pace[1], Pace::Open(Arrivals::Poisson { mean: Duration::from_micros(5) }));

    let text = r#"
        [replay]
        path = "trace.csv.gz"
        format = "sectors"
        extent = { end = "32GiB" }
        past_end = "wrap"
        pace = { closed = { outstanding = 16 } }
        time_scale = "50%"
        repeat = { times = 3 }
        stream = 0
        reads_only = true
        disorder = "hold"
    "#;
    let Ok(StreamSpec::Replay(spec)) = toml(text) else { panic!("{:?}", toml(text)) };
    assert_eq!(spec.format, Some(TraceFormat::Sectors));
    assert_eq!((spec.time_scale_ppm, spec.repeat), (500_000, Repeat::Times(3)));
    let least = "[replay]\npath = \"no.csv\"\nextent = { end = \"1GiB\" }\n";
    let extent = Extent { start: 0, end: 1 << 30 };
    let spec = StreamSpec::Replay(ReplaySpec::new("no.csv", extent));
    assert_eq!(toml(least), Ok(spec.clone()));
    let missing = Stream::new(&spec, 1, "load", START).expect_err("there is no such file");
    assert_eq!(
        missing.to_string(),
        "no.csv: can't be opened: No such file or directory (os error 2)"
    );
}

#[test]
fn scenario_files_are_read_strictly() {
    let with = |from, to| toml(&PHASES.replacen(from, to, 1)).expect_err("that is wrong");
    assert_eq!(
        with("\"4KiB\"", "\"4K\""),
        "\"4K\": a size is a whole number and a unit, like `4KiB`, `10GiB` or `500MB`"
    );
    assert_eq!(
        with("\"70%\"", "70"),
        "invalid type: integer `70`, expected a ratio in quotes, like \"70%\""
    );
    assert_eq!(
        with("\"10ms\"", "\"10\""),
        "\"10\": a time is a whole number and a unit, like `10ms`, `2s` or `5min`"
    );
    assert_eq!(
        with("\"8MB/s\"", "\"8MB\""),
        "\"8MB\": a rate is a size per second, like `8MB/s` or `128KiB/s`"
    );
    assert_eq!(
        with("think", "thinks"),
        "unexpected keys in table: thinks, available keys: outstanding, think"
    );
    assert!(with("reads", "read").starts_with("unknown field `read`, expected one of"));
    assert!(with("stop", "stops").starts_with("unknown field `stops`, expected one of"));
    assert!(with("weight", "wait").starts_with("unknown field `wait`, expected"));
    assert!(with("runs", "walks").starts_with("unknown variant `walks`, expected one of"));
    assert!(with("length", "len").starts_with("unexpected keys in table: len"));
}

proptest! {
    /// However long the disk takes for each, a player plays or stands still: nothing else.
    #[test]
    fn a_players_accounts_add_up(
        services in prop::collection::vec(1_u64..5_000_000, 1..400), outstanding in 1_u32..5,
        writes: bool,
    ) {
        let spec = Spec { reads_permille: if writes { 0 } else { 1000 }, ..spec(Pattern::Sequential) };
        let playback = Playback { bytes_per_second: 4_096_000, buffer: ms(100), outstanding, vbr_permille: 0 };
        let mut stream = stream(spec, Pace::Player(playback));
        let (mut now, mut bytes, mut misses) = (START, 0_u64, 0);
        let mut in_flight: Vec<IoOp> = Vec::new();
        for service in services {
            // All operations that are issued by then, then one completion.
            let done = now + Duration::from_nanos(service);
            while let Some(at) = stream.next_at().filter(|&at| at <= done) {
                now = now.max(at);
                if let Some(op) = stream.poll(now) {
                    in_flight.push(op);
                    prop_assert!(in_flight.len() <= outstanding as usize);
                }
                misses += std::iter::from_fn(|| stream.missed()).count() as u64;
            }
            now = now.max(done);
            if !in_flight.is_empty() {
                let op = in_flight.remove(0);
                stream.completed(now, &op);
                bytes += op.bytes;
                misses += std::iter::from_fn(|| stream.missed()).count() as u64;
                let moving = now.since(START).saturating_sub(stream.stalled());
                // Bytes by which the head can have come, and a buffer's worth.
                let head = moving.as_nanos() * 4096 / 1_000_000;
                prop_assert!(bytes <= head + 409_600 + 1);
                if !writes {
                    // All bytes that have played had been read.
                    prop_assert!(head.saturating_sub(409_600) <= bytes + 1);
                }
            }
        }
        prop_assert_eq!(misses, stream.misses());
    }

    /// A stream of one phase is its source, and two of one seed are the same.
    #[test]
    fn one_phase_changes_nothing(seed: u64, service in 1_u64..3_000_000, which in 0_usize..4) {
        let pace = [
            closed(3),
            Pace::Open(Arrivals::Poisson { mean: ms(1) }),
            Pace::Bursts { outstanding: 2, length: 7, idle_min: NO_TIME, idle_max: ms(3) },
            player(2),
        ][which];
        let spec = spec(Pattern::Random);
        let phases = || StreamSpec::Phases(vec![Phase::always(spec.clone(), pace)]);
        let new = || Stream::new(&phases(), seed, "load", START).expect("it has no fault");
        let source = Source::new(spec.clone(), pace, seed, "load", START).expect("it has no fault");
        let service = Duration::from_nanos(service);
        let one = serve(&mut source.into(), service, after(100));
        prop_assert_eq!(&one, &serve(&mut new(), service, after(100)));
        prop_assert_eq!(&one, &serve(&mut new(), service, after(100)));
    }
}

#[test]
fn errors_are_values() {
    let backwards =
        vec![Phase { stop: Some(NO_TIME), ..Phase::always(spec(Pattern::Random), closed(1)) }];
    let error = Phases::new(backwards, 1, "load", START).expect_err("it has no length");
    assert_eq!(error, PhaseError::Backwards { phase: 1, start: NO_TIME, stop: NO_TIME });
    assert_eq!(closed(0).check(), Err(SpecError::NothingOutstanding));
}
