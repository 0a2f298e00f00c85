//! The engine that says which piece may begin: one of the mount's own, or a daemon's.

mod daemon;
mod own;

use crossbeam_channel::Receiver;
use disktime_core::{
    Contract, DeviceTime, Duration, Instant, Outcome, Request, RequestId, Share, StreamCounters,
    StreamId,
};

pub(super) use daemon::{Daemon, News};
pub(super) use own::Own;

use crate::abi::Refused;

/// A piece that may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    /// The name by which its end is told.
    pub(super) name: u64,
    pub(super) request: RequestId,
    /// Its first byte on the device.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// A write is to be on the medium when it ends.
    pub(super) flush: bool,
    /// The request begins anew: what was done of it before does not count.
    pub(super) anew: bool,
}

/// A request that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Over {
    pub(super) request: RequestId,
    /// It was not refused.
    pub(super) taken: bool,
}

/// A parameter of the device.
#[derive(Clone, Copy, Debug)]
pub(super) enum DeviceParameter {
    Depth(u32),
    Headroom(Share),
}

/// The figures of a stream.
pub(super) struct StreamFigures {
    pub(super) stream: StreamId,
    /// As it is kept: a rate's reservation is in it.
    pub(super) contract: Contract,
    pub(super) counters: StreamCounters,
    pub(super) waiting: u32,
    pub(super) promise: Option<Duration>,
    pub(super) broken: u64,
}

/// The figures of the device and of the mount's streams.
pub(super) struct Figures {
    pub(super) streams: Vec<StreamFigures>,
    pub(super) device: DeviceTime,
    pub(super) depth: u32,
    pub(super) in_flight: u32,
    pub(super) headroom: Share,
    /// The sum of all reservations, those of others on the device among them.
    pub(super) reserved_ppm: u64,
    pub(super) slack: i64,
}

/// An engine, as the scheduler's thread uses it; all calls are of that thread.
///
/// A request that was taken gets turns from [`next`](Self::next), one for each of its pieces, and is
/// told by [`over`](Self::over) once. The end of each turn is told by [`ended`](Self::ended), once.
pub(super) trait Turns: Send {
    /// Adds a stream that is not there yet; people know it by that name.
    fn add(&mut self, stream: StreamId, contract: Contract, name: &str) -> Result<(), Refused>;
    /// Gives a stream another contract.
    fn set(&mut self, stream: StreamId, contract: Contract) -> Result<(), Refused>;
    /// Ends a stream that has no requests.
    fn remove(&mut self, stream: StreamId);
    /// The user of a stream says that data came too late; whether there is such a stream.
    fn late(&mut self, stream: StreamId) -> bool;
    /// Changes a parameter of the device, or says why not.
    fn set_device(&mut self, parameter: DeviceParameter) -> Result<(), String>;
    /// Whether a piece may end later than its bytes are there: by the model of an emulated device.
    fn keeps_time(&self) -> bool;
    /// Takes a request, or says why not.
    fn arrive(&mut self, request: Request) -> Result<(), String>;
    /// The next piece that may begin now.
    fn next(&mut self) -> Option<Turn>;
    /// A piece has ended.
    fn ended(&mut self, turn: u64, outcome: Outcome);
    /// The next request that is over.
    fn over(&mut self) -> Option<Over>;
    /// When there will be something to do.
    fn wake_at(&self) -> Option<Instant>;
    /// When an emulated device's next piece ends: a thread that sleeps until then wakes too late.
    fn modelled_at(&self) -> Option<Instant>;
    /// Time has passed.
    fn timed(&mut self);
    /// Where news come in that are to be handed to [`hear`](Self::hear).
    fn news(&self) -> Receiver<News>;
    /// Something has come in.
    fn hear(&mut self, news: News);
    /// A stream whose contract was taken away: it is best effort now.
    fn lost(&mut self) -> Option<(StreamId, Refused)>;
    /// The figures now; none if they are not to be had.
    fn figures(&mut self) -> Option<Figures>;
}
