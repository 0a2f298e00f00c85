//! Small files that a crash leaves either as they were or as they are to be.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The most bytes of a record: one of a hundred thousand virtual disks has some 10 MiB.
pub(crate) const RECORD_MAX: u64 = 64 << 20;

/// Reads a file that should be small, and must be a regular one of at most so many bytes. Another one could take
/// all memory, or never end.
///
/// # Errors
/// If it is another one, or can't be read.
pub fn read_small(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // A pipe may have nobody who writes to it, and is not opened.
    is_small(&std::fs::metadata(path)?, most)?;
    read_open(&File::open(path)?, most)
}

/// The same of a file that is open.
pub(crate) fn read_open(file: &File, most: u64) -> io::Result<Vec<u8>> {
    is_small(&file.metadata()?, most)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_small(about: &std::fs::Metadata, most: u64) -> io::Result<()> {
    if !about.is_file() {
        return Err(io::Error::other("no regular file"));
    }
    let bytes = about.len();
    if bytes > most {
        let text = format!("it has {bytes} bytes, and disktime writes at most {most}");
        return Err(io::Error::other(text));
    }
    Ok(())
}

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
        let (file, durable) = self.put_first()?;
        durable.map(|()| file)
    }

    /// They take the file's place. Answers whether that is durable: if not, they are in its place all the same.
    pub(crate) fn put_first(self) -> io::Result<(File, io::Result<()>)> {
        std::fs::rename(&self.new, &self.path)?;
        Ok((self.file, sync_directory_of(&self.path)))
    }
}

/// Replaces a small file, durably, by one for the daemon's own user alone.
///
/// # Errors
/// If the system refuses: then the old one is there.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    Next::write(path, contents)?.put().map(drop)
}

/// Sees whether there is room for so many bytes beside a file; leaves nothing behind.
///
/// # Errors
/// If they could not be written.
pub(crate) fn rehearse(path: &Path, bytes: usize) -> io::Result<()> {
    std::fs::create_dir_all(directory_of(path))?;
    let mut other = path.to_owned().into_os_string();
    other.push(".take-over");
    let next = Next::write(Path::new(&other), &vec![b'#'; bytes])?;
    std::fs::remove_file(next.new)
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

    /// A start read a file of 100 GB that lay where a record should be, and waited for a pipe.
    #[test]
    fn what_is_too_long_or_never_ends_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let said = |most| read_small(&path, most).map_err(|error| error.to_string());
        std::fs::write(&path, "1234").unwrap();
        assert_eq!(said(4), Ok(b"1234".to_vec()));
        let wrong = "it has 4 bytes, and disktime writes at most 3";
        assert_eq!(said(3), Err(wrong.to_owned()));
        std::fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(said(4), Err("no regular file".to_owned()));
    }

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
