//! `disktime top`: who gets what of each device's time, live on a terminal.

mod view;

use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use disktime_api::{Device, MountStream, Vdisk};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde::Serialize;

use crate::control::Daemon;
use crate::interrupt;
use view::{Step, View};

const EXAMPLES: &str = "\
Examples:
  disktime top
  disktime top --sort wants --filter web
  disktime top --once                  # once, as text
  disktime top --json                  # once, as one document
  disktime top --url http://127.0.0.1:7070 --token-file tokens

Keys: arrows or j, k choose; s sorts by the next column, r the other way round;
/ filters by name, device or reason; Esc takes the filter away; q or Ctrl-C
ends. A row is a virtual disk, or of kind `mount`: an open file with a contract
of a mount on the device, or `(shared)`, all its files without one. `got` is the
share of the device's time in the last ten seconds, `wants` the part of that
time in which it had requests waiting or at the device. `held by` is what kept
it back most: `disktime why` has all of a virtual disk.";

/// Show live who gets what of each device's time.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The column by which rows are sorted
    #[arg(long, value_enum, default_value = "got")]
    sort: Sort,
    /// Only virtual disks and mounts' streams with this text in their name, device or reason
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Print once, as text, and end
    #[arg(long)]
    once: bool,
    /// Between two looks
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: humantime::Duration,
    #[command(flatten)]
    daemon: Daemon,
}

/// A column by which rows are sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Sort {
    /// By name.
    Name,
    /// By the share reserved.
    Reserved,
    /// By the part of the time with requests.
    Wants,
    /// By the share that it got.
    Got,
    /// By requests per second.
    Iops,
    /// By bytes per second.
    Bandwidth,
    /// By the 99th percentile of waiting times.
    Wait,
}

impl Sort {
    /// The next one.
    fn next(self) -> Self {
        let all = Self::value_variants();
        let at = all.iter().position(|it| *it == self).unwrap_or(0);
        all[(at + 1) % all.len()]
    }
}

/// All that a look finds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Look {
    /// The devices.
    pub devices: Vec<Device>,
    /// The virtual disks.
    pub vdisks: Vec<Vdisk>,
    /// The streams of mounts.
    pub mounts: Vec<MountStream>,
}

fn look(daemon: &Daemon) -> anyhow::Result<Look> {
    Ok(Look {
        devices: daemon.get("/v1/devices")?,
        vdisks: daemon.get("/v1/vdisks")?,
        mounts: daemon.get("/v1/mounts")?,
    })
}

/// How long a key may wait for the terminal to be drawn.
const KEYS: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { sort, filter, once, every, daemon } = arguments;
    let first = look(daemon)?;
    let mut view = View::new(*sort, filter.clone());
    view.take(first);
    if daemon.json {
        println!("{}", serde_json::to_string(&view.document())?);
        return Ok(ExitCode::SUCCESS);
    }
    if *once {
        println!("{}", view.text());
        return Ok(ExitCode::SUCCESS);
    }
    interrupt::polled();
    let (tell, looks) = mpsc::sync_channel(1);
    let (daemon, every) = (daemon.clone(), Duration::from(*every).max(KEYS));
    let run = move || {
        loop {
            pause(every);
            // A daemon that does not answer must not keep the keys from being heard.
            if tell.send(look(&daemon)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("looks".to_owned()).spawn(run).context("no thread")?;
    // Also after a panic: the terminal is put back before it is told.
    let mut terminal = ratatui::try_init().context("no terminal: `--once` prints to anything")?;
    let shown = show(&mut terminal, &mut view, &looks);
    ratatui::restore();
    shown?;
    interrupt::check()?;
    Ok(ExitCode::SUCCESS)
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    view: &mut View,
    looks: &mpsc::Receiver<anyhow::Result<Look>>,
) -> anyhow::Result<()> {
    while !interrupt::is_asked() {
        match looks.try_recv() {
            Ok(Ok(look)) => view.take(look),
            Ok(Err(error)) => view.lost(&error),
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => return Err(anyhow!("the looks have ended")),
        }
        terminal.draw(|frame| view.draw(frame))?;
        if event::poll(KEYS)?
            && let Event::Key(key) = event::read()?
            && let Some(step) = step(key, view.is_writing())
            && view.does(step)
        {
            return Ok(());
        }
    }
    Ok(())
}

/// The meaning of a key.
fn step(key: KeyEvent, writing: bool) -> Option<Step> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if control => Step::End,
        KeyCode::Esc => Step::Clear,
        KeyCode::Enter if writing => Step::Written,
        KeyCode::Backspace if writing => Step::Erase,
        KeyCode::Char(letter) if writing => Step::Write(letter),
        KeyCode::Char('q') => Step::End,
        KeyCode::Char('s') => Step::Sort,
        KeyCode::Char('r') => Step::Reverse,
        KeyCode::Char('/') => Step::Filter,
        KeyCode::Down | KeyCode::Char('j') => Step::Down,
        KeyCode::Up | KeyCode::Char('k') => Step::Up,
        _ => return None,
    })
}

#[expect(clippy::disallowed_methods, reason = "a terminal is looked at in real time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
