//! Small files that a crash leaves either as they were or as they are to be.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file's next contents, on disk under another name.
pub(crate) struct Next {
    file: File,
    path: PathBuf,
    new: PathBuf,
}

impl Next {
    /// Writes them, durably, for the daemon's own user alone.
    pub(crate) fn write(path: &Path, contents: &[u8]) -> io::Result<Self> {
        let mut new = path.to_owned().into_os_string();
        new.push(".new");
        let new = PathBuf::from(new);
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(contents)?;
        file.sync_all()?;
        Ok(Self { file, path: path.to_owned(), new })
    }

    /// The file that they are in, before and after it takes its place.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// They take the file's place, durably.
    pub(crate) fn put(self) -> io::Result<File> {
        std::fs::rename(&self.new, &self.path)?;
        sync_directory_of(&self.path)?;
        Ok(self.file)
    }
}

/// Makes names in the directory of a path durable.
pub(crate) fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

/// The directory that has a path's last name.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
