//! Whether a set of guaranteed streams fits a device: ucsb's Inequality 1 (§III-B), for streams
//! whose cycles differ.
//!
//! **What is reckoned with.** Cycles of stream i are the multiples of its length T from time zero.
//! When one begins, the stream's batch of rate × T bytes waits, in requests of [`REQUEST`] bytes
//! that lie one after the other. Pieces go by earliest deadline, the end of their cycle; those of
//! one deadline in one sweep. So a batch runs through, unless a shorter cycle begins meanwhile
//! whose deadline is earlier. One piece is at the device at a time, and ends before another goes.
//!
//! **Cost** of a cycle: positioning, transfer, and the way back of the one batch that it can
//! interrupt, which is of a longer cycle: `C = L + max {L of longer cycles} + transfer(rate × T)`.
//! L is from the farthest place of the device, or for means from anywhere on it, each place as likely;
//! the transfer is of the slowest zone in the extent. With
//! one cycle for all, `Σ C ≤ r·T` is ucsb's `r·T ≥ Σ L + Σ T·B/R`.
//!
//! **Turns.** A stream that comes to the device may keep it for a turn. Then positioning is its own,
//! once for each of its turns, and nobody pays for interrupting: `C = n·L + transfer`, n turns. In
//! exchange a turn is in the way of whoever begins a shorter cycle meanwhile (limited preemption:
//! Baruah, "The limited-preemption uniprocessor scheduling of sporadic task systems", 2005). Of the
//! turns with which all fit the one is taken that leaves the largest cap of slack.
//!
//! **Write caches.** What a cache brings to the medium in another stream's time takes positionings
//! there that no inequality bounds: as many as it likes. So on such a device turns that write end
//! with a flush, in their own time, and while a rate is firm or a latency bounded everybody else's
//! pieces that write do too: every turn finds an empty cache, and L holds. A flush finds the head somewhere in the turn's
//! run and writes on from there, so it takes one positioning over at most the run's length, F, beside
//! the transfer, which is measured with a flush: `C = n·(L + F) + transfer`. Without turns nobody
//! could tell which piece is the last before another stream's, so there are always turns then.
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

use alloc::vec::Vec;
use core::fmt;

use crate::contract::{Access, Admission, Rate};
use crate::profile::{Positioning, Profile, ProfileError};
use crate::share::Share;
use crate::time::Duration;

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

/// Batches are whole sectors.
const SECTOR: u64 = 512;
/// Most spans that a test looks at one by one. Beyond them the linear bound decides.
const SPANS_MAX: u32 = 2_000;
const PARTS: u128 = Share::PARTS as u128;
/// One-sided quantiles of the normal distribution: at most this part (ppm) lies more than so many
/// thousandths of a deviation above the mean, rounded up.
const QUANTILES: [(u32, u128); 11] = [
    (500_000, 0),
    (200_000, 842),
    (100_000, 1_282),
    (50_000, 1_645),
    (20_000, 2_054),
    (10_000, 2_327),
    (5_000, 2_576),
    (1_000, 3_091),
    (100, 3_720),
    (10, 4_265),
    (1, 4_754),
];

/// A guaranteed-rate stream that asks to be admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// How much, how often, how firmly.
    pub rate: Rate,
    /// Where its requests lie, first byte and end; `None` for anywhere.
    pub extent: Option<(u64, u64)>,
}

/// What all other streams may take. In any span l that is at most `reserved·l + latency_burst`,
/// the seeks back of batches that they interrupt included.
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

/// What a stream is granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Its cycle, asked for or chosen.
    pub cycle: Duration,
    /// What each cycle moves: rate × cycle, in whole sectors.
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slack {
    /// How fast it fills.
    pub rate: Share,
    /// What it holds at most.
    pub cap: Duration,
    /// What the batch that a piece goes ahead of needs to get back, at worst.
    pub seek_back: Duration,
}

/// The answer on a set that fits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// In the order of the demands.
    pub streams: Vec<Granted>,
    /// What neither they, nor others' reservations, nor the headroom take: by worst cases if a
    /// promise is deterministic.
    pub spare: Share,
    /// Time for best effort ahead of them.
    pub slack: Slack,
}

/// Why a set was not admitted. Streams are named by their place in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmissionError {
    /// The device's profile is none.
    Profile(ProfileError),
    /// Others' reservations and the headroom are more than the device.
    Overbooked {
        /// What others reserve.
        reserved: Share,
        /// What nobody gets.
        headroom: Share,
    },
    /// A rate of zero.
    ZeroRate {
        /// Which stream.
        stream: usize,
    },
    /// An extent that is empty or ends past the device.
    Extent {
        /// Which stream.
        stream: usize,
        /// Its extent.
        extent: (u64, u64),
        /// The device's size in bytes.
        size: u64,
    },
    /// A cycle that is out of range, or too short for one request.
    Cycle {
        /// Which stream.
        stream: usize,
        /// Its cycle.
        cycle: Duration,
        /// The shortest that can be: [`Rate::CYCLE_MIN`], or one worst positioning and request.
        min: Duration,
    },
    /// A rate above what its zone transfers without any positioning.
    AboveZone {
        /// Which stream.
        stream: usize,
        /// Its rate.
        bytes_per_second: u64,
        /// What the zone transfers.
        max: u64,
    },
    /// A probability of misses that is 0, or all.
    Miss {
        /// Which stream.
        stream: usize,
        /// The probability.
        miss: Share,
    },
    /// The first stream of the list that does not fit with those before it.
    Refused {
        /// Which stream.
        stream: usize,
        /// Its rate.
        bytes_per_second: u64,
        /// The largest rate with which the list would fit, all else unchanged; 0 if none would.
        largest: u64,
    },
}

/// A bound on response times that no piece size keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatencyError {
    /// The bound asked for.
    pub bound: Duration,
    /// The smallest that could be kept.
    pub smallest: Duration,
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
        batches.push(batch(profile, stream, demand, others)?);
    }
    // Without turns nobody knows which of its pieces is the last before another stream's.
    let flushed = batches.iter().any(|batch| batch.flush.is_some());
    let turns = TURNS.map(|turn| (turn.is_some() || !flushed).then_some(turn));
    let rooms = turns.map(|turn| {
        let turn = turn?;
        Some((room(&tests(profile, &batches, others, turn))?, turn))
    });
    // Of the last of equals: the shortest turn.
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
        let lower = batch(profile, stream, &Demand { rate, ..demands[stream] }, others);
        lower.is_ok_and(|lower| {
            batches[stream] = lower;
            fits(&batches)
        })
    });
    Err(AdmissionError::Refused { stream, bytes_per_second, largest })
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

/// What a flush takes after that many bytes in sequence, beside their transfer: it finds the head
/// somewhere among them. `None` without a write cache.
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

/// What a demand comes to in each of its cycles.
#[derive(Clone, Copy)]
struct Batch {
    kind: Admission,
    cycle: Duration,
    bytes: u64,
    /// To its extent from the farthest place.
    seek: Positioning,
    transfer: Duration,
    /// The transfer of one request.
    request: Duration,
    /// Of a turn that ends with a flush: what that takes beside the transfer.
    flush: Option<Positioning>,
    /// The most bytes before one.
    unflushed: u64,
}

/// Checks a demand by itself, and chooses its cycle.
fn batch(
    profile: &Profile,
    stream: usize,
    demand: &Demand,
    others: &Others,
) -> Result<Batch, AdmissionError> {
    let Demand { rate: Rate { bytes_per_second, cycle, admission, access }, extent } = *demand;
    if bytes_per_second == 0 {
        return Err(AdmissionError::ZeroRate { stream });
    }
    let size = profile.size();
    let extent = extent.unwrap_or((0, size));
    if extent.0 >= extent.1 || extent.1 > size {
        return Err(AdmissionError::Extent { stream, extent, size });
    }
    let zone = profile.transfer(extent, access);
    let request = zone.time(REQUEST, REQUEST);
    let second = u128::from(REQUEST) * 1_000_000_000;
    let max = second / u128::from(request.as_nanos().max(1));
    if u128::from(bytes_per_second) > max {
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        return Err(AdmissionError::AboveZone { stream, bytes_per_second, max });
    }
    if let Admission::Statistical { miss } = admission
        && (miss == Share::ZERO || miss == Share::FULL)
    {
        return Err(AdmissionError::Miss { stream, miss });
    }
    let seek = profile.positioning_to(extent);
    let of = |cycle: Duration| {
        let bytes = u128::from(bytes_per_second) * u128::from(cycle.as_nanos());
        let bytes = u64::try_from(bytes.div_ceil(1_000_000_000)).unwrap_or(u64::MAX - SECTOR);
        let bytes = bytes.div_ceil(SECTOR) * SECTOR;
        let transfer = zone.time(bytes, REQUEST);
        let flush = flush(profile, bytes).filter(|_| access != Access::Read);
        let unflushed = others.unflushed_bytes.filter(|_| flush.is_some()).unwrap_or(u64::MAX);
        Batch { kind: admission, cycle, bytes, seek, transfer, request, flush, unflushed }
    };
    let chosen = cycle.map_or_else(|| choose(of), of);
    let min = Rate::CYCLE_MIN.max(seek.worst + request);
    if chosen.cycle < min || chosen.cycle > Rate::CYCLE_MAX {
        return Err(AdmissionError::Cycle { stream, cycle: chosen.cycle, min });
    }
    Ok(chosen)
}

/// The shortest cycle that spends at most a tenth of its disk time on positioning, or the longest.
fn choose(of: impl Fn(Duration) -> Batch) -> Batch {
    let efficient = |batch: &Batch| {
        let seek = u128::from(match batch.kind {
            Admission::Statistical { .. } => batch.seek.mean.as_nanos(),
            Admission::Deterministic | Admission::BestEffort => batch.seek.worst.as_nanos(),
        });
        10 * seek <= seek + u128::from(batch.transfer.as_nanos())
    };
    let longest = of(CYCLES[CYCLES.len() - 1]);
    CYCLES.into_iter().map(of).find(efficient).unwrap_or(longest)
}

impl Batch {
    fn checked(&self) -> bool {
        self.kind != Admission::BestEffort
    }

    /// The bytes of a turn of that length, positioning included; `None` for no turns.
    fn turn(&self, turn: Option<Duration>) -> Option<u64> {
        let transfer = turn?.saturating_sub(self.seek.worst).as_nanos();
        let bytes = u128::from(self.bytes) * u128::from(transfer);
        let bytes = bytes / u128::from(self.transfer.as_nanos().max(1));
        Some(u64::try_from(bytes).unwrap_or(u64::MAX).max(REQUEST).min(self.unflushed))
    }

    /// What the seeks of one cycle take: one for each of its turns; without turns its own, and back
    /// to the farthest of the longer cycles.
    fn seeks(
        &self,
        all: &[Self],
        turn: Option<Duration>,
        of: impl Fn(&Positioning) -> u128,
    ) -> u128 {
        if let Some(bytes) = self.turn(turn) {
            let each = of(&self.seek) + self.flush.as_ref().map_or(0, &of);
            return each * u128::from(self.bytes.div_ceil(bytes).max(1));
        }
        let longer = all.iter().filter(|other| other.checked() && other.cycle > self.cycle);
        of(&self.seek) + longer.map(|other| of(&other.seek)).max().unwrap_or(0)
    }

    /// The longest that a stream of a shorter cycle waits for it: a turn, which may end within a
    /// request; without turns a request.
    fn in_the_way(&self, turn: Option<Duration>) -> u128 {
        let request = u128::from((self.seek_and_flush() + self.request).as_nanos());
        let Some(bytes) = self.turn(turn).filter(|_| self.checked()) else { return request };
        let transfer = u128::from(self.transfer.as_nanos());
        let part = transfer * u128::from(bytes.min(self.bytes)) / u128::from(self.bytes.max(1));
        request + part.min(transfer)
    }

    fn seek_and_flush(&self) -> Duration {
        self.seek.worst + self.flush.map_or(Duration::ZERO, |flush| flush.worst)
    }

    fn cost(&self, all: &[Self], turn: Option<Duration>, reckoned: Reckoned) -> u128 {
        let seeks = self.seeks(all, turn, |seek| match reckoned {
            Reckoned::Worst => seek.worst.as_nanos().into(),
            Reckoned::Mean => seek.mean.as_nanos().into(),
        });
        seeks + u128::from(self.transfer.as_nanos())
    }

    /// Cost by cycle in parts per million, rounded up; above the whole if it does not fit.
    fn parts(&self, all: &[Self], turn: Option<Duration>, reckoned: Reckoned) -> u128 {
        (self.cost(all, turn, reckoned) * PARTS).div_ceil(self.cycle.as_nanos().into())
    }

    fn allowance(&self, all: &[Self], turn: Option<Duration>) -> Duration {
        if turn.is_some() {
            return nanos(self.cost(all, turn, Reckoned::Worst));
        }
        let shorter = all.iter().filter(|other| other.checked() && other.cycle < self.cycle);
        let begin = |other: &Self| self.cycle.as_nanos().div_ceil(other.cycle.as_nanos());
        let seeks = 1 + shorter.map(|other| u128::from(begin(other))).sum::<u128>();
        nanos(seeks * u128::from(self.seek.worst.as_nanos()) + u128::from(self.transfer.as_nanos()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reckoned {
    Worst,
    Mean,
}

/// All streams of one cycle.
struct Step {
    cycle: u128,
    cost: u128,
    /// In square nanoseconds.
    variance: u128,
    /// The longest that one of a shorter cycle waits for it.
    in_the_way: u128,
}

/// The processor demand of a set, in nanoseconds.
struct Test {
    steps: Vec<Step>,
    /// Parts per million that are taken, reservations and headroom included.
    taken: u128,
    /// Of them, what others have.
    others: u128,
    /// How many thousandths of the deviation count.
    quantile: u128,
    burst: u128,
    /// The longest piece of other streams.
    blocking: u128,
    /// The shortest span that ends in a promise.
    from: u128,
}

/// What is left by every test.
struct Room {
    spare: u128,
    rate: u128,
    cap: u128,
}

/// The tests that a set must pass; of each the alternatives, one of which must hold.
fn tests(
    profile: &Profile,
    batches: &[Batch],
    others: &Others,
    turn: Option<Duration>,
) -> Vec<Vec<Test>> {
    let shortest = |kind: fn(&Batch) -> bool| {
        batches.iter().filter(|batch| kind(batch)).map(|batch| batch.cycle).min()
    };
    let mut all = Vec::new();
    if let Some(from) = shortest(|batch| batch.kind == Admission::Deterministic) {
        all.push(Vec::from([Test::new(profile, batches, others, turn, (Reckoned::Worst, from))]));
    }
    if let Some(from) = shortest(|batch| matches!(batch.kind, Admission::Statistical { .. })) {
        let test = |reckoned| Test::new(profile, batches, others, turn, (reckoned, from));
        all.push(Vec::from([test(Reckoned::Mean), test(Reckoned::Worst)]));
    }
    all
}

/// Of each test the alternative that holds; `None` if one has none.
fn passed(tests: &[Vec<Test>]) -> Option<Vec<&Test>> {
    let holds = |test: &&Test| test.margin(0).is_some();
    tests.iter().map(|alternatives| alternatives.iter().find(holds)).collect()
}

/// Chooses the slack's rate and cap; `None` if a test fails even without.
fn room(tests: &[Vec<Test>]) -> Option<Room> {
    let passed = passed(tests)?;
    let spare = passed.iter().map(|test| PARTS - test.taken).min().unwrap_or(PARTS);
    let mut rate = spare / 2;
    loop {
        let most = u128::from(Rate::CYCLE_MAX.as_nanos());
        let cap = passed.iter().try_fold(most, |cap, test| Some(cap.min(test.margin(rate)?)));
        if let Some(cap) = cap {
            return Some(Room { spare, rate, cap });
        }
        // Ends: without a rate all tests have passed above.
        rate /= 2;
    }
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

impl Test {
    fn new(
        profile: &Profile,
        batches: &[Batch],
        others: &Others,
        turn: Option<Duration>,
        (reckoned, from): (Reckoned, Duration),
    ) -> Self {
        let part = u128::from(others.reserved.ppm()) + u128::from(others.headroom.ppm());
        let mut test = Self {
            steps: Vec::new(),
            taken: part,
            others: part,
            quantile: 0,
            burst: others.latency_burst.as_nanos().into(),
            blocking: blocking(profile, others.blocking_bytes),
            from: from.as_nanos().into(),
        };
        for batch in batches {
            let in_the_way = batch.in_the_way(turn);
            if !batch.checked() {
                test.blocking = test.blocking.max(in_the_way);
                continue;
            }
            test.taken += batch.parts(batches, turn, reckoned);
            let cost = batch.cost(batches, turn, reckoned);
            let mut variance = 0;
            if reckoned == Reckoned::Mean {
                let square = |seek: &Positioning| {
                    // No more than the worst, which fits a cycle: squares of it can be added up.
                    u128::from(seek.deviation.min(seek.worst).as_nanos()).pow(2)
                };
                variance = batch.seeks(batches, turn, square);
            }
            if let (Admission::Statistical { miss }, Reckoned::Mean) = (batch.kind, reckoned) {
                test.quantile = test.quantile.max(quantile(miss));
            }
            test.add(Step { cycle: batch.cycle.as_nanos().into(), cost, variance, in_the_way });
        }
        test
    }

    fn add(&mut self, step: Step) {
        let Some(same) = self.steps.iter_mut().find(|it| it.cycle == step.cycle) else {
            return self.steps.push(step);
        };
        same.cost += step.cost;
        same.variance += step.variance;
        same.in_the_way = same.in_the_way.max(step.in_the_way);
    }

    /// What the demand leaves at least of any span from `self.from` on, when `rate` parts per
    /// million more are taken; `None` if it is more than some span.
    ///
    /// Spans at whose end cycles end are looked at one by one; between two of them demand grows
    /// slower than the span. The walk stops when the linear bound `floor(l/T)·C ≤ share·l` leaves
    /// as much as the least so far: what it leaves is convex in l and at most 0 at 0, so it leaves
    /// no less of any longer span. After [`SPANS_MAX`] spans the linear bound counts, which is
    /// sufficient but not necessary.
    fn margin(&self, rate: u128) -> Option<u128> {
        let free = PARTS.checked_sub(self.taken + rate)?;
        let mut span = self.from;
        let mut least = u128::MAX;
        let mut linear = None;
        for _ in 0..SPANS_MAX {
            let longer = self.steps.iter().filter(|step| step.cycle > span);
            let blocking = longer.map(|step| step.in_the_way).fold(self.blocking, u128::max);
            let (mut cost, mut variance, mut variance_bound) = (0, 0, 0u128);
            let mut next = u128::MAX;
            for step in &self.steps {
                let cycles = span / step.cycle;
                cost += cycles * step.cost;
                variance += cycles * step.variance;
                variance_bound += (cycles + 1) * step.variance;
                next = next.min((cycles + 1) * step.cycle);
            }
            let apart = ((self.others + rate) * span).div_ceil(PARTS);
            let fixed = self.burst + blocking;
            let used = apart + fixed + cost + self.spread(variance);
            least = least.min(span.checked_sub(used)?);
            linear = (free * span / PARTS).checked_sub(fixed + self.spread(variance_bound));
            if linear.is_some_and(|left| left >= least) {
                return Some(least);
            }
            span = next;
        }
        linear.map(|left| left.min(least))
    }

    /// How far the sum may go above its mean, rounded up.
    fn spread(&self, variance: u128) -> u128 {
        let root = variance.isqrt();
        let root = if root * root < variance { root + 1 } else { root };
        (root * self.quantile).div_ceil(1_000)
    }
}

/// How long a piece of the others can be in the way.
fn blocking(profile: &Profile, bytes: u64) -> u128 {
    if bytes == 0 {
        return 0;
    }
    // Behind what it finds in a write cache, or with what it puts there, which takes less.
    piece(profile, bytes, bytes) + u128::from(profile.destage.as_nanos())
}

/// How many thousandths of a deviation above the mean are reached with at most that probability:
/// those of the next lower one in the table.
fn quantile(miss: Share) -> u128 {
    let row = QUANTILES.iter().find(|(part, _)| *part <= miss.ppm());
    row.map_or(QUANTILES[QUANTILES.len() - 1].1, |(_, quantile)| *quantile)
}

fn nanos(nanos: u128) -> Duration {
    u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
}

fn share(parts: u128) -> Share {
    u32::try_from(parts).ok().and_then(Share::from_ppm).unwrap_or(Share::FULL)
}

impl AdmissionError {
    /// The same with the stream's name in place of its place in the list.
    #[must_use]
    pub fn renamed(mut self, name: impl Fn(usize) -> usize) -> Self {
        match &mut self {
            Self::Profile(_) | Self::Overbooked { .. } => {}
            Self::ZeroRate { stream }
            | Self::Extent { stream, .. }
            | Self::Cycle { stream, .. }
            | Self::AboveZone { stream, .. }
            | Self::Miss { stream, .. }
            | Self::Refused { stream, .. } => *stream = name(*stream),
        }
        self
    }
}

impl fmt::Display for AdmissionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Profile(error) => write!(f, "the device's profile: {error}"),
            Self::Overbooked { reserved, headroom } => {
                write!(f, "reservations of {reserved} and headroom of {headroom} are more than ")?;
                f.write_str("100% of the device: lower one")
            }
            Self::ZeroRate { stream } => {
                write!(f, "stream {stream}: rate = 0 B/s: it must be at least 1 B/s")
            }
            Self::Extent { stream, extent: (start, end), size } => {
                write!(f, "stream {stream}: extent = {start} to {end}: it must hold at least a ")?;
                write!(f, "byte and end within the device's {size} bytes")
            }
            Self::Cycle { stream, cycle, min } => {
                let max = Rate::CYCLE_MAX;
                write!(f, "stream {stream}: cycle = {cycle:?}: ")?;
                if min > max {
                    write!(
                        f,
                        "one request can take {min:?} here, more than the longest cycle of "
                    )?;
                    return write!(f, "{max:?}: ask for best-effort admission on a faster device");
                }
                write!(f, "it must be {min:?} (one worst seek and request, at least ")?;
                write!(f, "{:?}) to {max:?}: choose one in this range", Rate::CYCLE_MIN)
            }
            Self::AboveZone { stream, bytes_per_second, max } => {
                write!(
                    f,
                    "stream {stream}: rate = {bytes_per_second} B/s: its zone transfers at "
                )?;
                write!(f, "most {max} B/s: lower the rate, or place it in a faster zone")
            }
            Self::Miss { stream, miss } => {
                write!(f, "stream {stream}: miss = {miss}: it must be above 0% and below 100%: ")?;
                f.write_str("ask for deterministic or best-effort admission instead")
            }
            Self::Refused { stream, bytes_per_second, largest: 0 } => {
                write!(f, "stream {stream}: rate = {bytes_per_second} B/s: no rate fits beside ")?;
                f.write_str("the others: lower their rates or reservations, or the headroom")
            }
            Self::Refused { stream, bytes_per_second, largest } => {
                write!(
                    f,
                    "stream {stream}: rate = {bytes_per_second} B/s: 1 to {largest} B/s fit "
                )?;
                f.write_str("beside the others: lower it, or make its cycle longer")
            }
        }
    }
}

impl fmt::Display for LatencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, smallest } = self;
        write!(
            f,
            "latency = {bound:?}: it must be at least {smallest:?} on this device: raise it, "
        )?;
        f.write_str("or lower the depth or the size of its own requests")
    }
}

impl core::error::Error for AdmissionError {}
impl core::error::Error for LatencyError {}
