//! A file to measure on: full of noise, so that reading it reads the disk.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Stopped, World};

/// Its size unless said, in bytes (4 GiB).
const SIZE: u64 = 4 << 30;
/// The smallest that says anything, in bytes (64 MiB).
const SIZE_MIN: u64 = 64 << 20;
/// The length of one write, in bytes.
const BLOCK: usize = 1 << 20;

/// Why there is no file to measure on.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// The directory's file system does not say how much is free.
    #[error("{}: {error}", within.display())]
    Free {
        /// The directory.
        within: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// The size is too small, or does not fit.
    #[error("{bytes} bytes; {SIZE_MIN} to {free}, which are free in {}", within.display())]
    Size {
        /// The size in bytes.
        bytes: u64,
        /// The free space, in bytes.
        free: u64,
        /// The directory.
        within: PathBuf,
    },
    /// The file can't be written.
    #[error("writing {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// Somebody wants the bench to end.
    #[error("writing {}: stopped", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
    },
}

/// The size of a file in a directory, in whole MiB: `bytes`, else 4 GiB or half of what is free.
///
/// # Errors
/// If the size is too small or does not fit, or the system does not say what is free.
pub fn size(within: &Path, bytes: Option<u64>) -> Result<u64, ScratchError> {
    let free = free_bytes(within)
        .map_err(|error| ScratchError::Free { within: within.to_owned(), error })?;
    let bytes = bytes.unwrap_or(SIZE.min(free / 2)) / (BLOCK as u64) * BLOCK as u64;
    if bytes < SIZE_MIN || bytes > free {
        return Err(ScratchError::Size { bytes, free, within: within.to_owned() });
    }
    Ok(bytes)
}

/// Writes a file of so many bytes of noise. It ends early if the world does.
///
/// # Errors
/// If the file can't be written, or somebody wants the bench to end.
pub fn create(path: &Path, bytes: u64, world: &dyn World) -> Result<(), ScratchError> {
    let written = fill(path, bytes, world)
        .map_err(|error| ScratchError::Write { path: path.to_owned(), error })?;
    written.map_err(|Stopped| ScratchError::Stopped { path: path.to_owned() })
}

fn free_bytes(directory: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(directory)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Noise, no block like another, on the disk.
fn fill(path: &Path, bytes: u64, world: &dyn World) -> std::io::Result<Result<(), Stopped>> {
    let mut file = File::create_new(path)?;
    let mut block = noise();
    for index in 0..bytes / BLOCK as u64 {
        for page in block.chunks_exact_mut(4096) {
            page[..8].copy_from_slice(&index.to_le_bytes());
        }
        file.write_all(&block)?;
        if world.wait(Duration::ZERO).is_err() {
            return Ok(Err(Stopped));
        }
    }
    file.sync_all().map(Ok)
}

/// By xorshift64 (Marsaglia, 2003).
fn noise() -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut block = Vec::with_capacity(BLOCK);
    while block.len() < BLOCK {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        block.extend_from_slice(&state.to_le_bytes());
    }
    block
}

#[cfg(test)]
mod tests {
    use super::super::Step;

    use super::*;

    /// A world that goes on, or has ended.
    struct Told(Result<(), Stopped>);

    impl World for Told {
        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn wait(&self, _until: Duration) -> Result<(), Stopped> {
            self.0
        }

        fn cpu(&self, _own: &[u32]) -> (f64, f64) {
            (0.0, 0.0)
        }

        fn tell(&self, _step: &Step<'_>) {}
    }

    const GOES_ON: Told = Told(Ok(()));

    #[test]
    fn a_file_is_full_and_no_block_is_like_another() {
        let within = tempfile::tempdir().expect("a directory");
        let bytes = size(within.path(), Some(SIZE_MIN + 5)).expect("there is room");
        assert_eq!(bytes, SIZE_MIN);
        let path = within.path().join("image");
        create(&path, bytes, &GOES_ON).expect("there is room");
        let bytes = std::fs::read(&path).expect("it is there");
        assert_eq!(bytes.len() as u64, SIZE_MIN);
        assert!(bytes[..4096] != bytes[BLOCK..BLOCK + 4096] && bytes[..4096] != bytes[4096..8192]);
    }

    #[test]
    fn sizes_that_are_too_small_or_do_not_fit_are_refused() {
        let within = tempfile::tempdir().expect("a directory");
        for bytes in [1 << 20, u64::MAX / 2] {
            let refused = size(within.path(), Some(bytes));
            assert!(matches!(refused, Err(ScratchError::Size { .. })), "{refused:?}");
        }
        let nowhere = size(Path::new("/no/such/place"), None);
        assert!(matches!(nowhere, Err(ScratchError::Free { .. })), "{nowhere:?}");
    }

    #[test]
    fn a_world_that_stops_ends_the_writing() {
        let within = tempfile::tempdir().expect("a directory");
        let ended = create(&within.path().join("image"), SIZE_MIN, &Told(Err(Stopped)));
        assert!(ended.expect_err("stopped").to_string().ends_with("image: stopped"));
    }
}
