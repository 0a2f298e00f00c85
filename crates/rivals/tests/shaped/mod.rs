//! A device whose best effort is shaped for soft real time, and streams that ask until they are told
//! not to.
#![allow(dead_code, unreachable_pub, reason = "each test crate uses its part of the world")]
#![allow(clippy::unwrap_used, reason = "the tests choose streams and numbers that exist")]

use disktime_core::feedback::{FeedbackConfig, Token, TokenRate};
use disktime_core::policy::PolicyEntry;
use disktime_core::{
    Change, Class, Config, Contract, Dispatch, Engine, Event, Ignored, Kind, Outcome, Request,
    RequestId, StreamId, StreamSpec,
};

use crate::rig::{MS, SECOND, at, contract};

const BYTES: u64 = 128 << 10;
/// The service time of a request: a token of each kind.
const SERVICE: u64 = 5 * MS;

/// A device that takes 5 ms for each request, one at a time; each stream has one request waiting or
/// at the device while it is active.
pub struct World {
    pub engine: Engine,
    pub now: u64,
    at_device: Option<(Dispatch, u64)>,
    /// Until when each stream asks, and whether it writes.
    pub loads: Vec<(u64, bool)>,
    asked: Vec<bool>,
    /// Requests done.
    pub done: Vec<u64>,
    /// Requests sent, each where the stream's last one ended.
    sent: Vec<u64>,
}

impl World {
    pub fn new(config: FeedbackConfig, policy: &'static PolicyEntry, classes: &[Contract]) -> Self {
        let config = Config { feedback: config, policy, ..Config::default() };
        let mut engine = Engine::new(&config).unwrap();
        for (id, contract) in (0..).map(StreamId).zip(classes) {
            let spec = StreamSpec { contract: *contract, ..StreamSpec::default() };
            engine.handle_change(at(0), Change::AddStream(id, spec)).unwrap();
        }
        let count = classes.len();
        Self {
            engine,
            now: 0,
            at_device: None,
            loads: vec![(u64::MAX, false); count],
            asked: vec![false; count],
            done: vec![0; count],
            sent: vec![0; count],
        }
    }

    fn ask(&mut self) {
        for (stream, (until, writes)) in (0..).zip(self.loads.clone()) {
            if self.now >= until || std::mem::replace(&mut self.asked[stream as usize], true) {
                continue;
            }
            let place = self.sent[stream as usize] * BYTES;
            self.sent[stream as usize] += 1;
            let request = Request {
                id: RequestId(stream),
                stream: StreamId(stream),
                kind: if writes { Kind::Write } else { Kind::Read },
                offset: (u64::from(stream) << 40) + place,
                bytes: BYTES,
                fua: false,
                class: None,
                deadline: None,
            };
            self.engine.handle_arrival(at(self.now), request).unwrap();
        }
    }

    /// Runs until a time; nothing happens but completions and what the engine asked to be woken for.
    pub fn run(&mut self, until: u64) {
        while self.now < until {
            self.ask();
            if self.at_device.is_none() {
                let sent = self.engine.poll_dispatch(at(self.now));
                self.at_device = sent.map(|sent| (sent, self.now + SERVICE));
            }
            let due = self.engine.poll_timeout().map_or(until, disktime_core::Instant::as_nanos);
            let over = self.at_device.as_ref().map_or(until, |(_, over)| *over);
            self.now = due.max(self.now + 1).min(over).min(until);
            self.engine.handle_timeout(at(self.now));
            if let Some((sent, _)) = self.at_device.take_if(|(_, over)| *over <= self.now) {
                let over = self.engine.handle_completion(at(self.now), sent.piece, Outcome::Done);
                let stream = over.unwrap().stream.0 as usize;
                self.done[stream] += 1;
                self.asked[stream] = false;
            }
            self.engine.assert_conserved();
        }
    }

    pub fn report(&mut self, stream: u32) {
        let missed = Change::MissedDeadline(StreamId(stream));
        self.engine.handle_change(at(self.now), missed).unwrap();
    }

    pub fn rate(&self) -> Option<TokenRate> {
        self.engine.best_effort().reads
    }

    pub fn ignored(&mut self) -> Vec<Ignored> {
        let events = std::iter::from_fn(|| self.engine.poll_event());
        let ignored = |event| match event {
            Event::ReportIgnored(_, why) => Some(why),
            _ => None,
        };
        events.filter_map(ignored).collect()
    }
}

pub fn soft() -> Contract {
    Contract { class: Class::SoftRealTime, ..contract(0, 100) }
}

pub fn shaped(controller: &str) -> FeedbackConfig {
    let controller = disktime_rivals::controller(controller).unwrap();
    FeedbackConfig { controller, anti_cheat: false, ..FeedbackConfig::default() }
}

/// Best effort keeps R_min exactly after reports enough, whatever a token is.
pub fn keeps_the_least(policy: &'static PolicyEntry) {
    for token in [Token::Time, Token::Data, Token::Request] {
        let config = FeedbackConfig { token, ..shaped("pessimistic") };
        let contracts = [soft(), contract(0, 100), contract(0, 100)];
        let mut world = World::new(config, policy, &contracts);
        for second in 1..=20 {
            world.run(second * SECOND);
            world.report(0);
        }
        assert_eq!(world.rate(), Some(TokenRate::per_second(10)), "{token:?} {policy:?}");
        let before = world.done.clone();
        world.run(120 * SECOND);
        let had: Vec<u64> = (1..3).map(|it| world.done[it] - before[it]).collect();
        // 100 s at 10 tokens a second; a burst of 8 more or less for each, and what a piece overdrew.
        let both = had[0] + had[1];
        assert!((980..=1_020).contains(&both), "{token:?} {policy:?}: {had:?}");
        assert!(had[0].abs_diff(had[1]) <= 18, "{token:?} {policy:?}: {had:?} are equal parts");
    }
}
