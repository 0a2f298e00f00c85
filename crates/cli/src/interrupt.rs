//! Ctrl-C: ends any command but `serve`, leaves nothing unfinished behind, and exits with 130. So does
//! a standard output that is gone, with 1.
//!
//! A command that only computes ends at once. One that has servers, clients or other processes to
//! end says so with [`polled`], looks at [`is_asked`] in its loops, and fails when it is; a second
//! signal ends it at once as well. Unfinished files and directories are registered as
//! [`Unfinished`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::terminal;

/// The exit code once standard output is gone: that of any failure while running.
const UNHEARD_EXIT: i32 = 1;

/// A signal has come.
static ASKED: AtomicBool = AtomicBool::new(false);
/// The command looks whether one has.
static POLLED: AtomicBool = AtomicBool::new(false);
/// Standard output can't be written to any more.
static UNHEARD: AtomicBool = AtomicBool::new(false);
/// Files and directories to be removed; a place is empty once its owner has removed its own.
static UNFINISHED: Mutex<Vec<Option<Kind>>> = Mutex::new(Vec::new());

/// The command was told to end.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// The exit code of a command that a signal ends, and what it says on standard output, if anything.
pub type LastWords = fn() -> (u8, Option<String>);

/// Hears signals from now on; a command that a signal ends leaves with these words.
///
/// # Errors
/// If the system gives no thread or takes no handler.
pub fn install(last_words: LastWords) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let run = move || {
        for _ in signals.forever() {
            if ASKED.swap(true, Ordering::SeqCst) || !POLLED.load(Ordering::SeqCst) {
                leave(last_words);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(run).map(drop)
}

/// From now on the first signal does not end the command: it looks itself.
pub fn polled() {
    POLLED.store(true, Ordering::SeqCst);
}

/// Whether a signal has come.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// Whether standard output is gone.
pub fn is_unheard() -> bool {
    UNHEARD.load(Ordering::SeqCst)
}

/// Standard output is gone: the command ends at once or, if it looks itself, as after a signal.
pub fn unheard() {
    UNHEARD.store(true, Ordering::SeqCst);
    if POLLED.load(Ordering::SeqCst) {
        ASKED.store(true, Ordering::SeqCst);
    } else {
        list().drain(..).rev().flatten().for_each(|it| it.remove());
        std::process::exit(UNHEARD_EXIT);
    }
}

/// Fails if a signal has come.
///
/// # Errors
/// [`Interrupted`].
pub fn check() -> Result<(), Interrupted> {
    if is_asked() { Err(Interrupted) } else { Ok(()) }
}

/// Ends the process, from the signals' thread. Another thread may hold any lock but the list's.
fn leave(last_words: LastWords) -> ! {
    let mut unfinished = list();
    // The latest first: a directory is empty once what was begun in it is gone.
    unfinished.drain(..).rev().flatten().for_each(|it| it.remove());
    // Not through std's handles: the command may hold their locks.
    let (exit, document) = last_words();
    let _unheard = match document {
        Some(document) if terminal::is_document_on_stderr() => {
            rustix::io::write(io::stderr(), document.as_bytes())
        }
        document => {
            let said = rustix::io::write(io::stderr(), b"disktime: interrupted\n");
            said.and_then(|_| match document {
                Some(document) => rustix::io::write(io::stdout(), document.as_bytes()),
                None => Ok(0),
            })
        }
    };
    std::process::exit(exit.into())
}

fn list() -> MutexGuard<'static, Vec<Option<Kind>>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
enum Kind {
    File(PathBuf),
    /// With all that is in it.
    Tree(PathBuf),
    /// Directories that are removed if they are still empty, the innermost first.
    Empty(Vec<PathBuf>),
}

impl Kind {
    fn remove(&self) {
        let _gone_or_in_use = match self {
            Self::File(path) => fs::remove_file(path),
            Self::Tree(path) => fs::remove_dir_all(path),
            Self::Empty(paths) => paths.iter().try_for_each(fs::remove_dir),
        };
    }
}

/// Something that is removed when this is dropped, and when the command is ended by a signal.
#[derive(Debug)]
pub struct Unfinished(usize);

impl Unfinished {
    fn new(kind: Kind) -> Self {
        let mut list = list();
        list.push(Some(kind));
        Self(list.len() - 1)
    }

    /// A file under a name that is not the one that it shall have.
    pub fn file(path: PathBuf) -> Self {
        Self::new(Kind::File(path))
    }

    /// Makes a directory, with those that it lies in; those of them that are made now and are still
    /// empty in the end are removed.
    ///
    /// # Errors
    /// If one can't be made.
    pub fn directory(path: &Path) -> io::Result<Self> {
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made = path.ancestors().take_while(missing).map(Path::to_owned).collect();
        let unfinished = Self::new(Kind::Empty(made));
        fs::create_dir_all(path).map(|()| unfinished)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Emptied already if the process is being ended.
        let kind = list().get_mut(self.0).and_then(Option::take);
        kind.iter().for_each(Kind::remove);
    }
}

/// A directory for temporary files, gone when this is dropped or the command is ended.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    _unfinished: Unfinished,
}

impl Temporary {
    /// In the system's directory for such.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::within(&std::env::temp_dir(), prefix)
    }

    /// In a directory.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn within(directory: &Path, prefix: &str) -> io::Result<Self> {
        let made = tempfile::Builder::new().prefix(prefix).tempdir_in(directory)?;
        let path = made.keep();
        let unfinished = Unfinished::new(Kind::Tree(path.clone()));
        Ok(Self { path, _unfinished: unfinished })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_stay_empty_go_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("a/b");
        drop(Unfinished::directory(&deep).unwrap());
        assert!(!directory.path().join("a").exists());
        let made = Unfinished::directory(&deep).unwrap();
        fs::write(deep.join("file"), "text").unwrap();
        drop(made);
        assert!(deep.join("file").exists());
        let empty = directory.path().join("empty");
        fs::create_dir(&empty).unwrap();
        drop(Unfinished::directory(&empty).unwrap());
        assert!(empty.exists(), "it was there before");
    }
}
