//! Figure 6: how best effort comes back when the soft real-time stream ends.

use super::players_and_load::{self, At, ENDED, ENDS, Knobs, Shaped};
use crate::experiment::{Check, Experiment, Sample};

const SECONDS: u64 = 180;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "mdn-6",
    title: "Two streams of 8 MB/s and a soft real-time one that ends at 90 s",
    claim: "When the soft real-time stream ends, best effort is back gradually (optimistic) or at once \
            (pessimistic)",
    note: "The paper's set-up is lost; its 16.81 and 16.47 MB/s are until 90 s, in whatever it was. Back \
           is when best effort has 95 % of its 16 MB/s in a second.",
    reason: "In three of eight drawn places two streams of best effort never have their 16 MB/s, and in \
             five they are back at once, as with all files in the outer 16 of 21 places (seed 1).",
    open: players_and_load::open!(figure),
    measure: |seed| players_and_load::placed(seed, Knobs::SHOWN, figure),
};

fn figure(at: At) -> Sample {
    let outcomes = ["optimistic", "pessimistic"]
        .map(|controller| players_and_load::run(Shaped::By(controller), &ENDS, SECONDS, at));
    let [optimistic, pessimistic] = &outcomes;
    let [more, less] = outcomes.each_ref().map(|it| players_and_load::mean_mb(it, 0..3, 0, ENDED));
    let [slow, fast] =
        outcomes.each_ref().map(|it| players_and_load::back_after(it, &[1, 2], 16.0, ENDED));
    let checks = vec![
        Check::at_least("optimistic above pessimistic until 90 s, MB/s", more - less, 0.0),
        Check::at_least("optimistic: best effort is back after, s", slow, 5.0),
        Check::at_most("pessimistic: best effort is back after, s", fast, 2.0),
        players_and_load::kept(&[optimistic, pessimistic]),
    ];
    let titles = ["(a) Optimistic", "(b) Pessimistic"];
    let panels = outcomes.iter().zip(titles).map(|(it, title)| players_and_load::lines(it, title));
    Sample { seconds: 2.0 * SECONDS as f64, panels: panels.collect(), checks }
}
