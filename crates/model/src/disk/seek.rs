//! Seek curves: how long the arm takes to move by so many cylinders and settle for reading.
//!
//! Does not know: head switches, the extra settling of writes, or where the arm is.

use disktime_core::Duration;
use std::fmt;

/// Time to seek as a function of the distance. Distance 0 costs nothing in all of them.
#[derive(Clone, PartialEq, Debug)]
pub enum SeekCurve {
    /// `short_ms + short_root_ms·√d` up to and including `short_cylinders`, beyond it
    /// `long_ms + long_slope_ms·d`. Source: Ruemmler & Wilkes, "An introduction to disk drive
    /// modeling", IEEE Computer 27(3), 1994.
    TwoPiece {
        /// Constant of the short piece, milliseconds.
        short_ms: f64,
        /// Milliseconds per square root of a cylinder.
        short_root_ms: f64,
        /// Longest distance of the short piece, cylinders.
        short_cylinders: u32,
        /// Constant of the long piece, milliseconds.
        long_ms: f64,
        /// Milliseconds per cylinder.
        long_slope_ms: f64,
    },
    /// `first_ms + root_ms·√(d-1) + slope_ms·(d-1)`; made by [`SeekCurve::published`].
    RootAndLine {
        /// One cylinder, milliseconds.
        first_ms: f64,
        /// Milliseconds per square root of a cylinder.
        root_ms: f64,
        /// Milliseconds per cylinder.
        slope_ms: f64,
    },
    /// Point by point; made by [`SeekCurve::parse_table`].
    Table(SeekTable),
}

/// The three seek times on a data sheet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PublishedSeek {
    /// One cylinder, milliseconds.
    pub track_to_track_ms: f64,
    /// Mean over random pairs of cylinders, milliseconds.
    pub average_ms: f64,
    /// From the first cylinder to the last, milliseconds.
    pub full_stroke_ms: f64,
}

/// Measured seek times: straight lines between the points, level before the first and after the last.
#[derive(Clone, PartialEq, Debug)]
pub struct SeekTable {
    /// Distance in cylinders (rising) and milliseconds.
    points: Vec<(u32, f64)>,
}

impl SeekCurve {
    /// Fits a curve to published numbers over `cylinders` cylinders.
    ///
    /// Source: Lee & Katz, "An analytic performance model of disk arrays", SIGMETRICS 1993. A
    /// negative coefficient is clipped to zero, so the curve rises everywhere.
    #[must_use]
    pub fn published(seek: PublishedSeek, cylinders: u32) -> Self {
        let PublishedSeek { track_to_track_ms: first, average_ms, full_stroke_ms: full } = seek;
        let span = f64::from(cylinders);
        let root = (-10.0 * first + 15.0 * average_ms - 5.0 * full) / (3.0 * span.sqrt());
        let slope = (7.0 * first - 15.0 * average_ms + 8.0 * full) / (3.0 * span);
        Self::RootAndLine { first_ms: first, root_ms: root.max(0.0), slope_ms: slope.max(0.0) }
    }

    /// Reads a measured table: a first line `Seek distances measured: COUNT`, then COUNT lines
    /// `distance_cylinders, milliseconds`, distances rising. (DiskSim's format.)
    ///
    /// # Errors
    /// Names the first line, counted from 1, that is not so.
    pub fn parse_table(text: &str) -> Result<Self, SeekTableError> {
        let mut lines = text.lines();
        let declared = lines
            .next()
            .and_then(|line| line.strip_prefix("Seek distances measured:"))
            .and_then(|count| count.trim().parse().ok())
            .ok_or(SeekTableError::Header)?;
        let mut points: Vec<(u32, f64)> = Vec::new();
        for (index, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line_number = index + 2;
            let point = parse_point(line).ok_or(SeekTableError::Point { line: line_number })?;
            if points.last().is_some_and(|last| last.0 >= point.0) {
                return Err(SeekTableError::NotRising { line: line_number });
            }
            points.push(point);
        }
        if points.len() != declared || points.is_empty() {
            return Err(SeekTableError::Count { declared, found: points.len() });
        }
        Ok(Self::Table(SeekTable { points }))
    }

    /// Time to move by `distance` cylinders, settled and ready to read.
    #[must_use]
    pub fn time(&self, distance: u32) -> Duration {
        if distance == 0 {
            return Duration::ZERO;
        }
        duration_of_ms(self.milliseconds(distance))
    }

    fn milliseconds(&self, distance: u32) -> f64 {
        let cylinders = f64::from(distance);
        match *self {
            Self::TwoPiece { short_ms, short_root_ms, short_cylinders, long_ms, long_slope_ms } => {
                if distance <= short_cylinders {
                    short_ms + short_root_ms * cylinders.sqrt()
                } else {
                    long_ms + long_slope_ms * cylinders
                }
            }
            Self::RootAndLine { first_ms, root_ms, slope_ms } => {
                let beyond = cylinders - 1.0;
                first_ms + root_ms * beyond.sqrt() + slope_ms * beyond
            }
            Self::Table(ref table) => table.milliseconds(distance),
        }
    }
}

impl SeekTable {
    fn milliseconds(&self, distance: u32) -> f64 {
        let next = self.points.partition_point(|point| point.0 < distance);
        match (next.checked_sub(1).map(|last| self.points[last]), self.points.get(next)) {
            (Some((from, low)), Some(&(to, high))) => {
                low + (high - low) * f64::from(distance - from) / f64::from(to - from)
            }
            (None, Some(&(_, ms))) | (Some((_, ms)), None) => ms,
            (None, None) => unreachable!("a table has a point: parse_table refuses an empty one"),
        }
    }
}

fn parse_point(line: &str) -> Option<(u32, f64)> {
    let (distance, ms) = line.split_once(',')?;
    let ms: f64 = ms.trim().parse().ok()?;
    // A minute is far beyond any seek, and keeps the nanoseconds exact.
    (0.0..60_000.0).contains(&ms).then_some((distance.trim().parse().ok()?, ms))
}

/// Rounds to the nearest nanosecond.
fn duration_of_ms(ms: f64) -> Duration {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a seek time is positive and far below 2^53 ns; `as` saturates otherwise"
    )]
    let nanos = (ms * 1e6).round() as u64;
    Duration::from_nanos(nanos)
}

/// Why a text is not a seek table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekTableError {
    /// The first line is not `Seek distances measured: COUNT`.
    Header,
    /// Not `distance, milliseconds` with a time between 0 and a minute.
    Point {
        /// Line, counted from 1.
        line: usize,
    },
    /// The distance is not greater than the one before.
    NotRising {
        /// Line, counted from 1.
        line: usize,
    },
    /// The first line promised another number of points, or there are none.
    Count {
        /// Points promised.
        declared: usize,
        /// Points there.
        found: usize,
    },
}

impl fmt::Display for SeekTableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Header => f.write_str("line 1: expected `Seek distances measured: COUNT`"),
            Self::Point { line } => write!(f, "line {line}: expected `cylinders, milliseconds`"),
            Self::NotRising { line } => write!(f, "line {line}: distances must rise"),
            Self::Count { declared, found } => {
                write!(f, "{found} points where the first line says {declared} (at least 1)")
            }
        }
    }
}

impl std::error::Error for SeekTableError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(curve: &SeekCurve, distance: u32) -> f64 {
        curve.time(distance).as_secs_f64() * 1e3
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-3, "{value} ms where {expected} was expected");
    }

    #[test]
    fn two_pieces_of_the_ibm_dnes_309170w() {
        let curve = SeekCurve::TwoPiece {
            short_ms: 1.299,
            short_root_ms: 0.1477,
            short_cylinders: 590,
            long_ms: 4.445,
            long_slope_ms: 0.000_747,
        };
        assert_eq!(curve.time(0), Duration::ZERO);
        close(ms(&curve, 1), 1.4467);
        close(ms(&curve, 400), 4.253);
        close(ms(&curve, 590), 4.887);
        close(ms(&curve, 591), 4.886);
        close(ms(&curve, 11_473), 13.015);
    }

    #[test]
    fn published_numbers_come_out_again() {
        let seek = PublishedSeek { track_to_track_ms: 0.23, average_ms: 7.4, full_stroke_ms: 16.0 };
        let cylinders = 200_000;
        let curve = SeekCurve::published(seek, cylinders);
        close(ms(&curve, 1), 0.23);
        close(ms(&curve, cylinders - 1), 16.0);
        // Mean over random pairs: a distance d has probability 2(N-d)/N².
        let span = f64::from(cylinders);
        let mean: f64 = (1..cylinders)
            .map(|d| curve.milliseconds(d) * 2.0 * (span - f64::from(d)) / (span * span))
            .sum();
        assert!((mean - 7.4).abs() < 0.01, "{mean} ms");
    }

    #[test]
    fn negative_coefficients_are_clipped() {
        let seek = PublishedSeek { track_to_track_ms: 1.0, average_ms: 2.0, full_stroke_ms: 9.0 };
        let SeekCurve::RootAndLine { root_ms, slope_ms, .. } = SeekCurve::published(seek, 100)
        else {
            panic!("published numbers make a root and a line")
        };
        assert!(root_ms == 0.0 && slope_ms > 0.0, "{root_ms} {slope_ms}");
    }

    #[test]
    fn a_table_is_read_and_interpolated() {
        let text = "Seek distances measured: 3\n1,\t0.5\n3,      1.500\n10,2.2\n";
        let curve = SeekCurve::parse_table(text).unwrap();
        for (distance, expected) in [(1, 0.5), (2, 1.0), (3, 1.5), (10, 2.2), (99, 2.2)] {
            close(ms(&curve, distance), expected);
        }
    }

    #[test]
    fn a_bad_table_is_refused_by_line() {
        let refused = |text: &str| SeekCurve::parse_table(text).unwrap_err();
        let header = "Seek distances measured: 2\n";
        assert_eq!(refused(""), SeekTableError::Header);
        assert_eq!(refused("Seek distances measured: x\n"), SeekTableError::Header);
        assert_eq!(refused(&format!("{header}1,.1\n2;.2\n")), SeekTableError::Point { line: 3 });
        assert_eq!(refused(&format!("{header}1,NaN\n")), SeekTableError::Point { line: 2 });
        assert_eq!(
            refused(&format!("{header}2,.1\n2,.2\n")),
            SeekTableError::NotRising { line: 3 }
        );
        assert_eq!(
            refused(&format!("{header}1,.1\n")),
            SeekTableError::Count { declared: 2, found: 1 }
        );
        let none = SeekTableError::Count { declared: 0, found: 0 };
        assert_eq!(refused("Seek distances measured: 0\n"), none);
    }
}
