//! The schedulers that our own are measured against: each reproduces an example or a number of its
//! source first, so that what is measured is what was published.

mod jobs;
#[path = "../../core/tests/rig/mod.rs"]
mod rig;

use std::collections::VecDeque;

use disktime_core::{
    Change, Config, Contract, Dispatch, Duration, Engine, Instant, Kind, Request, RequestId,
    StreamId, StreamSpec,
};
use jobs::{Job, ids, plain, serve, streams, under};
use rig::{MS, Rig, SECOND, at, contract, read};

fn weight(weight: u32) -> Contract {
    Contract { weight, ..contract(0, 100) }
}

/// A stream's client: so many requests outstanding, each the next in sequence or far from the last,
/// and a think time.
#[derive(Clone, Copy)]
struct Client {
    outstanding: u32,
    bytes: u64,
    sequential: bool,
    thinks: u64,
}

const SEQUENTIAL: Client = Client { outstanding: 1, bytes: 64 << 10, sequential: true, thinks: 0 };
const RANDOM: Client = Client { outstanding: 1, bytes: 4 << 10, sequential: false, thinks: 0 };

/// A piece that was served.
#[derive(Clone, Copy, Debug)]
struct Served {
    stream: u32,
    began: u64,
    ended: u64,
    bytes: u64,
}

/// Requests of one stream.
const IDS: u32 = 64;

/// Serves these clients, one piece at a time, from `now` to `end`. The time of a piece depends on
/// whether the head must move for it.
fn share(
    rig: &mut Rig,
    clients: &[Client],
    mut now: u64,
    end: u64,
    takes: impl Fn(&Client, bool) -> u64,
) -> Vec<Served> {
    // When each request may be asked again; none while it is out.
    let slots = |client: &Client| vec![Some(now); client.outstanding as usize];
    let mut slots: Vec<Vec<Option<u64>>> = clients.iter().map(slots).collect();
    let mut asked = vec![0u64; clients.len()];
    let (mut served, mut last) = (Vec::new(), None);
    while now < end {
        for (stream, client) in (0u32..).zip(clients) {
            let (mine, asked) = (&mut slots[stream as usize], &mut asked[stream as usize]);
            for (slot, free) in (0u32..).zip(mine) {
                if free.is_none_or(|from| from > now) {
                    continue;
                }
                *free = None;
                *asked += 1;
                let stride = if client.sequential { client.bytes } else { 977 << 20 };
                let place = *asked * stride % (1 << 36);
                let offset = (u64::from(stream) << 40) + place;
                rig.request(
                    now,
                    Request { offset, ..read(stream * IDS + slot, stream, client.bytes) },
                );
            }
        }
        if let Some(sent) = rig.engine.poll_dispatch(at(now)) {
            let (stream, slot) = (sent.request.0 / IDS, (sent.request.0 % IDS) as usize);
            let client = &clients[stream as usize];
            let moves = last != Some(stream) || !client.sequential;
            last = Some(stream);
            let began = now;
            now += takes(client, moves);
            let _over = rig.done(now, sent.piece);
            slots[stream as usize][slot] = Some(now + client.thinks);
            served.push(Served { stream, began, ended: now, bytes: sent.bytes });
        } else {
            let asks = slots.iter().flatten().flatten().copied().filter(|from| *from > now).min();
            let due = rig.engine.poll_timeout().map(Instant::as_nanos).filter(|due| *due > now);
            now = asks.into_iter().chain(due).min().expect("somebody asks again");
            rig.timeout(now);
        }
    }
    served
}

fn count(served: &[Served], stream: u32) -> usize {
    served.iter().filter(|served| served.stream == stream).count()
}

fn time(served: &[Served], stream: u32) -> u64 {
    let mine = served.iter().filter(|served| served.stream == stream);
    mine.map(|served| served.ended - served.began).sum()
}

/// Pieces of one stream in a row: whose, and how many.
fn turns(served: &[Served]) -> Vec<(u32, u64)> {
    let runs = served.chunk_by(|one, other| one.stream == other.stream);
    runs.map(|run| (run[0].stream, run.len() as u64)).collect()
}

/// A seek of 10 ms, and 64 KiB in half a millisecond.
fn disk(client: &Client, moves: bool) -> u64 {
    let seek = if moves { 10 * MS } else { 0 };
    seek + client.bytes * (MS / 2) / (64 << 10)
}

// Round robin.

/// RFC 970: a host that floods its queue lengthens no wait but its own.
#[test]
fn round_robin_gives_each_a_request_in_turn() {
    let jobs: Vec<_> = [0, 0, 0, 0, 0, 0, 1, 1, 2, 2].map(|stream| Job::of(stream, 5)).into();
    let ended = serve(&mut plain("round-robin", &[0, 1, 2]), &jobs);
    assert_eq!(streams(&jobs, &ended), [0, 1, 2, 0, 1, 2, 0, 0, 0, 0]);
    // Nor does size count: that is its flaw.
    let jobs: Vec<_> = [(0, 50), (0, 50), (1, 5), (1, 5)].map(|(id, ms)| Job::of(id, ms)).into();
    let ended = serve(&mut plain("round-robin", &[0, 1]), &jobs);
    assert_eq!(streams(&jobs, &ended), [0, 1, 0, 1]);
}

#[test]
fn a_request_in_pieces_keeps_its_turn() {
    let mut rig = plain("round-robin", &[1]);
    let spec = StreamSpec { piece_bytes_max: 400, ..StreamSpec::default() };
    rig.change(0, Change::AddStream(StreamId(0), spec));
    for (id, stream) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        rig.ask(0, id, stream, 1_000);
    }
    let order: Vec<_> = (1..=8)
        .map(|ms| {
            let sent = rig.go_one(ms * MS);
            let _over = rig.done(ms * MS + 1, sent.piece);
            sent.request.0
        })
        .collect();
    assert_eq!(order, [0, 0, 0, 2, 1, 1, 1, 3]);
}

// Deadline.

/// As many requests as needed of both directions, in ascending order, all there at once.
fn both_directions(rig: &mut Rig, reads: u32, writes: u32) {
    for id in 0..reads {
        rig.request(0, Request { offset: u64::from(id) << 20, ..read(id, 0, 512) });
    }
    for id in reads..reads + writes {
        let offset = u64::from(id) << 20;
        rig.request(0, Request { kind: Kind::Write, offset, ..read(id, 1, 512) });
    }
}

/// Serves until nothing waits, a ms each from `now` on; answers the ids.
fn drain(rig: &mut Rig, mut now: u64) -> Vec<u32> {
    let mut order = Vec::new();
    while let Some(sent) = rig.engine.poll_dispatch(at(now)) {
        now += MS;
        let _over = rig.done(now, sent.piece);
        order.push(sent.request.0);
    }
    order
}

/// `fifo_batch` is 16 and `writes_starved` 2: two batches of reads, then one of writes.
#[test]
fn deadline_lets_writes_wait_for_two_batches() {
    let mut rig = plain("deadline", &[0, 1]);
    both_directions(&mut rig, 100, 40);
    let order = drain(&mut rig, 0);
    let batches = order.chunk_by(|one, other| (*one < 100) == (*other < 100));
    let batches: Vec<_> = batches.map(|batch| (batch[0] < 100, batch.len())).collect();
    // The last 4 reads make a batch of their own: nothing is ahead of them.
    let expected =
        [(true, 32), (false, 16), (true, 32), (false, 16), (true, 32), (false, 8), (true, 4)];
    assert_eq!(batches, expected);
    // The requests of each direction are in ascending order.
    assert!(order.iter().filter(|id| **id < 100).is_sorted());
    assert!(order.iter().filter(|id| **id >= 100).is_sorted());
}

/// A read that waited for 500 ms starts the next batch, out of the sweep; one that waited for 499
/// does not. A write has 5 s.
#[test]
fn deadline_starts_a_batch_with_what_expired() {
    for (kind, expiry) in [(Kind::Read, 500), (Kind::Write, 5_000)] {
        for (wait, expired) in [(expiry - 17, false), (expiry - 16, true)] {
            let mut rig = plain("deadline", &[0]);
            let ask = |rig: &mut Rig, now: u64, id: u32, offset: u64| {
                rig.request(now, Request { kind, offset: offset << 20, ..read(id, 0, 512) });
            };
            // The head is at 10 when the oldest asks, behind it.
            ask(&mut rig, 0, 90, 10);
            let first = rig.go_one(0).piece;
            ask(&mut rig, 0, 99, 1);
            (0..40).for_each(|id| ask(&mut rig, 1, id, 11 + u64::from(id)));
            let _over = rig.done(wait * MS, first);
            // The first batch has 15 more to go: it ends 15 ms later.
            let order = drain(&mut rig, (wait + 1) * MS);
            let at = order.iter().position(|id| *id == 99);
            assert_eq!(at, Some(if expired { 15 } else { 31 }), "{kind:?} after {wait} ms");
            assert!(order[..15].iter().copied().eq(0..15));
        }
    }
}

/// The sweep goes one way; at its end it starts again with the oldest, not with the nearest.
#[test]
fn deadline_starts_again_at_the_oldest() {
    let job = |stream, offset| Job { offset, ..Job::of(stream, 1) };
    let jobs = [job(0, 50), job(1, 30), job(0, 10), job(1, 60), job(0, 40), job(1, 20)];
    let ended = serve(&mut plain("deadline", &[0, 1]), &jobs);
    assert_eq!(ids(&ended), [0, 3, 1, 4, 2, 5]);
}

// Start-time fair queueing.

/// By hand: weights 1 and 2 with requests of 10 have start tags 0, 10, 20 and 0, 5, 10, 15.
#[test]
fn sfq_goes_by_start_tags() {
    let jobs: Vec<_> = [0, 0, 0, 1, 1, 1, 1, 1].map(|stream| Job::of(stream, 10)).into();
    let ended = serve(&mut under("sfq", &[(0, weight(100)), (1, weight(200))]), &jobs);
    assert_eq!(streams(&jobs, &ended), [0, 1, 1, 0, 1, 1, 0, 1]);
}

/// Virtual time is the start tag in service: a stream that was idle joins there, and has saved nothing.
#[test]
fn sfq_saves_nothing_for_a_stream_that_was_idle() {
    let mut jobs = vec![Job::of(0, 10); 12];
    jobs.extend(vec![Job { arrives: 75, ..Job::of(1, 10) }; 4]);
    let ended = serve(&mut plain("sfq", &[0, 1]), &jobs);
    let expected = [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0];
    assert_eq!(streams(&jobs, &ended), expected);
}

/// |W_f/w_f - W_g/w_g| ≤ l_f/w_f + l_g/w_g (Goyal, Vin & Cheng, theorem 1), at depth D times D + 1
/// (Jin, Chase & Kaur), over every interval; here by completions, whatever order the device has.
#[test]
fn sfq_is_fair_to_its_bound() {
    for depth in [1, 2, 8] {
        let mut rig =
            Rig::under(depth, (disktime_rivals::find("sfq").expect("registered").build)());
        let weights = [100, 300];
        weights
            .iter()
            .enumerate()
            .for_each(|(id, it)| rig.add(u32::try_from(id).unwrap_or(0), weight(*it)));
        let sizes = [[7_000, 3_000, 20_000], [11_000, 2_000, 5_000]];
        let (mut free, mut owners) = ((0..64).collect::<VecDeque<u32>>(), [0u32; 64]);
        let (mut out, mut asked) = (Vec::new(), [0usize; 2]);
        let (mut work, mut now) = ([0i64; 2], 0);
        let (mut low, mut high) = (0, 0);
        for turn in 0..5_000usize {
            for stream in [0u32, 1] {
                while rig.view(stream).queued() < 8 {
                    let id = free.pop_front().expect("64 are enough");
                    let turn = &mut asked[stream as usize];
                    *turn += 1;
                    owners[id as usize] = stream;
                    rig.ask(now, id, stream, sizes[stream as usize][*turn % 3]);
                }
            }
            out.extend(rig.go(now));
            let sent = out.remove(turn * 7 % out.len());
            now += sent.bytes * 1_000;
            let _over = rig.done(now, sent.piece);
            free.push_back(sent.request.0);
            let stream = owners[sent.request.0 as usize] as usize;
            work[stream] += i64::try_from(sent.bytes).expect("small");
            // Per weight of 300.
            let ahead = work[0] * 3 - work[1];
            (low, high) = (ahead.min(low), ahead.max(high));
        }
        let once = 20_000 * 3 + 11_000;
        let bound = if depth == 1 { once } else { once * i64::from(depth + 1) };
        assert!(high - low <= bound, "depth {depth}: {} of {bound}", high - low);
        assert!(high - low >= once / 4, "the streams are unlike enough to say something");
    }
}

// mClock.

/// Engine and policy in requests per second, of which the device does `nominal`.
fn mclock(nominal: u32, contracts: &[Contract]) -> Rig {
    let config = Config {
        policy: disktime_rivals::find("mclock").expect("registered"),
        nominal_iops: nominal,
        ..Config::default()
    };
    let mut rig = Rig { engine: Engine::new(&config).expect("registered") };
    (0..).zip(contracts).for_each(|(id, contract)| rig.add(id, *contract));
    rig
}

/// Requests so small that their size does not count, and far from each other: no batches.
const SMALL: Client = Client { outstanding: 8, bytes: 1, sequential: false, thinks: 0 };

/// The paper's introduction: remote desktop and OLTP reserve 250 IOPS each, data migration is
/// limited to 1000, shares are 1:2:3. The division depends on the device's speed at the time.
#[test]
fn mclock_divides_as_in_the_papers_example() {
    let eighth = disktime_core::Share::from_ppm(125_000).expect("a share");
    let desktop = Contract { weight: 100, ..Contract::reserving(eighth) };
    let oltp = Contract { weight: 200, ..desktop };
    let migration = Contract { weight: 300, ..contract(0, 50) };
    for (throughput, expected) in [
        (875, [250, 250, 375]),
        (1_200, [250, 380, 570]),
        (1_500, [250, 500, 750]),
        (2_000, [333, 667, 1_000]),
        (3_000, [667, 1_333, 1_000]),
    ] {
        let mut rig = mclock(2_000, &[desktop, oltp, migration]);
        let served = share(&mut rig, &[SMALL; 3], 0, 11 * SECOND, |_, _| SECOND / throughput);
        let steady: Vec<_> = served.into_iter().filter(|it| it.began >= SECOND).collect();
        for (stream, expected) in (0..).zip(expected) {
            let iops = count(&steady, stream) / 10;
            let error = iops.abs_diff(expected);
            assert!(error <= expected / 50, "{throughput}: {stream} got {iops} of {expected}");
        }
    }
}

/// 1 + S/300 kB: a request of 300 kB counts as two, one of 1.5 MB as six.
#[test]
fn mclock_counts_large_requests_as_several() {
    for (bytes, requests) in [(300_000, 2), (1_500_000, 6)] {
        let mut rig = mclock(100, &[weight(100), weight(100)]);
        let clients = [SMALL, Client { bytes, ..SMALL }];
        let served = share(&mut rig, &clients, 0, 20 * SECOND, |_, _| 10 * MS);
        let [small, large] = [0, 1].map(|stream| count(&served, stream));
        assert!(small.abs_diff(large * requests) <= requests, "{small} {large}");
    }
}

/// Tags of a stream that was idle are moved to the others': no credit, and no penalty for having had the
/// device alone.
#[test]
fn mclock_moves_the_tags_of_a_stream_that_was_idle() {
    let mut rig = mclock(100, &[weight(100), weight(100)]);
    let nobody = Client { outstanding: 0, ..SMALL };
    let alone = share(&mut rig, &[SMALL, nobody], 0, 10 * SECOND, |_, _| 10 * MS);
    assert_eq!(count(&alone, 0), 1_000);
    // Ids of what is still queued are not used again.
    let rest = drain(&mut rig, 10 * SECOND);
    assert!(rest.len() <= 8);
    let both = share(&mut rig, &[SMALL, SMALL], 11 * SECOND, 12 * SECOND, |_, _| 10 * MS);
    assert!(count(&both, 0).abs_diff(50) <= 1, "{}", count(&both, 0));
}

/// A request that went by weight does not count against a reservation: the reservation tags move back
/// for it.
#[test]
fn mclock_reserves_on_top_of_what_was_spare() {
    let half = Contract { weight: 1, ..contract(50, 100) };
    let mut rig = mclock(100, &[half, weight(10_000)]);
    let nobody = Client { outstanding: 0, ..SMALL };
    let alone = share(&mut rig, &[SMALL, nobody], 0, 10 * SECOND, |_, _| 10 * MS);
    assert_eq!(count(&alone, 0), 1_000);
    let _rest = drain(&mut rig, 10 * SECOND);
    let both = share(&mut rig, &[SMALL, SMALL], 11 * SECOND, 13 * SECOND, |_, _| 10 * MS);
    assert!(count(&both, 0).abs_diff(100) <= 2, "{}", count(&both, 0));
}

/// Near requests of a stream go in batches of 8.
#[test]
fn mclock_batches_what_is_near() {
    let mut rig = mclock(100, &[weight(100), weight(100)]);
    let near = Client { outstanding: 16, bytes: 4_096, ..SEQUENTIAL };
    let served = share(&mut rig, &[near, SMALL], 0, 10 * SECOND, |_, _| 10 * MS);
    let longest = turns(&served).iter().filter(|turn| turn.0 == 0).map(|turn| turn.1).max();
    assert_eq!(longest, Some(8));
    assert!(count(&served, 0).abs_diff(500) <= 20);
}

// Argon.

/// R = 0.9: each keeps at least nine tenths of its part of what it does alone, though it is
/// synchronous and the other always waits; and in turns of a request it keeps a twentieth.
#[test]
fn argon_keeps_nine_tenths_of_the_efficiency() {
    let alone = 100.0 * 2_000.0;
    let part = |name, count_of: usize| {
        let ids: Vec<_> = (0..u32::try_from(count_of).expect("few")).collect();
        let served =
            share(&mut plain(name, &ids), &vec![SEQUENTIAL; count_of], 0, 100 * SECOND, disk);
        ids.into_iter()
            .map(|id| count(&served, id) as f64 * count_of as f64 / alone)
            .fold(1.0, f64::min)
    };
    for streams in [2, 3, 5] {
        let least = part("argon", streams);
        assert!(least >= 0.9, "{streams} streams: {least}");
    }
    assert!(part("round-robin", 2) <= 0.06);
}

/// Shares are told by weights; the lightest stream's quantum is the shortest, and is long enough.
#[test]
fn argon_shares_time_by_weight_and_insulates_from_random() {
    let mut rig = under("argon", &[(0, weight(30)), (1, weight(10))]);
    let served = share(&mut rig, &[SEQUENTIAL, RANDOM], 0, 40 * SECOND, disk);
    let [sequential, random] = [0, 1].map(|stream| time(&served, stream));
    let share_of = sequential * 100 / (sequential + random);
    assert!((73..=77).contains(&share_of), "{share_of} %");
    // Three quarters of 2000 a second, and nine tenths of that.
    assert!(count(&served, 0) >= 40 * 1_500 * 9 / 10);
}

/// A stream that has nothing to do gives its turn up, and waits for the next one.
#[test]
fn argon_ends_a_quantum_that_is_not_used() {
    let mut rig = plain("argon", &[0, 1]);
    let rare = Client { thinks: 20 * MS, ..SEQUENTIAL };
    let served = share(&mut rig, &[rare, SEQUENTIAL], 0, 10 * SECOND, disk);
    assert!(turns(&served).iter().filter(|turn| turn.0 == 0).all(|turn| turn.1 == 1));
    let held = rig.view(0).counters().held;
    assert_eq!(held.as_nanos(), 5 * MS * count(&served, 0) as u64);
    assert!(time(&served, 1) >= 8 * SECOND);
}

/// At depth 8 a quantum of `argon` began among what the last one had left at the device, and neither its seek nor its
/// time were its own. The oracle's account is of nothing but the time of turns.
#[test]
fn a_turn_finds_the_device_empty() {
    for name in ["argon", "time-division-20ms"] {
        let policy = disktime_rivals::find(name).expect("it is found by name");
        let mut rig = Rig::under(8, (policy.build)());
        [0, 1].into_iter().for_each(|id| rig.add(id, contract(0, 100)));
        (0..32).for_each(|id| rig.ask(0, id, id / 16, 1_000));
        let (mut out, mut now, mut owners) = (VecDeque::new(), 0, Vec::new());
        while now < 2 * SECOND {
            out.extend(rig.go(now));
            let stream = |sent: &Dispatch| sent.request.0 / 16;
            let first = stream(&out[0]);
            assert!(out.iter().all(|sent| stream(sent) == first), "{name}: one has the device");
            now += 2 * MS;
            let sent = out.pop_front().expect("somebody is served");
            let _over = rig.done(now, sent.piece);
            owners.push(first);
            rig.ask(now, sent.request.0, first, 1_000);
        }
        let same = |one: &u32, other: &u32| one == other;
        let turns: Vec<_> = owners.chunk_by(same).map(<[u32]>::len).collect();
        assert!(turns.len() > 4, "{name}: {turns:?}");
        let first = owners.iter().filter(|stream| **stream == 0).count();
        assert!(first.abs_diff(owners.len() / 2) * 20 <= owners.len(), "{name}: {turns:?}");
    }
}

// The oracle.

/// Reserved parts of the device's time, and by weight of the rest, whatever the requests are: to a turn of 20 ms.
#[test]
fn time_division_gives_each_its_share_of_the_time_to_a_turn() {
    let reserved = Contract { reserve: contract(60, 100).reserve, ..weight(100) };
    let mut rig = under("time-division-20ms", &[(0, reserved), (1, weight(100)), (2, weight(200))]);
    let served = share(&mut rig, &[SEQUENTIAL, RANDOM, SEQUENTIAL], 0, 40 * SECOND, disk);
    for (stream, permille) in [(0, 700), (1, 100), (2, 200)] {
        let got = time(&served, stream);
        let due = 40 * MS * permille;
        assert!(got.abs_diff(due) <= 40 * MS, "stream {stream}: {got} ns of {due}");
    }
}

/// The device is left idle for a client that thinks, at its charge, and not for one that has gone.
#[test]
fn a_turn_of_time_division_waits_for_its_client_and_goes_on_without_one() {
    for (thinks, most) in [(40 * MS, 10 * SECOND), (400 * MS, 1_250 * MS)] {
        let mut rig = plain("time-division-100ms", &[0, 1]);
        let slow = Client { thinks, ..SEQUENTIAL };
        let served = share(&mut rig, &[slow, SEQUENTIAL], 0, 10 * SECOND, disk);
        let held = rig.view(0).counters().held.as_nanos();
        assert!(held > most / 4 && held <= most, "thinks {thinks} ns: {held} ns");
        let other = time(&served, 1);
        assert!(other + held > 9 * SECOND, "thinks {thinks} ns: {other} ns are the other's");
    }
}

// BFQ.

/// The example of worst-case fairness (Bennett & Zhang 1996), which B-WF2Q+ keeps: a session with
/// half of the rate and eleven packets is not served ten times in a row before ten with a twentieth.
#[test]
fn bfq_is_never_far_ahead_of_fluid_service() {
    let contracts: Vec<_> =
        (0..11).map(|id| (id, weight(if id == 0 { 500 } else { 50 }))).collect();
    let mut rig = under("bfq", &contracts);
    // As large as the largest budget: each turn is a request.
    let budget = 16 * 1024 * 512;
    (0..11).for_each(|id| rig.ask(0, id, 0, budget));
    (11..21).for_each(|id| rig.ask(0, id, id - 10, budget));
    let mut order = Vec::new();
    for turn in 0..21 {
        let sent = rig.go_one(turn * 125 * MS);
        let _over = rig.done((turn + 1) * 125 * MS - 1, sent.piece);
        order.push(sent.request.0.saturating_sub(10));
    }
    let expected = [0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0];
    assert_eq!(order, expected);
}

/// 64 KiB at 71 MB/s.
const PIECE: u64 = 9 * MS / 10;

/// A new stream's budget is two thirds of 16,384 sectors; one that was used up grows fourfold, to at
/// most what the peak rate does in 125 ms.
#[test]
fn bfq_budgets_follow_need() {
    let mut rig = plain("bfq", &[0, 1]);
    let busy = Client { outstanding: 4, ..SEQUENTIAL };
    let served = share(&mut rig, &[busy; 2], 0, 20 * SECOND, |_, _| PIECE);
    let turns = turns(&served);
    let two_thirds = 16_384 * 2 / 3 / 128;
    assert_eq!(turns[..2], [(0, two_thirds), (1, two_thirds)]);
    assert!((128..=130).contains(&turns[2].1), "{turns:?}");
    // The peak rate has been found: 125 ms of 0.9 ms each.
    let last = turns[turns.len() - 2].1;
    assert!((136..=139).contains(&last), "{last}");
}

/// Equal weights, and one of them seeky: it is charged for its time, which is then what is shared.
#[test]
fn bfq_charges_seeky_streams_by_time() {
    let mut rig = plain("bfq", &[0, 1]);
    let served = share(&mut rig, &[SEQUENTIAL, RANDOM], 0, 40 * SECOND, disk);
    let late: Vec<_> = served.into_iter().filter(|served| served.began > 10 * SECOND).collect();
    let [sequential, random] = [0, 1].map(|stream| time(&late, stream));
    let share_of = sequential * 100 / (sequential + random);
    assert!((45..=55).contains(&share_of), "{share_of} %");
    let sectors =
        |stream| late.iter().filter(|it| it.stream == stream).map(|it| it.bytes).sum::<u64>();
    assert!(sectors(0) > 100 * sectors(1));
}

/// Weights 1:2:5 of quick streams: sectors in proportion.
#[test]
fn bfq_shares_sectors_by_weight() {
    let weights = [100, 200, 500];
    let contracts: Vec<_> = (0..).zip(weights).map(|(id, it)| (id, weight(it))).collect();
    let served = share(&mut under("bfq", &contracts), &[SEQUENTIAL; 3], 0, 40 * SECOND, disk);
    let all = served.len();
    for (stream, part) in [(0, 125), (1, 250), (2, 625)] {
        let got = count(&served, stream) * 1_000 / all;
        assert!(got.abs_diff(part) <= 10, "{stream} got {got} of {part}");
    }
}

/// `slice_idle` is 8 ms: a synchronous stream that thinks for 4 keeps the device meanwhile; one that
/// thinks for 20 is not waited for, once that is known.
#[test]
fn bfq_waits_for_a_stream_that_comes_back_in_time() {
    for (thinks, waited_for) in [(4, true), (20, false)] {
        let mut rig = plain("bfq", &[0, 1]);
        let thinker = Client { thinks: thinks * MS, ..SEQUENTIAL };
        let served = share(&mut rig, &[thinker, SEQUENTIAL], 0, 10 * SECOND, disk);
        let late: Vec<_> = served.into_iter().filter(|served| served.began > 2 * SECOND).collect();
        let turns = turns(&late);
        let longest = turns.iter().filter(|turn| turn.0 == 0).map(|turn| turn.1).max();
        assert_eq!(longest > Some(1), waited_for, "{longest:?}");
        let held = rig.view(0).counters().held;
        assert_eq!(held > Duration::from_secs(1), waited_for, "held for {held:?}");
    }
}

/// A cancelled request of a stream being served does not keep the device.
#[test]
fn a_cancelled_request_keeps_nothing() {
    for name in ["argon", "bfq"] {
        let mut rig = plain(name, &[0, 1]);
        rig.ask(0, 0, 0, 1_000);
        let first = rig.go_one(0).piece;
        rig.ask(0, 1, 0, 1_000);
        rig.ask(0, 2, 1, 1_000);
        let _gone = rig.engine.handle_cancel(at(MS / 2), RequestId(1));
        let _over = rig.done(MS, first);
        assert!(rig.go(MS).is_empty(), "{name} waits for more of stream 0");
        let until = rig.engine.poll_timeout().expect("not for ever");
        rig.timeout(until.as_nanos());
        assert_eq!(rig.go_one(until.as_nanos()).request, RequestId(2));
        rig.change(until.as_nanos(), Change::RemoveStream(StreamId(0)));
    }
}

// Reward scheduling and its foil.

/// By hand, one at a time: responses of 10 and 30 ms have tags 10, 20, 30 … and 30, 60 …; equal tags
/// by stream. Three to one, as the paper's example has it.
#[test]
fn reward_serves_as_often_as_it_is_answered_soon() {
    let mut jobs = vec![Job::of(0, 10); 7];
    jobs.extend(vec![Job::of(1, 30); 3]);
    for name in ["reward", "reward-service"] {
        let ended = serve(&mut plain(name, &[0, 1]), &jobs);
        assert_eq!(streams(&jobs, &ended), [0, 1, 0, 0, 0, 1, 0, 0, 0, 1], "{name}");
    }
}

#[test]
fn reward_goes_by_weight_among_equals() {
    let jobs: Vec<_> = [0, 0, 0, 1, 1, 1, 1, 1].map(|stream| Job::of(stream, 10)).into();
    let ended = serve(&mut under("reward", &[(0, weight(100)), (1, weight(200))]), &jobs);
    assert_eq!(streams(&jobs, &ended), [0, 1, 1, 0, 1, 1, 0, 1]);
}

/// A stream that becomes active gets the tag of now, not the one that it left with: it has saved nothing.
#[test]
fn reward_saves_nothing_for_a_stream_that_was_idle() {
    let mut jobs = vec![Job::of(0, 10); 12];
    jobs.extend(vec![Job { arrives: 75, ..Job::of(1, 10) }; 4]);
    let ended = serve(&mut plain("reward", &[0, 1]), &jobs);
    let expected = [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0];
    assert_eq!(streams(&jobs, &ended), expected);
}

/// Tags stay at dispatch: until something comes back, all room goes to the smallest.
#[test]
fn reward_moves_tags_when_pieces_come_back() {
    let mut rig = Rig::under(3, (disktime_rivals::find("reward").expect("registered").build)());
    [0, 1].into_iter().for_each(|stream| rig.add(stream, weight(100)));
    (0..8).for_each(|id| rig.ask(0, id, id / 4, 10));
    let first = rig.go(0);
    assert_eq!(first.iter().map(|sent| sent.request.0).collect::<Vec<_>>(), [0, 1, 2]);
    let _over = rig.done(10 * MS, first[0].piece);
    assert_eq!(rig.go_one(10 * MS).request.0, 4, "stream 0 has a tag of 10 ms, stream 1 none");
}

/// The mean is that of the last 100: after as many fast pieces the slow ones before are forgotten.
#[test]
fn reward_forgets_after_a_hundred_pieces() {
    let mut jobs = vec![Job::of(0, 30); 50];
    jobs.extend(vec![Job::of(0, 10); 100]);
    let gone = 50 * 30 + 100 * 10;
    jobs.extend(vec![Job { arrives: gone - 5, ..Job::of(0, 10) }; 4]);
    jobs.extend(vec![Job { arrives: gone - 5, ..Job::of(1, 10) }; 4]);
    let ended = serve(&mut plain("reward", &[0, 1]), &jobs);
    assert_eq!(streams(&jobs, &ended)[150..], [1, 0, 1, 0, 1, 0, 1, 0]);
}

/// One each, though one takes three times as long; and by weight, as start tags 0, 1, 2 and 0, ½, 1 …
#[test]
fn proportional_counts_requests() {
    let mut jobs = vec![Job::of(0, 10); 4];
    jobs.extend(vec![Job::of(1, 30); 4]);
    let ended = serve(&mut plain("proportional", &[0, 1]), &jobs);
    assert_eq!(streams(&jobs, &ended), [0, 1, 0, 1, 0, 1, 0, 1]);
    let jobs: Vec<_> = [0, 0, 0, 1, 1, 1, 1, 1].map(|stream| Job::of(stream, 10)).into();
    let ended = serve(&mut under("proportional", &[(0, weight(100)), (1, weight(200))]), &jobs);
    assert_eq!(streams(&jobs, &ended), [0, 1, 1, 0, 1, 1, 0, 1]);
}

/// QBox §2: D = T + e/r. Before it has seen anything a sequential request is taken to cost 1 ms and a
/// random one 10 ms: with a half each, ten sequential ones go for every random one. The first of the
/// sequential ones is not known to be that yet.
#[test]
fn qbox_divides_estimated_time_by_deadlines() {
    let mut rig = under("qbox", &[(0, contract(50, 100)), (1, contract(50, 100))]);
    for index in 0..40_u32 {
        let sequential = Request { offset: u64::from(index) * 4096, ..read(index, 0, 4096) };
        rig.request(0, sequential);
        rig.request(0, read(40 + index, 1, 4096));
    }
    let mut order = Vec::new();
    for turn in 0..33 {
        let Dispatch { piece, request: RequestId(id), .. } = rig.go_one(turn);
        order.push(u32::from(id >= 40));
        let _over = rig.done(turn, piece);
    }
    let random: Vec<usize> = (0..33).filter(|index| order[*index] == 1).collect();
    // Ties go to the lower stream: deadlines 20, 40, 60 ms against 20, 22 … 40 … 60.
    assert_eq!(random, [1, 12, 23]);
}

#[test]
fn qbox_saves_nothing_for_a_stream_that_was_away() {
    let mut rig = under("qbox", &[(0, contract(50, 100)), (1, contract(50, 100))]);
    (0..100).for_each(|id| rig.request(0, read(id, 0, 4096)));
    let go = |rig: &mut Rig| {
        let Dispatch { piece, request: RequestId(id), .. } = rig.go_one(0);
        let _over = rig.done(0, piece);
        id
    };
    for _ in 0..50 {
        go(&mut rig);
    }
    (100..120).for_each(|id| rig.request(0, read(id, 1, 4096)));
    let after: Vec<u32> = (0..20).map(|_| go(&mut rig)).collect();
    let of_returned = after.iter().filter(|id| **id >= 100).count();
    assert!((9..=11).contains(&of_returned), "{after:?}");
}
