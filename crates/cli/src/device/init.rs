//! `disktime device init` and `shrink`: places for virtual disks are made, and made smaller, on
//! purpose alone.

use std::path::PathBuf;
use std::process::ExitCode;

use disktime_config::quantity::parse_size;
use disktime_server::backend::{PoolDirectory, PoolDisk, PoolError, make_image, nothing_was_at};
use serde::Serialize;

use crate::BadInput;

/// All that can be wrong is what is at the path.
impl From<PoolError> for BadInput {
    fn from(error: PoolError) -> Self {
        Self(error.to_string())
    }
}

pub(super) const EXAMPLES: &str = "\
Examples:
  disktime device init /srv/disktime
      a directory: a raw file for each virtual disk
  disktime device init /srv/disks.img --size 100GiB
      an image: an extent for each virtual disk

A directory that is there already keeps all it has: each NAME.raw in it becomes
the file of the virtual disk NAME. The directory's identity is kept in
`.disktime-pool`; `disktime serve` serves no directory without it, so that a
mount point whose file system is missing is not taken for an empty one.

Exits with 2 if the path can't be used.";

#[derive(clap::Args)]
pub(super) struct Init {
    /// Where nothing is yet, or a directory; never under /dev
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Make an image of so many bytes, sparse, instead of a directory
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// Print what was made as one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(super) struct Shrink {
    /// The directory that has the virtual disk's raw file
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The virtual disk
    #[arg(long, value_name = "NAME")]
    vdisk: String,
    /// Its new size
    #[arg(long, value_parser = parse_size)]
    size: u64,
    /// All data beyond that size may be lost
    #[arg(long)]
    yes: bool,
    /// Print what was done as one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Made<'a> {
    path: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    adopted: Vec<Disk<'a>>,
}

#[derive(Serialize)]
struct Disk<'a> {
    name: &'a str,
    size_bytes: u64,
}

impl<'a> From<&'a PoolDisk> for Disk<'a> {
    fn from(disk: &'a PoolDisk) -> Self {
        Self { name: &disk.name, size_bytes: disk.size }
    }
}

pub(super) fn init(arguments: &Init) -> anyhow::Result<ExitCode> {
    let Init { path, size, json } = arguments;
    nothing_was_at(path).map_err(BadInput::from)?;
    // A path that is no UTF-8 is made, so its document says it as well as it can.
    let shown = path.display().to_string();
    if let Some(size) = *size {
        make_image(path, size).map_err(BadInput::from)?;
        if *json {
            let (kind, size_bytes) = ("image", Some(size));
            let made = Made { path: shown, kind, id: None, size_bytes, adopted: Vec::new() };
            println!("{}", serde_json::to_string(&made)?);
        } else {
            println!("{shown}: made an image of {size} bytes");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let pool = PoolDirectory::make(path).map_err(BadInput::from)?;
    let found: Vec<PoolDisk> = pool.disks().collect();
    let adopted: Vec<Disk<'_>> = found.iter().map(Disk::from).collect();
    if *json {
        let made =
            Made { path: shown, kind: "pool", id: Some(pool.id()), size_bytes: None, adopted };
        println!("{}", serde_json::to_string(&made)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("{shown}: made pool {}", pool.id());
    for Disk { name, size_bytes } in adopted {
        println!("adopted {name}.raw with {size_bytes} bytes: the file of virtual disk {name}");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn shrink(arguments: &Shrink) -> anyhow::Result<ExitCode> {
    let Shrink { path, vdisk, size, yes, json } = arguments;
    if !yes {
        let why = format!(
            "vdisk {vdisk}: all data beyond {size} bytes would be lost, and nothing was changed: say \
             --yes if they may be"
        );
        return Err(BadInput(why).into());
    }
    let pool = PoolDirectory::open(path).map_err(BadInput::from)?;
    let mut pool = pool.ok_or_else(|| BadInput::from(PoolError::NoPool { path: path.clone() }))?;
    pool.shrink(vdisk, *size).map_err(BadInput::from)?;
    if *json {
        println!("{}", serde_json::to_string(&Disk { name: vdisk, size_bytes: *size })?);
    } else {
        println!("{vdisk}: its file has {size} bytes now: set `size = \"{size}B\"` in [[vdisk]]");
    }
    Ok(ExitCode::SUCCESS)
}
