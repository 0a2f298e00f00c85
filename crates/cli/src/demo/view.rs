//! The demo's output: a live table, then a verdict that explains itself.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use super::{CPU_WAIT_MAX, Rate, Report, Stream};
use crate::table;
use crate::terminal::prose;

/// Lines of the live table.
const LINES: usize = 4;
const NAMES: [&str; 2] = ["sequential", "random"];

/// The live view. On a terminal the table is drawn in place; else a line is written now and then.
pub(super) struct View {
    json: bool,
    terminal: bool,
    split: [u32; 2],
}

impl View {
    pub(super) fn new(json: bool, split: [u32; 2]) -> Self {
        let terminal = !json && std::io::stdout().is_terminal();
        let view = Self { json, terminal, split };
        view.say(&format!(
            "An emulated IBM Deskstar 34GXP (7200 rpm, 20.5 GB, 1999) behind the real daemon,\nover NBD.\n\
             `sequential` reserves {} % of its time and reads runs of 1024 x 4 KiB;\n\
             `random` reserves {} % and reads 4 KiB anywhere. Each keeps 32 requests waiting.\n",
            split[0], split[1]
        ));
        view
    }

    /// Shows where a phase is. A row is a stream, its rate of the last moment and of the phase.
    pub(super) fn draw(
        &self,
        phase: &str,
        at: Duration,
        of: Duration,
        rows: &[(usize, Rate, Rate)],
    ) {
        let seconds = format!("{:.0} of {:.0} s", at.as_secs_f64(), of.as_secs_f64());
        if !self.terminal {
            let close = of.saturating_sub(at) < Duration::from_millis(50);
            let even = (at.as_millis() / 500).is_multiple_of(10);
            if close || even {
                let row = |(index, _, total): &(usize, Rate, Rate)| {
                    let share = total.utilization * 100.0;
                    format!("{} {share:.1} % {:.0} IOPS", NAMES[*index], total.iops)
                };
                let rows = rows.iter().map(row).collect::<Vec<_>>().join(", ");
                self.say(&format!("{phase}, {seconds}: {rows}"));
            }
            return;
        }
        let mut out = std::io::stdout().lock();
        let mut lines = vec![format!("{phase}, {seconds}")];
        lines.push(format!(
            "  {:10}  {:>8}  {:>6}  {:>6}  {:>8}",
            "", "reserved", "now", "so far", "IOPS"
        ));
        for (index, now, total) in rows {
            let reserved =
                if rows.len() > 1 { format!("{} %", self.split[*index]) } else { "-".to_owned() };
            lines.push(format!(
                "  {:10}  {reserved:>8}  {:>4.0} %  {:>4.1} %  {:>8.0}  {}",
                NAMES[*index],
                now.utilization * 100.0,
                total.utilization * 100.0,
                total.iops,
                bar(now.utilization)
            ));
        }
        lines.resize(LINES, String::new());
        let drawn = lines.iter().try_for_each(|line| writeln!(out, "\x1b[2K{line}"));
        let _closed = drawn.and_then(|()| write!(out, "\x1b[{LINES}A")).and_then(|()| out.flush());
    }

    /// Leaves the table of a finished phase where it is.
    pub(super) fn end_phase(&self) {
        if self.terminal {
            print!("{}", "\n".repeat(LINES));
        }
    }

    fn say(&self, text: &str) {
        // Under --json nobody watches.
        if !self.json {
            println!("{}", prose(text));
        }
    }
}

fn bar(share: f64) -> String {
    let filled = (0..25).filter(|part| share * 25.0 > f64::from(*part) + 0.5).count();
    "█".repeat(filled)
}

/// The figures, and in words what they mean.
pub(super) fn verdict(report: &Report) {
    let header = ["virtual disk", "reserved", "got", "IOPS", "alone", "insulation"];
    let mut table = table::new(&header, 1..6);
    for stream in &report.streams {
        table.add_row([
            stream.name.clone(),
            format!("{:.0} %", stream.reserve * 100.0),
            format!("{:.1} %", stream.utilization * 100.0),
            format!("{:.0}", stream.iops),
            format!("{:.0}", stream.alone_iops),
            format!("{:.2}", stream.insulation),
        ]);
    }
    println!("\n{table}\n");
    println!("{}", prose(&judgement(report)));
    if report.judged {
        report.streams.iter().map(explain).for_each(|line| println!("  {line}"));
    }
    let error = &report.timing_error_us;
    println!(
        "  The emulated disk answered within {:.0} µs of its timing model half of the\n  time, {:.0} µs 99 % \
         of it.",
        error.p50, error.p99
    );
}

pub(super) fn judgement(report: &Report) -> String {
    if !report.timing_error_us.is_small() {
        return report.timing_error_us.too_busy();
    }
    if report.cpu_wait > CPU_WAIT_MAX {
        let fraction = |part: f64| format!("{part:.2}").trim_start_matches('0').to_owned();
        return format!(
            "NOT JUDGED: this machine is too busy: for {} of the time the demo's threads waited for a CPU, {} is \
             allowed. Run the demo again when less else runs.",
            fraction(report.cpu_wait),
            fraction(CPU_WAIT_MAX)
        );
    }
    if !report.judged {
        return format!(
            "NOT JUDGED: {} whole rounds of slices are too few to say what each gets: give it more time with --for.",
            report.rounds
        );
    }
    let said = match (report.kept(), report.insulated()) {
        (true, true) if report.claims_insulation() => {
            "KEPT: each got the disk time it reserved, and was as fast as alone on that share."
        }
        (true, true) => "KEPT: each got the disk time it reserved.",
        (true, false) => {
            "BROKEN: each got its disk time, but one was slower than alone on its share."
        }
        (false, _) => "BROKEN: one did not get the disk time it reserved.",
    };
    said.to_owned()
}

/// A line on the share, and one on what it was worth.
fn explain(stream: &Stream) -> String {
    let Stream { name, utilization, reserve, insulation, .. } = stream;
    let kept = if stream.kept() { "kept" } else { "NOT kept" };
    let (got, reserved) = (utilization * 100.0, reserve * 100.0);
    let share =
        format!("{name}: {got:.1} % of the disk's time for {reserved:.0} % reserved, {kept};");
    if *reserve == 0.0 {
        return share.replace(';', ".");
    }
    let worth = format!(
        "{:.0} % of the speed of a disk of its own that is {reserved:.0} % as fast",
        insulation * 100.0
    );
    let why = match name.as_str() {
        _ if *insulation >= 0.95 => ".",
        "sequential" => {
            ":\n    each return to its run costs a seek and half a turn, and it pays for them."
        }
        _ => {
            ":\n    the head comes back from the other's place, farther than between its own\n    requests."
        }
    };
    format!("{share}\n    {worth}{why}")
}
