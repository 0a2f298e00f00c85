//! Admission: whether a set of contracts can be kept together, and what each stream is granted.

use alloc::vec::Vec;
use core::ops::{Add, Sub};

use super::Engine;
use super::error::{ChangeError, StreamError};
use super::guarantees::Flushes;
use crate::classes::admission::{
    self, AdmissionError, Admitted, Demand, DemandError, Granted, Others, REQUEST, Slack,
};
use crate::classes::cycle::Cycle;
use crate::classes::profile::Profile;
use crate::types::contract::{Admission, Class, Contract, Rate};
use crate::types::ids::StreamId;
use crate::types::ratio::scaled;
use crate::types::share::Share;
use crate::types::time::Duration;

/// Largest pieces while a rate is guaranteed: what can be in the way when a cycle begins. The first
/// with which all fit is taken, as larger ones cost others less.
const PIECES_BESIDE_RATES: [u64; 3] = [1 << 20, 256 << 10, REQUEST];
/// A proposal for admission: some contracts in place of those that hold now.
pub(super) struct Proposal<'a> {
    pub(super) contracts: &'a [(StreamId, Contract)],
    /// The extent and the parent of a stream that does not exist yet.
    pub(super) extent: Option<(u64, u64)>,
    pub(super) parent: Option<StreamId>,
    pub(super) headroom: Share,
    pub(super) depth: u32,
}

/// The contracts of all streams together, and what they are reckoned with.
pub(super) struct Contracts {
    pub(super) booked: Booked,
    /// The share of the device that admission keeps free.
    pub(super) headroom: Share,
    pub(super) period: Duration,
}

/// The sum of the demands in the contracts of all streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Booked {
    /// Reserved shares in parts per million, but for those that follow from rates.
    reserved_ppm: u64,
    /// Streams of guaranteed latency and guaranteed rate.
    guaranteed: u64,
}

impl Booked {
    /// Counts a contract, or counts it no more; a child's reservation is a part of its parent's.
    pub(super) fn count(
        &mut self,
        contract: &Contract,
        parent: Option<StreamId>,
        with: fn(u64, u64) -> u64,
    ) {
        let rate = contract.class == Class::GuaranteedRate;
        let reserved = if rate || parent.is_some() { 0 } else { contract.reserve.ppm() };
        let guaranteed = rate || contract.class == Class::GuaranteedLatency;
        self.reserved_ppm = with(self.reserved_ppm, reserved.into());
        self.guaranteed = with(self.guaranteed, guaranteed.into());
    }
}

/// A stream, what it wants, and where.
type Asking = (StreamId, Contract, Option<(u64, u64)>);

/// The answers of admission for all streams together.
#[derive(Default)]
pub(super) struct Plan {
    granted: Vec<Grant>,
    /// And the longest piece that may be taken ahead on it.
    slack: Option<(Slack, Duration)>,
    piece_max: u64,
    flushes: Flushes,
    /// Most disk time that guaranteed latency can take at once.
    latency_burst: Duration,
}

struct Grant {
    stream: StreamId,
    granted: Granted,
    /// Most disk time that a cycle may use ahead of others, with what comes in its way and makes it
    /// seek back; `None` if nothing is promised and so nothing was reckoned.
    allowance: Option<Duration>,
}

impl Engine {
    /// A proposal that changes no contract.
    pub(super) fn as_it_is(&self) -> Proposal<'static> {
        let (headroom, depth) = (self.contracts.headroom, self.limits.depth);
        Proposal { contracts: &[], extent: None, parent: None, headroom, depth }
    }

    /// Σ reserve ≤ 1 - headroom (zygaria §2.3), every rate kept beside them (ucsb §III-B), every
    /// latency bound within what can be in the way.
    pub(super) fn plan(&self, proposal: &Proposal<'_>) -> Result<Plan, ChangeError> {
        self.check_families(proposal)?;
        let booked = self.booked_with(proposal);
        let asked_ppm = booked.reserved_ppm;
        let available = Share::PARTS - proposal.headroom.ppm();
        if asked_ppm > u64::from(available) {
            let available = Share::from_ppm(available).expect("a part of the whole");
            return Err(ChangeError::Overbooked { asked_ppm, available });
        }
        if booked.guaranteed == 0 {
            // Nothing but shares, of maybe very many streams.
            return Ok(Plan { piece_max: u64::MAX, ..Plan::default() });
        }
        let all = self.proposed(proposal);
        let of = |class: Class| all.iter().filter(move |(_, it, _)| it.class == class);
        let rates: Vec<_> = of(Class::GuaranteedRate).collect();
        let bounds: Vec<_> = of(Class::GuaranteedLatency).collect();
        let ppm = |(_, it, _): &Asking| u64::from(it.reserve.ppm());
        let ahead_ppm = bounds.iter().map(|it| ppm(it)).sum::<u64>();
        let piece_max = self.piece_beside(&bounds, proposal.depth)?;
        let latency_burst = part(ahead_ppm, self.contracts.period);
        let flushes = self.flushes_for(&rates, &bounds);
        let plan = Plan { piece_max, flushes, latency_burst, ..Plan::default() };
        if rates.is_empty() {
            return Ok(plan);
        }
        let Some(profile) = &self.guarantees.profile else {
            let granted = rates.iter().map(|(id, contract, _)| unchecked(*id, *contract));
            let piece_max = piece_max.min(PIECES_BESIDE_RATES[0]);
            return Ok(Plan { granted: granted.collect::<Result<_, _>>()?, piece_max, ..plan });
        };
        let demand = |(id, it, extent): &&Asking| {
            let rate = it.rate.ok_or(StreamError::NoRate.of(*id))?;
            Ok(Demand { rate, extent: *extent })
        };
        let demands = rates.iter().map(demand).collect::<Result<Vec<_>, ChangeError>>()?;
        let bounded = !bounds.is_empty();
        let bounds = bounds.len() as u64;
        let beside = |piece_max: u64| {
            let piece = admission::latency_bound(profile, piece_max, piece_max, 0);
            // Guaranteed latency pays for the seeks back that it causes from its reservation; each
            // stream may overdraw that by a piece and a seek.
            let pieces = (u64::from(proposal.depth) - 1).saturating_add(2 * bounds);
            let pieces = Duration::from_nanos(piece.as_nanos().saturating_mul(pieces));
            let others = Others {
                reserved: share(asked_ppm),
                headroom: proposal.headroom,
                latency_burst: latency_burst + pieces,
                blocking_bytes: piece_max,
                unflushed_bytes: bounded.then_some(piece_max),
            };
            let admitted = admission::admit(profile, &demands, &others)?;
            Ok(Trial { admitted, others, piece, piece_max })
        };
        let name = |place: usize| rates[place].0;
        let trial = best(PIECES_BESIDE_RATES.map(|piece| beside(piece.min(piece_max))))
            .map_err(|error| ChangeError::Admission(error.renamed(name)))?;
        let interruptions = trial.interruptions(ahead_ppm);
        let granted = rates.iter().zip(&trial.admitted.streams).map(|((id, it, _), granted)| {
            let checked = it.rate.is_some_and(|rate| rate.admission != Admission::BestEffort);
            let allowance = checked.then(|| granted.allowance + interruptions);
            Grant { stream: *id, granted: *granted, allowance }
        });
        let slack = Some((trial.admitted.slack, trial.piece));
        let piece_max = trial.piece_max;
        Ok(Plan { granted: granted.collect(), slack, piece_max, flushes, latency_burst })
    }

    /// Decides which streams must leave a write cache empty.
    fn flushes_for(&self, rates: &[&Asking], bounds: &[&Asking]) -> Flushes {
        let cache = self.guarantees.profile.as_ref().is_some_and(Profile::has_write_cache);
        let kinds = || rates.iter().filter_map(|(_, it, _)| Some(it.rate?.admission));
        let all = !bounds.is_empty() || kinds().any(|it| it == Admission::Deterministic);
        if cache && all {
            Flushes::All
        } else if cache && kinds().any(|it| it != Admission::BestEffort) {
            Flushes::Rates
        } else {
            Flushes::None
        }
    }

    /// The demands of all streams, with these contracts in place of theirs.
    fn booked_with(&self, proposal: &Proposal<'_>) -> Booked {
        let mut booked = self.contracts.booked;
        for (id, contract) in proposal.contracts {
            let known = self.streams.get(*id).map(|stream| stream.spec);
            known.iter().for_each(|it| booked.count(&it.contract, it.parent, u64::sub));
            booked.count(contract, known.map_or(proposal.parent, |spec| spec.parent), u64::add);
        }
        booked
    }

    /// All streams as they would be, by id.
    fn proposed(&self, proposal: &Proposal<'_>) -> Vec<Asking> {
        let replaced = |id: StreamId| proposal.contracts.iter().any(|(other, _)| *other == id);
        let kept = self.streams.iter().filter(|stream| !replaced(stream.id));
        let kept = kept.map(|stream| (stream.id, stream.spec.contract, stream.spec.extent));
        let new = proposal.contracts.iter().map(|(id, contract)| {
            let known = self.streams.get(*id);
            let extent = known.map_or(proposal.extent, |stream| stream.spec.extent);
            (*id, *contract, extent)
        });
        let mut all: Vec<_> = kept.chain(new).collect();
        all.sort_unstable_by_key(|(id, ..)| *id);
        all
    }

    /// The largest piece beside streams with these bounds.
    fn piece_beside(&self, bounds: &[&Asking], depth: u32) -> Result<u64, ChangeError> {
        let mut piece_max = u64::MAX;
        for (stream, contract, _) in bounds {
            let bound = contract.latency.ok_or(StreamError::NoBound.of(*stream))?;
            let profile =
                self.guarantees.profile.as_ref().ok_or(StreamError::NoProfile.of(*stream))?;
            let piece = admission::largest_piece(profile, bound, REQUEST, depth)
                .map_err(|error| StreamError::Latency(error).of(*stream))?;
            piece_max = piece_max.min(piece);
        }
        Ok(piece_max)
    }

    /// Grants what was planned.
    pub(super) fn grant(&mut self, plan: &Plan) {
        let now = self.now;
        for Grant { stream: id, granted, allowance } in &plan.granted {
            let stream = &mut self.streams[*id];
            stream.grant_share(granted.share, self.contracts.period, now);
            let (cycle, bytes, allowance) = (granted.cycle, granted.bytes, *allowance);
            match &mut stream.cycle {
                Some(running) if running.is_of(cycle, bytes) => running.set_allowance(allowance),
                running => *running = Some(Cycle::new(cycle, bytes, allowance, now).into()),
            }
            stream.cycle.iter_mut().for_each(|cycle| cycle.turn = granted.turn);
            let ends = stream.cycle.as_ref().map(|cycle| cycle.ends);
            self.guarantees.follow_cycle(*id, ends);
            self.follow_promise(*id);
        }
        let allowances = plan.granted.iter().map(|it| it.allowance.unwrap_or(Duration::MAX));
        self.guarantees.ahead = allowances.fold(plan.latency_burst, |sum, it| sum + it);
        self.guarantees.set_slack(plan.slack, now);
        self.guarantees.flushes = plan.flushes;
        let before = core::mem::replace(&mut self.guarantees.piece_max, plan.piece_max);
        if before != plan.piece_max || !plan.granted.is_empty() {
            self.renew_heads();
        }
        self.follow_device();
    }
}

/// The answers of admission for one length of pieces.
struct Trial {
    admitted: Admitted,
    others: Others,
    /// The longest that a piece takes.
    piece: Duration,
    piece_max: u64,
}

impl Trial {
    /// Best effort can go ahead on slack.
    fn has_slack(&self) -> bool {
        let Slack { cap, seek_back, .. } = self.admitted.slack;
        cap > seek_back + self.piece
    }

    /// Time that others' interruptions may add to any stream's cycle.
    fn interruptions(&self, ahead_ppm: u64) -> Duration {
        let cycles = self.admitted.streams.iter().map(|granted| granted.cycle);
        let longest = cycles.max().unwrap_or(Duration::ZERO);
        let Slack { rate, cap, .. } = self.admitted.slack;
        let ahead = part(ahead_ppm + u64::from(rate.ppm()), longest);
        self.others.latency_burst + ahead + cap
    }
}

/// The first trial in which best effort can go ahead on slack, else the first in which all fit; or
/// why the last, of the smallest pieces, did not.
fn best<const N: usize>(
    trials: [Result<Trial, AdmissionError>; N],
) -> Result<Trial, AdmissionError> {
    let mut found: Option<Trial> = None;
    let mut refused = None;
    for trial in trials {
        match trial {
            Ok(trial) if trial.has_slack() => return Ok(trial),
            Ok(trial) => found = found.or(Some(trial)),
            Err(error) => refused = Some(error),
        }
    }
    found.ok_or_else(|| refused.expect("there are pieces to try"))
}

/// A best-effort rate without a profile: its cycle is what it says, or a second.
fn unchecked(stream: StreamId, contract: Contract) -> Result<Grant, ChangeError> {
    let rate = contract.rate.ok_or(StreamError::NoRate.of(stream))?;
    if rate.admission != Admission::BestEffort {
        return Err(StreamError::NoProfile.of(stream));
    }
    let cycle = rate.cycle.unwrap_or(Duration::from_secs(1));
    let (bytes, range) = (rate.bytes_per_second, Rate::CYCLE_MIN..=Rate::CYCLE_MAX);
    if bytes == 0 {
        return Err(ChangeError::Admission(DemandError::ZeroRate.of(stream)));
    }
    if !range.contains(&cycle) {
        let min = Rate::CYCLE_MIN;
        return Err(ChangeError::Admission(DemandError::Cycle { cycle, min }.of(stream)));
    }
    let bytes = scaled(bytes, cycle.as_nanos(), 1_000_000_000).max(1);
    let granted = Granted { cycle, bytes, turn: 0, allowance: Duration::MAX, share: Share::ZERO };
    Ok(Grant { stream, granted, allowance: None })
}

/// A part of a span of time.
fn part(ppm: u64, of: Duration) -> Duration {
    Duration::from_nanos(scaled(of.as_nanos(), ppm, Share::PARTS.into()))
}

pub(super) fn share(ppm: u64) -> Share {
    u32::try_from(ppm).ok().and_then(Share::from_ppm).unwrap_or(Share::FULL)
}
