//! Requests that were asked and are not over, by id. The ids of those that are over are used again.

use disktime_core::{Request, RequestId};

#[derive(Default)]
pub(super) struct Asked {
    requests: Vec<Request>,
    free: Vec<u32>,
}

impl Asked {
    /// One more request, under a free id.
    pub(super) fn add(&mut self, request: impl FnOnce(RequestId) -> Request) -> Request {
        let next = || u32::try_from(self.requests.len()).expect("requests are bounded");
        let id = self.free.pop().unwrap_or_else(next);
        let request = request(RequestId(id));
        match self.requests.get_mut(id as usize) {
            Some(place) => *place = request,
            None => self.requests.push(request),
        }
        request
    }

    /// How many are not over.
    pub(super) fn outstanding(&self) -> usize {
        self.requests.len() - self.free.len()
    }

    pub(super) fn get(&self, RequestId(id): RequestId) -> Request {
        self.requests[id as usize]
    }

    /// A request is over.
    pub(super) fn remove(&mut self, id: RequestId) -> Request {
        self.free.push(id.0);
        self.get(id)
    }
}
