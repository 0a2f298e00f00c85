//! Each rule, on a disk with bands of 4 MiB and a cache of four of them.

use super::*;
use crate::preset;

const MIB: u64 = 1 << 20;
const BAND: u64 = 4 * MIB;

fn spec() -> ShingledSpec {
    ShingledSpec {
        disk: preset::nearline_7200(),
        band_bytes: BAND,
        cache_bytes: 4 * BAND,
        clean_after: Duration::from_secs(1),
        piece_bytes: MIB,
    }
}

struct Client {
    disk: Shingled,
    now: Instant,
}

impl Client {
    fn new() -> Self {
        Self { disk: Shingled::new(spec(), 1), now: Instant::ZERO }
    }

    fn run(&mut self, kind: Kind, offset: u64, bytes: u64) -> Duration {
        let (begin, mut done) = (self.now, Vec::new());
        self.disk.submit(begin, 0, Op { kind, offset, bytes, fua: false });
        while done.is_empty() {
            self.now = self.disk.next_completion().unwrap();
            self.disk.advance(self.now, &mut done);
        }
        assert_eq!(done, [Completion::new(0, self.now)]);
        self.now.since(begin)
    }

    fn rest(&mut self, time: Duration) {
        self.now = self.now + time;
        self.disk.advance(self.now, &mut Vec::new());
    }

    /// Runs in the cache: first byte, end, place.
    fn cached(&self) -> Vec<(u64, u64, u64)> {
        self.disk.cache.runs.iter().map(|(first, run)| (*first, run.end, run.at)).collect()
    }
}

#[test]
fn writes_in_order_from_a_bands_beginning_go_straight_to_it() {
    let mut client = Client::new();
    for piece in 0..12 {
        client.run(Kind::Write, piece * MIB, MIB);
    }
    // Over the edge of two bands.
    client.run(Kind::Write, 3 * BAND, BAND + MIB);
    assert_eq!(client.cached(), []);
    // Where the last one ended, and not there.
    client.run(Kind::Write, 4 * BAND + MIB, 4096);
    client.run(Kind::Write, 4 * BAND + 2 * MIB, 4096);
    assert_eq!(client.cached(), [(4 * BAND + 2 * MIB, 4 * BAND + 2 * MIB + 4096, 0)]);
}

#[test]
fn other_writes_go_to_the_cache_one_behind_the_other() {
    let mut client = Client::new();
    for band in [90, 10, 50] {
        client.run(Kind::Write, band * BAND + MIB, 8192);
    }
    let place = |band: u64, at| (band * BAND + MIB, band * BAND + MIB + 8192, at);
    assert_eq!(client.cached(), [place(10, 8192), place(50, 16384), place(90, 0)]);
    // A part is written again: what is left of the old run stays where it is.
    client.run(Kind::Write, 10 * BAND + MIB + 4096, 4096);
    let first = 10 * BAND + MIB;
    let expected = [(first, first + 4096, 8192), (first + 4096, first + 8192, 24576)];
    assert_eq!(client.cached()[..2], expected);
    assert_eq!(client.disk.cache.bytes, 3 * 8192);
    client.run(Kind::Trim, first, 8192);
    assert_eq!(client.disk.cache.bytes, 2 * 8192);
}

#[test]
fn a_read_takes_each_part_from_where_it_lies() {
    let mut client = Client::new();
    client.run(Kind::Write, 10 * BAND + MIB, 8192);
    let op = Op { kind: Kind::Read, offset: 10 * BAND + MIB - 4096, bytes: 16384, fua: false };
    let mut parts = Vec::new();
    client.disk.find(op, &mut parts);
    let parts: Vec<_> = parts.iter().map(|part| (part.offset, part.bytes)).collect();
    let band = 4 * BAND + op.offset;
    assert_eq!(parts, [(band, 4096), (0, 8192), (band + 12288, 4096)]);
    client.run(Kind::Read, op.offset, op.bytes);
}

#[test]
fn it_cleans_the_oldest_band_first_when_nothing_was_inside_for_a_while() {
    let mut client = Client::new();
    for band in [50, 10] {
        client.run(Kind::Write, band * BAND + MIB, 8192);
    }
    client.rest(Duration::from_millis(999));
    assert!(client.disk.cleaning.is_none());
    client.rest(Duration::from_millis(2));
    assert_eq!(client.disk.cleaning.map(|it| it.band), Some(50));
    // It finishes the band beside what comes meanwhile, which stays in the cache.
    client.run(Kind::Write, 50 * BAND + 2 * MIB, 8192);
    client.rest(Duration::from_millis(300));
    assert_eq!(client.disk.cache.dirty, [10, 50]);
    assert_eq!(client.disk.cache.bytes, 3 * 8192);
    client.rest(Duration::from_secs(10));
    assert_eq!((client.disk.cache.dirty.len(), client.cached().len()), (0, 0));
    assert_eq!(client.disk.next_completion(), None);
}

#[test]
fn a_write_that_finds_no_room_waits_until_a_band_is_clean() {
    let mut client = Client::new();
    let mut took = Vec::new();
    for band in 0..17 {
        took.push(client.run(Kind::Write, (2 * band + 1) * BAND + MIB, MIB));
    }
    // Reading and writing a band of 4 MiB at 270 MB/s takes 31 ms, without seeks.
    let longest = took[..16].iter().max().unwrap();
    assert!(took[16] > *longest + Duration::from_millis(31), "{took:?}");
    assert_eq!((client.disk.cache.dirty.len(), client.disk.cache.bytes), (16, 16 * MIB));
}
