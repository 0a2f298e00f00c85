//! The disk as a whole, on drives small or simple enough to reckon by hand.

use super::*;
use crate::preset;

const READ: Kind = Kind::Read;

fn op(kind: Kind, offset: u64, bytes: u64) -> Op {
    Op { kind, offset, bytes, fua: false }
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// One zone of 100 sectors a track at 10 ms a revolution: a sector takes 100 µs. Arrival overhead
/// 50 µs, hits 10 µs, bus 10 µs a sector, three segments of 40 sectors.
fn spec() -> DiskSpec {
    let zone = Zone { cylinders: 50, sectors_per_track: 100, track_skew: 10, cylinder_skew: 20 };
    let layout = Layout { rpm: 6000, surfaces: 2, sectors: 10_000, zones: vec![zone] };
    DiskSpec {
        geometry: Geometry::new(&layout),
        seek: SeekCurve::RootAndLine { first_ms: 1.0, root_ms: 0.1, slope_ms: 0.01 },
        head_switch: micros(800),
        write_settle: micros(500),
        overhead: Overhead::plain(micros(50), micros(10)),
        bus_bytes_per_second: 51_200_000,
        bus_start: BusStart::FirstSector,
        read_ahead: ReadAhead {
            segments: 3,
            segment_bytes: 40 * SECTOR_BYTES,
            prefetch: Prefetch::Always,
        },
        write_back: WriteBack::OFF,
        queue_depth: 4,
        order: Order::Fcfs,
    }
}

/// Drives a disk one operation at a time.
struct Client {
    disk: Disk,
    now: Instant,
}

impl Client {
    fn new(spec: DiskSpec) -> Self {
        let mut disk = Disk::new(spec, 0);
        // Sector 0 is under the head at time zero.
        disk.mechanics.phase_ns = 0;
        Self { disk, now: Instant::ZERO }
    }

    /// How long `sectors` from `first` take.
    fn run(&mut self, kind: Kind, first: u64, sectors: u64) -> Duration {
        let begin = self.now;
        self.disk.submit(begin, 0, op(kind, first * SECTOR_BYTES, sectors * SECTOR_BYTES));
        self.now = self.disk.next_completion().unwrap();
        let mut done = Vec::new();
        self.disk.advance(self.now, &mut done);
        assert_eq!(done, [Completion::new(0, self.now)]);
        self.now.since(begin)
    }

    fn think(&mut self, span: Duration) {
        self.now = self.now + span;
    }
}

#[test]
fn a_read_waits_for_its_sector_and_passes_it() {
    let mut client = Client::new(spec());
    // Sector 10 comes by 1 ms after time zero; four sectors take .4 ms.
    assert_eq!(client.run(READ, 10, 4), micros(1400));
}

#[test]
fn a_missed_sector_costs_a_revolution() {
    let mut client = Client::new(spec());
    // After 50 µs of overhead sector 0 has gone; once read, it takes the bus 10 µs.
    assert_eq!(client.run(READ, 0, 1), micros(10_110));
}

#[test]
fn a_read_that_continues_waits_for_the_head_only() {
    let mut client = Client::new(spec());
    client.run(READ, 10, 4);
    // The head goes on: sector 15 ends .2 ms later, whatever the overheads.
    assert_eq!(client.run(READ, 14, 2), micros(200));
    client.think(micros(150));
    assert_eq!(client.run(READ, 16, 2), micros(50));
    // Four more sectors pass meanwhile: the next two are in the buffer.
    client.think(micros(400));
    assert_eq!(client.run(READ, 18, 2), micros(10 + 2 * 10));
}

#[test]
fn reading_ahead_stops_when_the_segment_is_full_and_takes_up_again() {
    let mut client = Client::new(spec());
    client.run(READ, 10, 4);
    // It reads up to sector 54, which takes 4 ms, and stops.
    client.think(micros(5_000));
    // A hit moves the limit by four: the head waits for sector 54 to come round, at 15.4 ms.
    assert_eq!(client.run(READ, 14, 4), micros(10 + 4 * 10));
    assert_eq!(client.run(READ, 18, 36), micros(10 + 36 * 10));
    assert_eq!(client.run(READ, 54, 1), Instant::from_nanos(15_500_000).since(at_micros(6_820)));
}

/// So many microseconds after time zero.
fn at_micros(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

fn prefetching(prefetch: Prefetch) -> Client {
    let spec = spec();
    Client::new(DiskSpec { read_ahead: ReadAhead { prefetch, ..spec.read_ahead }, ..spec })
}

/// A drive of 1995 that prefetches only after a sequence had a demerit of 1.10 ms, as every disk of
/// this model read ahead after every read.
#[test]
fn a_disk_reads_ahead_always_after_a_sequence_or_never() {
    // The head is over sector 14 when 10 to 13 are read: the next two come by at once if it goes on,
    // and a revolution less the time since then later if the overhead of 50 us lets them pass.
    for (prefetch, second, third) in [
        (Prefetch::Always, 200, 200),
        (Prefetch::AfterSequence, 10_200, 200),
        (Prefetch::Never, 10_200, 10_200),
    ] {
        let mut client = prefetching(prefetch);
        assert_eq!(client.run(READ, 10, 4), micros(1400), "{prefetch:?}");
        assert_eq!(client.run(READ, 14, 2), micros(second), "{prefetch:?}");
        assert_eq!(client.run(READ, 16, 2), micros(third), "{prefetch:?}");
        // A segment keeps what was asked for in any case.
        assert_eq!(client.run(READ, 10, 2), micros(10 + 2 * 10), "{prefetch:?}");
    }
}

/// The sequence is broken by a read elsewhere, and has to be seen again.
#[test]
fn a_sequence_is_two_reads_without_another_between_them() {
    let mut client = prefetching(Prefetch::AfterSequence);
    client.run(READ, 10, 4);
    client.run(READ, 500, 2);
    client.run(READ, 14, 2);
    client.think(micros(30_000));
    // Nothing was read behind sector 15.
    assert!(client.run(READ, 16, 1) > micros(100));
    client.think(micros(30_000));
    assert_eq!(client.run(READ, 17, 1), micros(10 + 10));
}

/// The first run goes to the medium at once; behind it the next to go is on the same track, or the
/// one that was written before it.
#[test]
fn the_buffer_for_writes_is_written_out_nearest_or_oldest_first() {
    let oldest_waits = |destage| {
        let write_back = WriteBack { dirty_bytes: 1 << 16, extents: 3, read_hits: false, destage };
        let mut client = Client::new(DiskSpec { write_back, ..spec() });
        // The last one has to wait until a run of the three before it has gone.
        for first in [9_000, 200, 9_010, 4_000, 6_000] {
            client.run(Kind::Write, first, 1);
        }
        client.disk.written.dirty.held().iter().any(|it| it.extent.first == 200)
    };
    assert!(oldest_waits(Destage::Nearest));
    assert!(!oldest_waits(Destage::Oldest));
}

#[test]
fn a_read_shortly_ahead_lets_the_head_go_on() {
    let mut client = Client::new(spec());
    client.run(READ, 10, 4);
    // Sectors 14 to 19 pass first.
    assert_eq!(client.run(READ, 20, 1), micros(700));
}

#[test]
fn segments_remember_other_streams() {
    let mut client = Client::new(spec());
    client.run(READ, 10, 4);
    client.think(micros(4_000));
    client.run(READ, 5_000, 4);
    assert_eq!(client.run(READ, 14, 40), micros(10 + 40 * 10));
    // The whole of it comes from the buffer, beyond it from the medium again.
    assert!(client.run(READ, 54, 1) > micros(1000));
}

#[test]
fn a_written_extent_leaves_the_buffer() {
    let mut client = Client::new(spec());
    client.run(READ, 10, 4);
    client.think(micros(4_000));
    client.run(Kind::Write, 20, 1);
    assert!(client.run(READ, 14, 2) > micros(1000));
}

#[test]
fn a_write_goes_through_and_settles() {
    let mut client = Client::new(spec());
    // On the track itself there is nothing to settle.
    assert_eq!(client.run(Kind::Write, 10, 4), micros(1400));
    // One at a time, the next in sequence has just gone.
    assert_eq!(client.run(Kind::Zeroes, 14, 4), micros(10_400));
    // Sector 200 is on the next cylinder, at slot 30: at 11.8 ms, 50 µs + 1 ms + .5 ms make
    // 13.35 ms and slot 33, so it comes at 23 ms. A read would have had it at 13 ms.
    assert_eq!(client.now, at_micros(11_800));
    assert_eq!(client.run(Kind::Write, 200, 1), micros(11_300));
}

#[test]
fn queued_writes_in_sequence_lose_nothing() {
    let mut disk = Client::new(spec()).disk;
    for tag in 0..4 {
        let offset = (10 + tag * 2) * SECTOR_BYTES;
        disk.submit(Instant::ZERO, tag, op(Kind::Write, offset, 2 * SECTOR_BYTES));
    }
    let mut done = Vec::new();
    disk.advance(at_micros(10_000), &mut done);
    let at: Vec<Instant> = done.iter().map(|completion| completion.at).collect();
    assert_eq!(at, [1200, 1400, 1600, 1800].map(at_micros));
}

#[test]
fn flush_and_trim_cost_the_electronics_only() {
    let mut client = Client::new(spec());
    client.run(READ, 10, 4);
    assert_eq!(client.run(Kind::Flush, 0, 0), micros(10));
    assert_eq!(client.run(Kind::Trim, 5_000, 100), micros(10));
    // The head has gone on meanwhile.
    assert_eq!(client.run(READ, 14, 1), micros(80));
}

#[test]
fn satf_takes_the_nearest_on_the_platter() {
    let mut spec = spec();
    spec.order = Order::Satf { aging_permille: 0 };
    spec.read_ahead.segments = 0;
    let mut disk = Client::new(spec).disk;
    // While the first is served: far in angle, far in cylinders, just behind the head.
    for (tag, sector) in [(0, 10), (1, 9), (2, 9_000), (3, 12)] {
        disk.submit(Instant::ZERO, tag, op(READ, sector * SECTOR_BYTES, SECTOR_BYTES));
    }
    let mut done = Vec::new();
    disk.advance(at_micros(100_000), &mut done);
    let tags: Vec<u64> = done.iter().map(|completion| completion.tag).collect();
    assert_eq!(tags[..2], [0, 3]);
    assert_eq!(done[1].at, at_micros(1310));
}

/// The short way of following a track is taken for nearly all of a stream, and must agree with the
/// way that it saves, whatever the host's pauses and sizes.
#[test]
fn following_on_the_track_agrees_with_following() {
    let run = |short: bool, seed: u64| {
        let mut client = Client::new(spec());
        let mut random = Pcg64::seed_from_u64(seed);
        let mut next = 0;
        let mut times = Vec::new();
        for _ in 0..2_000 {
            let length = random.random_range(1..12);
            match random.random_range(0..20_u32) {
                0 => next = random.random_range(0..9_000),
                1 => next += random.random_range(0..30),
                2 => client.think(micros(random.random_range(0..12_000))),
                _ => client.think(micros(random.random_range(0..300))),
            }
            next = if next + length > 10_000 { 0 } else { next };
            if let (false, Some(ahead)) = (short, client.disk.ahead.as_mut()) {
                ahead.track = None;
            }
            client.run(READ, next, length);
            times.push(client.now);
            next += length;
        }
        times
    };
    for seed in 0..20 {
        assert_eq!(run(true, seed), run(false, seed), "seed {seed}");
    }
}

/// With a buffer of 20 sectors for writes, in at most 3 runs.
fn write_back() -> DiskSpec {
    let dirty_bytes = 20 * SECTOR_BYTES;
    DiskSpec {
        write_back: WriteBack {
            dirty_bytes,
            extents: 3,
            read_hits: true,
            destage: Destage::Nearest,
        },
        ..spec()
    }
}

#[test]
fn a_bus_slower_than_the_medium_is_waited_for() {
    // 200 µs a sector on the bus, from when sector 10 is read.
    let slow = DiskSpec { bus_bytes_per_second: 2_560_000, ..spec() };
    assert_eq!(Client::new(slow).run(READ, 10, 4), micros(1100 + 4 * 200));
}

/// The data of all writes that waited came over the bus at once: 32 of them on a bus of 1 MB/s did 31 MB/s.
#[test]
fn the_data_of_writes_come_over_the_bus_one_after_the_other() {
    // 10 ms a sector on the bus, with a revolution of 10 ms.
    let slow = DiskSpec { bus_bytes_per_second: 51_200, queue_depth: 8, ..spec() };
    for fua in [false, true] {
        let mut disk = Disk::new(slow.clone(), 1);
        for tag in 0..8 {
            disk.submit(
                Instant::ZERO,
                tag,
                Op { fua, ..op(Kind::Write, 10 * tag * SECTOR_BYTES, SECTOR_BYTES) },
            );
        }
        let mut done = Vec::new();
        disk.advance(at_micros(10_000_000), &mut done);
        for (count, completion) in (1..).zip(&done) {
            assert!(completion.at >= at_micros(10_000 * count), "{count}: {completion:?}");
        }
        assert!(done.len() == 8 && done[7].at < at_micros(110_000), "{done:?}");
    }
}

#[test]
fn writes_go_into_the_buffer_at_bus_speed() {
    let mut client = Client::new(write_back());
    assert_eq!(client.run(Kind::Write, 10, 4), micros(10 + 4 * 10));
    assert_eq!(client.run(Kind::Write, 500, 4), micros(50));
    // Reads of what is still there are hits.
    assert_eq!(client.run(READ, 500, 2), micros(10 + 2 * 10));
}

#[test]
fn a_write_without_room_waits_for_destaging() {
    let mut client = Client::new(write_back());
    // Sectors 10 to 17 come by from 1 ms to 1.8 ms; destaging begins as soon as it may.
    assert_eq!(client.run(Kind::Write, 10, 8), micros(90));
    assert_eq!(client.run(Kind::Write, 30, 8), micros(90));
    // 8 + 8 + 8 are more than 20: there is room when the first are on the medium.
    assert_eq!(client.run(Kind::Write, 60, 8), micros(1800 - 180 + 90));
    assert_eq!(client.now, at_micros(1890));
}

#[test]
fn flush_and_fua_wait_for_the_medium() {
    let mut client = Client::new(write_back());
    client.run(Kind::Write, 10, 4);
    client.run(Kind::Write, 30, 4);
    client.run(Kind::Flush, 0, 0);
    assert_eq!(client.now, at_micros(3400));
    assert_eq!(client.run(Kind::Flush, 0, 0), micros(10));
    let fua = Op { fua: true, ..op(Kind::Write, 40 * SECTOR_BYTES, SECTOR_BYTES) };
    client.disk.submit(client.now, 0, fua);
    assert_eq!(client.disk.next_completion(), Some(at_micros(4100)));
}

#[test]
fn a_write_larger_than_the_buffer_goes_through() {
    let mut client = Client::new(write_back());
    assert_eq!(client.run(Kind::Write, 10, 21), micros(1000 + 2100));
}

#[test]
fn destaging_goes_on_while_the_host_thinks_and_lets_reads_in_between() {
    let mut client = Client::new(write_back());
    client.run(Kind::Write, 10, 4);
    client.run(Kind::Write, 30, 4);
    client.think(micros(20_000));
    // All on the medium: no hit, and the room is back.
    assert!(client.run(READ, 30, 2) > micros(100));
    assert_eq!(client.run(Kind::Write, 50, 20), micros(10 + 200));
}

#[test]
fn destaging_takes_the_shortest_positioning_first() {
    let mut disk = Client::new(write_back()).disk;
    // While a read is under way, writes arrive in the wrong order.
    disk.submit(Instant::ZERO, 0, op(READ, 5 * SECTOR_BYTES, SECTOR_BYTES));
    for (tag, sector) in [(1, 90), (2, 50), (3, 70)] {
        disk.submit(Instant::ZERO, tag, op(Kind::Write, sector * SECTOR_BYTES, SECTOR_BYTES));
    }
    let mut done = Vec::new();
    // The read ends at .61 ms, reading ahead (40 sectors) at 4.6 ms; then 50, 70 and 90 come by.
    for (at, left) in [(4_599, 3), (4_600, 2), (5_100, 1), (7_100, 0), (9_100, 0)] {
        disk.advance(at_micros(at), &mut done);
        assert_eq!(disk.written.dirty.held().len(), left, "{at} µs");
    }
    assert_eq!(done.iter().map(|completion| completion.tag).collect::<Vec<_>>(), [1, 2, 3, 0]);
}

/// At depth 32 drives with slow buses had 15 % fewer short reads than on a fast bus: the arm waited until
/// the read before had gone over the bus.
#[test]
fn the_arm_works_while_the_read_before_goes_over_the_bus() {
    for bus_start in [BusStart::FirstSector, BusStart::LastSector] {
        // A sector takes a millisecond on the bus.
        let spec = DiskSpec { bus_bytes_per_second: 512_000, bus_start, ..spec() };
        let mut disk = Client::new(DiskSpec { read_ahead: ReadAhead::OFF, ..spec }).disk;
        for (tag, sector) in [(0, 10), (1, 20), (2, 25), (3, 30)] {
            disk.submit(Instant::ZERO, tag, op(READ, sector * SECTOR_BYTES, SECTOR_BYTES));
        }
        let mut done = Vec::new();
        while let Some(at) = disk.next_completion() {
            disk.advance(at, &mut done);
        }
        // 20 passes by while 10 is on the bus, 25 while 20 is; but the arm goes on to 30 only once
        // 20 has left at 3.1 ms, and misses it.
        let expected = [2_100, 3_100, 4_100, 14_100].map(at_micros);
        assert_eq!(done.iter().map(|it| it.at).collect::<Vec<_>>(), expected, "{bus_start:?}");
    }
}

#[test]
fn the_seed_turns_the_spindle() {
    let first = |seed| {
        let mut disk = Disk::new(preset::deskstar_34gxp(), seed);
        disk.submit(Instant::ZERO, 0, op(READ, 0, 4096));
        disk.next_completion()
    };
    // The number itself: recorded runs rest on how the generator turns a seed into an angle.
    assert_eq!(first(1), Some(Instant::from_nanos(1_481_229)));
    assert_ne!(first(1), first(2));
}

#[test]
#[should_panic(expected = "above the queue depth")]
fn uncollected_completions_count_as_inside() {
    let mut disk = Disk::new(spec(), 0);
    for tag in 0..5 {
        disk.submit(Instant::ZERO + Duration::from_secs(tag), tag, op(READ, 0, 512));
    }
}

#[test]
#[should_panic(expected = "past the end")]
fn past_the_end_is_the_callers_error() {
    let mut disk = Disk::new(spec(), 0);
    let capacity = disk.capacity_bytes();
    disk.submit(Instant::ZERO, 0, op(READ, capacity - 512, 513));
}

#[test]
#[should_panic(expected = "time went back")]
fn time_does_not_go_back() {
    let mut disk = Disk::new(spec(), 0);
    disk.advance(at_micros(2), &mut Vec::new());
    disk.advance(at_micros(1), &mut Vec::new());
}
