//! Virtual disks that come, go and change while the shard runs.

use std::sync::atomic::Ordering;

use disktime_core::{Cancel, Change, Contract, RequestId, StreamId};

use super::carrier::ToCarrier;
use super::vdisks::{Answer, NewVdisk, Removal, VdiskError, VdiskId};
use super::{DRAIN, Operation, Shard, name};
use crate::clock;
use crate::frontend::request::BlockError;

impl Shard {
    /// Serves another virtual disk from now on.
    pub(super) fn add_vdisk(&mut self, new: NewVdisk) {
        let answer = new.answer.clone();
        let name = new.vdisk.name.clone();
        let added = self.try_add(new);
        match &added {
            Ok(()) => tracing::info!(vdisk = name, "added"),
            Err(error) => tracing::warn!(vdisk = name, %error, "not added"),
        }
        tell(&answer, added);
    }

    fn try_add(&mut self, new: NewVdisk) -> Result<(), VdiskError> {
        let NewVdisk { id, vdisk, bytes, file, parent, mut spec, .. } = new;
        spec.parent = parent.map(|parent| self.vdisks.find(parent)).transpose()?;
        if self.turns.drain_until.is_some() {
            return Err(VdiskError::Ends);
        }
        if self.vdisks.knows(id) {
            return Err(VdiskError::InUse(id));
        }
        let (stream, contract) = (self.vdisks.next_stream(), spec.contract);
        let bounded = contract.latency.is_some() || self.vdisks.has_bound();
        spec.piece_bytes_max =
            spec.piece_bytes_max.min(self.device.piece_max.beside(bounded).into());
        let extent = vdisk.base..vdisk.base.saturating_add(bytes);
        let back_end = &mut self.device.back_end;
        let added = match file {
            Some(file) => back_end.add_file(stream.0, bytes, file),
            None => back_end.add_disk(stream.0, extent),
        };
        added.map_err(VdiskError::BackEnd)?;
        let change = Change::AddStream(stream, spec);
        if let Err(refusal) = self.engine.handle_change(clock::now(), change) {
            self.device.back_end.remove_disk(stream.0);
            return Err(self.vdisks.refused(refusal, Some(&vdisk.name)));
        }
        self.device.flushes.add(stream.0, self.device.back_end.medium(stream.0));
        if let Some(depths) = &mut self.depths {
            depths.add(stream, contract.weight);
        }
        self.vdisks.add(Some(id), vdisk);
        self.agreed(&[(stream, contract)]);
        Ok(())
    }

    /// Holds contracts from now on: all of them or none.
    pub(super) fn set_contracts(&mut self, contracts: &[(VdiskId, Contract)], answer: &Answer) {
        let set = self.try_set(contracts);
        if let Err(error) = &set {
            // The caller is told.
            tracing::debug!(%error, "contracts were not changed");
        }
        tell(answer, set);
    }

    fn try_set(&mut self, contracts: &[(VdiskId, Contract)]) -> Result<(), VdiskError> {
        let stream = |(id, contract): &(VdiskId, Contract)| Ok((self.vdisks.find(*id)?, *contract));
        let contracts = contracts.iter().map(stream).collect::<Result<Vec<_>, _>>()?;
        let change = Change::SetContracts(&contracts);
        let set = self.engine.handle_change(clock::now(), change);
        set.map_err(|error| self.vdisks.refused(error, None))?;
        if let Some(depths) = &mut self.depths {
            contracts.iter().for_each(|(stream, contract)| depths.weigh(*stream, contract.weight));
        }
        self.agreed(&contracts);
        Ok(())
    }

    /// Serves more of a virtual disk to clients that connect from now on.
    pub(super) fn grow_vdisk(
        &mut self,
        id: VdiskId,
        size: (u64, Option<(u64, u64)>),
        answer: &Answer,
    ) {
        let grown = self.try_grow(id, size);
        if let Err(error) = &grown {
            tracing::error!(%error, "a virtual disk did not grow");
        }
        tell(answer, grown);
    }

    /// Serves less of a virtual disk, if no client has it.
    pub(super) fn shrink_vdisk(
        &mut self,
        id: VdiskId,
        size: (u64, Option<(u64, u64)>),
        answer: &Answer,
    ) {
        let unused = self.vdisks.find(id).and_then(|stream| {
            let vdisk = &self.vdisks[stream.0 as usize];
            let seats = vdisk.stats.connections();
            let clients = seats.max(vdisk.clients.into());
            if clients > 0 { Err(VdiskError::Connected(clients)) } else { Ok(()) }
        });
        tell(answer, unused.and_then(|()| self.try_grow(id, size)));
    }

    /// Has a virtual disk be logged under another name.
    pub(super) fn rename_vdisk(&mut self, id: VdiskId, name: String) {
        if let Ok(stream) = self.vdisks.find(id) {
            let vdisk = &mut self.vdisks[stream.0 as usize];
            let before = std::mem::replace(&mut vdisk.name, name);
            tracing::info!(vdisk = vdisk.name, before, "renamed");
        }
    }

    /// Has a virtual disk be so large, and lie there.
    fn try_grow(
        &mut self,
        id: VdiskId,
        (bytes, extent): (u64, Option<(u64, u64)>),
    ) -> Result<(), VdiskError> {
        let stream = self.vdisks.find(id)?;
        let change = Change::SetExtent(stream, extent);
        let set = self.engine.handle_change(clock::now(), change);
        set.map_err(|error| self.vdisks.refused(error, None))?;
        self.device.back_end.grow_disk(stream.0, bytes).map_err(VdiskError::BackEnd)?;
        let vdisk = &mut self.vdisks[stream.0 as usize];
        vdisk.bitmaps.iter_mut().for_each(|bitmap| bitmap.grow(bytes));
        vdisk.stats.size.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Notes what contracts that the engine has admitted say of the shard's own work.
    pub(super) fn agreed(&mut self, contracts: &[(StreamId, Contract)]) {
        contracts.iter().for_each(|(stream, contract)| self.vdisks.agree(*stream, contract));
    }

    /// Serves a virtual disk no longer. Requests that the device has not begun are refused, those that
    /// it has begun end, and each client is let go once its replies are sent; after [`DRAIN`] it is
    /// let go all the same.
    pub(super) fn remove_vdisk(&mut self, id: VdiskId, answer: Answer) {
        let stream = match self.vdisks.find(id) {
            Ok(stream) => stream,
            Err(error) => return tell(&answer, Err(error)),
        };
        let vdisk = &mut self.vdisks[stream.0 as usize];
        tracing::info!(vdisk = vdisk.name, clients = vdisk.clients, "to be removed");
        vdisk.removal = Some(Removal { id, answer });
        self.vdisks.removing.push_back((clock::now() + DRAIN, stream));
        self.refuse_queued(stream);
        for client in self.clients_of(stream) {
            if let Some(carried) = &mut self.carried {
                carried.say(client, ToCarrier::Remove(client));
                continue;
            }
            let connection = &mut self.clients[client as usize];
            connection.close();
            if connection.cut_short(BlockError::Removed) {
                self.lose(client);
            }
            self.touch(client);
        }
        self.remove_if_unused(stream);
    }

    /// Refuses what a virtual disk's clients have asked for and the device has not begun.
    fn refuse_queued(&mut self, stream: StreamId) {
        let waits = |(key, operation): (usize, &Operation)| {
            let client = operation.client().filter(|_| operation.vdisk == stream.0)?;
            (!operation.begun).then(|| (name(key), client))
        };
        for (key, client) in self.operations.iter().filter_map(waits).collect::<Vec<_>>() {
            let operation = &self.operations[key as usize];
            if operation.arrived {
                let cancelled = self.engine.handle_cancel(clock::now(), RequestId(key));
                assert_ne!(cancelled, Cancel::InFlight, "the device has not begun it");
            } else if let Some(connection) = self.clients.get_mut(client as usize) {
                connection.writing = None;
            }
            self.answer(key, Err(BlockError::Removed));
        }
    }

    fn clients_of(&self, stream: StreamId) -> Vec<u32> {
        if let Some(carried) = &self.carried {
            return carried.clients_of(stream);
        }
        let of_it = self.clients.iter().filter(|(_, connection)| connection.vdisk == stream.0);
        of_it.map(|(key, _)| name(key)).collect()
    }

    /// Lets those go that hold up a removal for too long: clients that don't read their replies, or
    /// whose requests wait for a device that is slow.
    pub(super) fn end_removals(&mut self) {
        let now = self.turns.now;
        while let Some((_, stream)) = self.vdisks.removing.pop_front_if(|(until, _)| *until <= now)
        {
            let clients = self.clients_of(stream);
            let vdisk = self.vdisks[stream.0 as usize].name.as_str();
            tracing::warn!(vdisk, clients = clients.len(), "its last clients are hung up on");
            clients.into_iter().for_each(|client| self.lose(client));
        }
    }

    /// The removal of a virtual disk is over if its last client is gone, and all its requests with it.
    pub(super) fn remove_if_unused(&mut self, stream: StreamId) {
        let vdisk = &self.vdisks[stream.0 as usize];
        let flushes = self.engine.stream(stream).is_some_and(|view| view.in_flight() > 0);
        if vdisk.clients > 0 || vdisk.removal.is_none() || flushes {
            return;
        }
        // Charges and log lines that are still open belong to the old virtual disk: the next may
        // have its number.
        self.charge_own_time();
        if let Err(error) = self.engine.handle_change(clock::now(), Change::RemoveStream(stream)) {
            let error = self.vdisks.refused(error, None);
            let vdisk = &self.vdisks[stream.0 as usize];
            let text = "it can't be removed: its stream stays taken";
            tracing::error!(vdisk = vdisk.name, %error, "{text}");
            if let Some(Removal { answer, .. }) = &vdisk.removal {
                tell(answer, Err(error));
            }
            return;
        }
        self.tell_events();
        self.device.back_end.remove_disk(stream.0);
        self.device.flushes.remove(stream.0);
        if let Some(depths) = &mut self.depths {
            depths.remove(stream);
        }
        tracing::info!(vdisk = self.vdisks[stream.0 as usize].name, "removed");
        let removal = self.vdisks.remove(stream);
        if let Some(Removal { answer, .. }) = removal {
            tell(&answer, Ok(()));
        }
    }
}

pub(super) fn tell(answer: &Answer, outcome: Result<(), VdiskError>) {
    if answer.try_send(outcome).is_err() {
        tracing::debug!("nobody waits for the outcome of a change");
    }
}
