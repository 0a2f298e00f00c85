//! The screen of `top`, and the meaning of its keys. Does not know: terminals' modes, the daemon.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use disktime_api::{Contract, Device, Figures};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::{Look, Sort};
use crate::table;

/// Looks of a history.
const HISTORY: usize = 20;

/// A key's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// End.
    End,
    /// The next column.
    Sort,
    /// The other way round.
    Reverse,
    /// Begin to write a filter.
    Filter,
    /// A letter of it.
    Write(char),
    /// One letter less.
    Erase,
    /// It is written.
    Written,
    /// No filter.
    Clear,
    /// The next row.
    Down,
    /// The row before.
    Up,
}

/// A row: a virtual disk, or a stream of a mount.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    kind: &'static str,
    name: &'a str,
    device: &'a str,
    contract: &'a Contract,
    figures: &'a Figures,
    /// Its place among those of its kind.
    at: usize,
    /// A stream of a mount: the mount, and its number there.
    of: Option<(&'a str, u32)>,
}

impl Shown<'_> {
    /// A name that no other row has.
    fn key(&self) -> String {
        match self.of {
            None => self.name.to_owned(),
            Some((mount, stream)) => format!("{}\n{mount}\n{stream}", self.device),
        }
    }
}

impl Look {
    fn all(&self) -> impl Iterator<Item = Shown<'_>> {
        let vdisks = self.vdisks.iter().enumerate().map(|(at, it)| Shown {
            kind: "vdisk",
            name: &it.name,
            device: &it.device,
            contract: &it.contract,
            figures: &it.figures,
            at,
            of: None,
        });
        let mounts = self.mounts.iter().enumerate().map(|(at, it)| Shown {
            kind: "mount",
            name: &it.name,
            device: &it.device,
            contract: &it.contract,
            figures: &it.figures,
            at,
            of: Some((&it.mount, it.stream)),
        });
        vdisks.chain(mounts)
    }
}

/// The view.
pub struct View {
    sort: Sort,
    reversed: bool,
    filter: String,
    writing: bool,
    look: Look,
    past: BTreeMap<String, VecDeque<f64>>,
    trouble: Option<String>,
    chosen: TableState,
}

impl View {
    /// A view of nothing yet.
    pub fn new(sort: Sort, filter: String) -> Self {
        Self {
            sort,
            reversed: false,
            filter,
            writing: false,
            look: Look::default(),
            past: BTreeMap::new(),
            trouble: None,
            chosen: TableState::default(),
        }
    }

    /// Takes a look in.
    pub fn take(&mut self, look: Look) {
        self.trouble = None;
        let keys: BTreeSet<String> = look.all().map(|it| it.key()).collect();
        self.past.retain(|key, _| keys.contains(key));
        for shown in look.all() {
            let past = self.past.entry(shown.key()).or_default();
            past.push_back(shown.figures.utilization);
            if past.len() > HISTORY {
                past.pop_front();
            }
        }
        self.look = look;
    }

    /// The daemon was not reached.
    pub fn lost(&mut self, error: &anyhow::Error) {
        self.trouble = Some(format!("{error:#}"));
    }

    /// Whether keys are letters of a filter.
    pub fn is_writing(&self) -> bool {
        self.writing
    }

    /// Does what a key means; whether that is to end.
    pub fn does(&mut self, step: Step) -> bool {
        match step {
            Step::End => return true,
            Step::Sort => self.sort = self.sort.next(),
            Step::Reverse => self.reversed = !self.reversed,
            Step::Filter => self.writing = true,
            Step::Write(letter) => self.filter.push(letter),
            Step::Erase => {
                self.filter.pop();
            }
            Step::Written => self.writing = false,
            Step::Clear => {
                self.filter.clear();
                self.writing = false;
            }
            Step::Down => self.chosen.select_next(),
            Step::Up => self.chosen.select_previous(),
        }
        false
    }

    /// The rows that the filter leaves, in order.
    pub fn rows(&self) -> Vec<Shown<'_>> {
        let has = |shown: &Shown<'_>| {
            let reason = shown.figures.held_by.as_deref().unwrap_or_default();
            let mount = shown.of.map_or("", |(mount, _)| mount);
            let texts = [shown.name, shown.device, reason, shown.kind, mount];
            texts.iter().any(|text| text.contains(&self.filter))
        };
        let mut rows: Vec<Shown<'_>> = self.look.all().filter(has).collect();
        let key = |vdisk: &Shown<'_>| match self.sort {
            Sort::Name => 0.0,
            Sort::Reserved => vdisk.contract.reserve,
            Sort::Wants => vdisk.figures.wanting,
            Sort::Got => vdisk.figures.utilization,
            Sort::Iops => vdisk.figures.iops,
            Sort::Bandwidth => vdisk.figures.bytes_per_second,
            Sort::Wait => vdisk.figures.latency.queue_us_p99.unwrap_or(0.0),
        };
        rows.sort_by(|a, b| key(b).total_cmp(&key(a)).then_with(|| a.name.cmp(b.name)));
        if self.reversed {
            rows.reverse();
        }
        rows
    }

    /// The rows as a document.
    pub fn document(&self) -> Look {
        let rows = self.rows();
        let (mounts, vdisks): (Vec<Shown<'_>>, Vec<Shown<'_>>) =
            rows.into_iter().partition(|it| it.of.is_some());
        Look {
            devices: self.look.devices.clone(),
            vdisks: vdisks.into_iter().map(|it| self.look.vdisks[it.at].clone()).collect(),
            mounts: mounts.into_iter().map(|it| self.look.mounts[it.at].clone()).collect(),
        }
    }

    /// The rows as text.
    pub fn text(&self) -> String {
        let mut shown = table::new(&HEAD[..HEAD.len() - 1], 3..12);
        for vdisk in self.rows() {
            shown.add_row(&cells(&vdisk)[..]);
        }
        shown.to_string()
    }

    /// Draws it.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let devices = u16::try_from(self.look.devices.len()).unwrap_or(u16::MAX).min(8);
        let parts = Layout::vertical([
            Constraint::Length(devices),
            Constraint::Min(3),
            Constraint::Length(1),
        ]);
        let [head, body, foot] = parts.areas(frame.area());
        let lines: Vec<Line<'_>> = self.look.devices.iter().map(device_line).collect();
        frame.render_widget(Paragraph::new(lines), head);
        let rows: Vec<Row<'_>> = self
            .rows()
            .into_iter()
            .map(|vdisk| {
                let past = self.past.get(&vdisk.key()).map(spark).unwrap_or_default();
                let kept = vdisk.figures.utilization + 0.02 >= vdisk.contract.reserve;
                let short = !kept && vdisk.figures.wanting > 0.95;
                let style = if short { Style::new().fg(Color::Red) } else { Style::new() };
                Row::new(cells(&vdisk).into_iter().chain([past]).map(Cell::from)).style(style)
            })
            .collect();
        let sorted = [0, 3, 4, 5, 6, 7, 8][self.sort as usize];
        let head = HEAD.iter().enumerate().map(|(at, text)| {
            let style = Style::new().add_modifier(Modifier::BOLD);
            let style = if at == sorted { style.add_modifier(Modifier::UNDERLINED) } else { style };
            Cell::from(*text).style(style)
        });
        let table = Table::new(rows, WIDTHS.map(Constraint::Length))
            .header(Row::new(head))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, body, &mut self.chosen);
        frame.render_widget(self.foot(), foot);
    }

    fn foot(&self) -> Paragraph<'_> {
        if let Some(trouble) = &self.trouble {
            return Paragraph::new(format!("no answer: {trouble}"))
                .style(Style::new().fg(Color::Red));
        }
        if self.writing {
            return Paragraph::new(format!("filter: {}_", self.filter));
        }
        let filter = if self.filter.is_empty() {
            String::new()
        } else {
            format!("  filter: {}", self.filter)
        };
        Paragraph::new(format!("q end  s sort  r reverse  / filter  arrows choose{filter}"))
    }
}

const HEAD: [&str; 13] = [
    "name",
    "kind",
    "device",
    "reserved",
    "wants",
    "got",
    "IOPS",
    "MB/s",
    "wait p50/p99",
    "device p50/p99",
    "held by",
    "broken",
    "history",
];
const WIDTHS: [u16; 13] = [20, 5, 10, 8, 7, 7, 8, 7, 15, 15, 10, 6, 20];

fn cells(shown: &Shown<'_>) -> [String; 12] {
    let Shown { name, device, contract, figures, .. } = *shown;
    // The end of a path says more than its beginning.
    let name = if shown.of.is_some() { name.rsplit('/').next().unwrap_or(name) } else { name };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let latency = &figures.latency;
    [
        name.to_owned(),
        shown.kind.to_owned(),
        device.to_owned(),
        percent(contract.reserve),
        format!("{:.0} %", figures.wanting * 100.0),
        percent(figures.utilization),
        format!("{:.0}", figures.iops),
        format!("{:.1}", figures.bytes_per_second / 1e6),
        format!("{}/{}", time(latency.queue_us_p50), time(latency.queue_us_p99)),
        format!("{}/{}", time(latency.service_us_p50), time(latency.service_us_p99)),
        figures.held_by.as_deref().unwrap_or("-").replace('_', " "),
        figures.promises.promises_broken.to_string(),
    ]
}

fn device_line(device: &Device) -> Line<'static> {
    let Device { name, vdisks, mounts, reserved, queue_depth, in_flight, .. } = device;
    let mounts = if *mounts > 0 { format!(", {mounts} mounts") } else { String::new() };
    Line::from(format!(
        "{name}: {vdisks} virtual disks{mounts}, {:.1} % reserved, {in_flight} of {queue_depth} at the device",
        reserved * 100.0
    ))
}

/// A time, given in microseconds.
fn time(micros: Option<f64>) -> String {
    match micros {
        None => "-".to_owned(),
        Some(micros) if micros >= 1e6 => format!("{:.1}s", micros / 1e6),
        Some(micros) if micros >= 1e3 => format!("{:.1}ms", micros / 1e3),
        Some(micros) => format!("{micros:.0}µs"),
    }
}

/// Shares as a line of bars, the latest at the right.
fn spark(past: &VecDeque<f64>) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 8")]
    let bar = |share: &f64| BARS[(share.clamp(0.0, 1.0) * 8.0).ceil() as usize];
    past.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use disktime_api::{MountStream, Vdisk};

    use super::*;

    fn vdisk(name: &str, [reserve, wanting, got]: [f64; 3], held_by: &str) -> Vdisk {
        let vdisk = serde_json::json!({
            "name": name, "device": "disk", "size_bytes": 1, "reserve": reserve, "limit": 1.0, "weight": 100,
            "class": "best-effort", "utilization": got, "wanting": wanting, "held_by": held_by, "iops": 1234.0,
            "bytes_per_second": 5e6, "queue_us_p50": 900.0, "queue_us_p99": 2_500_000.0,
            "service_us_p50": 12_300.0, "service_us_p99": null, "waiting": 0, "in_flight": 0, "connections": 1,
            "requests": 1, "failed": 0, "bytes": 1, "charged_ns": 1, "promises_broken": 3, "uris": []
        });
        serde_json::from_value(vdisk).unwrap()
    }

    fn mount_stream() -> MountStream {
        let stream = serde_json::json!({
            "name": "/srv/media/film.mkv", "kind": "mount", "device": "disk", "mount": "/mnt/media", "stream": 3,
            "reserve": 0.3, "limit": 1.0, "weight": 100, "class": "best-effort", "utilization": 0.3,
            "wanting": 1.0, "iops": 7.0, "bytes_per_second": 9e6, "queue_us_p50": 1.0, "queue_us_p99": 1.0,
            "service_us_p50": 1.0, "service_us_p99": 1.0, "waiting": 1, "in_flight": 1, "connections": 1,
            "requests": 1, "failed": 0, "bytes": 1, "charged_ns": 1, "promises_broken": 0
        });
        serde_json::from_value(stream).unwrap()
    }

    /// A mount's streams were in no list: the device's time that they took was nobody's.
    #[test]
    fn a_stream_of_a_mount_is_a_row_beside_virtual_disks() {
        let mut view = view();
        let mut look = view.look.clone();
        look.devices[0].mounts = 1;
        look.mounts.push(mount_stream());
        view.take(look);
        let screen = screen(&mut view);
        assert!(screen[0].starts_with("disk: 3 virtual disks, 1 mounts, 75.0 %"), "{screen:?}");
        assert!(screen[3].starts_with("film.mkv             mount disk"), "{screen:?}");
        for letter in "/mnt/media".chars() {
            view.does(Step::Write(letter));
        }
        let document = view.document();
        assert_eq!((document.vdisks.len(), document.mounts), (0, vec![mount_stream()]));
        assert!(view.text().contains("film.mkv"), "{}", view.text());
    }

    fn view() -> View {
        let mut view = View::new(Sort::Got, String::new());
        let device: Device = serde_json::from_value(serde_json::json!({
            "name": "disk", "back_end": "memory", "vdisks": 3, "reserved": 0.75, "available": 0.25, "busy_ns": 0,
            "spare_ns": 0, "held_ns": 0, "queue_depth": 8, "in_flight": 2, "cpu_ns": 0
        }))
        .unwrap();
        let vdisks = vec![
            vdisk("web", [0.25, 0.5, 0.2], "own_depth"),
            vdisk("db", [0.5, 1.0, 0.4], "others"),
            vdisk("logs", [0.0, 1.0, 0.1], "limit"),
        ];
        view.take(Look { devices: vec![device], vdisks, mounts: Vec::new() });
        view
    }

    fn screen(view: &mut View) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(150, 8)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let row = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol().to_owned()).collect();
        (0..buffer.area.height).map(row).collect()
    }

    #[test]
    fn the_screen_has_every_figure() {
        let screen = screen(&mut view());
        assert!(
            screen[0].starts_with("disk: 3 virtual disks, 75.0 % reserved, 2 of 8"),
            "{screen:?}"
        );
        assert!(screen[1].starts_with("name"), "{screen:?}");
        let db = &screen[2];
        for text in [
            "db",
            "50.0 %",
            "100 %",
            "40.0 %",
            "1234",
            "5.0",
            "900µs/2.5s",
            "12.3ms/-",
            "others",
            "▄",
        ] {
            assert!(db.contains(text), "{text}: {db}");
        }
        assert!(screen[3].starts_with("web") && screen[4].starts_with("logs"), "{screen:?}");
        assert!(screen[7].starts_with("q end"), "{screen:?}");
    }

    #[test]
    fn keys_sort_filter_and_end() {
        let mut view = view();
        let names =
            |view: &View| view.rows().iter().map(|it| it.name.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&view), ["db", "web", "logs"]);
        assert!(!view.does(Step::Reverse));
        assert_eq!(names(&view), ["logs", "web", "db"]);
        view.does(Step::Reverse);
        while view.sort != Sort::Name {
            view.does(Step::Sort);
        }
        assert_eq!(names(&view), ["db", "logs", "web"]);
        view.does(Step::Filter);
        for letter in "limi".chars() {
            view.does(Step::Write(letter));
        }
        assert!(screen(&mut view)[7].starts_with("filter: limi_"));
        assert_eq!(names(&view), ["logs"]);
        view.does(Step::Clear);
        assert_eq!((names(&view).len(), view.is_writing()), (3, false));
        assert!(view.does(Step::End));
    }

    #[test]
    fn a_daemon_that_is_gone_is_told_and_the_figures_stay() {
        let mut view = view();
        view.lost(&anyhow::anyhow!("control.sock: nobody"));
        let screen = screen(&mut view);
        assert!(screen[7].starts_with("no answer: control.sock: nobody"), "{screen:?}");
        assert!(screen[2].starts_with("db"), "{screen:?}");
    }
}
