//! Families: a parent stream and its children, whose limits and reservations hold together.
//!
//! A family has one reservation at the device: the parent's. A child's is a part of it, and the parent's own
//! requests have the rest. A member that has had nothing to do for [`REST`] lends its part: the best-effort
//! members that have work share what is lent by weight, each up to its limit. The parent's weight is divided
//! among the members that have work, too. A member takes its part back with its next request, and what it had
//! saved up. The parent's limit holds for all members together.
//!
//! A change takes a time in proportion to the members that have work, never to the streams.
//!
//! Does not know: policies, which see a member's part as its contract.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Engine;
use super::admit::{Proposal, share};
use super::error::{ChangeError, StreamError};
use crate::classes::stream::Stream;
use crate::types::contract::{Class, StreamSpec};
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::time::{Duration, Instant};

/// How often a family's members are looked at: a member lends if it had nothing to do at two looks, and no request
/// between them. Policy `disktime` takes a stream as idle after as long.
const REST: Duration = Duration::from_millis(20);

/// The families of a device's streams, by parent.
pub(super) type Families = BTreeMap<StreamId, Family>;

/// A parent and its children.
#[derive(Default)]
pub(super) struct Family {
    children: u32,
    /// The sum of their reservations, in parts per million.
    reserved: u32,
    /// The members that do not rest, each with the number of requests that had arrived when it was idle at the
    /// last look; [`BUSY`] if it was not.
    working: Vec<(StreamId, u64)>,
    looked_at: Instant,
    /// The parent's limit holds the members back.
    shut: bool,
}

const BUSY: u64 = u64::MAX;

impl Engine {
    /// The parent of a stream's family, if it is in one.
    fn family(&self, id: StreamId) -> Option<StreamId> {
        if self.families.is_empty() {
            return None;
        }
        let stream = self.streams.get(id)?;
        let parent = stream.spec.parent.unwrap_or(id);
        self.families.contains_key(&parent).then_some(parent)
    }

    /// Σ children's reserve ≤ the parent's, in each family that the proposal concerns.
    pub(super) fn check_families(&self, proposal: &Proposal<'_>) -> Result<(), ChangeError> {
        let mut sums = BTreeMap::new();
        for (id, contract) in proposal.contracts {
            let known = self.streams.get(*id).map(|stream| stream.spec);
            let parent = known.map_or(proposal.parent, |spec| spec.parent);
            let Some(head) = parent.or_else(|| self.family(*id)) else { continue };
            let spec = self.streams.get(head).map(|it| it.spec).filter(|it| it.parent.is_none());
            let spec = spec.ok_or(ChangeError::Parent { stream: *id, parent: head })?;
            if [contract.class, spec.contract.class].contains(&Class::GuaranteedRate) {
                return Err(StreamError::RateInFamily.of(*id));
            }
            let reserved = self.families.get(&head).map_or(0, |it| it.reserved);
            let sum = sums.entry(head).or_insert((reserved, spec.contract.reserve));
            let before = known.map_or(0, |spec| spec.contract.reserve.ppm());
            match parent {
                None => sum.1 = contract.reserve,
                Some(_) => sum.0 = sum.0 - before + contract.reserve.ppm(),
            }
        }
        let over = sums.into_iter().find(|(_, (asked_ppm, reserve))| *asked_ppm > reserve.ppm());
        over.map_or(Ok(()), |(head, (asked_ppm, reserve))| {
            Err(StreamError::Children { asked_ppm, reserve }.of(head))
        })
    }

    /// A child's contract counts in its family, or no more.
    pub(super) fn count_child(&mut self, of: &StreamSpec, with: fn(u32, u32) -> u32) {
        let Some(head) = of.parent else { return };
        let new = || Family { working: Vec::from([(head, BUSY)]), ..Family::default() };
        let family = self.families.entry(head).or_insert_with(new);
        family.children = with(family.children, 1);
        family.reserved = with(family.reserved, of.contract.reserve.ppm());
        family.working.retain(|(id, _)| self.streams.get(*id).is_some());
        if family.children == 0 {
            self.families.remove(&head);
            self.gates.mark(head);
            let parent = &mut self.streams[head];
            parent.accounts.rests = false;
            parent.set_contract(parent.spec.contract, self.contracts.period, self.now);
        }
    }

    /// A member's contract is another, or a parent's children are.
    pub(super) fn settle_family(&mut self, id: StreamId) {
        let Some(head) = self.family(id) else { return };
        let reserved = self.families.get(&head).map_or(0, |family| family.reserved);
        let parent = &mut self.streams[head];
        parent.accounts.own = share((parent.spec.contract.reserve.ppm() - reserved).into());
        self.share_out(head);
        self.follow_promise(head);
    }

    /// Shares out what is reserved for a family among the members that have work.
    fn share_out(&mut self, head: StreamId) {
        let Some(family) = self.families.get(&head) else { return };
        let contract = self.streams[head].spec.contract;
        let (mut free, mut weights, mut members) = (contract.reserve.ppm(), 0, Vec::new());
        for (id, _) in &family.working {
            let stream = &self.streams[*id];
            let own = stream.accounts.own.ppm();
            let most =
                if stream.home() == Rank::Best { stream.spec.contract.limit.ppm() } else { own };
            let weight = stream.spec.contract.weight;
            members.push((u64::from(most - own), u64::from(weight), *id));
            (free, weights) = (free - own, weights + u64::from(weight));
        }
        // First those that reach their limits first: what these leave is the others'.
        members.sort_unstable_by_key(|(room, weight, id)| (room * 10_000 / weight, *id));
        let (mut free, all) = (u64::from(free), weights);
        for (room, weight, id) in members {
            let more = (free * weight / weights).min(room);
            (free, weights) = (free - more, weights - weight);
            let weight = (u64::from(contract.weight) * weight / all).max(1);
            let weight = u32::try_from(weight).expect("a part of a weight");
            let stream = &mut self.streams[id];
            let reserve = share(u64::from(stream.accounts.own.ppm()) + more);
            stream.serve_by(reserve, weight, self.contracts.period, self.now);
            self.gates.mark(id);
        }
    }

    /// A stream has work, or is charged for some: it lends its part no more.
    pub(super) fn take_part(&mut self, id: StreamId) {
        let Some(head) = self.family(id) else { return };
        if !core::mem::take(&mut self.streams[id].accounts.rests) {
            return;
        }
        self.families.entry(head).or_default().working.push((id, BUSY));
        self.share_out(head);
    }

    /// A stream has less to do: members of its family that rest lend their parts from now on.
    pub(super) fn look_at_family(&mut self, id: StreamId) {
        let Some(head) = self.family(id) else { return };
        let family = self.families.get_mut(&head);
        let Some(family) = family.filter(|it| self.now.since(it.looked_at) >= REST) else { return };
        family.looked_at = self.now;
        let before = family.working.len();
        family.working.retain_mut(|(id, idle_at)| {
            let stream = &mut self.streams[*id];
            let settled = stream.accounts.pending == 0 && stream.in_window.pieces == 0;
            let arrived = if stream.live == 0 && settled { stream.counters.arrived } else { BUSY };
            let rests = core::mem::replace(idle_at, arrived) == arrived && arrived != BUSY;
            if rests {
                stream.accounts.rests = true;
                stream.lend(self.now);
                self.gates.mark(*id);
            }
            !rests
        });
        if family.working.len() < before {
            self.share_out(head);
        }
    }

    /// A stream has used so much, or gets some of it back: the limit of its parent counts that, too.
    pub(super) fn used_in_family(&mut self, id: StreamId, tokens: i64) {
        let Some(head) = self.family(id) else { return };
        let parent = &mut self.streams[head];
        if head != id {
            parent.accounts.limit.take(tokens, self.now);
        }
        let shut = parent.accounts.limit.has_time(self.now).is_err();
        let Some(family) = self.families.get_mut(&head) else { return };
        if core::mem::replace(&mut family.shut, shut) || shut {
            let others = family.working.iter().filter(|(member, _)| *member != id);
            others.for_each(|(member, _)| self.gates.mark(*member));
        }
    }

    /// When its limit and its parent's let a stream go, in ns, if they hold it back now. The parent's holds no
    /// member back that has reserved time left: others have used up what the limit leaves beside that.
    pub(super) fn held_back(&mut self, id: StreamId) -> Option<i64> {
        let own = self.streams[id].accounts.limit.has_time(self.now).err();
        let Some(head) = self.family(id) else { return own };
        let Err(opens) = self.streams[head].accounts.limit.has_time(self.now) else { return own };
        let reserved = self.streams[id].has_reserved_time(self.now).err();
        let until = reserved.map(|at| at.min(opens));
        if head == id { until } else { own.max(until) }
    }

    /// Checks the sums of all families.
    pub(super) fn assert_families(&self) {
        for (head, family) in &self.families {
            let of_family = |it: &&Stream| it.id == *head || it.spec.parent == Some(*head);
            let members = || self.streams.iter().filter(of_family);
            let served = members().map(|it| it.accounts.reserve.rate().ppm()).sum::<u32>();
            let own = members().map(|it| it.accounts.own.ppm()).sum::<u32>();
            let reserved = self.streams[*head].spec.contract.reserve.ppm();
            assert!(served <= reserved, "the family of {head} is served by more than it reserves");
            assert_eq!(own, reserved, "the parts of the family of {head} are its reservation");
            let working = members().filter(|it| !it.accounts.rests).count();
            assert_eq!(working, family.working.len(), "members of {head} that work are known");
        }
    }
}
