//! A figure's contents, as numbers.
//!
//! Does not know: how it is drawn.

/// A coordinate system with its series.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// The subject.
    pub title: String,
    /// How its series are drawn.
    pub marks: Marks,
    /// From left to right.
    pub x: Axis,
    /// From below.
    pub y: Axis,
    /// The lines or bars.
    pub series: Vec<Series>,
    /// A level to compare with.
    pub level: Option<Line>,
}

/// How series are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marks {
    /// A bar for each x, of all series on top of one another.
    Stacked,
    /// A bar for each x and series, side by side.
    Grouped,
    /// A line for each series.
    Lines,
}

/// An axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Quantity and unit.
    pub label: &'static str,
    /// How values are spaced.
    pub scale: Scale,
}

/// How values are spaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By powers of ten, from 1 on: less is not drawn.
    Log,
}

/// A named sequence of points.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// The name of the measured thing.
    pub name: String,
    /// x and y.
    pub points: Vec<(f64, f64)>,
    /// The least and the greatest y of each point over what is not known; empty if all is.
    pub band: Vec<(f64, f64)>,
}

/// A level across a panel.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// The name of the quantity.
    pub name: String,
    /// At which y.
    pub at: f64,
}

impl Axis {
    /// An evenly spaced axis.
    #[must_use]
    pub const fn linear(label: &'static str) -> Self {
        Self { label, scale: Scale::Linear }
    }

    /// An axis by powers of ten.
    #[must_use]
    pub const fn log(label: &'static str) -> Self {
        Self { label, scale: Scale::Log }
    }
}

impl Series {
    /// A series.
    #[must_use]
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().collect();
        Self { name: name.to_owned(), points, band: Vec::new() }
    }
}
