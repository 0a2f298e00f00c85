//! The requests that wait for their replies.
//!
//! Does not know: sockets, time, what its users remember of a request.

use disktime_nbd::Pending;

/// A table of outstanding requests with what each user remembers of them.
///
/// A cookie is a place in the table and how often it was taken, so that finding a request is an
/// index and a cookie that was answered doesn't come again for 2^32 uses of its place.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    uses: u32,
    request: Option<(Pending, T)>,
}

impl<T> InFlight<T> {
    /// A table for up to `places` requests; it allocates here and never again.
    pub(crate) fn new(places: usize) -> Self {
        let count = u32::try_from(places).expect("tables are far below 2^32 places");
        Self {
            places: (0..count).map(|_| Place { uses: 0, request: None }).collect(),
            free: (0..count).rev().collect(),
        }
    }

    /// The cookie of a new request; `None` if the table is full.
    pub(crate) fn insert(&mut self, asked: Pending, remembered: T) -> Option<u64> {
        let index = self.free.pop()?;
        let place = &mut self.places[index as usize];
        place.uses = place.uses.wrapping_add(1);
        place.request = Some((asked, remembered));
        Some(u64::from(place.uses) << 32 | u64::from(index))
    }

    pub(crate) fn asked(&self, cookie: u64) -> Option<Pending> {
        let place = self.places.get(index_of(cookie)?)?;
        place.request.as_ref().filter(|_| place.uses == uses_of(cookie)).map(|(asked, _)| *asked)
    }

    pub(crate) fn get_mut(&mut self, cookie: u64) -> Option<(Pending, &mut T)> {
        let place = self.places.get_mut(index_of(cookie)?)?;
        if place.uses != uses_of(cookie) {
            return None;
        }
        place.request.as_mut().map(|(asked, remembered)| (*asked, remembered))
    }

    pub(crate) fn remove(&mut self, cookie: u64) -> Option<(Pending, T)> {
        let index = index_of(cookie)?;
        let place = self.places.get_mut(index)?;
        if place.uses != uses_of(cookie) {
            return None;
        }
        let request = place.request.take()?;
        self.free.push(u32::try_from(index).expect("an index came from the cookie's low half"));
        Some(request)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }
}

fn index_of(cookie: u64) -> Option<usize> {
    usize::try_from(cookie & u64::from(u32::MAX)).ok()
}

fn uses_of(cookie: u64) -> u32 {
    u32::try_from(cookie >> 32).expect("the high half of 64 bits has 32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use disktime_nbd::Command;

    const ASKED: Pending = Pending { command: Command::Read, offset: 4096, length: 512 };

    #[test]
    fn a_cookie_is_known_until_it_is_removed_and_never_again() {
        let mut table = InFlight::new(2);
        let first = table.insert(ASKED, 'a').unwrap();
        let second = table.insert(ASKED, 'b').unwrap();
        assert_ne!(first, second);
        assert!(table.is_full() && table.insert(ASKED, 'c').is_none());
        assert_eq!(table.asked(first), Some(ASKED));
        assert_eq!(table.remove(first), Some((ASKED, 'a')));
        assert_eq!((table.asked(first), table.remove(first)), (None, None));
        let third = table.insert(ASKED, 'd').unwrap();
        assert_ne!(third, first, "a place that is taken again has another cookie");
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get_mut(third), Some((ASKED, &mut 'd')));
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn cookies_that_were_never_given_are_unknown() {
        let mut table = InFlight::<()>::new(1);
        for cookie in [0, 1, u64::MAX, 1 << 32] {
            assert_eq!((table.asked(cookie), table.remove(cookie)), (None, None));
        }
    }
}
