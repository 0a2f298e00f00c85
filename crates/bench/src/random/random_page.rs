//! Rows as files: one page with a heat-map by device and load, and the picture by itself.

use std::collections::BTreeMap;

use disktime_report::heatmap::{self, Line};
use disktime_report::page::{self, File, Page, Part, Section, Table};
use disktime_report::statistics::quantile;

use super::random_row::Row;
use super::summary::{Summary, policies, summaries, worst};
use crate::insulation::Origin;

/// `random.html` and `random.svg`.
#[must_use]
pub fn files(rows: &[Row], origin: &Origin) -> [File; 2] {
    let svg = svg(rows);
    let lead = "Throughput by what is due: 1 is what a disk of its own as fast as its share would \
                give. Simulated by disktime; cells follow from seeds.";
    let policies = policies(rows);
    let worst = policies.iter().map(|policy| worst_section(rows, policy));
    let summaries = summaries(rows);
    let possible = possible_table(&summaries).map(|table| {
        Section::new("Streams to which time division gives .9", vec![Part::Table(table)])
    });
    let sections = [
        Section::new("Policies", vec![Part::Table(summary_table(&summaries))]),
        Section::new(
            "Insulation of 19 of 20 streams, by device and load",
            vec![Part::Drawing(svg.clone())],
        ),
    ];
    let page = Page {
        title: "Random cells".to_owned(),
        heading: "Random cells".to_owned(),
        lead: vec![Part::note(lead)],
        sections: sections
            .into_iter()
            .chain(possible)
            .chain(worst)
            .chain([origin.section()])
            .collect(),
    };
    [page.file("random.html".to_owned()), File { name: "random.svg".to_owned(), text: svg }]
}

fn summary_table(summaries: &[Summary]) -> Table {
    let head = [
        "policy",
        "group",
        "cells",
        "streams",
        "p05",
        "median",
        "below .9",
        "below .5",
        "worst of a cell, median",
        "work, mean",
        "promises broken",
    ];
    let line = |it: &Summary| {
        let figures = [
            it.insulation_p05,
            it.insulation_median,
            it.below_0_9,
            it.below_0_5,
            it.worst_median,
            it.work_mean,
        ];
        let names = [it.policy, it.group].map(str::to_owned).into_iter();
        let counts = [it.counts.cells, it.counts.streams].map(|count| count.to_string());
        let figures = figures.map(page::number).into_iter();
        names.chain(counts).chain(figures).chain([it.promises_broken.to_string()]).collect()
    };
    Table::of_figures(&head, summaries.iter().map(line).collect())
}

/// By the smaller due, if the oracle was asked.
fn possible_table(summaries: &[Summary]) -> Option<Table> {
    let line = |it: &Summary| {
        let of = it.possible?;
        let counts = [of.streams, of.left_out].map(|count| count.to_string());
        let figures = [of.p05, of.below_0_9, of.below_0_5].map(page::number);
        Some([it.policy, it.group].map(str::to_owned).into_iter().chain(counts).chain(figures))
    };
    let lines: Vec<_> = summaries.iter().filter_map(line).map(Iterator::collect).collect();
    let head = ["policy", "group", "streams", "left out", "p05", "below .9", "below .5"];
    (!lines.is_empty()).then(|| Table::of_figures(&head, lines))
}

fn worst_section(rows: &[Row], policy: &str) -> Section {
    let line = |(row, stream): (&Row, &super::StreamRow)| {
        let Row { seed, cell, device, depth, .. } = row;
        vec![
            format!("disktime bench random --seed {seed} --cell {cell} --policy {policy}"),
            format!("{device}, depth {depth}: {}, {}", stream.name, stream.what),
            page::number(stream.share),
            page::number(stream.throughput.insulation),
        ]
    };
    let lines = worst(rows, policy, 20).into_iter().map(line).collect();
    let table = Table::of_figures(&["command", "stream", "share", "insulation"], lines);
    Section::new(format!("Worst streams of {policy}"), vec![Part::Table(table)])
}

/// By device and load, then policy: the insulation of 19 of 20 streams.
fn svg(rows: &[Row]) -> String {
    let policies = policies(rows);
    let mut values: BTreeMap<(&str, &str, &'static str, &'static str), Vec<f64>> = BTreeMap::new();
    for row in rows {
        for stream in row.streams.iter().filter(|stream| stream.is_judged()) {
            let tile = (row.group, row.policy, row.device, stream.family);
            values.entry(tile).or_default().push(stream.throughput.insulation);
        }
    }
    let mut places: Vec<_> =
        values.keys().map(|(group, _, device, it)| (*group, *device, *it)).collect();
    places.sort_unstable();
    places.dedup();
    let line = |(group, device, family): (&str, &'static str, &'static str)| Line {
        device,
        label: family.to_owned(),
        tiles: policies
            .iter()
            .map(|policy| values.get(&(group, *policy, device, family)))
            .map(|values| values.map(|values| (quantile(values, 0.05), false)))
            .collect(),
    };
    let lines: Vec<Line> = places.into_iter().map(line).collect();
    heatmap::svg(&policies, &lines, None)
}

#[cfg(test)]
mod tests {
    use super::super::due::measure;
    use super::super::runs::row;
    use super::super::samples::{busy, cell};
    use super::*;

    #[test]
    fn a_page_has_the_oracles_table_if_it_was_asked() {
        let cell = cell("exp", 1, vec![(busy(4), 50), (busy(4), 50)]);
        let mut row = row("zygaria", &cell, &measure(&cell));
        assert_eq!(possible_table(&summaries(&[row.clone()])), None);
        row.streams[0].time_division = Some(1.0);
        let table = format!("{:?}", possible_table(&summaries(&[row])));
        for expected in ["zygaria", "depth1", "all", "left out"] {
            assert!(table.contains(expected), "{expected}: {table}");
        }
    }
}
