//! Where each unit of a flash drive lies: the map, the lines, and which line is collected.
//!
//! A line is a block of every die; its pages go round over the dies. The host and the collection
//! each fill a line of their own.
//!
//! Does not know: time.

use super::{FlashSpec, Page};
use std::collections::VecDeque;

/// A place in the maps that nothing is at. Entries are one more than what they mean, so that fresh
/// memory, which the system gives zeroed and only once touched, means nothing.
const NOWHERE: u32 = 0;

/// With no more free lines than this, a victim is collected.
const FREE_LOW: usize = 2;

/// Lines of a drive: its spare, and beside that the two open lines, and what the collection keeps free.
fn lines(spec: &FlashSpec) -> u64 {
    let units = spec.capacity_bytes / spec.page.unit_bytes;
    let with_spare = units + units * u64::from(spec.spare_permille) / 1000;
    with_spare.div_ceil(spec.pages_per_line() * (spec.page.bytes / spec.page.unit_bytes))
        + 2
        + FREE_LOW as u64
}

/// Whether collecting a line always frees a page. The last page of its copies may stay nearly empty, so the
/// emptiest line must lack a page, of all that are full when collection is urgent: all but the two open ones and
/// a free one.
pub(super) fn always_frees(spec: &FlashSpec) -> bool {
    let units = spec.capacity_bytes / spec.page.unit_bytes;
    let units_per_page = spec.page.bytes / spec.page.unit_bytes;
    (lines(spec) - 3) * (spec.pages_per_line() - 1) * units_per_page >= units
}

/// A line being filled.
#[derive(Clone, Copy, Debug)]
struct Open {
    line: u32,
    /// The next unit of it to fill.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Victim {
    line: u32,
    /// The next unit to look at.
    next: u32,
    /// Valid units at the beginning.
    valid: u32,
}

#[derive(Debug)]
pub(super) struct Map {
    dies: u64,
    units_per_page: u32,
    units_per_line: u32,
    /// Place of each unit, by unit; and unit at each place. One more than that, see [`NOWHERE`].
    place_of: Vec<u32>,
    unit_at: Vec<u32>,
    /// Valid units of each line.
    valid: Vec<u32>,
    /// Lines full of what was written, from which victims are taken.
    is_full: Vec<bool>,
    free: VecDeque<u32>,
    host: Open,
    copies: Open,
    victim: Option<Victim>,
    pub(super) host_pages: u64,
    pub(super) copied_pages: u64,
}

impl Map {
    /// At least the spare that the spec asks for, and the lines that the map itself needs open.
    pub(super) fn new(spec: &FlashSpec) -> Self {
        let dies = u64::from(spec.channels) * u64::from(spec.dies_per_channel);
        let Page { bytes, per_block, unit_bytes } = spec.page;
        let units = spec.capacity_bytes / unit_bytes;
        assert!(units > 0 && spec.capacity_bytes.is_multiple_of(unit_bytes), "{spec:?}");
        let units_per_page = bytes / unit_bytes;
        let units_per_line = units_per_page * u64::from(per_block) * dies;
        let lines = lines(spec);
        let narrow = |value: u64| u32::try_from(value).expect("a map of below 2^32 units, 16 TiB");
        let places = narrow(lines * units_per_line);
        let lines = narrow(lines);
        Self {
            dies,
            units_per_page: narrow(units_per_page),
            units_per_line: narrow(units_per_line),
            place_of: vec![NOWHERE; narrow(units) as usize],
            unit_at: vec![NOWHERE; places as usize],
            valid: vec![0; lines as usize],
            is_full: vec![false; lines as usize],
            free: (2..lines).collect(),
            host: Open { line: 0, next: 0 },
            copies: Open { line: 1, next: 0 },
            victim: None,
            host_pages: 0,
            copied_pages: 0,
        }
    }

    pub(super) fn amplification_permille(&self) -> u64 {
        match self.host_pages {
            0 => 1000,
            host => 1000 + self.copied_pages * 1000 / host,
        }
    }

    /// The page that a unit is on, or would be on.
    pub(super) fn page_of(&self, unit: u64) -> u64 {
        let index = usize::try_from(unit).expect("units are below 2^32");
        let place = match self.place_of[index] {
            NOWHERE => unit,
            place => u64::from(place - 1),
        };
        place / u64::from(self.units_per_page)
    }

    /// The page that a unit is on, if it was ever written.
    pub(super) fn written_page_of(&self, unit: u64) -> Option<u64> {
        let index = usize::try_from(unit).expect("units are below 2^32");
        let place = self.place_of[index].checked_sub(1)?;
        Some(u64::from(place / self.units_per_page))
    }

    pub(super) fn die_of(&self, page: u64) -> usize {
        usize::try_from(page % self.dies).expect("below the number of dies")
    }

    /// Puts a unit of the host's into its page.
    pub(super) fn write(&mut self, unit: u64) {
        let unit = u32::try_from(unit).expect("units are below 2^32");
        self.forget(unit);
        self.put(unit, self.host);
        self.host.next += 1;
    }

    pub(super) fn trim(&mut self, unit: u64) {
        self.forget(u32::try_from(unit).expect("units are below 2^32"));
    }

    /// Closes the host's page, full or not: its number.
    pub(super) fn finish_page(&mut self) -> u64 {
        self.host_pages += 1;
        let (page, host) = self.finish(self.host);
        self.host = host;
        page
    }

    /// Closes the copies' page, full or not: its number.
    pub(super) fn finish_copy(&mut self) -> u64 {
        self.copied_pages += 1;
        let (page, copies) = self.finish(self.copies);
        self.copies = copies;
        page
    }

    pub(super) fn is_collecting(&self) -> bool {
        self.victim.is_some()
    }

    /// Pages to copy for each page of the host's while a line is collected, so that it is free
    /// again when the host has filled as much as it frees: valid over invalid.
    pub(super) fn copies_per_page_permille(&self) -> u64 {
        let Some(Victim { valid, .. }) = self.victim else { return 0 };
        let invalid = u64::from(self.units_per_line - valid).max(1);
        // An empty victim is erased with the first page.
        (u64::from(valid) * 1000).div_ceil(invalid).max(1000)
    }

    /// Whether collection has fallen behind its pace, by what pages closed before they were full
    /// add up to, and has to go on before the host does.
    pub(super) fn is_urgent(&self) -> bool {
        self.free.len() < FREE_LOW
    }

    /// Moves the victim's next valid unit to the copies' page: the page that it was on.
    pub(super) fn copy_unit(&mut self) -> Option<u64> {
        let Victim { line, next, .. } = self.victim.as_mut()?;
        while *next < self.units_per_line {
            let place = *line * self.units_per_line + *next;
            *next += 1;
            if let Some(unit) = self.unit_at[place as usize].checked_sub(1) {
                self.forget(unit);
                self.put(unit, self.copies);
                self.copies.next += 1;
                return Some(u64::from(place / self.units_per_page));
            }
        }
        None
    }

    /// Frees the victim if nothing valid is left of it: whether it did.
    pub(super) fn reclaim(&mut self) -> bool {
        let Some(Victim { line, .. }) = self.victim else { return false };
        if self.valid[line as usize] > 0 {
            return false;
        }
        self.victim = None;
        self.is_full[line as usize] = false;
        self.free.push_back(line);
        true
    }

    fn finish(&mut self, open: Open) -> (u64, Open) {
        let filled = open.next.next_multiple_of(self.units_per_page);
        let last = open.line * self.units_per_line + filled - 1;
        let page = u64::from(last / self.units_per_page);
        if filled < self.units_per_line {
            return (page, Open { next: filled, ..open });
        }
        self.is_full[open.line as usize] = true;
        let line = self.free.pop_front().expect("collection keeps ahead of the writes");
        (page, Open { line, next: 0 })
    }

    /// The full line with the fewest valid units, if lines are running out and none is chosen.
    pub(super) fn choose_victim(&mut self) {
        if self.victim.is_some() || self.free.len() > FREE_LOW {
            return;
        }
        let full = (0..).zip(&self.is_full).filter(|(_, is_full)| **is_full);
        let fewest = full.map(|(line, _): (u32, _)| (self.valid[line as usize], line)).min();
        self.victim = fewest.map(|(valid, line)| Victim { line, next: 0, valid });
    }

    fn put(&mut self, unit: u32, open: Open) {
        let place = open.line * self.units_per_line + open.next;
        self.place_of[unit as usize] = place + 1;
        self.unit_at[place as usize] = unit + 1;
        self.valid[open.line as usize] += 1;
    }

    fn forget(&mut self, unit: u32) {
        if let Some(place) = self.place_of[unit as usize].checked_sub(1) {
            self.place_of[unit as usize] = NOWHERE;
            self.unit_at[place as usize] = NOWHERE;
            self.valid[(place / self.units_per_line) as usize] -= 1;
        }
    }
}
