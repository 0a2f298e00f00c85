//! A paper's reports as files: one page that needs nothing else, and each figure by itself.
//!
//! Does not know: HTML, directories. It answers names and contents; the caller writes them.

use crate::Paper;
use crate::experiment::{Check, Report, SeedMiss};
use disktime_report::drawing;
use disktime_report::page::{Cell, File, Page, Part, Section, Table, Word, number};

/// The facts that a reader needs in order to repeat the runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// The command that makes them again.
    pub command: String,
    /// Runs of each experiment.
    pub seeds: u32,
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
    let lead = [
        Word::plain("Paper "),
        Word::code(paper.id),
        Word::plain(format!(", reproduced in simulation by disktime. {verdict}")),
    ];
    let figures = reports.iter().map(|report| section(report));
    let page = Page {
        title: format!("{}: {}", paper.id, paper.title),
        heading: paper.title.to_owned(),
        lead: vec![Part::Paragraph(lead.into())],
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
        named("seeds", format!("1 to {seeds}; figures show means")),
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
    let checks = report.checks.iter().map(check_row).collect();
    let mut parts = vec![Part::Drawings(drawings), Part::Table(Table::new(&head, checks))];
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

fn check_row(check: &Check) -> Vec<Cell> {
    let figures = [number(check.published), number(check.measured), bounds(check)];
    let name = Cell::Text(check.name.clone());
    let cells = std::iter::once(name).chain(figures.map(Cell::Number));
    cells.chain([Cell::Verdict(check.pass())]).collect()
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
