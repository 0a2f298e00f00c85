//! Admission over random sets, against an oracle that tries them; its figures are printed.
//!
//! All of it, in minutes:
//! `cargo test --release -p disktime-papers --test sets -- --ignored --nocapture`
#![allow(clippy::print_stdout, reason = "the figures are what it is for")]

use disktime_papers::sets::{DISKS, Totals, measure_sets};

fn measured(seeds: u64) -> [Totals; 3] {
    DISKS.map(|disk| {
        let totals = measure_sets(disk, 1..seeds + 1);
        let Totals { sets, oracle, deterministic, statistical } = totals;
        println!(
            "{disk}, {sets} sets: the oracle takes {:.1} MB/s",
            oracle / 1e6 / f64::from(sets)
        );
        for (name, kept) in [("deterministic", deterministic), ("statistical 1 %", statistical)] {
            let (part, all) = (kept.missed as f64, kept.cycles as f64);
            println!(
                "  {name}: {:.3} of it, {} of {} cycles missed ({:.3} %), in {} sets",
                kept.rate / oracle,
                kept.missed,
                kept.cycles,
                part / all * 100.0,
                kept.sets_missed
            );
        }
        totals
    })
}

#[test]
fn a_deterministic_promise_is_kept() {
    for totals in measured(4) {
        assert_eq!(totals.deterministic.missed, 0, "{totals:?}");
        assert!(totals.deterministic.rate > 0.0 && totals.oracle > 0.0, "{totals:?}");
    }
}

/// Measured: deterministic 0.864, 0.427 and 0.877 of the oracle, statistical 0.891, 0.754 and 0.996
/// with at most 0.15 % of cycles missed, in the order of `DISKS`. So the nearline disk is short of both
/// reaches; and on the st318437lw a firm promise breaks in 10 of 200 sets, 34 cycles, always of a fast
/// writer (with readers alone none breaks). In part the profile is why: it measures writes of 1 MiB, and
/// sequential writes of 128 KiB take 9 to 14 % more than it says there. Writes reckoned 15 % slower
/// still miss 25 cycles in 6 sets: the rest is not explained yet.
#[test]
#[ignore = "minutes: 200 sets on each of three disks"]
fn admission_reaches_what_was_asked() {
    for Totals { oracle, deterministic, statistical, .. } in measured(200) {
        assert_eq!(deterministic.missed, 0);
        assert!(deterministic.rate >= 0.5 * oracle);
        assert!(statistical.missed * 100 <= statistical.cycles);
        assert!(statistical.rate >= 0.8 * oracle);
    }
}
