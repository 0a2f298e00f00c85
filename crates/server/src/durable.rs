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
        // One that a crash has left may be open to others.
        remove_if_there(&new)?;
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
        if let Err(error) = file.write_all(contents).and_then(|()| file.sync_all()) {
            // On a full file system it would take the last room.
            let _left_for_the_next_one = std::fs::remove_file(&new);
            return Err(error);
        }
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

/// Replaces a small file, durably, by one for the daemon's own user alone.
///
/// # Errors
/// If the system refuses: then the old one is there.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    Next::write(path, contents)?.put().map(drop)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Contents went into the file that a crash had left under the other name: for others to read, or by a link.
    #[test]
    fn the_next_contents_are_in_a_file_of_their_own_for_the_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("file"), directory.path().join("other"));
        let new = directory.path().join("file.new");
        std::fs::write(&other, "other").unwrap();
        std::os::unix::fs::symlink(&other, &new).unwrap();
        replace(&path, b"1").unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"other");
        std::fs::write(&new, "left").unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, b"2").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"2");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!new.exists());
    }
}
