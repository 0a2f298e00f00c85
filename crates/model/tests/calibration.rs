//! Do the disks do what is known of the real ones? Every assert prints what was measured.

use disktime_core::{Duration, Instant, Kind};
use disktime_model::disk::{BusStart, Disk, DiskSpec, Order, WriteBack, Zone};
use disktime_model::flash::Flash;
use disktime_model::{Completion, Device, Op, preset};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::ops::Range;

const BLOCK: u64 = 4096;

/// Keeps a device busy with `outstanding` reads for `count` operations: operations per second.
fn closed_loop(
    device: &mut dyn Device,
    outstanding: u64,
    count: u64,
    mut next: impl FnMut() -> Op,
) -> f64 {
    let mut done: Vec<Completion> = Vec::new();
    for tag in 0..outstanding {
        device.submit(Instant::ZERO, tag, next());
    }
    let mut now = Instant::ZERO;
    let mut completed = 0;
    while completed < count {
        now = device.next_completion().expect("the loop keeps the device busy");
        device.advance(now, &mut done);
        for Completion { tag, .. } in done.drain(..) {
            completed += 1;
            device.submit(now, tag, next());
        }
    }
    completed as f64 / now.since(Instant::ZERO).as_secs_f64()
}

fn read(offset: u64, bytes: u64) -> Op {
    Op { kind: Kind::Read, offset, bytes, fua: false }
}

/// Reads of `BLOCK` in runs of `length`, each at a random place within `blocks`.
fn runs(length: u64, blocks: Range<u64>, seed: u64) -> impl FnMut() -> Op {
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut block, mut left) = (0, 0);
    move || {
        if left == 0 {
            left = length;
            block = random.random_range(blocks.start..=blocks.end - length);
        }
        left -= 1;
        block += 1;
        read((block - 1) * BLOCK, BLOCK)
    }
}

/// Reads per second in runs of `length` over the first `1/part` of the disk.
fn run_iops(spec: &DiskSpec, outstanding: u64, count: u64, length: u64, part: u64) -> f64 {
    let mut disk = Disk::new(spec.clone(), 1);
    let blocks = disk.capacity_bytes() / part / BLOCK;
    closed_loop(&mut disk, outstanding, count, runs(length, 0..blocks, 2))
}

/// Megabytes per second of reading `bytes` from `offset` on, one request of `size` after another
/// with `think` between them.
fn sequential_mb(spec: &DiskSpec, offset: u64, bytes: u64, size: u64, think: Duration) -> f64 {
    let mut disk = Disk::new(spec.clone(), 1);
    let mut done = Vec::new();
    let mut now = Instant::ZERO;
    // The way there is not counted.
    let mut begin = now;
    for index in 0..=bytes / size {
        disk.submit(now, index, read(offset + index * size, size));
        now = disk.next_completion().expect("a read is inside");
        disk.advance(now, &mut done);
        if index == 0 {
            begin = now;
        }
        now = now + think;
    }
    (bytes / size * size) as f64 / now.since(begin).as_secs_f64() / 1e6
}

/// Sustained rate in the middle of a zone.
fn zone_mb(spec: &DiskSpec, zone: usize) -> f64 {
    let zones: Vec<Zone> = spec.geometry.zones().collect();
    let surfaces = spec.geometry.sectors().div_ceil(sectors(1, &zones));
    let before = sectors(surfaces, &zones[..zone]) * 512;
    let length = sectors(surfaces, &zones[zone..=zone]) * 512;
    sequential_mb(spec, before + length / 4, length.min(1 << 27) / 2, 1 << 16, Duration::ZERO)
}

fn close(what: &str, measured: f64, expected: f64, tolerance: f64) {
    eprintln!("{what}: {measured:.3} (expected {expected:.3})");
    assert!(
        (measured / expected - 1.0).abs() <= tolerance,
        "{what}: {measured:.3}, expected {expected:.3} within {:.1} %",
        tolerance * 100.0
    );
}

fn between(what: &str, measured: f64, low: f64, high: f64) {
    eprintln!("{what}: {measured:.1} ({low} to {high})");
    assert!((low..=high).contains(&measured), "{what}: {measured:.1} is not in {low} to {high}");
}

/// Free of the bus on which a measured disk was measured, which is slower than its medium.
fn on_a_fast_bus(spec: DiskSpec) -> DiskSpec {
    let bus_start = BusStart::FirstSector;
    DiskSpec { bus_bytes_per_second: 80_000_000, bus_start, ..spec }
}

fn sectors(surfaces: u64, zones: &[Zone]) -> u64 {
    let tracks = |zone: &Zone| u64::from(zone.cylinders) * u64::from(zone.sectors_per_track);
    surfaces * zones.iter().map(tracks).sum::<u64>()
}

/// E[seek] over pairs of random sectors, by the middles of 1000 equally large parts of the disk.
fn mean_seek_ms(spec: &DiskSpec) -> f64 {
    const PARTS: u64 = 1000;
    let zones: Vec<Zone> = spec.geometry.zones().collect();
    let total = sectors(1, &zones);
    let cylinders: Vec<u32> =
        (0..PARTS).map(|part| cylinder_of(&zones, total * (2 * part + 1) / (2 * PARTS))).collect();
    let mut sum = 0.0;
    for &from in &cylinders {
        for &to in &cylinders {
            sum += spec.seek.time(from.abs_diff(to)).as_secs_f64();
        }
    }
    sum / (PARTS * PARTS) as f64 * 1e3
}

/// The cylinder of a sector on a disk with one surface.
fn cylinder_of(zones: &[Zone], sector: u64) -> u32 {
    let (mut first, mut rest) = (0, sector);
    for zone in zones {
        let per_track = u64::from(zone.sectors_per_track);
        if rest < u64::from(zone.cylinders) * per_track {
            return first + u32::try_from(rest / per_track).expect("below the zone's cylinders");
        }
        rest -= u64::from(zone.cylinders) * per_track;
        first += zone.cylinders;
    }
    panic!("sector {sector} is past the last zone")
}

/// Mean random 4 KiB read = overhead + E[seek] + T/2 + transfer.
#[test]
fn the_mean_random_read_is_the_sum_of_its_parts() {
    for (name, spec) in [
        ("DNES-309170W", on_a_fast_bus(preset::ibm18es())),
        ("ST39102LW", on_a_fast_bus(preset::cheetah9lp())),
        ("deskstar-34gxp", preset::deskstar_34gxp()),
        ("hp-c3323a", on_a_fast_bus(preset::hp_c3323a())),
        ("nearline-7200", preset::nearline_7200()),
        ("st318437lw", preset::st318437lw()),
        ("st330630a", preset::st330630a()),
        ("st340810a", preset::st340810a()),
    ] {
        let revolution_ms = spec.geometry.revolution_ns() as f64 / 1e6;
        // Time per sector, weighted by sectors: tracks over sectors.
        let zones: Vec<Zone> = spec.geometry.zones().collect();
        let tracks: u32 = zones.iter().map(|zone| zone.cylinders).sum();
        let transfer_ms = 8.0 * f64::from(tracks) / sectors(1, &zones) as f64 * revolution_ms;
        let overhead_ms = spec.overhead.read_media.after_read.as_secs_f64() * 1e3;
        let expected = overhead_ms + mean_seek_ms(&spec) + revolution_ms / 2.0 + transfer_ms;
        let measured = 1e3 / run_iops(&spec, 1, 20_000, 1, 1);
        close(&format!("{name}: mean random 4 KiB read, ms"), measured, expected, 0.03);
    }
}

#[test]
fn sustained_rates_are_those_of_real_drives() {
    for (name, spec, zone, known) in [
        ("DNES-309170W outer", on_a_fast_bus(preset::ibm18es()), 0, 20.4),
        ("DNES-309170W inner", on_a_fast_bus(preset::ibm18es()), 10, 12.95),
        ("ST39102LW outer", on_a_fast_bus(preset::cheetah9lp()), 0, 15.6),
    ] {
        let formula = spec
            .geometry
            .sustained_bytes_per_second(spec.geometry.zones().nth(zone).expect("a zone"));
        close(&format!("{name}: formula, MB/s"), formula as f64 / 1e6, known, 0.02);
        close(&format!("{name}: read, MB/s"), zone_mb(&spec, zone), known, 0.02);
    }
}

/// Short seeks at depth 32 were 15 % slower on the measured drives' buses, which are slower than their
/// media, than on a bus of 80 MB/s.
#[test]
fn a_slow_bus_does_not_slow_short_seeks_at_depth_32() {
    for (name, spec) in [
        ("DNES-309170W", preset::ibm18es()),
        ("ST39102LW", preset::cheetah9lp()),
        ("hp-c3323a", preset::hp_c3323a()),
    ] {
        let order = Order::Satf { aging_permille: 0 };
        let spec = DiskSpec { queue_depth: 32, order, ..spec };
        let iops = |spec: &DiskSpec| run_iops(spec, 32, 20_000, 1, 50);
        let (slow, fast) = (iops(&spec), iops(&on_a_fast_bus(spec)));
        close(&format!("{name}: 4 KiB reads/s in a fiftieth of it at depth 32"), slow, fast, 0.02);
    }
}

#[test]
fn a_client_that_pauses_still_streams_at_the_medium_s_rate() {
    let spec = preset::deskstar_34gxp();
    let rate = spec.geometry.sustained_bytes_per_second(spec.geometry.zones().next().expect("one"));
    let pause = Duration::from_micros(100);
    let paused = sequential_mb(&spec, 0, 64 << 20, 32 << 10, pause);
    close("32 KiB reads with pauses of 100 µs, MB/s", paused, rate as f64 / 1e6, 0.02);
    // 4 KiB with a pause take longer than the medium does: the client is the limit, not the disk.
    let own = 4096.0 / (100.0 + 70.0 + 4096.0 / 66.6);
    let paused = sequential_mb(&spec, 0, 64 << 20, 4 << 10, pause);
    close("4 KiB reads with pauses of 100 µs, MB/s", paused, own, 0.05);
}

#[test]
fn the_deskstar_of_paper_zygaria() {
    let spec = preset::deskstar_34gxp();
    close("random 4 KiB reads/s", run_iops(&spec, 1, 20_000, 1, 1), 68.0, 0.01);
    let whole = run_iops(&spec, 1, 400 * 1024, 1024, 1);
    between("reads/s in runs of 1024, whole surface", whole, 4_300.0, 4_900.0);
    let outer = run_iops(&spec, 1, 400 * 1024, 1024, 10);
    between("reads/s in runs of 1024, outer tenth", outer, 5_200.0, 5_900.0);
    eprintln!("zones, MB/s: outer {:.2} inner {:.2}", zone_mb(&spec, 0), zone_mb(&spec, 11));
}

#[test]
fn a_nearline_disk_of_today() {
    let spec = preset::nearline_7200();
    close("outer zone, MB/s", zone_mb(&spec, 0), 270.0, 0.02);
    close("inner zone, MB/s", zone_mb(&spec, 15), 125.0, 0.02);
    between("random 4 KiB reads/s, one at a time", run_iops(&spec, 1, 20_000, 1, 1), 75.0, 85.0);
    between("random 4 KiB reads/s, 16 at once", run_iops(&spec, 16, 20_000, 1, 1), 160.0, 180.0);
    between("random 4 KiB reads/s, 32 at once", run_iops(&spec, 32, 20_000, 1, 1), 170.0, 230.0);
}

/// Megabytes per second of one stream of 128 KiB reads through the outer zone.
fn stream_mb(spec: &DiskSpec) -> f64 {
    sequential_mb(spec, 0, 256 << 20, 128 << 10, Duration::ZERO)
}

#[test]
fn the_disks_of_papers_mdn_and_ucsb_stream_as_published() {
    close("st340810a: one stream, MB/s", stream_mb(&preset::st340810a()), 27.59, 0.005);
    close("st318437lw: one stream, MB/s", stream_mb(&preset::st318437lw()), 40.0, 0.01);
    for (name, spec) in [
        ("st340810a", preset::st340810a()),
        ("st318437lw", preset::st318437lw()),
        ("st330630a", preset::st330630a()),
    ] {
        let last = spec.geometry.zones().count() - 1;
        for zone in [0, last] {
            let in_zone = spec.geometry.zones().nth(zone).expect("a zone");
            let formula = spec.geometry.sustained_bytes_per_second(in_zone) as f64 / 1e6;
            close(&format!("{name}: zone {zone}, MB/s"), zone_mb(&spec, zone), formula, 0.02);
        }
        eprintln!("{name}: random 4 KiB reads/s {:.1}", run_iops(&spec, 1, 20_000, 1, 1));
    }
}

#[test]
fn a_write_cache_orders_random_writes_and_streams_sequential_ones() {
    let spec = preset::st340810a();
    let write = |next: &mut dyn FnMut() -> Op| Op { kind: Kind::Write, ..next() };
    let iops = |spec: &DiskSpec| {
        let mut disk = Disk::new(spec.clone(), 1);
        let mut next = runs(1, 0..disk.capacity_bytes() / BLOCK, 2);
        closed_loop(&mut disk, 1, 20_000, || write(&mut next))
    };
    let through = DiskSpec { write_back: WriteBack::OFF, ..spec.clone() };
    let (cached, through) = (iops(&spec), iops(&through));
    eprintln!("random 4 KiB writes/s: {cached:.0} cached, {through:.0} through");
    // Shortest positioning among 64 about doubles it.
    assert!(cached > 1.6 * through, "{cached} {through}");
    let mut disk = Disk::new(spec.clone(), 1);
    let mut next = runs(100_000, 0..100_000, 2);
    let rate = closed_loop(&mut disk, 1, 50_000, || write(&mut next)) * BLOCK as f64 / 1e6;
    close("sequential 4 KiB writes, MB/s", rate, 27.59, 0.05);
}

#[test]
fn flash_drives_have_their_published_figures() {
    for (name, spec, latency_us, reads_per_second) in [
        ("flash-generic", preset::flash_generic(), 85.0, 533_000.0),
        ("nvme-970pro", preset::nvme_970pro(), 63.6, 16.0 / 36e-6),
    ] {
        let blocks = spec.capacity_bytes / BLOCK;
        let reads = |outstanding, count| {
            let mut flash = Flash::new(spec);
            closed_loop(&mut flash, outstanding, count, runs(1, 0..blocks, 2))
        };
        close(&format!("{name}: 4 KiB at depth 1, µs"), 1e6 / reads(1, 10_000), latency_us, 0.01);
        // All dies at once is the most; random ones leave some idle.
        let most = reads(1024, 300_000);
        between(&format!("{name}: reads/s"), most, 0.85 * reads_per_second, reads_per_second);
    }
    let mut flash = Flash::new(preset::nvme_970pro());
    let mut next = runs(1 << 20, 0..1 << 20, 2);
    let write = || Op {
        kind: Kind::Write,
        bytes: 128 << 10,
        ..{
            let op = next();
            Op { offset: op.offset * 32, ..op }
        }
    };
    let rate = closed_loop(&mut flash, 8, 40_000, write) * 131_072.0 / 1e9;
    close("nvme-970pro: sequential writes, GB/s", rate, 2.8, 0.03);
}

#[test]
fn servers_and_tiers_have_the_means_they_were_given() {
    let mut server = (preset::find("exp").expect("a preset").build)(1);
    close(
        "exp: services/s",
        closed_loop(&mut *server, 4, 50_000, runs(1, 0..1000, 2)),
        100.0,
        0.02,
    );
    // A stripe set of four disks has four times the reads of one, as long as all are busy.
    let one = run_iops(&preset::nearline_7200(), 16, 20_000, 1, 1);
    let mut raid = preset::raid0("nearline-7200", 4, 64 << 10, 1);
    let blocks = raid.capacity_bytes() / BLOCK;
    let four = closed_loop(&mut raid, 64, 40_000, runs(1, 0..blocks, 2));
    close("raid0-nearline: random 4 KiB reads/s over one's", four / one, 4.0, 0.1);
    // With all hits the slow tier is never asked.
    let mut tiers = preset::tiered(1_000_000, 1);
    close(
        "tiered, all hits: reads/s",
        closed_loop(&mut tiers, 1, 10_000, runs(1, 0..1000, 2)),
        1e6 / 85.0,
        0.02,
    );
}
