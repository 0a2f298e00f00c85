//! The contract of every device in the registry, whatever it models.

use disktime_core::{Duration, Instant, Kind};
use disktime_model::faulty::{Cleaning, Faults, Faulty, Outliers, Pauses, Step};
use disktime_model::preset::{PRESETS, Parameters, Preset, find};
use disktime_model::{Completion, Device, Op};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const KINDS: [Kind; 6] =
    [Kind::Read, Kind::Write, Kind::Flush, Kind::Trim, Kind::Zeroes, Kind::Cache];

/// An operation and when it is wanted.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Instant,
    op: Op,
}

/// A mix of everything: bursts and pauses, sequential and random, first and last byte.
fn arrivals(seed: u64, count: usize, capacity: u64) -> Vec<Arrival> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut now = Instant::ZERO;
    let mut next = 0;
    let mut arrival = || {
        if random.random_ratio(1, 2) {
            now = now + Duration::from_micros(random.random_range(0..20_000));
        }
        let kind = KINDS[random.random_range(0..KINDS.len())];
        let bytes = [512, 4096, 65_536, 1 << 20][random.random_range(0..4)];
        let offset = match random.random_range(0..8_u32) {
            0 => 0,
            1 => capacity - bytes,
            2..5 if next + bytes <= capacity => next,
            _ => random.random_range(0..=(capacity - bytes) / 512) * 512,
        };
        next = offset + bytes;
        let (offset, bytes) = if kind == Kind::Flush { (0, 0) } else { (offset, bytes) };
        Arrival { at: now, op: Op { kind, offset, bytes, fua: random.random_ratio(1, 4) } }
    };
    (0..count).map(|_| arrival()).collect()
}

/// Submits each arrival at its time, or at the first completion after it that makes room. Returns
/// when each was submitted, and the completions in the order they were handed out.
fn run(device: &mut dyn Device, arrivals: &[Arrival]) -> (Vec<Instant>, Vec<Completion>) {
    let mut done = Vec::new();
    let mut submitted: Vec<Instant> = Vec::new();
    let mut now = Instant::ZERO;
    for (tag, arrival) in (0..).zip(arrivals) {
        now = now.max(arrival.at);
        while submitted.len() - done.len() == device.queue_depth() as usize {
            now = now.max(device.next_completion().expect("a full device completes something"));
            device.advance(now, &mut done);
        }
        device.advance(now, &mut done);
        device.submit(now, tag, arrival.op);
        submitted.push(now);
    }
    while let Some(at) = device.next_completion() {
        device.advance(now.max(at), &mut done);
        now = now.max(at);
    }
    (submitted, done)
}

/// Disks with every fault, one slower and one faster later, the second with a past.
const FAULTY: [Preset; 2] = [
    Preset {
        name: "faulty and slower",
        doc: "",
        build: |seed| Box::new(Faulty::new(deskstar(seed), Instant::ZERO, faults(333))),
        parameters: Parameters::Other,
    },
    Preset {
        name: "faulty and faster",
        doc: "",
        build: |seed| {
            let mut device = (find("flash-generic").expect("a preset").build)(seed);
            let now = Instant::ZERO + Duration::from_secs(1);
            device.advance(now, &mut Vec::new());
            Box::new(Faulty::new(device, now, faults(1777)))
        },
        parameters: Parameters::Other,
    },
];

fn deskstar(seed: u64) -> Box<dyn Device> {
    (find("deskstar-34gxp").expect("a preset").build)(seed)
}

const fn faults(speed_permille: u32) -> Faults {
    let (every, length) = (Duration::from_millis(300), Duration::from_millis(40));
    Faults {
        pauses: Some(Pauses { every, length }),
        step: Some(Step { after: Duration::from_millis(1001), speed_permille }),
        outliers: Some(Outliers { one_in: 7, delay: Duration::from_millis(25) }),
        cleaning: Some(Cleaning { after_bytes: 3 << 20, takes: Duration::from_millis(50) }),
    }
}

fn devices() -> impl Iterator<Item = &'static Preset> {
    PRESETS.iter().chain(&FAULTY)
}

fn each(test: impl Fn(&Preset)) {
    for preset in devices() {
        eprintln!("preset {}", preset.name);
        test(preset);
    }
}

#[test]
fn each_operation_completes_once_in_order_and_later_than_submitted() {
    each(|preset| {
        let mut device = (preset.build)(1);
        let arrivals = arrivals(2, 2000, device.capacity_bytes());
        let (submitted, done) = run(&mut *device, &arrivals);
        let mut tags: Vec<u64> = done.iter().map(|completion| completion.tag).collect();
        tags.sort_unstable();
        assert!(tags.into_iter().eq(0..2000));
        assert!(done.windows(2).all(|pair| pair[0].at <= pair[1].at));
        for Completion { tag, at, .. } in done {
            assert!(at > submitted[usize::try_from(tag).unwrap()], "{tag} at {at:?}");
        }
        assert_eq!(device.next_completion(), None);
    });
}

#[test]
fn nothing_completes_before_its_announced_time() {
    each(|preset| {
        let mut device = (preset.build)(1);
        let op = Op { kind: Kind::Read, offset: 0, bytes: 4096, fua: false };
        let start = Instant::from_nanos(1_000_000);
        device.submit(start, 7, op);
        let at = device.next_completion().expect("an operation is inside");
        let mut done = Vec::new();
        device.advance(at - Duration::from_nanos(1), &mut done);
        assert!(done.is_empty());
        device.advance(at, &mut done);
        assert_eq!((done.len(), done[0].tag, done[0].at), (1, 7, at));
    });
}

#[test]
fn one_seed_makes_one_timeline() {
    each(|preset| {
        let once = || {
            let mut device = (preset.build)(3);
            let arrivals = arrivals(4, 1000, device.capacity_bytes());
            run(&mut *device, &arrivals)
        };
        assert_eq!(once(), once());
    });
}

#[test]
fn the_first_and_the_last_byte_are_there() {
    each(|preset| {
        let mut device = (preset.build)(1);
        let capacity = device.capacity_bytes();
        assert!(capacity > 0 && capacity.is_multiple_of(512), "{capacity}");
        let mut now = Instant::ZERO;
        for (offset, bytes) in [(0, 1), (capacity - 1, 1), (capacity - 4096, 4096)] {
            device.submit(now, offset, Op { kind: Kind::Read, offset, bytes, fua: false });
            now = device.next_completion().expect("an operation is inside");
            let mut done = Vec::new();
            device.advance(now, &mut done);
            assert_eq!((done.len(), done[0].tag, done[0].at), (1, offset, now));
        }
    });
}

#[test]
fn the_queue_is_as_deep_as_it_says() {
    each(|preset| {
        let fill = |extra: u32| {
            let mut device = (preset.build)(1);
            for tag in 0..u64::from(device.queue_depth() + extra) {
                let op = Op { kind: Kind::Read, offset: tag * 4096, bytes: 4096, fua: false };
                device.submit(Instant::ZERO, tag, op);
            }
        };
        fill(0);
        let above = std::panic::catch_unwind(|| fill(1));
        assert!(above.is_err(), "{} took more than its queue holds", preset.name);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Looking late changes nothing, as long as the same is submitted at the same times.
    #[test]
    fn a_late_look_changes_no_completion(seed in any::<u64>(), looks in prop::collection::vec(any::<bool>(), 1..20)) {
        for preset in devices() {
            let mut device = (preset.build)(seed);
            let depth = device.queue_depth() as usize;
            let arrivals = arrivals(seed, 300, device.capacity_bytes());
            let (submitted, prompt) = run(&mut *device, &arrivals);
            // Again at the very same times, with another habit of looking; but without room it has
            // to look.
            let mut device = (preset.build)(seed);
            let mut habit = looks.iter().cycle();
            let mut late = Vec::new();
            for (tag, (arrival, &at)) in arrivals.iter().zip(&submitted).enumerate() {
                if *habit.next().expect("a cycle has no end") || tag - late.len() == depth {
                    device.advance(at, &mut late);
                }
                device.submit(at, u64::try_from(tag).expect("a small number"), arrival.op);
            }
            device.advance(Instant::MAX, &mut late);
            prop_assert_eq!(&late, &prompt, "{}", preset.name);
        }
    }
}
