//! Policy `disktime`, seen from outside, on a device with a switch cost of 10 ms and 1 ms a piece:
//! which stream has the device when, and for how long.

#![allow(clippy::unwrap_used, reason = "the tests choose policies and streams that exist")]

mod rig;

use disktime_core::policy;
use disktime_core::{Contract, Dispatch, Duration, Instant, Kind, Request, StreamId};
use rig::{MS, Rig, SECOND, percent, read};

const PIECE: u64 = MS;
const RETURN: u64 = 10 * MS;

/// Streams that each ask for the next piece when one is done, `think` later.
struct Disk {
    rig: Rig,
    now: u64,
    last: Option<u32>,
    ids: u32,
    /// By stream: think time, and when it asks next.
    clients: Vec<Option<(u64, u64)>>,
    /// A stream that writes, and so has no guests and is none.
    writer: Option<u32>,
    /// Slices: the stream that was served, from when, for how long.
    turns: Vec<(u32, u64, u64)>,
}

impl Disk {
    fn new(contracts: &[Contract]) -> Self {
        let mut rig = Rig::under(1, (policy::DEFAULT.build)());
        for (id, contract) in (0..).zip(contracts) {
            rig.add(id, *contract);
        }
        let clients = contracts.iter().map(|_| None).collect();
        Self { rig, now: 0, last: None, ids: 0, clients, writer: None, turns: Vec::new() }
    }

    fn of(reserves: &[u32]) -> Self {
        let reserving = |reserve: &u32| Contract::reserving(percent(*reserve));
        Self::new(&reserves.iter().map(reserving).collect::<Vec<_>>())
    }

    fn start(&mut self, stream: u32, think: u64) {
        self.clients[stream as usize] = Some((think, self.now));
    }

    fn stop(&mut self, stream: u32) {
        self.clients[stream as usize] = None;
    }

    fn ask(&mut self) {
        for (stream, client) in (0..).zip(&mut self.clients) {
            if let Some((_, next)) = client.as_mut().filter(|(_, next)| *next <= self.now) {
                *next = u64::MAX;
                self.ids = (self.ids + 1) % 4;
                let id = self.ids * 16 + stream;
                let kind = if self.writer == Some(stream) { Kind::Write } else { Kind::Read };
                self.rig.request(self.now, Request { kind, ..read(id, stream, 4096) });
            }
        }
    }

    fn serve(&mut self, dispatch: Dispatch) {
        let stream = dispatch.request.0 % 16;
        let cost = if self.last == Some(stream) { PIECE } else { RETURN + PIECE };
        match self.turns.last_mut().filter(|(last, ..)| *last == stream) {
            Some((.., took)) => *took += cost,
            None => self.turns.push((stream, self.now, cost)),
        }
        self.last = Some(stream);
        let end = self.now + cost;
        while self.next() < end {
            self.now = self.next();
            self.ask();
        }
        self.now = end;
        let _over = self.rig.done(end, dispatch.piece);
        if let Some((think, next)) = self.clients[stream as usize].as_mut() {
            *next = end + *think;
        }
    }

    fn next(&self) -> u64 {
        let asks = self.clients.iter().flatten().map(|(_, next)| *next);
        asks.filter(|next| *next > self.now).min().unwrap_or(u64::MAX)
    }

    fn run_until(&mut self, end: u64) {
        while self.now < end {
            self.ask();
            let all = self.rig.go(self.now);
            assert!(all.len() <= 1, "one at a time");
            if let Some(dispatch) = all.first() {
                self.serve(*dispatch);
                continue;
            }
            let timeout = self.rig.engine.poll_timeout().map_or(u64::MAX, Instant::as_nanos);
            self.now = self.next().min(timeout.max(self.now + 1)).min(end);
            self.rig.timeout(self.now);
        }
    }

    fn longest_slice(&self, stream: u32, from: u64) -> u64 {
        let turns = self.turns.iter().filter(|(id, at, _)| *id == stream && *at >= from);
        turns.map(|(.., took)| *took).max().unwrap_or(0)
    }

    fn share(&self, stream: u32) -> f64 {
        Duration::from_nanos(self.rig.charged(stream)).as_secs_f64()
            / Duration::from_nanos(self.now).as_secs_f64()
    }
}

#[test]
fn slices_are_long_enough_to_be_worth_their_switch_cost_and_shares_exact() {
    let mut disk = Disk::of(&[30, 70]);
    disk.start(0, 0);
    disk.start(1, 0);
    disk.run_until(120 * SECOND);
    for (stream, share) in [(0, 0.3), (1, 0.7)] {
        assert!((disk.share(stream) - share).abs() < 0.005, "{}", disk.share(stream));
    }
    let returns = disk.turns.iter().filter(|(.., at, _)| *at > 20 * SECOND).count() as u64;
    let lost = returns * RETURN * 100 / (100 * SECOND);
    assert!(lost <= 4, "{lost} % of the time goes to returns");
    // The lag ranges over 350 ms at most, half of it ahead for each of two equals: 350 ms / (1 - f).
    assert!(disk.longest_slice(1, 20 * SECOND) < 1_300 * MS);
}

#[test]
fn a_stream_back_from_idleness_goes_at_once_while_its_lag_is_positive() {
    let mut disk = Disk::of(&[50, 50]);
    disk.start(0, 0);
    disk.run_until(10 * SECOND);
    disk.start(1, 60 * MS);
    disk.run_until(40 * SECOND);
    // One piece of 11 ms in 71 ms is far below its half.
    for (_, at, took) in
        disk.turns.iter().filter(|(stream, at, _)| *stream == 0 && *at > 20 * SECOND)
    {
        assert!(*took <= 62 * MS + RETURN, "waited from {at} for {took}");
    }
}

#[test]
fn the_device_idles_for_a_stream_that_asks_sooner_than_a_switch_costs() {
    for (think, waits) in [(MS / 2, true), (40 * MS, false)] {
        let mut disk = Disk::of(&[50, 50]);
        disk.start(0, think);
        disk.start(1, 0);
        disk.run_until(60 * SECOND);
        let held = disk.rig.view(0).counters().held;
        assert_eq!(held > Duration::from_secs(2), waits, "held {held:?} at {think}");
        assert!(disk.rig.view(1).counters().held < Duration::from_millis(100));
        if waits {
            assert!((disk.share(0) - 0.5).abs() < 0.01, "held time is the holder's");
        }
    }
}

#[test]
fn unreserved_and_unused_time_goes_by_weight() {
    let weighing = |reserve, weight| Contract { weight, ..Contract::reserving(percent(reserve)) };
    let mut disk = Disk::new(&[weighing(0, 100), weighing(0, 300), weighing(20, 100)]);
    (0..3).for_each(|stream| disk.start(stream, 0));
    disk.run_until(200 * SECOND);
    for (stream, share) in [(0, 0.16), (1, 0.48), (2, 0.36)] {
        assert!((disk.share(stream) - share).abs() < 0.005, "{stream}: {}", disk.share(stream));
    }
    // All is reserved by a stream without requests: the others share it by weight.
    let mut disk = Disk::new(&[weighing(0, 100), weighing(0, 300), weighing(100, 100)]);
    (0..2).for_each(|stream| disk.start(stream, 0));
    disk.run_until(200 * SECOND);
    assert!((disk.share(0) - 0.25).abs() < 0.005, "{}", disk.share(0));
    disk.start(2, 0);
    let before = disk.rig.charged(2);
    disk.run_until(260 * SECOND);
    let got = disk.rig.charged(2) - before;
    assert!(got > 59 * SECOND, "who reserved all gets all: {got}");
}

/// A disk that is idle now, of which a stream of 30 % with that bound has had nothing, and one of 70 % all.
fn beside_a_bound(latency: Option<Duration>) -> Disk {
    let bounded = Contract { latency, ..Contract::reserving(percent(30)) };
    let mut disk = Disk::new(&[bounded, Contract::reserving(percent(70))]);
    disk.start(1, 0);
    disk.run_until(20 * SECOND);
    disk.stop(1);
    disk.run_until(20 * SECOND + 100 * MS);
    disk
}

#[test]
fn a_latency_bound_goes_first_however_short_the_stream_was_idle() {
    let order = |latency| {
        let mut disk = beside_a_bound(latency);
        let (rig, mut now) = (&mut disk.rig, disk.now);
        for id in 800..840 {
            rig.request(now, read(id, 0, 4096));
            let piece = rig.go_one(now).piece;
            rig.done(now + 5 * MS, piece);
            now += 6 * MS;
        }
        now += 100 * MS;
        let write = |id| Request { kind: Kind::Write, ..read(id, 1, 4096) };
        (900..930).for_each(|id| rig.request(now, write(id)));
        let go = |turn: u32| {
            rig.timeout(now);
            let piece = rig.go_one(now);
            if turn >= 20 && turn.is_multiple_of(2) {
                rig.request(now + MS, read(950 + turn, 0, 4096));
            }
            now += 5 * MS;
            rig.done(now, piece.piece);
            piece.request.0
        };
        (0..24).map(go).skip(20).collect::<Vec<_>>()
    };
    let bound = Some(Duration::from_millis(40));
    assert_eq!(order(bound), [920, 970, 921, 972], "at once");
    assert_eq!(order(None), [920, 970, 921, 922], "after 1 ms it waits for its slice");
}

#[test]
fn a_latency_bound_cuts_nobodys_requests() {
    let mut disk = beside_a_bound(Some(Duration::from_millis(40)));
    disk.rig.request(disk.now, read(900, 1, 1 << 20));
    assert_eq!(disk.rig.go_one(disk.now).bytes, 1 << 20);
}

#[test]
fn a_bound_counts_only_while_its_streams_lag_is_positive() {
    let bound = Some(Duration::from_millis(40));
    let bounded = Contract { latency: bound, ..Contract::reserving(percent(10)) };
    let mut disk = Disk::new(&[bounded, Contract::reserving(percent(90))]);
    disk.start(0, 0);
    disk.start(1, 0);
    disk.run_until(100 * SECOND);
    assert!((disk.share(0) - 0.1).abs() < 0.005, "no more than its share: {}", disk.share(0));
}

#[test]
fn a_stream_that_goes_leaves_nothing_behind() {
    let mut disk = Disk::of(&[20, 30, 50]);
    (0..3).for_each(|stream| disk.start(stream, 0));
    disk.run_until(5 * SECOND);
    disk.stop(2);
    disk.run_until(10 * SECOND);
    disk.rig.change(disk.now, disktime_core::Change::RemoveStream(StreamId(2)));
    let before = [disk.rig.charged(0), disk.rig.charged(1)];
    disk.run_until(110 * SECOND);
    let got = [0, 1].map(|stream| disk.rig.charged(stream) - before[stream as usize]);
    // 20 and 30 reserved, and half each of the 50 that are free.
    let part = got[0] as f64 / (got[0] + got[1]) as f64;
    assert!((part - 0.45).abs() < 0.005, "{part}");
}

/// Longer slices would make others wait for less and less.
#[test]
fn a_fortieth_of_the_time_goes_to_switches_where_slices_may_be_long() {
    let mut disk = Disk::of(&[50, 50]);
    disk.rig.change(0, disktime_core::Change::SetHorizon(Duration::from_secs(10)));
    (0..2).for_each(|stream| disk.start(stream, 0));
    disk.run_until(120 * SECOND);
    let returns = disk.turns.iter().filter(|(_, at, _)| *at > 20 * SECOND).count() as u64;
    let lost = returns * RETURN * 1_000 / (100 * SECOND);
    assert!((18..=32).contains(&lost), "{lost} of a thousand");
}

/// Debited by a list for another device, a newcomer would have nothing of its share left after a few pieces.
#[test]
fn the_pieces_of_a_newcomer_are_debited_what_its_last_ones_took() {
    let mut disk = Disk::of(&[50, 50]);
    let debits: [u64; 6] = core::array::from_fn(|at| {
        let now = at as u64 * MS;
        disk.rig.ask(now, u32::try_from(at).unwrap(), 0, 20_000);
        let piece = disk.rig.go_one(now);
        disk.rig.done(now + MS, piece.piece);
        piece.estimate.as_nanos()
    });
    assert_eq!(debits[0], 20 * MS, "by the list");
    assert!(debits[1..].iter().all(|debit| debit.abs_diff(MS) <= MS / 100), "{debits:?}");
}

/// A newcomer that asks a little sooner than a switch costs, beside a stream that is nobody's guest: the device is held
/// for it in its slice, but not until its pace is known. Four slices take half as much again as its share of 3 s.
#[test]
fn the_device_is_held_for_a_newcomer_no_longer_than_its_slice() {
    for think in [3, 8, 9] {
        let mut disk = Disk::of(&[10, 90]);
        disk.writer = Some(1);
        disk.start(1, 0);
        disk.run_until(3 * SECOND);
        disk.start(0, think * MS);
        disk.run_until(6 * SECOND);
        let charged = disk.rig.charged(0) / MS;
        assert!((250..=350).contains(&charged), "{think}: {charged} ms of 300");
    }
}
