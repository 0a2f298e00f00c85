//! Streams in the order of any key that can be compared.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::ids::StreamId;

/// Streams in the order of a key that may change, ties by id; each operation is O(log n).
#[derive(Clone, Debug, Default)]
pub struct StreamOrder<K> {
    streams: BTreeSet<(K, StreamId)>,
    /// The key of each stream that is in.
    keys: Vec<Option<K>>,
}

impl<K: Copy + Ord> StreamOrder<K> {
    /// Puts a stream in under that key, moves it there, or takes it out.
    pub fn set(&mut self, stream: StreamId, key: Option<K>) {
        let slot = stream.0 as usize;
        if slot >= self.keys.len() {
            self.keys.resize(slot + 1, None);
        }
        let old = core::mem::replace(&mut self.keys[slot], key);
        if old == key {
            return;
        }
        if let Some(old) = old {
            self.streams.remove(&(old, stream));
        }
        if let Some(key) = key {
            self.streams.insert((key, stream));
        }
    }

    /// The stream with the least key.
    #[must_use]
    pub fn first(&self) -> Option<(K, StreamId)> {
        self.streams.first().copied()
    }

    /// The first stream whose key is at least that.
    #[must_use]
    pub fn first_from(&self, key: K) -> Option<(K, StreamId)> {
        self.streams.range((key, StreamId(0))..).next().copied()
    }

    /// Whether that stream is in.
    #[must_use]
    pub fn contains(&self, stream: StreamId) -> bool {
        self.keys.get(stream.0 as usize).is_some_and(Option::is_some)
    }

    /// Whether no stream is in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }
}
