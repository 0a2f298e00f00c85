#![forbid(unsafe_code)]
//! How measurements are shown: charts, pages, and the statistics that they state.
//!
//! - [`chart`]: a figure as numbers; [`drawing::svg`] draws one of its panels.
//! - [`heatmap`]: insulation by case and policy, as colours.
//! - [`page`]: a page as data, and its HTML.
//! - [`statistics`]: means and quantiles of samples.
//!
//! Does not know: what was measured, clocks, directories, terminals.

pub mod chart;
pub mod drawing;
pub mod heatmap;
pub mod page;
pub mod statistics;
