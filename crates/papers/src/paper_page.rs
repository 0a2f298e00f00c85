//! A paper's reports as files: one page that needs nothing else, each figure by itself, and an index
//! of all papers.
//!
//! Does not know: HTML, directories. It answers names and contents; the caller writes them.

use crate::experiment::{Check, Report};
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
        [] if reports.len() == 1 => "All checks of one figure hold.".to_owned(),
        [] => format!("All checks of {} figures hold.", reports.len()),
        ids => format!("Checks missed in {}.", ids.join(", ")),
    };
    let all = Cell::Link { to: "index.html".to_owned(), text: "All papers".to_owned() };
    let lead = [
        Word::plain("Paper "),
        Word::code(paper.id),
        Word::plain(format!(
            ", reproduced by disktime, {}. {verdict}{}",
            paper.ways(),
            live(paper)
        )),
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

/// How its live figures are run, if it has any.
fn live(paper: &Paper) -> String {
    match &*paper.live() {
        [] => String::new(),
        ids => format!(" `disktime paper run {} --live` runs these in real time.", ids.join(" ")),
    }
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
    let alone = report.missed_by_seed_in_words().into_iter();
    parts.extend(alone.map(|miss| Part::note(format!("Missed by single seeds: {miss}"))));
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

fn index_row(paper: &Paper, report: &Report) -> Vec<Cell> {
    let (held, verdict) = match report.held_in_words() {
        None => ("not judged here".to_owned(), Cell::Text(String::new())),
        Some(held) => (held, Cell::Verdict(report.pass())),
    };
    vec![
        Cell::Link { to: format!("{}.html#{}", paper.id, report.id), text: report.id.to_owned() },
        Cell::Text(report.title.to_owned()),
        Cell::Number(held),
        verdict,
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
