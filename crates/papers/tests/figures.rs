//! Every figure at full length, all but a few with one seed, and what holds for all of them.

use disktime_papers::{Check, Report, Runs, Values, find, run};
use std::num::NonZero;

/// Bounds are for the mean over three seeds, and published figures have three here. Not in a paper
/// and minutes long: these have one, and five in `cargo xtask bench figures`.
const ONE_SEED: &[&str] = &[
    "blackbox-flash",
    "blackbox-raid",
    "blackbox-drift",
    "blackbox-parity",
    "blackbox-cached",
    "reward-loop",
    "reward-shares",
    "reward-insulated-disk",
    // Red, also with the first seed alone, and minutes long over three.
    "qbox-14",
    "qbox-16",
];
/// These take long over the numbers that are left open: the check has them at the values shown, `cargo
/// xtask bench figures` over their ranges.
const SHOWN_ALONE: &[&str] = &[
    "qbox-8",
    "qbox-9",
    "qbox-14",
    "qbox-15",
    "qbox-16",
    "reward-learned",
    "zygaria-7",
    "zygaria-8",
];

fn report_over(id: &str, runs: Runs, threads: usize) -> Report {
    let experiment = find(id).expect("a registered id");
    let threads = NonZero::new(threads).expect("some threads");
    run(&[experiment], runs, threads, |_, _| {}).remove(0)
}

fn report(id: &str, threads: usize) -> Report {
    report_over(id, Runs::of_seeds(NonZero::<u32>::MIN), threads)
}

/// Over three seeds, and with the first at the ends of the middle half of what is left open.
fn holds(id: &str) {
    let seeds = NonZero::new(if ONE_SEED.contains(&id) { 1 } else { 3 }).expect("some seeds");
    let bands = Some((Values::MiddleEnds, NonZero::<u32>::MIN));
    let bands = bands.filter(|_| !SHOWN_ALONE.contains(&id));
    let report = report_over(id, Runs { bands, ..Runs::of_seeds(seeds) }, 1);
    let missed: Vec<&Check> = report.missed().collect();
    assert!(missed.is_empty(), "{id}: {missed:#?} {:#?}", report.bands);
}

macro_rules! figures {
    ($($name:ident $id:literal,)*) => {
        const IDS: &[&str] = &[$($id),*];
        $(#[test]
        fn $name() {
            holds($id);
        })*
    };
}

figures! {
    zygaria_1 "zygaria-1",
    zygaria_2 "zygaria-2",
    zygaria_4 "zygaria-4",
    zygaria_5 "zygaria-5",
    zygaria_6 "zygaria-6",
    zygaria_7 "zygaria-7",
    zygaria_8 "zygaria-8",
    zygaria_9 "zygaria-9",
    zygaria_10 "zygaria-10",
    zygaria_11 "zygaria-11",
    mdn_2a "mdn-2a",
    mdn_2b "mdn-2b",
    mdn_2c "mdn-2c",
    mdn_3a "mdn-3a",
    mdn_3b "mdn-3b",
    mdn_4 "mdn-4",
    mdn_5 "mdn-5",
    mdn_6 "mdn-6",
    mdn_7 "mdn-7",
    mdn_8 "mdn-8",
    mdn_adaptive "mdn-adaptive",
    mdn_cheat "mdn-cheat",
    reward_example "reward-example",
    reward_t1 "reward-t1",
    reward_t2 "reward-t2",
    reward_2 "reward-2",
    reward_3 "reward-3",
    reward_loop "reward-loop",
    reward_shares "reward-shares",
    reward_falling "reward-falling",
    reward_goal "reward-goal",
    reward_depth "reward-depth",
    reward_learned "reward-learned",
    reward_learned_loop "reward-learned-loop",
    reward_insulated "reward-insulated",
    reward_insulated_disk "reward-insulated-disk",
    ucsb_eq1 "ucsb-eq1",
    ucsb_5 "ucsb-5",
    ucsb_6 "ucsb-6",
    ucsb_7 "ucsb-7",
    qbox_2 "qbox-2",
    qbox_4 "qbox-4",
    qbox_7 "qbox-7",
    qbox_8 "qbox-8",
    qbox_9 "qbox-9",
    qbox_10 "qbox-10",
    qbox_11 "qbox-11",
    qbox_12 "qbox-12",
    qbox_13 "qbox-13",
    qbox_14 "qbox-14",
    qbox_15 "qbox-15",
    qbox_16 "qbox-16",
    qbox_17 "qbox-17",
    qbox_18 "qbox-18",
    qbox_19 "qbox-19",
    qbox_20 "qbox-20",
    qbox_4_7 "qbox-4.7",
    blackbox_flash "blackbox-flash",
    blackbox_raid "blackbox-raid",
    blackbox_drift "blackbox-drift",
    blackbox_parity "blackbox-parity",
    blackbox_cached "blackbox-cached",
}

/// `zygaria_11` is known to fail: what it misses must stay all that it misses.
#[test]
fn figure_11_misses_nothing_but_the_start_overshoot() {
    let report = report("zygaria-11", 1);
    let missed = report.checks.iter().filter(|check| !check.pass());
    let missed: Vec<&str> = missed.map(|check| check.name.as_str()).collect();
    let overshoot =
        |stream| format!("stream {stream}: start overshoot, seconds of its reservation");
    assert_eq!(missed, [overshoot(2), overshoot(3)]);
}

/// Names of what a figure misses with the first seed.
fn missed(id: &str) -> Vec<String> {
    let report = report(id, 1);
    report.checks.iter().filter(|check| !check.pass()).map(|check| check.name.clone()).collect()
}

/// `qbox_14` is known to fail: with a queue inside the disks the published estimator's ratio of
/// costs is 50 beside one sequential stream and 65 to 74 beside two, which hides the dip. The
/// missed checks must stay QBox's, but for the dip under `learned`, whose slices are so long that a third
/// stream's switches cost A and B nothing (with a horizon of 20 ms they dip by 4.9 %).
#[test]
fn qbox_14_misses_nothing_but_dips_and_c_at_queue_31() {
    let known = [
        "qbox, disk queue 31: throughput of C off its mean at most, %",
        "qbox, disk queue 31: A + B is lower where they are alike, by %",
        "learned, disk queue 31: A + B is lower where they are alike, by %",
    ];
    // With the first seed C is a hair within its bound, and over three it is not.
    let missed = missed("qbox-14");
    assert!(missed.iter().all(|name| known.contains(&name.as_str())), "{missed:#?}");
    assert!(!missed.is_empty());
}

/// `reward_insulated_disk` is known to fail: for two of three whose pieces mix on the disk.
#[test]
fn reward_insulated_disk_misses_nothing_but_insulation_on_the_disk() {
    for check in report("reward-insulated-disk", 1).checks.iter().filter(|check| !check.pass()) {
        let on_disk = ["hits 0.9: insulation", "hits 0.5: insulation"];
        let on_disk = on_disk.iter().any(|name| check.name.starts_with(name));
        // At a depth of 32, as the paper has it; .84 at 64.
        assert!(on_disk && check.measured > 0.8, "{check:?}");
    }
}

/// The published estimator's bias: a random stream that should have 70 % of two disks has more, since
/// the ratio of its two costs comes out too low.
#[test]
fn qbox_as_published_favours_a_random_stream_with_seventy_percent() {
    let report = report("qbox-8", 1);
    let measured = |name: &str| {
        let check = report.checks.iter().find(|check| check.name.contains(name));
        check.expect("the figure has it").measured
    };
    assert!((74.0..85.0).contains(&measured("(a) random D")), "{:#?}", report.checks);
}

#[test]
fn every_registered_figure_is_tested_here() {
    let registered: Vec<&str> =
        disktime_papers::experiments().map(|experiment| experiment.id).collect();
    assert_eq!(registered, IDS);
}

#[test]
fn one_seed_gives_one_report_on_any_number_of_threads() {
    let experiments = ["zygaria-1", "zygaria-10", "zygaria-11"].map(|id| find(id).unwrap());
    let json = |threads| {
        let (seeds, threads) = (NonZero::new(2).unwrap(), NonZero::new(threads).unwrap());
        let runs = Runs { first_seed: 11, ..Runs::of_seeds(seeds) };
        serde_json::to_string(&run(&experiments, runs, threads, |_, _| {})).unwrap()
    };
    let once = json(1);
    assert_eq!(once, json(1));
    assert_eq!(once, json(3));
}
