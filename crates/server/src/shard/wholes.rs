//! Requests of several parts: where these come together again for one answer.
//!
//! A read that is answered in chunks sends each part's data when it is there. A read with a simple
//! reply keeps them until all are there, because once its header has left nothing can tell the client of
//! an error but the end of its connection. If its connection may not hold as much, those that are there
//! go ahead, in their order.

use std::collections::BTreeMap;

use disktime_nbd::NbdError;

use super::{Shard, Work};
use crate::frontend::nbd::{Asked, Connection, State};
use crate::ring::Payload;

/// A request of several parts.
pub(super) struct Whole {
    asked: Asked,
    /// Bytes that were issued, and those of parts that are over.
    issued: u32,
    over: u32,
    /// Its client is gone: no more is issued.
    cut_short: bool,
    /// The first error of a part.
    error: Option<(NbdError, String)>,
    /// Its data leave in their order.
    alone: bool,
    /// Bytes of data that were sent.
    sent: u32,
    /// Data that wait for those before them, by their place in the request.
    kept: BTreeMap<u32, Payload>,
}

impl Whole {
    pub(super) fn new(asked: Asked, alone: bool) -> Self {
        Self {
            asked,
            issued: 0,
            over: 0,
            cut_short: false,
            error: None,
            alone,
            sent: 0,
            kept: BTreeMap::new(),
        }
    }

    /// A part of so many bytes is under way.
    pub(super) fn issue(&mut self, bytes: u32) {
        self.issued += bytes;
    }

    /// Whether a part of so many bytes that is under way is the last of it.
    pub(super) fn is_last(&self, bytes: u32) -> bool {
        self.over + bytes == self.asked.checked.length
    }

    /// Sends what is there and next in order.
    fn send_kept(&mut self, connection: &mut Connection) {
        while let Some(data) = self.kept.remove(&self.sent) {
            let (first, offset) = (self.sent == 0, self.asked.checked.offset);
            let offset = offset + u64::from(self.sent);
            self.sent += u32::try_from(data.1.len()).expect("within a request");
            connection.data(&self.asked, offset, data, [first, false]);
        }
    }

    /// Whether no part is under way and none will come.
    fn is_over(&self) -> bool {
        let all = self.cut_short || self.issued == self.asked.checked.length;
        all && self.over == self.issued
    }
}

impl Shard {
    /// A part of a request of several is over.
    pub(super) fn part_over(
        &mut self,
        whole: u32,
        work: &Work,
        result: Result<Option<Payload>, (NbdError, &str)>,
    ) {
        let key = whole as usize;
        let whole = &mut self.wholes[key];
        let connection = &mut self.clients[work.client as usize];
        whole.over += work.bytes;
        let dead = connection.state == State::Dead;
        let broken = whole.error.is_some();
        match result {
            Ok(Some(data)) if !dead && !broken && whole.alone => {
                connection.keep();
                let at = work.offset - whole.asked.checked.offset;
                whole.kept.insert(u32::try_from(at).expect("within a request"), data);
            }
            Ok(Some(data)) if !dead && !broken => {
                connection.keep();
                let last = whole.is_over();
                whole.sent += work.bytes;
                connection.data(&whole.asked, work.offset, data, [false, last]);
            }
            Ok(_) => connection.forget(work.memory),
            Err((error, message)) => {
                connection.forget(work.memory);
                whole.error.get_or_insert_with(|| (error, message.to_owned()));
            }
        }
        if whole.error.is_some() {
            while let Some((_, data)) = whole.kept.pop_first() {
                connection.discard(&data);
            }
        }
        if self.wholes[key].is_over() {
            self.whole_over(key, work.client);
        }
    }

    /// Has what is there of a read with a simple reply go ahead.
    pub(super) fn send_kept(&mut self, whole: u32, client: u32) {
        let whole = &mut self.wholes[whole as usize];
        whole.send_kept(&mut self.clients[client as usize]);
    }

    /// All parts of a request are over.
    fn whole_over(&mut self, key: usize, client: u32) {
        let mut whole = self.wholes.remove(key);
        let connection = &mut self.clients[client as usize];
        if connection.state == State::Dead {
            whole.kept.values().for_each(|data| connection.discard(data));
            return;
        }
        connection.end_alone();
        whole.send_kept(connection);
        let length = whole.asked.checked.length;
        match &whole.error {
            None if whole.sent == length => {}
            None => connection.finish(&whole.asked, Ok(())),
            Some(_) if whole.alone && whole.sent > 0 => {
                tracing::debug!("a read failed after its simple reply had begun: hanging up");
                self.lose(client);
            }
            Some((error, message)) => {
                connection.finish(&whole.asked, Err((*error, message)));
            }
        }
    }

    /// No more of a request is issued: its client is gone.
    pub(super) fn cut_short(&mut self, whole: u32, client: u32) {
        let key = whole as usize;
        self.wholes[key].cut_short = true;
        if self.wholes[key].is_over() {
            self.whole_over(key, client);
        }
    }
}
