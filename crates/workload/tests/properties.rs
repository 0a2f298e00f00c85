//! Properties that hold for every load.

use disktime_core::{Duration, Instant, Kind};
use disktime_workload::{
    Arrivals, Extent, Generator, IoOp, Pace, Pattern, SizeWeight, Source, Spec,
};
use proptest::prelude::*;

/// Any operation: only a player looks at it.
const READ: IoOp = IoOp { kind: Kind::Read, offset: 0, bytes: 4096 };

const START: Instant = Instant::from_nanos(5_000);

fn patterns() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        Just(Pattern::Random),
        Just(Pattern::Sequential),
        (1_u32..40).prop_map(|length| Pattern::Runs { length }),
        (0_u32..5, 1_u32..40)
            .prop_map(|(random, sequential)| Pattern::SemiSequential { random, sequential }),
        (1..1000_u16, 1..1000_u16).prop_map(|(part_permille, operations_permille)| {
            Pattern::Skewed { part_permille, operations_permille }
        }),
    ]
}

/// Specs without fault: sizes are multiples of the unit, and a whole run fits.
fn specs() -> impl Strategy<Value = Spec> {
    let sizes = prop::collection::vec((1_u64..9, 0_u32..5), 0..4);
    (patterns(), 0_u64..1 << 40, 320_u64..5000, 1_u64..10_000, sizes, 0_u16..=1000).prop_map(
        |(pattern, start, units, unit, more, reads_permille)| {
            let mut sizes = vec![SizeWeight { bytes: unit, weight: 1 }];
            let size = |(times, weight)| SizeWeight { bytes: times * unit, weight };
            sizes.extend(more.into_iter().map(size));
            // A last part of a unit is never used.
            let extent = Extent { start, end: start + units * unit + unit / 2 };
            Spec { pattern, extent, sizes, reads_permille, trims_permille: 0, flush_after: None }
        },
    )
}

fn ops(spec: &Spec, seed: u64, name: &str, count: usize) -> Vec<IoOp> {
    let mut generator = Generator::new(spec.clone(), seed, name).expect("the spec has no fault");
    (0..count).map(|_| generator.next_op()).collect()
}

proptest! {
    #[test]
    fn operations_stay_in_the_extent_and_aligned(spec in specs(), seed: u64) {
        let unit = spec.sizes[0].bytes;
        for op in ops(&spec, seed, "load", 300) {
            prop_assert!(op.offset >= spec.extent.start && op.offset + op.bytes <= spec.extent.end);
            prop_assert_eq!((op.offset - spec.extent.start) % unit, 0);
            let listed = |size: &SizeWeight| size.bytes == op.bytes && size.weight > 0;
            prop_assert!(spec.sizes.iter().any(listed));
        }
    }

    #[test]
    fn one_seed_and_name_make_one_sequence(spec in specs(), seed: u64) {
        prop_assert_eq!(ops(&spec, seed, "a", 200), ops(&spec, seed, "a", 200));
        if spec.pattern == Pattern::Random {
            prop_assert_ne!(ops(&spec, seed, "a", 200), ops(&spec, seed, "b", 200));
            prop_assert_ne!(ops(&spec, seed, "a", 200), ops(&spec, seed ^ 1, "a", 200));
        }
    }

    #[test]
    fn runs_have_their_length(spec in specs(), seed: u64, length in 1_u32..40) {
        let spec = Spec { pattern: Pattern::Runs { length }, ..spec };
        let length = length as usize;
        let ops = ops(&spec, seed, "load", length * 20);
        for run in ops.chunks(length) {
            prop_assert!(run.windows(2).all(|pair| pair[0].offset + pair[0].bytes == pair[1].offset));
        }
        let jumps = ops.chunks(length).collect::<Vec<_>>();
        let jumps = jumps.windows(2).filter(|pair| {
            let last = pair[0][length - 1];
            last.offset + last.bytes != pair[1][0].offset
        });
        // A jump may by chance lead to where the run ended, but not often.
        prop_assert!(jumps.count() >= 15);
    }

    #[test]
    fn a_new_mix_of_kinds_moves_nothing(spec in specs(), seed: u64) {
        let reads = Spec { reads_permille: 1000, ..spec.clone() };
        let place = |op: IoOp| (op.offset, op.bytes);
        let mixed = ops(&spec, seed, "load", 100).into_iter().map(place);
        prop_assert!(mixed.eq(ops(&reads, seed, "load", 100).into_iter().map(place)));
    }

    #[test]
    fn a_closed_loop_keeps_its_number_outstanding(
        outstanding in 1_u32..40, think in 0_u64..1000, seed: u64,
        steps in prop::collection::vec((0_u64..500, any::<bool>()), 1..200),
    ) {
        let think = Duration::from_nanos(think);
        let mut source = source(Pace::Closed { outstanding, think }, seed);
        let mut now = START;
        for (span, complete) in steps {
            now = now + Duration::from_nanos(span);
            if complete && source.outstanding() > 0 {
                source.completed(now, &READ);
                if source.outstanding() + 1 == outstanding && think > Duration::ZERO {
                    prop_assert_eq!(source.next_at(), Some(now + think));
                }
            }
            while source.poll(now).is_some() {}
            prop_assert!(source.outstanding() <= outstanding);
            let thinks = source.next_at().is_some_and(|at| at > now && at <= now + think);
            prop_assert!(thinks || source.outstanding() == outstanding);
        }
    }

    #[test]
    fn an_open_loop_is_exact_however_it_is_polled(
        interval in 1_000_u64..1_000_000, seed: u64, poisson: bool,
        steps in prop::collection::vec(0_u64..3_000_000, 1..100),
    ) {
        let interval = Duration::from_nanos(interval);
        let arrivals = if poisson {
            Arrivals::Poisson { mean: interval }
        } else {
            Arrivals::Constant { interval }
        };
        // Once at its own times, and once at times of our own.
        let mut prompt = source(Pace::Open(arrivals), seed);
        let mut late = prompt.clone();
        let mut now = START;
        for span in steps {
            now = now + Duration::from_nanos(span);
            while let Some(due) = prompt.next_at().filter(|&at| at <= now) {
                let number = u64::from(prompt.outstanding());
                let even = START + Duration::from_nanos(number * interval.as_nanos());
                prop_assert!(poisson || due == even);
                prop_assert_eq!(late.next_at(), Some(due));
                let op = prompt.poll(due);
                prop_assert!(op.is_some());
                prop_assert_eq!(late.poll(now), op);
            }
            prop_assert_eq!(late.poll(now), None);
        }
    }
}

/// Random reads at a pace.
fn source(pace: Pace, seed: u64) -> Source {
    let spec = Spec::reads(Pattern::Random, Extent { start: 0, end: 1 << 30 }, 4096);
    Source::new(spec, pace, seed, "load", START).expect("nothing is wrong with it")
}

#[test]
fn a_semi_sequential_cycle_goes_on_where_its_sequence_was() {
    let pattern = Pattern::SemiSequential { random: 2, sequential: 3 };
    let extent = Extent { start: 1 << 20, end: 1 << 40 };
    let ops = ops(&Spec::reads(pattern, extent, 4096), 1, "load", 500);
    let mut expected = extent.start;
    for cycle in ops.chunks(5) {
        for op in &cycle[2..] {
            assert_eq!(op.offset, expected);
            expected += op.bytes;
        }
    }
    // Random ones lie where no sequence of this length comes.
    let far = |op: &&IoOp| op.offset > expected;
    assert_eq!(ops.iter().filter(far).count(), 200);
}

#[test]
fn a_sequence_starts_over_when_the_next_does_not_fit() {
    let spec = Spec::reads(Pattern::Sequential, Extent { start: 100, end: 135 }, 10);
    let offsets: Vec<u64> = ops(&spec, 1, "load", 5).iter().map(|op| op.offset).collect();
    assert_eq!(offsets, [100, 110, 120, 100, 110]);
}

#[test]
fn kinds_and_sizes_come_as_often_as_asked() {
    let sizes = [(4096, 1), (65_536, 3)].map(|(bytes, weight)| SizeWeight { bytes, weight });
    let extent = Extent { start: 0, end: 1 << 30 };
    let spec = Spec {
        reads_permille: 700,
        sizes: sizes.into(),
        ..Spec::reads(Pattern::Random, extent, 4096)
    };
    let ops = ops(&spec, 1, "load", 10_000);
    let reads = ops.iter().filter(|op| op.kind == Kind::Read).count();
    let small = ops.iter().filter(|op| op.bytes == 4096).count();
    assert!(reads.abs_diff(7000) < 150, "{reads} reads");
    assert!(small.abs_diff(2500) < 150, "{small} small");
}

#[test]
fn random_operations_are_spread_over_the_whole_extent() {
    let spec = Spec::reads(Pattern::Random, Extent { start: 0, end: 16 * 4096 }, 4096);
    let mut hits = [0_u32; 16];
    for op in ops(&spec, 1, "load", 16_000) {
        hits[usize::try_from(op.offset / 4096).expect("below 16")] += 1;
    }
    assert!(hits.iter().all(|&count| count.abs_diff(1000) < 150), "{hits:?}");
}

#[test]
#[should_panic(expected = "nothing outstanding")]
fn a_completion_too_many_is_the_callers_error() {
    source(Pace::Closed { outstanding: 1, think: Duration::ZERO }, 1).completed(START, &READ);
}

#[test]
fn a_flush_comes_after_every_so_many_writes() {
    let reads = |pattern| Spec::reads(pattern, Extent { start: 0, end: 1 << 30 }, 4096);
    let writes = Spec { reads_permille: 0, flush_after: Some(3), ..reads(Pattern::Sequential) };
    let mut generator = Generator::new(writes.clone(), 1, "load").expect("the spec has no fault");
    let ops: Vec<IoOp> = (0..9).map(|_| generator.next_op()).collect();
    let flushes: Vec<bool> = ops.iter().map(|op| op.kind == Kind::Flush).collect();
    assert_eq!(flushes, [false, false, false, true, false, false, false, true, false]);
    assert_eq!((ops[3].offset, ops[3].bytes), (0, 0));
    // The sequence goes on as if there were none, and reads don't count.
    assert_eq!(ops[4].offset, ops[2].offset + ops[2].bytes);
    let mut without = Generator::new(Spec { flush_after: None, ..writes }, 1, "load")
        .expect("the spec has no fault");
    let plain: Vec<IoOp> = (0..7).map(|_| without.next_op()).collect();
    let kept: Vec<IoOp> = ops.into_iter().filter(|op| op.kind != Kind::Flush).collect();
    assert_eq!(kept, plain);
    let unflushed = Spec { flush_after: Some(1), ..reads(Pattern::Random) };
    let mut generator = Generator::new(unflushed, 1, "load").expect("the spec has no fault");
    assert!((0..100).all(|_| generator.next_op().kind == Kind::Read));
}

#[test]
fn scenario_files_say_flushes() {
    let text =
        "pattern = \"random\"\nextent = { end = \"1MiB\" }\nsizes = \"4KiB\"\nflush_after = 4";
    let spec: Spec = toml::from_str(text).expect("each key is right");
    assert_eq!(spec.flush_after, Some(4));
}

/// 80 % of the operations in the first fifth, and of these 80 % in its first fifth.
#[test]
fn a_skewed_load_goes_to_the_first_places_and_within_them_again() {
    let pattern = Pattern::Skewed { part_permille: 200, operations_permille: 800 };
    let spec = Spec::reads(pattern, Extent { start: 4096, end: 4096 + 1000 * 4096 }, 4096);
    let mut generator = Generator::new(spec, 1, "load").unwrap();
    let places: Vec<u64> = (0..10_000).map(|_| generator.next_op().offset / 4096 - 1).collect();
    let within = |end: u64| places.iter().filter(|place| **place < end).count();
    assert!((7_900..8_100).contains(&within(200)), "{}", within(200));
    assert!((6_250..6_550).contains(&within(40)), "{}", within(40));
    assert!(places.iter().any(|place| *place > 990) && within(1000) == 10_000);
}

#[test]
fn trims_are_among_what_does_not_read() {
    let extent = Extent { start: 0, end: 1 << 20 };
    let reads = Spec::reads(Pattern::Random, extent, 4096);
    let spec = Spec { reads_permille: 500, trims_permille: 200, ..reads };
    let mut generator = Generator::new(spec, 1, "load").unwrap();
    let kinds: Vec<Kind> = (0..10_000).map(|_| generator.next_op().kind).collect();
    let count = |kind| kinds.iter().filter(|it| **it == kind).count();
    assert!((4_850..5_150).contains(&count(Kind::Read)), "{}", count(Kind::Read));
    assert!((900..1_100).contains(&count(Kind::Trim)), "{}", count(Kind::Trim));
    let text = "pattern = { skewed = { part = \"20%\", operations = \"80%\" } }\n\
                extent = { end = \"1MiB\" }\nsizes = \"4KiB\"\ntrims = \"10%\"";
    let spec: Spec = toml::from_str(text).unwrap();
    assert_eq!(spec.trims_permille, 100);
    let skewed = Pattern::Skewed { part_permille: 200, operations_permille: 800 };
    assert_eq!(spec.pattern, skewed);
}
