//! Entries of the map whose sync may have been told nothing.

use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::backend::OneFile;
use crate::buffers::Pool;
use crate::ring::Ring;

/// Tiers on a file system on which a sync makes an entry durable.
fn tiers(directory: &Path) -> Tiers {
    let [fast, slow] = ["fast", "slow"].map(|name| {
        let path = directory.join(name);
        std::fs::File::create(&path).unwrap().set_len(4 * EXTENT).unwrap();
        OneFile::open(&path).unwrap().expect("a file").into_parts().0
    });
    let plain = std::fs::File::options().read(true).write(true).open(directory.join("fast"));
    let shape = map::Shape::new(4 * EXTENT, 4 * EXTENT).unwrap();
    let map = Map::open(&plain.unwrap(), shape, &directory.join("slow")).unwrap();
    Tiers { fast_durable: false, ..Tiers::new(fast, slow, map, Some(0)) }
}

/// Tiers, and what their shard lends them.
struct Rig {
    ring: Ring,
    pool: Pool,
    tiers: Tiers,
    _directory: TempDir,
}

impl Rig {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pool = Pool::for_files();
        let ring = Ring::new(pool.arena()).unwrap();
        Self { ring, pool, tiers: tiers(directory.path()), _directory: directory }
    }

    fn parts(&mut self) -> (&mut Tiers, Io<'_>) {
        (&mut self.tiers, Io { ring: &mut self.ring, pool: &mut self.pool })
    }
}

/// The name of the operation under way that is so.
fn under(tiers: &Tiers, so: fn(&Under) -> bool) -> u32 {
    let (key, _) = tiers.under.iter().find(|(_, under)| so(under)).expect("it is under way");
    u32::try_from(key).unwrap()
}

/// Between an entry and its sync a client's flush was told that the device had lost what it held: the entry
/// counted, and its extent was written at a place that a restart would not have found.
#[test]
fn an_entry_counts_only_if_its_sync_was_told_everything() {
    for (client, counts) in [(0, true), (EIO, false)] {
        let mut rig = Rig::new();
        let (tiers, io) = &mut rig.parts();
        let slot = tiers.map.take().unwrap();
        tiers.migration = Some(Migration::new(2, slot, Tier::Fast));
        tiers.note(io);
        let entry = under(tiers, |it| matches!(it, Under::Entry(_)));
        tiers.heard(entry, (Keep::Nothing, i32::try_from(ALIGN).unwrap()), io);
        tiers.sync(7, 0, io);
        let flush = under(tiers, |it| matches!(it, Under::Sync(_)));
        tiers.heard(flush, (Keep::Nothing, client), io);
        let synced = under(tiers, |it| matches!(it, Under::EntrySync(_)));
        tiers.heard(synced, (Keep::Nothing, 0), io);
        assert_eq!(tiers.map.slot(2).is_some(), counts, "{client}");
        assert_eq!(tiers.unsure.is_none(), counts, "{client}");
        assert_eq!(tiers.lost(), !counts, "clients hear of it");
    }
}

/// Nothing noticed that the rule was gone: a write that was slower than the rest of the migration would land where
/// nobody reads any more.
#[test]
fn the_last_piece_waits_for_writes_that_are_under_way() {
    let mut rig = Rig::new();
    let (tiers, io) = &mut rig.parts();
    let slot = tiers.map.take().unwrap();
    tiers.migration = Some(Migration::new(2, slot, Tier::Fast));
    let data = (io.pool.take(ALIGN), 0..ALIGN);
    tiers.write(Name { job: 1, step: 0 }, 2 * EXTENT, data, false, io);
    assert_eq!(tiers.cache(3, 1, 2 * EXTENT..3 * EXTENT, io), 0, "a client's is no piece");
    tiers.cache(2, 0, 2 * EXTENT..3 * EXTENT, io);
    let phase = |tiers: &Tiers| tiers.migration.as_ref().expect("it is under way").phase.clone();
    assert_eq!(phase(tiers), Phase::Ready);
    let write = under(tiers, |it| matches!(it, Under::Extent { .. }));
    tiers.heard(write, (Keep::Nothing, i32::try_from(ALIGN).unwrap()), io);
    assert_eq!(phase(tiers), Phase::Reading(2 * EXTENT..3 * EXTENT));
}

/// The device may have lost the copy with the data of a write that failed, and tells that once.
#[test]
fn an_error_of_a_change_puts_the_copy_in_doubt() {
    let mut rig = Rig::new();
    let (tiers, io) = &mut rig.parts();
    let written = i32::try_from(ALIGN).unwrap();
    let results = [(false, EIO), (true, -libc::ENOSPC), (true, written), (true, EIO)];
    for (job, (writes, result)) in (0..).zip(results) {
        let (name, data) = (Name { job, step: 0 }, (io.pool.take(ALIGN), 0..ALIGN));
        if writes {
            tiers.write(name, 0, data, false, io);
        } else {
            tiers.read(name, 0, data, io);
        }
        let asked = under(tiers, |it| matches!(it, Under::Extent { .. }));
        tiers.heard(asked, (Keep::Nothing, result), io);
        assert_eq!(tiers.syncs.clients, (writes, result) == (true, EIO), "{writes}, {result}");
    }
}

/// A copy that came into doubt while it was made durable is made again, not entered.
#[test]
fn a_copy_in_doubt_is_not_entered() {
    let mut rig = Rig::new();
    let (tiers, io) = &mut rig.parts();
    let all = 2 * EXTENT..3 * EXTENT;
    let slot = tiers.map.take().unwrap();
    let mut migration = Migration::new(2, slot, Tier::Fast);
    migration.begin_piece(1, &all);
    assert_eq!(migration.next_run(), Some(all.clone()));
    migration.phase = Phase::Syncing;
    tiers.migration = Some(migration);
    tiers.doubt();
    tiers.stepped(Keep::Nothing, 0, io);
    let phase = tiers.migration.as_ref().map(|it| it.phase.clone());
    assert_eq!(phase, Some(Phase::Reading(all)));
}

/// The log and the page said a second.
#[test]
fn writes_wait_for_six_tenths_of_a_second_for_an_entry() {
    let pause = |tries| Unsure { extent: 0, slot: 0, moved: None, tries, written: false }.pause();
    assert_eq!((1..TRIES).map(pause).sum::<Duration>(), Duration::from_millis(630));
}

/// A slot was given back while an extent's reads from it were under way: the next extent came into it, and the
/// reads answered with that one's data.
#[test]
fn a_slot_is_given_back_once_its_last_read_has_ended() {
    let mut rig = Rig::new();
    let (tiers, io) = &mut rig.parts();
    let done = i32::try_from(ALIGN).unwrap();
    let slot = tiers.map.take().unwrap();
    tiers.map.put(slot, Some(2));
    while tiers.map.take().is_some() {}
    tiers.migration = Some(Migration::new(2, slot, Tier::Slow));
    tiers.note(io);
    let entry = under(tiers, |it| matches!(it, Under::Entry(_)));
    tiers.heard(entry, (Keep::Nothing, EIO), io);
    let read = |job, tiers: &mut Tiers, io: &mut Io<'_>| {
        let data = (io.pool.take(ALIGN), 0..ALIGN);
        tiers.read(Name { job, step: 0 }, 2 * EXTENT, data, io);
    };
    read(1, tiers, io);
    let slow = under(tiers, |it| matches!(it, Under::Extent { .. }));
    let pause = under(tiers, |it| matches!(it, Under::Pause));
    tiers.heard(pause, (Keep::Nothing, 0), io);
    let entry = under(tiers, |it| matches!(it, Under::Entry(_)));
    tiers.heard(entry, (Keep::Nothing, done), io);
    let synced = under(tiers, |it| matches!(it, Under::EntrySync(_)));
    tiers.heard(synced, (Keep::Nothing, 0), io);
    assert_eq!(tiers.map.take(), None, "it is read");
    read(2, tiers, io);
    assert_eq!(tiers.held.len(), 1, "others don't keep it");
    tiers.heard(slow, (Keep::Nothing, done), io);
    assert_eq!((tiers.map.slot(2), tiers.map.take()), (None, Some(slot)));
    assert!(tiers.unsure.is_none() && tiers.held.is_empty());
}
