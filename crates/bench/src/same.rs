//! Whether the product still does what it did: fingerprints of scenarios that cover it, beside
//! those that were blessed.
//!
//! - [`scenarios`]: all of them. `paper/…` is every figure at seed 1, each of its simulations cut
//!   short; `insulation/…` every cell of the matrix under the default policy, for one window; and
//!   `swarm/…` a random plan under every policy at every depth.
//! - [`Selection`]: some of them, as a person names them.
//! - [`take`]: simulates scenarios and answers their fingerprints.
//! - [`Blessed`]: fingerprints by scenario, as a text of one line each; [`Blessed::differences`]
//!   compares.
//!
//! `cargo xtask bless` and `cargo xtask bench same` are this for people. Does not know: files.

mod blessed;

pub use blessed::{Blessed, BlessedError, Difference, Fault};

use std::num::NonZero;

use disktime_config::Scheduling;
use disktime_core::{Duration, cost};
use disktime_papers::Experiment;
use disktime_sim::{Cut, Plan, fingerprint, simulate, swarm};

use crate::insulation::{self, Cell, Settings};

/// The seed of every random number.
const SEED: u64 = 1;

/// Where simulations of figures end. A figure's simulations last up to an hour and send millions of
/// pieces, mostly in a steady state: all figures together take 135 s of processor time uncut.
const FIGURE: Cut = Cut { after: Duration::from_secs(600), dispatches: 200_000 };

/// Depths of the swarm's plans: with 22 policies about a hundred plans.
const DEPTHS: [u32; 5] = [1, 2, 4, 8, 32];

/// Something to simulate, always the same.
#[derive(Clone)]
pub struct Scenario {
    name: String,
    what: What,
}

#[derive(Clone)]
enum What {
    Figure(&'static Experiment),
    Cell(Cell),
    Swarm { policy: &'static str, depth: u32 },
}

/// Every scenario, in order of name.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let named = |name, what| Scenario { name, what };
    let figure = |it: &'static Experiment| named(format!("paper/{}", it.id), What::Figure(it));
    let cell = |cell| named(format!("insulation/{cell}"), What::Cell(cell));
    let swarm = |policy: &'static str, depth| {
        named(format!("swarm/{policy}/{depth}"), What::Swarm { policy, depth })
    };
    let policies = disktime_rivals::all().map(|entry| entry.name);
    let mut all: Vec<_> = disktime_papers::experiments().map(figure).collect();
    all.extend(insulation::cover().into_iter().map(cell));
    all.extend(policies.flat_map(|policy| DEPTHS.map(|depth| swarm(policy, depth))));
    all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    all
}

impl Scenario {
    /// Kind and place: `paper/qbox-13`, `swarm/disktime/8`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn simulate(&self) {
        match &self.what {
            What::Figure(experiment) => drop((experiment.measure)(SEED)),
            What::Cell(cell) => {
                let one = NonZero::<usize>::MIN;
                let settings = Settings { seed: SEED, windows: one, threads: one };
                insulation::run_alone(insulation::OWN, *cell, settings);
            }
            What::Swarm { policy, depth } => {
                simulate(swarm_plan(policy, *depth)).expect("the swarm's plans can be run");
            }
        }
    }
}

/// Some scenarios, of those that there are and those that were blessed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection(Vec<String>);

/// A word that selects nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "NAME: `{0}` is neither a scenario's name nor the beginning of one; names are like \
     paper/qbox-13, insulation/deskstar-34gxp/random-4k/random-4k/50, swarm/disktime/8"
)]
pub struct Unknown(pub String);

impl Selection {
    /// The scenarios that the words name: each word is a scenario's name, or else the beginning of
    /// some. All if there are no words.
    ///
    /// # Errors
    /// If a word selects nothing.
    pub fn new(words: &[String], all: &[Scenario], blessed: &Blessed) -> Result<Self, Unknown> {
        let names: Vec<&str> = all.iter().map(Scenario::name).chain(blessed.names()).collect();
        let every = [String::new()];
        let mut selected = Vec::new();
        for word in if words.is_empty() { &every } else { words } {
            let exact = names.contains(&word.as_str());
            let fits = |name: &&&str| if exact { **name == word } else { name.starts_with(word) };
            let fitting = names.iter().filter(fits).map(|name| (*name).to_owned());
            let before = selected.len();
            selected.extend(fitting);
            if selected.len() == before {
                return Err(Unknown(word.clone()));
            }
        }
        selected.sort_unstable();
        Ok(Self(selected))
    }

    /// Whether it has the scenario of that name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.binary_search_by(|selected| selected.as_str().cmp(name)).is_ok()
    }
}

/// Simulates scenarios, several at once, and answers their fingerprints.
///
/// # Panics
/// If a policy breaks what the simulator checks of its engine.
#[must_use]
pub fn take(scenarios: &[Scenario], threads: NonZero<usize>) -> Blessed {
    let answers = disktime_sim::each(scenarios, threads, |scenario| {
        let cut = if let What::Figure(_) = scenario.what { FIGURE } else { Cut::NONE };
        let ((), taken) = fingerprint(cut, || scenario.simulate());
        (scenario.name.clone(), taken)
    });
    answers.into_iter().collect()
}

/// The first plan from a number on whose device takes so many pieces at once. The number follows
/// from the policy's name, so that policies come and go without a change to the others' plans.
fn swarm_plan(policy: &str, depth: u32) -> Plan {
    let step = |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte));
    let start = policy.bytes().fold(u64::from(depth), step);
    let plans = (start % 1_000_000..).map(swarm::plan);
    let mut fitting = plans.filter(|plan| plan.device.queue_depth() >= depth);
    let plan = fitting.next().expect("every third plan's device takes 32 pieces or more");
    let feedback = plan.scheduling.feedback;
    let scheduling = Scheduling { feedback, ..Scheduling::new(policy, cost::usual(policy)) };
    Plan { scheduling, depth, ..plan }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(names: &[&str]) -> Vec<Scenario> {
        scenarios().into_iter().filter(|it| names.contains(&it.name())).collect()
    }

    #[test]
    fn scenarios_cover_figures_cells_policies_and_depths_under_distinct_names() {
        let all = scenarios();
        assert!(all.is_sorted_by(|one, other| one.name() < other.name()));
        let count = |prefix| all.iter().filter(|it| it.name().starts_with(prefix)).count();
        assert_eq!(count("paper/"), disktime_papers::experiments().count());
        assert_eq!(count("insulation/"), insulation::cover().len());
        assert_eq!(count("swarm/"), disktime_rivals::all().count() * DEPTHS.len());
        assert_eq!(all.len(), count("paper/") + count("insulation/") + count("swarm/"));
    }

    /// `bless paper/qbox-2` once blessed qbox-20 as well: a name selects itself alone.
    #[test]
    fn a_word_selects_the_scenario_of_that_name_or_all_that_begin_so() {
        let all = scenarios();
        let gone = std::iter::once(("paper/gone".to_owned(), disktime_sim::Fingerprint::default()));
        let blessed: Blessed = gone.collect();
        let select = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let names = all.iter().map(Scenario::name).chain(blessed.names());
            let selection = Selection::new(&words, &all, &blessed)?;
            Ok(names.filter(|name| selection.has(name)).collect::<Vec<_>>())
        };
        assert_eq!(select(&[]).map(|it| it.len()), Ok(all.len() + 1));
        assert_eq!(select(&["paper/qbox-2"]), Ok(vec!["paper/qbox-2"]));
        let several = select(&["paper/mdn-2", "paper/gone"]);
        assert_eq!(several, Ok(vec!["paper/mdn-2a", "paper/mdn-2b", "paper/mdn-2c", "paper/gone"]));
        assert_eq!(select(&["paper/mdn", "tape/"]), Err(Unknown("tape/".to_owned())));
    }

    #[test]
    fn fingerprints_do_not_depend_on_the_run_nor_on_the_number_of_threads() {
        let scenarios = some(&["paper/reward-example", "swarm/disktime/1", "swarm/drr/8"]);
        assert_eq!(scenarios.len(), 3);
        let threads = |count| NonZero::new(count).expect("more than 0");
        let one = take(&scenarios, threads(1));
        assert_eq!(one.differences(&take(&scenarios, threads(3))), []);
    }
}
