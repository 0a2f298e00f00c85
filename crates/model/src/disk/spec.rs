//! Properties in which one disk differs from another.

use super::geometry::Geometry;
use super::queue::Order;
use super::seek::SeekCurve;
use disktime_core::Duration;

/// Properties in which one disk differs from another.
#[derive(Clone, Debug)]
pub struct DiskSpec {
    /// Where its sectors lie and how fast it turns.
    pub geometry: Geometry,
    /// How long the arm moves.
    pub seek: SeekCurve,
    /// Time to switch to another surface of the same cylinder.
    pub head_switch: Duration,
    /// How much longer a write settles after the head has moved.
    pub write_settle: Duration,
    /// Time in the electronics.
    pub overhead: Overhead,
    /// Rate at which the buffer's content goes to and from the host, bytes per second.
    pub bus_bytes_per_second: u64,
    /// When what comes off the medium begins to go to the host.
    pub bus_start: BusStart,
    /// The buffer for reading ahead.
    pub read_ahead: ReadAhead,
    /// The buffer for writes.
    pub write_back: WriteBack,
    /// How many operations it holds.
    pub queue_depth: u32,
    /// In which order it serves them.
    pub order: Order,
}

/// When a read that comes off the medium begins to go over the bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BusStart {
    /// When its first sector is in the buffer: the bus overlaps with the medium.
    FirstSector,
    /// When all of it is.
    LastSector,
}

/// Time that a command spends in the electronics; the bus is extra. All are more than zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overhead {
    /// Before the arm starts for a read; passes while the arm works for the command before.
    pub read_media: Turn,
    /// For a read from the buffer; `after_read` also for flushes and trims.
    pub read_hit: Turn,
    /// Before the arm starts for a write that goes to the medium.
    pub write_media: Turn,
    /// For a write taken into the buffer.
    pub accept: Duration,
    /// For a write taken into the buffer that continues the write before it.
    pub accept_continuing: Duration,
}

/// A time that depends on what the command before was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// After anything but a write.
    pub after_read: Duration,
    /// After a write.
    pub after_write: Duration,
}

impl Turn {
    /// The same after everything.
    #[must_use]
    pub const fn always(time: Duration) -> Self {
        Self { after_read: time, after_write: time }
    }

    pub(crate) fn after(self, write: bool) -> Duration {
        if write { self.after_write } else { self.after_read }
    }
}

impl Overhead {
    /// Two numbers: `media` for what needs the arm, `hit` for what does not.
    #[must_use]
    pub const fn plain(media: Duration, hit: Duration) -> Self {
        Self {
            read_media: Turn::always(media),
            read_hit: Turn::always(hit),
            write_media: Turn::always(media),
            accept: hit,
            accept_continuing: hit,
        }
    }

    pub(crate) fn is_positive(&self) -> bool {
        let turns = [self.read_media, self.read_hit, self.write_media];
        let times = turns.iter().flat_map(|turn| [turn.after_read, turn.after_write]);
        times.chain([self.accept, self.accept_continuing]).all(|time| time > Duration::ZERO)
    }
}

/// The buffer for reading ahead. Zero segments: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadAhead {
    /// How many sequential streams are remembered.
    pub segments: u32,
    /// Bytes of each, and how far ahead of the host the head reads.
    pub segment_bytes: u64,
    /// When the head reads ahead.
    pub prefetch: Prefetch,
}

/// When the head goes on behind what was read. Segments keep what was asked for in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefetch {
    /// Never: each read that no segment holds has an overhead, a seek and a rotational wait.
    Never,
    /// After every read from the medium.
    Always,
    /// After a read from the medium that begins where the read before it ended.
    AfterSequence,
}

impl ReadAhead {
    /// No buffer for reads.
    pub const OFF: Self = Self { segments: 0, segment_bytes: 0, prefetch: Prefetch::Never };
}

/// The buffer for writes. Zero bytes: every write goes through to the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteBack {
    /// How much may wait to be destaged; a larger write goes through.
    pub dirty_bytes: u64,
    /// In how many runs of sectors.
    pub extents: u32,
    /// Whether reads are served from it.
    pub read_hits: bool,
    /// Which run of sectors goes to the medium next.
    pub destage: Destage,
}

/// Which run of sectors in the buffer for writes goes to the medium next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destage {
    /// The run that the head reaches first.
    Nearest,
    /// The run that has been in the buffer for longest.
    Oldest,
}

impl WriteBack {
    /// No write cache.
    pub const OFF: Self =
        Self { dirty_bytes: 0, extents: 0, read_hits: false, destage: Destage::Nearest };
}
