//! Learned costs on devices that are not as they should be: slower or faster than their profile,
//! failing, silent, idle; streams all of one kind, or one alone; clocks that jump.
#![allow(clippy::unwrap_used, reason = "the tests choose ids, streams and numbers that exist")]

use std::collections::VecDeque;

use disktime_core::cost::{Basis, CostParameters, Estimate, PieceKind, Price, PriceList};
use disktime_core::{
    Change, Class, Config, Contract, Duration, Engine, Event, Instant, Kind, Limits, Outcome,
    PieceId, Request, RequestId, Share, StreamId, StreamSpec,
};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// Requests that each stream keeps alive while it is on.
const OUTSTANDING: u32 = 8;

#[derive(Clone, Copy)]
struct Client {
    percent: u32,
    kind: Kind,
    on: bool,
}

const fn client(percent: u32, kind: Kind) -> Client {
    Client { percent, kind, on: true }
}

/// A device that serves pieces in the order of dispatch, and streams that always want it.
struct BlackBox {
    engine: Engine,
    clients: Vec<Client>,
    /// Service times of a read and a write.
    takes: [u64; 2],
    outcome: Outcome,
    now: u64,
    /// By how much the clock that the engine is told is behind.
    behind: u64,
    device: VecDeque<(PieceId, u32)>,
    ends: u64,
    live: Vec<[bool; OUTSTANDING as usize]>,
    count: u64,
    done: Vec<u64>,
}

impl BlackBox {
    fn new(list: Option<PriceList>, takes: [u64; 2], clients: &[Client]) -> Self {
        let limits = Limits { depth: 8, ..Limits::default() };
        let cost = CostParameters { anchor: list, ..CostParameters::default() };
        let config = Config { cost_model: "learned", cost, limits, ..Config::default() };
        let mut engine = Engine::new(&config).unwrap();
        for (id, client) in (0..).zip(clients) {
            let reserve = Share::from_percent(client.percent).unwrap();
            let spec =
                StreamSpec { contract: Contract::reserving(reserve), ..StreamSpec::default() };
            engine.handle_change(Instant::ZERO, Change::AddStream(StreamId(id), spec)).unwrap();
        }
        Self {
            engine,
            clients: clients.to_vec(),
            takes,
            outcome: Outcome::Done,
            now: 0,
            behind: 0,
            device: VecDeque::new(),
            ends: u64::MAX,
            live: vec![[false; OUTSTANDING as usize]; clients.len()],
            count: 0,
            done: vec![0; clients.len()],
        }
    }

    fn clock(&self) -> Instant {
        Instant::from_nanos(self.now - self.behind)
    }

    fn run(&mut self, seconds: u64) {
        self.run_until(self.now + seconds * SECOND);
    }

    fn run_until(&mut self, end: u64) {
        loop {
            self.offer();
            while let Some(dispatch) = self.engine.poll_dispatch(self.clock()) {
                self.device.push_back((dispatch.piece, dispatch.request.0));
                if self.device.len() == 1 {
                    self.begin();
                }
            }
            let timeout = self.engine.poll_timeout().map_or(u64::MAX, Instant::as_nanos);
            let timeout = timeout.saturating_add(self.behind).max(self.now + 1);
            let next = self.ends.min(timeout);
            if next > end {
                break;
            }
            self.now = next.max(self.now);
            if self.ends <= self.now {
                self.complete();
            }
            self.engine.handle_timeout(self.clock());
            self.engine.assert_conserved();
        }
        self.now = end.max(self.now);
    }

    fn offer(&mut self) {
        for stream in 0..self.clients.len() {
            for slot in 0..OUTSTANDING {
                if !self.clients[stream].on || self.live[stream][slot as usize] {
                    continue;
                }
                self.count += 1;
                let id = u32::try_from(stream).unwrap();
                let request = Request {
                    id: RequestId(id * OUTSTANDING + slot),
                    stream: StreamId(id),
                    kind: self.clients[stream].kind,
                    offset: self.count * 7919 % 100_000 * 1_000_000,
                    bytes: 4096,
                    fua: false,
                    class: None,
                    deadline: None,
                };
                self.engine.handle_arrival(self.clock(), request).unwrap();
                self.live[stream][slot as usize] = true;
            }
        }
    }

    fn begin(&mut self) {
        let Some((_, request)) = self.device.front() else {
            self.ends = u64::MAX;
            return;
        };
        let kind = self.clients[(request / OUTSTANDING) as usize].kind;
        self.ends = self.now + self.takes[usize::from(kind == Kind::Write)];
    }

    fn complete(&mut self) {
        let (piece, request) = self.device.pop_front().unwrap();
        let over = self.engine.handle_completion(self.clock(), piece, self.outcome).unwrap();
        assert_eq!(over.request.0, request);
        let stream = (request / OUTSTANDING) as usize;
        self.live[stream][(request % OUTSTANDING) as usize] = false;
        self.done[stream] += 1;
        self.begin();
    }

    /// Parts of the requests' true time that each stream has in so many seconds.
    fn parts(&mut self, seconds: u64) -> Vec<f64> {
        let before = self.done.clone();
        self.run(seconds);
        let done = self.done.iter().zip(before).zip(&self.clients);
        let time = done.map(|((after, before), client)| {
            (after - before) * self.takes[usize::from(client.kind == Kind::Write)]
        });
        let time: Vec<f64> = time.map(|nanos| nanos as f64).collect();
        let all: f64 = time.iter().sum();
        time.into_iter().map(|time| time / all).collect()
    }

    /// The only estimate of a stream.
    fn estimate(&mut self, stream: u32) -> Estimate {
        let estimates = self.engine.estimates(StreamId(stream));
        assert_eq!(estimates.len(), 1, "{estimates:?}");
        estimates[0]
    }

    fn costs_about(&mut self, stream: u32, nanos: u64) {
        let Estimate { cost, .. } = self.estimate(stream);
        assert!(cost.as_nanos().abs_diff(nanos) < nanos / 20, "{cost:?} of {nanos} ns");
    }

    fn moves(&mut self) -> Vec<(u32, u64, u64, Option<u64>)> {
        let events = std::iter::from_fn(|| self.engine.poll_event());
        let moved = events.filter_map(|event| match event {
            Event::CostMoved { stream, before, now, listed, .. } => {
                let listed = listed.map(Duration::as_nanos);
                Some((stream.0, before.as_nanos(), now.as_nanos(), listed))
            }
            _ => None,
        });
        moved.collect()
    }
}

fn flat(nanos: u64) -> Option<PriceList> {
    let each = Price { each: Duration::from_nanos(nanos), per_mib: Duration::ZERO };
    let [sequential_read, random_read, sequential_write, random_write] = [each; 4];
    Some(PriceList { sequential_read, random_read, sequential_write, random_write })
}

fn near(parts: &[f64], shares: &[f64]) {
    let fits = |(part, share): (&f64, &f64)| (part - share).abs() < 0.03;
    assert!(parts.iter().zip(shares).all(fits), "{parts:?} for {shares:?}");
}

const READ: Kind = Kind::Read;
const WRITE: Kind = Kind::Write;

/// Also what a profile of another device of the same size amounts to.
#[test]
fn a_device_ten_times_off_its_profile_is_told_with_both_figures_and_learned() {
    for (listed, truth) in [(10 * MS, MS), (MS / 10, MS)] {
        let both = [client(30, READ), client(70, READ)];
        let mut device = BlackBox::new(flat(listed), [truth, truth], &both);
        device.run(20);
        let moves = device.moves();
        for stream in 0..2 {
            let of = |moved: &&(u32, u64, u64, Option<u64>)| moved.0 == stream;
            let (_, before, now, list) = *moves.iter().find(of).unwrap();
            assert_eq!((before, list), (listed, Some(listed)));
            assert!(now.abs_diff(truth) < truth, "{now}");
            assert!(moves.iter().filter(of).count() <= 2, "every 10 s at most: {moves:?}");
            device.costs_about(stream, truth);
            let Estimate { certainty, kind, bytes, seen_at, .. } = device.estimate(stream);
            let seen = seen_at.map(|at| at.as_nanos() / 1_000_000_000);
            assert!(seen.is_some_and(|second| (10..=20).contains(&second)), "{seen:?}");
            assert_eq!(
                (certainty.basis, kind, bytes),
                (Basis::Learned, PieceKind::RandomRead, 4096)
            );
            let drift = certainty.drift_permille.unwrap();
            let off = if truth > listed { 9_000 } else { -900 };
            assert!((drift - off).abs() < 500, "{drift} permille");
        }
        near(&device.parts(20), &[0.3, 0.7]);
    }
}

#[test]
fn a_cost_that_changes_is_told_once_and_one_that_does_not_is_not() {
    let both = [client(50, READ), client(50, WRITE)];
    let mut device = BlackBox::new(flat(MS), [MS, MS], &both);
    device.run(60);
    assert_eq!(device.moves(), []);
    device.takes = [MS, 2 * MS];
    device.run(60);
    let moves = device.moves();
    assert!(moves.iter().all(|(stream, ..)| *stream == 1), "{moves:?}");
    let last = moves.last().unwrap();
    assert!(moves.len() <= 2 && last.2.abs_diff(2 * MS) < MS / 2, "{moves:?}");
    device.costs_about(1, 2 * MS);
    near(&device.parts(20), &[0.5, 0.5]);
}

#[test]
fn a_device_that_fails_for_a_while_is_charged_and_learned_like_any_other() {
    let both = [client(30, READ), client(70, WRITE)];
    let mut device = BlackBox::new(None, [MS, 3 * MS], &both);
    device.run(20);
    // Errors come fast.
    (device.outcome, device.takes) = (Outcome::Failed, [MS / 10, MS / 10]);
    device.run(20);
    (device.outcome, device.takes) = (Outcome::Done, [MS, 3 * MS]);
    device.run(30);
    device.costs_about(0, MS);
    device.costs_about(1, 3 * MS);
    near(&device.parts(20), &[0.3, 0.7]);
}

/// Ten seconds of silence, and then of idleness: prices and shares are as before.
#[test]
fn a_device_that_is_silent_and_then_idle_changes_nothing_for_long() {
    let both = [client(30, READ), client(70, WRITE)];
    let mut device = BlackBox::new(None, [MS, 3 * MS], &both);
    device.run(30);
    device.ends += 10 * SECOND;
    device.run(40);
    device.costs_about(0, MS);
    device.costs_about(1, 3 * MS);
    near(&device.parts(20), &[0.3, 0.7]);
    device.clients.iter_mut().for_each(|client| client.on = false);
    device.run(60);
    assert_eq!(device.engine.in_flight(), 0);
    device.clients.iter_mut().for_each(|client| client.on = true);
    device.run(5);
    device.costs_about(0, MS);
    device.costs_about(1, 3 * MS);
    near(&device.parts(20), &[0.3, 0.7]);
}

#[test]
fn streams_all_of_one_kind_and_one_stream_have_what_is_theirs() {
    let mut device = BlackBox::new(None, [MS, MS], &[client(30, WRITE), client(70, WRITE)]);
    device.run(10);
    near(&device.parts(20), &[0.3, 0.7]);
    let mut device = BlackBox::new(None, [MS, MS], &[client(10, READ)]);
    device.run(10);
    assert!(device.done[0] > 9_900, "{}: one stream has all of the device", device.done[0]);
    device.costs_about(0, MS);
}

/// A look takes .2 s here; without bounds of its own it had a tenth of the time by looks alone.
#[test]
fn a_stream_with_a_small_share_gets_no_more_by_probes() {
    let clients = [2, 32, 32, 32].map(|percent| client(percent, READ));
    let mut device = BlackBox::new(None, [10 * MS, 10 * MS], &clients);
    device.run(60);
    let parts = device.parts(120);
    assert!((0.02..0.035).contains(&parts[0]), "{parts:?} for 2.5 %, with its part of the rest");
}

#[test]
fn clocks_that_jump_change_no_cost_for_long_and_no_share() {
    let both = [client(30, READ), client(70, WRITE)];
    let mut device = BlackBox::new(None, [MS, 3 * MS], &both);
    device.run(30);
    // Forward, with pieces at the device.
    device.now += 5 * 3600 * SECOND;
    device.run(20);
    device.costs_about(0, MS);
    device.costs_about(1, 3 * MS);
    near(&device.parts(20), &[0.3, 0.7]);
    // Back: it stands still until it has caught up, while pieces come and go.
    device.behind = SECOND;
    let before = device.done.clone();
    for _ in 0..100 {
        device.complete_and_go_on();
    }
    assert!(device.done.iter().sum::<u64>() > before.iter().sum());
    device.behind = 0;
    device.run(20);
    device.costs_about(0, MS);
    device.costs_about(1, 3 * MS);
    near(&device.parts(20), &[0.3, 0.7]);
}

impl BlackBox {
    /// The next piece comes back, and all goes out that may, whatever the clock says.
    fn complete_and_go_on(&mut self) {
        if self.ends < u64::MAX {
            self.now = self.now.max(self.ends);
            self.complete();
        }
        let (end, next) = (self.ends.saturating_sub(1), self.now + MS);
        self.run_until(end.min(next).max(self.now));
    }
}

/// The price of a background stream is seen like others'. The policy of best effort, which was told of it,
/// knows no such stream: it panicked, and a daemon with tiers ended at its first migrations.
#[test]
fn the_price_of_a_background_stream_is_seen() {
    let mut black_box = BlackBox::new(None, [MS, MS], &[client(0, Kind::Read)]);
    let contract = Contract { class: Class::Background, ..Contract::default() };
    for change in [
        Change::RemoveStream(StreamId(0)),
        Change::AddStream(StreamId(0), StreamSpec { contract, ..StreamSpec::default() }),
    ] {
        black_box.engine.handle_change(Instant::ZERO, change).unwrap();
    }
    black_box.run(4);
    black_box.costs_about(0, MS);
}
