//! A table of values by stream.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use super::ids::StreamId;

/// Values by the ids of their streams, which are dense. An index by the id of a stream that has none panics: a
/// stream outlives its requests, its pieces and its place in every heap.
#[derive(Debug)]
pub(crate) struct ByStream<T>(Vec<Option<T>>);

impl<T> Default for ByStream<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByStream<T> {
    pub(crate) fn get(&self, id: StreamId) -> Option<&T> {
        self.0.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut T> {
        self.0.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn get_or_insert_with(&mut self, id: StreamId, new: impl FnOnce() -> T) -> &mut T {
        if id.0 as usize >= self.0.len() {
            self.make_room(id);
        }
        self.0[id.0 as usize].get_or_insert_with(new)
    }

    #[cold]
    fn make_room(&mut self, id: StreamId) {
        self.0.resize_with(id.0 as usize + 1, || None);
    }

    pub(crate) fn remove(&mut self, id: StreamId) -> Option<T> {
        self.0.get_mut(id.0 as usize)?.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }

    /// Every id in use is below this.
    pub(crate) fn ids_end(&self) -> u32 {
        u32::try_from(self.0.len()).expect("ids are u32")
    }
}

impl<T> Index<StreamId> for ByStream<T> {
    type Output = T;

    fn index(&self, id: StreamId) -> &T {
        self.get(id).expect("a stream outlives what names it")
    }
}

impl<T> IndexMut<StreamId> for ByStream<T> {
    fn index_mut(&mut self, id: StreamId) -> &mut T {
        self.get_mut(id).expect("a stream outlives what names it")
    }
}
