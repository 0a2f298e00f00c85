//! Draws a panel as SVG.
//!
//! Logarithmic axes are drawn in the powers themselves, so that every panel has one kind of
//! coordinates. Text is the viewer's: nothing here knows the width of a letter.

use crate::chart::{Axis, Marks, Panel, Scale, Series};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ticks, Ticks>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

const SIZE: (u32, u32) = (640, 400);
/// Pixels above the chart for title and legend.
const HEADER: u32 = 56;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(31, 41, 55);
const GRID: RGBColor = RGBColor(225, 229, 235);
/// Distinguishable with any colour vision (Okabe & Ito, 2008).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
];
/// The part of the gap between two bars' places that the bars fill.
const BAR_FILL: f64 = 0.72;

/// The panel as an SVG document.
///
/// # Panics
/// If a panel has nothing in it: there is no axis for nothing.
#[must_use]
pub fn svg(panel: &Panel) -> String {
    let mut text = String::new();
    let drawn = draw(panel, &SVGBackend::with_string(&mut text, SIZE).into_drawing_area());
    drawn.expect("a panel has points, and text can always be appended to");
    text
}

fn draw(panel: &Panel, root: &Area<'_>) -> Drawn {
    root.fill(&WHITE)?;
    let (header, body) = root.split_vertically(HEADER);
    let title = TextStyle::from((FONT, 19).into_font()).color(&INK);
    header.draw(&Text::new(panel.title.clone(), (14, 8), title))?;
    legend(panel, &header)?;
    let (x, y) = (x_ticks(panel), y_ticks(panel));
    let mut chart = ChartBuilder::on(&body)
        .margin_right(right_margin(&x))
        .margin_left(6)
        .margin_bottom(4)
        .margin_top(6)
        .x_label_area_size(44)
        .y_label_area_size(label_area(&y))
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(TextStyle::from((FONT, 15).into_font()).color(&INK))
        .x_desc(panel.x.label)
        .y_desc(panel.y.label)
        .axis_desc_style(TextStyle::from((FONT, 16).into_font()).color(&INK))
        .x_labels(40)
        .y_labels(40)
        .draw()?;
    match panel.marks {
        Marks::Lines => lines(panel, &mut chart)?,
        Marks::Stacked => stacked(panel, &mut chart)?,
        Marks::Grouped => grouped(panel, &mut chart, &y)?,
    }
    if let Some(level) = &panel.level {
        let at = place(level.at, panel.y.scale);
        let ends = [(x.low, at), (x.high, at)];
        chart.draw_series([PathElement::new(ends, INK.stroke_width(1))])?;
    }
    root.present()?;
    Ok(())
}

/// Pixels beside the chart: room for the right half of the last label below it.
fn right_margin(x: &Ticks) -> u32 {
    let letters = x.at.last().map_or(0, |at| x.format_ext(at).len());
    // As wide as the letters of any usual font of this size; four of them fit into the least.
    u32::try_from(letters).map_or(18, |letters| if letters > 4 { 5 * letters } else { 18 })
}

/// Pixels left of the chart: room for the axis's name and its longest label.
fn label_area(y: &Ticks) -> u32 {
    let letters = y.at.iter().map(|at| y.format_ext(at).len()).max().unwrap_or(0);
    62 + 8 * u32::try_from(letters.saturating_sub(5)).unwrap_or(0)
}

fn lines(panel: &Panel, chart: &mut Chart<'_, '_>) -> Drawn {
    // The first is broader: it can be seen where another lies on it.
    let widths = std::iter::once(4).chain(std::iter::repeat(2));
    for ((series, colour), width) in panel.series.iter().zip(COLOURS.iter().cycle()).zip(widths) {
        band(panel, series, *colour, chart)?;
        // A point that has no place on a logarithmic axis interrupts the line.
        let visible = |(x, y): &(f64, f64)| shown(*x, panel.x.scale) && shown(*y, panel.y.scale);
        for run in series.points.split(|point| !visible(point)) {
            let places =
                run.iter().map(|(x, y)| (place(*x, panel.x.scale), place(*y, panel.y.scale)));
            chart.draw_series(LineSeries::new(places.clone(), colour.stroke_width(width)))?;
            if run.len() <= 12 {
                chart.draw_series(places.map(|at| Circle::new(at, 3, colour.filled())))?;
            }
        }
    }
    Ok(())
}

/// The area that a line may lie in, lightly.
fn band(panel: &Panel, series: &Series, colour: RGBColor, chart: &mut Chart<'_, '_>) -> Drawn {
    let ends = series.points.iter().zip(&series.band);
    let visible =
        ends.filter(|((x, _), (low, _))| shown(*x, panel.x.scale) && shown(*low, panel.y.scale));
    let at = |x: &f64, y: &f64| (place(*x, panel.x.scale), place(*y, panel.y.scale));
    let below: Vec<_> = visible.clone().map(|((x, _), (low, _))| at(x, low)).collect();
    let above: Vec<_> = visible.map(|((x, _), (_, high))| at(x, high)).collect();
    if below.len() > 1 {
        let outline: Vec<_> = below.into_iter().chain(above.into_iter().rev()).collect();
        chart.draw_series([Polygon::new(outline, colour.mix(0.18).filled())])?;
    }
    Ok(())
}

fn stacked(panel: &Panel, chart: &mut Chart<'_, '_>) -> Drawn {
    let half = bar_gap(panel) * BAR_FILL / 2.0;
    let mut tops = vec![0.0; panel.series.first().map_or(0, |series| series.points.len())];
    for (series, colour) in panel.series.iter().zip(COLOURS.iter().cycle()) {
        let bars = series.points.iter().zip(&mut tops).map(|((x, y), top)| {
            let from = *top;
            *top += y;
            Rectangle::new([(x - half, from), (x + half, *top)], colour.filled())
        });
        chart.draw_series(bars)?;
    }
    Ok(())
}

fn grouped(panel: &Panel, chart: &mut Chart<'_, '_>, y_ticks: &Ticks) -> Drawn {
    let group = bar_gap(panel) * BAR_FILL;
    let width = group / panel.series.len() as f64;
    let mut left = -group / 2.0;
    for (series, colour) in panel.series.iter().zip(COLOURS.iter().cycle()) {
        let visible = series.points.iter().filter(|(_, y)| shown(*y, panel.y.scale));
        let bars = visible.map(|(x, y)| {
            let corners = [(x + left, y_ticks.low), (x + left + width, place(*y, panel.y.scale))];
            Rectangle::new(corners, colour.filled())
        });
        chart.draw_series(bars)?;
        left += width;
    }
    Ok(())
}

/// Names beside a mark of their colour, in a row under the title.
fn legend(panel: &Panel, header: &Area<'_>) -> Drawn {
    let font =
        TextStyle::from((FONT, 15).into_font()).color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    let mut left = 20;
    let mut entry = |name: &str, colour: RGBColor, thick: i32| -> Drawn {
        let corners = [(left, 43 - thick), (left + 14, 43 + thick)];
        header.draw(&Rectangle::new(corners, colour.filled()))?;
        header.draw(&Text::new(name.to_owned(), (left + 19, 43), font.clone()))?;
        // Wide enough for the letters of any usual font of this size.
        left += 42 + i32::try_from(name.len()).unwrap_or(0) * 7;
        Ok(())
    };
    for (series, colour) in panel.series.iter().zip(COLOURS.iter().cycle()) {
        entry(&series.name, *colour, 5)?;
    }
    panel.level.as_ref().map_or(Ok(()), |level| entry(&level.name, INK, 1))
}

/// The range of an axis, and where its labels are, as drawn.
#[derive(Clone)]
struct Ticks {
    scale: Scale,
    low: f64,
    high: f64,
    at: Vec<f64>,
}

impl Ticks {
    fn new(axis: Axis, low: f64, high: f64) -> Self {
        match axis.scale {
            Scale::Log => Self::powers(low.log10().floor(), high.log10()),
            Scale::Linear => Self::even(low, high),
        }
    }

    fn powers(low: f64, high: f64) -> Self {
        let high = high.max(low + 1.0);
        let at = std::iter::successors(Some(low), |power| Some(power + 1.0));
        Self { scale: Scale::Log, low, high, at: at.take_while(|power| *power <= high).collect() }
    }

    /// About six labels at 1, 2 or 5 times a power of ten.
    fn even(low: f64, high: f64) -> Self {
        let rough = (high - low) / 6.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough)
            .unwrap_or(10.0 * power);
        let at = std::iter::successors(Some((low / step).ceil() * step), |at| Some(at + step));
        let at = at.take_while(|at| *at <= high * (1.0 + 1e-9)).collect();
        Self { scale: Scale::Linear, low, high, at }
    }
}

impl Ranged for Ticks {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    #[expect(clippy::cast_possible_truncation, reason = "a picture has a few hundred pixels")]
    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let part = (value - self.low) / (self.high - self.low);
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.at.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Ticks {
    fn format(place: &f64) -> String {
        format!("{}", (place * 1e6).round() / 1e6)
    }

    fn format_ext(&self, place: &f64) -> String {
        match self.scale {
            Scale::Linear => Self::format(place),
            Scale::Log => Self::format(&10_f64.powf(*place)),
        }
    }
}

fn x_ticks(panel: &Panel) -> Ticks {
    let values = panel.series.iter().flat_map(|series| &series.points).map(|point| point.0);
    let (low, high) = extremes(values);
    if panel.marks == Marks::Lines {
        return Ticks::new(panel.x, low, high);
    }
    let half = bar_gap(panel) / 2.0;
    let at = panel.series[0].points.iter().map(|point| point.0).collect();
    Ticks { scale: Scale::Linear, low: low - half, high: high + half, at }
}

fn y_ticks(panel: &Panel) -> Ticks {
    let level = panel.level.iter().map(|level| level.at);
    let values = panel.series.iter().flat_map(|series| &series.points).map(|point| point.1);
    let bands = panel.series.iter().flat_map(|series| &series.band);
    let bands = bands.flat_map(|(low, high)| [*low, *high]).filter(|_| panel.marks == Marks::Lines);
    let values = values.chain(level).chain(bands).filter(|y| shown(*y, panel.y.scale));
    let (low, high) = extremes(values);
    if panel.y.scale == Scale::Log {
        return Ticks::new(panel.y, low, 10_f64.powf(high.log10().ceil()));
    }
    let high = if panel.marks == Marks::Stacked { high.max(tallest(panel)) } else { high };
    Ticks::new(panel.y, 0.0, high * 1.04)
}

fn tallest(panel: &Panel) -> f64 {
    let bars = panel.series[0].points.len();
    let sum = |bar: usize| panel.series.iter().map(|series| series.points[bar].1).sum::<f64>();
    (0..bars).map(sum).fold(0.0, f64::max)
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// Between two neighbouring bars.
fn bar_gap(panel: &Panel) -> f64 {
    let points = panel.series.first().map_or(&[][..], |series| &series.points);
    points.windows(2).map(|pair| pair[1].0 - pair[0].0).fold(f64::INFINITY, f64::min)
}

fn shown(value: f64, scale: Scale) -> bool {
    scale == Scale::Linear || value >= 1.0
}

fn place(value: f64, scale: Scale) -> f64 {
    match scale {
        Scale::Linear => value,
        Scale::Log => value.log10(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of an axis up to a second in microseconds read `100000`: the last zero was beyond the drawing.
    #[test]
    fn the_last_label_below_a_drawing_is_whole() {
        for decades in 0..=9_u32 {
            let end = 10_f64.powf(f64::from(decades));
            let points = [(1.0, 1.0), (end.max(2.0), 2.0)];
            let panel = Panel {
                title: "times".to_owned(),
                marks: Marks::Lines,
                x: Axis::log("time, µs"),
                y: Axis::linear("requests"),
                series: vec![Series::new("a", points)],
                level: None,
            };
            let drawn = svg(&panel);
            let label = format!("\n{end}\n");
            let tag =
                drawn.split(&label).next().and_then(|before| before.rsplit("<text x=\"").next());
            let at: f64 = tag.and_then(|tag| tag.split('"').next()).unwrap().parse().unwrap();
            let half = end.to_string().len() as f64 * 8.5 / 2.0;
            assert!(at + half <= f64::from(SIZE.0), "{end} at {at}");
        }
    }

    /// Labels of six figures or more lay on the name of their axis.
    #[test]
    fn labels_lie_beside_the_name_of_their_axis() {
        for decades in 1..=9_u32 {
            let end = 10_f64.powf(f64::from(decades));
            let panel = Panel {
                title: "rates".to_owned(),
                marks: Marks::Lines,
                x: Axis::linear("place"),
                y: Axis::log("requests per second"),
                series: vec![Series::new("a", [(0.0, 1.0), (1.0, end)])],
                level: None,
            };
            let drawn = svg(&panel);
            let label = format!("\n{end}\n");
            let tag =
                drawn.split(&label).next().and_then(|before| before.rsplit("<text x=\"").next());
            let right: f64 = tag.and_then(|tag| tag.split('"').next()).unwrap().parse().unwrap();
            let left = right - end.to_string().len() as f64 * 7.0;
            assert!(left > 18.0, "{end} begins at {left}");
        }
    }
}
