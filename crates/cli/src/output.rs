//! Files and directories that a command writes: whole under their names, or not at all.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::failure::BadInput;
use crate::interrupt::Unfinished;

/// A directory to write to, made now: not after the runs does it show that it can't be. If nothing is
/// written to it, it goes again.
///
/// # Errors
/// If it can't be made.
pub fn directory(option: &str, path: &Path) -> Result<Unfinished, BadInput> {
    let failed = |error| BadInput(format!("{option} {}: {error}", path.display()));
    Unfinished::directory(path).map_err(failed)
}

/// Begins a file that an option names.
///
/// # Errors
/// If it can't be written.
pub fn begin(option: &str, path: &Path) -> Result<Output, BadInput> {
    Output::create(path).map_err(|error| BadInput(format!("{option} {}: {error}", path.display())))
}

/// As [`begin`], unless it is one of those files, which it would take the place of.
///
/// # Errors
/// If it is, or can't be written.
pub fn begin_apart(
    option: &str,
    path: &Path,
    others: &[impl AsRef<Path>],
) -> Result<Output, BadInput> {
    match others.iter().map(AsRef::as_ref).find(|other| is_same(path, other)) {
        Some(other) => Err(BadInput(format!(
            "{option} {}: {} would be lost under it: name another file",
            path.display(),
            other.display()
        ))),
        None => begin(option, path),
    }
}

/// Whether two paths lead to one file or device, or would if it was there. A device that only takes
/// text, such as a terminal, is none that could be lost.
fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) if one.is_file() => {
            (one.dev(), one.ino()) == (other.dev(), other.ino())
        }
        (Ok(_), _) | (_, Ok(_)) => false,
        _ => one == other,
    }
}

/// A file that has its name once it is whole; until then it lies beside that under another one.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: fs::File,
    /// Its name until then; none if it is no regular file, which is written where it is.
    temporary: Option<(PathBuf, Unfinished)>,
}

impl Output {
    /// Begins a file; one that is there stays as it is until this one is finished.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        // Behind a symbolic link, what it leads to is replaced.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let before = match fs::OpenOptions::new().write(true).open(&real) {
            Ok(file) if file.metadata()?.file_type().is_block_device() => {
                return Err(io::Error::other(
                    "a block device, whose data would be lost: name a file",
                ));
            }
            Ok(file) if !file.metadata()?.is_file() => {
                return Ok(Self { path: real, file, temporary: None });
            }
            Ok(file) => Some(file.metadata()?.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let name = real.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_string_lossy();
        let parent = real.parent().filter(|it| !it.as_os_str().is_empty());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        let begun = tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .permissions(before.clone().unwrap_or(mode))
            .tempfile_in(parent.unwrap_or(Path::new(".")))?;
        let (file, temporary) = begun.keep().map_err(|error| error.error)?;
        let unfinished = Unfinished::file(temporary.clone());
        if let Some(permissions) = before {
            file.set_permissions(permissions)?;
        }
        Ok(Self { path: real, file, temporary: Some((temporary, unfinished)) })
    }

    /// Writes more of it.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn append(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())
    }

    /// Writes the rest of it and gives it its name.
    ///
    /// # Errors
    /// If it can't be written; what was there before is untouched then.
    pub fn finish(mut self, text: &str) -> io::Result<()> {
        self.append(text)?;
        let Some((temporary, _unfinished)) = &self.temporary else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(temporary, &self.path)
    }
}

/// Writes a whole file, or none of it.
///
/// # Errors
/// If it can't be written.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    Output::create(path)?.finish(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// A profile that was interrupted, or failed, left a file of no bytes under the name asked for.
    #[test]
    fn a_file_has_its_name_once_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.json");
        drop(Output::create(&path).unwrap());
        assert_eq!(names(directory.path()), [""; 0]);
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let link = directory.path().join("a-link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let begun = Output::create(&link).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        begun.finish("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(directory.path()), ["a-link", "profile.json"]);
        // A path that is no regular file is not replaced by one.
        write(Path::new("/dev/null"), "nothing").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert!(Output::create(&directory.path().join("none/file")).is_err());
        assert!(Output::create(directory.path()).is_err());
    }

    /// `device profile disk.img --out disk.img` put the profile in the image's place.
    #[test]
    fn a_file_does_not_take_the_place_of_one_that_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let [image, link, new] = ["disk.img", "link", "new"].map(|it| directory.path().join(it));
        fs::write(&image, "data").unwrap();
        fs::hard_link(&image, &link).unwrap();
        for path in [&image, &link] {
            let error = begin_apart("--out", path, &[&new, &image]).unwrap_err().0;
            assert!(error.contains("would be lost under it: name another file"), "{error}");
        }
        let twice = begin_apart("--svg", &new, &[&new]).unwrap_err().0;
        assert!(twice.starts_with("--svg "), "{twice}");
        begin_apart("--out", &new, &[&image]).unwrap().finish("text").unwrap();
        begin_apart("--out", &new, &[&image]).unwrap().finish("again").unwrap();
        // Several may write to what keeps nothing.
        begin_apart("--out", Path::new("/dev/null"), &["/dev/null"]).unwrap().finish("").unwrap();
        assert_eq!(fs::read_to_string(&image).unwrap(), "data");
    }
}
