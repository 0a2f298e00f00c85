//! `disktime vdisk`: virtual disks of a daemon, and their incremental backups.

mod manage;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use disktime_server::bitmap::{BitmapStep, BitmapView};
use disktime_server::{AskError, Config, ask_bitmaps};

use crate::BadInput;
use crate::table;

const EXAMPLES: &str = "\
Examples, with `bitmaps = [\"daily\"]` in [[vdisk]] and `state` in [server]:
  disktime vdisk bitmap show db --config disktime.toml
  disktime vdisk bitmap begin db daily --config disktime.toml
  nbdinfo --map=qemu:dirty-bitmap:daily \\
      nbd+unix:///db?socket=/run/disktime/nbd.sock
  disktime vdisk bitmap done db daily --config disktime.toml

A backup is three steps: `begin`, a copy of the blocks that are dirty in
`qemu:dirty-bitmap:NAME`, and `done` once the copy is safe. Blocks that are
written after `begin` stay dirty for the next backup. A backup that fails needs
no step: the next `begin` covers its blocks, too. A new bitmap is dirty as a
whole, and so is every bitmap after a crash of the daemon. Exits with 1 if no
daemon answers, 2 if there is no such virtual disk or bitmap, or if a backup is
done that was not begun.";

const MANAGE: &str = "\
Examples, with a daemon that `disktime serve` has started:
  disktime device add disk --back-end file:/srv/disktime --create
  disktime vdisk create db --device disk --size 10GiB --reserve 30% --limit 60%
  # would it fit?
  disktime vdisk create db2 --device disk --size 10GiB --reserve 80% --plan
  disktime vdisk set db --reserve 40%
  # an empty text takes a term away: here a goal comes in place of the share
  disktime vdisk set db --reserve '' --bandwidth 20MB/s --request 1MiB --run 64
  # db-monday has what db has now: on XFS or btrfs, at once
  disktime vdisk snapshot db db-monday --limit 20%
  disktime vdisk rename db database
  # data beyond 5 GiB are lost
  disktime vdisk shrink database --size 5GiB --yes
  disktime vdisk list --json

Exits with 0 if it is done, 1 if no daemon answers or --plan finds that it does
not fit, 2 if the daemon refuses what was given: its answer says what is
allowed.";

/// Look after a virtual disk that a daemon serves.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a virtual disk; doing it again does nothing
    #[command(after_help = MANAGE)]
    Create(manage::Create),
    /// Change the contract of a virtual disk, live
    #[command(after_help = MANAGE)]
    Set(manage::Set),
    /// Show a virtual disk
    Show(manage::One),
    /// Show all virtual disks
    List(crate::control::Daemon),
    /// Make a virtual disk larger; clients that connect from then on see it
    Grow(manage::Size),
    /// Make a virtual disk smaller, while no client has it: what is beyond is lost
    Shrink(manage::Shrink),
    /// Give a virtual disk another name; clients that are connected go on
    Rename(manage::Rename),
    /// Make a virtual disk with the data that another one has now; doing it again does nothing
    #[command(after_help = MANAGE)]
    Snapshot(manage::Snapshot),
    /// Delete a virtual disk: its data are lost, its clients are let go
    Delete(manage::One),
    /// Look after the bitmaps of blocks that have changed since a backup
    Bitmap(Bitmap),
}

/// Look after the bitmaps of blocks that have changed since a backup.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
struct Bitmap {
    #[command(subcommand)]
    step: Step,
}

#[derive(Subcommand)]
enum Step {
    /// Show how much is dirty
    Show(Whose),
    /// Begin a backup: it is to cover all blocks that are dirty now
    Begin(Which),
    /// The backup is done: blocks that have not changed since it began are clean
    Done(Which),
    /// All blocks are clean, whatever was backed up
    Clear(Which),
}

#[derive(Args)]
struct Whose {
    /// The virtual disk
    #[arg(value_name = "VDISK")]
    vdisk: String,
    /// The daemon's configuration, which names its state directory
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Which {
    #[command(flatten)]
    whose: Whose,
    /// The bitmap
    #[arg(value_name = "BITMAP")]
    bitmap: String,
}

/// Runs the command.
pub fn run(Arguments { command }: &Arguments) -> anyhow::Result<ExitCode> {
    match command {
        Command::Create(arguments) => manage::create(arguments),
        Command::Set(arguments) => manage::set(arguments),
        Command::Show(arguments) => manage::show(arguments),
        Command::List(daemon) => manage::list(daemon),
        Command::Grow(arguments) => manage::grow(arguments),
        Command::Shrink(arguments) => manage::shrink(arguments),
        Command::Rename(arguments) => manage::rename(arguments),
        Command::Snapshot(arguments) => manage::snapshot(arguments),
        Command::Delete(arguments) => manage::delete(arguments),
        Command::Bitmap(Bitmap { step }) => bitmap(step),
    }
}

fn bitmap(step: &Step) -> anyhow::Result<ExitCode> {
    let (whose, step) = match step {
        Step::Show(whose) => (whose, None),
        Step::Begin(which) => (&which.whose, Some((&*which.bitmap, BitmapStep::Begin))),
        Step::Done(which) => (&which.whose, Some((&*which.bitmap, BitmapStep::Done))),
        Step::Clear(which) => (&which.whose, Some((&*which.bitmap, BitmapStep::Clear))),
    };
    let file = whose.config.display();
    let config = Config::read(&whose.config).map_err(|error| BadInput(error.to_string()))?;
    let state = config.state.ok_or_else(|| {
        BadInput(format!(
            "{file}: no `state` in [server]: bitmaps are kept in the directory it names"
        ))
    })?;
    let bitmaps = ask_bitmaps(&state, &whose.vdisk, step).map_err(|error| match error {
        AskError::Refused(_) => BadInput(error.to_string()).into(),
        error => anyhow!(error),
    })?;
    if whose.json {
        println!("{}", serde_json::to_string(&bitmaps)?);
    } else {
        println!("{}", shown(&bitmaps));
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(bitmaps: &[BitmapView]) -> String {
    if bitmaps.is_empty() {
        return "no bitmaps: name some as `bitmaps` in [[vdisk]]".to_owned();
    }
    let header = ["bitmap", "block", "dirty bytes", "of a backup begun"];
    let mut shown = table::new(&header, 1..4);
    for BitmapView { name, granularity, dirty, begun } in bitmaps {
        let numbers = [granularity, dirty, begun].map(ToString::to_string);
        shown.add_row(std::iter::once(name.clone()).chain(numbers));
    }
    shown.to_string()
}
