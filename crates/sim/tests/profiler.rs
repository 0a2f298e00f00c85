//! The profiler on emulated disks, whose truth is known: what it finds, and how long it takes.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]
#![allow(clippy::print_stdout, reason = "how near it came is worth reading")]

use disktime_core::{Access, Duration, Instant, Kind};
use disktime_model::disk::{DiskSpec, SECTOR_BYTES};
use disktime_model::preset::{self, Parameters};
use disktime_model::{Device, Op};
use disktime_profiler::{BUDGET_DEFAULT, Found, Issue, Profiler, ProfilerOptions, Seek};

const DISKS: [&str; 5] =
    ["deskstar-34gxp", "nearline-7200", "st318437lw", "cheetah9lp", "st340810a"];
const SEEDS: std::ops::Range<u64> = 1..11;
/// The longest time that a profile of a disk may take.
const TIME_MAX: Duration = Duration::from_secs(180);
/// How far a seek with its overhead, a rate and a revolution may be off.
const SEEK_ERROR: f64 = 0.05;
const RATE_ERROR: f64 = 0.02;
const ROTATION_ERROR: f64 = 0.005;
/// Seeks are compared from so many cylinders on, and where reads go to and fro.
const SEEK_CYLINDERS_MIN: u64 = 4;
const SEEK_BYTES_MIN: u64 = 8 << 20;

/// Carries requests out on a model, one at a time.
struct Bench {
    device: Box<dyn Device>,
    now: Instant,
}

impl Bench {
    fn new(name: &str, seed: u64) -> Self {
        let device = (preset::find(name).unwrap().build)(seed);
        Self { device, now: Instant::ZERO }
    }

    /// Issues it at `at`: how long it took.
    fn carry_out(&mut self, at: Instant, kind: Kind, offset: u64, bytes: u64) -> Duration {
        let issued = at.max(self.now);
        self.device.submit(issued, 0, Op { kind, offset, bytes, fua: false });
        let mut done = Vec::new();
        while done.is_empty() {
            self.now = self.device.next_completion().unwrap();
            self.device.advance(self.now, &mut done);
        }
        self.now = done[0].at;
        self.now.since(issued)
    }
}

fn profile(name: &str, seed: u64, writes: bool) -> Found {
    let mut bench = Bench::new(name, seed);
    let size = bench.device.capacity_bytes();
    let name = name.to_owned();
    let options = ProfilerOptions { name, size, writes, budget: BUDGET_DEFAULT, seed };
    let mut profiler = Profiler::new(options).unwrap();
    while let Some(Issue { at, op }) = profiler.next(bench.now) {
        let took = bench.carry_out(at, op.kind, op.offset, op.bytes);
        profiler.completed(bench.now, took);
    }
    let found = profiler.finish().unwrap();
    found.fits(size).unwrap();
    found.profile.check().unwrap();
    found
}

fn spec(name: &str) -> DiskSpec {
    match preset::find(name).unwrap().parameters {
        Parameters::Disk(spec) => spec(),
        _ => panic!("{name} is no disk"),
    }
}

/// The cylinder of a byte, and the rate of its zone in sequence: the medium's, unless the bus is
/// slower.
fn truth(spec: &DiskSpec, offset: u64) -> (u32, f64) {
    let surfaces = tracks_per_cylinder(spec);
    let mut left = offset / SECTOR_BYTES;
    let mut first = 0;
    for zone in spec.geometry.zones() {
        let per_cylinder = u64::from(zone.sectors_per_track) * surfaces;
        let sectors = per_cylinder * u64::from(zone.cylinders);
        if left < sectors {
            let medium = spec.geometry.sustained_bytes_per_second(zone) as f64;
            let request = (1_u64 << 20) as f64;
            let hit = spec.overhead.read_hit.after_read.as_secs_f64();
            let bus = request / (hit + request / spec.bus_bytes_per_second as f64);
            return (first + u32::try_from(left / per_cylinder).unwrap(), medium.min(bus));
        }
        left -= sectors;
        first += zone.cylinders;
    }
    panic!("{offset} is past the end")
}

/// Surfaces are not public: what the zones must have for the capacity.
fn tracks_per_cylinder(spec: &DiskSpec) -> u64 {
    let of_surface = |zone: disktime_model::disk::Zone| {
        u64::from(zone.cylinders) * u64::from(zone.sectors_per_track)
    };
    spec.geometry.sectors().div_ceil(spec.geometry.zones().map(of_surface).sum())
}

fn off(found: f64, truth: f64) -> f64 {
    (found / truth - 1.0).abs()
}

/// Checks one disk with one seed, and says by how much it was off at most.
fn check(name: &str, seed: u64) {
    let found = profile(name, seed, false);
    let spec = spec(name);
    let turn = found.rotation.unwrap().as_nanos() as f64;
    let rotation = off(turn, spec.geometry.revolution_ns() as f64);

    let seeks = seek_errors(&found, &spec);
    let single = seeks.iter().filter(|at| at.single > SEEK_ERROR).count();
    let curve = seeks.iter().map(|at| at.mean).fold(0.0, f64::max);
    let average = seeks.iter().map(|at| at.mean).sum::<f64>() / seeks.len() as f64;

    // Rates of places that are not where a zone ends.
    let size = found.profile.size();
    let rates = (0..64).map(|index| (2 * index + 1) * size / 128).filter_map(|at| {
        let [before, here, behind] =
            [at.saturating_sub(size / 96), at, at + size / 128 - SECTOR_BYTES]
                .map(|at| truth(&spec, at).1);
        let read = found.profile.transfer((at, at + 1), Access::Read);
        let ns = read.time(1 << 20, 1 << 20).as_secs_f64();
        (before == here && here == behind).then(|| off((1 << 20) as f64 / ns, here))
    });
    let rate = rates.fold(0.0, f64::max);
    println!(
        "{name} {seed}: {:.0} s, {} requests; rotation off {:.4} %; zones {} of {}, rates off {:.2} %; \
         seeks at {} distances off {:.2} % on average, {:.2} % at most, {single} with a place above 5 %",
        found.took.as_secs_f64(),
        found.requests,
        rotation * 100.0,
        found.profile.zones.len(),
        spec.geometry.zones().count(),
        rate * 100.0,
        seeks.len(),
        average * 100.0,
        curve * 100.0,
    );
    assert!(found.took <= TIME_MAX, "{name} {seed}: {:?}", found.took);
    assert!(rotation <= ROTATION_ERROR, "{name} {seed}: a revolution of {turn} ns");
    assert!(seeks.len() >= 12, "{name} {seed}: {} distances", seeks.len());
    assert!(curve <= SEEK_ERROR, "{name} {seed}: {curve}");
    assert!(single * 5 <= seeks.len(), "{name} {seed}: {single} of {}", seeks.len());
    assert!(rate <= RATE_ERROR, "{name} {seed}: {rate}");
}

/// By how much a distance is off: the mean over its places, and the place that is off most.
struct SeekError {
    mean: f64,
    single: f64,
}

/// A found seek has the electronics before it: so it is compared. From [`SEEK_CYLINDERS_MIN`] on:
/// over less, reading ahead moves the head by as much.
fn seek_errors(found: &Found, spec: &DiskSpec) -> Vec<SeekError> {
    let outermost = spec.geometry.zones().next().unwrap();
    let cylinder =
        tracks_per_cylinder(spec) * u64::from(outermost.sectors_per_track) * SECTOR_BYTES;
    let overhead = spec.overhead.read_media.after_read.as_secs_f64();
    let of_distance = found.seeks.chunk_by(|one, other| one.distance == other.distance);
    let least = SEEK_BYTES_MIN.max(SEEK_CYLINDERS_MIN * cylinder);
    let long = of_distance.filter(|at| at[0].distance >= least);
    let error = |places: &[Seek]| {
        let times = places.iter().map(|seek| {
            let [from, to] = [seek.from, seek.from + seek.distance].map(|at| truth(spec, at).0);
            (seek.time.as_secs_f64(), spec.seek.time(to - from).as_secs_f64() + overhead)
        });
        let times: Vec<(f64, f64)> = times.collect();
        let sum = times.iter().fold((0.0, 0.0), |sum, at| (sum.0 + at.0, sum.1 + at.1));
        let single = times.iter().map(|at| off(at.0, at.1)).fold(0.0, f64::max);
        SeekError { mean: off(sum.0, sum.1), single }
    };
    long.map(error).collect()
}

#[test]
fn disks_are_found_as_they_are() {
    for name in DISKS {
        SEEDS.for_each(|seed| check(name, seed));
    }
}

/// A tiny generator: the test needs nothing better.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) % below
}

/// Requests of 4 to 64 KiB anywhere and nearby, at any pause: none takes longer than its distance's
/// worst and its transfer.
fn holds(name: &str, found: &Found, writes: bool) {
    let mut bench = Bench::new(name, 77);
    let size = bench.device.capacity_bytes();
    let (mut state, mut last, mut nearest) = (5, 0, f64::INFINITY);
    for index in 0..20_000 {
        let blocks = 1 + random(&mut state, 16);
        let last_block = (size - (64 << 10)) / 4096;
        let offset = 4096
            * match index % 3 {
                0 => (last / 4096 + random(&mut state, 4096)).min(last_block),
                _ => random(&mut state, last_block + 1),
            };
        let kind = if writes && random(&mut state, 2) == 0 { Kind::Write } else { Kind::Read };
        let bytes = blocks * 4096;
        let pause =
            Duration::from_nanos(random(&mut state, 4) / 3 * random(&mut state, 30_000_000));
        let took = bench.carry_out(bench.now + pause, kind, offset, bytes);
        let access = if kind == Kind::Write { Access::Write } else { Access::Read };
        let transfer = found.profile.transfer((offset, offset + bytes), access);
        let worst = found.profile.positioning(offset.abs_diff(last)).worst;
        let bound = worst + transfer.time(bytes, bytes);
        assert!(
            took <= bound,
            "{name}: {kind:?} {offset} {bytes} after {last}: {took:?} of {bound:?}"
        );
        let spare = (bound.as_secs_f64() - took.as_secs_f64()) * 1e3;
        nearest = nearest.min(spare);
        last = offset + bytes;
    }
    println!("{name}: worst held with {nearest:.2} ms to spare");
}

#[test]
fn worst_is_never_exceeded_by_reads() {
    for name in DISKS {
        (1..4).for_each(|seed| holds(name, &profile(name, seed, false), false));
    }
}

#[test]
fn worst_is_never_exceeded_by_writes_through() {
    let name = "deskstar-34gxp";
    let assumed = profile(name, 1, false);
    let measured = profile(name, 1, true);
    assert!(measured.writes && !assumed.writes);
    holds(name, &assumed, true);
    holds(name, &measured, true);
}

#[test]
fn flash_has_no_seeks() {
    for name in ["flash-generic", "nvme-970pro"] {
        let found = profile(name, 1, false);
        assert_eq!(found.rotation, None, "{name}");
        assert!(found.took <= TIME_MAX, "{name}: {:?}", found.took);
        let means: Vec<f64> =
            found.profile.positioning.iter().map(|at| at.mean.as_secs_f64()).collect();
        let (least, most) = means.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), mean| {
            (least.min(*mean), most.max(*mean))
        });
        assert!(most < least * 1.2, "{name}: {means:?}");
    }
}

/// Devices that are no single disk or flash: no figure is promised, but an end.
#[test]
fn every_preset_comes_to_an_end() {
    for preset in preset::PRESETS {
        let found = profile(preset.name, 1, false);
        println!("{}: {:?}, rotation {:?}", preset.name, found.took, found.rotation);
        assert!(found.took <= TIME_MAX, "{}: {:?}", preset.name, found.took);
    }
}
