//! A layout on disk, so that a restart finds every virtual disk where it was.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Extent;

const HEADER: &str = "\
# Where virtual disks lie, in bytes. Written by disktime. Those that are gone from the configuration
# keep their extents: delete an entry, while the server is down, to give up its data.
";

/// The file in which a device's layout is recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    path: PathBuf,
    /// Of which device this must be, where the file's own place doesn't say it.
    of: Option<PathBuf>,
}

/// Why a record can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what was written.
    #[error("{}: {reason}: mend it, or delete it to have everything placed anew", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is of another file or block device.
    #[error(
        "{} places virtual disks on {}: if that is the same device under another name, edit `path` there",
        path.display(),
        of.display()
    )]
    Other {
        /// Which file.
        path: PathBuf,
        /// What it is of.
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
    #[serde(default)]
    extent: Vec<Extent>,
}

impl Record {
    /// Where the layout of a device at `path` is recorded: in the state directory if there is one,
    /// else beside it.
    #[must_use]
    pub fn of(path: &Path, device: &str, state: Option<&Path>) -> Self {
        if let Some(state) = state {
            let file = state.join(format!("{device}.layout.toml"));
            return Self { path: file, of: Some(path.to_owned()) };
        }
        let mut beside = path.to_owned().into_os_string();
        beside.push(".disktime");
        Self { path: beside.into(), of: None }
    }

    /// The same file, which must say that it is of this device: where its place doesn't.
    #[must_use]
    pub fn naming(self, of: PathBuf) -> Self {
        Self { of: Some(of), ..self }
    }

    /// What is recorded; nothing if there is no file.
    ///
    /// # Errors
    /// If it can't be read, or is of another device.
    pub fn load(&self) -> Result<Vec<Extent>, RecordError> {
        let path = || self.path.clone();
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(RecordError::Io { path: path(), source }),
        };
        let Contents { path: of, extent } = toml::from_str(&text)
            .map_err(|error| RecordError::Syntax { path: path(), reason: error.to_string() })?;
        match of {
            Some(of) if self.of.as_ref() != Some(&of) => {
                Err(RecordError::Other { path: path(), of })
            }
            _ => Ok(extent),
        }
    }

    /// Records a layout, durably: after a crash there is the old record or the new one.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn save(&self, extents: &[Extent]) -> Result<(), RecordError> {
        let contents = Contents { path: self.of.clone(), extent: extents.to_vec() };
        let text = toml::to_string(&contents).map_err(|error| RecordError::Syntax {
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        let written = self.replace(&format!("{HEADER}{text}"));
        written.map_err(|source| RecordError::Io { path: self.path.clone(), source })
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let directory = match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(directory)?;
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        File::open(directory)?.sync_all()
    }
}
