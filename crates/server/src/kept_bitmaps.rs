//! Bitmaps on disk, between a clean end of the daemon and its next start.
//!
//! A virtual disk's file in the state directory is there only while no daemon serves it: a start reads
//! the file and removes it, durably, before any client can write. So after a crash, or a loss of power,
//! there is no file, and everything is dirty.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::BackEndKind;
use crate::bitmap::{BITMAPS_MAX, BLOCKS_MAX, Bitmap, BitmapSpec, GRANULARITIES};
use crate::checksum::checksum;
use crate::config::{DeviceConfig, VdiskConfig};
use crate::daemon_socket::DaemonSocket;
use crate::durable::{Next, read_small, sync_directory_of};
use crate::shard::LeftBitmaps;

const MAGIC: &[u8; 16] = b"disktime bitmaps";
const VERSION: u32 = 1;
/// The longest description of a file's bitmaps, in bytes.
const HEAD_MAX: usize = 1 << 20;

/// The virtual disk that bitmaps are of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    /// Its name.
    vdisk: String,
    /// Its device's back end, as layouts name it.
    back_end: String,
    /// Its size in bytes.
    bytes: u64,
}

/// Keeps the bitmaps of a device's virtual disks.
pub(crate) struct Keeper {
    state: PathBuf,
    back_end: String,
    /// While there is one no other daemon uses the state directory.
    _socket: Arc<DaemonSocket>,
}

impl Keeper {
    /// A keeper for a device whose contents last, if there is a place to keep bitmaps.
    pub(crate) fn of(
        device: &DeviceConfig,
        state: Option<&Path>,
        socket: Option<&Arc<DaemonSocket>>,
    ) -> Option<Self> {
        let (state, socket) = (state?.to_owned(), Arc::clone(socket?));
        let back_end = device.back_end.identity().display().to_string();
        let lasts = device.back_end != BackEndKind::Memory;
        lasts.then_some(Self { state, back_end, _socket: socket })
    }

    /// A virtual disk's bitmaps, as they were kept or dirty. It had `found` bytes before this start, if something says
    /// where it lies.
    pub(crate) fn load(
        &self,
        vdisk: &VdiskConfig,
        specs: &[BitmapSpec],
        found: Option<u64>,
    ) -> Vec<Bitmap> {
        load(&self.state, (&self.of_vdisk(&vdisk.name, vdisk.size), found), specs)
    }

    /// Keeps what a shard has left.
    pub(crate) fn save(&self, left: &[LeftBitmaps]) {
        for LeftBitmaps { vdisk, bytes, bitmaps } in left {
            if let Err(error) = save(&self.state, &self.of_vdisk(vdisk, *bytes), bitmaps) {
                let text = "its bitmaps can't be kept: all is dirty at the next start";
                tracing::warn!(vdisk, %error, "{text}");
            }
        }
    }

    fn of_vdisk(&self, name: &str, bytes: u64) -> Of {
        Of { vdisk: name.to_owned(), back_end: self.back_end.clone(), bytes }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    of: Of,
    bitmap: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    granularity: u64,
    /// A backup was begun, and is not done; earlier versions don't say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_begun: bool,
}

/// The file of a virtual disk's bitmaps.
fn path(state: &Path, vdisk: &str) -> PathBuf {
    state.join(format!("{vdisk}.bitmaps"))
}

/// Keeps bitmaps until the next start, durably.
fn save(state: &Path, of: &Of, bitmaps: &[Bitmap]) -> io::Result<()> {
    let entry = |it: &Bitmap| Entry {
        name: it.spec.name.clone(),
        granularity: it.spec.granularity,
        is_begun: it.is_begun,
    };
    let head = Head { of: of.clone(), bitmap: bitmaps.iter().map(entry).collect() };
    let head = toml::to_string(&head).map_err(io::Error::other)?;
    let length = u32::try_from(head.len()).map_err(io::Error::other)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(head.as_bytes());
    for word in bitmaps.iter().flat_map(|it| it.begun.iter().chain(&it.fresh)) {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(checksum(&bytes).to_le_bytes());
    fs::create_dir_all(state)?;
    Next::write(&path(state, &of.vdisk), &bytes)?.put().map(drop)
}

/// The bitmaps as they were kept, as far as they are of this virtual disk; those of which nothing is
/// known are dirty as a whole.
fn load(state: &Path, (of, found): (&Of, Option<u64>), specs: &[BitmapSpec]) -> Vec<Bitmap> {
    let kept = match read_small(&path(state, &of.vdisk), longest(of.bytes)) {
        Ok(bytes) => parse(&bytes, (of, found.unwrap_or(of.bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    };
    let kept = kept.unwrap_or_else(|reason| {
        tracing::warn!(vdisk = of.vdisk, reason, "its bitmaps can't be used: all is dirty");
        Vec::new()
    });
    let find = |spec: &BitmapSpec| {
        let wanted = (&spec.name, spec.granularity);
        match kept.iter().find(|it| (&it.spec.name, it.spec.granularity) == wanted) {
            Some(kept) => kept.clone().of(spec.clone()),
            None => Bitmap::dirty(spec.clone(), of.bytes),
        }
    };
    specs.iter().map(find).collect()
}

/// A virtual disk is about to be written to: bitmaps that were kept of it are true no longer.
pub(crate) fn invalidate(state: &Path, vdisk: &str) -> io::Result<()> {
    let path = path(state, vdisk);
    match fs::remove_file(&path) {
        Ok(()) => sync_directory_of(&path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The longest file of the bitmaps of a virtual disk of so many bytes: as many as it may have, in the smallest
/// blocks.
fn longest(bytes: u64) -> u64 {
    let blocks = bytes.div_ceil(GRANULARITIES[0]).min(BLOCKS_MAX);
    let bitmap = 2 * 8 * blocks.div_ceil(64);
    let rest = MAGIC.len() + 4 + 4 + HEAD_MAX + 8;
    BITMAPS_MAX as u64 * bitmap + rest as u64
}

fn parse(bytes: &[u8], (of, found): (&Of, u64)) -> Result<Vec<Bitmap>, String> {
    let cut = || "the file is cut short".to_owned();
    let (bytes, sum) = bytes.split_last_chunk::<8>().ok_or_else(cut)?;
    if checksum(bytes) != u64::from_le_bytes(*sum) {
        return Err("the file is damaged".to_owned());
    }
    let rest = bytes.strip_prefix(MAGIC).ok_or("the file has no bitmaps")?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(format!("version {version}: this disktime knows version {VERSION}"));
    }
    let length = u32::from_le_bytes(*length) as usize;
    let split = rest.split_at_checked(length).filter(|_| length <= HEAD_MAX);
    let (head, mut rest) = split.ok_or_else(cut)?;
    let head = std::str::from_utf8(head).map_err(|error| error.to_string())?;
    let head: Head = toml::from_str(head).map_err(|error| error.to_string())?;
    // A growth while no daemon ran has made it larger: the new bytes are dirty.
    let same = (&head.of.vdisk, &head.of.back_end) == (&of.vdisk, &of.back_end);
    if !same || head.of.bytes > of.bytes {
        return Err(format!("they are of {:?}", head.of));
    }
    if head.of.bytes > found {
        return Err(format!("they are of {} bytes, of which {found} were left", head.of.bytes));
    }
    let mut bitmaps = Vec::new();
    for Entry { name, granularity, is_begun } in head.bitmap {
        if !granularity.is_power_of_two() {
            return Err(format!("granularity = {granularity}: no power of two"));
        }
        // Memory is taken for no more than is in the file.
        let words = head.of.bytes.div_ceil(granularity).div_ceil(64);
        if rest.len() as u64 / (2 * 8) < words {
            return Err(cut());
        }
        let mut bitmap = Bitmap::dirty(BitmapSpec { id: 0, name, granularity }, head.of.bytes);
        for word in bitmap.begun.iter_mut().chain(&mut bitmap.fresh) {
            let (bytes, next) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
            (*word, rest) = (u64::from_le_bytes(*bytes), next);
        }
        bitmap.is_begun = is_begun || bitmap.begun.iter().any(|word| *word != 0);
        bitmap.grow(of.bytes);
        bitmaps.push(bitmap);
    }
    Ok(bitmaps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap::{BitmapStep, GRANULARITY};

    fn of(bytes: u64) -> Of {
        Of { vdisk: "db".to_owned(), back_end: "/srv/disks".to_owned(), bytes }
    }

    fn spec(name: &str) -> BitmapSpec {
        BitmapSpec { id: 3, name: name.to_owned(), granularity: GRANULARITY }
    }

    fn kept() -> Bitmap {
        let mut bitmap = Bitmap::dirty(spec("daily"), 10 << 20);
        bitmap.step(BitmapStep::Clear);
        bitmap.mark(&(1 << 20..(1 << 20) + 5));
        bitmap.step(BitmapStep::Begin);
        bitmap.mark(&(2 << 20..(2 << 20) + 5));
        bitmap
    }

    #[test]
    fn kept_bitmaps_are_found_once_and_only_by_their_virtual_disk() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path();
        save(state, &of(10 << 20), &[kept()]).unwrap();
        let found = load(state, (&of(10 << 20), None), &[spec("daily"), spec("new")]);
        assert_eq!(found, [kept(), Bitmap::dirty(spec("new"), 10 << 20)]);
        let mut grown = kept();
        grown.grow(12 << 20);
        assert_eq!(load(state, (&of(12 << 20), None), &[spec("daily")]), [grown]);
        let other = Of { back_end: "/srv/other".to_owned(), ..of(10 << 20) };
        for (other, spec) in [
            (other, spec("daily")),
            (of(9 << 20), spec("daily")),
            (of(10 << 20), BitmapSpec { granularity: 4096, ..spec("daily") }),
        ] {
            let dirty = Bitmap::dirty(spec.clone(), other.bytes);
            assert_eq!(load(state, (&other, None), &[spec]), [dirty], "{other:?}");
        }
        invalidate(state, "db").unwrap();
        invalidate(state, "db").unwrap();
        let lost = load(state, (&of(10 << 20), None), &[spec("daily")]);
        assert_eq!(lost, [Bitmap::dirty(spec("daily"), 10 << 20)], "as after a crash");
    }

    /// A file of 100 GB, or a small one that says it is of a huge virtual disk, took all memory.
    #[test]
    fn a_file_takes_no_more_memory_than_bitmaps_of_its_virtual_disk() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path();
        save(state, &of(1 << 60), &[kept()]).unwrap();
        let cut = parse(&fs::read(path(state, "db")).unwrap(), (&of(1 << 60), 1 << 60));
        assert_eq!(cut, Err("the file is cut short".to_owned()));
        // Eight bitmaps of two sets, of 2560 blocks of 4 KiB.
        let most = longest(10 << 20);
        assert_eq!(most - longest(0), 8 * 2 * 2560 / 8);
        assert!(longest(u64::MAX) < 200 << 20);
        fs::File::create(path(state, "db")).unwrap().set_len(100 << 30).unwrap();
        let dirty = [Bitmap::dirty(spec("daily"), 10 << 20)];
        assert_eq!(load(state, (&of(10 << 20), None), &[spec("daily")]), dirty);
    }

    #[test]
    fn a_damaged_file_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path();
        save(state, &of(10 << 20), &[kept()]).unwrap();
        let file = path(state, "db");
        let good = fs::read(&file).unwrap();
        let dirty = [Bitmap::dirty(spec("daily"), 10 << 20)];
        for at in (0..good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&file, &bad).unwrap();
            assert_eq!(load(state, (&of(10 << 20), None), &[spec("daily")]), dirty, "byte {at}");
            fs::write(&file, &good[..at]).unwrap();
            assert_eq!(load(state, (&of(10 << 20), None), &[spec("daily")]), dirty, "cut at {at}");
        }
    }
}
