//! An indexed 4-ary heap: smallest key first, ties by id, any entry's key can change.
//!
//! Each operation is O(log n). Ids are dense (streams), so positions are a plain table.

use alloc::vec::Vec;

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

/// Ids ordered by key.
#[derive(Clone, Debug)]
pub struct IndexedHeap<K> {
    entries: Vec<(K, u32)>,
    /// Where each id stands in `entries`, or [`ABSENT`].
    positions: Vec<u32>,
}

impl<K> Default for IndexedHeap<K> {
    fn default() -> Self {
        Self { entries: Vec::new(), positions: Vec::new() }
    }
}

impl<K: Ord + Copy> IndexedHeap<K> {
    /// The smallest key and its id.
    #[must_use]
    pub fn peek(&self) -> Option<(K, u32)> {
        self.entries.first().copied()
    }

    /// How many ids are in.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no id is in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts `id` in under `key`, or changes its key.
    pub fn set(&mut self, id: u32, key: K) {
        let slot = id as usize;
        if slot >= self.positions.len() {
            self.positions.resize(slot + 1, ABSENT);
        }
        let at = self.positions[slot];
        if at == ABSENT {
            self.entries.push((key, id));
            self.up(self.entries.len() - 1);
            return;
        }
        let at = at as usize;
        let old = core::mem::replace(&mut self.entries[at].0, key);
        if key < old {
            self.up(at);
        } else if key > old {
            self.down(at);
        }
    }

    /// Takes `id` out, if it is in.
    pub fn remove(&mut self, id: u32) {
        let Some(at) = self.positions.get(id as usize).copied().filter(|at| *at != ABSENT) else {
            return;
        };
        let at = at as usize;
        self.positions[id as usize] = ABSENT;
        let last = self.entries.pop().expect("an id that has a position has an entry");
        if at < self.entries.len() {
            self.place(at, last);
            self.up(at);
            self.down(at);
        }
    }

    fn place(&mut self, at: usize, entry: (K, u32)) {
        self.entries[at] = entry;
        self.positions[entry.1 as usize] = u32::try_from(at).expect("at most u32::MAX ids");
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
        fn agrees_with_an_ordered_set(steps in prop::collection::vec((0u32..40, 0u8..10, any::<bool>()), 1..400)) {
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
                prop_assert_eq!(heap.len(), oracle.len());
            }
        }
    }
}
