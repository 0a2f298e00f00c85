//! Live changes: streams, contracts, depths. Each is checked whole, then made whole.

use alloc::collections::BTreeSet;
use core::ops::{Add, Sub};

use super::Engine;
use super::admit::Proposal;
use super::error::{ChangeError, StreamError};
use super::event::Event;
use crate::classes::admission::LatencyError;
use crate::classes::profile::Profile;
use crate::classes::stream::Stream;
use crate::types::contract::{Class, Contract, StreamSpec};
use crate::types::ids::StreamId;
use crate::types::share::Share;
use crate::types::time::{Duration, Instant};

/// A change while running; refused whole or done whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change<'a> {
    /// A new stream under a name not in use.
    AddStream(StreamId, StreamSpec),
    /// A stream without queued or in-flight requests goes.
    RemoveStream(StreamId),
    /// New contracts for several streams at once, admitted or refused together.
    SetContracts(&'a [(StreamId, Contract)]),
    /// How many pieces the device may hold.
    SetDepth(u32),
    /// How many pieces of one stream the device may hold.
    SetStreamDepth(StreamId, u32),
    /// Where on the device a stream's bytes lie, for admission: first byte and end.
    SetExtent(StreamId, Option<(u64, u64)>),
    /// Share of the device that admission keeps free.
    SetHeadroom(Share),
    /// The device's profile, for admission.
    SetProfile(&'a Profile),
    /// How long the scheduler may stay with one stream; for policies that have horizons.
    SetHorizon(Duration),
    /// The client says that a request came too late for it. Best effort is shaped in favour of
    /// soft real-time streams that say so, if [`crate::Config::feedback`] names a controller.
    MissedDeadline(StreamId),
    /// A stream has no client any more: what best effort gave up for its misses comes back at once.
    /// The state of the stream stays, so that a client that returns finds it as it was.
    NoClient(StreamId),
}

impl Engine {
    /// Something is to be different from now on.
    ///
    /// # Errors
    /// If it can't be: then nothing has changed.
    pub fn handle_change(&mut self, now: Instant, change: Change<'_>) -> Result<(), ChangeError> {
        self.observe(now);
        let changed = match change {
            Change::AddStream(id, spec) => self.add_stream(id, spec),
            Change::RemoveStream(id) => self.remove_stream(id),
            Change::SetContracts(contracts) => self.set_contracts(contracts),
            Change::SetDepth(depth) => self.set_depth(depth),
            Change::SetStreamDepth(id, depth) => self.set_stream_depth(id, depth),
            Change::SetExtent(id, extent) => self.set_extent(id, extent),
            Change::SetHeadroom(headroom) => self.set_headroom(headroom),
            Change::SetProfile(profile) => self.set_profile(profile),
            Change::SetHorizon(horizon) => {
                self.slices().into_iter().for_each(|slices| slices.set_horizon(horizon));
                self.promises.set_slice(horizon);
                Ok(())
            }
            Change::MissedDeadline(id) => self.missed_deadline(id),
            Change::NoClient(id) => self.no_client(id),
        };
        self.flush();
        if let Err(error) = changed {
            self.events.push(Event::Refused(error));
        }
        changed
    }

    fn add_stream(&mut self, id: StreamId, spec: StreamSpec) -> Result<(), ChangeError> {
        let streams_max = self.limits.streams_max;
        if id.0 >= streams_max {
            return Err(StreamError::OutOfRange { streams_max }.of(id));
        }
        if self.stream(id).is_some() {
            return Err(StreamError::InUse.of(id));
        }
        if spec.piece_bytes_max == 0 {
            return Err(StreamError::PieceBytes.of(id));
        }
        check_depth(spec.depth_max, u32::MAX)?;
        check_contract(id, spec.contract, self.least_latency())?;
        let contracts = &[(id, spec.contract)];
        let StreamSpec { extent, parent, .. } = spec;
        let plan = self.plan(&Proposal { contracts, extent, parent, ..self.as_it_is() })?;
        let mut stream = Stream::new(id, spec, self.contracts.period, self.now);
        stream.accounts.rests = parent.is_some();
        stream.set_contract(spec.contract, self.contracts.period, self.now);
        self.shaping.iter_mut().for_each(|shaping| shaping.declared(self.now, &stream));
        self.contracts.booked.count(&spec.contract, parent, u64::add);
        self.streams.get_or_insert_with(id, || stream);
        self.count_child(&spec, u32::add);
        self.grant(&plan);
        self.contract_holds(id)
    }

    fn remove_stream(&mut self, id: StreamId) -> Result<(), ChangeError> {
        let Stream { live, pieces, .. } = *self.find(id)?;
        if live > 0 || pieces > 0 {
            return Err(StreamError::Busy { live: live.max(1) }.of(id));
        }
        if self.families.contains_key(&id) {
            return Err(StreamError::HasChildren.of(id));
        }
        if self.device.hold.is_some_and(|hold| hold.stream == id) {
            self.release_hold();
        }
        if self.find(id)?.in_window.pieces > 0 {
            let end =
                if self.in_flight() > 0 { self.now } else { self.books.ledger.last_completion() };
            self.close_window(end);
        }
        let gone = self.streams.remove(id).expect("found above");
        self.contracts.booked.count(&gone.spec.contract, gone.spec.parent, u64::sub);
        self.count_child(&gone.spec, u32::sub);
        gone.spec.parent.into_iter().for_each(|parent| self.settle_family(parent));
        self.books.forget(&gone);
        self.guarantees.forget(id);
        self.device.stalls.forget(id);
        self.promises.forget(&gone);
        self.prices.forget(id);
        self.shaping.iter_mut().for_each(|shaping| shaping.forget(self.now, id));
        for policy in &mut self.policies {
            policy.removed(self.now, id);
        }
        self.books.slice = self.slices().and_then(|slices| slices.owner());
        Ok(())
    }

    fn set_contracts(&mut self, contracts: &[(StreamId, Contract)]) -> Result<(), ChangeError> {
        let mut named = BTreeSet::new();
        for (id, contract) in contracts {
            self.find(*id)?;
            check_contract(*id, *contract, self.least_latency())?;
            if !named.insert(*id) {
                return Err(StreamError::NamedTwice.of(*id));
            }
        }
        let plan = self.plan(&Proposal { contracts, ..self.as_it_is() })?;
        let (period, now) = (self.contracts.period, self.now);
        for (id, contract) in contracts {
            let stream = &mut self.streams[*id];
            let before = stream.spec;
            self.contracts.booked.count(&before.contract, before.parent, u64::sub);
            self.contracts.booked.count(contract, before.parent, u64::add);
            stream.set_contract(*contract, period, now);
            self.shaping.iter_mut().for_each(|shaping| shaping.declared(now, stream));
            if contract.class != Class::GuaranteedRate && stream.cycle.take().is_some() {
                self.guarantees.follow_cycle(*id, None);
            }
            self.count_child(&StreamSpec { contract: *contract, ..before }, u32::add);
            self.count_child(&before, u32::sub);
        }
        self.grant(&plan);
        contracts.iter().try_for_each(|(id, _)| self.contract_holds(*id))
    }

    /// The longest positioning of the device: whoever goes first, some requests take as long.
    fn least_latency(&self) -> Duration {
        let profile = self.guarantees.profile.as_ref();
        profile.map_or(Duration::ZERO, |profile| profile.positioning_within(u64::MAX).worst)
    }

    /// A stream's contract holds from now on.
    fn contract_holds(&mut self, id: StreamId) -> Result<(), ChangeError> {
        self.settle_family(id);
        self.follow_promise(id);
        self.gates.mark(id);
        let contract = self.find(id)?.spec.contract;
        self.events.push(Event::Admitted(id, contract));
        Ok(())
    }

    fn set_depth(&mut self, depth: u32) -> Result<(), ChangeError> {
        check_depth(depth, self.limits.depth_max)?;
        let plan = self.plan(&Proposal { depth, ..self.as_it_is() })?;
        self.limits.depth = depth;
        self.grant(&plan);
        Ok(())
    }

    fn set_stream_depth(&mut self, id: StreamId, depth: u32) -> Result<(), ChangeError> {
        check_depth(depth, u32::MAX)?;
        let (now, device_depth) = (self.now, self.limits.depth);
        let stream = self.find(id)?;
        if stream.held_by_own_depth(device_depth) {
            stream.wake(now);
        }
        stream.spec.depth_max = depth;
        self.gates.mark(id);
        Ok(())
    }

    fn set_extent(&mut self, id: StreamId, extent: Option<(u64, u64)>) -> Result<(), ChangeError> {
        let before = core::mem::replace(&mut self.find(id)?.spec.extent, extent);
        let planned = self.plan(&self.as_it_is());
        if planned.is_err() {
            self.find(id)?.spec.extent = before;
        }
        self.grant(&planned?);
        self.follow_promise(id);
        Ok(())
    }

    fn set_headroom(&mut self, headroom: Share) -> Result<(), ChangeError> {
        let plan = self.plan(&Proposal { headroom, ..self.as_it_is() })?;
        self.contracts.headroom = headroom;
        self.grant(&plan);
        Ok(())
    }

    fn set_profile(&mut self, profile: &Profile) -> Result<(), ChangeError> {
        profile.check().map_err(ChangeError::Profile)?;
        let before = self.guarantees.profile.replace(profile.clone());
        let planned = self.plan(&self.as_it_is());
        if planned.is_err() {
            self.guarantees.profile = before;
        }
        self.grant(&planned?);
        profile.prices.iter().for_each(|prices| self.prices.anchor(prices));
        Ok(())
    }

    fn missed_deadline(&mut self, id: StreamId) -> Result<(), ChangeError> {
        self.find(id)?;
        self.events.push(Event::MissedDeadline(id));
        self.report(id);
        self.gates.mark(id);
        Ok(())
    }

    fn no_client(&mut self, id: StreamId) -> Result<(), ChangeError> {
        self.find(id)?;
        self.shaping.iter_mut().for_each(|shaping| shaping.left(self.now, id));
        Ok(())
    }

    fn find(&mut self, id: StreamId) -> Result<&mut Stream, ChangeError> {
        self.streams.get_mut(id).ok_or(StreamError::Unknown.of(id))
    }
}

fn check_contract(id: StreamId, contract: Contract, least: Duration) -> Result<(), ChangeError> {
    let Contract { reserve, limit, weight, class, rate, latency } = contract;
    let bounds = [Class::GuaranteedLatency, Class::SoftRealTime, Class::BestEffort];
    let rated = class == Class::GuaranteedRate;
    // Guaranteed latency is refused by what is in its way, too.
    let guaranteed = class == Class::GuaranteedLatency;
    let bound = latency.filter(|_| !guaranteed).unwrap_or(Duration::MAX);
    let wrong = [
        (limit == Share::ZERO, StreamError::ZeroLimit),
        (rate.is_some() && !rated, StreamError::RateWithoutClass),
        (latency.is_some() && !bounds.contains(&class), StreamError::BoundWithoutClass),
        (bound < least, StreamError::Latency(LatencyError { bound, smallest: least })),
        (guaranteed && reserve == Share::ZERO, StreamError::BoundWithoutTime),
        (reserve > limit && !rated, StreamError::ReserveAboveLimit { reserve, limit }),
        (!(1..=Contract::WEIGHT_MAX).contains(&weight), StreamError::Weight { weight }),
    ];
    wrong.into_iter().find(|(is, _)| *is).map_or(Ok(()), |(_, error)| Err(error.of(id)))
}

fn check_depth(depth: u32, depth_max: u32) -> Result<(), ChangeError> {
    let fits = (1..=depth_max).contains(&depth);
    if fits { Ok(()) } else { Err(ChangeError::Depth { depth, depth_max }) }
}
