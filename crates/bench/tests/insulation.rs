//! The insulation bench on cells that take moments: good policies come out good, bad ones bad.

use std::num::NonZero;

use disktime_bench::insulation::{self, Cell, Row, Selection, Settings};
use disktime_core::policy::PolicyEntry;

const RANDOM: &str = "deskstar-34gxp/random-4k/random-4k/50";
const FEW: NonZero<usize> = NonZero::new(12).expect("more than 0");

fn settings(threads: usize) -> Settings {
    let threads = NonZero::new(threads).expect("more than 0");
    Settings { seed: 1, windows: FEW, threads }
}

fn run(policies: &[&str], cells: &str, threads: usize) -> Vec<Row> {
    let cells: Vec<Cell> = cells.parse::<Selection>().expect("cells").cells().collect();
    let find = |name: &&str| disktime_rivals::find(name).expect("registered");
    let policies: Vec<&'static PolicyEntry> = policies.iter().map(find).collect();
    insulation::run(&policies, &cells, settings(threads), |_| {})
}

#[test]
fn random_beside_random_is_insulated_by_time_shares_and_not_by_turns() {
    let [zygaria, fifo] = run(&["zygaria", "fifo"], RANDOM, 2)[..] else { panic!("two rows") };
    assert!((0.98..1.02).contains(&zygaria.insulation_mean), "{zygaria:?}");
    assert!(zygaria.insulation_p01 > 0.95 && zygaria.windows_above_0_9 == 1.0, "{zygaria:?}");
    assert!(zygaria.share_error_points < 0.2, "{zygaria:?}");
    assert!((0.98..1.02).contains(&zygaria.work_conservation), "{zygaria:?}");
    // One of the victim's beside four of the antagonist's: a fifth of the turns, 30 points too few.
    assert!((0.35..0.45).contains(&fifo.insulation_mean), "{fifo:?}");
    assert!((25.0..35.0).contains(&fifo.share_error_points), "{fifo:?}");
    assert!(fifo.windows_above_0_9 == 0.0 && fifo.p99_ratio > zygaria.p99_ratio, "{fifo:?}");
}

#[test]
fn a_victim_has_the_device_while_the_antagonist_rests() {
    let rows = run(&["zygaria"], "deskstar-34gxp/random-4k/on-off/50", 1);
    // Half of the time alone, half of it at half: 0.75 of alone, 1.5 times the share.
    assert!((1.3..1.55).contains(&rows[0].insulation_mean), "{rows:?}");
}

#[test]
fn a_seed_is_a_result_however_many_threads() {
    let cells = "deskstar-34gxp/half-writes/*/10";
    let one = run(&["zygaria", "drr"], cells, 1);
    assert_eq!(one, run(&["zygaria", "drr"], cells, 2));
    let policies: Vec<_> = one.iter().map(|row| row.policy).collect();
    assert_eq!(policies, [["zygaria"; 7], ["drr"; 7]].concat(), "in the order asked for");
}

#[test]
fn prices_make_shares_of_flash_exact() {
    let rows = run(&["zygaria"], "flash-generic/sequential-128k/sequential-1m/30", 1);
    assert!((0.97..1.03).contains(&rows[0].insulation_mean), "{rows:?}");
    assert!(rows[0].share_error_points < 1.0, "{rows:?}");
}
