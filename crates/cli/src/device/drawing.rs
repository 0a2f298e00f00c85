//! A profile drawn, one panel below the other in one file: rates by place, seeks by distance, and of
//! each kind of requests the throughput by depth and the rate by size.

use disktime_profiler::{Cell, Found, Seek, Speeds, WorkSpeed};
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_report::drawing;

/// As tall as a figure of the papers is.
const PANEL_HEIGHT: u32 = 400;
const PANEL_WIDTH: u32 = 640;

/// The SVG document.
pub(super) fn svg(found: &Found) -> String {
    stacked(panels(found).iter().map(drawing::svg))
}

fn panels(found: &Found) -> Vec<Panel> {
    let speeds = found.speeds.iter().flat_map(|speeds| [depths(speeds), sizes(speeds)]);
    [rates(found), seeks(found)].into_iter().chain(speeds).collect()
}

/// Drawings below one another.
fn stacked(drawings: impl Iterator<Item = String>) -> String {
    let mut inner = String::new();
    let mut top = 0;
    for drawing in drawings {
        inner += &drawing.replacen("<svg ", &format!("<svg y=\"{top}\" "), 1);
        top += PANEL_HEIGHT;
    }
    format!(
        "<svg width=\"{PANEL_WIDTH}\" height=\"{top}\" viewBox=\"0 0 {PANEL_WIDTH} {top}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n{inner}</svg>\n"
    )
}

fn rates(found: &Found) -> Panel {
    let mut begin = 0;
    let zones = found.profile.zones.iter().flat_map(|zone| {
        let rate = zone.read.bytes_per_second as f64 / 1e6;
        let steps = [(begin as f64 / 1e9, rate), (zone.end as f64 / 1e9, rate)];
        begin = zone.end;
        steps
    });
    let zones: Vec<_> = zones.collect();
    let places = found
        .rates
        .iter()
        .map(|rate| (rate.offset as f64 / 1e9, rate.bytes_per_second as f64 / 1e6));
    let count = found.profile.zones.len();
    let plural = if count == 1 { "" } else { "s" };
    Panel {
        title: "Reads in sequence, by place".to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("place, GB"),
        y: Axis::linear("rate, MB/s"),
        series: vec![
            Series::new(&format!("{count} zone{plural}"), zones),
            Series::new("measured", places),
        ],
        level: None,
    }
}

fn seeks(found: &Found) -> Panel {
    let place = |distance: u64| distance as f64 / 1024.0;
    let millis = |seek: &Seek| seek.time.as_secs_f64() * 1e3;
    let mut curve: Vec<(f64, f64)> = Vec::new();
    for of_distance in found.seeks.chunk_by(|one, other| one.distance == other.distance) {
        let mean = of_distance.iter().map(millis).sum::<f64>() / of_distance.len() as f64;
        curve.push((place(of_distance[0].distance), mean));
    }
    // A point that has no place on the axis parts the line: single points are drawn as dots.
    let parted = |seek: &Seek| [(place(seek.distance), millis(seek)), (f64::NAN, 0.0)];
    let title = match found.rotation {
        Some(_) => "Positioning without rotational wait, by distance",
        None => "Positioning, by distance",
    };
    Panel {
        title: title.to_owned(),
        marks: Marks::Lines,
        x: Axis::log("distance, KiB"),
        y: Axis::linear("time, ms"),
        series: vec![
            Series::new("mean over places", curve),
            Series::new("measured, one place each", found.seeks.iter().flat_map(parted)),
        ],
        level: None,
    }
}

fn depths(speeds: &Speeds) -> Panel {
    let series = |of: &WorkSpeed| {
        let bytes = of.cells.first().map_or(0, |cell| cell.bytes);
        let here = of.cells.iter().filter(|cell| cell.bytes == bytes && cell.batches.is_none());
        let rate = |cell: &Cell| (f64::from(cell.depth), 1.0 / cell.each.as_secs_f64());
        Series::new(of.work.name(), here.map(rate))
    };
    Panel {
        title: "Throughput of 4 KiB at random, 64 KiB in sequence, by depth".to_owned(),
        marks: Marks::Lines,
        x: Axis::log("requests outstanding"),
        y: Axis::log("requests per second"),
        series: speeds.works.iter().map(series).collect(),
        level: None,
    }
}

fn sizes(speeds: &Speeds) -> Panel {
    let series = |of: &WorkSpeed| {
        let mut deep: Vec<&Cell> = of.cells.iter().filter(|cell| cell.batches.is_some()).collect();
        deep.sort_by_key(|cell| cell.bytes);
        let rate = |cell: &&Cell| {
            (cell.bytes as f64 / 1024.0, cell.bytes as f64 / 1e6 / cell.each.as_secs_f64())
        };
        Series::new(of.work.name(), deep.iter().map(rate))
    };
    Panel {
        title: "Rate at the best depth, by size of requests".to_owned(),
        marks: Marks::Lines,
        x: Axis::log("size, KiB"),
        y: Axis::linear("rate, MB/s"),
        series: speeds.works.iter().map(series).collect(),
        level: None,
    }
}
