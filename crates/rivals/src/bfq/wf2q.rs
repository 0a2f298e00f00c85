//! B-WF2Q+ (Valente & Checconi 2010, after Bennett & Zhang 1997): whose budget is next.
//!
//! Virtual time goes on by the service given, per weight of all that would be served at once. A
//! stream's turn has a start and a finish, its budget by weight apart; it starts where the last
//! one finished, or now if that is past. A stream whose start has come is not ahead of its part; among
//! these streams the earliest finish goes. Budgets are promises only: a turn that ends finishes where
//! its service puts it. Each operation is O(log n).

use alloc::vec::Vec;

use disktime_core::{StreamId, StreamOrder};

/// Virtual time: sectors by weight, times 2^22; 128 bits never overflow.
type Tag = u128;

fn scaled(sectors: u64) -> Tag {
    Tag::from(sectors) << 22
}

#[derive(Clone, Copy, Default)]
struct Entity {
    start: Tag,
    finish: Tag,
    /// In the sum of weights while it is not zero: from when it has work to when virtual time has
    /// come to its finish.
    weight: u32,
    /// Has work, or is being served.
    active: bool,
}

pub(super) struct Wf2q {
    entities: Vec<Entity>,
    /// Streams with work whose start is yet to come.
    ahead: StreamOrder<Tag>,
    /// The others with work, by finish.
    eligible: StreamOrder<Tag>,
    /// Streams without work whose finish is yet to come.
    retired: StreamOrder<Tag>,
    virtual_time: Tag,
    /// The sum of the weights of all streams that are active or retired.
    weights: u64,
}

impl Wf2q {
    pub(super) fn new() -> Self {
        Self {
            entities: Vec::new(),
            ahead: StreamOrder::default(),
            eligible: StreamOrder::default(),
            retired: StreamOrder::default(),
            virtual_time: 0,
            weights: 0,
        }
    }

    fn entity(&mut self, id: StreamId) -> &mut Entity {
        let slot = id.0 as usize;
        if slot >= self.entities.len() {
            self.entities.resize(slot + 1, Entity::default());
        }
        &mut self.entities[slot]
    }

    /// Whether no stream waits for a turn.
    pub(super) fn is_empty(&self) -> bool {
        self.ahead.is_empty() && self.eligible.is_empty()
    }

    /// Whether a stream has work, or is being served.
    pub(super) fn is_active(&mut self, id: StreamId) -> bool {
        self.entity(id).active
    }

    /// A stream has work: it waits for a turn with that budget, in sectors.
    pub(super) fn join(&mut self, id: StreamId, weight: u32, budget: u64) {
        self.forget(id);
        let now = self.virtual_time;
        let start = self.entity(id).finish.max(now);
        let finish = start + scaled(budget) / Tag::from(weight);
        *self.entity(id) = Entity { start, finish, weight, active: true };
        self.weights += u64::from(weight);
        if start <= now {
            self.eligible.set(id, Some(finish));
        } else {
            self.ahead.set(id, Some(start));
        }
    }

    /// A stream that waited has no more requests; it has used nothing of its budget.
    pub(super) fn withdraw(&mut self, id: StreamId) {
        let start = self.entity(id).start;
        self.retire(id, start);
    }

    /// A stream goes for good.
    pub(super) fn remove(&mut self, id: StreamId) {
        self.withdraw(id);
        self.forget(id);
        *self.entity(id) = Entity::default();
    }

    /// The stream whose turn is next, if any waits; it does not wait any more.
    pub(super) fn next(&mut self) -> Option<StreamId> {
        if let Some((start, _)) = self.ahead.first().filter(|_| self.eligible.is_empty()) {
            self.virtual_time = self.virtual_time.max(start);
            self.forget_finished();
        }
        while let Some((_, id)) = self.ahead.first().filter(|(at, _)| *at <= self.virtual_time) {
            self.ahead.set(id, None);
            let finish = self.entity(id).finish;
            self.eligible.set(id, Some(finish));
        }
        let (_, id) = self.eligible.first()?;
        self.eligible.set(id, None);
        Some(id)
    }

    /// Virtual time goes on by service per weight: rounded up, and finishes down, so that a stream
    /// is never held up by a fraction.
    pub(super) fn serve(&mut self, sectors: u64) {
        let weights = Tag::from(self.weights.max(1));
        self.virtual_time += scaled(sectors).div_ceil(weights);
        self.forget_finished();
    }

    /// A turn is over, in which the stream was served so much.
    pub(super) fn finish(&mut self, id: StreamId, served: u64) {
        let Entity { start, weight, .. } = *self.entity(id);
        self.retire(id, start + scaled(served) / Tag::from(weight.max(1)));
    }

    /// A stream is not active any more. Its weight counts until its finish: so long it would be
    /// served if all were at once.
    fn retire(&mut self, id: StreamId, finish: Tag) {
        self.ahead.set(id, None);
        self.eligible.set(id, None);
        let entity = self.entity(id);
        (entity.active, entity.finish) = (false, finish);
        self.retired.set(id, Some(finish));
        self.forget_finished();
    }

    fn forget_finished(&mut self) {
        let now = self.virtual_time;
        while let Some((_, id)) = self.retired.first().filter(|(at, _)| *at <= now) {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: StreamId) {
        self.retired.set(id, None);
        let weight = core::mem::take(&mut self.entity(id).weight);
        self.weights -= u64::from(weight);
    }
}
