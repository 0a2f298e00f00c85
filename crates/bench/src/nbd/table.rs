//! Rows as tables: one for each store, with a line for each load and a column for each server.

use std::fmt::Write;

use super::servers::{OURS, RAW};
use super::{Figures, Generator, Row, Store, WORKS, Work};

/// The medians of all rounds in tables of Markdown, with the ratio to the best of the other servers
/// and to the load without a server. A load of which no round was quiet has a star.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for store in Store::ALL {
        let of_store: Vec<&Row> = rows.iter().filter(|row| row.store == store).collect();
        let mut servers: Vec<&str> = Vec::new();
        for row in &of_store {
            if !servers.contains(&row.server) {
                servers.push(row.server);
            }
        }
        // As in the list of servers, whichever was first in the first round.
        servers.sort_by_key(|name| super::SERVERS.iter().position(|it| it.name == *name));
        if servers.is_empty() {
            continue;
        }
        let _ =
            writeln!(text, "| {} | {} | of the best | of raw |", store.name(), servers.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(servers.len() + 3));
        for generator in [Generator::Disktime, Generator::Fio] {
            for work in &WORKS {
                let of_load = |row: &&&Row| row.generator == generator && row.workload == work.name;
                let of_load: Vec<&Row> =
                    of_store.iter().copied().filter(|it| of_load(&it)).collect();
                if !of_load.is_empty() {
                    line(&mut text, work, generator, &servers, &of_load);
                }
            }
        }
        text.push('\n');
    }
    text.push_str(
        "Requests or bytes per second and CPU time of the server for a request; with one request at \
         a time the median of response times. A star: no round was quiet.\n",
    );
    text
}

fn line(text: &mut String, work: &Work, generator: Generator, servers: &[&str], rows: &[&Row]) {
    let any_judged = rows.iter().any(|row| row.judged);
    let of = |server: &str| {
        let counts = |row: &&&Row| row.server == server && row.judged == any_judged;
        let figures: Vec<Figures> = rows.iter().filter(counts).map(|row| row.figures).collect();
        (!figures.is_empty()).then(|| medians(&figures))
    };
    let star = if any_judged { "" } else { "*" };
    let _ = write!(text, "| {}, {}{star}", work.name, generator.name());
    for server in servers {
        let _ = write!(text, " | {}", of(server).map_or(String::new(), |it| cell(work, &it)));
    }
    let ours = of(OURS);
    let peers = servers.iter().filter(|server| !matches!(**server, OURS | RAW));
    let best =
        peers.filter_map(|server| of(server)).map(|it| speed(work, &it)).max_by(f64::total_cmp);
    for other in [best, of(RAW).map(|it| speed(work, &it))] {
        let ratio = ours.as_ref().zip(other).map(|(ours, other)| speed(work, ours) / other);
        let _ = write!(text, " | {}", ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")));
    }
    text.push_str(" |\n");
}

/// More is better.
fn speed(work: &Work, figures: &Figures) -> f64 {
    if work.is_alone() { 1.0 / figures.p50_us.max(f64::MIN_POSITIVE) } else { figures.iops }
}

fn cell(work: &Work, figures: &Figures) -> String {
    let cpu = figures.server_cpu_us_per_request;
    let cpu = if cpu > 0.0 { format!(", {cpu:.1} µs") } else { String::new() };
    if work.is_alone() {
        format!("after {:.0} µs{cpu}", figures.p50_us)
    } else if work.sequential {
        format!("{:.0} MB/s{cpu}", figures.bytes_per_second / 1e6)
    } else {
        format!("{:.1} k/s{cpu}", figures.iops / 1e3)
    }
}

/// The median of each figure.
fn medians(all: &[Figures]) -> Figures {
    let median = |of: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = all.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    Figures {
        iops: median(|it| it.iops),
        bytes_per_second: median(|it| it.bytes_per_second),
        mean_us: median(|it| it.mean_us),
        p50_us: median(|it| it.p50_us),
        p99_us: median(|it| it.p99_us),
        p999_us: median(|it| it.p999_us),
        server_cpu_us_per_request: median(|it| it.server_cpu_us_per_request),
        foreign_cpu: median(|it| it.foreign_cpu),
        stolen_cpu: median(|it| it.stolen_cpu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(server: &'static str, work: usize, iops: f64, p50_us: f64, judged: bool) -> Row {
        let figures =
            Figures { iops, p50_us, server_cpu_us_per_request: 5.0, ..Figures::default() };
        let (store, workload) = (Store::File, WORKS[work].name);
        let generator = Generator::Fio;
        Row { server, store, workload, generator, round: 1, judged, figures }
    }

    #[test]
    fn ratios_are_to_the_best_of_the_others_and_to_the_load_without_a_server() {
        let servers = [("disktime", 60e3), ("qemu-nbd native", 50e3), ("raw", 80e3)];
        let mut rows: Vec<Row> = servers.map(|(name, iops)| row(name, 1, iops, 500.0, true)).into();
        rows.push(row("qemu-storage-daemon", 1, 40e3, 500.0, true));
        let text = markdown(&rows);
        let line = text.lines().find(|line| line.contains("x 32")).unwrap();
        assert!(line.ends_with("| 1.20 | 0.75 |") && line.contains("60.0 k/s, 5.0 µs"), "{text}");
        assert!(text.starts_with("| file | disktime | qemu-nbd native | qemu-storage"), "{text}");
    }

    #[test]
    fn one_request_at_a_time_is_compared_by_its_response_time() {
        let rows = [row("disktime", 0, 1e3, 50.0, true), row("nbdkit file", 0, 9e3, 100.0, true)];
        let text = markdown(&rows);
        assert!(text.contains("after 50 µs") && text.contains("| 2.00 |  |"), "{text}");
    }

    #[test]
    fn rounds_that_were_not_quiet_count_only_where_none_was() {
        let loud = row("disktime", 1, 10e3, 1.0, false);
        let both = markdown(&[loud.clone(), row("disktime", 1, 90e3, 1.0, true)]);
        assert!(both.contains("90.0 k/s") && !both.contains('*'), "{both}");
        assert!(markdown(&[loud]).contains("x 32, fio* | 10.0 k/s"));
    }
}
