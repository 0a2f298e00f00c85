//! Rows as files: one page that needs nothing else, the picture by itself, and the rows.

use std::fmt::Write;

use crate::page::{self, File, STYLE, escape};

use super::bars::{OWN, missed, summaries};
use super::cells::{Antagonist, Cell, Device, Victim};
use super::grid::{self, Grid};
use super::row::Row;

/// What the reader needs in order to repeat the runs.
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
    let body = [
        summary_table(rows),
        misses_table(rows),
        rivals_table(rows),
        format!("<h2>Cells</h2>\n{svg}"),
        rows_table(rows),
        setup_tables(),
    ]
    .concat();
    let Origin { command, machine } = origin;
    let html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Insulation</title>\n<style>{STYLE}</style></head><body>\n\
         <h1>Insulation</h1>\n<p class=\"note\">Throughput by (share × throughput alone): 1 is \
         what the share would give, alone. Work conservation: the sum over streams of throughput \
         by throughput alone; 1 means that sharing cost nothing. Simulated by disktime; windows of \
         60 s (flash: 1 s), each a quarter after the one before.</p>\n{body}\
         <h2>Origin</h2>\n{}</body></html>\n",
        table(
            &[],
            &[
                vec!["command".to_owned(), command.clone()],
                vec!["machine".to_owned(), machine.clone()]
            ]
        ),
    );
    [
        File { name: "insulation.html".to_owned(), text: html },
        File { name: "insulation.svg".to_owned(), text: svg },
    ]
}

fn summary_table(rows: &[Row]) -> String {
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
    let note = format!(
        "The bars are those of policy <code>{OWN}</code>, in cells with an antagonist that is \
         there all the time."
    );
    format!("<h2>Policies</h2>\n{}<p class=\"note\">{note}</p>\n", table(&head, &lines))
}

fn misses_table(rows: &[Row]) -> String {
    let missed = missed(rows);
    if missed.is_empty() {
        return String::new();
    }
    let line = |miss: &super::Miss| {
        let (measured, bar) = (format!("{:.4}", miss.measured), page::number(miss.bar));
        vec![miss.cell.to_string(), miss.figure.to_owned(), measured, bar]
    };
    let lines: Vec<_> = missed.iter().map(line).collect();
    let head = ["cell", "figure", "measured", "bar"];
    format!("<h2>Bars that {OWN} misses</h2>\n{}", table(&head, &lines))
}

fn rivals_table(rows: &[Row]) -> String {
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
        return String::new();
    }
    let head = ["cell", "rival", "worse-off side under us", "under it"];
    format!(
        "<h2>Where a rival is better</h2>\n<p class=\"note\">The side that is worse off, victim or \
         antagonists together, has an insulation at least .01 above that under \
         <code>{OWN}</code>; what is above 1 counts as 1.</p>\n{}",
        table(&head, &lines)
    )
}

fn rows_table(rows: &[Row]) -> String {
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
    format!(
        "<h2>Rows</h2>\n<details><summary>{} rows</summary>\n{}</details>\n",
        rows.len(),
        table(&head, &lines)
    )
}

fn setup_tables() -> String {
    let named = |name: &str, what: &str| vec![name.to_owned(), what.to_owned()];
    let devices = Device::ALL.map(|it| named(it.name(), it.doc()));
    let victims = Victim::ALL.map(|it| named(it.name(), it.doc()));
    let antagonists = Antagonist::ALL.map(|it| named(it.name(), it.doc()));
    let all = Cell::all().count();
    format!(
        "<h2>What is varied</h2>\n{}{}{}<p class=\"note\">A victim reserves 10, 30, 50, 70 or 90 % \
         of the device's time, its antagonists the rest; weights are in proportion. The matrix is \
         chosen from {all} combinations so that every pair of two values occurs, with all of them \
         on the Deskstar beside antagonists that are there all the time.</p>\n",
        table(&["device", ""], &devices),
        table(&["victim", ""], &victims),
        table(&["antagonist", ""], &antagonists),
    )
}

/// Everything from the third column on is a number.
pub(super) fn table(head: &[&str], lines: &[Vec<String>]) -> String {
    let mut out = "<table>".to_owned();
    if !head.is_empty() {
        out += "<tr>";
        head.iter().for_each(|it| out += &format!("<th>{}</th>", escape(it)));
        out += "</tr>\n";
    }
    for line in lines {
        out += "<tr>";
        for (column, cell) in line.iter().enumerate() {
            let class = if column > 1 { " class=\"number\"" } else { "" };
            let _ = write!(out, "<td{class}>{}</td>", escape(cell));
        }
        out += "</tr>\n";
    }
    out + "</table>\n"
}
