//! The manual's reference pages: written from the code, compared with the files in `docs/reference`.
//!
//! `DISKTIME_RENEW=1 cargo test -p disktime reference` writes them anew.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use disktime_control::{EVENT_KINDS, histogram_rows, metric_rows};
use disktime_core::Event;
use disktime_server::config::KEYS;

use crate::{Arguments, failure};

const WRITTEN: &str = "A test compares this page with the code; \
    `DISKTIME_RENEW=1 cargo test -p disktime reference` writes it anew.";

/// Pages of `docs/reference` by name.
fn pages() -> [(&'static str, String); 4] {
    [
        ("configuration.md", configuration()),
        ("commands.md", commands()),
        ("metrics.md", metrics()),
        ("events.md", events()),
    ]
}

fn configuration() -> String {
    let mut page =
        format!("# Configuration\n\n{WRITTEN}\n\n{}", include_str!("reference/configuration.txt"));
    for (table, title) in [
        ("server", "The server: `[server]`"),
        ("listener", "More listeners: `[[listener]]`"),
        ("tls", "Certificates: `[tls]`"),
        ("device", "Devices: `[[device]]`"),
        ("vdisk", "Virtual disks: `[[vdisk]]`"),
    ] {
        let _infallible = write!(page, "\n## {title}\n| key | is | left out |\n|---|---|---|\n");
        for row in KEYS.iter().filter(|row| row.table == table) {
            let _infallible = writeln!(page, "| `{}` | {} | {} |", row.key, row.is, row.usual);
        }
    }
    page
}

fn commands() -> String {
    let mut page = format!("# Commands\n\n{WRITTEN}\n");
    let mut command = Arguments::command().term_width(crate::terminal::COLUMNS);
    command.build();
    describe(&command, "disktime", &mut page);
    page
}

/// A command's help, then that of those below it.
fn describe(command: &Command, name: &str, page: &mut String) {
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let help = lines.join("\n");
    let _infallible = write!(page, "\n## {name}\n```text\n{}\n```\n", help.trim());
    for below in command.get_subcommands().filter(|it| it.get_name() != "help") {
        describe(below, &format!("{name} {}", below.get_name()), page);
    }
}

fn metrics() -> String {
    let mut page = format!(
        "# Metrics\n\n{WRITTEN}\n\n`GET /metrics` at the control socket answers them in the format of \
         OpenMetrics ([control.md](../control.md)). Names that end in `_total` only rise. \
         [how-to/watch.md](../how-to/watch.md) says how to scrape them.\n\n\
         | metric | labels | is |\n|---|---|---|\n"
    );
    for [name, labels, text] in metric_rows() {
        let _infallible = writeln!(page, "| `{name}` | {labels} | {text} |");
    }
    page += "\n`GET /metrics?histograms=true` answers these classic histograms as well.\n\n\
             | histogram | labels | is |\n|---|---|---|\n";
    for [name, labels, text] in histogram_rows() {
        let _infallible = writeln!(page, "| `{name}` | {labels} | {text} |");
    }
    page
}

fn events() -> String {
    let mut page = format!(
        "# Events, exit codes, errors and signals\n\n{WRITTEN}\n\n## Events of a daemon\n\
         `disktime events`, `GET /v1/events` and the page show them.\n\n| kind | tells |\n|---|---|\n"
    );
    for (kind, text) in EVENT_KINDS {
        let _infallible = writeln!(page, "| `{kind}` | {text} |");
    }
    page += "\n## Events of the engine\nThe engine tells them; the daemon logs those that an operator \
             has to know, with the virtual disk's name.\n\n| event | tells |\n|---|---|\n";
    for (name, text) in ENGINE {
        let _infallible = writeln!(page, "| `{name}` | {text} |");
    }
    let _infallible = write!(
        page,
        "\n## Exit codes\n```text\n{}\n```\n\n{}",
        failure::EXIT_CODES,
        include_str!("reference/errors.txt")
    );
    page
}

/// The engine's events; [`engine_name`] fails to compile when one is missing.
const ENGINE: &[(&str, &str)] = &[
    ("Admitted", "a stream's contract holds from now on"),
    ("Refused", "a change was refused, with the reason"),
    ("Late", "a request completed after the deadline that it stated"),
    ("MissedDeadline", "a client reported a missed deadline"),
    ("ReportIgnored", "such a report moves nothing, with the reason"),
    ("PromiseBroken", "a backlogged stream is behind its reservation by longer than its bound"),
    ("CycleMissed", "a guaranteed rate was not kept in a cycle"),
    ("Cut", "the device can't keep all guaranteed rates: this stream has no rank for now"),
    ("Restored", "a stream that was cut has its rank again"),
    ("CostMoved", "the learned cost of a stream's pieces of a kind has moved beyond chance"),
];

fn engine_name(event: &Event) -> &'static str {
    match event {
        Event::Admitted(..) => "Admitted",
        Event::Refused(..) => "Refused",
        Event::Late { .. } => "Late",
        Event::MissedDeadline(..) => "MissedDeadline",
        Event::ReportIgnored(..) => "ReportIgnored",
        Event::PromiseBroken { .. } => "PromiseBroken",
        Event::CycleMissed { .. } => "CycleMissed",
        Event::Cut(..) => "Cut",
        Event::Restored(..) => "Restored",
        Event::CostMoved { .. } => "CostMoved",
    }
}

#[test]
fn reference_pages_say_what_the_code_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let renew = std::env::var_os("DISKTIME_RENEW").is_some();
    for (name, page) in pages() {
        let path = folder.join(name);
        if renew {
            std::fs::write(&path, &page).expect("a page can be written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = found.lines().zip(page.lines()).find(|(found, page)| found != page);
        assert!(
            found == page,
            "docs/reference/{name} is not what the code says, at {differs:?}: renew it by \
             `DISKTIME_RENEW=1 cargo test -p disktime reference`"
        );
    }
}

#[test]
fn every_event_of_the_engine_is_described() {
    let event = Event::Cut(disktime_core::StreamId(0));
    assert!(ENGINE.iter().any(|(name, _)| *name == engine_name(&event)));
    assert_eq!(ENGINE.len(), 10, "as many as `engine_name` knows");
}

/// The texts of a command's help and of all below it, each with the command's name.
fn helps(command: &Command, name: &str) -> Vec<(String, String)> {
    let long = command.clone().render_long_help().to_string();
    let mut helps = vec![(name.to_owned(), long)];
    helps.push((format!("{name} -h"), command.clone().render_help().to_string()));
    // Lines of examples are not to be broken by the wrapping either.
    let behind = [command.get_after_help(), command.get_after_long_help()];
    for text in behind.into_iter().flatten() {
        helps.push((format!("{name}: the text behind the options"), text.to_string()));
    }
    for below in command.get_subcommands().filter(|it| it.get_name() != "help") {
        helps.extend(self::helps(below, &format!("{name} {}", below.get_name())));
    }
    helps
}

/// 284 lines were longer.
#[test]
fn every_help_fits_into_80_columns() {
    let mut command = Arguments::command().term_width(crate::terminal::COLUMNS);
    command.build();
    let helps = helps(&command, "disktime");
    assert!(helps.len() > 60, "only {} texts", helps.len());
    for (name, text) in helps {
        for line in text.lines() {
            let columns = line.trim_end().chars().count();
            assert!(columns <= crate::terminal::COLUMNS, "{name}: {columns} columns: {line}");
        }
    }
}
