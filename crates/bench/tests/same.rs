//! Every scenario does what was blessed: `cargo xtask bench same`, in the check. A change that is meant is
//! blessed anew by `cargo xtask bless NAME…`.

use std::num::NonZero;

use disktime_bench::same::{Blessed, Scenario, scenarios, take};

/// The scenarios whose names begin so, and no blessed name beside them.
fn as_blessed(prefix: &str) {
    let blessed: Blessed = include_str!("../blessed.txt").parse().expect("the file is sound");
    let begins = |it: &Scenario| it.name().starts_with(prefix);
    let chosen: Vec<_> = scenarios().into_iter().filter(begins).collect();
    assert!(chosen.len() > 50, "{prefix}: {} scenarios", chosen.len());
    let now = take(&chosen, NonZero::<usize>::MIN);
    let differences = blessed.only(|name| name.starts_with(prefix)).differences(&now);
    let lines: Vec<_> = differences.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "`cargo xtask bless` if that is meant:\n{}", lines.join("\n"));
}

#[test]
fn figures_are_as_blessed() {
    as_blessed("paper/");
}

#[test]
fn insulation_cells_are_as_blessed() {
    as_blessed("insulation/");
}

#[test]
fn the_swarm_is_as_blessed() {
    as_blessed("swarm/");
}
