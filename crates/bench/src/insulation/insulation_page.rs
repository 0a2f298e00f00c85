//! Rows as files: one page that needs nothing else, the picture by itself, and the rows.

use disktime_report::page::{self, File, Page, Part, Section, Table, Word};

use super::bars::{OWN, missed, summaries};
use super::cells::{Antagonist, Cell, Device, Victim};
use super::grid::{self, Grid};
use super::insulation_row::Row;

/// The facts that a reader needs in order to repeat the runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The command that makes them again.
    pub command: String,
    /// Where they ran; results don't depend on it.
    pub machine: String,
}

/// `insulation.html` and `insulation.svg`.
#[must_use]
pub fn files(rows: &[Row], origin: &Origin) -> [File; 2] {
    let svg = grid::svg(rows);
    let cells = Section::new("Cells", vec![Part::Drawing(svg.clone())]);
    let lead = "Throughput by (share × throughput alone): 1 is what the share would give, alone. \
                Work conservation: the sum over streams of throughput by throughput alone; 1 means \
                that sharing cost nothing. Simulated by disktime; windows of 60 s (flash: 1 s), \
                each a quarter after the one before.";
    let findings = [Some(summary_section(rows)), misses_section(rows), rivals_section(rows)];
    let rest = [cells, rows_section(rows), varied_section(), origin.section()];
    let page = Page {
        title: "Insulation".to_owned(),
        heading: "Insulation".to_owned(),
        lead: vec![Part::note(lead)],
        sections: findings.into_iter().flatten().chain(rest).collect(),
    };
    [page.file("insulation.html".to_owned()), File { name: "insulation.svg".to_owned(), text: svg }]
}

impl Origin {
    /// How a page states it.
    pub(crate) fn section(&self) -> Section {
        let lines = [("command", &self.command), ("machine", &self.machine)];
        let rows = lines.map(|(name, text)| {
            let cells = [name.to_owned(), text.clone()];
            cells.map(page::Cell::Text).into()
        });
        Section::origin(rows.into())
    }
}

fn summary_section(rows: &[Row]) -> Section {
    let head = [
        "policy",
        "cells that meet the bars",
        "insulation, median",
        "worst",
        "first percentile, worst",
        "work conservation, median",
        "worst",
    ];
    let line = |it: super::Summary| {
        let figures = [
            it.insulation_mean.0,
            it.insulation_mean.1,
            it.insulation_p01_worst,
            it.work_conservation.0,
            it.work_conservation.1,
        ];
        let met = format!("{} of {}", it.met, it.cells);
        [it.policy.to_owned(), met].into_iter().chain(figures.map(page::number)).collect()
    };
    let lines: Vec<Vec<String>> = summaries(rows).into_iter().map(line).collect();
    let note = [
        Word::plain("The bars are those of policy "),
        Word::code(OWN),
        Word::plain(", in cells with an antagonist that is there all the time."),
    ];
    let table = Table::of_figures(&head, lines);
    Section::new("Policies", vec![Part::Table(table), Part::Note(note.into())])
}

fn misses_section(rows: &[Row]) -> Option<Section> {
    let missed = missed(rows);
    if missed.is_empty() {
        return None;
    }
    let line = |miss: &super::Miss| {
        let (measured, bar) = (format!("{:.4}", miss.measured), page::number(miss.bar));
        vec![miss.cell.to_string(), miss.figure.to_owned(), measured, bar]
    };
    let lines: Vec<_> = missed.iter().map(line).collect();
    let head = ["cell", "figure", "measured", "bar"];
    let table = Table::of_figures(&head, lines);
    Some(Section::new(format!("Bars that {OWN} misses"), vec![Part::Table(table)]))
}

fn rivals_section(rows: &[Row]) -> Option<Section> {
    let grid = Grid::new(rows);
    let mut lines = Vec::new();
    for (cell, line) in &grid.lines {
        let own = line.iter().flatten().find(|row| row.policy == OWN);
        for (rival, own) in Grid::better(line).into_iter().zip(own.into_iter().cycle()) {
            let worse_off = [own, rival].map(|row| page::number(row.worse_off()));
            let [own, its] = worse_off;
            lines.push(vec![cell.to_string(), rival.policy.to_owned(), own, its]);
        }
    }
    if lines.is_empty() {
        return None;
    }
    let head = ["cell", "rival", "worse-off side under us", "under it"];
    let note = [
        Word::plain(
            "The side that is worse off, victim or antagonists together, has an insulation at \
             least .01 above that under ",
        ),
        Word::code(OWN),
        Word::plain("; what is above 1 counts as 1."),
    ];
    let table = Table::of_figures(&head, lines);
    let parts = vec![Part::Note(note.into()), Part::Table(table)];
    Some(Section::new("Where a rival is better", parts))
}

fn rows_section(rows: &[Row]) -> Section {
    let head = [
        "policy",
        "cell",
        "insulation",
        "first percentile",
        "windows above .9",
        "share error, points",
        "work conservation",
        "longest gap, ms",
        "p99 by (p99 alone / share)",
    ];
    let line = |row: &Row| {
        let figures = [
            row.insulation_mean,
            row.insulation_p01,
            row.windows_above_0_9,
            row.share_error_points,
            row.work_conservation,
            row.gap_ms_max,
            row.p99_ratio,
        ];
        let names = [row.policy.to_owned(), row.cell.to_string()];
        names.into_iter().chain(figures.map(page::number)).collect()
    };
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    let summary = format!("{} rows", rows.len());
    let table = Table::of_figures(&head, lines);
    Section::new("Rows", vec![Part::Folded { summary, table }])
}

fn varied_section() -> Section {
    let named = |name: &str, what: &str| vec![name.to_owned(), what.to_owned()];
    let table = |what, rows: Vec<_>| Part::Table(Table::of_figures(&[what, ""], rows));
    let devices = Device::ALL.map(|it| named(it.name(), it.doc()));
    let victims = Victim::ALL.map(|it| named(it.name(), it.doc()));
    let antagonists = Antagonist::ALL.map(|it| named(it.name(), it.doc()));
    let all = Cell::all().count();
    let note = format!(
        "A victim reserves 10, 30, 50, 70 or 90 % of the device's time, its antagonists the rest; \
         weights are in proportion. The matrix is chosen from {all} combinations so that every \
         pair of two values occurs, with all of them on the Deskstar beside antagonists that are \
         there all the time."
    );
    let parts = vec![
        table("device", devices.into()),
        table("victim", victims.into()),
        table("antagonist", antagonists.into()),
        Part::note(note),
    ];
    Section::new("Dimensions", parts)
}
