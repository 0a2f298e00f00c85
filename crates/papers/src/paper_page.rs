//! A paper's reports as files: one page that needs nothing else, each figure by itself, and an index
//! of all papers.
//!
//! Does not know: HTML, directories. It answers names and contents; the caller writes them.

use crate::claims;
use crate::experiment::{Check, Report, SeedMiss};
use crate::open::Band;
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
    let mut parts = vec![Part::Drawings(drawings), Part::Table(Table::new(&head, checks))];
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
    if !report.note.is_empty() {
        parts.push(Part::note(report.note));
    }
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
    let texts = [band.name.to_owned(), band.range(), format!("{}, {whose}", band.shown), places];
    texts.into_iter().chain([band.why.to_owned()]).map(Cell::Text).collect()
}

/// The page `index.html`: every figure of the reports with its verdict.
#[must_use]
pub fn index(reports: &[Report], provenance: &Provenance) -> File {
    let missed = reports.iter().filter(|report| !report.pass()).count();
    let lead = format!(
        "{} figures and tables of {} papers; checks are missed in {missed}.",
        reports.len(),
        PAPERS.len()
    );
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

/// All reports as one table in Markdown, `reproduction.md`: each claim, what we measure, and what of
/// it depends on numbers that the papers leave open.
#[must_use]
pub fn table(reports: &[Report], provenance: &Provenance) -> File {
    let checks = |report: &Report| report.checks.len();
    let missed = |report: &Report| report.missed().count();
    let figures_missed = reports.iter().filter(|report| !report.pass()).count();
    let mut text = format!(
        "{} figures and tables, {} checks; {} checks of {figures_missed} figures are missed. Written \
         by `{}`, seeds {} to {}, means.\n\n{HEAD}\n",
        reports.len(),
        reports.iter().map(checks).sum::<usize>(),
        reports.iter().map(missed).sum::<usize>(),
        provenance.command,
        provenance.seeds.0,
        provenance.seeds.1,
    );
    for report in reports {
        // The simulator's own checkers are no claim of a paper.
        let claims = report.checks.iter().filter(|check| check.name != claims::KEPT);
        let claims: Vec<&Check> = claims.collect();
        if claims.is_empty() {
            let (id, note) = (report.id, report.note);
            text +=
                &format!("| {id} | {} |  |  |  |  | not judged here | {note} |\n", report.title);
        }
        for (index, check) in claims.into_iter().enumerate() {
            let figure = if index == 0 { report.id } else { "" };
            let open = if index == 0 { left_open(report) } else { String::new() };
            let verdict = if report.passes(check) { "holds" } else { "**missed**" };
            let [published, measured] = [check.published, check.measured].map(number);
            let (passes, over) = (bounds(check), over_bands(report, check));
            let name = check.name.replace('|', "\\|");
            text += &format!(
                "| {figure} | {name} | {published} | {measured} | {passes} | {over} | {verdict} | {open} |\n"
            );
        }
    }
    File { name: "reproduction.md".to_owned(), text }
}

const HEAD: &str = "| figure | claim | published | measured | passes | over the numbers left open | \
                    verdict | what the paper leaves open: range (shown) |\n|---|---|---|---|---|---|---|---|";

/// The least and the greatest that a check measures over all bands, and where it is missed.
fn over_bands(report: &Report, check: &Check) -> String {
    let courses = report.bands.iter().flat_map(|band| {
        band.checks.iter().filter(|course| course.check == check.name).map(move |it| (band, it))
    });
    let courses: Vec<_> = courses.collect();
    let values = courses.iter().flat_map(|(_, course)| course.measured.iter().copied());
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if courses.is_empty() {
        return String::new();
    }
    let partly = courses.iter().filter(|(_, course)| course.holds.contains(&false));
    let partly = partly.map(|(band, course)| format!("{}: {}", band.name, band.held(course)));
    let partly: Vec<String> = partly.collect();
    let places = if partly.is_empty() {
        String::new()
    } else {
        format!("; holds by {}", partly.join("; by "))
    };
    format!("{} to {}{places}", number(low), number(high))
}

fn left_open(report: &Report) -> String {
    let open = report.bands.iter().map(|band| {
        let stated = if band.stated { ", stated" } else { "" };
        format!("{}: {} ({}{stated})", band.name, band.range(), band.shown)
    });
    open.collect::<Vec<_>>().join("; ")
}

fn index_row(paper: &Paper, report: &Report) -> Vec<Cell> {
    let missed = report.missed().count();
    let held = format!("{} of {}", report.checks.len() - missed, report.checks.len());
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

    /// Figure `qbox-4.7`, which has no clock to judge its claim, was in no row of the table.
    #[test]
    fn a_figure_without_a_claim_has_a_row_that_says_why() {
        let experiment = find("qbox-4.7").expect("a registered id");
        let sample = crate::Sample {
            seconds: 1.0,
            panels: Vec::new(),
            checks: vec![Check::reported("intersections", 10.0, 7.0), claims::kept(0)],
        };
        let reports = [Report::new(experiment, 1, &[sample], Vec::new())];
        let provenance =
            Provenance { command: "x".to_owned(), seeds: (1, 1), machine: String::new() };
        let text = table(&reports, &provenance).text;
        let row = text.lines().find(|line| line.starts_with("| qbox-4.7 |"));
        let row = row.expect("the figure is in the table");
        assert!(row.contains("not judged here") && row.contains("--only window"), "{row}");
    }
}
