//! Live rows as files: one page that needs nothing else, and the picture by itself.

use disktime_report::heatmap::{self, Line};
use disktime_report::page::{self, File, Page, Part, Section, Table};

use super::live_row::LiveRow;
use super::scene::LiveDevice;
use super::verdict::{distances, missed};
use crate::insulation::Origin;

/// `insulation-live.html` and `insulation-live.svg`.
#[must_use]
pub fn files(rows: &[LiveRow], origin: &Origin) -> [File; 2] {
    let svg = picture(rows);
    let streams = Section::new("Streams", vec![Part::Drawing(svg.clone())]);
    let lead = "Throughput by (share × throughput alone), measured over NBD on real servers in \
                real time: other work on the machine shows. Every contender's streams run alone \
                and together in turn with the other contenders'.";
    let findings = [Some(distance_section(rows)), misses_section(rows), simulated_section(rows)];
    let rest = [streams, rows_section(rows), devices_section(), origin.section()];
    let page = Page {
        title: "Insulation, live".to_owned(),
        heading: "Insulation, live".to_owned(),
        lead: vec![Part::note(lead)],
        sections: findings.into_iter().flatten().chain(rest).collect(),
    };
    [
        page.file("insulation-live.html".to_owned()),
        File { name: "insulation-live.svg".to_owned(), text: svg },
    ]
}

/// A line for each stream of a scene, a column for each contender.
fn picture(rows: &[LiveRow]) -> String {
    let mut policies: Vec<&'static str> = Vec::new();
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let label = label(row);
        let column = policies.iter().position(|it| *it == row.policy).unwrap_or_else(|| {
            policies.push(row.policy);
            policies.len() - 1
        });
        // Two streams of one name in a scene have a line each.
        let free = |it: &Line| it.tiles.get(column).is_none_or(Option::is_none);
        let known =
            lines.iter().position(|it| it.device == row.device && it.label == label && free(it));
        let line = known.unwrap_or_else(|| {
            lines.push(Line { device: row.device, label, tiles: Vec::new() });
            lines.len() - 1
        });
        let tiles = &mut lines[line].tiles;
        tiles.resize(tiles.len().max(column + 1), None);
        tiles[column] = Some((row.figures.insulation_mean, false));
    }
    heatmap::svg(&policies, &lines, None)
}

/// Several others have no room beside.
fn label(row: &LiveRow) -> String {
    let LiveRow { victim, antagonist, split, .. } = row;
    if antagonist.contains(" + ") {
        return format!("{victim} at {:.0} % of {split}", row.share * 100.0);
    }
    format!("{victim} at {:.0} % beside {antagonist}", row.share * 100.0)
}

fn distance_section(rows: &[LiveRow]) -> Section {
    let line = |it: super::Distance| {
        let figures = [it.mean, it.worst, it.worst_of_best, it.work_conservation];
        let place = format!("{} at {}: {}", it.device, it.split, it.streams);
        let names = [it.policy.to_owned(), place];
        names.into_iter().chain(figures.map(page::number)).collect()
    };
    let head = [
        "policy",
        "device",
        "mean |insulation - 1|",
        "worst insulation",
        "by the best contender's speed alone",
        "work conservation",
    ];
    let lines: Vec<Vec<String>> = distances(rows).into_iter().map(line).collect();
    tabled("Distance to shares", &head, lines)
}

fn misses_section(rows: &[LiveRow]) -> Option<Section> {
    let missed = missed(rows);
    if missed.is_empty() {
        return None;
    }
    let line = |miss: super::LiveMiss| vec![miss.what, miss.bar, format!("{:.4}", miss.measured)];
    let lines: Vec<_> = missed.into_iter().map(line).collect();
    Some(tabled("Bars that are missed", &["where", "bar", "measured"], lines))
}

fn simulated_section(rows: &[LiveRow]) -> Option<Section> {
    let line = |row: &LiveRow| {
        let simulated = row.simulated?;
        let figures =
            [row.figures.insulation_mean, simulated, row.figures.insulation_mean - simulated];
        let stream = format!("{} at {} beside {}", row.victim, row.split, row.antagonist);
        let names = [row.policy.to_owned(), stream];
        Some(names.into_iter().chain(figures.map(page::number)).collect::<Vec<_>>())
    };
    let lines: Vec<_> = rows.iter().filter_map(line).collect();
    if lines.is_empty() {
        return None;
    }
    let head = ["policy", "stream", "live", "simulated", "difference"];
    Some(tabled("Live and simulated", &head, lines))
}

fn rows_section(rows: &[LiveRow]) -> Section {
    let head = [
        "policy",
        "stream",
        "insulation",
        "first percentile",
        "windows above .9",
        "share error, points",
        "work conservation",
        "longest gap, ms",
        "p99 by (p99 alone / share)",
        "requests/s",
        "alone",
        "others' CPU",
    ];
    let line = |row: &LiveRow| {
        let figures = [
            Some(row.figures.insulation_mean),
            Some(row.figures.insulation_p01),
            Some(row.figures.windows_above_0_9),
            row.figures.share_error_points,
            Some(row.figures.work_conservation),
            Some(row.figures.gap_ms_max),
            Some(row.figures.p99_ratio),
            Some(row.iops),
            Some(row.alone_iops),
            Some(row.foreign_cpu),
        ];
        let LiveRow { device, victim, antagonist, split, .. } = row;
        let stream = format!("{device}: {victim} of {split} beside {antagonist}");
        let figure = |it: Option<f64>| it.map_or_else(|| "-".to_owned(), page::number);
        [row.policy.to_owned(), stream].into_iter().chain(figures.map(figure)).collect()
    };
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    tabled("Rows", &head, lines)
}

fn devices_section() -> Section {
    let lines = LiveDevice::ALL.map(|it| vec![it.name().to_owned(), it.doc().to_owned()]);
    tabled("Devices", &["device", ""], lines.into())
}

fn tabled(heading: &str, head: &[&str], rows: Vec<Vec<String>>) -> Section {
    Section::new(heading, vec![Part::Table(Table::of_figures(head, rows))])
}

#[cfg(test)]
mod tests {
    use super::super::verdict::tests::scene;
    use super::*;

    #[test]
    fn a_page_has_every_contender_in_one_picture() {
        let mut rows = [
            scene("disktime", LiveDevice::File, "70/30", &[0.9, 1.2]),
            scene("bfq", LiveDevice::File, "70/30", &[0.99, 1.0]),
            scene("none", LiveDevice::Nbdkit, "20/30/50", &[0.4, 1.0, 1.0]),
        ]
        .concat();
        rows[0].simulated = Some(0.95);
        let origin = Origin { command: "disktime bench".to_owned(), machine: "<any>".to_owned() };
        let [html, svg] = files(&rows, &origin);
        assert_eq!(
            (html.name.as_str(), svg.name.as_str()),
            ("insulation-live.html", "insulation-live.svg")
        );
        for text in ["live-nbdkit", "Live and simulated", "Bars that are missed", "&#60;any&#62;"] {
            assert!(html.text.contains(text), "{text}");
        }
        assert!(!html.text.contains("src="), "the page needs nothing else");
        assert_eq!(svg.text.matches("class=\"tile\"").count(), 7 + 7, "seven in the legend");
        assert!(!svg.text.contains("<circle"));
    }
}
