//! From measurements to a profile.

use super::found::{Found, Rate, Seek};
use super::places::{float, whole};
use super::rotation::{self, Turn};
use super::seeks::{Measured, SHORT_BYTES_MAX};
use super::streams::Place;
use crate::asked::{BLOCK_BYTES, ProfilerError};
use crate::{places, segments};
use disktime_core::{Access, Duration, Kind, Positioning, Profile, Transfer, Zone};

/// Relative noise of rates that no fewer differ by.
const RATE_NOISE_MIN: f64 = 0.003;
/// Times of requests of two sizes that are this near to proportional are: no time per request.
const PROPORTIONAL: f64 = 0.02;
/// Added to the longest positioning there can be: this part of it, and this much.
const MARGIN: f64 = 0.02;
const MARGIN_NS: f64 = 200e3;
/// A device that doesn't rotate shows no bound: the longest positioning times this is taken.
const UNBOUNDED: f64 = 2.0;
/// A request that takes less than this part of the nearest positioning was in a buffer.
const POSITIONED: f64 = 0.5;
/// Writes that take less than this part of a read's time are taken into a buffer.
const BUFFERED: f64 = 0.6;

/// All that was measured.
pub(super) struct Raw<'a> {
    pub(super) name: &'a str,
    pub(super) size: u64,
    pub(super) writes: bool,
    pub(super) turn: Option<Turn>,
    pub(super) places: &'a [Place],
    pub(super) seeks: &'a [Measured],
    pub(super) requests: u64,
    pub(super) took: Duration,
}

pub(super) fn found(raw: &Raw<'_>) -> Result<Found, ProfilerError> {
    let zones = zones(raw);
    if zones.is_empty() {
        return Err(ProfilerError::Nothing { missing: "rates" });
    }
    let profile = Profile { zones, positioning: Vec::new(), destage: Duration::ZERO, prices: None };
    let transfer_ns = |from: u64| block_ns(&profile, from);
    let nearest = raw.seeks.iter().filter(|seek| seek.distance == BLOCK_BYTES);
    let nearest = places::median(nearest.map(|seek| seek.least_ns).collect()).unwrap_or(0.0);
    // A distance's doubtful places count only if it has no other.
    let surer = |seek: &Measured| {
        let same = |other: &Measured| {
            other.kind == Kind::Read && other.distance == seek.distance && other.confirmed
        };
        seek.confirmed || !raw.seeks.iter().any(same)
    };
    let of_reads = raw.seeks.iter().filter(|seek| {
        let positioned = raw.turn.is_none() || seek.least_ns >= POSITIONED * nearest;
        seek.kind == Kind::Read && positioned && surer(seek)
    });
    let mut seeks: Vec<Seek> = of_reads
        .map(|seek| Seek {
            distance: seek.distance,
            from: seek.from,
            time: nanos(seek.least_ns - transfer_ns(seek.from)),
            samples: seek.samples,
        })
        .collect();
    seeks.sort_by_key(|seek| (seek.distance, seek.from));
    let nearest = seeks.iter().filter(|seek| seek.distance == BLOCK_BYTES);
    let overhead = nearest.map(|seek| seek.time).min().unwrap_or(Duration::ZERO);
    let positioning = positioning(raw, &profile, &seeks);
    if positioning.is_empty() {
        return Err(ProfilerError::Nothing { missing: "seeks" });
    }
    Ok(Found {
        name: raw.name.to_owned(),
        profile: Profile { destage: destage(raw, &positioning), positioning, ..profile },
        rotation: raw.turn.map(|turn| nanos(turn.period_ns)),
        overhead,
        writes: raw.writes,
        seeks,
        rates: raw.places.iter().filter_map(rate_at).collect(),
        speeds: None,
        requests: raw.requests,
        took: raw.took,
    })
}

/// Places of one level, and where the level changes: the slower zone has what lies between two places.
fn zones(raw: &Raw<'_>) -> Vec<Zone> {
    let places: Vec<(&Place, f64)> = raw
        .places
        .iter()
        .filter_map(|place| Some((place, float(rate_at(place)?.bytes_per_second))))
        .collect();
    let fastest = places.iter().map(|place| place.1).fold(0.0, f64::max);
    let rates: Vec<f64> = places.iter().map(|place| place.1 / fastest).collect();
    let ends = segments::cut(&rates, RATE_NOISE_MIN);
    let mut begin = 0;
    let mut zones: Vec<Zone> = Vec::new();
    for end in ends {
        let of_zone: Vec<&Place> = places[begin..end].iter().map(|place| place.0).collect();
        begin = end;
        let Some(read) = transfer(&of_zone, Kind::Read) else { continue };
        let write = raw.writes.then(|| transfer(&of_zone, Kind::Write)).flatten().unwrap_or(read);
        let bound = match (places.get(end - 1), places.get(end)) {
            (Some((last, rate)), Some((next, next_rate))) => {
                if next_rate < rate {
                    last.end
                } else {
                    next.offset
                }
            }
            _ => raw.size,
        };
        zones.push(Zone { end: bound, read, write });
    }
    if let Some(last) = zones.last_mut() {
        last.end = raw.size;
    }
    zones
}

fn rate_at(place: &Place) -> Option<Rate> {
    let timed = place.timed.iter().filter(|timed| timed.kind == Kind::Read);
    let timed = timed.max_by_key(|timed| timed.bytes)?;
    let bytes = float(timed.bytes) * f64::from(timed.requests);
    let bytes_per_second = whole(bytes / timed.ns.max(1.0) * 1e9).max(1);
    Some(Rate { offset: place.offset, bytes_per_second })
}

/// `per_request + bytes / rate` through the means of the two larger sizes; what smaller requests take
/// beyond that is theirs.
fn transfer(places: &[&Place], kind: Kind) -> Option<Transfer> {
    let mut sizes: Vec<u64> = Vec::new();
    let timed = || places.iter().flat_map(|place| &place.timed).filter(|timed| timed.kind == kind);
    sizes.extend(timed().map(|timed| timed.bytes));
    sizes.sort_unstable();
    sizes.dedup();
    let mean = |size: u64| {
        let of_size = timed().filter(|timed| timed.bytes == size);
        let (ns, requests) = of_size.fold((0.0, 0.0), |(ns, requests), timed| {
            (ns + timed.ns, requests + f64::from(timed.requests))
        });
        (float(size), ns / requests)
    };
    let means: Vec<(f64, f64)> = sizes.into_iter().map(mean).collect();
    let (large, large_ns) = *means.last()?;
    let mut rate = large / large_ns;
    let mut per_request = 0.0_f64;
    if let Some((small, small_ns)) = means.len().checked_sub(2).and_then(|index| means.get(index)) {
        let excess = small_ns - small / rate;
        if excess > PROPORTIONAL * small_ns && large_ns > *small_ns {
            rate = (large - small) / (large_ns - small_ns);
            per_request = (small_ns - small / rate).max(0.0);
        }
    }
    for (bytes, ns) in &means {
        let excess = ns - bytes / rate;
        if excess > PROPORTIONAL * ns {
            per_request = per_request.max(excess);
        }
    }
    let bytes_per_second = whole(rate * 1e9).max(1);
    Some(Transfer { per_request: nanos(per_request), bytes_per_second })
}

/// Longest to shortest is not assumed: each distance holds for all below it.
fn positioning(raw: &Raw<'_>, profile: &Profile, seeks: &[Seek]) -> Vec<Positioning> {
    let mut distances: Vec<u64> = seeks.iter().map(|seek| seek.distance).collect();
    distances.dedup();
    let at = |distance: u64| seeks.iter().filter(move |seek| seek.distance == distance);
    // Reading ahead may have carried the head as far as a short distance; and a distance in bytes is
    // a cylinder more or less: the next longer one's bounds it.
    let slowest = |index: usize| {
        let next = distances.get(index + 1).or(distances.last()).copied().unwrap_or(0);
        let reach = next.max(2 * SHORT_BYTES_MAX);
        let within = seeks.iter().filter(move |seek| seek.distance <= reach);
        within.map(|seek| seek.time.as_nanos()).max().map_or(0.0, float)
    };
    let extra = switch_ns(raw, profile) + settle_ns(raw);
    let longest_seen = |distance: u64| {
        let within = raw.seeks.iter().filter(move |seek| seek.distance <= distance);
        within.map(|seek| seek.longest_ns).fold(0.0, f64::max)
    };
    let mut list: Vec<Positioning> = Vec::new();
    for (index, &distance) in distances.iter().enumerate() {
        let times: Vec<f64> = at(distance).map(|seek| float(seek.time.as_nanos())).collect();
        let count = float(times.len() as u64);
        let mean = times.iter().sum::<f64>() / count;
        let between = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
        let (mean, variance, worst) = match raw.turn {
            // A wait is spread evenly over a revolution: T/2 on average, T²/12 around it.
            Some(Turn { period_ns, .. }) => {
                let worst = slowest(index) + period_ns + extra;
                let worst = worst * (1.0 + MARGIN) + MARGIN_NS;
                (mean + period_ns / 2.0, between + period_ns * period_ns / 12.0, worst)
            }
            None => {
                let within = raw.seeks.iter().filter(|seek| seek.distance == distance);
                let within = within.map(|seek| seek.deviation_ns.powi(2)).fold(0.0, f64::max);
                let next = distances.get(index + 1).copied().unwrap_or(distance);
                (mean, between + within, UNBOUNDED * longest_seen(next) + MARGIN_NS)
            }
        };
        let longest = list.last().map_or(Duration::ZERO, |last| last.worst);
        list.push(Positioning {
            distance,
            mean: nanos(mean),
            deviation: nanos(variance.sqrt()),
            worst: nanos(worst.max(mean)).max(longest),
        });
    }
    list
}

/// By how much a single request in sequence was longer than its transfer: switching heads and
/// cylinders, which a request at random may have to do as well.
///
/// A time longer than any skew is left out: a revolution lost where a zone ends, or a disturbance.
/// So a request that lies across a zone's end may take up to a revolution longer than `worst`.
fn switch_ns(raw: &Raw<'_>, profile: &Profile) -> f64 {
    let longest = raw.turn.map_or(f64::INFINITY, |turn| turn.period_ns * rotation::SKEWS.end);
    let of_places = raw.places.iter().flat_map(|place| {
        let read = profile.transfer((place.offset, place.offset + 1), Access::Read);
        let reads = place.timed.iter().filter(|timed| timed.kind == Kind::Read);
        reads.map(move |timed| timed.ns_max - float(read.time(timed.bytes, timed.bytes).as_nanos()))
    });
    let skew = raw.turn.map_or(0.0, |turn| turn.skew_ns);
    of_places.filter(|excess| *excess <= longest).fold(skew, f64::max)
}

/// By how much writes position longer than reads.
fn settle_ns(raw: &Raw<'_>) -> f64 {
    if !raw.writes {
        return float(Found::WRITE_SETTLE_ALLOWANCE.as_nanos());
    }
    pairs(raw).map(|(write, read)| write - read).fold(0.0, f64::max)
}

/// The longest wait for a write cache: a disk brings a track's worth to the medium at a time, which
/// takes positioning and at most a revolution, and looks at new requests only then.
fn destage(raw: &Raw<'_>, positioning: &[Positioning]) -> Duration {
    let worst = positioning.iter().map(|at| at.worst).max().unwrap_or(Duration::ZERO);
    let turn = raw.turn.filter(|_| is_buffered(raw));
    turn.map_or(Duration::ZERO, |turn| worst + nanos(turn.period_ns))
}

/// Whether writes are answered before they are on the medium.
fn is_buffered(raw: &Raw<'_>) -> bool {
    let (faster, all) = pairs(raw).fold((0, 0), |(faster, all), (write, read)| {
        (faster + u32::from(write < BUFFERED * read), all + 1)
    });
    raw.writes && faster * 2 > all
}

/// The times of a write and a read at the same place and distance.
fn pairs<'a>(raw: &'a Raw<'_>) -> impl Iterator<Item = (f64, f64)> + 'a {
    let writes = raw.seeks.iter().filter(|seek| seek.kind == Kind::Write);
    writes.filter_map(|write| {
        let same = |read: &&Measured| {
            read.kind == Kind::Read && (read.distance, read.from) == (write.distance, write.from)
        };
        raw.seeks.iter().find(same).map(|read| (write.least_ns, read.least_ns))
    })
}

fn block_ns(profile: &Profile, from: u64) -> f64 {
    let transfer = profile.transfer((from, from + 1), Access::Read);
    float(
        Transfer { per_request: Duration::ZERO, ..transfer }
            .time(BLOCK_BYTES, BLOCK_BYTES)
            .as_nanos(),
    )
}

fn nanos(value: f64) -> Duration {
    Duration::from_nanos(whole(value))
}
