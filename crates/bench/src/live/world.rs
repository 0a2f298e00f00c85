//! The seam to a caller that brings servers and a clock: contenders, and the world that they are
//! measured in.

use std::time::Duration;

use disktime_client::Uri;

use super::scene::Scene;

/// Where a stream is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The export.
    pub uri: Uri,
    /// First byte of the stream's part of it.
    pub base: u64,
}

/// A way of sharing a device.
pub trait Contender {
    /// Its name in rows.
    fn policy(&self) -> &'static str;

    /// The cost model of one that is ours, for the simulator; of others none. This is a bench of
    /// ours: another's that fails is left out.
    fn cost_model(&self) -> Option<&str> {
        None
    }

    /// Starts what it takes. Called once a round; what it answers is dropped before another one
    /// starts, and must leave nothing behind then.
    ///
    /// # Errors
    /// Why there is no such server.
    fn start(&self) -> Result<Box<dyn Served>, NotStarted>;
}

/// Servers that run, until this is dropped.
pub trait Served {
    /// Where each stream is reached, in the scene's order.
    fn places(&self) -> &[Place];

    /// Time charged to a stream so far, if the server keeps such accounts.
    fn charged(&self, stream: usize) -> Option<Duration>;

    /// Told what each stream did alone, before all are on the device; no client is connected.
    ///
    /// # Errors
    /// Why limits that follow from it can't be set.
    fn limit(&mut self, alone: &[Alone]) -> Result<(), NotStarted>;

    /// The servers' processes, without this one.
    fn processes(&self) -> Vec<u32>;
}

/// Why a contender does not serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotStarted {
    /// The machine lacks something; the contender is left out. Says what, and how to get it.
    Unavailable(String),
    /// It should have worked.
    Failed(String),
}

/// The world that is measured in.
pub trait World {
    /// Time since some moment.
    fn now(&self) -> Duration;

    /// Waits until then.
    ///
    /// # Errors
    /// If somebody wants the bench to end.
    fn wait(&self, until: Duration) -> Result<(), Stopped>;

    /// CPU time in seconds that the machine has, and that somebody else than this process and those
    /// named has used, since some moment.
    fn cpu(&self, own: &[u32]) -> (f64, f64);

    /// Is told how far it is.
    fn tell(&self, step: &Step<'_>);
}

/// Somebody wants the bench to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;

/// How far a bench has come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Step<'a> {
    /// A measurement begins.
    Begins {
        /// Where.
        scene: &'a Scene,
        /// The contender.
        policy: &'static str,
        /// Which stream alone; else all together.
        stream: Option<usize>,
        /// Which round, from 1.
        round: usize,
    },
    /// A contender is left out of what is left of a scene.
    LeftOut {
        /// Where.
        scene: &'a Scene,
        /// The contender.
        policy: &'static str,
        /// Why, and what would help.
        reason: &'a str,
    },
}

/// A stream alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Alone {
    /// Requests per second.
    pub per_second: f64,
    /// The 99th percentile of its response times.
    pub p99_us: f64,
}
