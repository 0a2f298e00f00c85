//! A paper's reports as files: one page that needs nothing else, each figure by itself, and an index
//! of all papers.
//!
//! Does not know: HTML, directories. It answers names and contents; the caller writes them.

use crate::claims;
use crate::experiment::{Check, Report, SeedMiss};
use crate::open::{Band, Course};
use crate::{PAPERS, Paper};
use disktime_report::drawing;
use disktime_report::page::{Cell, File, Page, Part, Section, Table, Word, number};

/// The facts that a reader needs in order to repeat the runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// The command that makes them again.
    pub command: String,
    /// The least and the greatest seed.
    pub seeds: (u64, u64),
    /// Where they ran; results don't depend on it.
    pub machine: String,
}

/// Each figure of the reports as an SVG file: `<id>.svg`, or `<id>-<panel>.svg` if it has several.
#[must_use]
pub fn figures(reports: &[&Report]) -> Vec<File> {
    let of_report = |report: &&Report| {
        let (id, count) = (report.id, report.panels.len());
        let panels = report.panels.iter().enumerate();
        let name = move |index: usize| match count {
            1 => format!("{id}.svg"),
            _ => format!("{id}-{}.svg", index + 1),
        };
        panels
            .map(|(index, panel)| File { name: name(index), text: drawing::svg(panel) })
            .collect::<Vec<_>>()
    };
    reports.iter().flat_map(of_report).collect()
}

/// The page `<paper>.html`: plots, checks, parameters, origin.
#[must_use]
pub fn page(paper: &Paper, reports: &[&Report], provenance: &Provenance) -> File {
    let missed: Vec<_> =
        reports.iter().filter(|report| !report.pass()).map(|report| report.id).collect();
    let verdict = match &missed[..] {
        [] => format!("All checks of {} figures hold.", reports.len()),
        ids => format!("Checks missed in {}.", ids.join(", ")),
    };
    let all = Cell::Link { to: "index.html".to_owned(), text: "All papers".to_owned() };
    let lead = [
        Word::plain("Paper "),
        Word::code(paper.id),
        Word::plain(format!(", reproduced in simulation by disktime. {verdict}")),
    ];
    let figures = reports.iter().map(|report| section(report));
    let page = Page {
        title: format!("{}: {}", paper.id, paper.title),
        heading: paper.title.to_owned(),
        lead: vec![Part::Paragraph(lead.into()), Part::Table(Table::new(&[], vec![vec![all]]))],
        sections: figures.chain([parameters(paper), origin(provenance)]).collect(),
    };
    page.file(format!("{}.html", paper.id))
}

fn parameters(paper: &Paper) -> Section {
    let rows = (paper.parameters)().into_iter().map(|(name, value)| named(name, value)).collect();
    let note = "One set for all figures; a figure varies only what the paper varies in it.";
    let parts = vec![Part::Paragraph(vec![Word::plain(note)]), Part::Table(Table::new(&[], rows))];
    Section::new("Parameters", parts)
}

fn origin(Provenance { command, seeds, machine }: &Provenance) -> Section {
    Section::origin(vec![
        named("command", command.clone()),
        named("seeds", format!("{} to {}; figures show means", seeds.0, seeds.1)),
        named("machine", machine.clone()),
    ])
}

fn named(name: &str, value: String) -> Vec<Cell> {
    vec![Cell::Heading(name.to_owned()), Cell::Text(value)]
}

/// A figure: its drawings, its checks, and what a reader should know.
fn section(report: &Report) -> Section {
    let drawings = report.panels.iter().map(drawing::svg).collect();
    let head = ["check", "published", "measured", "passes", ""];
    let judged = report.checks.iter().map(|check| check_row(report, check));
    let checks = judged.chain(report.reported.iter().map(shown_row)).collect();
    let claim = Part::Paragraph(vec![Word::plain(report.claim)]);
    let mut parts = vec![claim, Part::Drawings(drawings), Part::Table(Table::new(&head, checks))];
    if !report.bands.is_empty() {
        parts.push(Part::note("Numbers that the paper leaves open:"));
        let head = ["number", "range", "shown", "where the checks hold", "source of the range"];
        let rows = report.bands.iter().map(open_row).collect();
        parts.push(Part::Table(Table::new(&head, rows)));
    }
    let alone = report.missed_by_seed.iter().map(|SeedMiss { check, seed, measured }| {
        Part::note(format!("Seed {seed} alone misses: {check}: {}", number(*measured)))
    });
    parts.extend(alone);
    if !report.pass() && !report.reason.is_empty() {
        parts.push(Part::note(format!("Why checks are missed: {}", report.reason)));
    }
    let texts = [Some(report.note), report.left_out].into_iter().flatten();
    parts.extend(texts.filter(|text| !text.is_empty()).map(Part::note));
    let heading = format!("{}: {}", report.id, report.title);
    Section { id: Some(report.id.to_owned()), heading, parts }
}

fn check_row(report: &Report, check: &Check) -> Vec<Cell> {
    let figures = [number(check.published), number(check.measured), bounds(check)];
    let name = Cell::Text(check.name.clone());
    let cells = std::iter::once(name).chain(figures.map(Cell::Number));
    cells.chain([Cell::Verdict(report.passes(check))]).collect()
}

/// A row that is not judged.
fn shown_row(row: &Check) -> Vec<Cell> {
    let figures = [number(row.published), number(row.measured)].map(Cell::Number);
    let name = Cell::Text(row.name.clone());
    let cells = std::iter::once(name).chain(figures);
    cells.chain([Cell::Number("shown".to_owned()), Cell::Text(String::new())]).collect()
}

/// A number that the paper leaves open.
fn open_row(band: &Band) -> Vec<Cell> {
    let whose = if band.stated { "stated" } else { "ours" };
    let partly = band.partly().into_iter().map(|(course, places)| {
        let verdict = if course.missed { "missed: " } else { "" };
        format!("{verdict}{}: {places}", course.check)
    });
    let mut places = partly.collect::<Vec<_>>().join("; ");
    if places.is_empty() {
        "all over the whole range".clone_into(&mut places);
    }
    let shown = if band.drawn { "median".to_owned() } else { format!("{}, {whose}", band.shown) };
    let texts = [band.name.to_owned(), band.range(), shown, places];
    texts.into_iter().chain([band.why.to_owned()]).map(Cell::Text).collect()
}

/// The page `index.html`: every figure of the reports with its verdict.
#[must_use]
pub fn index(reports: &[Report], provenance: &Provenance) -> File {
    let missed = reports.iter().filter(|report| !report.pass()).count();
    let lead = format!("{} figures and tables; checks are missed in {missed}.", reports.len());
    let sections = PAPERS.iter().filter_map(|paper| {
        let of_paper = |report: &&Report| paper.experiments.iter().any(|it| it.id == report.id);
        let rows: Vec<Vec<Cell>> =
            reports.iter().filter(of_paper).map(|report| index_row(paper, report)).collect();
        let head = ["figure", "subject", "checks that hold", ""];
        let table = Part::Table(Table::new(&head, rows.clone()));
        (!rows.is_empty()).then(|| Section::new(paper.title, vec![table]))
    });
    let page = Page {
        title: "The papers' figures".to_owned(),
        heading: "The papers' figures".to_owned(),
        lead: vec![Part::Paragraph(vec![Word::plain(lead)])],
        sections: sections.chain([origin(provenance)]).collect(),
    };
    page.file("index.html".to_owned())
}

/// All reports as one table in Markdown, `reproduction.md`: a row for each figure with the check that is
/// nearest to its bound, and below it each check that is missed, with the reason and where it holds.
#[must_use]
pub fn table(reports: &[Report], provenance: &Provenance) -> File {
    let checks = |report: &Report| claims_of(report).count();
    let figures_missed = reports.iter().filter(|report| !report.pass()).count();
    let summary = format!(
        "{} figures and tables, {} checks: {} checks of {figures_missed} figures are missed. Written by \
         `{}`, seeds {} to {}.",
        reports.len(),
        reports.iter().map(checks).sum::<usize>(),
        reports.iter().map(|report| report.missed().count()).sum::<usize>(),
        provenance.command,
        provenance.seeds.0,
        provenance.seeds.1,
    );
    let rows: String = reports.iter().map(table_row).collect();
    let missed = reports.iter().filter(|report| !report.pass()).map(missed_item);
    let missed: String = missed.collect();
    let mut text = format!("{INTRODUCTION}\n{summary}\n\n{HEAD}\n{rows}");
    if !missed.is_empty() {
        text += &format!("\n## Missed\n{missed}");
    }
    File { name: "reproduction.md".to_owned(), text }
}

const INTRODUCTION: &str = "\
# Reproduction: every claim of five papers

`disktime paper run ID` repeats a figure or table. `cargo xtask bench figures --out DIR` repeats all, and writes
this page, and one for each paper with every plot, check, band and note.

A figure has several checks. *We measure* is the one that is nearest to its bound, or farthest beyond it, as the
mean over the seeds; *passes* is what it may be, and behind it what was published. *Band* is the least and the
greatest that the same check measures while one number that the paper leaves open runs over its range and the
others stay as shown. A check holds if it does at the value that the paper states, or else over the middle half of
the range as well. The places of files have no order, so that they are drawn: shown is the median of the draws, and
a check holds if it does in their middle half, sorted by what it measures. The simulator's own checkers (no promise broken) are left out. A figure whose claim begins with
\"Ours\" measures our own schedulers in a paper's set-up.
";

const HEAD: &str = "| figure | claim | we measure | passes (published) | band | checks that hold | the paper \
                    leaves open: range (shown) |\n|---|---|---|---|---|---|---|";

/// The checks that are claims: the simulator's own checkers are none.
fn claims_of(report: &Report) -> impl Iterator<Item = &Check> {
    report.checks.iter().filter(|check| check.name != claims::KEPT)
}

/// A figure, by the check that is nearest to its bound.
fn table_row(report: &Report) -> String {
    let (id, claim) = (report.id, report.claim);
    let nearest = claims_of(report).min_by(|one, other| {
        let distance = |check: &Check| (report.passes(check), margin(check));
        let (one, other) = (distance(one), distance(other));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    let Some(check) = nearest else {
        return format!("| {id} | {claim} |  |  |  | not judged here | {} |\n", report.note);
    };
    let (all, missed) = (claims_of(report).count(), report.missed().count());
    let held = match missed {
        0 => format!("{all} of {all}"),
        _ => format!("**{} of {all}**", all - missed),
    };
    let name = in_table(&check.name);
    let (measured, published) = (number(check.measured), number(check.published));
    format!(
        "| {id} | {claim} | {name}: {measured} | {} ({published}) | {} | {held} | {} |\n",
        bounds(check),
        band_of(report, check),
        left_open(report)
    )
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

fn in_table(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A figure's checks that are missed, the reason, and where they hold.
fn missed_item(report: &Report) -> String {
    let reason = if report.reason.is_empty() { "The reason is not known." } else { report.reason };
    let mut text = format!("- **{}**: {reason}\n", report.id);
    for check in report.missed() {
        let measured = number(check.measured);
        text += &format!("  - {}: {measured}, {} passes", check.name, bounds(check));
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
    ends.map_or_else(String::new, |(low, high)| format!("{} to {}", number(low), number(high)))
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

fn index_row(paper: &Paper, report: &Report) -> Vec<Cell> {
    let missed = report.missed().count();
    let held = match claims_of(report).count() {
        0 => "not judged here".to_owned(),
        all => format!("{} of {all}", all - missed),
    };
    vec![
        Cell::Link { to: format!("{}.html#{}", paper.id, report.id), text: report.id.to_owned() },
        Cell::Text(report.title.to_owned()),
        Cell::Number(held),
        Cell::Verdict(missed == 0),
    ]
}

/// The values that pass, as a person reads them.
#[must_use]
pub fn bounds(check: &Check) -> String {
    match (check.low.is_finite(), check.high.is_finite()) {
        (true, true) if check.low < check.high => {
            format!("{} to {}", number(check.low), number(check.high))
        }
        (true, true) => number(check.low),
        (true, false) => format!("at least {}", number(check.low)),
        (false, true) => format!("at most {}", number(check.high)),
        (false, false) => "anything".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    fn report(id: &str, checks: Vec<Check>) -> Report {
        let sample = crate::Sample { seconds: 1.0, panels: Vec::new(), checks };
        Report::new(find(id).expect("a registered id"), 1, &[sample], Vec::new())
    }

    fn text(reports: &[Report]) -> String {
        let (command, machine) = ("x".to_owned(), String::new());
        table(reports, &Provenance { command, seeds: (1, 1), machine }).text
    }

    fn row<'a>(text: &'a str, id: &str) -> &'a str {
        let begins = format!("| {id} |");
        text.lines().find(|line| line.starts_with(&begins)).expect("the figure is in the table")
    }

    /// Figure `qbox-4.7`, which has no clock to judge its claim, was in no row of the table.
    #[test]
    fn a_figure_without_a_claim_has_a_row_that_says_why() {
        let shown = Check::reported("intersections", 10.0, 7.0);
        let text = text(&[report("qbox-4.7", vec![shown, claims::kept(0)])]);
        let row = row(&text, "qbox-4.7");
        assert!(row.contains("not judged here") && row.contains("--only window"), "{row}");
    }

    /// The table had a row for each of 442 checks.
    #[test]
    fn a_figure_has_one_row_with_the_check_that_is_nearest_to_its_bound() {
        let checks = vec![
            Check::near("wide", 10.0, 10.0, 5.0),
            Check::near("near", 10.0, 14.9, 5.0),
            Check::at_least("far", 90.0, 30.0),
            Check::deviation("next to what was published", 0.001, 10.0),
            claims::kept(0),
        ];
        let text = text(&[report("zygaria-2", checks)]);
        let row = row(&text, "zygaria-2");
        assert!(row.contains("| near: 14.9 | 5 to 15 (10) |  | 4 of 4 |"), "{row}");
        assert!(text.contains("1 figures and tables, 4 checks: 0 checks of 0 figures are missed"));
        assert!(!text.contains("## Missed"), "{text}");
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
        let text = text(&[Report::new(experiment, 1, &sample(6.0), vec![band])]);
        assert!(row(&text, "reward-t2").contains("| B: 6 | at most 5 (5) | 5 to 7 | **1 of 2** |"));
        let list = text.split_once("## Missed\n").expect("the list").1;
        let reason = experiment.reason;
        assert!(list.starts_with(&format!("- **reward-t2**: {reason}\n  - B: 6, ")), "{list}");
        assert!(
            list.ends_with("at most 5 passes; holds by requests at the array: at 64\n"),
            "{list}"
        );
    }

    #[test]
    fn a_figure_says_that_no_recorded_trace_joined_it() {
        let check = || vec![Check::near("day A", 40.0, 40.0, 2.0)];
        let mut reports = [report("qbox-18", check()), report("qbox-13", check())];
        assert_eq!(crate::recorded::leave_out(&mut reports), ["qbox-18"]);
        let text = text(&reports);
        assert!(row(&text, "qbox-18").contains("No recorded trace"), "{text}");
        assert!(!row(&text, "qbox-13").contains("No recorded trace"), "{text}");
    }
}
