//! Worked examples: requests that arrive when the example says, and in which order they end.
#![allow(dead_code, unreachable_pub, reason = "each test crate uses its part")]

use disktime_core::{Class, Contract, Dispatch, Request, RequestId};

use crate::rig::{MS, Rig, at, contract, read};

/// A request: when it arrives, of which stream, where, how long it takes and when it is due, times
/// in ms. Its id is its place in the example.
#[derive(Clone, Copy)]
pub struct Job {
    pub arrives: u64,
    pub stream: u32,
    pub offset: u64,
    pub takes: u64,
    pub due: Option<u64>,
}

impl Job {
    pub fn of(stream: u32, takes: u64) -> Self {
        Self { arrives: 0, stream, offset: 0, takes, due: None }
    }

    pub fn request(self, id: u32) -> Request {
        let deadline = self.due.map(|due| at(due * MS));
        let offset = self.offset << 20;
        // Asked for as best effort: whatever its stream is guaranteed, the policy orders it.
        let class = Some(Class::BestEffort);
        Request { offset, class, deadline, ..read(id, self.stream, self.takes * 1_000) }
    }
}

/// One device under that policy, with streams of these contracts.
pub fn under(name: &str, contracts: &[(u32, Contract)]) -> Rig {
    let policy = disktime_rivals::find(name).expect("it is registered");
    let mut rig = Rig::under(1, (policy.build)());
    for (stream, contract) in contracts {
        rig.add(*stream, *contract);
    }
    rig
}

/// Streams without contracts to speak of.
pub fn plain(name: &str, streams: &[u32]) -> Rig {
    let contracts: Vec<_> = streams.iter().map(|stream| (*stream, contract(0, 100))).collect();
    under(name, &contracts)
}

/// Serves all jobs, each for as long as it takes, and answers them with the ms at which they end.
pub fn serve(rig: &mut Rig, jobs: &[Job]) -> Vec<(u32, u64)> {
    let (mut now, mut come) = (0, 0);
    let mut ended = Vec::new();
    while ended.len() < jobs.len() {
        while jobs.get(come).is_some_and(|job| job.arrives <= now) {
            let id = u32::try_from(come).expect("a small example");
            let request = jobs[come].request(id);
            rig.engine.handle_arrival(at(now * MS), request).expect("it is sound");
            come += 1;
        }
        let Dispatch { piece, request: RequestId(id), .. } = rig.go_one(now * MS);
        now += jobs[id as usize].takes;
        // Arrivals while it is at the device come before what is chosen next.
        while jobs.get(come).is_some_and(|job| job.arrives < now) {
            let next = u32::try_from(come).expect("a small example");
            let at = at(jobs[come].arrives * MS);
            rig.engine.handle_arrival(at, jobs[come].request(next)).expect("it is sound");
            come += 1;
        }
        let _over = rig.done(now * MS, piece);
        ended.push((id, now));
    }
    ended
}

pub fn ids(ended: &[(u32, u64)]) -> Vec<u32> {
    ended.iter().map(|(id, _)| *id).collect()
}

pub fn streams(jobs: &[Job], ended: &[(u32, u64)]) -> Vec<u32> {
    ended.iter().map(|(id, _)| jobs[*id as usize].stream).collect()
}
