//! Messages between a guest and its daemon, and the packets that carry them.
//!
//! Does not know: sockets, shards, files.

mod packets;

use disktime_core::{Contract, Kind};

pub use packets::PacketError;
pub(crate) use packets::{PACKET_MAX, STREAMS_AT_ONCE};

/// The packets' version. A guest of another one is refused.
pub(crate) const VERSION: u32 = 2;
/// Bytes of the names of a mount and of its streams, by which people know them; longer ones lose their
/// beginning.
pub const NAME_BYTES_MAX: usize = 256;

/// A message of a guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// A stream is to be added, under a number that the guest has not in use, with a name for people of
    /// at most [`NAME_BYTES_MAX`] bytes.
    Add(Call, Contract, String),
    /// A stream is to have another contract.
    Set(Call, Contract),
    /// A stream has no requests and ends.
    Remove(Call),
    /// The user of a stream says that data came too late.
    Late(Call),
    /// Figures are wanted of the device and of all streams of the guest. The stream does not count.
    Report(Call),
    /// A request.
    Request {
        /// The guest's number for it, which is not in use.
        request: u32,
        /// Its stream.
        stream: u32,
        /// [`Kind::Read`] or [`Kind::Write`].
        kind: Kind,
        /// Its first byte on the device.
        offset: u64,
        /// Its length in bytes, at least 1.
        bytes: u64,
    },
    /// A piece has ended.
    Ended {
        /// The number of its turn.
        turn: u64,
        /// Whether it was done.
        done: bool,
    },
}

/// A question about a stream, by the guest's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The number that comes back with the answer.
    pub call: u32,
    /// The stream.
    pub stream: u32,
}

/// A message to a guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// The first one: what the device is.
    Welcome(Facts),
    /// The answer to a question about a stream.
    Answer(u32, Result<(), NotGranted>),
    /// Some of the streams of a report.
    Streams(Vec<StreamFigures>),
    /// The end of a report.
    Report(u32, DeviceFigures),
    /// A piece may begin now.
    Turn(Turn),
    /// A request is over: every piece of it had its turn; or it was refused.
    Over {
        /// Which.
        request: u32,
        /// It was not refused.
        taken: bool,
    },
}

/// A piece that may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The number of the turn, which no other one of the device has.
    pub turn: u64,
    /// The request that it is a piece of.
    pub request: u32,
    /// Its first byte on the device.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// A write is to be on the medium when it ends.
    pub flush: bool,
}

/// A device, as its guests need to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The most pieces at the device at once.
    pub depth_max: u32,
    /// The most requests of a guest at once: more are refused.
    pub requests_max: u32,
    /// The size of an emulated device in bytes: offsets are below it. Else any offset will do.
    pub capacity: Option<u64>,
}

/// Why a contract is not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotGranted {
    /// All reservations would come to so much, and so much can be reserved, in parts per million.
    Overbooked(u64, u32),
    /// The largest rate that fits, in bytes per second.
    Rate(u64),
    /// The smallest latency that can be kept, in nanoseconds.
    Latency(u64),
    /// Rates and latencies need a profile of the device.
    NoProfile,
    /// The device has as many streams as it may have.
    Streams,
    /// A contract that can't be, or no such stream.
    Invalid,
}

/// The figures of a guest's stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamFigures {
    /// The guest's number for it.
    pub stream: u32,
    /// The share that is reserved for it, in parts per million.
    pub reserve_ppm: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Requests that are over, those that failed among them.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes of completed reads.
    pub bytes_read: u64,
    /// Bytes of completed writes.
    pub bytes_written: u64,
    /// Device time charged, in nanoseconds.
    pub charged_ns: u64,
    /// Device time held for it, in nanoseconds.
    pub held_ns: u64,
    /// Cycles of a guaranteed rate.
    pub cycles: u64,
    /// Cycles that were missed.
    pub cycles_missed: u64,
    /// The bound that it is promised, in nanoseconds; 0 for none.
    pub promise_ns: u64,
    /// Times that it was behind its promise.
    pub broken: u64,
}

/// The figures of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceFigures {
    /// Pieces at the device at once.
    pub depth: u32,
    /// Pieces at the device now.
    pub in_flight: u32,
    /// The share that is reserved for no stream, in parts per million.
    pub headroom_ppm: u32,
    /// The sum of all reservations, virtual disks' among them, in parts per million.
    pub reserved_ppm: u32,
    /// The time in the slack register, in nanoseconds.
    pub slack_ns: i64,
    /// Busy time, in nanoseconds.
    pub busy_ns: u64,
    /// Busy time that no stream is charged for, in nanoseconds.
    pub spare_ns: u64,
    /// Time held idle, in nanoseconds.
    pub held_ns: u64,
    /// Time charged, in nanoseconds.
    pub charged_ns: u64,
}

/// A name of at most [`NAME_BYTES_MAX`] bytes: a longer one keeps its end, which says most of a path.
#[must_use]
pub fn short_name(name: &str) -> String {
    const CUT: &str = "…";
    if name.len() <= NAME_BYTES_MAX {
        return name.to_owned();
    }
    let from = name.len() - (NAME_BYTES_MAX - CUT.len());
    let from = (from..name.len()).find(|at| name.is_char_boundary(*at)).unwrap_or(name.len());
    format!("{CUT}{}", &name[from..])
}
