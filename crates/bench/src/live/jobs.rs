//! A scene with everything that is measured on it.

use std::path::{Path, PathBuf};

use disktime_server::ConfigError;

use super::daemon::{Daemon, Tuning};
use super::programs::Medium;
use super::servers::{Foreign, Way};
use super::{Contender, Scene};

/// A scene and the contenders that are measured on it.
pub struct Job {
    /// The scene.
    pub scene: Scene,
    /// The daemon under each policy, then the other ways.
    pub contenders: Vec<Box<dyn Contender>>,
}

/// Why a scene can't be measured.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The daemon does not take such a configuration.
    #[error("{0}")]
    Config(ConfigError),
    /// There is no directory for a contender.
    #[error("creating {}: {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
}

impl Job {
    /// The daemon under each policy, and each other way on a medium that is not the daemon's own
    /// emulated disk. Each contender has a directory of its own under `directory`: what it records
    /// is its own.
    ///
    /// # Errors
    /// If the daemon can't be configured so, or a directory can't be made.
    pub fn new(
        scene: Scene,
        medium: Option<Medium>,
        policies: &[&'static str],
        ways: &[Way],
        tuning: &Tuning,
        directory: &Path,
    ) -> Result<Self, JobError> {
        let mut contenders: Vec<Box<dyn Contender>> = Vec::new();
        for policy in policies {
            let directory = made(directory.join(policy))?;
            let daemon = Daemon::new(policy, &scene, medium.clone(), tuning, &directory);
            contenders.push(Box::new(daemon.map_err(JobError::Config)?));
        }
        // The emulated disk is in the daemon: no other server can share it out.
        if let Some(medium) = medium {
            for way in ways {
                let directory = made(directory.join(way.name()))?;
                let (scene, medium) = (scene.clone(), medium.clone());
                contenders.push(Box::new(Foreign { way: *way, medium, scene, directory }));
            }
        }
        Ok(Self { scene, contenders })
    }
}

fn made(path: PathBuf) -> Result<PathBuf, JobError> {
    match std::fs::create_dir_all(&path) {
        Ok(()) => Ok(path),
        Err(error) => Err(JobError::Directory { path, error }),
    }
}
