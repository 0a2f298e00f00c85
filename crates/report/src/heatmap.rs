//! A picture of insulation: a line for each case, a column for each policy, colour by insulation.

use std::fmt::Write;

/// Pixels.
const TILE: (usize, usize) = (66, 15);
const LABEL: usize = 316;
const HEADER: usize = 66;
const DEVICE: usize = 26;
const MARGIN: usize = 12;
/// The width of the legend.
const WIDTH_MIN: usize = 700;

/// Insulation of 0, of 0.9 and of 1, and more than is due: distinguishable with any colour vision
/// (after Okabe & Ito, 2008).
const NONE: Colour = (213, 94, 0);
const FAIR: Colour = (253, 236, 190);
const FULL: Colour = (86, 180, 233);
const MORE: Colour = (204, 163, 190);

type Colour = (u8, u8, u8);

/// A line of a picture.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Lines of one device, side by side, are under its name.
    pub device: &'static str,
    /// The case.
    pub label: String,
    /// By policy: an insulation, and whether it is marked.
    pub tiles: Vec<Option<(f64, bool)>>,
}

/// Insulation by line and policy as an SVG document; `mark` is what a mark says, if there are any.
#[must_use]
pub fn svg(policies: &[&str], lines: &[Line], mark: Option<&str>) -> String {
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

    #[test]
    fn colours_run_from_none_over_fair_to_full_and_more_is_apart() {
        assert_eq!([0.0, 0.9, 1.0, 1.04, 1.3].map(colour), [NONE, FAIR, FULL, FULL, MORE]);
        assert_eq!(colour(f64::NAN), NONE);
    }
}
