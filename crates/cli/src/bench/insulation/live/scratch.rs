//! A file to measure on: full of noise, so that reading it reads the disk.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use disktime_papers::insulation::live::{LiveError, Stopped, World};

use crate::BadInput;
use crate::interrupt::Temporary;

/// Its size unless said, in bytes (4 GiB).
const SIZE: u64 = 4 << 30;
/// The smallest that says anything.
pub(super) const SIZE_MIN: u64 = 64 << 20;
/// What is written at once.
const BLOCK: usize = 1 << 20;

/// The file, until dropped.
pub(super) struct Scratch {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    _directory: Temporary,
}

impl Scratch {
    /// Of `bytes`, else 4 GiB or half of what is free. Writing it ends early if the world does.
    pub(super) fn create(
        within: &Path,
        bytes: Option<u64>,
        world: &dyn World,
    ) -> anyhow::Result<Self> {
        let free = free_bytes(within).with_context(|| format!("--scratch {}", within.display()))?;
        let bytes = bytes.unwrap_or(SIZE.min(free / 2)) / (BLOCK as u64) * BLOCK as u64;
        if bytes < SIZE_MIN || bytes > free {
            bail!(BadInput(format!(
                "--size: {bytes} bytes; {SIZE_MIN} to {free}, which are free in {}",
                within.display()
            )));
        }
        let directory = Temporary::within(within, "disktime-bench-")?;
        let path = directory.path().join("image");
        fill(&path, bytes, world).with_context(|| format!("writing {}", path.display()))?;
        Ok(Self { path, bytes, _directory: directory })
    }
}

fn free_bytes(directory: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(directory)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Noise, no block like another, on the disk.
fn fill(path: &Path, bytes: u64, world: &dyn World) -> anyhow::Result<()> {
    let mut file = File::create_new(path)?;
    let mut block = noise();
    for index in 0..bytes / BLOCK as u64 {
        for page in block.chunks_exact_mut(4096) {
            page[..8].copy_from_slice(&index.to_le_bytes());
        }
        file.write_all(&block)?;
        world.wait(Duration::ZERO).map_err(|Stopped| LiveError::Stopped)?;
    }
    Ok(file.sync_all()?)
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
    use disktime_papers::insulation::live::Step;

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
    fn a_file_is_full_and_goes_away() {
        let within = tempfile::tempdir().expect("a directory");
        let scratch = Scratch::create(within.path(), Some(SIZE_MIN + 5), &GOES_ON);
        let scratch = scratch.expect("there is room");
        assert_eq!(scratch.bytes, SIZE_MIN);
        let bytes = std::fs::read(&scratch.path).expect("it is there");
        assert_eq!(bytes.len() as u64, SIZE_MIN);
        assert!(bytes[..4096] != bytes[BLOCK..BLOCK + 4096] && bytes[..4096] != bytes[4096..8192]);
        let path = scratch.path.clone();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn sizes_that_are_too_small_or_do_not_fit_are_refused() {
        let within = tempfile::tempdir().expect("a directory");
        for bytes in [1 << 20, u64::MAX / 2] {
            let refused = Scratch::create(within.path(), Some(bytes), &GOES_ON);
            let refused = refused.err().expect("refused");
            assert!(refused.downcast_ref::<BadInput>().is_some(), "{refused:#}");
        }
        assert!(Scratch::create(Path::new("/no/such/place"), None, &GOES_ON).is_err());
    }

    #[test]
    fn who_is_stopped_while_writing_leaves_no_file() {
        let within = tempfile::tempdir().expect("a directory");
        let ended = Scratch::create(within.path(), Some(SIZE_MIN), &Told(Err(Stopped)));
        assert!(format!("{:#}", ended.err().expect("stopped")).ends_with("stopped"));
        assert_eq!(within.path().read_dir().expect("it is there").count(), 0);
    }
}
