//! All reports in Markdown: a table with a row for each figure, and a page with every check that is missed.
//!
//! Does not know: HTML, directories. It answers names and contents; the caller writes them.

use std::collections::BTreeMap;

use disktime_report::page::{File, number};

use crate::experiment::{Check, Report};
use crate::open::{Band, Course};
use crate::paper_page::{Provenance, bounds};

/// The table `reproduction.md`, and `reproduction-missed.md` with the reasons.
#[must_use]
pub fn files(reports: &[Report], provenance: &Provenance) -> [File; 2] {
    [table(reports, provenance), missed(reports, provenance)]
}

const INTRODUCTION: &str = "\
# Reproduction: every claim of five papers

`disktime paper run ID` repeats a figure or table. `cargo xtask bench figures --out DIR` repeats all, and writes
this page, [the missed checks](reproduction-missed.md) with their reasons, and a page for each paper with every
plot, check, band and note.

A figure has several checks. *We measure* is the one that is nearest to its bound, or farthest beyond it, as the
mean over the seeds; *passes* is what it may be, and behind it what was published. *Band* is the least and the
greatest that the same check measures while one number that the paper leaves open runs over its range and the
others stay as shown. A check holds if it does at the value that the paper states, or else over the middle half of
the range as well. The places of files have no order, so that they are drawn: shown is the median of the draws, and
a check holds if it does in their middle half, sorted by what it measures. The simulator's own checkers (no promise
broken) are left out. A figure whose claim begins with \"Ours\" measures our own schedulers in a paper's set-up.
";

const HEAD: &str = "| figure | claim | we measure | passes (published) | band | checks that hold | the paper \
                    leaves open: range (shown) |\n|---|---|---|---|---|---|---|";

const MISSED: &str = "\
# Reproduction: the checks that are missed

Each figure of [the table](reproduction.md) that misses a check, the reason as far as it was measured, and where in
the ranges of what its paper leaves open the check holds.
";

fn table(reports: &[Report], provenance: &Provenance) -> File {
    let red = reports.iter().filter(|report| !report.pass()).count();
    let claims = || reports.iter().flat_map(|report| report.claims().map(move |it| (report, it)));
    let missed = claims().filter(|(report, check)| !report.passes(check)).count();
    let summary = format!(
        "{} figures and tables, {} checks: {missed} checks are missed, {red} figures are red. {}",
        reports.len(),
        claims().count(),
        origin(provenance),
    );
    let mut shown = BTreeMap::new();
    let rows: String = reports.iter().map(|report| row(report, &mut shown)).collect();
    let text = format!("{INTRODUCTION}\n{summary}\n\n{HEAD}\n{rows}");
    File { name: "reproduction.md".to_owned(), text }
}

fn missed(reports: &[Report], provenance: &Provenance) -> File {
    let not_judged = reports.iter().filter(|report| report.claims().next().is_none());
    let not_judged =
        not_judged.map(|report| format!("\n## {}\nNot judged here. {}\n", report.id, report.note));
    let missed = reports.iter().filter(|report| !report.pass()).map(missed_section);
    let sections: String = missed.chain(not_judged).collect();
    let text = format!("{MISSED}\n{}\n{sections}", origin(provenance));
    File { name: "reproduction-missed.md".to_owned(), text }
}

fn origin(Provenance { command, seeds, .. }: &Provenance) -> String {
    format!("Written by `{command}`, seeds {} to {}.", seeds.0, seeds.1)
}

/// A figure, by the check that is nearest to its bound. `shown` has what figures above leave open.
fn row(report: &Report, shown: &mut BTreeMap<String, &'static str>) -> String {
    let (id, claim) = (report.id, report.claim);
    let nearest = report.claims().min_by(|one, other| {
        let distance = |check: &Check| (report.passes(check), margin(check));
        let (one, other) = (distance(one), distance(other));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    let reasons = |text: String| format!("[{text}](reproduction-missed.md#{})", anchor(id));
    let Some(check) = nearest else {
        let verdict = reasons("not judged here".to_owned());
        return format!("| {id} | {claim} |  |  |  | {verdict} |  |\n");
    };
    let held = report.held_in_words().unwrap_or_default();
    let held = if report.pass() { held } else { reasons(format!("**{held}**")) };
    let left_open = left_open(report);
    let left_open = match shown.get(&left_open) {
        Some(above) => format!("as {above}"),
        None => {
            if !left_open.is_empty() {
                shown.insert(left_open.clone(), id);
            }
            left_open
        }
    };
    let name = check.name.replace('|', "\\|");
    let (measured, published) = (number(check.measured), number(check.published));
    format!(
        "| {id} | {claim} | {name}: {measured} | {} ({published}) | {} | {held} | {left_open} |\n",
        bounds(check),
        band_of(report, check),
    )
}

/// The anchor of a heading that is a figure's id.
fn anchor(id: &str) -> String {
    id.replace('.', "")
}

/// How far a check is within its nearest bound, by the width of the bounds or the size of the bound. The
/// upper bound alone counts for a deviation, whose published value is its lower bound.
fn margin(check: &Check) -> f64 {
    let Check { low, high, measured, published, .. } = *check;
    let both = low.is_finite() && high.is_finite() && low < high;
    let width = if both { high - low } else { 0.0 };
    let within = |bound: f64, by: f64| {
        let size = [width, bound.abs(), measured.abs()].into_iter().find(|size| *size > 0.0);
        if bound.is_finite() { by / size.unwrap_or(1.0) } else { f64::INFINITY }
    };
    let above = high - measured;
    let is_deviation = both && published.total_cmp(&low).is_eq();
    if is_deviation {
        within(high, above)
    } else {
        within(low, measured - low).min(within(high, above))
    }
}

/// A figure's checks that are missed, the reason, and where they hold.
fn missed_section(report: &Report) -> String {
    let reason = if report.reason.is_empty() { "The reason is not known." } else { report.reason };
    let mut text = format!("\n## {}\n{reason}\n", report.id);
    for check in report.missed() {
        let measured = number(check.measured);
        text += &format!("- {}: {measured}, {} passes", check.name, bounds(check));
        let courses: Vec<_> = courses_of(report, check).collect();
        if !courses.is_empty() && courses.iter().all(|(_, course)| !course.holds.contains(&true)) {
            text += "; holds at no value of what the paper leaves open";
        } else {
            for (band, course) in courses.iter().filter(|(_, it)| it.holds.contains(&false)) {
                text += &format!("; holds by {}: {}", band.name, band.held(course));
            }
        }
        text += "\n";
    }
    text
}

/// A check over each number that the paper leaves open.
fn courses_of<'a>(
    report: &'a Report,
    check: &'a Check,
) -> impl Iterator<Item = (&'a Band, &'a Course)> {
    report.bands.iter().flat_map(move |band| {
        band.checks.iter().filter(|course| course.check == check.name).map(move |it| (band, it))
    })
}

/// The least and the greatest that a check measures over all bands.
fn band_of(report: &Report, check: &Check) -> String {
    let values = courses_of(report, check).flat_map(|(_, course)| course.measured.iter().copied());
    let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    });
    match ends.map(|(low, high)| (number(low), number(high))) {
        Some((low, high)) if low == high => low,
        Some((low, high)) => format!("{low} to {high}"),
        None => String::new(),
    }
}

fn left_open(report: &Report) -> String {
    let open = report.bands.iter().map(|band| {
        let shown = match band {
            Band { drawn: true, .. } => "median".to_owned(),
            Band { stated: true, shown, .. } => format!("{shown}, stated"),
            Band { shown, .. } => shown.to_string(),
        };
        format!("{}: {} ({shown})", band.name, band.range())
    });
    let texts = open.chain(report.left_out.map(str::to_owned));
    texts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims;
    use crate::find;

    fn report(id: &str, checks: Vec<Check>) -> Report {
        let sample = crate::Sample { seconds: 1.0, panels: Vec::new(), checks };
        Report::new(find(id).expect("a registered id"), 1, &[sample], Vec::new())
    }

    /// The table, and what is missed.
    fn texts(reports: &[Report]) -> [String; 2] {
        let (command, machine) = ("x".to_owned(), String::new());
        files(reports, &Provenance { command, seeds: (1, 1), machine }).map(|file| file.text)
    }

    fn row<'a>(text: &'a str, id: &str) -> &'a str {
        let begins = format!("| {id} |");
        text.lines().find(|line| line.starts_with(&begins)).expect("the figure is in the table")
    }

    /// Figure `qbox-4.7`, which has no clock to judge its claim, was in no row of the table.
    #[test]
    fn a_figure_without_a_claim_has_a_row_and_a_section_that_says_why() {
        let shown = Check::reported("intersections", 10.0, 7.0);
        let [table, missed] = texts(&[report("qbox-4.7", vec![shown, claims::kept(0)])]);
        let row = row(&table, "qbox-4.7");
        assert!(row.contains("[not judged here](reproduction-missed.md#qbox-47)"), "{row}");
        let section = missed.split_once("## qbox-4.7\n").expect("a section").1;
        assert!(section.contains("--only window"), "{section}");
    }

    /// The table had a row for each of 442 checks.
    #[test]
    fn a_figure_has_one_row_with_the_check_that_is_nearest_to_its_bound() {
        let checks = |kept| {
            vec![
                Check::near("wide", 10.0, 10.0, 5.0),
                Check::near("near", 10.0, 14.9, 5.0),
                Check::at_least("far", 90.0, 30.0),
                Check::deviation("next to what was published", 0.001, 10.0),
                claims::kept(kept),
            ]
        };
        let [table, missed] = texts(&[report("zygaria-2", checks(0))]);
        let row = row(&table, "zygaria-2");
        assert!(row.contains("| near: 14.9 | 5 to 15 (10) |  | 4 of 4 |"), "{row}");
        assert!(
            table
                .contains("1 figures and tables, 4 checks: 0 checks are missed, 0 figures are red")
        );
        assert!(!missed.contains("zygaria-2"), "{missed}");
        // A promise that was broken once counted as a claim that does not hold.
        let [table, missed] = texts(&[report("zygaria-2", checks(1))]);
        assert!(
            table.contains("| [**4 of 4, promises broken**](reproduction-missed.md#zygaria-2) |")
        );
        assert!(missed.contains("## zygaria-2"), "{missed}");
        assert!(table.contains("4 checks: 0 checks are missed, 1 figures are red"), "{table}");
    }

    #[test]
    fn missed_checks_are_listed_with_their_reason_and_where_they_hold() {
        let experiment = find("reward-t2").expect("a registered id");
        let sample = |measured| {
            let checks = vec![Check::at_most("B", measured, 5.0), Check::at_most("A", 4.9, 5.0)];
            [crate::Sample { seconds: 1.0, panels: Vec::new(), checks }]
        };
        let others = [(24.0, &sample(7.0)[..]), (64.0, &sample(5.0)[..])];
        let band = experiment.open[0].band(&sample(6.0), &others);
        let [table, missed] = texts(&[Report::new(experiment, 1, &sample(6.0), vec![band])]);
        let held = "[**1 of 2**](reproduction-missed.md#reward-t2)";
        let row = row(&table, "reward-t2");
        assert!(row.contains(&format!("| B: 6 | at most 5 (5) | 5 to 7 | {held} |")), "{row}");
        let list = missed.split_once("## reward-t2\n").expect("a section").1;
        let reason = experiment.reason;
        assert!(list.starts_with(&format!("{reason}\n- B: 6, ")), "{list}");
        assert!(
            list.ends_with("at most 5 passes; holds by requests at the array: at 64\n"),
            "{list}"
        );
    }

    /// Ten figures of one paper repeated the same three ranges: a third of the page.
    #[test]
    fn numbers_that_a_figure_above_leaves_open_as_well_are_named_once() {
        let measured = |id: &str, least: f64| {
            let experiment = find(id).expect("a registered id");
            let sample = [crate::Sample {
                seconds: 1.0,
                panels: Vec::new(),
                checks: vec![Check::at_least("rate", 9.0, 1.0)],
            }];
            let band = experiment.open[0].band(&sample, &[(least, &sample[..])]);
            Report::new(experiment, 1, &sample, vec![band])
        };
        let reports = [measured("reward-t1", 24.0), measured("reward-t2", 24.0)];
        let [table, _] = texts(&reports);
        assert!(
            row(&table, "reward-t1").ends_with("| requests at the array: 24 to 32 (32, stated) |")
        );
        assert!(row(&table, "reward-t2").ends_with("| as reward-t1 |"), "{table}");
    }

    /// Figures over drawn places were judged by their mean.
    #[test]
    fn draws_are_named_by_their_number_and_judged_by_their_middle_half() {
        let draw = |measured: f64| crate::Sample {
            seconds: 1.0,
            panels: Vec::new(),
            checks: vec![Check::at_most("off, %", measured, 5.0)],
        };
        let over = |draws: [f64; 8]| claims::over_draws("places", "lost", &draws.map(draw));
        let seeds = [
            over([1.0, 2.0, 3.0, 4.0, 4.5, 6.5, 7.0, 8.0]),
            over([3.0, 2.0, 5.0, 4.0, 4.5, 6.5, 7.0, 10.0]),
        ];
        let experiment = find("mdn-2a").expect("a registered id");
        let report = Report::new(experiment, 1, &seeds, Vec::new());
        assert!(report.checks[0].pass() && !report.pass());
        let [table, missed] = texts(&[report]);
        let row = row(&table, "mdn-2a");
        assert!(row.contains("| off, %: 4.5 | at most 5 (5) | 1.5 to 9 |"), "{row}");
        assert!(row.ends_with("| places: 8 draws (median) |"), "{row}");
        assert!(missed.contains("holds by places: in 5 of 8 draws"), "{missed}");
    }

    #[test]
    fn a_figure_says_that_no_recorded_trace_joined_it() {
        let check = || vec![Check::near("day A", 40.0, 40.0, 2.0)];
        let mut reports = [report("qbox-18", check()), report("qbox-13", check())];
        assert_eq!(crate::recorded::leave_out(&mut reports), ["qbox-18"]);
        let [table, _] = texts(&reports);
        assert!(row(&table, "qbox-18").contains("No recorded trace"), "{table}");
        assert!(!row(&table, "qbox-13").contains("No recorded trace"), "{table}");
    }
}
