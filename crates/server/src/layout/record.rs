//! A layout on disk, so that a restart finds every virtual disk where it was.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Extent;
use crate::durable::{Next, RECORD_MAX, directory_of, read_small, rehearse, sync_directory_of};

const HEADER: &str = "\
# Where virtual disks lie, in bytes, or which pool of raw files they are in. Written by disktime. Virtual
# disks that are gone from the configuration keep their extents: delete an entry, while the server is
# down, to give up its data.
";

/// The file in which a device's layout is recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    path: PathBuf,
    /// The device that this record must be of, where the file's own place doesn't say it.
    of: Option<PathBuf>,
    /// A save says that the fast one of two tiers has a map.
    mapped: bool,
}

/// Why a record can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It can't be read or written.
    #[error(
        "{}: {error}: what is on the device is recorded there; `state = \"PATH\"` in [server] names \
         another directory for it",
        path.display()
    )]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is not what was written.
    #[error(
        "{}: {reason}: mend it, or bring it back from a copy; if it is deleted everything is placed anew, and a \
         virtual disk may be served another one's data",
        path.display()
    )]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is of another file or block device.
    #[error(
        "{} places virtual disks on {}: if that is the same device under another name, edit `path` there; if it \
         is another one, choose another name for this one, or delete that file to give up what is placed there",
        path.display(),
        of.display()
    )]
    Other {
        /// Which file.
        path: PathBuf,
        /// The device that it is of.
        of: PathBuf,
    },
    /// A block device has no place beside it that lasts.
    #[error("{} is a block device: name a directory for its layout, `state = \"PATH\"` in [server]", .0.display())]
    NoState(PathBuf),
    /// Nor has a server's export.
    #[error(
        "{0} has no place beside it: name a directory for its layout, `state = \"PATH\"` in [server]"
    )]
    Remote(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    fast_tier: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    extent: Vec<Extent>,
}

/// The extents and tiers that were recorded of a device: either is empty.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Recorded {
    /// The identity of a pool of raw files.
    pub pool: Option<String>,
    /// The virtual disks' extents.
    pub extents: Vec<Extent>,
    /// The fast one of two tiers has a map.
    pub fast_tier: bool,
}

impl Record {
    /// Where the layout of a device at `path` is recorded: in the state directory if there is one,
    /// else beside it.
    #[must_use]
    pub fn of(path: &Path, device: &str, state: Option<&Path>) -> Self {
        if let Some(state) = state {
            let file = state.join(format!("{device}.layout.toml"));
            return Self { path: file, of: Some(path.to_owned()), mapped: false };
        }
        // Beside `.` is beside the directory's own name; beside `PATH/` is not within it.
        let named = path.file_name().map(|_| path.to_owned());
        let path = named.or_else(|| path.canonicalize().ok()).unwrap_or_else(|| path.to_owned());
        let mut beside = path.components().as_path().to_owned().into_os_string();
        beside.push(".disktime");
        Self { path: beside.into(), of: None, mapped: false }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same file, which must say that it is of this device: where its place doesn't.
    #[must_use]
    pub fn naming(self, of: PathBuf) -> Self {
        Self { of: Some(of), ..self }
    }

    /// The same file, which says from its next save on that the fast tier has a map.
    #[must_use]
    pub fn mapped(self) -> Self {
        Self { mapped: true, ..self }
    }

    /// The record; nothing if there is no file.
    ///
    /// # Errors
    /// If it can't be read, or is of another device.
    pub fn load(&self) -> Result<Recorded, RecordError> {
        let path = || self.path.clone();
        let text = match read_small(&self.path, RECORD_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Recorded::default()),
            Err(error) => return Err(RecordError::Io { path: path(), error }),
        };
        let text = String::from_utf8(text)
            .map_err(|error| RecordError::Syntax { path: path(), reason: error.to_string() })?;
        // One that was written has its header at least.
        if text.trim().is_empty() {
            return Err(RecordError::Syntax { path: path(), reason: "it is empty".to_owned() });
        }
        let Contents { path: of, pool, fast_tier, extent } = toml::from_str(&text)
            .map_err(|error| RecordError::Syntax { path: path(), reason: error.to_string() })?;
        match of {
            Some(of) if self.of.as_ref() != Some(&of) => {
                Err(RecordError::Other { path: path(), of })
            }
            _ => Ok(Recorded { pool, extents: extent, fast_tier }),
        }
    }

    /// Sets a record of another device aside, which places nothing there: the device was removed, and this one has
    /// its name. Nothing happens to any other record.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn set_other_aside(&self) -> Result<(), RecordError> {
        let Err(RecordError::Other { of, .. }) = self.load() else { return Ok(()) };
        let old = Self { of: Some(of), ..self.clone() };
        if !old.load()?.extents.is_empty() {
            return Ok(());
        }
        let mut aside = self.path.clone().into_os_string();
        aside.push(".old");
        let set = std::fs::rename(&self.path, &aside).and_then(|()| sync_directory_of(&self.path));
        set.map_err(|error| RecordError::Io { path: self.path.clone(), error })
    }

    /// Records what is on the device, durably: after a crash there is the old record or the new one. A record that
    /// says so already is left as it is: its directory may be full.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn save(&self, recorded: &Recorded) -> Result<(), RecordError> {
        let Recorded { pool, extents, .. } = recorded.clone();
        let (path, fast_tier) = (self.of.clone(), self.mapped || recorded.fast_tier);
        let contents = Contents { path, pool, fast_tier, extent: extents };
        let text = toml::to_string(&contents).map_err(|error| RecordError::Syntax {
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        let written = self.replace(&format!("{HEADER}{text}"));
        written.map_err(|error| RecordError::Io { path: self.path.clone(), error })
    }

    /// Sees whether there is room for a record of so many virtual disks; leaves nothing behind.
    ///
    /// # Errors
    /// If one could not be written.
    pub(crate) fn rehearse(&self, vdisks: usize) -> Result<(), RecordError> {
        let written = rehearse(&self.path, HEADER.len() + 512 + 128 * vdisks);
        written.map_err(|error| RecordError::Io { path: self.path.clone(), error })
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        if read_small(&self.path, RECORD_MAX).is_ok_and(|now| now == text.as_bytes()) {
            return sync_directory_of(&self.path);
        }
        std::fs::create_dir_all(directory_of(&self.path))?;
        Next::write(&self.path, text.as_bytes())?.put().map(drop)
    }
}
