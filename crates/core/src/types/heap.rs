//! An indexed 4-ary heap: smallest key first, ties by id, any entry's key can change.
//!
//! Each operation is O(log n). Ids are dense (streams), so positions are a plain table.

use alloc::vec::Vec;

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

/// A key and its id in one number, so that one comparison orders both: the key in the upper bits.
type Entry = i128;

fn entry(key: i64, id: u32) -> Entry {
    (Entry::from(key) << 32) | Entry::from(id)
}

fn id_of(entry: Entry) -> u32 {
    u32::try_from(entry & Entry::from(u32::MAX)).expect("the lower 32 bits")
}

fn key_of(entry: Entry) -> i64 {
    i64::try_from(entry >> 32).expect("the upper bits hold an i64")
}

/// Ids ordered by key.
#[derive(Clone, Debug, Default)]
pub struct IndexedHeap {
    entries: Vec<Entry>,
    /// Where each id stands in `entries`, or [`ABSENT`].
    positions: Vec<u32>,
}

impl IndexedHeap {
    /// The smallest key and its id.
    #[must_use]
    #[inline]
    pub fn peek(&self) -> Option<(i64, u32)> {
        self.entries.first().map(|entry| (key_of(*entry), id_of(*entry)))
    }

    /// Ids whose keys are at most `most`, among roughly the `count` entries with the smallest keys.
    pub fn some(&self, count: usize, most: i64) -> impl Iterator<Item = u32> + '_ {
        let entries = self.entries.iter().take(count).copied();
        entries.filter(move |entry| key_of(*entry) <= most).map(id_of)
    }

    /// Whether no id is in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether `id` is in.
    #[must_use]
    #[inline]
    pub fn contains(&self, id: u32) -> bool {
        self.positions.get(id as usize).is_some_and(|at| *at != ABSENT)
    }

    /// Puts `id` in under `key`, or changes its key.
    pub fn set(&mut self, id: u32, key: i64) {
        let slot = id as usize;
        if slot >= self.positions.len() {
            self.positions.resize(slot + 1, ABSENT);
        }
        let at = self.positions[slot];
        if at == ABSENT {
            self.entries.push(entry(key, id));
            self.up(self.entries.len() - 1);
            return;
        }
        let at = at as usize;
        let new = entry(key, id);
        let old = core::mem::replace(&mut self.entries[at], new);
        if new < old {
            self.up(at);
        } else if new > old {
            self.down(at);
        }
    }

    /// Puts `id` in under that key, or takes it out for `None`.
    #[inline]
    pub fn put(&mut self, id: u32, key: Option<i64>) {
        match key {
            Some(key) => self.set(id, key),
            None => self.remove(id),
        }
    }

    /// Takes `id` out for `None`; puts it in if it is not; lowers its key if it is above. A key
    /// that is below is left: [`first`](Self::first) raises it when it matters.
    #[inline]
    pub fn lower(&mut self, id: u32, key: Option<i64>) {
        match (key, self.key(id)) {
            (None, Some(_)) => self.remove(id),
            (Some(key), old) if old.is_none_or(|old| key < old) => self.set(id, key),
            _ => {}
        }
    }

    /// The first id by its true key, if that is at most `most`. Keys may be too low, not too high:
    /// those that come first are raised to what `key_of` answers until one is true; ids that it
    /// does not know go.
    pub fn first(&mut self, key_of: impl Fn(u32) -> Option<i64>, most: i64) -> Option<u32> {
        loop {
            let (key, id) = self.peek().filter(|(key, _)| *key <= most)?;
            match key_of(id) {
                Some(truth) if truth == key => return Some(id),
                truth => self.put(id, truth),
            }
        }
    }

    fn key(&self, id: u32) -> Option<i64> {
        let at = self.positions.get(id as usize).copied().filter(|at| *at != ABSENT)?;
        Some(key_of(self.entries[at as usize]))
    }

    /// Takes `id` out, if it is in.
    #[inline]
    pub fn remove(&mut self, id: u32) {
        if self.contains(id) {
            self.take_out(id);
        }
    }

    fn take_out(&mut self, id: u32) {
        let at = core::mem::replace(&mut self.positions[id as usize], ABSENT) as usize;
        let last = self.entries.pop().expect("an id that has a position has an entry");
        if at < self.entries.len() {
            self.place(at, last);
            self.up(at);
            self.down(at);
        }
    }

    fn place(&mut self, at: usize, entry: Entry) {
        self.entries[at] = entry;
        self.positions[id_of(entry) as usize] = u32::try_from(at).expect("at most u32::MAX ids");
    }

    fn up(&mut self, mut at: usize) {
        let entry = self.entries[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.entries[parent] <= entry {
                break;
            }
            self.place(at, self.entries[parent]);
            at = parent;
        }
        self.place(at, entry);
    }

    fn down(&mut self, mut at: usize) {
        let entry = self.entries[at];
        loop {
            let first = at * ARITY + 1;
            let Some(children) = self.entries.get(first..) else { break };
            let (mut least, mut smallest) = (at, entry);
            for (child, candidate) in (first..first + ARITY).zip(children) {
                if *candidate < smallest {
                    (least, smallest) = (child, *candidate);
                }
            }
            if least == at {
                break;
            }
            self.place(at, smallest);
            at = least;
        }
        self.place(at, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_an_ordered_set(steps in prop::collection::vec((0u32..40, -5i64..5, any::<bool>()), 1..400)) {
            let mut heap = IndexedHeap::default();
            let (mut oracle, mut keys) = (BTreeSet::new(), BTreeMap::new());
            for (id, key, put) in steps {
                if let Some(old) = keys.remove(&id) {
                    oracle.remove(&(old, id));
                }
                if put {
                    keys.insert(id, key);
                    oracle.insert((key, id));
                    heap.set(id, key);
                } else {
                    heap.remove(id);
                }
                prop_assert_eq!(heap.peek(), oracle.first().copied());
                prop_assert_eq!(heap.entries.len(), oracle.len());
            }
        }
    }

    proptest! {
        #[test]
        fn lazy_keys_answer_as_true_ones(steps in prop::collection::vec((0u32..20, -50i64..50, any::<bool>()), 1..300)) {
            let (mut heap, mut truth) = (IndexedHeap::default(), BTreeMap::new());
            for (id, key, put) in steps {
                if put {
                    truth.insert(id, key);
                } else {
                    truth.remove(&id);
                }
                heap.lower(id, truth.get(&id).copied());
                let least = truth.iter().map(|(id, key)| (*key, *id)).min();
                let expected = least.filter(|(key, _)| *key <= 10).map(|(_, id)| id);
                prop_assert_eq!(heap.first(|id| truth.get(&id).copied(), 10), expected);
            }
        }
    }
}
