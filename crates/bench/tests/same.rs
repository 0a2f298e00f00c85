//! Scenarios do what was blessed: every third figure and cell, and all of the swarm; `cargo xtask bench same`
//! is for all. A change that is meant is blessed anew by `cargo xtask bless NAME…`.

use std::num::NonZero;

use disktime_bench::same::{Blessed, Scenario, scenarios, take};

/// The scenarios whose names begin so, one in so many of them, and no blessed name beside all of them.
fn as_blessed(prefix: &str, one_in: usize) {
    let blessed: Blessed = include_str!("../blessed.txt").parse().expect("the file is sound");
    let begins = |it: &Scenario| it.name().starts_with(prefix);
    let all: Vec<_> = scenarios().into_iter().filter(begins).collect();
    assert!(all.len() > 50, "{prefix}: {} scenarios", all.len());
    let known = |name: &str| all.iter().any(|it| it.name() == name);
    let gone = blessed.only(|name| name.starts_with(prefix) && !known(name));
    assert_eq!(gone, Blessed::default(), "scenarios that are no more");
    let chosen: Vec<_> = all.iter().step_by(one_in).cloned().collect();
    let now = take(&chosen, NonZero::<usize>::MIN);
    let is_chosen = |name: &str| chosen.iter().any(|it| it.name() == name);
    let differences = blessed.only(is_chosen).differences(&now);
    let lines: Vec<_> = differences.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "`cargo xtask bless` if that is meant:\n{}", lines.join("\n"));
}

#[test]
fn figures_are_as_blessed() {
    as_blessed("paper/", 3);
}

#[test]
fn insulation_cells_are_as_blessed() {
    as_blessed("insulation/", 3);
}

#[test]
fn the_swarm_is_as_blessed() {
    as_blessed("swarm/", 1);
}
