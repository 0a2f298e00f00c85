//! Layouts: first fit, nobody on another's bytes, nobody moved.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn want(name: &str, size: u64, zone: Option<Side>) -> Wanted<'_> {
    Wanted { name, size, zone }
}

fn extent(name: &str, start: u64, size: u64) -> Extent {
    Extent { name: name.to_owned(), start, size, zone: None }
}

fn starts(layout: &[Extent]) -> Vec<(&str, u64)> {
    layout.iter().map(|extent| (extent.name.as_str(), extent.start / MIB)).collect()
}

#[test]
fn outer_ones_go_in_front_and_inner_ones_to_the_back() {
    let (outer, inner) = (Some(Side::Outer), Some(Side::Inner));
    let disks = [want("a", MIB, None), want("b", 2 * MIB, inner), want("c", 512, outer)];
    let layout = lay_out(10 * MIB + 4096, &[], &disks).unwrap();
    assert_eq!(starts(&layout), [("a", 0), ("c", 1), ("b", 8)]);
    let more = [disks[1], want("d", 512, inner), want("e", 6 * MIB, None), disks[0], disks[2]];
    let layout = lay_out(10 * MIB + 4096, &layout, &more[..2]).unwrap();
    assert_eq!(starts(&layout), [("a", 0), ("c", 1), ("b", 8), ("d", 10)]);
    let layout = lay_out(10 * MIB + 4096, &layout, &more).unwrap();
    assert_eq!(starts(&layout), [("a", 0), ("c", 1), ("e", 2), ("b", 8), ("d", 10)]);
}

/// Ten thousand virtual disks were placed by looking at all others for each: they lie where they did.
#[test]
fn a_first_layout_is_as_if_they_had_come_one_by_one() {
    let names: Vec<String> = (0..40).map(|at| format!("v{at}")).collect();
    let size = |at: usize| [512, MIB, MIB + 512, 3 * MIB][at % 4];
    let wanted: Vec<_> =
        names.iter().enumerate().map(|(at, name)| want(name, size(at), None)).collect();
    let mut one_by_one = Vec::new();
    for upto in 1..=wanted.len() {
        one_by_one = lay_out(100 * MIB, &one_by_one, &wanted[..upto]).unwrap();
    }
    assert_eq!(lay_out(100 * MIB, &[], &wanted).unwrap(), one_by_one);
    lay_out(60 * MIB, &[], &wanted).unwrap_err();
}

/// An extent could not become larger, whatever was free behind it.
#[test]
fn an_extent_grows_into_the_gap_behind_it() {
    let recorded = [extent("a", 0, MIB), extent("b", 4 * MIB, MIB)];
    let wanted = [want("a", 4 * MIB, None), want("b", 4 * MIB, None)];
    let layout = lay_out(8 * MIB, &recorded, &wanted).unwrap();
    assert_eq!(layout, [extent("a", 0, 4 * MIB), extent("b", 4 * MIB, 4 * MIB)]);
    // A new one is placed behind what has grown before it.
    let wanted = [want("a", 2 * MIB, None), want("c", MIB, None), want("b", MIB, None)];
    let layout = lay_out(8 * MIB, &recorded, &wanted).unwrap();
    assert_eq!(layout[1], extent("c", 2 * MIB, MIB));
}

#[test]
fn errors_say_what_would_fit_and_what_is_recorded() {
    let says = |recorded: &[Extent], wanted: Wanted<'_>| {
        lay_out(8 * MIB, recorded, &[wanted]).unwrap_err().to_string()
    };
    let old = [extent("old", 0, MIB), extent("gone", 6 * MIB, MIB)];
    let text = says(&old, want("new", 6 * MIB, None));
    assert!(text.contains("vdisk new needs 6291456 bytes in one piece"), "{text}");
    assert!(text.contains("the largest free extent has 5242880"), "{text}");
    assert!(text.contains("virtual disks that are gone (old, gone)"), "{text}");
    for size in [7 * MIB, 6 * MIB + 1, MIB - 512] {
        let text = says(&old, want("old", size, None));
        let range = "its extent has 1048576 and may grow to 6291456, not shrink";
        assert!(text.contains(&format!("vdisk old: size = {size} bytes: {range}")), "{text}");
    }
    let text = says(&old, want("old", MIB, Some(Side::Inner)));
    assert!(text.contains("its zone has changed"), "{text}");
    for (wrong, reason) in [
        ([extent("a", 0, 2 * MIB), extent("b", MIB, MIB)], "overlaps another"),
        ([extent("a", 0, MIB), extent("b", 8 * MIB, 1)], "is not within the device"),
        ([extent("a", 0, MIB), extent("b", u64::MAX, u64::MAX)], "is not within the device"),
        ([extent("a", 0, MIB), extent("b", MIB + 1, MIB)], "does not begin on a block"),
        ([extent("a", 0, MIB), extent("a", MIB, MIB)], "is there twice"),
    ] {
        let text = says(&wrong, want("c", 512, None));
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn a_record_comes_back_and_is_of_its_device() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    let beside = Record::of(&image, "disk", None);
    assert_eq!(beside.load().unwrap(), Recorded::default());
    let mut layout = vec![extent("a", 0, MIB), extent("b", 2 * MIB, 512)];
    layout[1].zone = Some(Side::Inner);
    let layout = Recorded { extents: layout, ..Recorded::default() };
    beside.save(&layout).unwrap();
    assert_eq!(beside.load().unwrap(), layout);
    assert!(directory.path().join("image.disktime").exists());
    let state = directory.path().join("state");
    let kept = Record::of(&image, "disk", Some(&state));
    kept.save(&layout).unwrap();
    assert_eq!(kept.load().unwrap(), layout);
    let other = Record::of(&directory.path().join("other"), "disk", Some(&state));
    let says = other.load().unwrap_err().to_string();
    assert!(says.contains("edit `path` there"), "{says}");
    // Nor does a later one take away that the fast tier has a map.
    beside.clone().mapped().save(&layout).unwrap();
    let tiers = Recorded { fast_tier: true, ..layout };
    assert_eq!(beside.load().unwrap(), tiers);
    beside.save(&tiers).unwrap();
    assert_eq!(beside.load().unwrap(), tiers);
    std::fs::write(directory.path().join("image.disktime"), "extents = 3").unwrap();
    let says = beside.load().unwrap_err().to_string();
    assert!(says.contains("unknown field `extents`"), "{says}");
    assert!(says.ends_with("may be served another one's data"), "{says}");
}

/// Where a record had lost its contents all virtual disks were placed anew: one was served another one's data.
#[test]
fn a_record_without_a_byte_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    for state in [None, Some(directory.path())] {
        let record = Record::of(&image, "disk", state);
        for text in ["", "\n"] {
            std::fs::write(record.path(), text).unwrap();
            let says = record.load().unwrap_err().to_string();
            assert!(says.contains("it is empty: mend it, or bring it back"), "{says}");
        }
        record.save(&Recorded::default()).unwrap();
        assert_eq!(record.load().unwrap(), Recorded::default(), "of no virtual disk");
    }
}

/// Tiers record their layout at each start. In a full state directory no start of them was possible, and a take-over
/// ended both daemons.
#[test]
fn a_record_that_says_so_already_is_not_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let record = Record::of(&directory.path().join("disk"), "d", None).mapped();
    let with = |extents: &[Extent]| Recorded { extents: extents.to_vec(), ..Recorded::default() };
    let (now, next) = (with(&[extent("a", 0, 4096)]), with(&[]));
    record.save(&now).unwrap();
    // Nothing can be written aside.
    std::fs::create_dir(directory.path().join("disk.disktime.new")).unwrap();
    record.save(&now).unwrap();
    assert!(record.save(&next).is_err());
}

/// A round of a server's life: which of ten virtual disks the configuration has.
fn rounds() -> impl Strategy<Value = Vec<Vec<(usize, u64, Option<bool>)>>> {
    let disk = (0..10usize, 1..4000u64, any::<Option<bool>>());
    prop::collection::vec(prop::collection::vec(disk, 1..6), 1..6)
}

proptest! {
    #[test]
    fn extents_do_not_overlap_or_move_and_the_first_gap_is_taken(rounds in rounds()) {
        const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let room = 24 * MIB;
        let mut recorded: Vec<Extent> = Vec::new();
        for round in rounds {
            for (name, units, inner) in round {
                let zone = inner.map(|inner| if inner { Side::Inner } else { Side::Outer });
                let known = recorded.iter().find(|extent| extent.name == NAMES[name]);
                let size = known.map_or(units * 1536, |known| known.size);
                let zone = known.map_or(zone, |known| known.zone);
                let before = recorded.clone();
                let Ok(after) = lay_out(room, &before, &[want(NAMES[name], size, zone)]) else {
                    continue;
                };
                prop_assert!(before.iter().all(|extent| after.contains(extent)));
                for pair in after.windows(2) {
                    prop_assert!(pair[0].end().unwrap() <= pair[1].start);
                }
                prop_assert!(after.last().unwrap().end().unwrap() <= room);
                let new = after.iter().find(|extent| !before.contains(extent));
                if let Some(new) = new.filter(|_| zone != Some(Side::Inner)) {
                    let free = |start: u64| {
                        let moved = Extent { start, ..new.clone() };
                        before.iter().all(|other| {
                            moved.end().unwrap() <= other.start || other.end().unwrap() <= start
                        })
                    };
                    prop_assert!((0..new.start / MIB).all(|step| !free(step * MIB)));
                }
                recorded = after;
            }
        }
    }
}

/// A start read a file of 100 GB that lay where its record should be.
#[test]
fn a_record_that_is_far_too_long_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let record = Record::of(&directory.path().join("image"), "d", None);
    std::fs::File::create(record.path()).unwrap().set_len(100 << 30).unwrap();
    let said = record.load().unwrap_err().to_string();
    assert!(said.contains("it has 107374182400 bytes"), "{said}");
}
