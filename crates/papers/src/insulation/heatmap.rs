//! Rows as a picture: a line for each cell or stream, a column for each policy, colour by insulation.

use std::fmt::Write;

use super::bars::OWN;
use super::cells::Cell;
use super::row::Row;

/// By how much a policy has to be better for a mark: what two seeds differ by.
const BETTER: f64 = 0.01;

/// Pixels.
const TILE: (usize, usize) = (66, 15);
const LABEL: usize = 316;
const HEADER: usize = 66;
const DEVICE: usize = 26;
const MARGIN: usize = 12;
/// What the legend takes.
const WIDTH_MIN: usize = 700;

/// Insulation of 0, of 0.9 and of 1, and more than is due: distinguishable with any colour vision
/// (after Okabe & Ito, 2008).
const NONE: Colour = (213, 94, 0);
const FAIR: Colour = (253, 236, 190);
const FULL: Colour = (86, 180, 233);
const MORE: Colour = (204, 163, 190);

type Colour = (u8, u8, u8);

/// The rows of several policies, side by side by cell.
pub(super) struct Grid<'a> {
    pub(super) policies: Vec<&'static str>,
    /// By cell, in order: the row of each policy that has one.
    pub(super) lines: Vec<(Cell, Vec<Option<&'a Row>>)>,
}

impl<'a> Grid<'a> {
    pub(super) fn new(rows: &'a [Row]) -> Self {
        let mut policies: Vec<&'static str> = Vec::new();
        let mut cells: Vec<Cell> = rows.iter().map(|row| row.cell).collect();
        for row in rows {
            if !policies.contains(&row.policy) {
                policies.push(row.policy);
            }
        }
        cells.sort_unstable();
        cells.dedup();
        let line = |cell: Cell| {
            let of = |policy: &&str| rows.iter().find(|it| it.policy == *policy && it.cell == cell);
            (cell, policies.iter().map(of).collect())
        };
        let lines = cells.into_iter().map(line).collect();
        Self { policies, lines }
    }

    /// The rivals in a line that are better than policy [`OWN`]. None where the antagonist rests:
    /// what is due to it then isn't what it reserves.
    pub(super) fn better(line: &[Option<&'a Row>]) -> Vec<&'a Row> {
        let line = line.iter().flatten().filter(|row| row.cell.antagonist.is_backlogged());
        let own = line.clone().find(|row| row.policy == OWN);
        let rivals =
            line.filter(|row| own.is_some_and(|own| row.worse_off() >= own.worse_off() + BETTER));
        rivals.copied().collect()
    }
}

/// A line of a picture.
pub(super) struct Line {
    /// Lines of one device, side by side, are under its name.
    pub(super) device: &'static str,
    pub(super) label: String,
    /// By policy: an insulation, and whether it is marked.
    pub(super) tiles: Vec<Option<(f64, bool)>>,
}

/// The rows' picture, with the rivals marked that are better.
pub(super) fn svg(rows: &[Row]) -> String {
    let grid = Grid::new(rows);
    let line = |(cell, line): &(Cell, Vec<Option<&Row>>)| {
        let Cell { victim, antagonist, share_percent, .. } = cell;
        let better = Grid::better(line);
        let tile = |row: &Option<&Row>| row.map(|row| (row.insulation_mean, better.contains(&row)));
        Line {
            device: cell.device.name(),
            label: format!("{} at {share_percent} % beside {}", victim.name(), antagonist.name()),
            tiles: line.iter().map(tile).collect(),
        }
    };
    let lines: Vec<Line> = grid.lines.iter().map(line).collect();
    picture(&grid.policies, &lines, Some(&format!("a rival better than {OWN}")))
}

/// Insulation by line and policy as an SVG document; `mark` is what a mark says, if there are any.
pub(super) fn picture(policies: &[&str], lines: &[Line], mark: Option<&str>) -> String {
    let width = WIDTH_MIN.max(MARGIN * 2 + LABEL + policies.len() * TILE.0);
    let mut body = String::new();
    let mut top = HEADER;
    let mut device = None;
    for line in lines {
        if device != Some(line.device) {
            device = Some(line.device);
            top += DEVICE;
            text(&mut body, (MARGIN, top - 8), &format!("class=\"device\">{}", line.device));
            for (column, policy) in policies.iter().enumerate() {
                text(&mut body, (middle(column), top - 8), &format!("class=\"policy\">{policy}"));
            }
        }
        text(&mut body, (MARGIN, top + 11), &format!(">{}", line.label));
        for (column, shown) in line.tiles.iter().enumerate() {
            let Some((insulation, marked)) = *shown else { continue };
            tile(&mut body, (MARGIN + LABEL + column * TILE.0, top), insulation);
            if marked {
                let at = (MARGIN + LABEL + column * TILE.0 + 9, top + TILE.1 / 2);
                let _ = writeln!(body, "<circle cx=\"{}\" cy=\"{}\" r=\"3.5\"/>", at.0, at.1);
            }
        }
        top += TILE.1;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\" \
         fill=\"#1f2937\">\n<style>.device{{font-size:15px;font-weight:bold}}\
         .policy,.tile{{text-anchor:middle}}.policy{{font-size:10px;font-weight:bold}}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n{legend}{body}</svg>\n",
        height = top + MARGIN,
        legend = legend(mark),
    )
}

fn legend(mark: Option<&str>) -> String {
    let mut out = String::new();
    text(&mut out, (MARGIN, 24), "font-size=\"17\">Mean insulation of the victim");
    let samples = [0.0, 0.3, 0.6, 0.9, 0.95, 1.0, 1.3];
    for (index, sample) in samples.into_iter().enumerate() {
        tile(&mut out, (MARGIN + index * TILE.0, 36), sample);
    }
    if let Some(mark) = mark {
        let left = MARGIN + samples.len() * TILE.0 + 14;
        let _ = writeln!(out, "<circle cx=\"{left}\" cy=\"43\" r=\"3.5\"/>");
        text(&mut out, (left + 9, 47), &format!(">{mark}"));
    }
    out
}

fn middle(column: usize) -> usize {
    MARGIN + LABEL + column * TILE.0 + TILE.0 / 2
}

fn tile(out: &mut String, (left, top): (usize, usize), insulation: f64) {
    let (red, green, blue) = colour(insulation);
    let (width, height) = (TILE.0 - 1, TILE.1 - 1);
    let _ = writeln!(
        out,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" \
         fill=\"rgb({red},{green},{blue})\"/>"
    );
    text(out, (left + TILE.0 / 2, top + 11), &format!("class=\"tile\">{insulation:.2}"));
}

/// `rest` is attributes, `>` and what is written.
fn text(out: &mut String, (x, y): (usize, usize), rest: &str) {
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" {rest}</text>");
}

fn colour(insulation: f64) -> Colour {
    match insulation {
        _ if insulation > 1.05 => MORE,
        _ if insulation >= 0.9 => blend(FAIR, FULL, (insulation.min(1.0) - 0.9) * 10.0),
        _ => blend(NONE, FAIR, insulation.max(0.0) / 0.9),
    }
}

fn blend(from: Colour, to: Colour, part: f64) -> Colour {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two u8")]
    let mix =
        |from: u8, to: u8| (f64::from(from) * (1.0 - part) + f64::from(to) * part).round() as u8;
    (mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insulation::bars::tests::row;

    #[test]
    fn a_rival_is_better_if_the_worse_off_is_better_off() {
        let cell = "deskstar-34gxp/random-4k/random-4k/50";
        let at = |policy, insulation_mean, work_conservation| Row {
            work_conservation,
            ..row(policy, cell, insulation_mean)
        };
        let own = at(OWN, 0.95, 0.95);
        // The antagonists have what is left of the work: 2·work - the victim's.
        let rows = [own, at("even", 0.97, 0.97), at("greedy", 1.2, 0.95), at("same", 0.955, 0.955)];
        let grid = Grid::new(&rows);
        let better: Vec<_> = Grid::better(&grid.lines[0].1).iter().map(|row| row.policy).collect();
        assert_eq!(better, ["even"]);
        let svg = svg(&rows);
        assert_eq!(svg.matches("<circle").count(), 2, "one in the legend, one in a tile");
    }

    #[test]
    fn colours_run_from_none_over_fair_to_full_and_more_is_apart() {
        assert_eq!([0.0, 0.9, 1.0, 1.04, 1.3].map(colour), [NONE, FAIR, FULL, FULL, MORE]);
        assert_eq!(colour(f64::NAN), NONE);
    }
}
