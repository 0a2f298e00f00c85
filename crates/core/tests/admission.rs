//! Which guaranteed streams fit a device: cases reckoned by hand, and random sets against an oracle
//! that runs them, piece by piece, with the worst that the profile and the others allow.

use disktime_core::admission::{
    AdmissionError, Admitted, Demand, DemandError, Granted, LatencyError, Others, REQUEST, admit,
    largest_piece, latency_bound,
};
use disktime_core::{
    Access, Admission, Duration, Positioning, Profile, ProfileError, Rate, Share, Transfer, Zone,
};
use proptest::prelude::*;

const NS: u64 = 1_000_000;
const SIZE: u64 = 1 << 40;
/// A rate at which [`REQUEST`] takes 1 ms.
const FAST: u64 = REQUEST * 1_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn percent(percent: u32) -> Share {
    Share::from_percent(percent).expect("at most 100")
}

/// One zone of `rate`; positioning of `worst` ms, `mean` and `deviation` at any distance.
fn flat(rate: u64, worst: u64, mean: u64, deviation: u64) -> Profile {
    let transfer = Transfer { per_request: Duration::ZERO, bytes_per_second: rate };
    let at =
        Positioning { distance: SIZE, mean: ms(mean), deviation: ms(deviation), worst: ms(worst) };
    Profile {
        zones: vec![Zone { end: SIZE, read: transfer, write: transfer }],
        positioning: vec![at],
        destage: Duration::ZERO,
        prices: None,
    }
}

/// `requests` of [`REQUEST`] bytes in each cycle of that many ms.
fn demand(requests: u64, cycle: u64, admission: Admission) -> Demand {
    let bytes_per_second = requests * REQUEST * 1_000 / cycle;
    let rate = Rate { bytes_per_second, cycle: Some(ms(cycle)), admission, access: Access::Both };
    Demand { rate, extent: None }
}

fn firm(requests: u64, cycle: u64) -> Demand {
    demand(requests, cycle, Admission::Deterministic)
}

fn loose(requests: u64, cycle: u64, miss: Share) -> Demand {
    demand(requests, cycle, Admission::Statistical { miss })
}

fn alone() -> Others {
    Others::default()
}

#[test]
fn equal_cycles_are_the_papers_inequality() {
    // T >= N·L·R / (r·R - N·B) = 10·13 ms·30 MB/s / (24 - 10 MB/s) = 0.2786 s: between the cycles
    // whose batches of 1 MB/s are 544 and 545 sectors.
    let profile = flat(30_000_000, 13, 13, 0);
    let others = Others { headroom: percent(20), ..alone() };
    let set = |micros| {
        let rate = Rate {
            bytes_per_second: 1_000_000,
            cycle: Some(Duration::from_micros(micros)),
            admission: Admission::Deterministic,
            access: Access::Read,
        };
        [Demand { rate, extent: None }; 10]
    };
    let error = admit(&profile, &set(544 * 512), &others).unwrap_err();
    let AdmissionError::Stream {
        stream: 9,
        error: DemandError::Refused { bytes_per_second: 1_000_000, largest },
    } = error
    else {
        panic!("{error:?}");
    };
    // The tenth has what .8·278.528 ms - 10·13 ms - 9 transfers leave: .8·278.528 - 130 -
    // 9·9.284 = 9.263 ms, 277,890 bytes, 542 whole sectors.
    assert_eq!(largest * 544 / 1_000_000, 541, "{largest}");
    let admitted = admit(&profile, &set(545 * 512), &others).unwrap();
    // 13 ms and 279,040 bytes at 30 MB/s: 22.3013 ms in 279.04 ms.
    let granted = Granted {
        cycle: Duration::from_micros(279_040),
        bytes: 279_040,
        turn: admitted.streams[0].turn,
        allowance: Duration::from_nanos(22_301_333),
        share: Share::from_ppm(79_922).unwrap(),
    };
    assert_eq!(admitted.streams, [granted; 10]);
    assert_eq!(admitted.spare.ppm(), 1_000_000 - 200_000 - 799_220);
}

#[test]
fn a_shorter_cycle_pays_the_way_back_of_a_longer_one() {
    // 10 ms to position. 100 ms: 10 + 10 back + 20; 400 ms: 10 + 100, interrupted four times.
    let admitted = admit(&flat(FAST, 10, 10, 0), &[firm(20, 100), firm(100, 400)], &alone());
    let Admitted { streams, spare, slack } = admitted.unwrap();
    assert_eq!((streams[0].allowance, streams[0].share), (ms(30), percent(40)));
    assert_eq!((streams[1].allowance, streams[1].share.ppm()), (ms(10 + 100 + 40), 275_000));
    assert_eq!(spare.ppm(), 325_000);
    // Half of it at 100 ms: 100 - 16.25 - 40 - a piece of the other, 11; more later.
    assert_eq!((slack.rate.ppm(), slack.seek_back), (162_500, ms(10)));
    assert_eq!(slack.cap, Duration::from_micros(32_750));
}

#[test]
fn blocking_time_counts_once() {
    // 10 + 60 in 100 ms: 30 are left for others' burst and one piece of 10 + 8 ms.
    let profile = flat(FAST, 10, 10, 0);
    let others = |burst| Others {
        latency_burst: ms(burst),
        blocking_bytes: 8 * REQUEST,
        ..Others::default()
    };
    let admitted = admit(&profile, &[firm(60, 100)], &others(12)).unwrap();
    assert_eq!((admitted.slack.rate, admitted.slack.cap), (Share::ZERO, Duration::ZERO));
    let refused = admit(&profile, &[firm(60, 100)], &others(13)).unwrap_err();
    let largest = 59 * REQUEST * 10;
    let asked = 60 * REQUEST * 10;
    assert_eq!(refused, DemandError::Refused { bytes_per_second: asked, largest }.of(0));
    // A best-effort stream is not tested, but a request of it, 11 ms, can be in the way too.
    let set = [firm(80, 100), demand(900, 1_000, Admission::BestEffort)];
    assert!(admit(&profile, &set[..1], &alone()).is_ok());
    assert_eq!(refused_at(&admit(&profile, &set, &alone())), Some(1));
    let set = [firm(79, 100), demand(900, 1_000, Admission::BestEffort)];
    let admitted = admit(&profile, &set, &alone()).unwrap();
    assert_eq!(admitted.streams[1].share, Share::ZERO);
}

#[test]
fn nothing_promised_leaves_everything() {
    let others = Others { reserved: percent(30), headroom: percent(10), ..alone() };
    let admitted = admit(&flat(FAST, 10, 10, 0), &[], &others).unwrap();
    assert_eq!((admitted.spare, admitted.slack.rate), (percent(60), percent(30)));
    assert_eq!(admitted.slack.cap, Rate::CYCLE_MAX);
}

#[test]
fn a_statistical_promise_takes_means_and_some_deviations() {
    // Worst 30 ms, mean 10, deviation 4. Four streams of 10 requests in 100 ms: at worst 160 ms; on
    // average 80, and z·√(4·16 ms²) = z·8: 2% is z = 2.054, 16.4 ms; .5% is 2.576, 20.6 ms.
    let profile = flat(FAST, 30, 10, 4);
    let set = |ppm| [loose(10, 100, Share::from_ppm(ppm).unwrap()); 4];
    assert!(admit(&profile, &[firm(10, 100); 4], &alone()).is_err());
    let admitted = admit(&profile, &set(20_000), &alone()).unwrap();
    assert_eq!(admitted.streams[0].share, percent(20));
    assert_eq!(admitted.streams[0].allowance, ms(40), "its bytes at worst");
    assert_eq!(admitted.spare, percent(20));
    // 1% to 2% count as 1%: 2.327·8 = 18.6 ms.
    assert!(admit(&profile, &set(19_999), &alone()).is_ok());
    assert!(admit(&profile, &set(9_999), &alone()).is_err());
    // A firm promise among them makes all count at worst, but only from its cycle on.
    let mixed = [loose(10, 100, percent(2)), loose(10, 100, percent(2)), firm(10, 100)];
    assert!(admit(&profile, &mixed[..2], &alone()).is_ok());
    assert_eq!(refused_at(&admit(&profile, &mixed, &alone())), Some(2));
    let later = [loose(10, 50, percent(50)), firm(10, 1_000)];
    // At 50 ms: 10 + 10 on average, and a request of 30 + 1 in the way.
    assert_eq!(refused_at(&admit(&profile, &later, &alone())), Some(1));
    let later = |requests| [loose(1, 60, percent(50)), firm(requests, 120)];
    // In one turn: at 120 ms 2·31 + 30 + 18 at worst, at 60 ms 11 on average and 30 + 1 + 18 in the
    // way. One more is too much there, and in turns of 50 ms or less it pays twice for positioning.
    assert!(admit(&profile, &later(18), &alone()).is_ok());
    assert_eq!(refused_at(&admit(&profile, &later(28), &alone())), Some(1));
    let later = [loose(10, 100, percent(50)), firm(10, 500)];
    // At 500 ms: 5·70 + 40 = 390 at worst; at 100 ms on average 30, and 31 in the way.
    assert!(admit(&profile, &later, &alone()).is_ok());
}

fn refused_at(answer: &Result<Admitted, AdmissionError>) -> Option<usize> {
    match answer {
        Err(AdmissionError::Stream { stream, error: DemandError::Refused { .. } }) => Some(*stream),
        _ => None,
    }
}

#[test]
fn a_statistical_promise_is_no_harder_than_a_firm_one() {
    // The normal distribution's tail is beyond the worst: 30 + 4.754·29 ms.
    let profile = flat(FAST, 30, 30, 29);
    let one = Share::from_ppm(1).unwrap();
    assert!(admit(&profile, &[loose(60, 100, one)], &alone()).is_ok());
}

#[test]
fn a_cycle_is_chosen_for_latency_until_positioning_is_a_tenth() {
    let profile = flat(FAST, 10, 5, 1);
    let cycle = |requests_per_second, admission| {
        let mut demand = demand(requests_per_second, 1_000, admission);
        demand.rate.cycle = None;
        admit(&profile, &[demand], &alone()).unwrap().streams[0].cycle
    };
    // 90 ms of transfer for 10 of positioning: 360 requests in a second at 250 ms.
    assert_eq!(cycle(360, Admission::Deterministic), ms(250));
    assert_eq!(cycle(359, Admission::Deterministic), ms(500));
    assert_eq!(cycle(90, Admission::Deterministic), ms(1_000));
    assert_eq!(cycle(45, Admission::Deterministic), ms(2_000));
    assert_eq!(cycle(1, Admission::Deterministic), ms(4_000));
    let half = Admission::Statistical { miss: percent(50) };
    assert_eq!(cycle(180, half), ms(250), "by its mean");
}

#[test]
fn zones_and_distances_of_the_extent_count() {
    let transfer = |rate| Transfer { per_request: Duration::ZERO, bytes_per_second: rate };
    let at = |distance, worst| Positioning {
        distance,
        mean: ms(1),
        deviation: Duration::ZERO,
        worst: ms(worst),
    };
    let zone = |end, rate| Zone { end, read: transfer(rate), write: transfer(rate / 2) };
    let profile = Profile {
        zones: vec![zone(SIZE / 2, FAST), zone(SIZE, FAST / 2)],
        positioning: vec![at(SIZE / 2, 10), at(SIZE * 3 / 4, 30), at(SIZE, 20)],
        destage: Duration::ZERO,
        prices: None,
    };
    let allowance = |extent, access| {
        let mut demand = firm(10, 1_000);
        (demand.extent, demand.rate.access) = (extent, access);
        admit(&profile, &[demand], &alone()).unwrap().streams[0].allowance
    };
    let middle = Some((SIZE / 2 - (1 << 30), SIZE / 2));
    assert_eq!(allowance(middle, Access::Read), ms(30 + 10), "half and a bit is not half");
    assert_eq!(
        allowance(Some((0, SIZE / 2)), Access::Read),
        ms(30 + 10),
        "the far side takes less"
    );
    assert_eq!(allowance(None, Access::Read), ms(30 + 20));
    assert_eq!(allowance(None, Access::Both), ms(30 + 40));
}

#[test]
fn bad_input_is_named_with_what_to_do() {
    let profile = flat(FAST, 10, 10, 0);
    let text = |demand: Demand| {
        let error = admit(&profile, &[demand], &alone()).unwrap_err();
        error.renamed(|place| ["stream a"][place]).to_string()
    };
    let good = firm(10, 1_000);
    let with = |change: fn(&mut Demand)| {
        let mut demand = good;
        change(&mut demand);
        text(demand)
    };
    let cases = [
        (with(|it| it.rate.bytes_per_second = 0), "rate = 0 B/s: it must be at least 1 B/s"),
        (with(|it| it.rate.cycle = Some(Duration::ZERO)), "50ms (one worst seek and request, at"),
        (with(|it| it.rate.cycle = Some(ms(49))), "cycle = 49ms: it must be 50ms"),
        (with(|it| it.rate.cycle = Some(ms(60_001))), "to 60s: choose one in this range"),
        (with(|it| it.rate.bytes_per_second = FAST + 1), "at most 131072000 B/s: lower the rate"),
        (with(|it| it.extent = Some((5, 5))), "extent = 5 to 5: it must hold at least a byte"),
        (with(|it| it.extent = Some((0, SIZE + 1))), "within the device's 1099511627776 bytes"),
        (text(loose(1, 100, Share::ZERO)), "miss = 0%: it must be above 0% and below 100%"),
        (text(loose(1, 100, Share::FULL)), "ask for deterministic or best-effort"),
        (text(firm(95, 100)), "rate = 124518400 B/s: 1 to 117964800 B/s fit beside the others"),
    ];
    for (text, part) in cases {
        assert!(text.starts_with("stream a: ") && text.contains(part), "{text}\n{part}");
    }
    let renamed = admit(&profile, &[firm(95, 100)], &alone()).unwrap_err().renamed(|_| "stream 7");
    assert!(renamed.to_string().starts_with("stream 7: rate = "), "{renamed}");
    let slow = admit(&flat(FAST, 80, 10, 0), &[firm(1, 60)], &alone()).unwrap_err();
    assert_eq!(slow, DemandError::Cycle { cycle: ms(60), min: ms(81) }.of(0));
    let slow = admit(&flat(FAST, 60_000, 10, 0), &[good], &alone()).unwrap_err().to_string();
    assert!(slow.contains("one request can take 60.001s here"), "{slow}");
    let others = Others { reserved: percent(60), headroom: percent(41), ..alone() };
    let full = admit(&profile, &[], &others).unwrap_err().to_string();
    assert!(full.starts_with("reservations of 60% and headroom of 41%"), "{full}");
    let others = Others { reserved: percent(100), ..alone() };
    let none = admit(&profile, &[good], &others).unwrap_err().to_string();
    assert!(none.contains("no rate fits beside the others"), "{none}");
    let empty = Profile { zones: Vec::new(), ..profile };
    let error = admit(&empty, &[], &alone()).unwrap_err();
    assert_eq!(error, AdmissionError::Profile(ProfileError::Empty("zones")));
    assert!(error.to_string().starts_with("the device's profile: zones is empty"), "{error}");
}

#[test]
fn a_latency_bound_and_the_piece_that_keeps_it() {
    // Two pieces of 10 + 8 ms ahead, then 10 ms and half a request's .5 ms of its own.
    let profile = flat(FAST, 10, 5, 1);
    let own = REQUEST / 2;
    assert_eq!(latency_bound(&profile, 8 * REQUEST, own, 2), Duration::from_micros(46_500));
    assert_eq!(latency_bound(&profile, 8 * REQUEST, own, 0), Duration::from_micros(10_500));
    let piece = |bound| largest_piece(&profile, Duration::from_micros(bound), own, 2);
    assert_eq!(piece(46_500), Ok(8 * REQUEST));
    assert_eq!(piece(46_499), Ok(4 * REQUEST));
    assert_eq!(piece(1_000_000), Ok(32 * REQUEST), "4 MiB");
    assert_eq!(piece(32_500), Ok(REQUEST), "128 KiB");
    let error = LatencyError {
        bound: Duration::from_micros(32_499),
        smallest: Duration::from_micros(32_500),
    };
    assert_eq!(piece(32_499), Err(error));
    assert!(error.to_string().starts_with("latency = 32.499ms: it must be at least 32.5ms"));
}

/// A read that is behind what a write cache brings to the medium: 10 + 8 ms and 25 of the cache.
#[test]
fn a_piece_in_the_way_may_be_behind_what_a_cache_writes_out() {
    let profile = Profile { destage: ms(25), ..flat(FAST, 10, 5, 0) };
    let others = Others { blocking_bytes: 8 * REQUEST, ..alone() };
    let reads = |requests| {
        let mut demand = firm(requests, 100);
        demand.rate.access = Access::Read;
        admit(&profile, &[demand], &others).is_ok()
    };
    assert!(reads(100 - 10 - 43) && !reads(100 - 10 - 42));
}

/// One-sided quantiles of the normal distribution, in millionths, from a textbook's table.
#[test]
fn a_statistical_promise_takes_the_quantile_of_its_probability() {
    // Worst 30 ms, mean 10, deviation 4. Four streams of 5 requests in 100 ms take 60 on average, and z·8.
    let profile = flat(FAST, 30, 10, 4);
    for (ppm, z) in [
        (500_000, 0),
        (200_000, 841_621),
        (100_000, 1_281_552),
        (50_000, 1_644_854),
        (20_000, 2_053_749),
        (10_000, 2_326_348),
        (5_000, 2_575_829),
        (1_000, 3_090_232),
        (100, 3_719_016),
        (10, 4_264_891),
        (1, 4_753_424),
    ] {
        let set = [loose(5, 100, Share::from_ppm(ppm).unwrap()); 4];
        let fits = |micros| {
            let others = Others { latency_burst: Duration::from_micros(micros), ..alone() };
            admit(&profile, &set, &others).is_ok()
        };
        let left = 40_000 - z * 8 / 1_000;
        assert!(fits(left - 10) && !fits(left + 10), "{ppm} of a million");
    }
}

/// A bound that is rounded down is none.
#[test]
fn a_deviation_is_rounded_up_to_the_next_nanosecond() {
    // Two deviations of 8 ns: 4.7534·√128 = 53.8 ns beside 2·(10 + 20) ms.
    let mut profile = flat(FAST, 30, 10, 0);
    profile.positioning[0].deviation = Duration::from_nanos(8);
    let set = [loose(20, 100, Share::from_ppm(1).unwrap()); 2];
    let fits = |spare: u64| {
        let latency_burst = Duration::from_nanos(40_000_000 - spare);
        admit(&profile, &set, &Others { latency_burst, ..alone() }).is_ok()
    };
    assert!(!fits(53) && fits(60));
}

/// A test that looked at each end of a cycle would take as long as somebody likes who chooses the cycles.
/// From the two thousandth on a bound decides that refuses some sets that fit.
#[test]
fn two_thousand_ends_of_cycles_are_looked_at_one_by_one() {
    // 20 + 10 of 50 ms, and 23,994 ms of 60 s: 1,200 ends to the one at which all fit to 6 ms.
    let few = [firm(10, 50), firm(23_984, 60_000)];
    assert!(admit(&flat(FAST, 10, 10, 0), &few, &alone()).is_ok());
    // 4 + 10 of 50 and of 51 ms, and 26,727 ms of 60 s: 2,376 ends to the one at which all fit to 9 ms.
    let many = [firm(10, 50), firm(10, 51), firm(26_725, 60_000)];
    assert_eq!(refused_at(&admit(&flat(FAST, 2, 2, 0), &many, &alone())), Some(2));
}

/// On a device with a write cache a stream that writes flushes after each of its turns.
#[test]
fn writers_have_turns_of_50_to_800_ms() {
    let profile = Profile { destage: ms(25), ..flat(FAST, 10, 5, 0) };
    let turns = |set: &[Demand]| -> Vec<_> {
        let admitted = admit(&profile, set, &alone()).expect("they fit");
        admitted.streams.iter().map(|granted| granted.turn / REQUEST).collect()
    };
    assert_eq!(turns(&[firm(1_500, 2_000)]), [800 - 10], "the fewest flushes");
    // 30 ms of 100, with a turn of 20 + 1 + 40 ms in the way.
    assert_eq!(turns(&[firm(10, 100), firm(100, 1_000)]), [50 - 10; 2]);
}

#[test]
fn a_turn_that_is_shorter_than_a_positioning_moves_one_request() {
    // 100 ms to position and 100 to flush, and one request moves in the shortest turn, of 50 ms.
    let profile = Profile { destage: ms(25), ..flat(FAST, 100, 100, 0) };
    let admitted = admit(&profile, &[firm(1, 1_000)], &alone()).expect("it fits");
    assert_eq!(admitted.streams[0].turn, REQUEST);
}

/// A device that runs what was admitted, piece by piece, as badly as the profile and the others'
/// bounds allow: it knows deadlines and pieces, no formula of admission.
struct Oracle<'a> {
    profile: &'a Profile,
    demands: &'a [Demand],
    others: Others,
    jobs: Vec<Job>,
    now: u64,
    /// The stream of the last piece; its next one continues it.
    last: Option<usize>,
    /// The stream that has the turn, and for how many bytes more.
    turn: Option<(usize, u64)>,
    /// Time that may go ahead: others' reservations, and slack.
    reserved: Register,
    slack: Register,
    seed: u64,
}

#[derive(Clone, Copy)]
struct Job {
    cycle: u64,
    batch: u64,
    turn: u64,
    seek: u64,
    /// Time of emptying the write cache beside the transfer, if it writes into one.
    flush: u64,
    /// Bytes left of the current cycle; none before the first.
    left: u64,
    begun: bool,
    deadline: u64,
    /// Whether a miss matters.
    firm: bool,
    /// Best effort: one of its requests, when nothing else waits.
    idler: Option<u64>,
}

/// Lets `cap + ppm·span` pass in any span; in ns and millionths of them.
struct Register {
    ppm: u128,
    cap: u128,
    level: u128,
}

impl Register {
    fn new(rate: Share, cap: Duration) -> Self {
        let cap = u128::from(cap.as_nanos()) * 1_000_000;
        Self { ppm: rate.ppm().into(), cap, level: cap }
    }

    fn pass(&mut self, nanos: u64) -> bool {
        let debit = u128::from(nanos) * 1_000_000;
        let passes = self.level >= debit && nanos > 0;
        self.level -= if passes { debit } else { 0 };
        passes
    }

    fn fill(&mut self, nanos: u64) {
        self.level = self.cap.min(self.level + self.ppm * u128::from(nanos));
    }
}

impl<'a> Oracle<'a> {
    fn new(
        profile: &'a Profile,
        demands: &'a [Demand],
        others: Others,
        admitted: &Admitted,
        seed: u64,
    ) -> Self {
        let job = |(demand, granted): (&Demand, &Granted)| {
            let (start, end) = demand.extent.unwrap_or((0, SIZE));
            let seek = profile.positioning(end.max(SIZE - start)).worst.as_nanos();
            let Rate { admission, access, .. } = demand.rate;
            let request = profile.transfer((start, end), access).time(REQUEST, REQUEST);
            let cached = profile.destage > Duration::ZERO && access != Access::Read;
            let near = profile.positioning_within(granted.bytes).worst.as_nanos();
            let flush = if cached { near } else { 0 };
            let idler = seek + request.as_nanos() + flush;
            let idler = (admission == Admission::BestEffort).then_some(idler);
            let batch = if idler.is_some() { 0 } else { granted.bytes };
            let firm = admission == Admission::Deterministic;
            let cycle = granted.cycle.as_nanos();
            let turn = granted.turn;
            Job { cycle, batch, turn, seek, flush, left: 0, begun: false, deadline: 0, firm, idler }
        };
        let jobs = demands.iter().zip(&admitted.streams).map(job).collect();
        let reserved = Register::new(others.reserved, others.latency_burst);
        let slack = Register::new(admitted.slack.rate, admitted.slack.cap);
        Self {
            profile,
            demands,
            others,
            jobs,
            now: 0,
            last: None,
            turn: None,
            reserved,
            slack,
            seed,
        }
    }

    /// The worst seek of all, and that many bytes.
    fn piece(&self, bytes: u64) -> u64 {
        let seek = self
            .profile
            .positioning
            .iter()
            .map(|at| at.worst.as_nanos())
            .max()
            .expect("one at least");
        let seek = seek + self.profile.destage.as_nanos();
        seek + self.profile.transfer((0, SIZE), Access::Both).time(bytes, bytes).as_nanos()
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) % below
    }

    fn pass_time(&mut self, nanos: u64) {
        self.now += nanos;
        self.reserved.fill(nanos);
        self.slack.fill(nanos);
    }

    /// Which stream misses a cycle within that time, if one does.
    fn missed(&mut self, until: u64) -> Option<usize> {
        while self.now < until {
            let mut left_over = 0;
            for (stream, job) in self.jobs.iter_mut().enumerate() {
                if self.now < job.deadline {
                    continue;
                }
                if job.left > 0 && job.firm {
                    return Some(stream);
                }
                // A turn ends with its cycle; one that writes, with one more piece and the flush.
                if self.turn.take_if(|(of, _)| *of == stream).is_some() && job.flush > 0 {
                    let Demand { rate, extent } = self.demands[stream];
                    let zone = self.profile.transfer(extent.unwrap_or((0, SIZE)), rate.access);
                    let bytes = job.left.min(REQUEST);
                    left_over += zone.time(bytes, REQUEST).as_nanos() + job.flush;
                }
                // A cycle that begins while a piece is at the device is seen at its end.
                job.deadline = (self.now / job.cycle + 1) * job.cycle;
                (job.left, job.begun) = (job.batch, false);
            }
            self.pass_time(left_over);
            let done = self.step();
            let late = |stream: &usize| {
                let job = &self.jobs[*stream];
                job.firm && self.now > job.deadline
            };
            let waits = (0..self.jobs.len()).filter(|stream| self.jobs[*stream].left > 0);
            if let Some(late) = done.into_iter().chain(waits).find(late) {
                return Some(late);
            }
        }
        None
    }

    /// One piece, or idleness until a cycle begins. Answers the stream whose piece it was.
    fn step(&mut self) -> Option<usize> {
        let waits = |(_, job): &(usize, &Job)| job.left > 0;
        let first = self.jobs.iter().enumerate().filter(waits);
        let first = first.min_by_key(|(stream, job)| (job.deadline, *stream)).map(|(at, _)| at);
        let turn = self.turn.filter(|(stream, left)| *left > 0 && self.jobs[*stream].left > 0);
        let first = turn.map(|(stream, _)| stream).or(first);
        // Others' time holds the seek back: what it interrupts goes on as if it had not been.
        let chunk = 1 + self.random(NS);
        if self.random(2) == 0 && self.reserved.pass(chunk) {
            self.pass_time(chunk);
            return None;
        }
        let Some(stream) = first else {
            let next = self.jobs.iter().map(|job| job.deadline).min().unwrap_or(u64::MAX);
            let idle = next - self.now;
            // Sometimes best effort begins just before a cycle does.
            let others = self.others.blocking_bytes;
            let others = (others > 0).then(|| self.piece(others));
            let longest = self.jobs.iter().filter_map(|job| job.idler).chain(others).max();
            if let (Some(piece), 1..) = (longest, self.random(4)) {
                let wait = if self.random(2) == 0 { idle - 1 } else { 0 };
                self.pass_time(wait);
                self.last = None;
                self.pass_time(piece);
            } else {
                self.pass_time(idle);
            }
            return None;
        };
        let bytes = 1 + self.random(REQUEST * 4);
        let ahead = self.piece(bytes);
        let back = self.jobs.iter().map(|job| job.seek + job.flush).max().expect("one waits");
        if self.random(2) == 0 && self.slack.pass(ahead + back) {
            self.last = None;
            self.pass_time(ahead);
            return None;
        }
        let Demand { rate, extent } = self.demands[stream];
        let zone = self.profile.transfer(extent.unwrap_or((0, SIZE)), rate.access);
        let job = &mut self.jobs[stream];
        let bytes = job.left.min(REQUEST);
        let seek = if job.begun && self.last == Some(stream) { 0 } else { job.seek };
        job.left -= bytes;
        let kept = self.turn.filter(|(of, left)| *of == stream && *left > 0);
        let left = kept.map_or(job.turn, |(_, left)| left);
        let left = left.saturating_sub(bytes);
        let ends = left == 0 || job.left == 0;
        self.turn = (!ends).then_some((stream, left));
        let flush = if ends { job.flush } else { 0 };
        job.begun = true;
        self.last = Some(stream);
        self.pass_time(seek + zone.time(bytes, REQUEST).as_nanos() + flush);
        Some(stream)
    }
}

#[test]
fn the_oracle_sees_a_set_that_does_not_fit() {
    let profile = flat(FAST, 10, 10, 0);
    // Shares add up to .99 without the ways back, which 100 ms cause four times: they don't fit.
    let demands = [firm(40, 100), firm(186, 400)];
    assert_eq!(refused_at(&admit(&profile, &demands, &alone())), Some(1));
    let each = |demand: &Demand| admit(&profile, &[*demand], &alone()).unwrap().streams[0];
    let mut both = admit(&profile, &[], &alone()).unwrap();
    both.slack.cap = Duration::ZERO;
    both.slack.rate = Share::ZERO;
    both.streams = demands.iter().map(each).collect();
    assert_eq!(Oracle::new(&profile, &demands, alone(), &both, 1).missed(800 * NS), Some(1));
    // And a piece that is in the way: 10 + 80 ms in 100, and 11 + 1.
    let demands = [firm(80, 100)];
    let others = Others { blocking_bytes: 2 * REQUEST, ..alone() };
    assert_eq!(refused_at(&admit(&profile, &demands, &others)), Some(0));
    let mut admitted = admit(&profile, &demands, &alone()).unwrap();
    admitted.slack.cap = Duration::ZERO;
    assert_eq!(Oracle::new(&profile, &demands, others, &admitted, 1).missed(9_000 * NS), Some(0));
    // And slack that is too much.
    admitted.slack.cap = ms(40);
    assert_eq!(Oracle::new(&profile, &demands, alone(), &admitted, 1).missed(9_000 * NS), Some(0));
    // And a request of a longer cycle: 0 to 57 ms, 57 to 66 ms, 66 to 123 ms.
    let profile = flat(FAST / 8, 1, 1, 0);
    let demands = [firm(7, 60), firm(1, 600)];
    assert_eq!(refused_at(&admit(&profile, &demands, &alone())), Some(1));
    let each = |demand: &Demand| admit(&profile, &[*demand], &alone()).unwrap().streams[0];
    both.streams = demands.iter().map(each).collect();
    assert_eq!(Oracle::new(&profile, &demands, alone(), &both, 1).missed(9_000 * NS), Some(0));
}

#[test]
fn the_oracle_sees_a_flush_that_was_not_reckoned_with() {
    // 15 + 80 ms in 100 fit, and with 15 ms that a flush may take they don't.
    let through = flat(FAST, 15, 15, 0);
    let cached = Profile { destage: ms(20), ..through.clone() };
    let demands = [firm(80, 100)];
    assert_eq!(refused_at(&admit(&cached, &demands, &alone())), Some(0));
    let mut admitted = admit(&through, &demands, &alone()).unwrap();
    admitted.slack.cap = Duration::ZERO;
    assert_eq!(Oracle::new(&through, &demands, alone(), &admitted, 1).missed(9_000 * NS), None);
    assert_eq!(Oracle::new(&cached, &demands, alone(), &admitted, 1).missed(9_000 * NS), Some(0));
    // A reader leaves nothing in a cache.
    let reader = [Demand { rate: Rate { access: Access::Read, ..demands[0].rate }, ..demands[0] }];
    assert!(admit(&cached, &reader, &alone()).is_ok());
}

#[test]
fn a_writer_pays_for_emptying_the_cache() {
    // 10 ms to position and 10 to come back to what is left of the batch: 20 + 20 of transfer. Ahead
    // of a bounded request a piece is flushed, and the request itself.
    let profile = Profile { destage: ms(25), ..flat(FAST, 10, 5, 0) };
    let admitted = admit(&profile, &[firm(20, 100)], &alone()).unwrap();
    assert_eq!((admitted.streams[0].allowance, admitted.slack.seek_back), (ms(40), ms(20)));
    assert_eq!(latency_bound(&profile, 8 * REQUEST, REQUEST, 1), ms(10 + 10 + 8 + 10 + 10 + 1));
    // Beside a latency bound no flush is longer than a piece: 20 requests in turns of 5.
    let others = Others { unflushed_bytes: Some(5 * REQUEST), ..alone() };
    let admitted = admit(&profile, &[firm(20, 200)], &others).unwrap();
    let Granted { turn, allowance, .. } = admitted.streams[0];
    assert_eq!((turn, allowance), (5 * REQUEST, ms(4 * 20 + 20)));
}

const MENU: [u64; 8] = [50, 60, 100, 120, 150, 200, 300, 600];

prop_compose! {
    fn profiles()(
        rate in FAST / 4..FAST * 4, per_request in 0u64..500_000, near in 1u64..8, far in 0u64..12,
        mean in 1u64..8, deviation in 0u64..6, destage in 0u64..30, cache in any::<bool>(),
    ) -> Profile {
        let mut profile = flat(rate, near + far, mean.min(near), deviation);
        profile.zones[0].read.per_request = Duration::from_nanos(per_request);
        profile.zones[0].write.bytes_per_second /= 2;
        let half = Positioning { distance: SIZE / 2, worst: ms(near), ..profile.positioning[0] };
        profile.positioning.insert(0, half);
        profile.destage = if cache { ms(destage) } else { Duration::ZERO };
        profile
    }
}

fn kinds() -> impl Strategy<Value = Admission> {
    prop_oneof![
        Just(Admission::Deterministic),
        (1u32..1_000_000).prop_map(|ppm| Admission::Statistical {
            miss: Share::from_ppm(ppm).expect("below the whole")
        }),
        Just(Admission::BestEffort),
    ]
}

prop_compose! {
    fn demands(admission: BoxedStrategy<Admission>)(
        bytes_per_second in 1u64..80_000_000, cycle in prop::sample::select(&MENU[..]),
        admission in admission, central in any::<bool>(),
        access in prop::sample::select(&[Access::Both, Access::Read, Access::Write][..]),
    ) -> Demand {
        let rate = Rate { bytes_per_second, cycle: Some(ms(cycle)), admission, access };
        Demand { rate, extent: central.then_some((SIZE / 2 - 1, SIZE / 2)) }
    }
}

prop_compose! {
    fn others()(
        reserved in 0u32..30, headroom in 0u32..20, burst in 0u64..20, blocking in 0u64..4,
        unflushed in 0u64..4,
    ) -> Others {
        Others {
            reserved: percent(reserved),
            headroom: percent(headroom),
            latency_burst: ms(burst),
            blocking_bytes: blocking * REQUEST,
            unflushed_bytes: (unflushed > 0).then_some(unflushed * REQUEST),
        }
    }
}

/// Gives every stream that is refused the largest rate that fits, or none: a set at the brink.
fn shrunk(profile: &Profile, mut demands: Vec<Demand>, others: &Others) -> Vec<Demand> {
    loop {
        let Err(error) = admit(profile, &demands, others) else { return demands };
        let AdmissionError::Stream { stream, error } = error else { panic!("{error}") };
        let max = match error {
            DemandError::Refused { largest, .. } => largest,
            DemandError::AboveZone { max, .. } => max,
            error => panic!("{error}"),
        };
        if max > 0 {
            demands[stream].rate.bytes_per_second = max;
        } else {
            demands.remove(stream);
        }
    }
}

/// Runs a set at the brink twice.
fn kept(
    profile: &Profile,
    demands: Vec<Demand>,
    others: Others,
    seed: u64,
) -> Result<(), TestCaseError> {
    let demands = shrunk(profile, demands, &others);
    prop_assume!(!demands.is_empty());
    let admitted = admit(profile, &demands, &others).expect("shrunk until it was");
    for seed in [seed, !seed] {
        let mut oracle = Oracle::new(profile, &demands, others, &admitted, seed);
        prop_assert_eq!(oracle.missed(2_400 * NS), None, "{:?}", admitted);
    }
    Ok(())
}

/// A turn once went on into its stream's next cycle: this reader misses its cycle, and then went before the
/// firm stream, whose deadline is earlier.
#[test]
fn a_turn_of_a_stream_that_misses_its_cycle_ends_with_it() {
    let mut profile = flat(357_710_179, 15, 3, 0);
    profile.zones[0].read.per_request = Duration::from_nanos(269_075);
    profile.zones[0].write.bytes_per_second /= 2;
    profile
        .positioning
        .insert(0, Positioning { distance: SIZE / 2, worst: ms(7), ..profile.positioning[0] });
    profile.destage = ms(18);
    let others = Others { latency_burst: ms(9), blocking_bytes: 3 * REQUEST, ..Others::default() };
    let demand = |bytes_per_second, cycle, admission, access| {
        let rate = Rate { bytes_per_second, cycle: Some(ms(cycle)), admission, access };
        Demand { rate, extent: None }
    };
    let miss = Share::from_ppm(1).expect("below the whole");
    let demands = vec![
        demand(32_768_001, 60, Admission::Statistical { miss }, Access::Read),
        demand(1, 100, Admission::Deterministic, Access::Both),
    ];
    kept(&profile, demands, others, 237_320_772).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn firm_promises_are_kept(
        profile in profiles(), others in others(), seed in any::<u64>(),
        demands in prop::collection::vec(demands(Just(Admission::Deterministic).boxed()), 1..6),
    ) {
        kept(&profile, demands, others, seed)?;
    }

    /// Positioning always takes its worst, so statistical streams miss cycles: firm ones must not.
    #[test]
    fn firm_promises_are_kept_among_other_promises(
        profile in profiles(), others in others(), seed in any::<u64>(),
        demands in prop::collection::vec(demands(kinds().boxed()), 2..6),
    ) {
        kept(&profile, demands, others, seed)?;
    }

    #[test]
    fn the_largest_rate_is_the_largest(
        profile in profiles(), others in others(), more in 1u64..1_000_000_000,
        demands in prop::collection::vec(demands(kinds().boxed()), 1..6), which in any::<usize>(),
    ) {
        let mut demands = demands;
        if let Err(AdmissionError::Stream { stream, error }) = admit(&profile, &demands, &others)
            && let DemandError::Refused { bytes_per_second, largest } = error
        {
            prop_assert!(largest < bytes_per_second);
            let above = largest + 1 + largest / 100;
            demands[stream].rate.bytes_per_second = above.min(bytes_per_second);
            prop_assert!(admit(&profile, &demands, &others).is_err());
            if largest > 0 {
                demands[stream].rate.bytes_per_second = largest;
                prop_assert!(admit(&profile, &demands, &others).is_ok());
            }
        }
        // A raised rate never fits where the lower one did not.
        let fits = admit(&profile, &demands, &others).is_ok();
        let which = which % demands.len();
        demands[which].rate.bytes_per_second += more;
        prop_assert!(fits || admit(&profile, &demands, &others).is_err());
    }

    #[test]
    fn shares_add_up(
        profile in profiles(), others in others(),
        demands in prop::collection::vec(demands(kinds().boxed()), 0..6),
    ) {
        let demands = shrunk(&profile, demands, &others);
        let Admitted { streams, spare, slack } = admit(&profile, &demands, &others).unwrap();
        let granted: u32 = streams.iter().map(|granted| granted.share.ppm()).sum();
        let all = granted + others.reserved.ppm() + others.headroom.ppm() + spare.ppm();
        prop_assert!(all <= Share::PARTS && slack.rate.ppm() <= spare.ppm() / 2);
        for granted in streams {
            prop_assert!(granted.allowance > Duration::ZERO);
        }
    }

    #[test]
    fn no_number_is_too_large(
        numbers in prop::collection::vec(
            prop_oneof![any::<u64>(), 0u64..1 << 40, Just(u64::MAX)], 16,
        ),
        admission in kinds(), parts in 0u32..=1_000_000,
    ) {
        let nanos = |at: usize| Duration::from_nanos(numbers[at]);
        let transfer = |at: usize| {
            let bytes_per_second = numbers[at + 1].max(1);
            Transfer { per_request: nanos(at), bytes_per_second }
        };
        let zone = Zone { end: numbers[0].max(1), read: transfer(1), write: transfer(3) };
        let worst = nanos(5);
        let (distance, mean, deviation) = (numbers[6], nanos(7).min(worst), nanos(8));
        let at = Positioning { distance, mean, deviation, worst };
        let (zones, positioning) = (vec![zone], vec![at]);
        let profile = Profile { zones, positioning, destage: nanos(15), prices: None };
        let rate = |at: usize, cycle| {
            Rate { bytes_per_second: numbers[at], cycle, admission, access: Access::Both }
        };
        let demands = [
            Demand { rate: rate(9, None), extent: None },
            Demand { rate: rate(10, Some(nanos(11))), extent: Some((numbers[12], numbers[0])) },
            Demand { rate: rate(13, Some(ms(numbers[11] % 60_000))), extent: None },
        ];
        let share = Share::from_ppm(parts).unwrap();
        let others = Others {
            reserved: share,
            headroom: Share::ZERO,
            latency_burst: nanos(14),
            blocking_bytes: numbers[15],
            unflushed_bytes: Some(numbers[14]),
        };
        for set in [&demands[..], &demands[..1], &demands[1..2], &demands[2..]] {
            let _ = admit(&profile, set, &others).map_err(|error| error.to_string());
        }
        let _ = latency_bound(&profile, numbers[14], numbers[15], u32::MAX);
        let piece = largest_piece(&profile, nanos(9), numbers[15], u32::MAX);
        let _ = piece.map_err(|error| error.to_string());
    }
}

#[test]
fn a_mean_is_over_where_the_head_may_come_from() {
    // Up to half of the device takes 4 ms, beyond it 8 ms, always.
    let size = 1 << 30;
    let way = |distance, millis| {
        let time = Duration::from_millis(millis);
        Positioning { distance, mean: time, deviation: Duration::ZERO, worst: time }
    };
    let profile = Profile {
        positioning: vec![way(size / 2, 4), way(size, 8)],
        destage: Duration::ZERO,
        prices: None,
        zones: vec![Zone { end: size, ..flat(FAST, 1, 1, 0).zones[0] }],
    };
    let at = |start, end| profile.positioning_to((start, end));
    // Half of the device is near to its end; nothing is far from its middle.
    let (edge, middle) = (at(0, 2), at(size / 2 - 1, size / 2 + 1));
    assert_eq!((edge.mean, edge.worst), (Duration::from_millis(6), Duration::from_millis(8)));
    assert_eq!(edge.deviation, Duration::from_millis(2));
    assert_eq!((middle.mean, middle.deviation), (Duration::from_millis(4), Duration::ZERO));
}

/// As a part of the device the way to an extent is known to one thirty-second.
#[test]
fn a_mean_is_off_by_a_thirty_second_of_what_ways_differ_by_at_most() {
    let size = 1 << 30;
    let way = |distance, micros| {
        let time = Duration::from_micros(micros);
        Positioning { distance, mean: time, deviation: Duration::ZERO, worst: time }
    };
    for near in 1..64 {
        // Nothing to so many 64ths of the device, and 6.4 ms beyond.
        let positioning = vec![way(size / 64 * near, 0), way(size, 6_400)];
        let profile = Profile { positioning, ..flat(FAST, 1, 1, 0) };
        let profile = Profile { zones: vec![Zone { end: size, ..profile.zones[0] }], ..profile };
        let mean = profile.positioning_to((0, 2)).mean.as_nanos() / 1_000;
        let truth = 100 * (64 - near);
        assert!(mean.abs_diff(truth) <= 200, "{mean} us, not {truth}");
    }
}
