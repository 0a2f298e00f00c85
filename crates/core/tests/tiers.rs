//! A device that tells which of its tiers served a piece: costs are learned among others.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use disktime_core::{
    Change, Config, Contract, Duration, Engine, Instant, Kind, Limits, Outcome, PieceId, Request,
    RequestId, Share, StreamId, StreamSpec, Tier,
};
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
const OUTSTANDING: u32 = 16;

/// Pieces with their requests, and when the first will be done.
type Server = (VecDeque<(PieceId, u32)>, Option<Instant>);

/// Two servers in order, and closed loops: each stream uses one of the tiers.
struct World {
    engine: Engine,
    now: Instant,
    tiers: [Server; 2],
    /// Service times of a piece on each.
    service: [Duration; 2],
    done: Vec<u64>,
}

impl World {
    /// Streams by the tier that they use, at equal weights.
    fn new(streams: &[Tier], service: [u64; 2]) -> Self {
        let limits = Limits { depth: 32, ..Limits::default() };
        let config = Config { cost_model: "learned", limits, ..Config::default() };
        let mut engine = Engine::new(&config).unwrap();
        for id in (0..).map(StreamId).take(streams.len()) {
            let contract = Contract::reserving(Share::ZERO);
            let spec = StreamSpec { contract, ..StreamSpec::default() };
            engine.handle_change(Instant::ZERO, Change::AddStream(id, spec)).unwrap();
        }
        let service = service.map(Duration::from_nanos);
        let (tiers, done) = (Default::default(), vec![0; streams.len()]);
        let mut world = Self { engine, now: Instant::ZERO, tiers, service, done };
        let count = u32::try_from(streams.len()).unwrap() * OUTSTANDING;
        (0..count).for_each(|id| world.ask(id));
        world
    }

    /// The request of that name, of the stream that has it; places are all over the device.
    fn ask(&mut self, id: u32) {
        let offset = u64::from(id.wrapping_mul(2_654_435_761)) << 12;
        let stream = StreamId(id / OUTSTANDING);
        let (kind, bytes) = (Kind::Read, 4096);
        let id = RequestId(id);
        let (fua, class, deadline) = (false, None, None);
        let request = Request { id, stream, kind, offset, bytes, fua, class, deadline };
        self.engine.handle_arrival(self.now, request).unwrap();
    }

    fn run(&mut self, streams: &[Tier], until: Instant) {
        while self.now < until {
            while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
                let tier = streams[(dispatch.request.0 / OUTSTANDING) as usize] as usize;
                let (queue, next) = &mut self.tiers[tier];
                queue.push_back((dispatch.piece, dispatch.request.0));
                next.get_or_insert(self.now + self.service[tier]);
            }
            let ends = self.tiers.iter().filter_map(|(_, next)| *next);
            // A timeout that has come is a hint: it must not stop time.
            let soon = self.now + Duration::from_nanos(1);
            let timeout = self.engine.poll_timeout().map(|at| at.max(soon));
            self.now = ends.chain(timeout).min().unwrap();
            for (at, tier) in [Tier::Fast, Tier::Slow].into_iter().enumerate() {
                let (queue, next) = &mut self.tiers[at];
                if next.is_none_or(|next| next > self.now) {
                    continue;
                }
                let (piece, request) = queue.pop_front().unwrap();
                *next = (!queue.is_empty()).then_some(self.now + self.service[at]);
                let (now, tier) = (self.now, Some(tier));
                let over = self.engine.handle_completion_on(now, piece, Outcome::Done, tier);
                let over = over.unwrap();
                self.done[over.stream.0 as usize] += 1;
                self.ask(request);
            }
            self.engine.handle_timeout(self.now);
        }
        self.engine.assert_conserved();
    }
}

/// Requests per second of each stream, once prices are known.
fn rates(streams: &[Tier], service: [u64; 2]) -> Vec<u64> {
    let mut world = World::new(streams, service);
    world.run(streams, Instant::from_nanos(5000 * MS));
    let before = world.done.clone();
    world.run(streams, Instant::from_nanos(15_000 * MS));
    world.done.iter().zip(before).map(|(done, before)| (done - before) / 10).collect()
}

#[test]
fn streams_on_different_tiers_have_each_its_own() {
    let streams = [Tier::Fast, Tier::Slow];
    let told = rates(&streams, [MS, 10 * MS]);
    assert!(told[0] >= 950 && told[1] >= 95, "of 1000 and 100: {told:?}");
}

#[test]
fn streams_on_one_tier_share_its_time() {
    let streams = [Tier::Slow, Tier::Slow, Tier::Fast];
    let told = rates(&streams, [MS, 2 * MS]);
    assert!(told[0].abs_diff(told[1]) < 10 && told[0] + told[1] >= 490, "{told:?}");
    assert!(told[2] > 400, "no less than a share alone: {told:?}");
}
