//! All streams of a device, by id.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use super::stream::Stream;
use crate::types::ids::StreamId;

/// An index by the id of a stream that does not exist panics: a stream outlives its requests, its pieces and
/// its place in every heap.
#[derive(Default)]
pub(crate) struct StreamTable(Vec<Option<Stream>>);

impl StreamTable {
    pub(crate) fn get(&self, id: StreamId) -> Option<&Stream> {
        self.0.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.0.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn insert(&mut self, stream: Stream) {
        let slot = stream.id.0 as usize;
        if slot >= self.0.len() {
            self.0.resize_with(slot + 1, || None);
        }
        self.0[slot] = Some(stream);
    }

    pub(crate) fn remove(&mut self, id: StreamId) -> Option<Stream> {
        self.0.get_mut(id.0 as usize)?.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.0.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.0.iter_mut().flatten()
    }

    /// Every id in use is below this.
    pub(crate) fn ids_end(&self) -> u32 {
        u32::try_from(self.0.len()).expect("ids are u32")
    }
}

impl Index<StreamId> for StreamTable {
    type Output = Stream;

    fn index(&self, id: StreamId) -> &Stream {
        self.get(id).expect("a stream outlives what names it")
    }
}

impl IndexMut<StreamId> for StreamTable {
    fn index_mut(&mut self, id: StreamId) -> &mut Stream {
        self.get_mut(id).expect("a stream outlives what names it")
    }
}
