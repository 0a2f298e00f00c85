//! Whether a set of guaranteed streams fits a device: ucsb's Inequality 1 (§III-B), for streams
//! whose cycles differ.
//!
//! **Assumptions.** When one begins, the stream's batch of rate × T bytes waits, in requests of
//! [`REQUEST`] bytes that lie one after the other. Pieces go by earliest deadline, the end of their
//! cycle; those of one deadline in one sweep. So a batch runs through, unless a shorter cycle
//! begins meanwhile whose deadline is earlier. One piece is at the device at a time, and ends
//! before another goes.
//!
//! **Cost** of a cycle: positioning, transfer, and the way back of the one batch that it can
//! interrupt, which is of a longer cycle: `C = L + max {L of longer cycles} + transfer(rate × T)`.
//! L is from the farthest place of the device, or for means from anywhere on it, each place as likely;
//! the transfer is of the slowest zone in the extent. With
//! one cycle for all, `Σ C ≤ r·T` is ucsb's `r·T ≥ Σ L + Σ T·B/R`.
//!
//! **Turns.** A stream that comes to the device may keep it for a turn. Then positioning is its
//! own, once for each of its turns, and nobody pays for interrupting: `C = n·L + transfer`, n
//! turns. In exchange a turn delays every stream that begins a shorter cycle meanwhile (limited
//! preemption: Baruah, "The limited-preemption uniprocessor scheduling of sporadic task systems", 2005).
//! A turn ends with its cycle at the latest, also that of a statistical stream which has missed it: no turn
//! of a later deadline begins before an earlier one for that. A turn that writes goes on for one piece and its
//! flush, for which the batch that is late has time.
//! Several numbers of turns may fit: the one that leaves the largest cap of slack is taken.
//!
//! **Write caches.** The writes that a cache brings to the medium in another stream's time take
//! positionings there that no inequality bounds: as many as it likes. So on such a device turns that
//! write end with a flush, in their own time, and while a rate is firm or a latency bounded all other
//! streams' pieces that write do too: every turn finds an empty cache, and L holds. A flush finds the
//! head somewhere in the turn's run and writes on from there, so it takes one positioning over at most
//! the run's length, F, beside the transfer, which is measured with a flush: `C = n·(L + F) + transfer`.
//! Without turns the last piece before another stream's is not known, so there are always turns then.
//!
//! **Test**: the processor demand criterion of earliest deadline first (Baruah, Rosier and Howell,
//! "Algorithms and complexity concerning the preemptive scheduling of periodic, real-time tasks on
//! one processor", 1990) with a blocking term. For each span l up to which cycles end,
//! `Σ floor(l/T)·C + reserved·l + headroom·l + burst + blocking(l) ≤ l`. Blocking is what is at the
//! device when the span begins: one piece of the other streams, behind what a cache may be writing
//! out, or one turn or piece of a cycle longer than l.
//!
//! **Kinds.** Deterministic promises are tested with the worst positioning of *all* streams, the
//! statistical ones too: a cycle's bytes are bounded, so its worst cost is, and nobody's luck
//! decides over a firm promise. Statistical promises are tested with everyone's means plus
//! `z·√(Σ variances)`, as if positionings were independent and their sum normal, with the z of the
//! smallest miss probability in the set; or at worst, if that is easier. Either test looks at spans
//! from the shortest cycle of its kind on, because no shorter span ends in a promise of that kind.
//! Best-effort demands are not tested and take no share: they are served after the others, where
//! at most a piece of theirs is in the way, which counts as blocking.
//!
//! Does not know: the engine, its streams' names, what they did so far.

mod batch;
mod demand;
mod error;

use alloc::vec::Vec;

use crate::classes::profile::{Positioning, Profile};
use crate::types::contract::{Access, Admission, Rate};
use crate::types::share::Share;
use crate::types::time::Duration;

use self::batch::{Batch, Reckoned, batch};
use self::demand::{Room, passed, room, tests};
pub use self::error::{AdmissionError, DemandError, LatencyError};

/// Bytes of a guaranteed-rate stream's requests (ucsb §IV).
pub const REQUEST: u64 = 128 * 1024;
/// Cycles to choose from when a stream names none.
pub const CYCLES: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];
/// How long a stream may keep the device before earlier deadlines count again: of those with which
/// all fit the one is taken that leaves best effort the most slack. Without turns each piece counts them.
const TURNS: [Option<Duration>; 6] = [
    Some(Duration::from_millis(800)),
    Some(Duration::from_millis(400)),
    Some(Duration::from_millis(200)),
    Some(Duration::from_millis(100)),
    Some(Duration::from_millis(50)),
    None,
];
/// The smallest piece that [`largest_piece`] answers.
pub const PIECE_MIN: u64 = REQUEST;
/// The largest piece that [`largest_piece`] answers.
pub const PIECE_MAX: u64 = 4 * 1024 * 1024;

const PARTS: u128 = Share::PARTS as u128;

/// A guaranteed-rate stream that asks to be admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// How much, how often, how firmly.
    pub rate: Rate,
    /// Where its requests lie, first byte and end; `None` for anywhere.
    pub extent: Option<(u64, u64)>,
}

/// The device time that all other streams may take. In any span l that is at most `reserved·l +
/// latency_burst`, the seeks back of batches that they interrupt included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Others {
    /// Time that they reserve, guaranteed-latency streams included.
    pub reserved: Share,
    /// The bubble slot: time that is given to nobody.
    pub headroom: Share,
    /// Most disk time that guaranteed-latency streams can take ahead at once.
    pub latency_burst: Duration,
    /// Largest piece of theirs that can be in the way, as none stops halfway; 0 for none.
    pub blocking_bytes: u64,
    /// Beside guaranteed latency: the most that a turn writes before it is flushed, since nothing
    /// interrupts a flush.
    pub unflushed_bytes: Option<u64>,
}

/// The answer to a guaranteed stream's demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Its cycle, asked for or chosen.
    pub cycle: Duration,
    /// Bytes moved in each cycle: rate × cycle, in whole sectors.
    pub bytes: u64,
    /// Bytes for which it keeps the device once it is there, whatever begins meanwhile; 0 if any
    /// earlier deadline interrupts it.
    pub turn: u64,
    /// The most disk time that the bytes of a cycle take at the profile's worst latencies, with a
    /// seek back for each shorter cycle that can interrupt. Seeks back after guaranteed-latency
    /// requests and slack are not in it: a stream that is cut there needs them on top.
    pub allowance: Duration,
    /// The part of time that its promise takes from others, rounded up: its cost by its cycle, at
    /// worst or (statistical) at the mean; zero for best effort.
    pub share: Share,
}

/// How far best effort may go ahead of guaranteed rates: a register that fills at `rate` up to
/// `cap`, and that each piece ahead debits with its time and one seek back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slack {
    /// How fast it fills.
    pub rate: Share,
    /// The largest value of the slack register.
    pub cap: Duration,
    /// The time that a batch needs, at worst, to get back after a piece that went ahead of it.
    pub seek_back: Duration,
}

/// The answer on a set that fits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// In the order of the demands.
    pub streams: Vec<Granted>,
    /// The share that neither they, nor others' reservations, nor the headroom take: by worst cases
    /// if a promise is deterministic.
    pub spare: Share,
    /// Time for best effort ahead of them.
    pub slack: Slack,
}

/// Whether all `demands` fit the device beside the others, and what each is granted.
///
/// The slack register is derived from the same test. Its rate is half of the spare share, or half
/// of that and so on if a short span has no room for it. Its cap is the smallest margin that
/// `rate·l` leaves in any span l from the shortest promised cycle on, at most
/// [`Rate::CYCLE_MAX`]: what goes ahead in l is at most `cap + rate·l`, so the test holds with it.
///
/// With cycles given, a higher rate never fits where a lower one did not. A stream without a cycle
/// may be given a shorter one at a higher rate, which can be easier on the others.
///
/// # Errors
/// If a number is out of range, or the set does not fit.
pub fn admit(
    profile: &Profile,
    demands: &[Demand],
    others: &Others,
) -> Result<Admitted, AdmissionError> {
    profile.check().map_err(AdmissionError::Profile)?;
    let Others { reserved, headroom, .. } = *others;
    if reserved.ppm() + headroom.ppm() > Share::PARTS {
        return Err(AdmissionError::Overbooked { reserved, headroom });
    }
    let mut batches = Vec::with_capacity(demands.len());
    for (stream, demand) in demands.iter().enumerate() {
        batches.push(batch(profile, demand, others).map_err(|error| error.of(stream))?);
    }
    // Without turns nobody knows which of its pieces is the last before another stream's.
    let flushed = batches.iter().any(|batch| batch.flush.is_some());
    let turns = TURNS.map(|turn| (turn.is_some() || !flushed).then_some(turn));
    let rooms = turns.map(|turn| {
        let turn = turn?;
        Some((room(&tests(profile, &batches, others, turn))?, turn))
    });
    // Equal rooms: `max_by_key` takes the last one, which is the shortest turn.
    if let Some((room, turn)) = rooms.iter().flatten().max_by_key(|(room, _)| room.cap) {
        return Ok(admitted(&batches, others, room, *turn));
    }
    let fits = |batches: &[Batch]| {
        let fits = |turn| passed(&tests(profile, batches, others, turn)).is_some();
        turns.into_iter().flatten().any(fits)
    };
    // Where more streams fit, fewer do; where a rate fits, lower ones do: both found by halving.
    let counts: Vec<usize> = (1..=batches.len()).collect();
    let stream = counts.partition_point(|count| fits(&batches[..*count]));
    let bytes_per_second = demands[stream].rate.bytes_per_second;
    let largest = last(0, bytes_per_second, |bytes_per_second| {
        let rate = Rate { bytes_per_second, ..demands[stream].rate };
        let lower = batch(profile, &Demand { rate, ..demands[stream] }, others);
        lower.is_ok_and(|lower| {
            batches[stream] = lower;
            fits(&batches)
        })
    });
    Err(DemandError::Refused { bytes_per_second, largest }.of(stream))
}

/// The last number from `low` on that holds, when `low` does and `high` does not.
fn last(mut low: u64, mut high: u64, mut holds: impl FnMut(u64) -> bool) -> u64 {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The longest that a guaranteed-latency request takes when at most `depth` pieces of at most
/// `piece_bytes` are ahead of it (those at the device, which don't stop halfway): each piece's
/// worst positioning and transfer, then its own. Its own transfer goes in pieces of the same size.
/// Each may be a write, and then it ends with the flush of a write cache.
#[must_use]
pub fn latency_bound(
    profile: &Profile,
    piece_bytes: u64,
    own_request_bytes: u64,
    depth: u32,
) -> Duration {
    let flush = |bytes: u64| flush(profile, bytes).map_or(0, |it| it.worst.as_nanos().into());
    let ahead = piece(profile, piece_bytes, piece_bytes) + flush(piece_bytes);
    let pieces = u128::from(own_request_bytes.div_ceil(piece_bytes.max(1)).max(1));
    let own = piece(profile, own_request_bytes, piece_bytes);
    let own_flushes = pieces * flush(piece_bytes.min(own_request_bytes));
    nanos(u128::from(depth) * ahead + own + own_flushes)
}

/// A worst positioning and that many bytes, in requests of `request`; in nanoseconds.
fn piece(profile: &Profile, bytes: u64, request: u64) -> u128 {
    let transfer = profile.transfer((0, profile.size()), Access::Both);
    let seek = profile.positioning_within(u64::MAX).worst;
    u128::from(seek.as_nanos()) + u128::from(transfer.time(bytes, request).as_nanos())
}

/// The time that a flush takes after that many bytes in sequence, beside their transfer: it finds
/// the head somewhere among them. `None` without a write cache.
fn flush(profile: &Profile, bytes: u64) -> Option<Positioning> {
    profile.has_write_cache().then(|| profile.positioning_within(bytes))
}

/// The largest piece, a power of two from [`PIECE_MIN`] to [`PIECE_MAX`] bytes, with which
/// [`latency_bound`] is at most `bound`.
///
/// # Errors
/// If there is none; with the smallest bound that could be kept.
pub fn largest_piece(
    profile: &Profile,
    bound: Duration,
    own_request_bytes: u64,
    depth: u32,
) -> Result<u64, LatencyError> {
    let mut smallest = Duration::MAX;
    let mut piece = PIECE_MAX;
    while piece >= PIECE_MIN {
        let kept = latency_bound(profile, piece, own_request_bytes, depth);
        if kept <= bound {
            return Ok(piece);
        }
        smallest = smallest.min(kept);
        piece /= 2;
    }
    Err(LatencyError { bound, smallest })
}

fn admitted(batches: &[Batch], others: &Others, room: &Room, turn: Option<Duration>) -> Admitted {
    let granted = |batch: &Batch| {
        let parts = match batch.kind {
            Admission::Deterministic => batch.parts(batches, turn, Reckoned::Worst),
            Admission::Statistical { .. } => batch.parts(batches, turn, Reckoned::Mean),
            Admission::BestEffort => 0,
        };
        let (cycle, bytes) = (batch.cycle, batch.bytes);
        let turn_bytes = batch.turn(turn).filter(|_| batch.checked()).unwrap_or(0);
        let allowance = batch.allowance(batches, turn);
        Granted { cycle, bytes, turn: turn_bytes, allowance, share: share(parts) }
    };
    let others = u128::from(others.reserved.ppm() + others.headroom.ppm());
    let seek_back = batches.iter().map(Batch::seek_and_flush).max().unwrap_or_default();
    // Without a promise there is no test that has taken the others' part off.
    let spare = room.spare.min(PARTS - others);
    let slack = Slack { rate: share(room.rate.min(spare / 2)), cap: nanos(room.cap), seek_back };
    Admitted { streams: batches.iter().map(granted).collect(), spare: share(spare), slack }
}

fn nanos(nanos: u128) -> Duration {
    u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
}

fn share(parts: u128) -> Share {
    u32::try_from(parts).ok().and_then(Share::from_ppm).unwrap_or(Share::FULL)
}
