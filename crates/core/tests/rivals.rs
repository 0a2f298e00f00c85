//! The schedulers that our own are measured against: each reproduces an example or a number of its
//! source first, so that what is measured is what was published.

mod jobs;
mod rig;

use std::collections::VecDeque;

use disktime_core::policy;
use disktime_core::{
    Change, Config, Contract, Duration, Engine, Instant, Kind, Request, RequestId, StreamId,
    StreamSpec,
};
use jobs::{Job, ids, plain, serve, streams, under};
use rig::{MS, Rig, SECOND, at, contract, read};

fn weight(weight: u32) -> Contract {
    Contract { weight, ..contract(0, 100) }
}

/// What a stream's client does: so many requests outstanding, each the next in sequence or far from
/// the last, and a time to think before it asks again.
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

/// Serves these clients, one piece at a time, from `now` to `end`. What a piece takes depends on
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

/// RFC 970: a host that floods its queue lengthens nobody's wait but its own.
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
