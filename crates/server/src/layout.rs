//! Where virtual disks lie on a device: extents by first fit, which stay where they are, and grow where
//! the bytes behind them are free.
//!
//! A virtual disk in `zone = "inner"` is placed as far back as it fits, any other as far in front.
//! Does not know: what stores the bytes, or where a layout is recorded (`layout/record.rs`).

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

mod record;

pub use record::{Record, RecordError, Recorded};

/// Extents begin on boundaries of so many bytes.
const STEP: u64 = 1 << 20;
/// Recorded extents may begin on any block.
const BLOCK: u64 = crate::buffers::ALIGN as u64;

/// At which end of the device a virtual disk is placed. A disk is fast at its start, outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// At the start.
    Outer,
    /// At the end.
    Inner,
}

impl std::str::FromStr for Side {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "outer" => Ok(Self::Outer),
            "inner" => Ok(Self::Inner),
            _ => Err("a zone is `outer` (the start of the device) or `inner` (its end)".to_owned()),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Outer { "outer" } else { "inner" })
    }
}

/// A virtual disk's place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extent {
    /// The virtual disk.
    pub name: String,
    /// Its first byte on the device.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Where it wanted to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Side>,
}

impl Extent {
    /// Where the next one may begin, if any byte after it is addressable.
    fn end(&self) -> Option<u64> {
        self.start.checked_add(self.size)?.checked_next_multiple_of(BLOCK)
    }
}

/// A virtual disk as it was and as it is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move<'a> {
    /// Its name before.
    pub from: &'a str,
    /// Its name from now on.
    pub to: &'a str,
    /// Its size in bytes from now on, no larger than before.
    pub bytes: u64,
}

/// A virtual disk to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its size in bytes, at least 1.
    pub size: u64,
    /// Where it wants to be.
    pub zone: Option<Side>,
}

/// Why virtual disks can't be placed. Virtual disks are named, sizes are in bytes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LayoutError {
    /// No free extent is large enough.
    #[error(
        "vdisk {name} needs {size} bytes in one piece, the largest free extent has {largest}: \
         make it smaller{}",
        idle_text(idle)
    )]
    Full {
        /// Which.
        name: String,
        /// Its size.
        size: u64,
        /// The largest size that would fit.
        largest: u64,
        /// Virtual disks that are gone from the configuration and keep their extents.
        idle: Vec<String>,
    },
    /// A virtual disk is smaller than its extent, or larger than its extent can become.
    #[error(
        "vdisk {name}: size = {size} bytes: its extent has {recorded} and may grow to {largest}, not \
         shrink: set a size between them"
    )]
    Size {
        /// Which.
        name: String,
        /// The size that the configuration states.
        size: u64,
        /// The size that was recorded.
        recorded: u64,
        /// The size up to the next extent, or to the end of the device.
        largest: u64,
    },
    /// A virtual disk is asked to move.
    #[error(
        "vdisk {name}: its zone has changed, but data don't move yet: set it back to {recorded}"
    )]
    Zone {
        /// Which.
        name: String,
        /// The zone that was recorded.
        recorded: String,
    },
    /// A recorded extent that can't be.
    #[error("the extent of vdisk {name} {reason}: the record is not of this device")]
    Record {
        /// Which.
        name: String,
        /// The reason.
        reason: &'static str,
    },
}

fn idle_text(idle: &[String]) -> String {
    if idle.is_empty() {
        return String::new();
    }
    let names = idle.join(", ");
    format!(", or delete the recorded extents of virtual disks that are gone ({names})")
}

/// Places all virtual disks on a device of `room` bytes, which are whole blocks if virtual disks
/// are. Extents already `recorded` stay, also
/// those of virtual disks that are no longer wanted: their data are the operator's to give up.
///
/// # Errors
/// If one does not fit, is not as recorded, or the record can't be.
pub fn lay_out(
    room: u64,
    recorded: &[Extent],
    wanted: &[Wanted<'_>],
) -> Result<Vec<Extent>, LayoutError> {
    let mut layout = checked(room, recorded)?;
    if layout.is_empty()
        && let Some(layout) = in_sequence(room, wanted)
    {
        return Ok(layout);
    }
    let known: BTreeSet<&str> = recorded.iter().map(|extent| &*extent.name).collect();
    for want in wanted {
        let mut extents = layout.iter();
        // Ten thousand names that are not there are not looked for among ten thousand others.
        let known = known.contains(want.name).then(|| extents.position(|it| it.name == want.name));
        match known.flatten() {
            Some(at) => {
                let next = layout.get(at + 1).map_or(room, |next| next.start);
                fit(&mut layout[at], next, want)?;
            }
            None => place(room, &mut layout, want, wanted)?,
        }
    }
    Ok(layout)
}

/// Places virtual disks one behind the other on a device that has none yet, if none has a zone and all
/// fit: where [`place`] would have each, without a look at all others for it.
fn in_sequence(room: u64, wanted: &[Wanted<'_>]) -> Option<Vec<Extent>> {
    let mut start = 0_u64;
    let next = |want: &Wanted<'_>| {
        let end = start.checked_add(want.size).filter(|end| *end <= room && want.size > 0)?;
        let (name, size) = (want.name.to_owned(), want.size);
        let extent = want.zone.is_none().then_some(Extent { name, start, size, zone: None });
        start = end.checked_next_multiple_of(STEP)?;
        extent
    };
    wanted.iter().map(next).collect()
}

/// Recorded extents in order.
fn checked(room: u64, recorded: &[Extent]) -> Result<Vec<Extent>, LayoutError> {
    let mut layout = recorded.to_vec();
    layout.sort_by_key(|extent| extent.start);
    let (mut last, mut names) = (0, BTreeSet::new());
    for extent in &layout {
        let wrong = |reason| Err(LayoutError::Record { name: extent.name.clone(), reason });
        let Some(end) = extent.end().filter(|end| *end <= room && extent.size > 0) else {
            return wrong("is not within the device");
        };
        if !extent.start.is_multiple_of(BLOCK) {
            return wrong("does not begin on a block");
        }
        if extent.start < last {
            return wrong("overlaps another");
        }
        if !names.insert(&extent.name) {
            return wrong("is there twice");
        }
        last = end;
    }
    Ok(layout)
}

/// Makes an extent as large as is wanted, if that is no less than it is and ends before `next`.
fn fit(extent: &mut Extent, next: u64, want: &Wanted<'_>) -> Result<(), LayoutError> {
    let name = extent.name.clone();
    let largest = next / BLOCK * BLOCK - extent.start;
    if !(extent.size..=largest.max(extent.size)).contains(&want.size) {
        let (size, recorded) = (want.size, extent.size);
        return Err(LayoutError::Size { name, size, recorded, largest });
    }
    if extent.zone != want.zone {
        let recorded = extent.zone.map_or("none".to_owned(), |zone| format!("\"{zone}\""));
        return Err(LayoutError::Zone { name, recorded });
    }
    extent.size = want.size;
    Ok(())
}

fn place(
    room: u64,
    layout: &mut Vec<Extent>,
    want: &Wanted<'_>,
    wanted: &[Wanted<'_>],
) -> Result<(), LayoutError> {
    let gaps = gaps(room, layout);
    let fits = |gap: &&(usize, u64, u64)| gap.2 - gap.1 >= want.size;
    let inner = want.zone == Some(Side::Inner);
    let found = if inner { gaps.iter().rfind(fits) } else { gaps.iter().find(fits) };
    let Some((at, start, end)) = found.copied() else {
        let largest = gaps.iter().map(|(_, start, end)| end - start).max().unwrap_or(0);
        let gone = layout.iter().map(|extent| extent.name.clone());
        let idle = gone.filter(|name| wanted.iter().all(|wanted| wanted.name != name)).collect();
        let (name, size) = (want.name.to_owned(), want.size);
        return Err(LayoutError::Full { name, size, largest, idle });
    };
    // The gap begins on a step, so the last step at which it fits is not before the gap.
    let last = (end - want.size) / STEP * STEP;
    let start = if inner { last } else { start };
    let extent = Extent { name: want.name.to_owned(), start, size: want.size, zone: want.zone };
    layout.insert(at, extent);
    Ok(())
}

/// Free bytes between extents that are in order: where one would go in the list, the first step
/// and the end.
fn gaps(room: u64, layout: &[Extent]) -> Vec<(usize, u64, u64)> {
    let ends =
        layout.iter().map(|extent| extent.end().and_then(|end| end.checked_next_multiple_of(STEP)));
    let starts = std::iter::once(Some(0)).chain(ends);
    let ends = layout.iter().map(|extent| extent.start).chain([room]);
    let gaps = starts.zip(ends).enumerate();
    gaps.filter_map(|(at, (start, end))| {
        start.filter(|start| *start < end).map(|start| (at, start, end))
    })
    .collect()
}

#[cfg(test)]
mod tests;
