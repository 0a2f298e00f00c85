//! Streams in the order of any key that can be compared.

use alloc::collections::BTreeSet;

use super::by_stream::ByStream;
use super::ids::StreamId;

/// Streams in the order of a key that may change, ties by id; each operation is O(log n).
#[derive(Debug, Default)]
pub struct StreamOrder<K> {
    streams: BTreeSet<(K, StreamId)>,
    /// The key of each stream that is in.
    keys: ByStream<K>,
}

impl<K: Copy + Ord> StreamOrder<K> {
    /// Puts a stream in under that key, moves it there, or takes it out.
    pub fn set(&mut self, stream: StreamId, key: Option<K>) {
        let old = self.keys.get(stream).copied();
        if old == key {
            return;
        }
        if let Some(old) = old {
            self.streams.remove(&(old, stream));
            self.keys.remove(stream);
        }
        if let Some(key) = key {
            self.streams.insert((key, stream));
            self.keys.get_or_insert_with(stream, || key);
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
        self.keys.get(stream).is_some()
    }

    /// Whether no stream is in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }
}
