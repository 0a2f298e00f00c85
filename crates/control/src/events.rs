//! The last events, by number, for readers that come and go: a reader that is too slow misses events
//! and is told so, and holds up nobody.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use disktime_api::Event;
use disktime_server::clock::wall_ms;
use tokio::sync::watch;

/// Every kind of event, and what it tells: for the manual's reference page.
pub const KINDS: &[(&str, &str)] = &[
    ("created", "a device or virtual disk was made, by the one named"),
    ("changed", "the contract or size of a virtual disk was changed, from and to what"),
    ("renamed", "a virtual disk got another name: `text` has both"),
    ("snapshot", "a virtual disk was made with the data of another one: `text` has both"),
    ("deleted", "a device or virtual disk was removed; a virtual disk's data are given up"),
    ("promise-broken", "a virtual disk was behind its reservation by longer than its bound"),
    ("gap", "the reader was slow, or came late: so many events are no longer kept"),
];

/// Events that are kept.
pub const EVENTS_MAX: usize = 4096;

/// The longest text of an event in bytes; the rest is cut off. A contract with the longest description
/// fits in twice, and all events take at most 16 MiB.
const TEXT_MAX: usize = 4 << 10;

/// The end of a text that was cut off.
const CUT: &str = " …";

/// Events that `GET /v1/events/kept` answers at once: some 2 MiB at most.
pub const ANSWER_MAX: usize = 512;

/// The last second of all devices as text, for those that follow; nothing before the first one.
pub type Second = Option<Arc<str>>;

/// The events of a daemon.
pub struct Events {
    kept: Mutex<Kept>,
    last: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<Event>,
    last: u64,
}

impl Default for Events {
    fn default() -> Self {
        Self { kept: Mutex::default(), last: watch::Sender::new(0) }
    }
}

impl Events {
    /// Something happened to a device or virtual disk, by somebody or of itself.
    pub fn add(&self, kind: &str, (what, name): (&str, &str), (mut text, by): (String, &str)) {
        debug_assert!(KINDS.iter().any(|(known, _)| *known == kind), "{kind} is a kind of event");
        if text.len() > TEXT_MAX {
            text.truncate(text.floor_char_boundary(TEXT_MAX - CUT.len()));
            text.push_str(CUT);
            text.shrink_to_fit();
        }
        let mut kept = self.kept();
        kept.last += 1;
        let (id, at_ms) = (kept.last, wall_ms());
        let (kind, what, name) = (kind.to_owned(), what.to_owned(), name.to_owned());
        let by = by.to_owned();
        if kept.events.len() == EVENTS_MAX {
            kept.events.pop_front();
        }
        kept.events.push_back(Event { id, at_ms, kind, what, name, text, by });
        self.last.send_replace(id);
    }

    /// Events after a number, at most so many; the first one says how many are missing, if some are.
    pub fn after(&self, number: u64, most: usize) -> Vec<Event> {
        let kept = self.kept();
        let first = kept.events.front().map_or(kept.last + 1, |event| event.id);
        // A number of another daemon, which may be above all of this one.
        let number = if number > kept.last { 0 } else { number };
        let missing = first.saturating_sub(number + 1);
        let gap = (missing > 0).then(|| Event {
            id: first - 1,
            at_ms: wall_ms(),
            kind: "gap".to_owned(),
            what: "events".to_owned(),
            name: String::new(),
            text: format!("{missing} events are no longer kept"),
            by: String::new(),
        });
        let after = kept.events.iter().filter(|event| event.id > number).cloned();
        gap.into_iter().chain(after).take(most).collect()
    }

    /// The number of the last event.
    pub fn last(&self) -> u64 {
        self.kept().last
    }

    /// Changes with each event.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(events: &[Event]) -> Vec<u64> {
        events.iter().map(|event| event.id).collect()
    }

    #[test]
    fn a_reader_goes_on_after_the_last_event_that_it_saw() {
        let events = Events::default();
        (0..5).for_each(|_| events.add("changed", ("vdisk", "db"), (String::new(), "")));
        assert_eq!(ids(&events.after(0, 10)), [1, 2, 3, 4, 5]);
        assert_eq!(ids(&events.after(3, 10)), [4, 5]);
        assert_eq!(ids(&events.after(5, 10)), [0; 0]);
        assert_eq!(ids(&events.after(900, 10)).len(), 5, "a number of another daemon");
    }

    /// The page heard of no virtual disk that got another name.
    #[test]
    fn the_page_listens_for_every_kind() {
        let page = include_str!("../web/api.js");
        let kinds = page.lines().find(|line| line.starts_with("const KINDS")).unwrap();
        let unheard = KINDS.iter().find(|(kind, _)| !kinds.contains(&format!("\"{kind}\"")));
        assert_eq!(unheard, None);
    }

    /// Changes with 60,000 zeros in each value made the daemon grow by half a gigabyte.
    #[test]
    fn a_long_text_is_cut_off() {
        let events = Events::default();
        events.add("changed", ("vdisk", "db"), ("ä".repeat(TEXT_MAX), ""));
        events.add("changed", ("vdisk", "db"), ("a".repeat(TEXT_MAX), ""));
        let texts: Vec<_> = events.after(0, 2).into_iter().map(|event| event.text).collect();
        assert_eq!((texts[0].ends_with("ä …"), texts[0].len()), (true, TEXT_MAX));
        assert!(texts[0].capacity() <= TEXT_MAX);
        assert_eq!(texts[1], "a".repeat(TEXT_MAX));
    }

    #[test]
    fn a_slow_reader_is_told_what_it_missed() {
        let events = Events::default();
        for _ in 0..EVENTS_MAX + 7 {
            events.add("changed", ("vdisk", "db"), (String::new(), ""));
        }
        let heard = events.after(2, usize::MAX);
        assert_eq!((heard[0].kind.as_str(), heard[0].id), ("gap", 7));
        assert!(heard[0].text.starts_with("5 events"), "{}", heard[0].text);
        assert_eq!((heard[1].id, heard.len()), (8, EVENTS_MAX + 1));
    }
}
