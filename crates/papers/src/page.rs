//! A paper's reports as files: one page that needs nothing else, and each figure by itself.
//!
//! Does not know: directories. It answers names and contents; who asked writes them.

use crate::Paper;
use crate::experiment::{Check, Report, SeedMiss};
use disktime_report::drawing;
use std::fmt::Write;

/// What the reader needs in order to repeat the runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// The command that makes them again.
    pub command: String,
    /// Runs of each experiment.
    pub seeds: u32,
    /// Where they ran; results don't depend on it.
    pub machine: String,
}

/// A file to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// Each figure of the reports as an SVG file: `<id>.svg`, or `<id>-<panel>.svg` if it has several.
#[must_use]
pub fn figures(reports: &[&Report]) -> Vec<File> {
    let of_report = |report: &&Report| {
        let (id, count) = (report.id, report.panels.len());
        let panels = report.panels.iter().enumerate();
        let name = move |index: usize| match count {
            1 => format!("{id}.svg"),
            _ => format!("{id}-{}.svg", index + 1),
        };
        panels
            .map(|(index, panel)| File { name: name(index), text: drawing::svg(panel) })
            .collect::<Vec<_>>()
    };
    reports.iter().flat_map(of_report).collect()
}

/// The page `<paper>.html`: plots, checks, parameters, origin.
#[must_use]
pub fn page(paper: &Paper, reports: &[&Report], provenance: &Provenance) -> File {
    let mut body = String::new();
    for report in reports {
        section(&mut body, report);
    }
    let missed = reports.iter().filter(|report| !report.pass()).map(|report| report.id);
    let missed: Vec<_> = missed.collect();
    let verdict = match &missed[..] {
        [] => format!("All checks of {} figures hold.", reports.len()),
        ids => format!("Checks missed in {}.", ids.join(", ")),
    };
    let parameters: String = (paper.parameters)()
        .into_iter()
        .map(|(name, value)| row("th", &[escape(name)], &[escape(&value)]))
        .collect();
    let Provenance { command, seeds, machine } = provenance;
    let text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{id}: {title}</title>\n<style>{STYLE}</style></head><body>\n\
         <h1>{title}</h1>\n<p>Paper <code>{id}</code>, reproduced in simulation by disktime. \
         {verdict}</p>\n{body}\
         <h2>Parameters</h2>\n<p>One set for all figures; a figure varies only what the paper \
         varies in it.</p>\n<table>{parameters}</table>\n\
         <h2>Origin</h2>\n<table>{command}{seeds}{machine}</table>\n</body></html>\n",
        id = paper.id,
        title = escape(paper.title),
        command = row("th", &["command".to_owned()], &[escape(command)]),
        seeds = row("th", &["seeds".to_owned()], &[format!("1 to {seeds}; figures show means")]),
        machine = row("th", &["machine".to_owned()], &[escape(machine)]),
    );
    File { name: format!("{}.html", paper.id), text }
}

pub(crate) const STYLE: &str = "body{font:15px/1.5 sans-serif;color:#1f2937;max-width:1340px;\
margin:2em auto;padding:0 1em}h2{margin-top:2em;border-bottom:1px solid #e1e5eb}\
svg{max-width:100%;height:auto}table{border-collapse:collapse}\
th,td{padding:.2em .9em .2em 0;text-align:left;vertical-align:top}\
td.number{text-align:right;font-variant-numeric:tabular-nums}\
.plots{display:flex;flex-wrap:wrap;gap:8px}.holds{color:#047857}.missed{color:#b91c1c;\
font-weight:bold}.note{color:#4b5563;max-width:60em}";

fn section(body: &mut String, report: &Report) {
    let mut add = |text: &str| body.push_str(text);
    add(&format!(
        "<h2 id=\"{0}\">{0}: {1}</h2>\n<div class=\"plots\">\n",
        report.id,
        escape(report.title)
    ));
    for panel in &report.panels {
        add(&drawing::svg(panel));
    }
    add("</div>\n<table><tr><th>check</th><th>published</th><th>measured</th>\
         <th>passes</th><th></th></tr>\n");
    for check in &report.checks {
        add(&check_row(check));
    }
    add("</table>\n");
    for SeedMiss { check, seed, measured } in &report.missed_by_seed {
        let (check, measured) = (escape(check), number(*measured));
        add(&format!("<p class=\"note\">Seed {seed} alone misses: {check}: {measured}</p>\n"));
    }
    if !report.note.is_empty() {
        add(&format!("<p class=\"note\">{}</p>\n", escape(report.note)));
    }
}

fn check_row(check: &Check) -> String {
    let verdict = match check.pass() {
        true => "<td class=\"holds\">holds</td>",
        false => "<td class=\"missed\">missed</td>",
    };
    let mut text = format!("<tr><td>{}</td>", escape(&check.name));
    for value in [number(check.published), number(check.measured), bounds(check)] {
        let _ = write!(text, "<td class=\"number\">{value}</td>");
    }
    text + verdict + "</tr>\n"
}

/// What passes, as a person reads it.
#[must_use]
pub fn bounds(check: &Check) -> String {
    match (check.low.is_finite(), check.high.is_finite()) {
        (true, true) if check.low < check.high => {
            format!("{} to {}", number(check.low), number(check.high))
        }
        (true, true) => number(check.low),
        (true, false) => format!("at least {}", number(check.low)),
        (false, true) => format!("at most {}", number(check.high)),
        (false, false) => "anything".to_owned(),
    }
}

/// A value with up to three digits after the point.
#[must_use]
pub fn number(value: f64) -> String {
    let rounded = (value * 1e3).round() / 1e3;
    // No minus before a zero.
    format!("{}", rounded + 0.0)
}

fn row(tag: &str, heads: &[String], cells: &[String]) -> String {
    let mut text = "<tr>".to_owned();
    heads.iter().for_each(|head| text += &format!("<{tag}>{head}</{tag}>"));
    cells.iter().for_each(|cell| text += &format!("<td>{cell}</td>"));
    text + "</tr>\n"
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
